"""Plans of rows compute bit by bit what TFLM computes, whichever kernels they have."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count, product
from pathlib import Path
from random import Random

import pytest
from benchmarks.kernels.random_network import random_network

from edgetool.codegen.native.lower import NativeProgram, lower
from edgetool.codegen.native.plan import memory_apart
from edgetool.codegen.native.row_plan import (
    NativeRows,
    RowVariants,
    faster_rows,
    in_smaller_sections,
    roomier_rows,
    rows_memory,
    rows_with_whole,
    smallest_rows,
    with_steps,
)
from edgetool.codegen.native.rows import row_problem, takeable_outputs
from edgetool.errors import UnsupportedModelError
from edgetool.memory.planner import plan_memory
from edgetool.memory.streaming.checker import row_plan_problems
from edgetool.memory.streaming.planner import place_unit
from edgetool.memory.streaming.problem import NO_SCRATCH, steps_of
from edgetool.model.edit import with_metadata
from edgetool.model.metadata import METADATA_NAME, encode_plan
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from tests.codegen.native.host import Build, Trial, differences, prepare, with_rows
from tests.codegen.native.row_plans import in_parts
from tests.codegen.native.stored_rows import StoredRows
from tests.codegen.native.test_networks import networks, supported

ROWS = Build(driver="rows")
EXAMPLES = Path(__file__).parents[3] / "examples"
KEYWORDS = EXAMPLES / "keyword_spotting" / "keyword_spotting.tflite"
PERSON = EXAMPLES / "person_detection" / "person_detection.tflite"
QUICK, MANY = 8, 48
PASSES = 10
FASTER = (1.0, 1.1, 1.5)  # limits, as multiples of the smallest plan


def variants(model: Model) -> RowVariants:
    return RowVariants(lower(model, row_wise=True, lean=True), lower(model, row_wise=True), lower(model))


def costs(variant: RowVariants) -> list[dict[int, int]]:
    """Return costs for which kernels with scratch are always worth it, and kernels for whole tensors most of all."""
    programs = (variant.small, variant.rows, variant.whole, variant.rows)
    return [
        {step.operator: cost for step in program.steps} for program, cost in zip(programs, (4, 2, 1, 3), strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of plan. factor: the memory for faster kernels, in that of the smallest plan; None for the latter."""

    factor: float | None
    fed: bool
    taken: bool

    @property
    def name(self) -> str:
        """The kind in words."""
        memory = "smallest" if self.factor is None else f"{self.factor:g} times the smallest"
        return memory + ", row input" * self.fed + ", row output" * self.taken


def kinds() -> list[Kind]:
    """Return all kinds of plans."""
    return [Kind(factor, *rows) for factor in (None, *FASTER) for rows in product((False, True), repeat=2)]


def plans(model: Model) -> list[NativeRows]:
    """Return the smallest plan of a model, and plans with faster kernels."""
    programs = variants(model)
    base = smallest_rows(programs.small, passes=PASSES)
    return [base, *(faster(base, programs, factor) for factor in FASTER)]


def faster(base: NativeRows, programs: RowVariants, factor: float) -> NativeRows:
    """Return a plan that takes up to `factor` times the memory of the smallest one."""
    limit = int(factor * base.plan.memory_bytes)
    moved = roomier_rows(base, programs.rows, {step.operator: 1 for step in programs.rows.steps}, limit)
    moved, programs = moved_for_whole(moved, programs, limit)
    programs = replace(programs, small=moved.program)
    return next(faster_rows(moved, programs, costs(programs), [limit]))


def moved_for_whole(base: NativeRows, programs: RowVariants, limit: int) -> tuple[NativeRows, RowVariants]:
    """Return a plan in which as many operators as possible have kernels for whole tensors, in bands of any size."""
    whole = in_smaller_sections(programs.whole)
    moved, found = rows_with_whole(base, whole, dict.fromkeys(costs(programs)[2], range(len(whole))), limit, {})
    return moved, replace(programs, rows=with_steps(programs.rows, found))


