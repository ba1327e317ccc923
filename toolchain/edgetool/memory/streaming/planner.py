"""The smallest memory for the rows of a model: segments, a schedule, and offsets, judged by the checker."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from edgetool.memory.problem import aligned, never
from edgetool.memory.streaming.bound import row_bound
from edgetool.memory.streaming.checker import require_valid_rows
from edgetool.memory.streaming.packing import PASSES, Packing, pack_again, pack_rows, with_few_places
from edgetool.memory.streaming.problem import RowPlan, RowProblem
from edgetool.memory.streaming.schedule import RowSchedule, best_schedule, live_bytes
from edgetool.memory.streaming.search import improved_schedule

PLACES = 2**16 - 1  # that the tables of generated code can state, which have one number for none

# Tensors between segments lie together if no more than this share of the peak is live there, more and more of them as
# long as that costs nothing.
TOGETHER_SHARES = (0.5, 0.8, 1.0)
TOGETHER_PASSES = 8  # of packing, for each share
# Minimum cuts for the lower bound: more than models of today need. Each takes time for each firing.
BOUND_CUTS, CUT_FIRINGS = 20, 100_000
WORD = 4  # what tensors that lie together are aligned to, and the memory is a multiple of
ROOM = 2  # how many times the peak all offsets must be able to state, with the kernels of faster plans


@dataclass(frozen=True, slots=True)
class PlannedRows:
    """A plan, the problem that it solves, which may have more rows that lie together, and where segments start."""

    problem: RowProblem
    plan: RowPlan
    cuts: tuple[int, ...]


def plan_rows(
    problem: RowProblem,
    *,
    most_weights: int | None = None,
    passes: int = PASSES,
    stopped: Callable[[], bool] = never,
) -> PlannedRows:
    """Return the plan with the smallest memory, and its lower bound.

    Tensors that wait between segments lie together if that costs nothing: kernels for whole tensors need it.

    Args:
        problem: What is to be planned.
        most_weights: The bytes of constants of all operators in a segment at most, if it has several; None for any.
        passes: The effort for offsets; see pack_rows.
        stopped: Whether to end the search with the best plan so far.
    """
    segments = best_schedule(problem, most_weights=most_weights, stopped=stopped)
    unit = place_unit(int(ROOM * segments.peak_bytes))
    cuts = min(BOUND_CUTS, CUT_FIRINGS // max(1, len(segments.steps)))
    bound = row_bound(problem, [segments.steps], cut_limit=cuts, stop=stopped)
    schedule = improved_schedule(problem, segments, bound, most_weights=most_weights, stopped=stopped)
    packing = pack_rows(problem, schedule.steps, _target(schedule), unit=unit, passes=passes, stopped=stopped)
    # A lower peak does not always take less memory.
    if schedule.peak_bytes < segments.peak_bytes < packing.memory_bytes and not stopped():
        other = pack_rows(problem, segments.steps, _target(segments), unit=unit, passes=passes, stopped=stopped)
        if other.memory_bytes < packing.memory_bytes:
            schedule, packing = segments, other
    problem, packing = _together(problem, schedule, packing, unit, stopped)
    packing = with_few_places(problem, schedule.steps, packing, unit=unit)
    plan = RowPlan(schedule.steps, packing.offsets, packing.scratch, aligned(packing.memory_bytes, WORD), bound)
    require_valid_rows(problem, plan)
    return PlannedRows(problem, plan, schedule.cuts)


def _together(
    problem: RowProblem, schedule: RowSchedule, packing: Packing, unit: int, stopped: Callable[[], bool]
) -> tuple[RowProblem, Packing]:
    """Return the problem in which tensors between segments lie together, and a packing in no more memory."""
    waiting = _between_segments(problem, schedule)
    shares = [share * schedule.peak_bytes for share in TOGETHER_SHARES]
    sets = dict.fromkeys(frozenset(tensor for tensor, live in waiting.items() if live <= most) for most in shares)

    def again(problem: RowProblem, near: Packing, target: int) -> Packing | None:
        limit = near.memory_bytes
        passes = TOGETHER_PASSES
        return pack_again(problem, schedule.steps, near, limit, target, unit=unit, passes=passes, stopped=stopped)

    joined, best = problem, packing
    for tensors in filter(None, sets):
        wider = _joined(problem, tensors)
        found = again(wider, best, packing.memory_bytes)
        if found is None:
            break
        joined, best = wider, found
    # What lies together has other places, from which less memory may be enough.
    return joined, best if joined is problem else again(joined, best, _target(schedule)) or best


def _target(schedule: RowSchedule) -> int:
    """Return the memory that no packing of a schedule can be below, in whole words."""
    return aligned(schedule.peak_bytes, WORD)


def place_unit(memory_bytes: int) -> int:
    """Return the power of two that all offsets of a plan must be multiples of, so that 16 bits can state them."""
    unit = 1
    while memory_bytes > PLACES * unit:
        unit *= 2
    return unit


def segments_of(cuts: Sequence[int], operators: int) -> list[int]:
    """Return the segment of each operator, counted from 0."""
    return [bisect_right(cuts, position) - 1 for position in range(operators)]


def weights_per_row(problem: RowProblem, cuts: Sequence[int]) -> int:
    """Return the most bytes of constants that a segment of several operators reads for each row; 0 if there is none."""
    ends = (*cuts[1:], len(problem.operators))
    segments = (problem.operators[start:end] for start, end in zip(cuts, ends, strict=True))
    return max((sum(item.weight_bytes for item in items) for items in segments if len(items) > 1), default=0)


def _joined(problem: RowProblem, tensors: Collection[int]) -> RowProblem:
    """Return the problem with the rows of some tensors together, from a word on."""
    joined = (
        replace(item, group=max(1, item.rows), alignment=max(WORD, item.alignment)) if index in tensors else item
        for index, item in enumerate(problem.tensors)
    )
    return replace(problem, tensors=tuple(joined))


def _between_segments(problem: RowProblem, schedule: RowSchedule) -> dict[int, int]:
    """Return the tensors that one segment writes and another reads, with the most bytes that are live in these."""
    segment = segments_of(schedule.cuts, len(problem.operators))
    tensor_of = problem.tensor_of_rows()
    touching: dict[int, set[int]] = {}
    for position, operator in enumerate(problem.operators):
        for firing in operator.firings:
            for row in (*firing.reads, *firing.writes):
                touching.setdefault(tensor_of[row], set()).add(segment[position])
    most = [0] * len(schedule.cuts)
    for number, live in zip(schedule.steps, live_bytes(problem, schedule.steps), strict=True):
        most[segment[number]] = max(most[segment[number]], live)
    # Rows behind each other are aligned like single ones only if their size is a multiple of the alignment.
    return {
        tensor: max(most[i] for i in segments)
        for tensor, segments in touching.items()
        if len(segments) > 1 and problem.tensors[tensor].row_bytes % problem.tensors[tensor].alignment == 0
    }
