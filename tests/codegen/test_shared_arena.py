"""GROUP_arena.h and GROUP_arena.cc. To renew the golden files: EDGETOOL_UPDATE_GOLDEN=1 pytest tests/codegen"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.codegen import c_names
from edgetool.codegen.spec import PlacedSpec, SharedArenaSpec
from edgetool.codegen.tflm.arena import arena_header, arena_source
from tests.codegen.c_compilers import CPP_MATRIX, MATRIX, compile_in, over_compilers
from tests.codegen.emitted import build, compile_cpp, write
from tests.codegen.golden_files import check_golden, code
from tests.codegen.header_specs import SEQUENCE
from tests.codegen.program_specs import HOSTILE_PROGRAM, KWS_PROGRAM, STATE_PROGRAM

JOINT = SharedArenaSpec(
    name="joint",
    tool_version="0.1.0",
    programs=(replace(KWS_PROGRAM, shared_arena="joint"), STATE_PROGRAM),
    arena_bytes=30000,
    arena_is_lower_bound=False,
    head_bytes=16000,
    tail_bytes=13990,
)
# Nobody knows what the models allocate, and no target says how large the memories are.
OPEN = replace(
    JOINT,
    name="open",
    programs=(replace(KWS_PROGRAM, header=SEQUENCE),),
    arena_bytes=None,
    arena_is_lower_bound=True,
    tail_bytes=1,
)
HOSTILE = replace(
    JOINT, name="*/\n#error ??/ \\", tool_version='0"; int x; //', programs=(HOSTILE_PROGRAM, STATE_PROGRAM)
)
SPLIT = replace(
    JOINT,
    name="split",
    places=(
        PlacedSpec("head", "dtcm", 131072, 16000),
        PlacedSpec("tail", "sdram", 1 << 23, 14000, 0xC0000000),
        PlacedSpec("models", "qspi", 1 << 24, 530),
    ),
)
ALL = {"joint": JOINT, "open": OPEN, "hostile": HOSTILE, "split": SPLIT}


def put(directory: Path, spec: SharedArenaSpec) -> str:
    """Write both files; their name in C."""
    name = c_names.model_identifier(spec.name)
    for suffix, emit in (("h", arena_header), ("cc", arena_source)):
        (directory / f"{name}_arena.{suffix}").write_text(emit(spec), encoding="ascii", newline="")
    return name


@pytest.mark.parametrize("name", ["joint", "open", "split"])
@pytest.mark.parametrize(("suffix", "emit"), [("h", arena_header), ("cc", arena_source)], ids=["h", "cc"])
def test_golden(name: str, suffix: str, emit: Callable[[SharedArenaSpec], str]) -> None:
    check_golden(f"{name}_arena.{suffix}", emit(ALL[name]))


@over_compilers(MATRIX)
def test_the_header_compiles_as_c_and_cpp(tmp_path: Path, compiler: str, standard: str) -> None:
    names = [put(tmp_path, spec) for spec in ALL.values()]
    includes = "".join(f'#include "{name}_arena.h"\n' for name in names)
    (tmp_path / "unit.c").write_text(f"{includes}{includes}extern unsigned char room[JOINT_ARENA_BYTES];\n")
    done = compile_in(tmp_path, compiler, standard, "-fsyntax-only", "unit.c")
    assert (done.returncode, done.stderr) == (0, "")


@over_compilers(CPP_MATRIX)
def test_the_source_compiles_without_a_warning(tmp_path: Path, compiler: str, standard: str) -> None:
    for spec in ALL.values():
        name = put(tmp_path, spec)
        done = compile_cpp(
            tmp_path, f"{name}_arena.cc", "-DOPEN_ARENA_BYTES=16384", compiler=compiler, standard=standard
        )
        assert (done.returncode, done.stderr) == (0, "")


TEST = """\
#include "fake.h"
#include "joint_arena.h"

