"""Loop counts of native kernels: against the committed counts of instructions on emulated cores, and by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median

import pytest
from benchmarks.native.instructions import CORES, Counted, counts, read, trial_of
from benchmarks.native.layers import LAYERS, layer

from edgetool.codegen.native.loops.call import Code, StepCall, run_loops
from edgetool.codegen.native.loops.registry import (
    BY_DISTANCE,
    BY_SHARED_BYTES,
    CONSTANT_READS,
    RULES,
    code_of,
    program_loops,
)
from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.program import RowInput, Step, describe
from edgetool.codegen.templates import read_file
from edgetool.estimate.native import step_instructions
from edgetool.execute.cores import MACHINES
from edgetool.model.reader import read_model
from edgetool.target.load import load_core
from edgetool.target.tables import load_instructions
from tests.codegen.native.host import Trial

KEYWORDS = Path(__file__).parents[3] / "examples" / "keyword_spotting" / "keyword_spotting.tflite"
EVERY = 6  # one layer of this many
LEAST = 2_000  # instructions of a step that is compared
STEP = Step(
    operator=0,
    kernel="edgetool_lookup",
    op=describe("edgetool_lookup", count=5),
    inputs=(RowInput(0, row_bytes=5, rows=4, taps=3, stride=2, pad=1),),
    output=1,
    row_bytes=5,
    rows=2,
    batches=3,
)


@cache
def trials(*, vector: bool, dsp: bool) -> dict[str, Trial]:
    """Some of the layers that were counted."""
    names = [(kind, number) for kind, (_, count) in LAYERS.items() for number in range(0, count, EVERY)]
    made = {f"layer/{kind}/{number}": trial_of(layer(kind, number), vector=vector, dsp=dsp) for kind, number in names}
    return {name: trial for name, trial in made.items() if trial is not None}


@cache
def counted() -> tuple[Counted, ...]:
    return tuple(read())


def errors(core: str) -> Iterator[tuple[float, str, str]]:
    """The relative errors of the steps of some layers, with kernel and case."""
    profile = load_core(core)
    table, made = load_instructions(core, "native"), trials(vector=profile.mve, dsp=profile.dsp)
    loops = {name: program_loops(trial.program, trial.memory, code_of(profile)) for name, trial in made.items()}
    for row in counted():
        number = row.instructions.get(core, 0)
        if row.case in loops and number >= LEAST:
            step = loops[row.case][row.step]
            assert step.kernel == row.kernel, row.case
            guess = step_instructions(step.kernel, step.counts, table)
            assert guess is not None, (row.kernel, step.counts)
            yield abs(guess / number - 1), row.kernel, row.case


@pytest.mark.parametrize("core", CORES)
def test_estimates_equal_the_committed_counts(core: str) -> None:
    found = sorted(errors(core))
    assert len(found) > 50
    assert median(error for error, *_ in found) < 0.01
    assert found[int(0.9 * len(found))][0] < 0.04
    assert found[-1][0] < 0.4, found[-3:]


@pytest.mark.slow
def test_counts_are_those_of_the_csv() -> None:
    machine = MACHINES["cortex-m7"]
    if machine.missing_tools:
        pytest.skip(f"{', '.join(machine.missing_tools)}: not installed")
    trial = trials(vector=False, dsp=True)["layer/dense/0"]
    row = next(item for item in counted() if item.case == "layer/dense/0")
    ((number,),) = counts("cortex-m7", {"layer/dense/0": trial}).values()
    assert abs(number - row.instructions["cortex-m7"]) <= 2


def test_rules_are_those_of_kernels_and_their_loops() -> None:
    for kernel in (*RULES, *CONSTANT_READS):
        assert f"void {kernel}(const void *op, const edgetool_band *band);" in read_file(f"native/c/{kernel}.h")
    assert CONSTANT_READS.keys() <= RULES.keys()


def test_other_kernels_have_the_same_loops_at_every_distance() -> None:
    seen = set()
    for core in ("cortex-m4", "cortex-m55"):
        profile = load_core(core)
        for trial in trials(vector=profile.mve, dsp=profile.dsp).values():
            for step in trial.program.steps:
                call = StepCall(step, code_of(profile), starts=(0,) * len(step.inputs))
                near = replace(call, shares_bytes=True, distance=1)
                if step.kernel not in RULES:
                    continue
                seen.add(step.kernel)
                if RULES[step.kernel](call) != RULES[step.kernel](near):
                    assert step.kernel in BY_DISTANCE | BY_SHARED_BYTES
    assert seen >= BY_DISTANCE | BY_SHARED_BYTES


def test_calls_without_scratch_have_the_loops_of_single_pixels() -> None:
    model = read_model(KEYWORDS.read_bytes())
    steps = [step for step in lower(model, row_wise=True).steps if step.can_be_bare]
    assert steps
    for step in steps:
        two = StepCall(step, Code(dsp=True), starts=(0,))
        fields = tuple((name, 1 if name == "pixels" else value) for name, value in step.op.values)
        one = replace(two, step=replace(step, op=replace(step.op, values=fields)))
        parts = range(step.rows), range(0, step.rows, 2), range(1, step.rows, 2)
        single, double, bare, even, odd = (
            Counter(RULES[step.kernel](call).loops)
            for call in (one, two, *(replace(two, step=replace(step, bare=frozenset(calls))) for calls in parts))
        )
        assert single != double
        assert bare == single
        assert even + odd == single + double


def test_variants_follow_the_macros_of_the_compiler() -> None:
    assert code_of(load_core("cortex-m0plus")) == Code(thumb1=True)
    assert code_of(load_core("cortex-m3")) == Code()
    assert code_of(load_core("cortex-m7")) == code_of(load_core("cortex-m33")) == Code(dsp=True)
    assert code_of(load_core("cortex-m55")) == Code(dsp=True, helium=True)
    assert code_of(load_core("riscv32")) == Code(riscv=True)


def test_the_table_of_rows_is_counted() -> None:
    call = StepCall(STEP, Code())
    # Row 0 needs the rows -1 to 1, row 1 the rows 1 to 3, in each of three batches.
    assert run_loops(call) == {
        "batches": 3,
        "kernel calls": 6,
        "rows of inputs": 6,
        "rows inside": 15,
        "rows outside": 3,
    }
    assert [call.tap_rows(y) for y in range(2)] == [(None, 0, 1), (1, 2, 3)]
    wide = replace(call, step=replace(STEP, band=2))
    assert run_loops(wide)["kernel calls"] == 3
    assert [list(band) for band in wide.bands()] == [[0, 1]]


def test_rows_have_addresses() -> None:
    call = StepCall(STEP, Code(), starts=(3,))
    assert [call.row_start(row) for row in range(4)] == [3, 0, 1, 2]


def test_elements_are_counted() -> None:
    counts = RULES["edgetool_lookup"](StepCall(STEP, Code()))
    assert (counts.path, counts.loops) == ("all", {"rows": 6, "elements": 30})
