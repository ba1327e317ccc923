"""Kernels and generated models compile without a warning as C99 and as C++11, whatever the compiler and its level."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

import edgetool
from tests.codegen.c_compilers import FLAGS
from tests.codegen.native.host import model_files
from tests.codegen.native.test_networks import cases, networks, supported, supported_types

KERNELS = Path(edgetool.__file__).parent / "codegen" / "native" / "c"
COMPILERS = {
    "gcc": (),
    "clang": ("-fsyntax-only",),  # its warnings do not depend on what it generates
    "arm-none-eabi-gcc": ("-mcpu=cortex-m0plus", "-mthumb"),
    # The optimizer is that of the other compilers of GCC.
    "riscv64-unknown-elf-gcc": ("-march=rv32imc", "-mabi=ilp32", "--specs=picolibc.specs", "-fsyntax-only"),
}
# What a level warns of is the same in both languages.
LANGUAGES = {"c99": ("-std=c99",), "c++11": ("-x", "c++", "-std=c++11", "-fsyntax-only")}
# The optimizer, of which the warnings of other levels are, is the same for all targets of GCC.
CASES = [
    *((compiler, language, "-O2") for compiler, language in product(COMPILERS, LANGUAGES)),
    ("gcc", "c99", "-O3"),
    ("arm-none-eabi-gcc", "c99", "-Os"),
]
MODELS = 8


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that includes random networks and single operators."""
    folder = tmp_path_factory.mktemp("models")
    drawn = supported(networks(40_000), MODELS, Counter())
    drawn |= supported(cases(supported_types()[::20], [0]), None, Counter())
    files: dict[str, bytes] = {}
    for number, trial in enumerate(drawn.values()):
        files |= model_files(f"m{number}", trial)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    path = folder / "models.c"
    path.write_text("".join(f'#include "{name}"\n' for name in files if name.endswith(".c")))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(("compiler", "language", "level"), CASES)
def test_code_compiles_without_warnings(tmp_path: Path, models: Path, compiler: str, language: str, level: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    sources = [*sorted(KERNELS.glob("*.c")), models]
    assert len(sources) > 50
    flags = [flag for flag in FLAGS if compiler != "clang" or not flag.startswith("-Wbidi")]
    command = [compiler, *COMPILERS[compiler], *LANGUAGES[language], level, *flags, f"-I{KERNELS}", "-c"]
    done = subprocess.run(
        [*command, *map(str, sources)], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=900
    )
    if "string.h: No such file" in done.stderr or "cannot read spec file" in done.stderr:
        pytest.skip(f"{compiler} has no C library")
    assert (done.returncode, done.stderr) == (0, "")
