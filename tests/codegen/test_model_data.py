"""NAME_model.h and NAME_model.c; and NAME_model.S, assembled for every core whose tools are there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool import errors
from edgetool.codegen import c_names
from edgetool.codegen.header import header, incbin_source, model_data
from tests.codegen.c_compilers import MATRIX, compile_in, over_compilers
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


@over_compilers(MATRIX)
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


ASSEMBLERS = {
    "x86-64": ("gcc",),
    "cortex-m0plus": ("arm-none-eabi-gcc", "-mcpu=cortex-m0plus", "-mthumb"),
    "cortex-m7": ("arm-none-eabi-gcc", "-mcpu=cortex-m7", "-mthumb"),
    "cortex-m55": ("arm-none-eabi-gcc", "-mcpu=cortex-m55", "-mthumb"),
    "rv32imc": ("riscv64-unknown-elf-gcc", "-march=rv32imc", "-mabi=ilp32"),
    "rv64gc": ("riscv64-unknown-elf-gcc", "-march=rv64gc", "-mabi=lp64d"),
    "xtensa": ("xtensa-lx106-elf-gcc",),
    "clang": ("clang",),
    "clang-cortex-m7": ("clang", "--target=arm-none-eabi", "-mcpu=cortex-m7"),
}
LINES_OF_AS = r"skip \(.*\) or count \(.*\) invalid|attempt to move .org backwards"


def write_incbin(directory: Path, name: str, blob: bytes = BLOB) -> str:
    """The three files of a model whose data is taken in by the assembler; returns their NAME."""
    base = c_names.model_identifier(name)
    (directory / f"{base}_model.S").write_text(incbin_source(name), encoding="ascii", newline="")
    (directory / f"{base}_model.h").write_text(model_data(name, blob)[1], encoding="ascii", newline="")
    (directory / f"{base}.tflite").write_bytes(blob)
    return base


def assemble(directory: Path, machine: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ASSEMBLERS[machine]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    warnings = ("-Wall", "-Wextra", "-Wundef", "-Wpedantic", "-Werror", "-Wa,--fatal-warnings")
    return subprocess.run(
        [*command, *warnings, "-c", *arguments], cwd=directory, capture_output=True, text=True, check=False, timeout=120
    )


def test_golden_incbin() -> None:
    check_golden("kws_model.S", incbin_source("kws"))


@pytest.mark.parametrize("machine", ASSEMBLERS)
def test_the_file_becomes_a_read_only_aligned_object(tmp_path: Path, machine: str) -> None:
    write_incbin(tmp_path, "kws")
    result = assemble(tmp_path, machine, "kws_model.S", "-o", "data.o")
    assert (result.returncode, result.stderr) == (0, "")
    # readelf of any machine reads the files of all.
    shown = subprocess.run(
        ["readelf", "-SsW", "data.o"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert re.search(rf"\.rodata\.kws_model +PROGBITS +0+ \w+ {len(BLOB):06x} 00 +A +0 +0 +16\n", shown), shown
    assert re.search(rf": 0+ +{len(BLOB)} OBJECT +GLOBAL DEFAULT +\d+ kws_model\n", shown), shown
    # In a program for Linux it says that the stack need not be executable; elsewhere ld would want it of all files.
    assert (".note.GNU-stack" in shown) == (machine in ("x86-64", "clang"))
    objcopy = ["objcopy", "-I", "elf32-little" if "ELF32" in header_of(tmp_path) else "elf64-little"]
    command = [*objcopy, "-O", "binary", "-j", ".rodata.kws_model", "data.o", "bytes"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / "bytes").read_bytes() == BLOB


def header_of(directory: Path) -> str:
    return subprocess.run(
        ["readelf", "-hW", "data.o"], cwd=directory, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("machine", ASSEMBLERS)
@pytest.mark.parametrize("size", [len(BLOB) - 1, len(BLOB) + 1, 0])
def test_another_size_does_not_assemble(tmp_path: Path, machine: str, size: int) -> None:
    write_incbin(tmp_path, "kws")
    (tmp_path / "kws.tflite").write_bytes((BLOB + b"x")[:size])
    result = assemble(tmp_path, machine, "kws_model.S", "-o", "data.o")
    assert result.returncode != 0
    reported = LINES_OF_AS if machine == "xtensa" else "does not have the size given in kws_model.h"
    assert re.search(reported, result.stderr), result.stderr


@pytest.mark.parametrize("machine", ["x86-64", "cortex-m7"])
def test_a_missing_file_is_named(tmp_path: Path, machine: str) -> None:
    write_incbin(tmp_path, "kws")
    (tmp_path / "kws.tflite").unlink()
    assert "kws.tflite" in assemble(tmp_path, machine, "kws_model.S", "-o", "data.o").stderr


@pytest.mark.parametrize("machine", ["x86-64", "cortex-m7"])
def test_it_is_found_from_another_directory_and_placed_in_the_users_section(tmp_path: Path, machine: str) -> None:
    firmware = tmp_path / "firmware"
    firmware.mkdir()
    write_incbin(firmware, "kws")
    result = assemble(tmp_path, machine, "-Ifirmware", "firmware/kws_model.S", "-o", "data.o")
    assert (result.returncode, result.stderr) == (0, "")
    options = ('-DKWS_MODEL_FILE="firmware/kws.tflite"', "-DKWS_MODEL_SECTION=.qspi")
    assert assemble(tmp_path, machine, *options, "firmware/kws_model.S", "-o", "data.o").stderr == ""
    shown = subprocess.run(["readelf", "-SW", "data.o"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert re.search(rf"\.qspi +PROGBITS +0+ \w+ {len(BLOB):06x} 00 +A +0 +0 +16\n", shown.stdout), shown.stdout


MAIN_INCBIN = """\
#include <stdint.h>
#include <stdio.h>
#include "kws_model.h"

