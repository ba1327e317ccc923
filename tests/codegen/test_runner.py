"""NAME_runner.h and NAME_runner.cc. To renew the golden files: EDGETOOL_UPDATE_GOLDEN=1 pytest tests/codegen"""

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
from edgetool.codegen.spec import IoSpec, ProgramSpec
from edgetool.codegen.tflm.runner import can_reset, runner_header, runner_source
from edgetool.model.types import DType
from tests.codegen.c_compilers import CPP_MATRIX, compile_in
from tests.codegen.emitted import build, compile_cpp, write
from tests.codegen.golden_files import check_golden, code
from tests.codegen.header_specs import SHARED
from tests.codegen.program_specs import (
    ALL_PROGRAMS,
    EVERY_TYPE_PROGRAM,
    HOSTILE_PROGRAM,
    KWS_PROGRAM,
    SEQUENCE_PROGRAM,
    STATE_PROGRAM,
)

SEQUENCE_NAME = c_names.model_identifier(SEQUENCE_PROGRAM.header.name)
SEQUENCE_MACRO = c_names.model_macro(SEQUENCE_PROGRAM.header.name)
SEQUENCE_BYTES = f"-D{SEQUENCE_MACRO}_ARENA_BYTES=8192"


@pytest.mark.parametrize("name", ["kws", "sequence", "state"])
@pytest.mark.parametrize(("suffix", "emit"), [("h", runner_header), ("cc", runner_source)], ids=["h", "cc"])
def test_golden(name: str, suffix: str, emit: Callable[[ProgramSpec], str]) -> None:
    check_golden(f"{name}_runner.{suffix}", emit(ALL_PROGRAMS[name]))


@pytest.mark.parametrize(("compiler", "standard"), CPP_MATRIX)
def test_compiles_without_a_warning_as_one_unit(tmp_path: Path, compiler: str, standard: str) -> None:
    names = write(tmp_path, *ALL_PROGRAMS.values())
    files = [*(f"{name}_runner.cc" for name in names), *(f"{name}_runner.h" for name in names)]
    (tmp_path / "unit.cc").write_text("".join(f'#include "{file}"\n' for file in files))
    done = compile_cpp(tmp_path, "unit.cc", SEQUENCE_BYTES, compiler=compiler, standard=standard)
    assert (done.returncode, done.stderr) == (0, "")


def test_compiles_for_every_type_of_input_and_output(tmp_path: Path) -> None:
    (name,) = write(tmp_path, EVERY_TYPE_PROGRAM)
    done = compile_cpp(tmp_path, f"{name}_runner.cc")
    assert (done.returncode, done.stderr) == (0, "")


