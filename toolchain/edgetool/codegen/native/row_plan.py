"""Plan a native program by rows, and choose the kernels that fit beside the rows.

The smallest plan has kernels without scratch that only saves time. Faster ones have the same schedule: an operator gets
the fastest variant of its kernel whose scratch has a place at all of its steps, within the memory that the user allows,
and rows move if that makes one. A kernel that can do without scratch, only more slowly, has it at the steps where there
is a place. A step that runs alone, between complete tensors, can be one for whole tensors, which computes many rows at
once, as many as there is room for; rows move for it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, repeat

import numpy as np

from edgetool.codegen.native.convolution import in_smaller_section
from edgetool.codegen.native.lower import NativeProgram
from edgetool.codegen.native.plan import NativeMemory
from edgetool.codegen.native.program import LIMITS, RowInput, Step
from edgetool.codegen.native.recompute import Pair
from edgetool.codegen.native.rows import FEED, TAKE, row_problem, rows_read, step_numbers, step_operators
from edgetool.codegen.native.vector import in_fewer_columns
from edgetool.memory.problem import Buffer, Layout, LayoutProblem, Lifetime, Proof, aligned
from edgetool.memory.streaming.packing import PASSES, SCRATCH_ALIGNMENT, Packing, pack_again, pack_more
from edgetool.memory.streaming.planner import place_unit, plan_rows, segments_of
from edgetool.memory.streaming.problem import NO_SCRATCH, Firing, RowOperator, RowPlan, RowProblem, steps_of
from edgetool.memory.streaming.schedule import live_bytes, row_lives

SCRATCH_PASSES = 2  # of packing, for each attempt to move rows
# Attempts in vain to move rows for kernels for whole tensors, and how many rows all of them move. Rows stay close to
# where they were if one moves more.
LEAST_ATTEMPTS, WHOLE_ROWS = 2, 4_000


@dataclass(frozen=True, slots=True)
class NativeRows:
    """A program whose rows are planned: its steps, the problem, the plan, and where segments of operators start.

    pairs: the pairs of operators that are one step of the program each. plain_bound: what no plan takes less than
    without them.
    """

    program: NativeProgram
    problem: RowProblem
    plan: RowPlan
    cuts: tuple[int, ...]
    fed: tuple[int, ...] = ()
    taken: tuple[int, ...] = ()
    pairs: tuple[Pair, ...] = ()
    plain_bound: int = 0

    @property
    def extra_macs(self) -> int:
        """The multiply-accumulates that are computed again."""
        return max(0, sum(pair.extra_macs for pair in self.pairs))


@dataclass(frozen=True, slots=True)
class RowVariants:
    """The programs of one model between which operators choose, in the same order of operators.

    small: row by row, without scratch that only saves time. rows: row by row. whole: for complete tensors.
    """

    small: NativeProgram
    rows: NativeProgram
    whole: NativeProgram


def smallest_rows(
    program: NativeProgram,
    fed: Collection[int] = (),
    *,
    taken: Collection[int] = (),
    most_weights: int | None = None,
    passes: int = PASSES,
    stopped: Callable[[], bool] = lambda: False,
) -> NativeRows:
    """Return the plan of a row-wise program that takes the least memory.

    Args:
        program: Steps that keep the rows of images apart.
        fed: The inputs that the application hands over row by row, as tensors of the main graph.
        taken: The outputs that the application takes row by row; see takeable_outputs.
        most_weights: The bytes of constants of all operators in a segment at most, if it has several; None for any.
        passes: The effort for offsets; see pack_rows.
        stopped: Whether to end the search with the best plan so far.
    """
    problem = row_problem(program, fed, taken=taken)
    planned = plan_rows(problem, most_weights=most_weights, passes=passes, stopped=stopped)
    return NativeRows(program, planned.problem, planned.plan, planned.cuts, tuple(fed), tuple(taken))


def faster_rows(
    base: NativeRows, variants: RowVariants, costs: Sequence[Mapping[int, int]], limits: Iterable[int]
) -> Iterator[NativeRows]:
    """Yield plans with the fastest kernels that fit within limits in bytes, with all rows where they are.

    A plan with the same kernels as the one before is left out.

    Args:
        base: The smallest plan, which has the program `small`.
        variants: The programs to choose from.
        costs: The instructions of each operator in `small`, `rows` and `whole`, and in `rows` with kernels that can be
            bare without their scratch.
        limits: The memory in bytes of each plan; that of the base, or more.
    """
    together = _together(base.problem)
    memory = _Memory(base, row_problem(variants.rows, base.fed, together, taken=base.taken))
    programs = [_by_operator(item) for item in (variants.small, variants.rows, variants.whole)]
    before: list[tuple[Step, ...]] | None = None
    for limit in limits:
        kernels = [
            _fastest(memory, operator, positions, programs, costs, limit)
            for operator, positions in _positions(base).items()
        ]
        steps = [item.steps for item in kernels]
        if steps != before:
            yield _with_kernels(base, memory, kernels)
            before = steps


def roomier_rows(
    base: NativeRows,
    faster: NativeProgram,
    gains: Mapping[int, int],
    limit: int,
    stopped: Callable[[], bool] = lambda: False,
) -> NativeRows:
    """Return a plan in which rows have moved so that more kernels have a place for their scratch within a limit.

    Args:
        base: The plan, whose schedule stays.
        faster: A row-wise program that has these kernels.
        gains: The instructions that each operator has less with them, for those that shall have them.
        limit: The memory in bytes.
        stopped: Whether to end the search.
    """
    old, new = _by_operator(base.program), _by_operator(faster)
    problem = row_problem(faster, base.fed, _together(base.problem), taken=base.taken)
    positions = _positions(base)
    same = {
        operator
        for operator, places in positions.items()
        if len(new[operator]) == len(old[operator])
        and all(_rows_of(base.problem.operators[i]) == _rows_of(problem.operators[i]) for i in places)
    }
    replaced = {i for operator in same for i in positions[operator]}
    kernels = tuple(problem.operators[i] if i in replaced else a for i, a in enumerate(base.problem.operators))
    needs = [0] * len(kernels)
    live = live_bytes(replace(base.problem, operators=kernels), base.plan.schedule, at_least=True)
    for number, size in zip(base.plan.schedule, live, strict=True):
        needs[number] = max(needs[number], size)

    def can_have(operator: int) -> bool:
        """Return whether the faster kernels of an operator do not need more than the limit, wherever the rows are."""
        return operator in same and (can_be_bare(operator) or all(needs[i] <= limit for i in positions[operator]))

    def can_be_bare(operator: int) -> bool:
        return all(step.can_be_bare or not step.scratch_bytes for step in new[operator])

    def with_kernels(plan: NativeRows, operators: Sequence[int]) -> NativeRows:
        """Return the plan with the faster kernels of as many operators as have a place."""
        if not operators or stopped():
            return plan
        steps = _by_operator(plan.program) | {operator: new[operator] for operator in operators}
        program = replace(plan.program, steps=tuple(step for item in steps.values() for step in item))
        moved = _with_scratch(plan, program, limit, stopped)
        if moved is not None or len(operators) == 1:
            return moved or plan
        half = len(operators) // 2
        return with_kernels(with_kernels(plan, operators[:half]), operators[half:])

    wanted = sorted((item for item in gains if gains[item] > 0 and can_have(item)), key=lambda item: -gains[item])
    plan = with_kernels(base, [item for item in wanted if not can_be_bare(item)])
    per_step = {item: gains[item] / max(1, new[item][0].rows * new[item][0].batches) for item in wanted}
    bare = sorted((item for item in wanted if can_be_bare(item)), key=lambda item: -per_step[item])
    return _with_more_scratch(plan, {operator: new[operator] for operator in bare}, limit, stopped)


def rows_with_whole(
    base: NativeRows,
    programs: Sequence[NativeProgram],
    wanted: Mapping[int, Sequence[int]],
    limit: int,
    before: Mapping[int, Sequence[Step]],
    stopped: Callable[[], bool] = lambda: False,
) -> tuple[NativeRows, Mapping[int, Sequence[Step]]]:
    """Return a plan in which rows have moved so that kernels for whole tensors have a place within a limit.

    Args:
        base: The plan, whose segments stay.
        programs: Programs for whole tensors, such as those of in_smaller_sections.
        wanted: The operators that shall have such kernels, and the numbers of the programs that they may have them
            from, the fastest first. They get them if they run alone, between complete tensors. Those that gain the most
            come first.
        limit: The memory in bytes.
        before: What was found with less memory, which is tried first.
        stopped: Whether to end the search.

    Returns:
        The plan, and the steps of the operators that have such kernels.
    """
    positions, memory = _positions(base), _Memory(base, base.problem)
    old, of_programs = _by_operator(base.program), [_by_operator(program) for program in programs]
    possible: dict[int, list[Sequence[Step]]] = {}
    for operator, numbers in wanted.items():
        if memory.moments_alone(positions[operator]) is not None:
            others = possible[operator] = []
            for steps in (of_programs[number].get(operator, old[operator]) for number in numbers):
                if steps not in (old[operator], *others) and _tensors(steps) == _tensors(old[operator]):
                    others.append(steps)

    def unpacked(new: Mapping[int, Sequence[Step]]) -> NativeRows:
        """Return the plan with kernels for whole tensors, with rows where they are and without scratch for them."""
        kernels = [
            _Kernels(tuple(places), tuple(new[operator]), ((NO_SCRATCH,),) * len(new[operator]), is_whole=True)
            if operator in new
            else _Kernels(tuple(places), tuple(old[operator]), memory.scratch_of(places))
            for operator, places in positions.items()
        ]
        return _with_kernels(base, memory, kernels)

    def fitting(new: Mapping[int, Sequence[Step]]) -> dict[int, Sequence[Step]]:
        """Return those of the steps that need no more than the limit, wherever the rows are."""
        wider = unpacked(new)
        places, live = _positions(wider), live_bytes(wider.problem, wider.plan.schedule)
        too_large = {position for position, size in zip(wider.plan.schedule, live, strict=True) if size > limit}
        return {operator: steps for operator, steps in new.items() if too_large.isdisjoint(places[operator])}

    plan: NativeRows = base
    found: Mapping[int, Sequence[Step]] = {}
    attempts = 0

    def add(new: Mapping[int, Sequence[Step]]) -> None:
        """Let as many of the new steps as have a place join those that are there."""
        nonlocal plan, found, attempts
        if not new or not attempts or stopped():
            return
        joined = {**found, **new}
        wider = unpacked(joined)
        near = Packing(wider.plan.offsets, wider.plan.scratch, wider.plan.memory_bytes)
        schedule, unit = wider.plan.schedule, place_unit(limit)
        anew = len(wider.problem.row_sizes()) <= WHOLE_ROWS
        packing = pack_again(
            wider.problem, schedule, near, limit, limit, unit=unit, passes=SCRATCH_PASSES, anew=anew, stopped=stopped
        )
        if packing is not None:
            plan, found = _with_packing(wider, wider.program, wider.problem, packing), joined
            return
        attempts -= 1
        half, items = len(new) // 2, list(new.items())
        if half:
            add(dict(items[:half]))
            add(dict(items[half:]))

    attempts = 1
    add({operator: steps for operator, steps in before.items() if operator in possible})
    for number in range(max(map(len, possible.values()), default=0)):
        attempts = max(LEAST_ATTEMPTS, WHOLE_ROWS // max(1, len(base.problem.row_sizes())))
        new = {operator: items[number] for operator, items in possible.items() if number < len(items)}
        better = {
            operator: steps
            for operator, steps in new.items()
            if found.get(operator) not in possible[operator][: number + 1]
        }
        add(fitting(better))
    return plan, found


def with_steps(program: NativeProgram, steps: Mapping[int, Sequence[Step]]) -> NativeProgram:
    """Return a program with other steps of some operators."""
    items = (steps.get(operator, own) for operator, own in _by_operator(program).items())
    return replace(program, steps=tuple(step for item in items for step in item))


def in_smaller_sections(program: NativeProgram) -> tuple[NativeProgram, ...]:
    """Return a program, and the same with fewer and fewer rows and columns at once, as far as that saves memory."""
    programs = [program]
    while any(smaller := [in_smaller_section(step) or in_fewer_columns(step) for step in programs[-1].steps]):
        steps = (new or step for new, step in zip(smaller, programs[-1].steps, strict=True))
        programs.append(replace(program, steps=tuple(steps)))
    return tuple(programs)


def _rows_of(operator: RowOperator) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the rows that each firing reads and writes."""
    return [(firing.reads, firing.writes) for firing in operator.firings]


