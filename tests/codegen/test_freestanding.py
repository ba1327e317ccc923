"""The C files on cores with no C library at all: Cortex-M0+, RISC-V of 32 and 64 bits, Xtensa."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from edgetool.codegen import c_names
from edgetool.codegen.buffers import buffers_source
from edgetool.codegen.header import header
from edgetool.codegen.model_data import model_data
from tests.codegen.c_compilers import C_STANDARDS, FLAGS
from tests.codegen.header_specs import ALL, BLOB, SHARED

CORES = {
    "cortex-m0plus": ("arm-none-eabi-", "-mcpu=cortex-m0plus", "-mthumb"),
    "rv32imc": ("riscv64-unknown-elf-", "-march=rv32imc", "-mabi=ilp32", "-mcmodel=medany"),
    "rv64gc": ("riscv64-unknown-elf-", "-march=rv64gc", "-mabi=lp64d", "-mcmodel=medany"),
    "xtensa": ("xtensa-lx106-elf-",),
}
# What libgcc has for cores without floating point, division or wide multiplication.
LIBGCC = r"__(?:aeabi_\w+|(?:add|sub|mul|div|lt|le|gt|ge|eq|ne)sf[23]|fix(?:uns)?sfsi|float(?:un)?sisf|gnu_thumb1_\w+)"

USE = """\
int32_t use(float value);
int32_t use(float value)
{
    const edgetool_tensor *const last = &kws_tensors()[KWS_TENSOR_COUNT - 1];
    return kws_input_0_quantize(value) + (int32_t)last->offset + kws_model[0] + (int32_t)shared_tensors[0].bytes;
}
"""


@pytest.mark.parametrize("standard", C_STANDARDS)
@pytest.mark.parametrize("core", CORES)
def test_nothing_is_needed_but_the_compiler(tmp_path: Path, core: str, standard: str) -> None:
    prefix, *options = CORES[core]
    if shutil.which(f"{prefix}gcc") is None:
        pytest.skip(f"{prefix}gcc is not installed")
    unit = ""
    for spec in ALL.values():
        name = c_names.model_identifier(spec.name)
        (tmp_path / f"{name}.h").write_text(header(spec))
        unit += f'#include "{name}.h"\n'
    source, declaration = model_data("kws", BLOB)
    (tmp_path / "kws_model.c").write_text(source)
    (tmp_path / "kws_model.h").write_text(declaration)
    (tmp_path / "shared_buffers.c").write_text(buffers_source(SHARED))
    (tmp_path / "unit.c").write_text(f'{unit}#include "kws_model.c"\n#include "shared_buffers.c"\n{USE}')
    command = [f"{prefix}gcc", *options, f"-std={standard}", *FLAGS, "-ffreestanding", "-O2", "-c", "unit.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    missing = subprocess.run([f"{prefix}nm", "-u", "unit.o"], cwd=tmp_path, capture_output=True, text=True, check=True)
    symbols = set(missing.stdout.split()) - {"U"}
    assert {symbol for symbol in symbols if not re.fullmatch(LIBGCC, symbol)} == set()