int main(void)
{
    if (((uintptr_t)kws_model & 15u) != 0u) return 2;
    return fwrite(kws_model, 1, sizeof kws_model, stdout) == KWS_MODEL_BYTES ? 0 : 3;
}
"""


@pytest.mark.parametrize("user", [("gcc", "c99"), ("gcc", "c2x"), ("g++", "c++11"), ("g++", "c++20")])
def test_c_and_cpp_see_every_byte(tmp_path: Path, user: tuple[str, str]) -> None:
    blob = os.urandom(100_003)
    write_incbin(tmp_path, "kws", blob)
    (tmp_path / "main.c").write_text(MAIN_INCBIN)
    assert assemble(tmp_path, "x86-64", "kws_model.S", "-o", "data.o").stderr == ""
    assert compile_in(tmp_path, *user, "-c", "main.c", "-o", "main.o").stderr == ""
    linked = subprocess.run(
        ["g++", "-Wl,--fatal-warnings", "data.o", "main.o", "-o", "program"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (linked.returncode, linked.stderr) == (0, "")
    run = subprocess.run([tmp_path / "program"], capture_output=True, check=False, timeout=60)
    assert (run.returncode, run.stdout) == (0, blob)


def test_hostile_names_assemble(tmp_path: Path) -> None:
    names = tuple(dict.fromkeys((*HOSTILE_NAMES, "linux", "unix", "i386", "arm", "r0", "sp", "if", "endif", "PTR")))
    bases = [write_incbin(tmp_path, name) for name in names]
    for name in names:
        text = incbin_source(name)
        assert set(text) <= {*map(chr, range(32, 127)), "\n"}
        assert not re.search(r"[ \t]\n", text)
    (tmp_path / "unit.S").write_text("".join(f'#include "{base}_model.S"\n' for base in dict.fromkeys(bases)))
    for machine in ("x86-64", "cortex-m7"):
        result = assemble(tmp_path, machine, "unit.S", "-o", "data.o")
        assert (result.returncode, result.stderr) == (0, "")