def _with_more_scratch(
    plan: NativeRows, kernels: Mapping[int, Sequence[Step]], limit: int, stopped: Callable[[], bool]
) -> NativeRows:
    """Return a plan in which kernels that can be bare have scratch at as many steps as find a place for it.

    kernels: the steps of operators, those that gain the most at each step first.
    """
    if not kernels or stopped():
        return plan
    steps: dict[int, Sequence[Step]] = {**_by_operator(plan.program), **kernels}
    program = replace(plan.program, steps=tuple(step for item in steps.values() for step in item))
    problem = row_problem(program, plan.fed, _together(plan.problem), taken=plan.taken)
    near = Packing(plan.plan.offsets, _kept_scratch(plan, problem), plan.plan.memory_bytes)
    positions = _positions(plan)
    wanted = [position for operator in kernels for position in positions[operator]]
    packing = pack_more(problem, plan.plan.schedule, near, limit, wanted, unit=place_unit(limit), stopped=stopped)
    if packing.scratch == near.scratch:
        return plan
    bare = [
        frozenset(i for i, offset in enumerate(packing.scratch[position]) if offset == NO_SCRATCH)
        for position in step_operators(problem)
    ]
    calls = zip(program.steps, bare, strict=True)
    program = replace(program, steps=tuple(replace(step, bare=items) for step, items in calls))
    problem = row_problem(program, plan.fed, _together(plan.problem), taken=plan.taken)
    return _with_packing(plan, program, problem, packing)