KWS_TEST = """\
#include "fake.h"
#include "kws_model.h"
#include "kws_runner.h"

static int8_t input[KWS_INPUT_0_BYTES], output[KWS_OUTPUT_0_BYTES];

class Profiler : public tflite::MicroProfilerInterface {
    uint32_t BeginEvent(const char *) override { return 0; }
    void EndEvent(uint32_t) override {}
};

static void describe()
{
    fake = Fake();
    fake.version = TFLITE_SCHEMA_VERSION;
    fake.input_count = fake.output_count = 1;
    fake.inputs[0].type = fake.outputs[0].type = kTfLiteInt8;
    fake.inputs[0].bytes = sizeof input;
    fake.inputs[0].data.data = input;
    fake.outputs[0].bytes = sizeof output;
    fake.outputs[0].data.data = output;
}

int main()
{
    Profiler profiler;
    if (kws_runner::invoke() != kws_error_order || kws_runner::reset() != kws_error_order) return 1;
    if (kws_runner::input_0() != nullptr || kws_runner::output_0() != nullptr) return 2;
    if (kws_runner::arena_used_bytes() != 0 || fake.interpreters != 0) return 3;

    describe();
    fake.version = 2;
    if (kws_runner::init() != kws_error_version) return 4;
    describe();
    fake.least_arena = KWS_ARENA_BYTES + EXTRA + 1;
    if (kws_runner::init() != kws_error_arena) return 5;
    describe();
    fake.least_arena = KWS_ARENA_BYTES + EXTRA;
    fake.allocate_fails = true;
    if (kws_runner::init() != kws_error_allocation) return 6;
    describe();
    fake.inputs[0].type = kTfLiteUInt8;
    if (kws_runner::init() != kws_error_io) return 7;
    describe();
    fake.outputs[0].bytes -= 1;
    if (kws_runner::init() != kws_error_io) return 8;
    describe();
    fake.input_count = 2;
    if (kws_runner::init() != kws_error_io) return 9;
    describe();
    fake.output_count = 0;
    if (kws_runner::init() != kws_error_io) return 10;
    if (kws_runner::invoke() != kws_error_order || fake.invoked != 0) return 11;

    describe();
    if (kws_runner::init(&profiler) != kws_ok || fake.profiler != &profiler || fake.interpreters != 1) return 12;
    if (fake.model != kws_model || fake.arena_bytes != KWS_ARENA_BYTES + EXTRA || fake.variables != 0) return 13;
    if ((reinterpret_cast<uintptr_t>(fake.arena) & (KWS_ARENA_ALIGNMENT - 1)) != 0) return 14;
    if (kws_runner::init() != kws_error_order || fake.interpreters != 1) return 15;
    if (kws_runner::input_0() != input || kws_runner::output_0() != output) return 16;
    kws_runner::set_input_0(489, 1.0f);
    if (input[489] != kws_input_0_quantize(1.0f) || input[488] != 0) return 17;
    output[11] = 64;
    const float score = kws_runner::get_output_0(11) - 0.75f;
    if (score > 0.0f || score < 0.0f) return 18;
    if (kws_runner::invoke() != kws_ok || fake.invoked != 1) return 19;
    fake.invoke_fails = true;
    if (kws_runner::invoke() != kws_error_invoke) return 20;
    if (kws_runner::reset() != kws_ok || fake.reset != 1 || fake.interpreters != 1) return 21;
    fake.reset_fails = true;
    if (kws_runner::reset() != kws_error_reset) return 22;
    if (kws_runner::arena_used_bytes() != 1234) return 23;
    if (kws_status_text(kws_ok)[0] != 'o' || kws_status_text(kws_error_invoke)[0] != 'a') return 24;
    kws_runner another;
    return another.input_0() == input ? 0 : 25;
}
"""


@pytest.mark.parametrize("extra", [0, 512])
def test_what_it_does(tmp_path: Path, extra: int) -> None:
    names = write(tmp_path, KWS_PROGRAM)
    (tmp_path / "test.cc").write_text(KWS_TEST)
    program = build(tmp_path, names, "test.cc", f"-DEXTRA={extra}", f"-DKWS_ARENA_EXTRA_BYTES={extra}")
    assert subprocess.run([program], check=False, timeout=60).returncode == 0


