"""NAME_ops.h. To renew the golden files: EDGETOOL_UPDATE_GOLDEN=1 pytest tests/codegen"""

from __future__ import annotations

import ast
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.codegen import c_names
from edgetool.codegen.spec import ProgramSpec, Registration
from edgetool.codegen.tflm.runner import ops_header
from edgetool.target.load import DEFAULT_RUNTIME, load_runtime
from tests.codegen.c_compilers import CPP_MATRIX, TFLM_API
from tests.codegen.emitted import compile_cpp, write
from tests.codegen.golden_files import check_golden
from tests.codegen.header_specs import HOSTILE_NAMES
from tests.codegen.program_specs import (
    ALL_PROGRAMS,
    COMMIT,
    EMPTY_PROGRAM,
    HOSTILE_PROGRAM,
    KWS_PROGRAM,
    SEQUENCE_PROGRAM,
)

RESOLVER = TFLM_API / "tensorflow/lite/micro/micro_mutable_op_resolver.h"


@pytest.mark.parametrize("name", ["kws", "sequence", "hostile", "empty"])
def test_golden(name: str) -> None:
    check_golden(f"{name}_ops.h", ops_header(ALL_PROGRAMS[name]))


def test_every_method_of_the_runtime_is_one_of_tflms() -> None:
    """The list in tflm_api was read from TFLM's own resolver; what a runtime names must be in it, each once."""
    runtime = load_runtime(DEFAULT_RUNTIME)
    methods = [method for _, method in (*runtime.resolver, *runtime.custom_resolver)]
    assert sorted(methods) == sorted(re.findall(r"X\((\w+)\)", RESOLVER.read_text()))
    assert runtime.tflm_commit == COMMIT


def test_the_methods_and_their_number() -> None:
    text = ops_header(KWS_PROGRAM)
    assert re.findall(r"resolver\.(\w+)\(\)", text) == ["AddConv2D", "AddReshape", "AddFullyConnected", "AddSoftmax"]
    assert "#define KWS_OP_COUNT 4\n" in text
    assert COMMIT in text
    assert "#define EMPTY_OP_COUNT 1\n" in ops_header(EMPTY_PROGRAM)


@pytest.mark.parametrize(("compiler", "standard"), CPP_MATRIX)
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