def with_kind(trial: Trial, kind: Kind) -> Trial:
    """Return a trial of a lean row-wise program with a plan of a kind."""
    graph = trial.program.graph
    fed = tuple(range(len(graph.inputs))) if kind.fed else ()
    taken = takeable_outputs(trial.program) if kind.taken else ()
    inputs = [graph.inputs[position] for position in fed]
    rows = smallest_rows(trial.program, inputs, taken=taken, passes=PASSES)
    if kind.factor is not None:
        rows = faster(rows, variants(read_model(trial.blob)), kind.factor)
    positions = tuple(graph.outputs.index(tensor) for tensor in rows.taken)
    return replace(trial, program=rows.program, rows=(rows.problem, rows.plan), fed=fed, taken=positions)


def random_trials(first: int, number: int) -> dict[str, Trial]:
    """Return random networks with plans of all kinds, in turn: neighbours differ in all respects."""
    chosen = supported(networks(first), number, Counter(), row_wise=True, lean=True)
    every = kinds()
    return {name: with_kind(trial, every[3 * i % len(every)]) for i, (name, trial) in enumerate(chosen.items())}


def test_random_networks_are_equal_in_any_plan() -> None:
    trials = random_trials(0, QUICK)
    assert len(trials) == QUICK
    # The generated code has the plan as it is, and rows are looked up elsewhere: the comparison notices it.
    trials["moved"] = _looked_up_elsewhere(next(iter(trials.values())))
    (difference,) = differences(trials, ROWS)
    assert re.fullmatch(r"moved: row \d+ of \d+ of tensor \d+, .*, differs", difference)


def in_memories(trials: Mapping[str, Trial]) -> dict[str, Trial]:
    """Return the trials with their rows in two to four memories."""
    placed = {}
    for number, (name, trial) in enumerate(trials.items()):
        assert trial.rows is not None
        problem, plan = trial.rows
        placed[name] = replace(trial, rows=(problem, in_parts(problem, plan, 2 + number % 3, number)))
    return placed


