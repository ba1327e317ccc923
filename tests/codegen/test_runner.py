"""NAME_runner.h, NAME_runner.cc, NAME_ops.h and main.cc.

To renew the golden files: EDGETOOL_UPDATE_GOLDEN=1 pytest tests/codegen
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.codegen import c_names
from edgetool.codegen.spec import IoSpec, ProgramSpec, Registration
from edgetool.codegen.tflm.runner import can_reset, main_source, ops_header, runner_header, runner_source
from edgetool.model.types import DType
from edgetool.target.load import DEFAULT_RUNTIME, load_runtime
from tests.codegen.c_compilers import CPP_MATRIX, TFLM_API, compile_in, over_compilers
from tests.codegen.emitted import build, compile_cpp, write, write_main
from tests.codegen.golden_files import check_golden, code
from tests.codegen.header_specs import HOSTILE_NAMES, SHARED
from tests.codegen.program_specs import (
    ALL_PROGRAMS,
    COMMIT,
    EMPTY_PROGRAM,
    EVERY_TYPE_PROGRAM,
    HOSTILE_PROGRAM,
    KWS_PROGRAM,
    SEQUENCE_PROGRAM,
    STATE_PROGRAM,
)

SEQUENCE_NAME = c_names.model_identifier(SEQUENCE_PROGRAM.header.name)
SEQUENCE_MACRO = c_names.model_macro(SEQUENCE_PROGRAM.header.name)
SEQUENCE_BYTES = f"-D{SEQUENCE_MACRO}_ARENA_BYTES=8192"


@pytest.mark.parametrize("name", ["kws", "sequence", "state", "placed", "copied"])
@pytest.mark.parametrize(("suffix", "emit"), [("h", runner_header), ("cc", runner_source)], ids=["h", "cc"])
def test_golden(name: str, suffix: str, emit: Callable[[ProgramSpec], str]) -> None:
    check_golden(f"{name}_runner.{suffix}", emit(ALL_PROGRAMS[name]))


@over_compilers(CPP_MATRIX)
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


RESOLVER = TFLM_API / "tensorflow/lite/micro/micro_mutable_op_resolver.h"


@pytest.mark.parametrize("name", ["kws", "sequence", "hostile", "empty"])
def test_golden_ops(name: str) -> None:
    check_golden(f"{name}_ops.h", ops_header(ALL_PROGRAMS[name]))


def test_every_method_of_the_runtime_is_one_of_tflms() -> None:
    """The list in tflm_api was read from TFLM's own resolver; what a runtime names must be in it, each once."""
    runtime = load_runtime(DEFAULT_RUNTIME)
    methods = [method for _, method in (*runtime.resolver, *runtime.custom_resolver)]
    assert sorted(methods) == sorted(re.findall(r"X\((\w+)\)", RESOLVER.read_text()))
    assert runtime.tflm_commit == COMMIT


def test_every_function_of_the_runtime_is_declared_in_its_header() -> None:
    """The headers in tflm_api have the functions of TFLM's own; a runtime names each of them."""
    declared = {
        (path.relative_to(TFLM_API).as_posix(), function)
        for path in RESOLVER.parent.glob("kernels/*.h")
        for function in re.findall(r"^TFLM_API_REGISTRATION\((\w+)\)$", path.read_text(), re.MULTILINE)
    }
    named = {(item.header, item.function) for item in load_runtime(DEFAULT_RUNTIME).registrations}
    assert named == declared


def test_the_methods_and_their_number() -> None:
    text = ops_header(KWS_PROGRAM)
    assert re.findall(r"resolver\.(\w+\(.*\)) ==", text) == [
        "AddConv2D(KWS_KERNEL(Register_CONV_2D_INT8))",
        "AddReshape()",
        "AddFullyConnected()",
        "AddSoftmax(KWS_KERNEL(Register_SOFTMAX_INT8))",
    ]
    assert "#define KWS_OP_COUNT 4\n" in text
    assert COMMIT in text
    assert "#define EMPTY_OP_COUNT 1\n" in ops_header(EMPTY_PROGRAM)


@over_compilers(CPP_MATRIX)
def test_compiles_without_a_warning_even_twice(tmp_path: Path, compiler: str, standard: str) -> None:
    names = write(tmp_path, *ALL_PROGRAMS.values())
    (tmp_path / "unit.cc").write_text("".join(f'#include "{name}_ops.h"\n' for name in names * 2))
    done = compile_cpp(tmp_path, "unit.cc", compiler=compiler, standard=standard)
    assert (done.returncode, done.stderr) == (0, "")


MAIN = """\
#include "{name}_ops.h"

{functions}
int main()
{{
    {name}_op_resolver resolver;
    if ({name}_register_ops(resolver) != kTfLiteOk) return 1;
    if (resolver.GetRegistrationLength() != {count}) return 2;
    if ({count} != 0 && {macro}_OP_COUNT != {count}) return 3;
    return {count} == 0 || {name}_register_ops(resolver) == kTfLiteError ? 0 : 4;
}}
"""