def _kept_scratch(plan: NativeRows, problem: RowProblem) -> tuple[tuple[int, ...], ...]:
    """Return the scratch of a plan for a problem with other kernels: NO_SCRATCH where it is not of the same size."""
    return tuple(
        tuple(
            place if a.scratch_bytes == b.scratch_bytes else NO_SCRATCH
            for place, a, b in zip(places or repeat(NO_SCRATCH), before.firings, after.firings, strict=False)
        )
        if after.scratch_bytes
        else ()
        for places, before, after in zip(plan.plan.scratch, plan.problem.operators, problem.operators, strict=True)
    )


def _with_packing(plan: NativeRows, program: NativeProgram, problem: RowProblem, packing: Packing) -> NativeRows:
    """Return a plan with other kernels and offsets."""
    scratch = tuple(
        places if item.scratch_bytes else () for places, item in zip(packing.scratch, problem.operators, strict=True)
    )
    size = aligned(packing.memory_bytes, SCRATCH_ALIGNMENT)
    moved = replace(plan.plan, offsets=packing.offsets, scratch=scratch, memory_bytes=size)
    return replace(plan, program=program, problem=problem, plan=moved)


def _with_scratch(
    plan: NativeRows, program: NativeProgram, limit: int, stopped: Callable[[], bool]
) -> NativeRows | None:
    """Return a plan with the scratch of a program with other kernels, and rows moved; None if none is found."""
    problem = row_problem(program, plan.fed, _together(plan.problem), taken=plan.taken)
    near = Packing(plan.plan.offsets, _kept_scratch(plan, problem), plan.plan.memory_bytes)
    schedule, unit = plan.plan.schedule, place_unit(limit)
    packing = pack_again(problem, schedule, near, limit, limit, unit=unit, passes=SCRATCH_PASSES, stopped=stopped)
    return None if packing is None else _with_packing(plan, program, problem, packing)


