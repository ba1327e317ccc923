"""Plans of rows for tests: valid, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from edgetool.codegen.native.files import row_files, run_source
from edgetool.codegen.native.incremental import incremental_program
from edgetool.codegen.native.lower import NativeProgram, lower
from edgetool.codegen.native.rows import row_problem
from edgetool.codegen.spec import PlacedSpec
from edgetool.memory.problem import Memory
from edgetool.memory.streaming.checker import require_valid_placed_rows
from edgetool.memory.streaming.planner import place_unit
from edgetool.memory.streaming.problem import NO_SCRATCH, PlacedRows, RowPlan, RowProblem, SeveralRows
from edgetool.memory.streaming.several import place_rows
from edgetool.model.types import Model
from edgetool.passes.time_axis import time_as_rows
from tests.codegen.native.models import spec_of


def scattered_plan(problem: RowProblem, seed: int = 0) -> RowPlan:
    """Return a plan that runs operator by operator, with all rows apart in a random order.

    Rows that must follow each other do. The scratch of each firing is where that of any operator can be.
    """
    random = Random(seed)
    blocks = [
        (problem.first_row(index) + i, min(tensor.group, tensor.rows - i), tensor.row_bytes, tensor.alignment)
        for index, tensor in enumerate(problem.tensors)
        for i in range(0, tensor.rows, tensor.group)
    ]
    blocks += [
        (-1 - number, 1, operator.scratch_bytes, 4)
        for number, operator in enumerate(problem.operators)
        if operator.scratch_bytes
    ]
    random.shuffle(blocks)
    room = sum(count * size + alignment for _, count, size, alignment in blocks)
    unit = place_unit(room)
    offsets, end = [0] * problem.row_count, 0
    scratch: list[tuple[int, ...]] = [()] * len(problem.operators)
    for_scratch: list[tuple[int, int]] = []  # sizes and offsets
    for first, count, size, alignment in blocks:
        step = max(unit, alignment)
        start = -(-end // step) * step
        end = start + count * size
        if first < 0:
            for_scratch.append((size, start))
        else:
            offsets[first : first + count] = [start + i * size for i in range(count)]
    for number, operator in enumerate(problem.operators):
        starts = [start for size, start in for_scratch if size >= operator.scratch_bytes]
        if operator.scratch_bytes:
            scratch[number] = tuple(
                random.choice(starts) if item.scratch_bytes else NO_SCRATCH for item in operator.firings
            )
    schedule = [number for number, operator in enumerate(problem.operators) for _ in operator.firings]
    return RowPlan(tuple(schedule), tuple(offsets), tuple(scratch), end)


def in_parts(problem: RowProblem, plan: RowPlan, count: int, seed: int = 0) -> RowPlan:
    """Return a plan with its tensors and its scratch in random memories, m0, m1 and so on."""
    random = Random(seed)
    items = len(problem.tensors) + len(problem.operators)
    costs = tuple(tuple(random.choice((0, 1, 1)) for _ in range(count)) for _ in range(items))
    memories = tuple(Memory(f"m{number}", 2 * plan.memory_bytes + 64) for number in range(count))
    several = SeveralRows(problem, plan, memories, costs)
    placed = place_rows(several)
    assert isinstance(placed, PlacedRows)
    require_valid_placed_rows(several, placed)
    return placed.plan


def arena_places(plan: RowPlan) -> tuple[PlacedSpec, ...]:
    """Return the parts of the arena as the firmware states them."""
    return tuple(PlacedSpec("arena", part.memory, 1 << 24, part.size_bytes) for part in plan.parts)


def row_texts(
    name: str,
    model: Model,
    fed: tuple[int, ...] = (),
    taken: tuple[int, ...] = (),
    plan: Callable[[RowProblem], RowPlan] = scattered_plan,
    *,
    profile: bool = False,
    core: str | None = None,
    parts: int = 0,
) -> dict[str, str]:
    """Return all files of a model with a plan by name.

    fed, taken: the inputs to feed and the outputs to take by rows, by position. core: that of the target. parts: the
    number of memories, if there are several.
    """
    return _texts(name, model, lower(model, row_wise=True), fed, taken, plan, profile=profile, core=core, parts=parts)


def stream_texts(name: str, model: Model, hop: int, *, profile: bool = False, parts: int = 0) -> dict[str, str]:
    """Return all files of a step of a stream with a scattered plan by name."""
    program = incremental_program(lower(time_as_rows(model), row_wise=True, lean=True), hop)
    return _texts(name, model, program, (0,), profile=profile, parts=parts)


def _texts(
    name: str,
    model: Model,
    program: NativeProgram,
    fed: tuple[int, ...],
    taken: tuple[int, ...] = (),
    plan: Callable[[RowProblem], RowPlan] = scattered_plan,
    *,
    profile: bool = False,
    core: str | None = None,
    parts: int = 0,
) -> dict[str, str]:
    graph = program.graph
    fed_tensors, taken_tensors = [graph.inputs[i] for i in fed], [graph.outputs[i] for i in taken]
    problem = row_problem(program, fed_tensors, taken=taken_tensors)
    made = plan(problem)
    spec = spec_of(name, model, made.memory_bytes)
    if parts:
        made = in_parts(problem, made, parts)
        spec = replace(spec_of(name, model, made.memory_bytes), places=arena_places(made))
    if core is not None:
        spec = replace(spec, target=replace(spec.target, core=core))
    files = {
        **row_files(spec, program, problem, made, main=True, cmake=True, profile=profile),
        "run.c": run_source(spec, program, fed, taken),
    }
    return {file: data.decode("ascii") for file, data in files.items()}
