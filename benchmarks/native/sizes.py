"""Flash and RAM of native programs, as a cross compiler builds them: code and tables, constants, and the arena."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.native.stack import COMPILERS

# Kernels may use these, and nothing else that they do not define themselves.
ALLOWED = frozenset({"memcpy", "memset", "memmove"})
COMPILER_HELPERS = ("__aeabi_", "__udiv", "__div", "__mul", "__mod", "__umod", "__ashl", "__lshr", "__ashr", "__gnu_")


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a program takes: code_bytes counts functions and tables, constants_bytes the arrays of NAME_weights.c.

    writable_bytes: .data and .bss, which must be 0. undefined: the external functions.
    """

    code_bytes: int
    constants_bytes: int
    writable_bytes: int
    undefined: frozenset[str]


def measure(name: str, files: Mapping[str, bytes], core: str, level: str) -> Sizes:
    """Compile the files of a program and return its sizes."""
    compiler, *flags = COMPILERS[core]
    prefix = compiler.removesuffix("gcc")
    with tempfile.TemporaryDirectory() as folder:
        for file, data in files.items():
            (Path(folder) / file).write_bytes(data)
        sources = [file for file in files if file.endswith(".c") and file not in ("main.c", "run.c")]
        command = [compiler, *flags, level, "-std=c99", "-ffunction-sections", "-fdata-sections", "-c", *sources]
        subprocess.run(command, check=True, cwd=folder)
        weights = f"{name}_weights.o"
        objects = [f"{Path(file).stem}.o" for file in sources]
        text = {item: _sections(prefix, Path(folder), item) for item in objects}
        defined, undefined = _symbols(prefix, Path(folder), objects)
    return Sizes(
        code_bytes=sum(size for item, (size, _) in text.items() if item != weights),
        constants_bytes=text[weights][0],
        writable_bytes=sum(size for _, size in text.values()),
        undefined=frozenset(undefined - defined),
    )


def _sections(prefix: str, folder: Path, item: str) -> tuple[int, int]:
    """Return the bytes in flash and in RAM of an object file."""
    output = subprocess.run([f"{prefix}size", item], cwd=folder, capture_output=True, text=True, check=True).stdout
    text, data, bss = map(int, output.splitlines()[1].split()[:3])
    return text + data, data + bss


def _symbols(prefix: str, folder: Path, objects: list[str]) -> tuple[set[str], set[str]]:
    """Return the defined and the undefined symbols of object files."""
    output = subprocess.run([f"{prefix}nm", *objects], cwd=folder, capture_output=True, text=True, check=True).stdout
    defined, undefined = set(), set()
    for line in output.splitlines():
        parts = line.split()
        if len(parts) == 2 and parts[0] == "U":
            undefined.add(parts[1])
        elif len(parts) == 3:
            defined.add(parts[2])
    return defined, undefined


def foreign(sizes: Sizes) -> frozenset[str]:
    """Return the external functions that generated code must not need."""
    return frozenset(name for name in sizes.undefined if name not in ALLOWED and not name.startswith(COMPILER_HELPERS))
