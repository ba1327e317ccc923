"""The compilers that the emitted files must please, with every warning an error."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

FLAGS = (
    "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wundef -Wcast-qual -Wmissing-declarations"
    " -Wdouble-promotion -Wfloat-conversion -Wfloat-equal -Wbidi-chars=any -Werror"
).split()
C_STANDARDS = ("c99", "c11", "c17", "c2x")
CPP_STANDARDS = ("c++11", "c++14", "c++17", "c++20")
COMPILERS = {
    "gcc": ("gcc",),
    "g++": ("g++", "-x", "c++"),
    "arm-none-eabi-gcc": ("arm-none-eabi-gcc", "-mcpu=cortex-m7", "-mthumb"),
    "arm-none-eabi-g++": ("arm-none-eabi-g++", "-x", "c++", "-mcpu=cortex-m7", "-mthumb"),
}
MATRIX = [
    *(("gcc", standard) for standard in C_STANDARDS),
    *(("g++", standard) for standard in CPP_STANDARDS),
    *(("arm-none-eabi-gcc", standard) for standard in C_STANDARDS),
    *(("arm-none-eabi-g++", standard) for standard in CPP_STANDARDS),
]
# For what is C++ alone.
CPP_MATRIX = [(compiler, standard) for compiler in ("g++", "arm-none-eabi-g++") for standard in CPP_STANDARDS]
OLDEST = (C_STANDARDS[0], CPP_STANDARDS[0])
# The part of TFLM's API that the emitted C++ uses, written for these tests.
TFLM_API = Path(__file__).parent / "tflm_api"


def over_compilers(matrix: list[tuple[str, str]]) -> pytest.MarkDecorator:
    """Run a test of two arguments, compiler and standard; only the oldest standards are quick tests."""
    cases = [pytest.param(*chosen, marks=() if chosen[1] in OLDEST else pytest.mark.slow) for chosen in matrix]
    return pytest.mark.parametrize(("compiler", "standard"), cases)


def compile_in(directory: Path, compiler: str, standard: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a compiler in a directory; skips the test when the machine lacks it."""
    command = COMPILERS[compiler]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run(
        [*command, f"-std={standard}", *FLAGS, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
