"""NAME_buffers.c, and what NAME.h says of shared buffers. To renew: EDGETOOL_UPDATE_GOLDEN=1 pytest tests/codegen"""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from edgetool import errors
from edgetool.codegen import c_names
from edgetool.codegen.header import buffers_source, header
from edgetool.codegen.spec import BuffersSpec, HeaderSpec
from tests.codegen.c_compilers import MATRIX, compile_in
from tests.codegen.golden_files import check_golden
from tests.codegen.header_specs import HOSTILE_SHARED, KWS, SHARED

EMPTY = replace(SHARED, name="none", tensors=(), inputs=(), outputs=(), buffers=BuffersSpec((), 0, 0))


def write(directory: Path, spec: HeaderSpec) -> str:
    base = c_names.model_identifier(spec.name)
    (directory / f"{base}.h").write_text(header(spec), encoding="ascii", newline="")
    (directory / f"{base}_buffers.c").write_text(buffers_source(spec), encoding="ascii", newline="")
    return base


def test_golden() -> None:
    check_golden("shared_buffers.c", buffers_source(SHARED))


@pytest.mark.parametrize(("compiler", "standard"), MATRIX)
def test_compiles_without_a_warning(tmp_path: Path, compiler: str, standard: str) -> None:
    bases = [write(tmp_path, spec) for spec in (SHARED, HOSTILE_SHARED, EMPTY)]
    (tmp_path / "unit.c").write_text("".join(f'#include "{base}_buffers.c"\n' for base in bases))
    result = compile_in(tmp_path, compiler, standard, "-c", "unit.c", "-o", "unit.o")
    assert (result.returncode, result.stderr) == (0, "")


MAIN = """\
#include "shared.h"
#include "shared.h"

int main(void)
{
    uint32_t i;
    for (i = 0; i < SHARED_TENSOR_COUNT; ++i) {
        if (((uintptr_t)shared_tensors[i].data & 15u) != 0u) return 2;
        if (shared_tensors[i].data != (shared_tensors[i].buffer == 0u ? shared_buffer_0 : shared_buffer_1)) return 3;
    }
    if (sizeof shared_buffer_0 + sizeof shared_buffer_1 != SHARED_BUFFERS_BYTES) return 4;
    if (shared_tensors[2].index != SHARED_TENSOR_dense_INDEX) return 5;
    if (shared_tensors[2].bytes != SHARED_TENSOR_dense_BYTES) return 6;
    return &SHARED_INPUT_0_DATA[0] == &SHARED_TENSOR_dense_DATA[0] && SHARED_OUTPUT_0_BUFFER == 0 ? 0 : 7;
}
"""


@pytest.mark.parametrize("arrays", [("gcc", "c99"), ("gcc", "c2x"), ("g++", "c++11"), ("g++", "c++20")])
@pytest.mark.parametrize("user", [("gcc", "c99"), ("g++", "c++17")])
def test_the_table_contains_the_place_of_every_tensor(
    tmp_path: Path, arrays: tuple[str, str], user: tuple[str, str]
) -> None:
    write(tmp_path, SHARED)
    (tmp_path / "main.c").write_text(MAIN)
    assert compile_in(tmp_path, *arrays, "-c", "shared_buffers.c", "-o", "arrays.o").stderr == ""
    assert compile_in(tmp_path, *user, "-c", "main.c", "-o", "main.o").stderr == ""
    subprocess.run(["gcc", "arrays.o", "main.o", "-o", "program"], cwd=tmp_path, check=True, timeout=60)
    assert subprocess.run([tmp_path / "program"], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize(("compiler", "standard"), [("arm-none-eabi-gcc", "c99"), ("arm-none-eabi-gcc", "c17")])
def test_each_buffer_goes_to_a_section_and_alignment_of_its_own(tmp_path: Path, compiler: str, standard: str) -> None:
    write(tmp_path, SHARED)
    options = (
        '-DSHARED_BUFFER_0_SECTION=__attribute__((section(".axi")))',
        '-DSHARED_BUFFER_1_SECTION=__attribute__((section(".dtcm")))',
        "-DSHARED_BUFFER_1_ALIGNMENT=64",
    )
    result = compile_in(tmp_path, compiler, standard, *options, "-c", "shared_buffers.c", "-o", "arrays.o")
    assert result.stderr == ""
    shown = subprocess.run(
        ["arm-none-eabi-objdump", "-h", "arrays.o"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert re.search(rf"\.axi\s+{8000:08x} .* 2\*\*4\n", shown), shown
    assert re.search(rf"\.dtcm\s+{496:08x} .* 2\*\*6\n", shown), shown


def test_a_section_in_cpp(tmp_path: Path) -> None:
    write(tmp_path, SHARED)
    section = '-DSHARED_BUFFER_0_SECTION=__attribute__((section(".axi")))'
    assert compile_in(tmp_path, "g++", "c++11", section, "-c", "shared_buffers.c", "-o", "arrays.o").stderr == ""


@pytest.mark.parametrize(
    ("limit", "least", "reported"),
    [
        ("SHARED_BUFFER_0_LIMIT_BYTES", 8000, "shared_buffer_0_exceeds_LIMIT_BYTES"),
        ("SHARED_BUFFER_1_LIMIT_BYTES", 496, "shared_buffer_1_exceeds_LIMIT_BYTES"),
        ("SHARED_SRAM_LIMIT_BYTES", 8496, "shared_buffers_exceeds_SRAM_LIMIT_BYTES"),
    ],
)
def test_stops_compiling_below_each_limit(tmp_path: Path, limit: str, least: int, reported: str) -> None:
    write(tmp_path, SHARED)
    (tmp_path / "unit.c").write_text('#include "shared.h"\n')
    assert compile_in(tmp_path, "gcc", "c99", f"-D{limit}={least}", "-fsyntax-only", "unit.c").stderr == ""
    refused = compile_in(tmp_path, "gcc", "c99", f"-D{limit}={least - 1}", "-fsyntax-only", "unit.c")
    assert refused.returncode != 0
    assert reported in refused.stderr
    refused = compile_in(tmp_path, "gcc", "c11", f"-D{limit}={least - 1}", "-fsyntax-only", "unit.c")
    assert refused.returncode != 0
    assert f"needs {least} bytes, but {limit} is {least - 1}" in refused.stderr.replace('" "', "")


def test_the_header_has_no_arena_and_no_offsets() -> None:
    text = header(SHARED)
    assert "TensorFlow" not in text
    assert not re.search(r"_ARENA_|_OFFSET|arena", text)
    assert "#define SHARED_BUFFERS_BYTES 8496\n" in text
    assert "/* buffer 1: tensors 0, 6 */" in text


def test_inconsistent_specifications_are_rejected() -> None:
    with pytest.raises(ValueError, match="is not in any buffer"):
        replace(KWS, buffers=BuffersSpec((16,), 0, 0))
    with pytest.raises(ValueError, match="too small for it"):
        replace(SHARED, buffers=BuffersSpec((8000, 480), 0, 0))
    with pytest.raises(ValueError, match="too small for it"):
        replace(SHARED, buffers=None)
    with pytest.raises(ValueError, match="24 is not a valid buffer size"):
        BuffersSpec((24,), 0, 0)
    with pytest.raises(ValueError, match="an arena"):
        buffers_source(KWS)
    with pytest.raises(errors.UnsupportedModelError, match="2,147,483,648 bytes"):
        BuffersSpec((2**31,), 0, 0)