@dataclass(frozen=True, slots=True)
class _Kernels:
    """The steps of an operator, their scratch, and the positions of those of the smallest plan that they replace.

    scratch: of each step, the offset at each of its calls. If the steps are whole, they replace those at all positions,
    and each has one offset; else as many replace each position as there are for each, in the order of its calls.
    """

    positions: tuple[int, ...]
    steps: tuple[Step, ...]
    scratch: tuple[tuple[int, ...], ...]
    is_whole: bool = False


def _fastest(
    memory: _Memory,
    operator: int,
    positions: Sequence[int],
    programs: Sequence[Mapping[int, Sequence[Step]]],
    costs: Sequence[Mapping[int, int]],
    limit: int,
) -> _Kernels:
    """Return the fastest kernels of an operator that fit within the limit."""
    small, rows, whole = (tuple(program.get(operator, ())) for program in programs)
    small_cost, rows_cost, whole_cost, bare_cost = (cost.get(operator, 0) for cost in costs)
    slow = _Kernels(tuple(positions), small, memory.scratch_of(positions))
    found: list[tuple[float, _Kernels]] = [(small_cost, slow)]
    calls = memory.calls(positions, rows, limit) if min(rows_cost, bare_cost) < small_cost else []
    complete = [tuple(place for place in places if place is not None) for places in calls]
    if calls and list(map(len, complete)) == list(map(len, calls)):
        steps = tuple(_without_scratch(*item) for item in zip(rows, complete, strict=True))
        bare = sum(len(step.bare) for step in steps) / max(1, sum(map(len, calls)))
        found.append((rows_cost + (bare_cost - rows_cost) * bare, replace(slow, steps=steps, scratch=tuple(complete))))
    elif len(calls) == len(small) == 1 and _have_parts(small[0], rows[0]):
        # The faster kernel computes the rows at the calls that it can have, and the other one those before and behind.
        run, everywhere = _longest_run(calls[0]), range(len(calls[0]))
        parts = (
            (small[0], slow.scratch[0], everywhere[: run.start]),
            (rows[0], calls[0], run),
            (small[0], slow.scratch[0], everywhere[run.stop :]),
        )
        steps = tuple(_part(step, part) for step, _, part in parts if part)
        scratch = tuple(
            tuple(place for place in places[part.start : part.stop] if place is not None)
            for _, places, part in parts
            if part
        )
        cost = small_cost + (rows_cost - small_cost) * len(run) / len(everywhere)
        found.append((cost, replace(slow, steps=steps, scratch=scratch)))
    is_faster = whole_cost < min(cost for cost, _ in found) and _tensors(whole) == _tensors(small)
    places = memory.as_whole(positions, whole, limit) if is_faster else None
    if places is not None:
        found.append((whole_cost, _Kernels(slow.positions, whole, places, is_whole=True)))
    return min(found, key=lambda item: item[0])[1]


