"""A small library with three versions, whose source code was written for the tests."""

from __future__ import annotations

from collections.abc import Mapping

from edgetool.target.fingerprints import Fingerprints, Library, TreeFile, fingerprint

LIBRARY = Library("Small", "small.csv", "lib/micro", optional=("signal", "lib/micro/kernels/fast"))
CONV = """// The kernel.
#include "lib/micro/kernels/conv.h"

#if defined(CMSIS_NN)  // as its Makefile defines
int Prepare(int rows) {
  const char* name = "// no comment, /* nor this";  /* but
  this */ return rows * 4;
}
#endif
"""
ALLOCATOR = '#include <cstdint>\nint Allocate(int size) { return size + 16; }\nconst char kName[] = "it\'s";\n'
# By path, the contents in each version.
CONTENTS: Mapping[str, tuple[str | None, ...]] = {
    "lib/micro/allocator.cc": (ALLOCATOR, ALLOCATOR, ALLOCATOR.replace("16", "32")),
    "lib/micro/kernels/conv.cc": (CONV, CONV.replace("4", "8"), CONV.replace("4", "8")),
    "lib/micro/kernels/conv.h": ("int Prepare(int rows);\n",) * 3,
    "lib/micro/kernels/fast/conv.cc": ("int Fast();\n", "int Fast(int);\n", "int Fast(int);\n"),
    "lib/micro/kernels/decode.cc": (None, None, "int Decode();\n"),
    "lib/reference/conv.h": ("int Conv(int a);\n", "int Conv(int a, int b);\n", "int Conv(int a, int b);\n"),
    "signal/fft.cc": ("int Fft();\n", "int Fft();\n", "int Fft(int);\n"),
}
VERSIONS = ("v-2023-06", "v-2024-06", "v-2025-06")
KNOWN = Fingerprints(
    LIBRARY,
    VERSIONS,
    {
        path: tuple(None if text is None else fingerprint(text.encode()) for text in texts)
        for path, texts in CONTENTS.items()
    },
)


def checkout(version: str) -> dict[str, bytes]:
    """The files of a version, by path."""
    index = VERSIONS.index(version)
    return {path: text.encode() for path, texts in CONTENTS.items() if (text := texts[index]) is not None}


def tree_files(files: Mapping[str, bytes]) -> list[TreeFile]:
    return [TreeFile(path, fingerprint(content)) for path, content in files.items()]