int main()
{
    fake.least_arena = JOINT_ARENA_BYTES + 1;
    if (joint_arena_allocator() != nullptr || fake.arena != nullptr) return 1;
    fake.least_arena = JOINT_ARENA_BYTES;
    tflite::MicroAllocator *const allocator = joint_arena_allocator();
    if (allocator == nullptr || fake.arena_bytes != JOINT_ARENA_BYTES) return 2;
    if ((reinterpret_cast<uintptr_t>(fake.arena) & (JOINT_ARENA_ALIGNMENT - 1)) != 0) return 3;
    fake.arena = nullptr;
    if (joint_arena_allocator() != allocator || fake.arena != nullptr) return 4;
    return 0;
}
"""


def test_there_is_one_allocator(tmp_path: Path) -> None:
    put(tmp_path, JOINT)
    (tmp_path / "test.cc").write_text(TEST)
    assert subprocess.run([build(tmp_path, [], "test.cc")], check=False, timeout=60).returncode == 0


SPLIT_TEST = """\
#include "fake.h"
#include "split_arena.h"

int main()
{
    fake.least_arena = SPLIT_TAIL_BYTES + 1;
    if (split_arena_allocator() != nullptr || fake.tail != nullptr) return 1;
    fake.least_arena = SPLIT_TAIL_BYTES;
    tflite::MicroAllocator *const allocator = split_arena_allocator();
    if (allocator == nullptr || fake.arena_bytes != SPLIT_HEAD_BYTES || fake.tail_bytes != SPLIT_TAIL_BYTES) return 2;
    return split_arena_allocator() == allocator ? 0 : 3;
}
"""


def test_two_arenas_have_one_allocator(tmp_path: Path) -> None:
    put(tmp_path, SPLIT)
    (tmp_path / "joint_arena.h").write_text("")
    (tmp_path / "joint_arena.cc").write_text('#include "split_arena.cc"\n')
    (tmp_path / "test.cc").write_text(SPLIT_TEST)
    assert subprocess.run([build(tmp_path, [], "test.cc")], check=False, timeout=60).returncode == 0


MODELS_TEST = """\
#include "fake.h"
#include "joint_arena.h"
#include "kws_runner.h"
#include "state_runner.h"

static int8_t input[KWS_INPUT_0_BYTES], output[KWS_OUTPUT_0_BYTES];

