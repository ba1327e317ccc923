"""Head, tail and model in memories of their own: sections, limits, what the runner does, and what a linker makes of it.

To renew the golden files: EDGETOOL_UPDATE_GOLDEN=1 pytest tests/codegen
"""

from __future__ import annotations

import csv
import hashlib
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.codegen.header import header, incbin_source, model_data
from edgetool.codegen.memories import LIBRARY_FILES, linker_script, memories_of, model_section
from edgetool.codegen.spec import PlacedCode, PlacedSpec
from edgetool.execute.cores import MACHINES
from edgetool.memory.account import Tenant, account_separate, account_shared_separate
from edgetool.memory.planner import PlanRequest, plan_memory
from edgetool.pipeline.source import open_tflite
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from tests.codegen.boards import EXAMPLE
from tests.codegen.c_compilers import TFLM_API, compile_in
from tests.codegen.emitted import build, compile_cpp, write
from tests.codegen.golden_files import check_golden
from tests.codegen.header_specs import BLOB, COPIED, KWS, PLACED
from tests.codegen.program_specs import COPIED_PROGRAM, PLACED_PROGRAM


@pytest.mark.parametrize("spec", [PLACED, COPIED], ids=lambda spec: spec.name)
def test_golden(spec: object) -> None:
    assert isinstance(spec, type(PLACED))
    check_golden(f"{spec.name}_memories.ld", linker_script(spec.name, spec.tool_version, spec.places))


def test_memories_have_distinct_words() -> None:
    names = ("d3-sram", "d3 sram", "\u00e9", "itcm")
    words = [item.word for item in memories_of([PlacedSpec("head", name, 16, 16) for name in names])]
    assert words[3] == "ITCM"
    assert len(set(words)) == len(words)
    assert all(re.fullmatch(r"[A-Z][A-Z0-9_]*", word) for word in words)


def test_only_a_model_outside_the_default_flash_has_a_section() -> None:
    assert model_section(KWS.places) is None
    assert model_section(COPIED.places) is None
    section = model_section(PLACED.places)
    assert section == ".rodata.edgetool_qspi"
    assert section not in model_data("placed", BLOB)[0]
    assert f'section("{section}")' in model_data("placed", BLOB, section)[0]
    assert f"#define PLACED_MODEL_SECTION {section}" in incbin_source("placed", section)
    assert "#define PLACED_MODEL_SECTION .rodata.placed_model" in incbin_source("placed")


def test_the_size_of_a_single_arena_is_not_offered() -> None:
    for spec in (PLACED, COPIED):
        assert "_ARENA_BYTES" not in header(spec)
    with pytest.raises(ValueError, match="exact size"):
        replace(PLACED, arena_bytes=None, arena_is_lower_bound=True)


@pytest.mark.parametrize(
    ("memory", "least", "reported"),
    [
        ("DTCM", 16000, "placed_head needs 16000 bytes"),
        ("D3_SRAM", 7472, "placed_tail needs 7472 bytes"),
        ("QSPI", len(BLOB), f"placed_model needs {len(BLOB)} bytes"),
    ],
)
def test_stops_compiling_below_the_size_of_each_memory(tmp_path: Path, memory: str, least: int, reported: str) -> None:
    (tmp_path / "placed.h").write_text(header(PLACED))
    (tmp_path / "unit.c").write_text('#include "placed.h"\n')
    limit = f"-DPLACED_{memory}_LIMIT_BYTES="
    assert compile_in(tmp_path, "gcc", "c11", "-fsyntax-only", f"{limit}{least}", "unit.c").stderr == ""
    refused = compile_in(tmp_path, "gcc", "c11", "-fsyntax-only", f"{limit}{least - 1}", "unit.c")
    assert refused.returncode != 0
    assert f"{reported}, but PLACED_{memory}_LIMIT_BYTES is {least - 1}" in refused.stderr.replace('" "', "")


def test_parts_in_one_memory_count_together(tmp_path: Path) -> None:
    write(tmp_path, COPIED_PROGRAM)
    total = 16000 + 7472 + len(BLOB)
    limit = f"-DCOPIED_AXI_SRAM_LIMIT_BYTES={total + 16}"
    assert compile_cpp(tmp_path, "copied_runner.cc", limit, "-DCOPIED_HEAD_EXTRA_BYTES=16").stderr == ""
    refused = compile_cpp(tmp_path, "copied_runner.cc", limit, "-DCOPIED_HEAD_EXTRA_BYTES=17")
    assert refused.returncode != 0
    assert "bytes beside copied_head and copied_tail, but COPIED_AXI_SRAM_LIMIT_BYTES" in refused.stderr


