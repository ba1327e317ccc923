"""Kernels and generated models compile without a warning as C99 and as C++11, whatever the compiler and its level."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import edgetool
from tests.codegen.native.host import model_files
from tests.codegen.native.test_networks import cases, networks, supported, supported_types

KERNELS = Path(edgetool.__file__).parent / "codegen" / "native" / "c"
FLAGS = (
    "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wundef -Wcast-qual -Wmissing-declarations"
    " -Werror"
).split()
ARM = ("-mcpu=cortex-m0plus", "-mthumb")
COMPILERS = {
    ("gcc", "c99"): ("gcc", "-std=c99"),
    ("gcc", "c++11"): ("gcc", "-x", "c++", "-std=c++11"),
    ("clang", "c99"): ("clang", "-std=c99"),
    ("clang", "c++11"): ("clang", "-x", "c++", "-std=c++11"),
    ("arm", "c99"): ("arm-none-eabi-gcc", *ARM, "-std=c99"),
    ("arm", "c++11"): ("arm-none-eabi-gcc", *ARM, "-x", "c++", "-std=c++11"),
    ("riscv", "c99"): (
        *("riscv64-unknown-elf-gcc", "-march=rv32imc", "-mabi=ilp32", "--specs=picolibc.specs", "-std=c99"),
    ),
}
LEVELS = ("-O2", "-O3", "-Os")
MODELS = 12


def compile_all(folder: Path, key: tuple[str, str], level: str, sources: list[Path]) -> str:
    """Return what a compiler prints about the sources; skips the test if it is absent."""
    command = COMPILERS[key]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    includes = [f"-I{KERNELS}", f"-I{folder}"]
    done = subprocess.run(
        [*command, level, *FLAGS, *includes, "-c", *map(str, sources)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    if "string.h: No such file" in done.stderr or "cannot read spec file" in done.stderr:
        pytest.skip(f"{command[0]} has no C library")
    return done.stderr if done.returncode or done.stderr else ""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of random networks, single operators among them."""
    folder = tmp_path_factory.mktemp("models")
    drawn = supported(networks(40_000), MODELS, Counter())
    drawn |= supported(cases(supported_types()[::12], [0]), None, Counter())
    for number, trial in enumerate(drawn.values()):
        for name, data in model_files(f"m{number}", trial).items():
            (folder / name).write_bytes(data)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("key", COMPILERS, ids="-".join)
def test_kernels_compile_without_warnings(tmp_path: Path, key: tuple[str, str], level: str) -> None:
    assert compile_all(tmp_path, key, level, sorted(KERNELS.glob("*.c"))) == ""


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("key", COMPILERS, ids="-".join)
def test_models_compile_without_warnings(models: Path, key: tuple[str, str], level: str) -> None:
    assert compile_all(models, key, level, sorted(models.glob("*.c"))) == ""