@pytest.mark.slow
def test_random_networks_are_equal_in_several_memories() -> None:
    trials = in_memories(random_trials(500, QUICK))
    assert max(len(trial.parts) for trial in trials.values()) > 2
    trials["moved"] = _looked_up_elsewhere(next(trial for trial in trials.values() if len(trial.parts) > 1))
    (difference,) = differences(trials, ROWS)
    assert difference.startswith("moved: row ")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_random_networks_are_equal_in_several_memories(part: int) -> None:
    assert differences(in_memories(random_trials(50_000 + 10_000 * part, MANY // 4)), ROWS) == []


def _looked_up_elsewhere(trial: Trial) -> Trial:
    """Return the trial with another place of the first row that is written, where the comparison looks for it."""
    assert trial.rows is not None
    problem, plan = trial.rows
    at = next(row for _, firing in steps_of(problem, plan.schedule) for row in firing.writes)
    other = next(offset for offset in plan.offsets if offset != plan.offsets[at])
    moved = replace(plan, offsets=(*plan.offsets[:at], other, *plan.offsets[at + 1 :]))
    return replace(trial, stored=StoredRows(trial.blob, trial.program, problem, moved))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_random_networks_are_equal_in_any_plan(part: int) -> None:
    assert differences(random_trials(10_000 * (1 + part), MANY // 4), ROWS) == []


def supported_models(number: int) -> list[Model]:
    """Return random networks that the native runtime supports."""
    models = []
    for i in count():
        model = random_network(Random(f"native/rows/{i}"))
        try:
            lower(model)
        except UnsupportedModelError:
            continue
        models.append(model)
        if len(models) == number:
            return models
    raise AssertionError


@pytest.mark.parametrize("model", supported_models(12))
def test_plans_are_valid_and_within_their_limits(model: Model) -> None:
    base, *faster = plans(model)
    for factor, item in zip((1.0, *FASTER), (base, *faster), strict=True):
        assert row_plan_problems(item.problem, item.plan) == []
        assert item.plan.memory_bytes <= int(factor * base.plan.memory_bytes)


@pytest.mark.parametrize("model", supported_models(12))
def test_offsets_of_large_plans_are_multiples_of_a_unit(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the tables could state few numbers.
    monkeypatch.setattr("edgetool.memory.streaming.planner.PLACES", 100)
    for rows in plans(model):
        plan, unit = rows.plan, place_unit(rows.plan.memory_bytes)
        offsets = [place for places in plan.scratch for place in places if place != NO_SCRATCH]
        offsets += [
            plan.offsets[row]
            for index, tensor in enumerate(rows.problem.tensors)
            for row in rows.problem.rows_of(index)[:: tensor.group]
        ]
        assert [offset for offset in offsets if offset % unit] == []


@pytest.mark.parametrize("model", supported_models(12))
def test_rows_never_take_more_than_tensors_that_are_as_far_apart(model: Model) -> None:
    program = lower(model, row_wise=True, lean=True)
    assert smallest_rows(program, passes=4).plan.memory_bytes <= memory_apart(program).arena_bytes


@pytest.mark.parametrize("model", supported_models(6))
def test_a_problem_reads_what_the_program_reads(model: Model) -> None:
    program = lower(model, row_wise=True, lean=True)
    problem = row_problem(program)
    assert len(problem.operators) == len(program.steps)
    for step, operator in zip(program.steps, problem.operators, strict=True):
        assert len(operator.firings) == -(-step.rows // step.band) * step.batches
        written = {row for firing in operator.firings for row in firing.writes}
        sizes = problem.row_sizes()
        assert sum(sizes[row] for row in written) >= step.row_bytes * (1 if step.accumulates else step.rows)


@pytest.mark.parametrize("model", supported_models(6))
def test_the_memory_of_a_plan_is_that_of_its_largest_step(model: Model) -> None:
    rows = smallest_rows(lower(model, row_wise=True, lean=True), passes=4)
    memory = rows_memory(rows)
    assert memory.arena_bytes == rows.plan.memory_bytes
    assert all(0 <= offset < max(1, memory.arena_bytes) for offset in memory.layout.offsets)


@pytest.mark.parametrize(
    ("number", "fed", "taken"), [(74, False, True), (812, True, False), (832, True, True), (2328, True, False)]
)
def test_kernels_for_tensors_read_only_rows_that_are_there(number: int, fed: bool, taken: bool) -> None:
    # A kernel for a tensor reads all of it, but a kernel for rows a part of it. In the last one, it reads only padding.
    # In the first one, an output is taken between two steps of an operator, and its memory is used again.
    trial = prepare(random_network(Random(f"native/rows-bits/1/{number}")), 1, row_wise=True, lean=True)
    rows = with_kind(trial, Kind(1.0, fed, taken)).rows
    assert rows is not None
    assert row_plan_problems(*rows) == []


def test_fed_inputs_are_operators_of_their_own() -> None:
    trial = next(iter(supported(networks(0), 1, Counter(), row_wise=True).values()))
    program: NativeProgram = trial.program
    fed = tuple(program.graph.inputs)
    problem = row_problem(program, fed)
    assert [operator.name for operator in problem.operators[: len(fed)]] == ["feed"] * len(fed)
    assert not any(tensor.given for tensor in problem.tensors if tensor.tensor in fed)


def test_faster_kernels_get_scratch_within_the_limit() -> None:
    complete = 0
    for model in supported_models(4):
        programs = variants(model)
        base = smallest_rows(programs.small, passes=PASSES)
        smallest, gains = base.plan.memory_bytes, {step.operator: 1 for step in programs.rows.steps}
        for limit in (smallest, int(1.1 * smallest)):
            moved = roomier_rows(base, programs.rows, gains, limit)
            assert moved.plan.memory_bytes <= limit
            assert row_plan_problems(moved.problem, moved.plan) == []
            complete += moved.program.steps == programs.rows.steps != programs.small.steps
        assert roomier_rows(base, programs.rows, gains, smallest, stopped=lambda: True) is base
    assert complete > 0


def test_rows_move_so_that_kernels_for_tensors_have_a_place() -> None:
    trial = prepare(PERSON.read_bytes(), 2, row_wise=True, lean=True)
    programs = variants(read_model(trial.blob))
    base = smallest_rows(programs.small, passes=PASSES)
    limit, wanted = base.plan.memory_bytes, {step.operator: [0] for step in programs.small.steps}
    moved, after = rows_with_whole(base, [programs.whole], wanted, limit, {})
    assert moved.plan.memory_bytes <= limit
    assert row_plan_problems(moved.problem, moved.plan) == []
    banded = {step.operator for step in moved.program.steps if step.band > 1}
    # Where rows were, their tensors are too close for these kernels.
    costs_of_whole = costs(replace(programs, small=base.program))
    before = next(faster_rows(base, programs, costs_of_whole, [limit]))
    assert banded > {step.operator for step in before.program.steps if step.band > 1}
    assert {operator for operator, steps in after.items() if steps[0].band > 1} == banded
    assert differences({"person": replace(trial, program=moved.program, rows=(moved.problem, moved.plan))}, ROWS) == []
    assert rows_with_whole(base, [programs.whole], wanted, limit, {}, stopped=lambda: True) == (base, {})
    assert rows_with_whole(base, [], {}, limit, {}) == (base, {})
    # What was found is found again with more memory.
    again = rows_with_whole(base, [programs.whole], wanted, 2 * limit, after)[1]
    assert after.keys() <= again.keys()


def test_smaller_bands_of_tensors_have_a_place_where_larger_ones_have_none() -> None:
    trial = prepare(PERSON.read_bytes(), 2, row_wise=True, lean=True)
    programs = variants(read_model(trial.blob))
    base = smallest_rows(programs.small, passes=PASSES)
    limit, wanted = base.plan.memory_bytes, list(costs(programs)[2])
    (largest, _), (moved, _) = (
        rows_with_whole(base, whole, dict.fromkeys(wanted, range(len(whole))), limit, {})
        for whole in ([programs.whole], in_smaller_sections(programs.whole))
    )
    before, after = (
        {step.operator: step.band for step in plan.program.steps if step.band > 1} for plan in (largest, moved)
    )
    assert moved.plan.memory_bytes <= limit
    assert before.items() < after.items()
    assert differences({"person": replace(trial, program=moved.program, rows=(moved.problem, moved.plan))}, ROWS) == []


def test_a_faster_kernel_computes_the_rows_at_which_its_scratch_has_a_place() -> None:
    trial = prepare(PERSON.read_bytes(), 2, row_wise=True, lean=True)
    programs = variants(read_model(trial.blob))
    base = smallest_rows(programs.small, passes=PASSES)
    rows = next(faster_rows(base, programs, costs(programs), [base.plan.memory_bytes]))
    assert rows.plan.memory_bytes == base.plan.memory_bytes
    parts = Counter(step.operator for step in rows.program.steps if step.first)
    assert parts
    for operator in parts:
        [whole] = (step for step in programs.rows.steps if step.operator == operator)
        steps = [step for step in rows.program.steps if step.operator == operator]
        assert {step.kernel for step in steps} > {whole.kernel}
        assert sum(step.rows for step in steps) == whole.rows
    assert differences({"person": replace(trial, program=rows.program, rows=(rows.problem, rows.plan))}, ROWS) == []


def test_a_keyword_spotter_takes_less_than_half_of_its_tensors() -> None:
    trial = prepare(KEYWORDS.read_bytes(), 2, row_wise=True, lean=True)
    rows = with_rows(trial, lambda problem: smallest_rows(trial.program).plan)
    assert rows.arena_bytes < trial.memory.arena_bytes / 2
    assert differences({"keywords": rows}) == []


@pytest.mark.slow
def test_rows_of_a_model_with_a_memory_plan_are_compared_with_complete_tensors() -> None:
    model = read_model(KEYWORDS.read_bytes())
    plan = plan_memory(model)
    offsets = {
        (buffer.subgraph, buffer.tensor): offset
        for buffer, offset in zip(plan.problem.buffers, plan.layout.offsets, strict=True)
        if not buffer.is_scratch
    }
    planned = with_metadata(model, METADATA_NAME, encode_plan(model, offsets))
    trial = prepare(planned, 1, row_wise=True, lean=True)
    assert differences({"keywords": with_kind(trial, Kind(None, fed=False, taken=False))}, ROWS) == []