TEST = """\
#include "fake.h"
#include "NET_model.h"
#include "NET_runner.h"

#include <string.h>

static int8_t input[MACRO_INPUT_0_BYTES], output[MACRO_OUTPUT_0_BYTES];

int main()
{
    fake.version = TFLITE_SCHEMA_VERSION;
    fake.input_count = fake.output_count = 1;
    fake.inputs[0].type = fake.outputs[0].type = kTfLiteInt8;
    fake.inputs[0].bytes = sizeof input;
    fake.inputs[0].data.data = input;
    fake.outputs[0].bytes = sizeof output;
    fake.outputs[0].data.data = output;
    fake.least_arena = MACRO_TAIL_BYTES + 1;
    if (NET_runner::init() != NET_error_arena) return 1;
    fake.least_arena = MACRO_TAIL_BYTES;
    if (NET_runner::init() != NET_ok) return 2;
    if (fake.arena_bytes != MACRO_HEAD_BYTES || fake.tail_bytes != MACRO_TAIL_BYTES) return 3;
    if ((reinterpret_cast<uintptr_t>(fake.arena) & (MACRO_ARENA_ALIGNMENT - 1)) != 0) return 4;
    if ((reinterpret_cast<uintptr_t>(fake.tail) & (MACRO_ARENA_ALIGNMENT - 1)) != 0) return 5;
    if ((fake.model == NET_model) == COPIES) return 6;
    if ((reinterpret_cast<uintptr_t>(fake.model) & 15) != 0) return 7;
    return memcmp(fake.model, NET_model, MACRO_MODEL_BYTES) == 0 ? 0 : 8;
}
"""


@pytest.mark.parametrize("program", [PLACED_PROGRAM, COPIED_PROGRAM], ids=lambda program: program.header.name)
def test_the_runner_passes_two_arenas_and_the_copy(tmp_path: Path, program: object) -> None:
    assert isinstance(program, type(PLACED_PROGRAM))
    (name,) = write(tmp_path, program)
    copies = "true" if name == "copied" else "false"
    text = TEST.replace("NET", name).replace("MACRO", name.upper()).replace("COPIES", copies)
    (tmp_path / "test.cc").write_text(text)
    assert subprocess.run([build(tmp_path, [name], "test.cc")], check=False, timeout=60).returncode == 0


