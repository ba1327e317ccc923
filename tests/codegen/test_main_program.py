"""main.cc. To renew the golden files: EDGETOOL_UPDATE_GOLDEN=1 pytest tests/codegen"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.codegen.spec import ProgramSpec
from edgetool.codegen.tflm.runner import main_source
from tests.codegen.c_compilers import CPP_MATRIX
from tests.codegen.emitted import build, compile_cpp, write, write_main
from tests.codegen.golden_files import check_golden
from tests.codegen.program_specs import ALL_PROGRAMS, EMPTY_PROGRAM, EVERY_TYPE_PROGRAM, KWS_PROGRAM, STATE_PROGRAM

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
def test_golden(name: str) -> None:
    check_golden(f"{name}_main.cc", main_source(CASES[name]))


@pytest.mark.parametrize(("compiler", "standard"), CPP_MATRIX)
def test_compiles_without_a_warning(tmp_path: Path, compiler: str, standard: str) -> None:
    write(tmp_path, *ALL_PROGRAMS.values())
    for programs in (*([one] for one in ALL_PROGRAMS.values()), list(ALL_PROGRAMS.values())):
        write_main(tmp_path, programs)
        done = compile_cpp(tmp_path, "main.cc", compiler=compiler, standard=standard)
        assert (done.returncode, done.stderr) == (0, "")


def test_compiles_for_every_type_of_input_and_output(tmp_path: Path) -> None:
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