@pytest.mark.parametrize("spec", ALL_PROGRAMS.values(), ids=ALL_PROGRAMS)
def test_a_resolver_is_filled_completely(tmp_path: Path, spec: ProgramSpec) -> None:
    (name,) = write(tmp_path, spec)
    own = re.findall(r"^const TFLMRegistration \*(\w+)\(\);$", ops_header(spec), re.MULTILINE)
    assert len(own) == sum(registration.method is None for registration in spec.registrations)
    functions = "static const TFLMRegistration registration = {nullptr};\n"
    functions += "".join(f"const TFLMRegistration *{one}() {{ return &registration; }}\n" for one in own)
    macro, count = c_names.model_macro(spec.header.name), len(spec.registrations)
    values = {"name": name, "macro": macro, "count": count, "functions": functions if own else ""}
    (tmp_path / "main.cc").write_text(MAIN.format_map(values))
    done = compile_cpp(tmp_path, "main.cc")
    assert (done.returncode, done.stderr) == (0, "")
    subprocess.run(["g++", "main.o", "-o", "program"], cwd=tmp_path, check=True, timeout=60)
    assert subprocess.run([tmp_path / "program"], check=False, timeout=60).returncode == 0


TYPED_MAIN = """\
#include "kws_ops.h"

#ifdef KWS_KERNEL
#error "a macro for this header only"
#endif

int main()
{
    kws_op_resolver resolver;
    return kws_register_ops(resolver) == kTfLiteOk ? static_cast<int>(resolver.GetTypedLength()) : -1;
}
"""


@pytest.mark.parametrize(("options", "typed"), [((), 2), (("-DKWS_GENERAL_KERNELS",), 0)])
def test_kernels_for_fewer_types_are_registered_unless_general_ones_are_asked_for(
    tmp_path: Path, options: tuple[str, ...], typed: int
) -> None:
    write(tmp_path, KWS_PROGRAM)
    (tmp_path / "main.cc").write_text(TYPED_MAIN)
    done = compile_cpp(tmp_path, "main.cc", *options)
    assert (done.returncode, done.stderr) == (0, "")
    subprocess.run(["g++", "main.o", "-o", "program"], cwd=tmp_path, check=True, timeout=60)
    assert subprocess.run([tmp_path / "program"], check=False, timeout=60).returncode == typed


def test_general_kernels_need_no_header_and_no_macro() -> None:
    registrations = tuple(replace(item, function=None, header="") for item in KWS_PROGRAM.registrations)
    text = ops_header(replace(KWS_PROGRAM, registrations=registrations))
    assert text.count("#include") == 1
    assert "KERNEL" not in text


def literals(text: str) -> list[bytes]:
    """The strings of the code, as a compiler reads them."""
    return [ast.literal_eval(f"b{string}") for string in re.findall(r'AddCustom\(("(?:[^"\\]|\\[0-7]{3})*"),', text)]


@given(
    st.lists(
        st.text(st.characters(codec=None), min_size=1, max_size=30) | st.sampled_from([n for n in HOSTILE_NAMES if n]),
        min_size=1,
        max_size=8,
        unique=True,
    ),
    st.text(st.characters(codec=None), max_size=40),
)
def test_no_name_escapes_from_its_string_or_comment(operators: list[str], model: str) -> None:
    spec = replace(
        HOSTILE_PROGRAM,
        header=replace(HOSTILE_PROGRAM.header, name=model),
        registrations=tuple(Registration(operator, None) for operator in operators),
    )
    text = ops_header(spec)
    assert set(text) <= {*map(chr, range(32, 127)), "\n"}
    assert "??" not in text
    assert literals(text) == [operator.encode("utf-8", "surrogatepass") for operator in operators]
    # No comment has a quotation mark, so strings can go first.
    code = re.sub(r"/\*.*?\*/", "", re.sub(r'"(?:[^"\\]|\\[0-7]{3})*"', '""', text), flags=re.DOTALL)
    name, macro = c_names.model_identifier(model), c_names.model_macro(model)
    for line in filter(None, map(str.strip, code.splitlines())):
        assert re.fullmatch(
            rf'#(?:ifndef|define) (?:EDGETOOL_OPS_{macro}|{macro}_OP_COUNT \d+)|#endif|#include ""'
            rf"|typedef tflite::MicroMutableOpResolver<{macro}_OP_COUNT> {name}_op_resolver;"
            rf"|const TFLMRegistration \*{name}_registration_\w+\(\);|inline TfLiteStatus {name}_register_ops\(.*\)"
            rf'|(?:const bool added = )?resolver\.AddCustom\("", {name}_registration_\w+\(\)\) == kTfLiteOk(?: &&|;)'
            r"|[{}]|return added \? kTfLiteOk : kTfLiteError;",
            line,
        ), line


def test_functions_that_the_user_must_define_are_declared() -> None:
    text = ops_header(SEQUENCE_PROGRAM)
    name = c_names.model_identifier(SEQUENCE_PROGRAM.header.name)
    assert f"const TFLMRegistration *{name}_registration_FFT();" in text
    assert f'AddCustom("FFT", {name}_registration_FFT())' in text
    assert "resolver.AddMyOp()" in text


