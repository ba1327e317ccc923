"""All kernels and generated models compile without a warning, with every compiler, level and language."""

from __future__ import annotations

import shutil
import subprocess
from itertools import product
from pathlib import Path
from random import Random

import pytest
from benchmarks.kernels.random_network import random_network

import edgetool
from edgetool.errors import UnsupportedModelError
from tests.codegen.native import host

KERNELS = Path(edgetool.__file__).parent / "codegen" / "native" / "c"
FLAGS = (
    "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wundef -Wcast-qual -Wmissing-declarations"
    " -Wdouble-promotion -Werror"
).split()
COMPILERS = {
    "gcc": ["gcc"],
    "clang": ["clang"],
    "arm-none-eabi-gcc": ["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb"],
    "riscv64-unknown-elf-gcc": [
        "riscv64-unknown-elf-gcc",
        "-march=rv32imc",
        "-mabi=ilp32",
        "--specs=picolibc.specs",
    ],
}
LANGUAGES = {"c99": ["-std=c99"], "c++11": ["-x", "c++", "-std=c++11"]}
LEVELS = ("-O2", "-O3", "-Os")
QUICK = {("gcc", "c99", "-O2"), ("arm-none-eabi-gcc", "c++11", "-Os")}
MATRIX = [
    pytest.param(*item, marks=() if item in QUICK else pytest.mark.slow)
    for item in product(COMPILERS, LANGUAGES, LEVELS)
]
NETWORKS = 6


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all kernels and some models."""
    folder = tmp_path_factory.mktemp("sources")
    for path in KERNELS.iterdir():
        shutil.copy(path, folder)
    written, number = 0, 0
    while written < NETWORKS:
        number += 1
        try:
            trial = host.prepare(random_network(Random(f"network/random/{number}")), 1)
        except UnsupportedModelError:
            continue
        written += 1
        for name, data in host.model_files(f"network_{number}", trial).items():
            (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize(("compiler", "language", "level"), MATRIX)
def test_no_warning(compiler: str, language: str, level: str, sources: Path, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    files = sorted(map(str, sources.glob("*.c")))
    command = [*COMPILERS[compiler], *LANGUAGES[language], level, *FLAGS, "-c", *files]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