def _without_scratch(step: Step, places: Sequence[int]) -> Step:
    """Return a step whose calls without a place for their scratch are bare."""
    bare = (i for i, place in enumerate(places) if place == NO_SCRATCH)
    return replace(step, bare=frozenset(bare)) if step.can_be_bare else step


def _have_parts(*steps: Step) -> bool:
    """Return whether calls of steps can be steps of their own: each computes one row of the only batch."""
    far = LIMITS["int16_t"][1]  # the most that a part skips of an input
    return all(
        step.band == step.batches == 1
        and not step.accumulates
        and all(step.rows * item.stride - item.pad <= far for item in step.inputs)
        for step in steps
    )


def _part(step: Step, calls: range) -> Step:
    """Return the step of some of the calls, one for each row."""
    return replace(
        step,
        rows=len(calls),
        inputs=tuple(replace(item, pad=item.pad - calls.start * item.stride) for item in step.inputs),
        output_offset=step.output_offset + calls.start * step.row_bytes,
        bare=frozenset(i - calls.start for i in step.bare if i in calls),
        first=calls.start,
    )


def _longest_run(places: Sequence[int | None]) -> range:
    """Return where the longest run of numbers is."""
    ends = [-1, *(i for i, place in enumerate(places) if place is None), len(places)]
    return max((range(before + 1, end) for before, end in pairwise(ends)), key=len)


