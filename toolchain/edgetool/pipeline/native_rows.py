"""Plans of rows for native code: the smallest one, faster ones that take more memory, and their section of reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from edgetool.codegen.native.emit import constant_input
from edgetool.codegen.native.incremental import incremental_program
from edgetool.codegen.native.loops.registry import code_of, program_loops
from edgetool.codegen.native.lower import NativeProgram, Stream, lower
from edgetool.codegen.native.plan import in_program_order, memory_apart
from edgetool.codegen.native.program import Step
from edgetool.codegen.native.recompute import Pair, chosen_pairs, fusable_pairs, with_pairs
from edgetool.codegen.native.row_plan import (
    NativeRows,
    RowVariants,
    faster_rows,
    in_smaller_sections,
    roomier_rows,
    rows_with_whole,
    smallest_rows,
    with_steps,
)
from edgetool.codegen.native.row_tables import table_bytes
from edgetool.codegen.native.rows import row_problem, step_operators
from edgetool.estimate.native import StepWork, native_instructions
from edgetool.memory.streaming.checker import require_valid_rows
from edgetool.memory.streaming.planner import segments_of, weights_per_row
from edgetool.memory.streaming.problem import RowProblem
from edgetool.memory.streaming.schedule import best_schedule
from edgetool.model.types import Model
from edgetool.operators.registry import OperatorCost, operator_costs
from edgetool.passes.time_axis import time_as_rows
from edgetool.report.document import RowSegment, RowsInfo, RowTensorInfo, StreamInfo
from edgetool.report.rows_picture import in_parts, rows_live
from edgetool.target.types import Target

# The memory of faster plans, as multiples of the smallest one: where kernels for tensors take over is different in
# every model.
STEPS = (1.0, 1.05, 1.1, 1.25, 1.5)
# Those at which rows also move for kernels for whole tensors, which takes more time to find.
WHOLE_STEPS = (1.0, 1.1, 1.25)
SECTIONS = 3  # sizes of sections and tiles that are tried for kernels by rows
ORDER_FIRINGS = 8_000  # of networks for which there is time for several orders
# Of extra multiply-accumulates, in percent, which are tried until a model fits.
BUDGETS = (0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150)
# The smallest plans by their problem, the most multiply-accumulates that they may compute again (None if no operators
# may be one step) and the most weights per row.
KnownRows = dict[tuple[RowProblem, int | None, int | None], NativeRows]
_Counted = tuple[int | None, NativeRows]  # a plan behind its instructions, None if they are unknown
_Known = Sequence[Mapping[int, int | None]]  # the instructions of the operators in several programs


def row_choices(
    model: Model,
    whole: NativeProgram,
    orders: Sequence[Sequence[int]],
    target: Target,
    below: int | None,
    extensions: Mapping[str, bool],
    *,
    fed: Sequence[int] = (),
    taken: Sequence[int] = (),
    hop: int | None = None,
    max_extra_macs: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
    known: KnownRows | None = None,
) -> tuple[NativeRows, ...]:
    """Return plans that take more and more memory for fewer and fewer instructions, and that pass the checker.

    Args:
        model: The model.
        whole: Its program for complete tensors with tuned kernels.
        orders: Orders of the operators, by their indices, to choose the best segments from. Of large networks, only the
            last one is tried.
        target: A target whose instructions are known.
        below: Plans that take as much, or more, are left out, unless it is None.
        extensions: Those of the core, as for lower.
        fed: The inputs that the application hands over by rows, as tensors of the main graph.
        taken: The outputs that it takes by rows; see takeable_outputs.
        hop: How many rows of the input are new in each inference, which computes only what they change; None if an
            inference computes the whole window. Streams support neither taken outputs nor max_extra_macs.
        max_extra_macs: What plans may compute again to take less memory, in percent of the model's.
        stopped: Whether to end the search.
        known: The smallest plans so far of this model by their rows and the most multiply-accumulates that they may
            compute again, None if no operators may be one step, to which those found here are added.
    """
    if hop is None:
        small, rows = (lower(model, row_wise=True, lean=lean, **extensions) for lean in (True, False))
    else:
        small, rows, whole = _stream_programs(model, hop, extensions)
    known = {} if known is None else known
    if _firings(row_problem(small, fed, taken=taken)) > ORDER_FIRINGS:
        orders = orders[-1:]
    ordered = [in_program_order(small, tuple(order)) for order in orders]
    most = target.most_weights_per_row
    plain = [_smallest(program, fed, taken, most, stopped, known) for program in ordered]
    number = min(range(len(plain)), key=lambda i: plain[i].plan.memory_bytes)
    bases = [plain[number]]
    limit = int((max_extra_macs or 0) / 100 * model_macs(model))
    pairs = () if max_extra_macs is None else fusable_pairs(lower(model, row_wise=True, lean=True, plain=True))
    if pairs:
        again = _smallest_with_pairs(ordered[number], pairs, bases[0], limit, most, stopped, known)
        if again.plan.memory_bytes < bases[0].plan.memory_bytes:
            bases.insert(0, again)
    variants = RowVariants(*(in_program_order(program, tuple(orders[number])) for program in (small, rows, whole)))
    choices: list[_Counted] = []
    for base in reversed(bases):
        choices += _faster_choices(base, variants, target, below, stopped)
        # Plans that compute rows again are for less memory than the others need.
        below = base.plan.memory_bytes if below is None else min(below, base.plan.memory_bytes)
    front = _front(choices)
    for choice in front:
        require_valid_rows(choice.problem, choice.plan)
    return front


def shrinking_budgets(
    model: Model,
    order: Sequence[int],
    fed: Sequence[int],
    taken: Sequence[int],
    capacity: int,
    most: float,
    stopped: Callable[[], bool],
) -> Iterator[float]:
    """Yield growing percentages of extra multiply-accumulates with which rows may fit a capacity, and `most`.

    The others have schedules of which no plan fits.
    """
    lean = lower(model, row_wise=True, lean=True, plain=True)
    program, pairs, macs = in_program_order(lean, tuple(order)), fusable_pairs(lean), model_macs(model)
    for percent in (*(item for item in BUDGETS if item < most), most):
        chosen = chosen_pairs(program, pairs, fed, int(percent / 100 * macs), taken=taken, stopped=stopped)
        peak = best_schedule(row_problem(with_pairs(program, chosen), fed, taken=taken), stopped=stopped).peak_bytes
        if peak <= capacity or percent == most:
            yield percent


def _firings(problem: RowProblem) -> int:
    return sum(len(operator.firings) for operator in problem.operators)


def model_macs(model: Model) -> int:
    """Return the multiply-accumulates of one inference."""
    return sum(cost.macs for cost in operator_costs(model))


def _front(choices: Sequence[_Counted]) -> tuple[NativeRows, ...]:
    """Return the choices by their memory, without those with known instructions that have more than a smaller one."""
    front: list[NativeRows] = []
    fewest: int | None = None
    for count, choice in sorted(choices, key=lambda item: (item[1].plan.memory_bytes, item[0] or 0)):
        if fewest is None or count is None or count < fewest:
            front.append(choice)
            fewest = count if fewest is None or count is not None else fewest
    return tuple(front)


def _faster_choices(
    base: NativeRows, plain: RowVariants, target: Target, below: int | None, stopped: Callable[[], bool]
) -> list[_Counted]:
    """Return the fastest plan in the memory of a smallest one, and others with more memory and faster kernels.

    plain: the programs to choose kernels from, without pairs. below, stopped: as for row_choices.
    """
    smallest = base.plan.memory_bytes
    variants = RowVariants(*(with_pairs(program, base.pairs) for program in (plain.small, plain.rows, plain.whole)))
    programs = base.program, variants.rows, variants.whole, bare_program(variants.rows)
    known: _Known = [operator_instructions(program, target) for program in programs]
    # The fewer columns a kernel by rows copies at once, the less scratch needs a place.
    by_rows = [
        (program, operator_instructions(program, target), operator_instructions(bare_program(program), target))
        for program in in_smaller_sections(variants.rows)[:SECTIONS]
    ]
    in_bands = [(program, operator_instructions(program, target)) for program in in_smaller_sections(variants.whole)]
    complete: Mapping[int, Sequence[Step]] = {}
    choices: list[_Counted] = []
    fewest: int | None = None
    for factor in STEPS:
        limit = int(factor * smallest)
        if below is not None and limit >= below:
            break
        found = [
            _fastest_within(base, replace(variants, rows=rows), [known[0], own, known[2], bare], target, limit, stopped)
            for rows, own, bare in by_rows
        ]
        count, choice, base, (moved, *_) = min(found, key=lambda item: item[0] or 0)
        known = [moved, *known[1:]]
        # The base stays as it is: kernels for whole tensors leave rows less freedom when there is more memory.
        whole = None
        if factor in WHOLE_STEPS:
            whole, complete = _with_whole(base, variants, known, in_bands, target, limit, complete, stopped)
        if whole is not None and _is_less(whole[0], count):
            count, choice = whole
        # A choice whose instructions are unknown is one if it has other kernels than the one before.
        if not choices or (count is None and choice.program != choices[-1][1].program) or _is_less(count, fewest):
            choices.append((count, choice))
            fewest = count
    return choices


def _is_less(count: int | None, fewest: int | None) -> bool:
    return count is not None and (fewest is None or count < fewest)


def _fastest_within(
    base: NativeRows,
    variants: RowVariants,
    known: _Known,
    target: Target,
    limit: int,
    stopped: Callable[[], bool],
) -> tuple[int | None, NativeRows, NativeRows, _Known]:
    """Return a plan with faster kernels than those of a base within a limit, and the base with its rows where they are.

    Before them, it returns the plan's instructions, None if they are unknown, and behind them those of that base.

    known: the instructions of the base's operators, of those by rows and whole, and by rows if all kernels that can be
    are bare.
    """
    found: list[tuple[int | None, NativeRows, NativeRows, _Known]] = []
    for place in range(2):
        costs = preferences(known)
        rows = costs[1]
        (choice,) = faster_rows(base, replace(variants, small=base.program), costs, [limit])
        chosen = operator_instructions(choice.program, target)
        found.append((known_sum(chosen.values()), choice, base, known))
        if place == 0:
            gains = {
                operator: number - rows[operator]
                for operator, number in preferences([chosen, *known[1:]])[0].items()
                if operator in rows
            }
            moved = roomier_rows(base, variants.rows, gains, limit, stopped)
            if moved is base:
                break
            base, known = moved, [operator_instructions(moved.program, target), *known[1:]]
    return min(found, key=lambda item: item[0] or 0)


def _with_whole(
    base: NativeRows,
    variants: RowVariants,
    known: _Known,
    whole: Sequence[tuple[NativeProgram, Mapping[int, int | None]]],
    target: Target,
    limit: int,
    before: Mapping[int, Sequence[Step]],
    stopped: Callable[[], bool],
) -> tuple[_Counted | None, Mapping[int, Sequence[Step]]]:
    """Return a plan with kernels for whole tensors, for which rows have moved, and with the fastest others beside them.

    None if no more kernels for whole tensors have a place then. Behind it, it returns the steps with these kernels.

    whole: the programs for whole tensors with fewer and fewer rows per call, and the instructions of their operators.
    before: the steps with these kernels that were found with less memory. The other arguments are those of
    _fastest_within.
    """
    # Kernels of unknown instructions are the faster the more rows a call computes.
    counts = [*known[:2], *(count for _, count in reversed(whole))]
    now, by_rows, *at_once = preferences(counts)
    at_once.reverse()
    least = {operator: min(count, by_rows.get(operator, count)) for operator, count in now.items()}
    wanted: dict[int, list[int]] = {}
    for operator, most in least.items():
        costs = {number: item.get(operator, most) for number, item in enumerate(at_once)}
        faster = sorted((number for number in costs if costs[number] < most), key=costs.__getitem__)
        if faster:
            wanted[operator] = faster
    by_gain = sorted(wanted, key=lambda item: at_once[wanted[item][0]][item] - now[item])
    wanted = {operator: wanted[operator] for operator in by_gain}
    moved, found = rows_with_whole(base, [program for program, _ in whole], wanted, limit, before, stopped)
    if moved is base:
        return None, before
    variants = replace(variants, small=moved.program, rows=with_steps(variants.rows, found))
    all_costs = preferences([operator_instructions(moved.program, target), *known[1:]])
    choice = next(faster_rows(moved, variants, all_costs, [limit]))
    return (known_sum(operator_instructions(choice.program, target).values()), choice), found


def bare_program(program: NativeProgram) -> NativeProgram:
    """Return a program in which no call has scratch that it can do without."""
    steps = (
        replace(step, bare=frozenset(range(step.batches * -(-step.rows // step.band)))) if step.can_be_bare else step
        for step in program.steps
    )
    return replace(program, steps=tuple(steps))


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
    program: NativeProgram,
    fed: Sequence[int],
    taken: Sequence[int],
    most: int | None,
    stopped: Callable[[], bool],
    known: KnownRows,
) -> NativeRows:
    """Return the smallest plan of a program and its bound, searched for once for all programs with the same rows."""
    key = row_problem(program, fed, taken=taken), None, most
    if key not in known:
        known[key] = smallest_rows(program, fed, taken=taken, most_weights=most, stopped=stopped)
    rows = known[key]
    return replace(rows, program=program, plain_bound=rows.plan.lower_bound)


def _smallest_with_pairs(
    program: NativeProgram,
    pairs: Sequence[Pair],
    plain: NativeRows,
    limit: int,
    most: int | None,
    stopped: Callable[[], bool],
    known: KnownRows,
) -> NativeRows:
    """Return the smallest plan in which pairs of operators may be one step each: at most the plain one.

    limit: the most multiply-accumulates that pairs may add. most: the most weights per row.
    """
    key = row_problem(program, plain.fed, taken=plain.taken), limit, most
    if key not in known:
        chosen = chosen_pairs(program, pairs, plain.fed, limit, taken=plain.taken, stopped=stopped)
        known[key] = plain
        if chosen:
            fused = with_pairs(program, chosen)
            rows = smallest_rows(fused, plain.fed, taken=plain.taken, most_weights=most, stopped=stopped)
            if rows.plan.memory_bytes < plain.plan.memory_bytes:
                known[key] = replace(rows, pairs=chosen)
    rows = known[key]
    return replace(rows, program=with_pairs(program, rows.pairs), plain_bound=plain.plan.lower_bound)


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
    return {item.index: 0 for item in program.graph.operators} | native_instructions(works, target)


def program_costs(program: NativeProgram) -> tuple[OperatorCost, ...]:
    """Return the costs of the operators in an inference: of a stream, in one of its steps."""
    costs = operator_costs(program.model)
    if program.stream is None:
        return costs
    macs = program.stream.macs
    moved: dict[int, int] = {}
    written: dict[int, int] = {}
    for step in program.steps:
        read = sum(item.rows * item.row_bytes for item in step.inputs if constant_input(program, item) is None)
        moved[step.operator] = moved.get(step.operator, 0) + read * step.batches + step.output_bytes
        written[step.operator] = written.get(step.operator, 0) + step.output_bytes
    return tuple(
        replace(
            item,
            macs=macs.get(item.index, 0),
            activation_bytes=moved.get(item.index, 0),
            output_bytes=written.get(item.index, 0),
        )
        if item.subgraph == 0
        else item
        for item in costs
    )


def rows_info(rows: NativeRows) -> RowsInfo:
    """Return the section of a report that describes a plan of rows."""
    problem, plan = rows.problem, rows.plan
    segment = segments_of(rows.cuts, len(problem.operators))
    steps: list[list[int]] = [[] for _ in rows.cuts]
    for step, number in enumerate(plan.schedule):
        steps[segment[number]].append(step)
    operators: list[list[int]] = [[] for _ in rows.cuts]
    for position, item in zip(step_operators(problem), rows.program.steps, strict=True):
        operators[segment[position]].append(item.operator)
    return RowsInfo(
        memory_bytes=plan.memory_bytes,
        lower_bound_bytes=rows.plain_bound or None,
        steps=len(plan.schedule),
        table_bytes=table_bytes(rows.program, problem, plan),
        row_inputs=tuple(rows.program.graph.tensors[index].name for index in rows.fed),
        row_outputs=tuple(rows.program.graph.tensors[index].name for index in rows.taken),
        segments=tuple(
            RowSegment(tuple(dict.fromkeys(items)), taken[0], taken[-1])
            for items, taken in zip(operators, steps, strict=True)
            if taken
        ),
        tensors=tuple(
            RowTensorInfo(item.name, item.tensor, item.rows, item.row_bytes, max(live, default=0), in_parts(live))
            for item, live in zip(problem.tensors, rows_live(problem, plan), strict=True)
        ),
        extra_macs=rows.extra_macs,
        extra_macs_percent=100 * rows.extra_macs / (model_macs(rows.program.model) or 1),
        weights_per_row_bytes=weights_per_row(problem, rows.cuts),
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
