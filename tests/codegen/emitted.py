"""Every file of a program, written into a directory, and compiled against the API in tflm_api."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from edgetool.codegen import c_names
from edgetool.codegen.header import header, model_data
from edgetool.codegen.memories import linker_script, model_section
from edgetool.codegen.spec import ProgramSpec
from edgetool.codegen.tflm.runner import main_source, ops_header, runner_header, runner_source
from tests.codegen.c_compilers import TFLM_API, compile_in
from tests.codegen.header_specs import BLOB

# What the file of a shared arena declares, as far as a runner needs it.
ARENA_HEADER = """\
#ifndef JOINT_ARENA
#define JOINT_ARENA
namespace tflite {
class MicroAllocator;
}
tflite::MicroAllocator *joint_arena_allocator();
#endif
"""
ARENA_SOURCE = """\
#include "joint_arena.h"
#include "tensorflow/lite/micro/micro_allocator.h"

alignas(16) static unsigned char arena[64];

tflite::MicroAllocator *joint_arena_allocator()
{
    return tflite::MicroAllocator::Create(arena, sizeof(arena));
}
"""


def write(directory: Path, *programs: ProgramSpec) -> list[str]:
    """Write the files of these programs, without a main.cc; returns their names in C."""
    names = [c_names.model_identifier(spec.header.name) for spec in programs]
    for spec, name in zip(programs, names, strict=True):
        source, interface = model_data(spec.header.name, BLOB, model_section(spec.header.places))
        texts = {
            f"{name}.h": header(spec.header),
            f"{name}_model.c": source,
            f"{name}_model.h": interface,
            f"{name}_ops.h": ops_header(spec),
            f"{name}_runner.h": runner_header(spec),
            f"{name}_runner.cc": runner_source(spec),
        }
        if spec.header.places:
            texts[f"{name}_memories.ld"] = linker_script(spec.header.name, spec.header.tool_version, spec.header.places)
        for file, text in texts.items():
            (directory / file).write_text(text, encoding="ascii", newline="")
    if any(spec.shared_arena == "joint" for spec in programs):
        (directory / "joint_arena.h").write_text(ARENA_HEADER)
        (directory / "joint_arena.cc").write_text(ARENA_SOURCE)
    return names


def write_main(directory: Path, programs: Sequence[ProgramSpec]) -> None:
    (directory / "main.cc").write_text(main_source(programs), encoding="ascii", newline="")


def compile_cpp(
    directory: Path, source: str, *arguments: str, compiler: str = "g++", standard: str = "c++11"
) -> subprocess.CompletedProcess[str]:
    """Compile one file to an object of its name, TFLM's API taken as a system's."""
    output = ("-c", source, "-o", f"{Path(source).stem}.o")
    return compile_in(directory, compiler, standard, "-isystem", str(TFLM_API), *arguments, *output)


def build(directory: Path, names: Sequence[str], main: str, *arguments: str) -> Path:
    """A program of this main, the runners, their models and the fake TFLM."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    sources = [main, *(f"{name}_{part}" for name in names for part in ("runner.cc", "model.c"))]
    if (directory / "joint_arena.cc").exists():
        sources.append("joint_arena.cc")
    for source in sources:
        done = compile_cpp(directory, source, *arguments)
        assert (done.returncode, done.stderr) == (0, "")
    objects = [f"{Path(source).stem}.o" for source in sources]
    fake = ["-std=c++11", f"-I{TFLM_API}", str(TFLM_API / "fake.cc"), "-o", "program"]
    subprocess.run(["g++", *objects, *fake], cwd=directory, check=True, timeout=120)
    return directory / "program"