STATE_TEST = """\
#include "fake.h"
#include "{name}_ops.h"
#include "{name}_runner.h"

static float data[8];

const TFLMRegistration *{name}_registration_FFT()
{{
    static TFLMRegistration registration;
    return &registration;
}}

static void describe(TfLiteTensor *tensors, TfLiteType type, size_t bytes)
{{
    tensors->type = type;
    tensors->bytes = bytes;
    tensors->data.data = data;
}}

int main()
{{
    fake.version = TFLITE_SCHEMA_VERSION;
    fake.input_count = fake.output_count = 4;
    describe(&fake.inputs[0], kTfLiteInt16, 768);
    describe(&fake.inputs[1], kTfLiteUInt8, 12);
    describe(&fake.inputs[2], kTfLiteInt32, 4);
    describe(&fake.inputs[3], kTfLiteBool, 4);
    describe(&fake.outputs[0], kTfLiteFloat32, 8);
    describe(&fake.outputs[1], kTfLiteUInt16, 4);
    describe(&fake.outputs[2], kTfLiteFloat16, 4);
    describe(&fake.outputs[3], kTfLiteInt32, 8);
    fake.least_arena = 8193;
    if ({name}_runner::init() != {name}_error_arena) return 1;
    fake.least_arena = 0;
    if ({name}_runner::init() != {name}_ok || fake.variables != 2 || fake.arena_bytes != 8192) return 2;
    data[1] = 2.5f;
    const float off = {name}_runner::get_output_0(1) - 2.5f;
    if (off > 0.0f || off < 0.0f) return 3;
    const void *const half = {name}_runner::output_2();
    if (half != data || {name}_runner::output_3() == nullptr) return 4;
    if ({name}_runner::reset() != {name}_ok || fake.reset != 0) return 5;
    if (fake.destroyed != 1 || fake.interpreters != 2) return 8;
    fake.allocate_fails = true;
    if ({name}_runner::reset() != {name}_error_allocation || {name}_runner::invoke() != {name}_error_order) return 6;
    return {name}_runner::output_0() == nullptr ? 0 : 7;
}}
"""


def test_a_model_whose_variables_are_set_once_is_rebuilt_by_reset(tmp_path: Path) -> None:
    names = write(tmp_path, SEQUENCE_PROGRAM)
    (tmp_path / "test.cc").write_text(STATE_TEST.format(name=SEQUENCE_NAME))
    program = build(tmp_path, names, "test.cc", SEQUENCE_BYTES)
    assert subprocess.run([program], check=False, timeout=60).returncode == 0


def test_a_shared_arena_cannot_be_rebuilt() -> None:
    assert not can_reset(STATE_PROGRAM)
    assert "reset()" not in runner_header(STATE_PROGRAM) + runner_source(STATE_PROGRAM)
    assert can_reset(replace(STATE_PROGRAM, shared_arena=None))
    assert can_reset(HOSTILE_PROGRAM)


def test_a_shared_arena_is_requested(tmp_path: Path) -> None:
    text = runner_source(STATE_PROGRAM)
    assert "joint_arena_allocator();" in text
    assert '#include "joint_arena.h"' in text
    assert "state_arena" not in text
    assert "STATE_ARENA" not in text


def test_an_unknown_arena_size_must_be_defined(tmp_path: Path) -> None:
    write(tmp_path, SEQUENCE_PROGRAM)
    source = f"{SEQUENCE_NAME}_runner.cc"
    refused = compile_cpp(tmp_path, source)
    assert refused.returncode != 0
    assert f"the exact arena size is unknown: define {SEQUENCE_MACRO}_ARENA_BYTES" in refused.stderr
    refused = compile_cpp(tmp_path, source, f"-D{SEQUENCE_MACRO}_ARENA_BYTES=4111")
    assert refused.returncode != 0
    assert f"needs at least 4112 bytes, but {SEQUENCE_MACRO}_ARENA_BYTES is 4111" in refused.stderr.replace('" "', "")
    assert compile_cpp(tmp_path, source, f"-D{SEQUENCE_MACRO}_ARENA_BYTES=4112").stderr == ""


def test_what_is_added_to_the_arena_counts_for_its_limit(tmp_path: Path) -> None:
    write(tmp_path, KWS_PROGRAM)
    limit = "-DKWS_SRAM_LIMIT_BYTES=23472"
    assert compile_cpp(tmp_path, "kws_runner.cc", limit, "-DKWS_ARENA_EXTRA_BYTES=16").stderr == ""
    refused = compile_cpp(tmp_path, "kws_runner.cc", limit, "-DKWS_ARENA_EXTRA_BYTES=17")
    assert refused.returncode != 0
    reported = refused.stderr.replace('" "', "")
    assert "kws_arena takes 23456 + (17) bytes, but KWS_SRAM_LIMIT_BYTES is 23472" in reported


