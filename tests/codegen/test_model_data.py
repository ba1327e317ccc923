from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool import errors
from edgetool.codegen import c_names
from edgetool.codegen.header import header, model_data
from tests.codegen.c_compilers import MATRIX, compile_in
from tests.codegen.golden_files import check_golden
from tests.codegen.header_specs import BLOB, HOSTILE_NAMES, KWS


def write(directory: Path, name: str, blob: bytes = BLOB) -> str:
    base = c_names.model_identifier(name)
    for suffix, text in zip("ch", model_data(name, blob), strict=True):
        (directory / f"{base}_model.{suffix}").write_text(text, encoding="ascii", newline="")
    return base


@pytest.mark.parametrize("suffix", ["c", "h"])
def test_golden(suffix: str) -> None:
    check_golden(f"kws_model.{suffix}", model_data("kws", BLOB)["ch".index(suffix)])


@given(st.binary(min_size=1, max_size=200), st.sampled_from(HOSTILE_NAMES))
def test_the_array_holds_the_bytes(blob: bytes, name: str) -> None:
    source, interface = model_data(name, blob)
    rows = re.findall(r"^  ((?:0x[0-9a-f]{2},){1,16})$", source, re.MULTILINE)
    assert bytes(int(cell, 16) for row in rows for cell in row.split(",")[:-1]) == blob
    assert f"_MODEL_BYTES {len(blob)}\n" in interface
    assert set(source + interface) <= {*map(chr, range(32, 127)), "\n"}
    assert not re.search(r"[ \t]\n", source + interface)
    assert max(map(len, (source + interface).splitlines())) <= 160


@pytest.mark.parametrize(("compiler", "standard"), MATRIX)
def test_compiles_without_a_warning(tmp_path: Path, compiler: str, standard: str) -> None:
    bases = [write(tmp_path, name) for name in ("kws", *HOSTILE_NAMES)]
    (tmp_path / "unit.c").write_text("".join(f'#include "{base}_model.c"\n' for base in dict.fromkeys(bases)))
    result = compile_in(tmp_path, compiler, standard, "-c", "unit.c", "-o", "unit.o")
    assert (result.returncode, result.stderr) == (0, "")


MAIN = """\
#include <stdint.h>
#include <stdio.h>
#include "kws_model.h"
#include "kws.h"
#include "kws_model.h"

int main(void)
{
    if (((uintptr_t)kws_model & 15u) != 0u) return 2;
    return fwrite(kws_model, 1, sizeof kws_model, stdout) == KWS_MODEL_BYTES ? 0 : 3;
}
"""


@pytest.mark.parametrize("data", [("gcc", "c99"), ("gcc", "c11"), ("gcc", "c2x"), ("g++", "c++11"), ("g++", "c++20")])
@pytest.mark.parametrize("user", [("gcc", "c99"), ("g++", "c++17")])
def test_c_and_cpp_link_to_each_other(tmp_path: Path, data: tuple[str, str], user: tuple[str, str]) -> None:
    write(tmp_path, "kws")
    (tmp_path / "kws.h").write_text(header(KWS))
    (tmp_path / "main.c").write_text(MAIN)
    assert compile_in(tmp_path, *data, "-c", "kws_model.c", "-o", "data.o").stderr == ""
    assert compile_in(tmp_path, *user, "-c", "main.c", "-o", "main.o").stderr == ""
    subprocess.run(["gcc", "data.o", "main.o", "-o", "program"], cwd=tmp_path, check=True, timeout=60)
    run = subprocess.run([tmp_path / "program"], capture_output=True, check=False, timeout=60)
    assert (run.returncode, run.stdout) == (0, BLOB)


@pytest.mark.parametrize("standard", ["c99", "c17"])
def test_the_array_is_read_only_and_aligned_on_the_device(tmp_path: Path, standard: str) -> None:
    write(tmp_path, "kws")
    result = compile_in(tmp_path, "arm-none-eabi-gcc", standard, "-c", "kws_model.c", "-o", "data.o")
    assert result.stderr == ""
    sections = subprocess.run(
        ["arm-none-eabi-objdump", "-h", "data.o"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    section = re.search(rf"\.rodata\s+{len(BLOB):08x} .* 2\*\*4\n.*READONLY", sections)
    assert section is not None, sections


def test_a_section_of_the_users(tmp_path: Path) -> None:
    write(tmp_path, "kws")
    attribute = '-DKWS_MODEL_ALIGNED=__attribute__((aligned(32),section(".model")))'
    assert compile_in(tmp_path, "gcc", "c99", attribute, "-c", "kws_model.c", "-o", "data.o").stderr == ""


def test_the_header_of_another_model_is_rejected(tmp_path: Path) -> None:
    write(tmp_path, "kws", BLOB + b"x")
    (tmp_path / "kws.h").write_text(header(KWS))
    (tmp_path / "main.c").write_text(MAIN)
    result = compile_in(tmp_path, "gcc", "c99", "-fsyntax-only", "main.c")
    assert "KWS_MODEL_BYTES" in result.stderr


def test_no_model_is_refused() -> None:
    with pytest.raises(errors.InvalidModelError, match="empty"):
        model_data("kws", b"")


def test_three_megabytes_are_quick() -> None:
    blob = os.urandom(3_000_000)
    start = time.process_time()
    source, _ = model_data("kws", blob)
    assert time.process_time() - start < 2.0
    assert len(source) > 5 * len(blob)