TWO = [replace(KWS_PROGRAM, shared_arena="joint"), STATE_PROGRAM]
CASES: dict[str, list[ProgramSpec]] = {
    "kws": [KWS_PROGRAM],
    "sequence": [ALL_PROGRAMS["sequence"]],
    "two": TWO,
}
# Lets the fake stand for a model, before InitializeTarget: a constructor of the test's own.
DESCRIBE = """\
#include "fake.h"

static signed char input[490], output[12] = {127, -128, 0};

static int describe()
{
    fake.version = TFLITE_SCHEMA_VERSION;
    fake.allocate_fails = ALLOCATE_FAILS;
    fake.invoke_fails = INVOKE_FAILS;
    fake.input_count = fake.output_count = 1;
    fake.inputs[0].type = fake.outputs[0].type = kTfLiteInt8;
    fake.inputs[0].bytes = sizeof input;
    fake.inputs[0].data.data = input;
    fake.outputs[0].bytes = sizeof output;
    fake.outputs[0].data.data = output;
    return 0;
}

static const int described = describe();
"""


@pytest.mark.parametrize("name", CASES)
def test_golden_main(name: str) -> None:
    check_golden(f"{name}_main.cc", main_source(CASES[name]))


@over_compilers(CPP_MATRIX)
def test_compiles_without_a_warning(tmp_path: Path, compiler: str, standard: str) -> None:
    write(tmp_path, *ALL_PROGRAMS.values())
    for programs in (*([one] for one in ALL_PROGRAMS.values()), list(ALL_PROGRAMS.values())):
        write_main(tmp_path, programs)
        done = compile_cpp(tmp_path, "main.cc", compiler=compiler, standard=standard)
        assert (done.returncode, done.stderr) == (0, "")


def test_main_compiles_for_every_type_of_input_and_output(tmp_path: Path) -> None:
    write(tmp_path, EVERY_TYPE_PROGRAM)
    write_main(tmp_path, [EVERY_TYPE_PROGRAM])
    done = compile_cpp(tmp_path, "main.cc")
    assert (done.returncode, done.stderr) == (0, "")


def run(directory: Path, programs: list[ProgramSpec], *, failing: str = "") -> tuple[int, list[str]]:
    """The exit code of the program with the fake TFLM, and the lines that it prints."""
    names = write(directory, *programs)
    write_main(directory, programs)
    with (directory / "main.cc").open("a") as file:
        file.write(DESCRIBE)
    api = Path(__file__).parent / "tflm_api"
    flags = [f"-D{what}={int(what == failing)}" for what in ("ALLOCATE_FAILS", "INVOKE_FAILS")]
    program = build(directory, names, "main.cc", "-isystem", str(api), *flags)
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout.splitlines()


def test_it_runs_the_model_and_prints_the_outputs(tmp_path: Path) -> None:
    code, lines = run(tmp_path, [KWS_PROGRAM])
    assert code == 0
    assert lines[:3] == ["kws output_0[0] = 0.9961", "kws output_0[1] = 0.0000", "kws output_0[2] = 0.5000"]
    assert len(lines) == KWS_PROGRAM.header.outputs[0].element_count + 1
    assert lines[-1] == "kws: arena_used_bytes 1234"


def test_several_models_run_in_one_program(tmp_path: Path) -> None:
    code, lines = run(tmp_path, TWO)
    assert code == 0
    assert lines[0] == "kws output_0[0] = 0.9961"
    assert "state output_0[11] = 0.5000" in lines
    assert lines[-1] == "state: arena_used_bytes 1234"


@pytest.mark.slow
@pytest.mark.parametrize("names", [("a", "a_error"), ("run", "status"), ("init", "status"), ("status", "status_run")])
def test_models_with_names_of_the_same_prefix_do_not_collide(tmp_path: Path, names: tuple[str, str]) -> None:
    programs = [
        replace(program, header=replace(program.header, name=name)) for program, name in zip(TWO, names, strict=True)
    ]
    code, lines = run(tmp_path, programs)
    assert code == 0
    assert lines[-1] == f"{names[1]}: arena_used_bytes 1234"


@pytest.mark.parametrize(
    ("failing", "reported"),
    [("ALLOCATE_FAILS", "kws: AllocateTensors failed"), ("INVOKE_FAILS", "kws: an operator failed")],
)
def test_a_failure_is_reported_and_returned(tmp_path: Path, failing: str, reported: str) -> None:
    code, lines = run(tmp_path, [KWS_PROGRAM], failing=failing)
    assert code != 0
    assert len(lines) == 1
    assert lines[0].startswith(reported)


def test_a_model_without_inputs_and_outputs_has_nothing_to_print() -> None:
    text = main_source([EMPTY_PROGRAM])
    assert "print_real" not in text
    assert "for (" not in text


def test_a_program_needs_a_model() -> None:
    with pytest.raises(ValueError, match="without a model"):
        main_source([])