def _with_kernels(base: NativeRows, memory: _Memory, kernels: Sequence[_Kernels]) -> NativeRows:
    """Return a plan with other kernels."""
    steps: list[Step] = []
    of_steps: list[tuple[int, ...]] = []
    keys_of_steps: list[tuple[int, ...]] = []
    # The steps of the new program that fire instead of each operator of the base.
    instead: dict[int, Sequence[int]] = {}
    for item in kernels:
        following = range(len(steps), len(steps) + len(item.steps))
        segments = [(memory.segment[position],) for position in item.positions]
        if item.is_whole:
            instead.update((position, []) for position in item.positions[1:])
            instead[item.positions[0]] = following
            keys_of_steps += [(*segments[0], i) for i in range(len(item.steps))]
        else:
            count = len(item.steps) // len(item.positions)
            instead.update((p, following[i * count : (i + 1) * count]) for i, p in enumerate(item.positions))
            keys_of_steps += [segment for segment in segments for _ in range(count)]
        steps += item.steps
        of_steps += item.scratch
    program = replace(base.program, steps=tuple(steps))
    problem = row_problem(program, base.fed, _together(base.problem), taken=base.taken)
    # Operators of the application stay in their segments, in the same order.
    scratch: list[tuple[int, ...]] = [()] * len(problem.operators)
    keys: list[tuple[int, ...]] = [()] * len(problem.operators)
    of_problem = step_operators(problem)
    for position, offsets, key in zip(of_problem, of_steps, keys_of_steps, strict=True):
        keys[position] = key
        if problem.operators[position].scratch_bytes:
            scratch[position] = offsets * (len(problem.operators[position].firings) // len(offsets))
    places = {before: [of_problem[step] for step in new] for before, new in instead.items()}
    for position, before in zip(_of_application(problem), _of_application(base.problem), strict=True):
        keys[position] = (memory.segment[before],)
        places[before] = [position]
    cuts = tuple(i for i, key in enumerate(keys) if i == 0 or key != keys[i - 1])
    schedule = _moved_steps(base, problem, places)
    ends = (
        aligned(place + firing.scratch_bytes, SCRATCH_ALIGNMENT)
        for offsets, item in zip(scratch, problem.operators, strict=True)
        for place, firing in zip(offsets, item.firings, strict=False)
    )
    plan = RowPlan(
        schedule,
        _moved(base, problem),
        tuple(scratch),
        max([base.plan.memory_bytes, *ends]),
        base.plan.lower_bound,
    )
    return replace(base, program=program, problem=problem, plan=plan, cuts=cuts)


def _of_application(problem: RowProblem) -> list[int]:
    """Return the operators that hand rows over, inputs first, in the order of their tensors."""
    found = [(item, number) for number, item in enumerate(problem.operators) if item.name in (FEED, TAKE)]
    return [number for _, number in sorted(found, key=lambda pair: (pair[0].name, _first_row(pair[0])))]


def _first_row(operator: RowOperator) -> int:
    return min((row for firing in operator.firings for row in (*firing.reads, *firing.writes)), default=0)


def _tensors(steps: Sequence[Step]) -> tuple[set[int], set[int]]:
    """Return the tensors that steps read, and that they leave: programs may have two operators in one step, or none."""
    sources = {item.source for step in steps for item in step.inputs if isinstance(item.source, int)}
    outputs = {step.output for step in steps}
    return sources - outputs, outputs - sources


def _together(problem: RowProblem) -> set[int]:
    return {item.tensor for item in problem.tensors if item.group > 1}


def _by_operator(program: NativeProgram) -> dict[int, list[Step]]:
    steps: dict[int, list[Step]] = {}
    for step in program.steps:
        steps.setdefault(step.operator, []).append(step)
    return steps


def _positions(base: NativeRows) -> dict[int, list[int]]:
    """Return the positions of each operator's steps in the problem."""
    positions: dict[int, list[int]] = {}
    for position, step in zip(step_operators(base.problem), base.program.steps, strict=True):
        positions.setdefault(step.operator, []).append(position)
    return positions


def _moved_steps(base: NativeRows, problem: RowProblem, places: Mapping[int, Sequence[int]]) -> tuple[int, ...]:
    """Return the base's schedule for a problem in which others fire instead of each operator.

    places: these; with as many firings as the operator, they take its turns. Others run alone, and all of their firings
    come where its first one was.
    """
    turns = {position: [i for i in new for _ in problem.operators[i].firings] for position, new in places.items()}
    done = [0] * len(base.problem.operators)
    steps: list[int] = []
    for position in base.plan.schedule:
        if len(turns[position]) == len(base.problem.operators[position].firings):
            steps.append(turns[position][done[position]])
        elif not done[position]:
            steps += turns[position]
        done[position] += 1
    return tuple(steps)


def _moved(base: NativeRows, problem: RowProblem) -> tuple[int, ...]:
    """Return the base's offsets for a problem that has the same tensors, perhaps in other rows if they lie together."""
    starts = {item.tensor: base.problem.first_row(i) for i, item in enumerate(base.problem.tensors)}
    cells = {item.tensor: item.row_bytes for item in base.problem.tensors}
    offsets: list[int] = []
    for tensor in problem.tensors:
        start = starts[tensor.tensor]
        if tensor.row_bytes == cells[tensor.tensor]:
            offsets += base.plan.offsets[start : start + tensor.rows]
        else:
            offsets += [base.plan.offsets[start] + i * tensor.row_bytes for i in range(tensor.rows)]
    return tuple(offsets)


class _Memory:
    """What is where at each step of the smallest plan. faster: the problem of kernels with scratch."""

    def __init__(self, base: NativeRows, faster: RowProblem) -> None:
        self._base, self._faster = base, faster
        problem, schedule = base.problem, base.plan.schedule
        self.segment = segments_of(base.cuts, len(problem.operators))
        self._steps: list[list[int]] = [[] for _ in problem.operators]
        for step, number in enumerate(schedule):
            self._steps[number].append(step)
        self._first, self._last = map(np.array, row_lives(problem, schedule))
        self._offsets, self._sizes = np.array(base.plan.offsets), np.array(problem.row_sizes())
        self._ends = self._offsets + self._sizes
        self._tensors = {item.tensor: i for i, item in enumerate(problem.tensors)}

    def scratch_of(self, positions: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Return the scratch of each call of the steps at these positions, NO_SCRATCH if it has none."""
        scratch, operators = self._base.plan.scratch, self._base.problem.operators
        return tuple(scratch[i] or (NO_SCRATCH,) * len(operators[i].firings) for i in positions)

    def calls(self, positions: Sequence[int], faster: Sequence[Step], limit: int) -> list[list[int | None]]:
        """Return the scratch of each call of the faster steps at these positions: NO_SCRATCH if it has none.

        None if it has no place although the step cannot be bare, or if the rows are too close. An empty list if there
        are not as many steps.
        """
        if len(positions) != len(faster):
            return []
        return [self._calls(*item, limit) for item in zip(positions, faster, strict=True)]

    def _calls(self, position: int, faster: Step, limit: int) -> list[int | None]:
        old, new = self._base.problem.operators[position], self._faster.operators[position]
        if len(old.firings) != len(new.firings):
            return [None] * len(old.firings)
        steps = self._steps[position]
        places = self._places(steps, new.scratch_bytes, limit)
        can_be_bare = faster.can_be_bare or not new.scratch_bytes
        return [
            place
            if (firing.reads, firing.writes) == (before.reads, before.writes)
            and self._keeps_distances(firing, step)
            and (can_be_bare or place != NO_SCRATCH)
            else None
            for place, step, before, firing in zip(places, steps, old.firings, new.firings, strict=True)
        ]

    def _keeps_distances(self, firing: Firing, step: int) -> bool:
        distances = dict(firing.overlaps)
        start = self._offsets[firing.writes[0]]
        return all(
            row in distances and self._offsets[row] - start >= distances[row]
            for row in firing.reads
            for written in firing.writes
            if row != written
            and self._offsets[row] < self._offsets[written] + self._sizes[written]
            and self._offsets[written] < self._offsets[row] + self._sizes[row]
        )

    def moments_alone(self, positions: Sequence[int]) -> list[int] | None:
        """Return the steps of a schedule at which operators fire; None if they do not run alone."""
        if any(self.segment.count(self.segment[position]) > 1 for position in positions):
            return None
        moments = [step for position in positions for step in self._steps[position]]
        # What comes between them may end the life of rows whose memory the later ones need.
        is_run = moments == list(range(min(moments, default=0), max(moments, default=-1) + 1))
        return moments if is_run else None

    def as_whole(
        self, positions: Sequence[int], steps: Sequence[Step], limit: int
    ) -> tuple[tuple[int, ...], ...] | None:
        """Return the scratch of steps on whole tensors that replace those at these positions, which must run alone.

        It is at the same offset at all calls, because any of them may be at any of the moments.
        """
        moments = self.moments_alone(positions)
        if moments is None:
            return None
        result = []
        for step in steps:
            if not self._can_be_whole(step, moments, single=len(steps) == len(positions) == 1):
                return None
            places = tuple(dict.fromkeys(self._places(moments, step.scratch_bytes, limit)))
            if len(places) > 1 or (NO_SCRATCH in places and step.scratch_bytes):
                return None
            result.append(places)
        return tuple(result)

    def _can_be_whole(self, step: Step, moments: Sequence[int], *, single: bool) -> bool:
        """Return whether a step's tensors lie together and are not closer than its kernel allows."""
        places = self._base.program.places
        start, size = self._whole(places[step.output].root)
        if size == 0:
            return False
        output = start + places[step.output].offset + step.output_offset
        for number, item in enumerate(step.inputs):
            if not isinstance(item.source, int) or places[item.source].constant is not None:
                continue
            root = places[item.source].root
            begin, length = self._whole(root)
            if length == 0:
                return False
            # It may read rows that the steps here do not need, and whose memory belongs to others by then.
            if (self._last[self._read(step, item)] < moments[0]).any():
                return False
            if begin >= start + size or start >= begin + length:
                continue
            dies = self._last[self._rows(root)].max() <= moments[-1]
            source = begin + places[item.source].offset
            allowed = any(
                overlap.input == number and not overlap.descending and source - output >= overlap.distance
                for overlap in step.overlaps
            )
            if not (single and dies and allowed and [self._root(i) for i in step.inputs].count(root) == 1):
                return False
        return True

    def _read(self, step: Step, item: RowInput) -> list[int]:
        """Return the rows of the base that a step on whole tensors reads of an input in the arena."""
        assert isinstance(item.source, int)
        place = self._base.program.places[item.source]
        first, cell = self._rows(place.root).start, self._base.problem.tensors[self._tensors[place.root]].row_bytes
        length = item.row_bytes or self._base.program.graph.tensors[item.source].size_bytes
        starts = {
            place.offset + (batch * item.rows + row) * item.row_bytes
            for batch in range(step.batches)
            for row in rows_read(item, 0, step.rows)
        }
        return sorted(
            {first + number for start in starts for number in range(start // cell, -(-(start + length) // cell))}
        )

    def _root(self, item: RowInput) -> int:
        places = self._base.program.places
        return places[item.source].root if isinstance(item.source, int) else -1

    def _rows(self, root: int) -> slice:
        rows = self._base.problem.rows_of(self._tensors[root])
        return slice(rows.start, rows.stop)

    def _whole(self, root: int) -> tuple[int, int]:
        """Return the offset and the size of a tensor; a size of 0 if its rows do not lie together."""
        if root not in self._tensors:
            return 0, 0
        tensor = self._base.problem.tensors[self._tensors[root]]
        if tensor.rows > 1 and tensor.group < tensor.rows:
            return 0, 0
        return int(self._offsets[self._rows(root)][0]), tensor.rows * tensor.row_bytes

    def _places(self, steps: Sequence[int], size: int, limit: int) -> list[int]:
        """Return for each of these steps an offset at which bytes are free then, NO_SCRATCH if there is none.

        There are few different ones: the lowest one that is free at all steps, if there is one. A size of 0 has none.
        Steps are in ascending order.
        """
        if not size:
            return [NO_SCRATCH] * len(steps)
        moments = np.array(steps)
        live = np.flatnonzero(moments.searchsorted(self._first) < moments.searchsorted(self._last, "right"))
        starts, ends = self._offsets[live], self._ends[live]
        # Tables of large plans state offsets in larger units.
        unit = max(SCRATCH_ALIGNMENT, place_unit(limit))
        behind = -(-ends // unit) * unit
        highest = limit - aligned(size, SCRATCH_ALIGNMENT)
        # Behind all rows that begin further below, and in front of the next one.
        order = starts.argsort()
        free = np.append(0, np.maximum.accumulate(behind[order]))
        found = np.flatnonzero((free <= np.append(starts[order] - size, highest)) & (free <= highest))
        if len(found):
            return [int(free[found[0]])] * len(steps)
        is_live = (self._first[live, None] <= moments) & (moments <= self._last[live, None])
        places = np.array(sorted(place for place in {0, *behind.tolist()} if place <= highest), np.int64)
        is_met = (starts < places[:, None] + size) & (places[:, None] < ends)
        # Products of float32 are those of a fast library, and these sums are exact.
        is_free = is_met.astype(np.float32) @ is_live.astype(np.float32) == 0
        result = np.full(len(moments), NO_SCRATCH)
        while is_free.any():
            best = int(is_free.sum(axis=1).argmax())
            result[is_free[best]] = places[best]
            is_free[:, is_free[best]] = False
        return [int(place) for place in result]


def rows_memory(rows: NativeRows) -> NativeMemory:
    """Return the memory of a plan of rows at the step that needs the most: buffers are the rows that are live then.

    Other buffers of the program have the offset of their first row. Positions are those of the program's steps.
    """
    problem, plan = rows.problem, rows.plan
    needs = live_bytes(problem, plan.schedule)
    firings = [firing for _, firing in steps_of(problem, plan.schedule)]
    peak = max(range(len(needs)), key=needs.__getitem__, default=0)
    numbers = step_numbers(problem)
    position = numbers[plan.schedule[peak]] if plan.schedule else 0
    first, last = row_lives(problem, plan.schedule)
    buffers, offsets = [], []
    for index, tensor in enumerate(problem.tensors):
        live = [row for row in problem.rows_of(index) if first[row] <= peak <= last[row]]
        if live:
            count = "" if len(live) == tensor.rows else f"{len(live)} of {tensor.rows} rows of "
            buffers.append(
                Buffer(
                    subgraph=0,
                    tensor=tensor.tensor,
                    name=f"{count}{tensor.name}",
                    size_bytes=len(live) * tensor.row_bytes,
                    lifetime=Lifetime(position, position),
                    alignment=tensor.alignment,
                    granule=1,
                )
            )
            offsets.append(min(plan.offsets[row] for row in live))
    if plan.schedule and (scratch := firings[peak].scratch_bytes):
        buffers.append(
            Buffer(
                subgraph=0,
                tensor=-1,
                name=problem.operators[plan.schedule[peak]].name,
                size_bytes=scratch,
                lifetime=Lifetime(position, position),
                operator=position,
                alignment=SCRATCH_ALIGNMENT,
                granule=1,
            )
        )
        offsets.append(plan.scratch[plan.schedule[peak]][plan.schedule[:peak].count(plan.schedule[peak])])
    optimal: Proof = "bound met" if plan.memory_bytes == plan.lower_bound else "none"
    return NativeMemory(
        LayoutProblem(tuple(buffers)),
        Layout(tuple(offsets), plan.memory_bytes, plan.lower_bound, optimal),
        {tensor.tensor: plan.offsets[problem.first_row(i)] for i, tensor in enumerate(problem.tensors) if tensor.rows},
        {numbers[i]: max(offsets) for i, offsets in enumerate(plan.scratch) if offsets},
        {},
        plan.parts,
    )