int main()
{
    fake.version = TFLITE_SCHEMA_VERSION;
    fake.input_count = fake.output_count = 1;
    fake.inputs[0].type = fake.outputs[0].type = kTfLiteInt8;
    fake.inputs[0].bytes = sizeof input;
    fake.inputs[0].data.data = input;
    fake.outputs[0].bytes = sizeof output;
    fake.outputs[0].data.data = output;
    if (kws_runner::init() != kws_ok || fake.arena_bytes != JOINT_ARENA_BYTES) return 1;
    fake.arena = nullptr;
    if (state_runner::init() != state_ok || fake.arena != nullptr || fake.interpreters != 2) return 2;
    return 0;
}
"""


def test_the_models_take_it_from_there(tmp_path: Path) -> None:
    names = write(tmp_path, *JOINT.programs)
    put(tmp_path, JOINT)
    (tmp_path / "test.cc").write_text(MODELS_TEST)
    assert subprocess.run([build(tmp_path, names, "test.cc")], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("-DJOINT_SRAM_LIMIT_BYTES=29999", "joint_arena needs 30000 bytes, but JOINT_SRAM_LIMIT_BYTES is 29999"),
        (
            f"-DJOINT_FLASH_LIMIT_BYTES={2 * KWS_PROGRAM.header.model_bytes - 1}",
            f"joint_models needs {2 * KWS_PROGRAM.header.model_bytes} bytes, but JOINT_FLASH_LIMIT_BYTES is",
        ),
    ],
)
def test_what_does_not_fit_does_not_compile(tmp_path: Path, limit: str, reason: str) -> None:
    put(tmp_path, JOINT)
    refused = compile_cpp(tmp_path, "joint_arena.cc", limit)
    assert refused.returncode != 0
    assert reason in refused.stderr.replace('" "', "")
    name, number = limit.split("=")
    assert compile_cpp(tmp_path, "joint_arena.cc", f"{name}={int(number) + 1}").stderr == ""


def test_the_targets_region_is_the_limit(tmp_path: Path) -> None:
    assert JOINT.programs[0].header.target.sram_bytes == 524288
    for size, status in ((524288, 0), (524304, 1)):
        put(tmp_path, replace(JOINT, arena_bytes=size))
        assert compile_cpp(tmp_path, "joint_arena.cc").returncode == status


def test_what_is_added_counts_for_the_limit(tmp_path: Path) -> None:
    put(tmp_path, JOINT)
    limit = "-DJOINT_SRAM_LIMIT_BYTES=30016"
    assert compile_cpp(tmp_path, "joint_arena.cc", limit, "-DJOINT_ARENA_EXTRA_BYTES=16").stderr == ""
    refused = compile_cpp(tmp_path, "joint_arena.cc", limit, "-DJOINT_ARENA_EXTRA_BYTES=17")
    reported = refused.stderr.replace('" "', "")
    assert "joint_arena takes 30000 + (17) bytes, but JOINT_SRAM_LIMIT_BYTES is 30016" in reported


def test_an_unknown_arena_size_must_be_defined(tmp_path: Path) -> None:
    put(tmp_path, OPEN)
    assert OPEN.arena_lower_bound_bytes == 16016
    refused = compile_cpp(tmp_path, "open_arena.cc")
    assert refused.returncode != 0
    assert "the exact arena size is unknown: define OPEN_ARENA_BYTES" in refused.stderr
    refused = compile_cpp(tmp_path, "open_arena.cc", "-DOPEN_ARENA_BYTES=16015")
    reported = refused.stderr.replace('" "', "")
    assert "open_arena needs at least 16016 bytes, but OPEN_ARENA_BYTES is 16015" in reported
    assert compile_cpp(tmp_path, "open_arena.cc", "-DOPEN_ARENA_BYTES=16016").stderr == ""


def test_without_a_source_the_header_is_for_code_of_the_users_own(tmp_path: Path) -> None:
    for spec in (JOINT, OPEN):
        text = arena_header(spec, with_source=False)
        assert "arena.cc" not in text
        assert "_allocator" not in text
        assert ("static uint8_t arena[JOINT_ARENA_BYTES];" in text) == (spec is JOINT)
        (tmp_path / "unit.c").write_text(text)
        done = compile_in(tmp_path, "gcc", "c99", "-DOPEN_SRAM_LIMIT_BYTES=16016", "-fsyntax-only", "unit.c")
        assert (done.returncode, done.stderr) == (0, "")


def test_the_header_says_that_only_one_model_may_be_in_use() -> None:
    text = arena_header(JOINT)
    assert "ONE MODEL AT A TIME" in text
    assert text.index("model   kws") < text.index("model   state")


@pytest.mark.parametrize("options", [(), ("-Os", "-fno-exceptions", "-fno-rtti")])
def test_nothing_runs_before_main_and_the_arena_has_a_section(tmp_path: Path, options: tuple[str, ...]) -> None:
    put(tmp_path, JOINT)
    section = '-DJOINT_ARENA_SECTION=__attribute__((section(".dtcm")))'
    done = compile_cpp(tmp_path, "joint_arena.cc", section, *options, compiler="arm-none-eabi-g++")
    assert (done.returncode, done.stderr) == (0, "")
    tools = [
        subprocess.run([tool, *flags, "joint_arena.o"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        for tool, *flags in (("arm-none-eabi-nm",), ("arm-none-eabi-objdump", "-h"))
    ]
    assert re.search(rf"\.dtcm\s+{30000:08x} .* 2\*\*4\n", tools[1]), tools[1]
    assert not re.search(r"_GLOBAL__sub_I|atexit|__cxa_guard|_Zn[wa]j|malloc|init_array", "".join(tools))


@given(st.text(st.characters(codec=None), max_size=40), st.text(st.characters(codec=None), max_size=40))
def test_no_name_escapes_from_its_comment(group: str, model: str) -> None:
    program = replace(KWS_PROGRAM, header=replace(KWS_PROGRAM.header, name=model))
    spec = replace(JOINT, name=group, programs=(program, STATE_PROGRAM))
    plain = replace(spec, programs=JOINT.programs)
    for emit in (arena_header, arena_source):
        text = emit(spec)
        assert set(text) <= {*map(chr, range(32, 127)), "\n"}
        assert "??" not in text
        assert code(text) == code(emit(plain))


def test_an_arena_has_a_model_and_a_size_or_a_bound() -> None:
    with pytest.raises(ValueError, match="without a model"):
        replace(JOINT, programs=())
    with pytest.raises(ValueError, match="only a lower bound"):
        replace(JOINT, arena_bytes=None)
