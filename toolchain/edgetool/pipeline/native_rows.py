"""Plans of rows for native code: the smallest one, faster ones that take more memory, and their section of reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from edgetool.codegen.native.emit import constant_input
from edgetool.codegen.native.incremental import incremental_program
from edgetool.codegen.native.loops.registry import code_of, program_loops
from edgetool.codegen.native.lower import NativeProgram, Stream, lower
from edgetool.codegen.native.plan import in_program_order, memory_apart
from edgetool.codegen.native.row_plan import NativeRows, RowVariants, faster_rows, smallest_rows
from edgetool.codegen.native.row_tables import table_bytes
from edgetool.codegen.native.rows import row_problem
from edgetool.estimate.native import StepWork, count_native_operators
from edgetool.memory.streaming.bound import row_bound
from edgetool.memory.streaming.planner import segments_of
from edgetool.memory.streaming.problem import RowProblem
from edgetool.model.types import Model
from edgetool.operators.registry import OperatorCost, operator_costs
from edgetool.passes.time_axis import time_as_rows
from edgetool.report.document import RowSegment, RowsInfo, RowTensorInfo, StreamInfo
from edgetool.report.rows_picture import in_parts, rows_live
from edgetool.target.types import Target

# The memory of faster plans, as multiples of the smallest one: where kernels for tensors take over is different in
# every model.
STEPS = (1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 2.0)
BOUND_CUTS = 20  # minimum cuts for the lower bound: more than models of today need, and at most a second


def row_choices(
    model: Model,
    orders: Sequence[Sequence[int]],
    target: Target,
    below: int | None,
    extensions: Mapping[str, bool],
    *,
    fed: Sequence[int] = (),
    hop: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
    known: dict[RowProblem, NativeRows] | None = None,
) -> tuple[NativeRows, ...]:
    """Return plans that take more and more memory for fewer and fewer instructions.

    Args:
        model: The model.
        orders: Orders of the operators, by their indices, to choose the best segments from.
        target: A target whose instructions are known.
        below: Plans that take as much, or more, are left out, unless it is None.
        extensions: Those of the core, as for lower.
        fed: The inputs that the application hands over by rows, as tensors of the main graph.
        hop: How many rows of the input are new in each inference, which computes only what they change; None if an
            inference computes the whole window.
        stopped: Whether to end the search.
        known: The smallest plans so far of this model, to which those found here are added.
    """
    if hop is None:
        small, rows, whole = (
            lower(model, row_wise=row_wise, lean=lean, **extensions)
            for row_wise, lean in ((True, True), (True, False), (False, False))
        )
    else:
        small, rows, whole = _stream_programs(model, hop, extensions)
    known = {} if known is None else known
    bases = [_smallest(in_program_order(small, tuple(order)), fed, stopped, known) for order in orders]
    number = min(range(len(bases)), key=lambda i: bases[i].plan.memory_bytes)
    base, order = bases[number], tuple(orders[number])
    smallest = base.plan.memory_bytes
    if below is not None and smallest >= below:
        return ()
    variants = RowVariants(*(in_program_order(program, order) for program in (small, rows, whole)))
    costs = preferences([operator_instructions(program, target) for program in (small, rows, whole)])
    choices: list[NativeRows] = []
    fewest: int | None = None
    for factor in STEPS:
        limit = int(factor * smallest)
        if below is not None and limit >= below:
            break
        choice = faster_rows(base, variants, costs, limit)
        count = known_sum(operator_instructions(choice.program, target).values())
        # A choice whose instructions are unknown is one if it has other kernels than the one before.
        is_faster = fewest is None or (count is not None and count < fewest)
        if not choices or (is_faster and choice.program.steps != choices[-1].program.steps):
            choices.append(choice)
            fewest = count
    return tuple(choices)


def _stream_programs(model: Model, hop: int, extensions: Mapping[str, bool]) -> tuple[NativeProgram, ...]:
    """Return the programs of a step of the stream; those for whole tensors compute no fewer rows, and are not used."""
    by_rows = time_as_rows(model)
    lean, tuned = (
        incremental_program(lower(by_rows, row_wise=True, lean=lean, **extensions), hop) for lean in (True, False)
    )
    # The parts of tensors have the same numbers only if the steps are the same.
    rows = tuned if tuned.places == lean.places else lean
    return lean, rows, rows


def _smallest(
    program: NativeProgram, fed: Sequence[int], stopped: Callable[[], bool], known: dict[RowProblem, NativeRows]
) -> NativeRows:
    """Return the smallest plan of a program and its bound, searched for once for all programs with the same rows."""
    problem = row_problem(program, fed)
    if problem not in known:
        rows = smallest_rows(program, fed, stopped=stopped)
        plan = rows.plan
        bound = row_bound(problem, [plan.schedule], target=plan.memory_bytes, cut_limit=BOUND_CUTS)
        known[problem] = replace(rows, plan=replace(plan, lower_bound=bound))
    return replace(known[problem], program=program)


def preferences(costs: Sequence[Mapping[int, int | None]]) -> list[dict[int, int]]:
    """Return the costs of each operator in several programs, of which the later ones have more tuned kernels.

    If one of an operator's costs is unknown, its kernels are taken to be the faster the more they are tuned.
    """
    unknown = {operator for cost in costs for operator, number in cost.items() if number is None}
    last = len(costs) - 1
    return [
        {operator: last - i if operator in unknown or number is None else number for operator, number in cost.items()}
        for i, cost in enumerate(costs)
    ]


def known_sum(numbers: Iterable[int | None]) -> int | None:
    """Return the sum of numbers; None if there are none, or if one of them is unknown."""
    found = list(numbers)
    known = [number for number in found if number is not None]
    return sum(known) if known and len(known) == len(found) else None


def operator_instructions(program: NativeProgram, target: Target) -> dict[int, int | None]:
    """Return the instructions of each operator in one inference; None where they are unknown."""
    loops = program_loops(program, memory_apart(program), code_of(target.core))
    works = [StepWork(item.operator, item.kernel, item.counts, item.constant_reads) for item in loops]
    counted = count_native_operators(program_costs(program), works, target)
    return {item.cost.index: item.executed.instructions for item in counted if item.cost.subgraph == 0}


def program_costs(program: NativeProgram) -> tuple[OperatorCost, ...]:
    """Return the costs of the operators in an inference: of a stream, in one of its steps."""
    costs = operator_costs(program.model)
    if program.stream is None:
        return costs
    macs = program.stream.macs
    moved: dict[int, int] = {}
    for step in program.steps:
        read = sum(item.rows * item.row_bytes for item in step.inputs if constant_input(program, item) is None)
        moved[step.operator] = moved.get(step.operator, 0) + read * step.batches + step.output_bytes
    return tuple(
        replace(item, macs=macs.get(item.index, 0), activation_bytes=moved.get(item.index, 0))
        if item.subgraph == 0
        else item
        for item in costs
    )


def rows_info(rows: NativeRows) -> RowsInfo:
    """Return the section of a report that describes a plan of rows."""
    problem, plan, fed = rows.problem, rows.plan, len(rows.fed)
    segment = segments_of(rows.cuts, len(problem.operators))
    steps: list[list[int]] = [[] for _ in rows.cuts]
    for step, number in enumerate(plan.schedule):
        steps[segment[number]].append(step)
    operators: list[list[int]] = [[] for _ in rows.cuts]
    for position, item in enumerate(rows.program.steps, fed):
        operators[segment[position]].append(item.operator)
    return RowsInfo(
        memory_bytes=plan.memory_bytes,
        lower_bound_bytes=plan.lower_bound or None,
        steps=len(plan.schedule),
        table_bytes=table_bytes(rows.program, problem, plan),
        row_inputs=tuple(rows.program.graph.tensors[index].name for index in rows.fed),
        segments=tuple(
            RowSegment(tuple(dict.fromkeys(items)), taken[0], taken[-1])
            for items, taken in zip(operators, steps, strict=True)
            if taken
        ),
        tensors=tuple(
            RowTensorInfo(item.name, item.tensor, item.rows, item.row_bytes, max(live, default=0), in_parts(live))
            for item, live in zip(problem.tensors, rows_live(problem, plan), strict=True)
        ),
        stream=_stream_info(rows.program.stream),
    )


def _stream_info(stream: Stream | None) -> StreamInfo | None:
    if stream is None:
        return None
    return StreamInfo(
        stream.hop_rows,
        stream.window_rows,
        stream.window_hops,
        stream.step_macs,
        stream.touched_macs,
        stream.window_macs,
        sum(ring.kept_bytes for ring in stream.rings.values()),
    )