SHARED_TEST = """\
#include "fake.h"
#include "joint_arena.h"
#include "state_runner.h"

tflite::MicroAllocator *joint_arena_allocator() { return nullptr; }

int main()
{
    fake.version = TFLITE_SCHEMA_VERSION;
    return state_runner::init() == state_error_arena && fake.interpreters == 0 ? 0 : 1;
}
"""


def test_an_unavailable_shared_arena_is_reported(tmp_path: Path) -> None:
    names = write(tmp_path, STATE_PROGRAM)
    (tmp_path / "joint_arena.cc").unlink()
    (tmp_path / "test.cc").write_text(SHARED_TEST)
    assert subprocess.run([build(tmp_path, names, "test.cc")], check=False, timeout=60).returncode == 0


def test_the_c_file_includes_the_header_with_its_own_name(tmp_path: Path) -> None:
    write(tmp_path, KWS_PROGRAM)
    (tmp_path / "unit.c").write_text('#include "kws_runner.h"\n')
    refused = compile_in(tmp_path, "gcc", "c99", "-fsyntax-only", "unit.c")
    assert refused.returncode != 0
    assert "kws_runner.h requires C++; use kws.h in C" in refused.stderr


def test_the_arena_goes_to_a_section_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, KWS_PROGRAM)
    section = '-DKWS_ARENA_SECTION=__attribute__((section(".dtcm")))'
    assert compile_cpp(tmp_path, "kws_runner.cc", section, compiler="arm-none-eabi-g++").stderr == ""
    shown = subprocess.run(
        ["arm-none-eabi-objdump", "-h", "kws_runner.o"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert re.search(rf"\.dtcm\s+{23456:08x} .* 2\*\*4\n", shown), shown


@pytest.mark.parametrize("options", [(), ("-Os", "-fno-exceptions", "-fno-rtti")])
def test_nothing_runs_before_main_or_after_it_and_no_heap_is_used(tmp_path: Path, options: tuple[str, ...]) -> None:
    write(tmp_path, KWS_PROGRAM)
    assert compile_cpp(tmp_path, "kws_runner.cc", *options, compiler="arm-none-eabi-g++").stderr == ""
    symbols = subprocess.run(
        ["arm-none-eabi-nm", "kws_runner.o"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    sections = subprocess.run(
        ["arm-none-eabi-objdump", "-h", "kws_runner.o"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert "init_array" not in sections
    # Placement new is _ZnwjPv.
    assert not re.search(r"_GLOBAL__sub_I|atexit|__cxa_guard|_Zn[wa]j$|malloc|\bfree$", symbols, re.MULTILINE), symbols


@given(st.text(st.characters(codec=None), max_size=40), st.lists(st.text(max_size=40), max_size=3))
def test_no_name_escapes_from_its_comment(model: str, names: list[str]) -> None:
    tensors = tuple(
        IoSpec(i, name, (1,), DType.FLOAT32, argument=name if i % 2 else None) for i, name in enumerate(names)
    )
    spec = replace(HOSTILE_PROGRAM, header=replace(HOSTILE_PROGRAM.header, name=model, inputs=tensors))
    plain = replace(
        spec, header=replace(spec.header, inputs=tuple(replace(t, name="t", argument=None) for t in tensors))
    )
    for emit in (runner_header, runner_source):
        text = emit(spec)
        assert set(text) <= {*map(chr, range(32, 127)), "\n"}
        assert "??" not in text
        assert code(text) == code(emit(plain))


def test_shared_buffers_are_rejected_for_tflm() -> None:
    spec = replace(KWS_PROGRAM, header=SHARED)
    for emit in (runner_header, runner_source):
        with pytest.raises(ValueError, match="not shared buffers"):
            emit(spec)


def test_every_status_has_a_message() -> None:
    statuses = re.findall(r"^    (kws_error_\w+)", runner_header(KWS_PROGRAM), re.MULTILINE)
    assert len(statuses) == 8
    text = runner_source(KWS_PROGRAM)
    for status in statuses:
        assert f'case {status}:\n        return "' in text