def test_a_linker_puts_each_part_into_its_memory(tmp_path: Path) -> None:
    for tool in ("arm-none-eabi-g++", "arm-none-eabi-nm"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    write(tmp_path, PLACED_PROGRAM)
    machine = MACHINES["cortex-m7"]
    memories = (
        "MEMORY { DTCM : ORIGIN = 0x21000000, LENGTH = 128K  SRAM4 : ORIGIN = 0x38000000, LENGTH = 64K "
        "QSPI : ORIGIN = 0x90000000, LENGTH = 16M }\n"
        'REGION_ALIAS("EDGETOOL_DTCM", DTCM)\nREGION_ALIAS("EDGETOOL_D3_SRAM", SRAM4)\n'
        'REGION_ALIAS("EDGETOOL_QSPI", QSPI)\n'
    )
    script = machine.script.replace("INCLUDE sections.ld", f"{memories}INCLUDE sections.ld")
    (tmp_path / "machine.ld").write_text(script)
    sections = (EXAMPLE / "sections.ld").read_text()
    including = sections.replace("SECTIONS\n{", "SECTIONS\n{\nINCLUDE placed_memories.ld", 1)
    assert including != sections
    (tmp_path / "sections.ld").write_text(including)
    (tmp_path / "main.cc").write_text(
        '#include "placed_runner.h"\n'
        'extern "C" int reset() { placed_runner::input_0()[0] = 1; return placed_runner::init(); }\n'
    )
    options = ["-mcpu=cortex-m7", "-mthumb", "-std=c++11", "-fno-exceptions", "-isystem", str(TFLM_API)]
    sources = ["main.cc", "placed_runner.cc", "placed_model.c"]
    # Only the addresses matter: TFLM is not linked.
    flags = ["-nostdlib", "-Tmachine.ld", "-L.", "-Wl,--unresolved-symbols=ignore-all", "-Wl,--no-warn-rwx-segments"]
    done = subprocess.run(
        ["arm-none-eabi-g++", *options, *flags, *sources, "-o", "program.elf"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if "No such file" in done.stderr:
        pytest.skip("newlib or libstdc++ for arm-none-eabi is not installed")
    assert done.returncode == 0, done.stderr[:3000]
    shown = subprocess.run(
        ["arm-none-eabi-nm", "program.elf"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    addresses = {line.split()[2]: int(line.split()[0], 16) for line in shown.splitlines() if len(line.split()) == 3}
    assert addresses["_ZL11placed_head"] == 0x21000000
    assert addresses["_ZL11placed_tail"] == 0x38000000
    assert addresses["placed_model"] == 0x90000000
    # What the firmware's file contains does not grow by the arenas.
    subprocess.run(["arm-none-eabi-objcopy", "-O", "ihex", "program.elf", "program.hex"], cwd=tmp_path, check=True)
    assert ":020000042100" not in (tmp_path / "program.hex").read_text()


@pytest.mark.parametrize("library", ["libtensorflow-microlite.a", "libtflm.a"])
def test_a_linker_puts_the_code_of_a_library_into_its_memory(tmp_path: Path, library: str) -> None:
    tools = ["arm-none-eabi-gcc", "arm-none-eabi-ar", "arm-none-eabi-nm"]
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    machine = MACHINES["cortex-m7"]
    code = PlacedCode("itcm", 65536, 0, LIBRARY_FILES, is_copied=True)
    files = {
        "net_memories.ld": linker_script("net", "1", [PlacedSpec("head", "sram", 64, 16)], code),
        "machine.ld": machine.script.replace(
            "INCLUDE sections.ld",
            "MEMORY { ITCM : ORIGIN = 0x21000000, LENGTH = 64K  SRAM : ORIGIN = 0x22000000, LENGTH = 64K }\n"
            'REGION_ALIAS("EDGETOOL_ITCM", ITCM)\nREGION_ALIAS("EDGETOOL_SRAM", SRAM)\n'
            'REGION_ALIAS("EDGETOOL_LOAD", FLASH)\nINCLUDE sections.ld',
        ),
        "sections.ld": (EXAMPLE / "sections.ld")
        .read_text()
        .replace("SECTIONS\n{", "SECTIONS\n{\nINCLUDE net_memories.ld", 1),
        "conv.c": "int kernel(int x) { return x + 1; }\n",
        "main.c": "int kernel(int x);\nint reset(void) { return kernel(1); }\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    flags = ["-mcpu=cortex-m7", "-mthumb", "-O1", "-ffunction-sections"]
    linking = ["-nostdlib", "-Tmachine.ld", "-L.", "-Wl,--unresolved-symbols=ignore-all", "-Wl,--nmagic"]
    for command in (
        [tools[0], *flags, "-c", "conv.c"],
        [tools[1], "rcs", library, "conv.o"],
        [tools[0], *flags, *linking, "main.c", library, "-o", "program.elf"],
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr[:3000]
    shown = subprocess.run([tools[2], "program.elf"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    addresses = {line.split()[2]: int(line.split()[0], 16) for line in shown.splitlines() if len(line.split()) == 3}
    assert addresses["net_code_start"] == 0x21000000
    assert addresses["net_code_start"] <= addresses["kernel"] < addresses["net_code_end"]
    assert addresses["reset"] < 0x20000000
    (start, size) = machine.flash
    assert start <= addresses["net_code_load"] < start + size


# Emitted firmware that ran on an emulated board; the first lines of the file state how.
MEASURED = Path(__file__).with_name("placed_runners.csv")


def measured(path: Path = MEASURED) -> list[dict[str, str]]:
    lines = [line for line in path.read_text(encoding="ascii").splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def test_emitted_firmware_ran_with_its_sizes_and_not_with_less() -> None:
    rows = measured()
    assert len(rows) >= 150
    assert {(row["runs"], row["head_16_less"], row["tail_16_less"]) for row in rows} == {("yes", "no", "no")}


@pytest.mark.parametrize("kernels", ["reference", "cmsis-nn"])
def test_todays_sizes_are_those_that_ran(kernels: str, shared: Path) -> None:
    target = load_target("cortex-m7").with_overrides(kernels=kernels)
    for row in measured():
        path = shared / "data" / "models" / row["model"]
        if row["kernels"] != kernels or path.stat().st_size > 200_000:
            continue
        source = open_tflite(path)
        assert source.sha256 == row["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        offsets = plan_memory(source.model, platform_of(target), PlanRequest(file_plan="only")).offsets
        separate = account_separate(source.model, platform_of(target), offsets=offsets)
        assert (str(separate.head_arena_bytes), str(separate.tail_arena_bytes)) == (
            row["head_bytes"],
            row["tail_bytes"],
        ), row["model"]


# The same for models that share both arenas.
GROUPS = MEASURED.with_name("placed_groups.csv")


def test_models_that_share_two_arenas_ran_with_their_sizes_and_not_with_less() -> None:
    rows = measured(GROUPS)
    assert len(rows) >= 25
    assert {(row["runs"], row["head_16_less"], row["tail_16_less"]) for row in rows} == {("yes", "no", "no")}


@pytest.mark.parametrize("kernels", ["reference", "cmsis-nn"])
def test_todays_shared_sizes_are_those_that_ran(kernels: str, shared: Path) -> None:
    platform = platform_of(load_target("cortex-m7").with_overrides(kernels=kernels))
    for row in measured(GROUPS):
        if row["kernels"] == kernels:
            paths = [shared / "data" / "models" / name for name in row["models"].split()]
            account = account_shared_separate([Tenant(open_tflite(path).model) for path in paths], platform)
            sizes = (str(account.head_arena_bytes), str(account.tail_arena_bytes))
            assert sizes == (row["head_bytes"], row["tail_bytes"]), row["models"]
