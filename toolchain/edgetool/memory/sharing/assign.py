"""The assignment of tensors to shared buffers: greedy best fit, or optimal by dynamic programming over time.

Best fit puts each tensor into the free buffer whose size is closest to its own.

Dynamic programming processes tensors in the order in which they start. Of the earlier ones, only the buffers matter:
their sizes, and until when they are occupied. A state is that list, and the minimum memory follows by recursion over
the states that the next tensor leads to: it goes into a free buffer, which may have to grow, or into a new one.
Identical buffers are one choice.

At the start, there are empty buffers of the sizes that every assignment needs (types.rank_sizes): only memory beyond
these sizes is counted. A state is pruned if its memory, plus the minimum that the largest future cliques add to it,
reaches the best assignment. At first, few states are kept for each tensor, then more in every round, until none has to
be dropped: then the best assignment is proven optimal. The dropped states give a lower bound.

In an arena, the shared buffers are placed one after another.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import lcm
from typing import NamedTuple

from edgetool.errors import UsageError
from edgetool.memory.lifetimes import DEAD, Timeline, layout_problem
from edgetool.memory.problem import Buffer, Effort, LayoutProblem, Lifetime, Proof, aligned
from edgetool.memory.sharing.check import check_assignment, require_valid_assignment
from edgetool.memory.sharing.graph import fill_unknowns
from edgetool.memory.sharing.types import (
    Algorithm,
    Interval,
    LiveRange,
    Ranges,
    Sharing,
    TensorGroup,
    cliques,
    interval,
    rank_sizes,
)
from edgetool.model.types import Model
from edgetool.operators.call import arena_bytes

# The number of each interval's buffer; None if it is not assigned yet.
Buffers = Sequence[int | None]


def best_fit(intervals: Sequence[Interval], fixed: Buffers) -> tuple[int, ...]:
    """Return the buffer of each interval, chosen in order of last use; `fixed` ones are assigned already.

    A buffer grows with its contents; of equally close ones the first is used (Caffe2's memonger, greedy).
    """
    return _place_in_order(intervals, fixed, sorted(range(len(intervals)), key=lambda i: (intervals[i].end, i)))


def largest_first(intervals: Sequence[Interval], fixed: Buffers) -> tuple[int, ...]:
    """Return the buffer of each interval, chosen by best fit in order of descending size."""
    return _place_in_order(
        intervals, fixed, sorted(range(len(intervals)), key=lambda i: (-intervals[i].size, intervals[i].start, i))
    )


def total_bytes(intervals: Sequence[Interval], buffers: Sequence[int]) -> int:
    """Return the sum of all buffers, each as large as its largest interval."""
    sizes: dict[int, int] = {}
    for buffer, taken in zip(buffers, intervals, strict=True):
        sizes[buffer] = max(sizes.get(buffer, 0), taken.size)
    return sum(sizes.values())


def _place_in_order(intervals: Sequence[Interval], fixed: Buffers, order: Sequence[int]) -> tuple[int, ...]:
    chosen = list(fixed)
    taken: list[list[tuple[int, int]]] = [[] for _ in range(1 + max((b for b in fixed if b is not None), default=-1))]
    sizes = [0] * len(taken)
    for i, buffer in enumerate(fixed):
        if buffer is not None:
            taken[buffer].append((intervals[i].start, intervals[i].end))
            sizes[buffer] = max(sizes[buffer], intervals[i].size)
    for times in taken:
        times.sort()
    for i in order:
        if chosen[i] is not None:
            continue
        start, end, size = intervals[i]
        best = None
        for buffer, times in enumerate(taken):
            at = bisect_left(times, (start,))
            free = (at == 0 or times[at - 1][1] < start) and (at == len(times) or end < times[at][0])
            if free and (best is None or abs(sizes[buffer] - size) < abs(sizes[best] - size)):
                best = buffer
        if best is None:
            best = len(taken)
            taken.append([])
            sizes.append(0)
        chosen[i] = best
        times = taken[best]
        times.insert(bisect_left(times, (start,)), (start, end))
        sizes[best] = max(sizes[best], size)
    return tuple(buffer for buffer in chosen if buffer is not None)


# The number of states kept for each tensor in the first round, and its growth from round to round.
FIRST_WIDTH = 8
WIDTH_FACTOR = 8
# The number of future cliques that a choice is compared with.
MAX_CLIQUES_AHEAD = 64
STATES_BETWEEN_STOPS = 256
_BEFORE = -(2**62)
_NOT_FIXED = -1


class BufferAssignment(NamedTuple):
    """The buffer of each interval, their total bytes, and a lower bound on that total."""

    buffers: tuple[int, ...]
    bytes: int
    lower_bound: int


class _Buffer(NamedTuple):
    """A buffer in a state: its size, its last occupied position, and its number if intervals are fixed to it.

    These distinguish states. number: the buffer's number in the result.
    """

    size: int
    until: int
    fixed: int
    number: int


class _Trail(NamedTuple):
    """The buffers chosen on the way to a state, the last one first."""

    number: int
    before: _Trail | None


class _State(NamedTuple):
    bound: int
    buffers: tuple[_Buffer, ...]
    trail: _Trail | None


def minimum_assignment(intervals: Sequence[Interval], fixed: Buffers, effort: Effort) -> BufferAssignment:
    """Return the assignment with the fewest bytes, or the best within the effort; never worse than best_fit.

    `fixed` intervals are assigned already. effort.node_limit counts states.
    """
    search = _SharingSearch(intervals, fixed, effort)
    best = min((way(intervals, fixed) for way in (best_fit, largest_first)), key=lambda b: total_bytes(intervals, b))
    best_bytes, bound, width = total_bytes(intervals, best), sum(search.ranks), FIRST_WIDTH
    while bound < best_bytes and not search.spent():
        trail, dropped = search.sweep(width, best_bytes)
        if trail is not None:
            best = search.in_given_order(trail)
            best_bytes = total_bytes(intervals, best)
        bound = max(bound, min(best_bytes, dropped))
        width *= WIDTH_FACTOR
    return BufferAssignment(best, best_bytes, bound)


class _SharingSearch:
    """The intervals in order of their start, and the cliques and bounds that the states are compared with."""

    def __init__(self, intervals: Sequence[Interval], fixed: Buffers, effort: Effort) -> None:
        self.effort, self.states = effort, 0
        self.order = sorted(range(len(intervals)), key=lambda i: (intervals[i].start, -intervals[i].size, i))
        self.intervals = [intervals[i] for i in self.order]
        self.fixed = [fixed[i] for i in self.order]
        self.ranks = rank_sizes(intervals)
        self.cliques = cliques(self.intervals)
        self.cliques_of: list[list[int]] = [[] for _ in self.order]
        for index, (_, members) in enumerate(self.cliques):
            for i in members:
                if len(self.cliques_of[i]) < MAX_CLIQUES_AHEAD:
                    self.cliques_of[i].append(index)
        self.taken: dict[int, list[Interval]] = {}
        for buffer, item in zip(self.fixed, self.intervals, strict=True):
            if buffer is not None:
                self.taken.setdefault(buffer, []).append(item)

    def spent(self) -> bool:
        limit = self.effort.node_limit
        if limit is not None and self.states >= limit:
            return True
        return self.states % STATES_BETWEEN_STOPS == 0 and self.effort.stop()

    def in_given_order(self, trail: _Trail) -> tuple[int, ...]:
        """Return the buffers along a complete trail, in the original order of the intervals."""
        chosen = [0] * len(self.order)
        at: _Trail | None = trail
        for i in reversed(self.order):
            if at is not None:
                chosen[i], at = at.number, at.before
        return tuple(chosen)

    def sweep(self, width: int, best_bytes: int) -> tuple[_Trail | None, int]:
        """Keep `width` states per interval; return the best trail below best_bytes, and the bound of the dropped
        states.
        """
        level = [_State(sum(self.ranks), self._first_buffers(), None)]
        dropped = best_bytes
        for i in range(len(self.intervals)):
            following: dict[tuple[tuple[int, int, int], ...], _State] = {}
            for state in level:
                if self.spent():
                    return None, min(dropped, level[0].bound)
                self.states += 1
                for buffers, number in self._choices(i, state.buffers):
                    key = tuple(buffer[:3] for buffer in buffers)
                    if key not in following:
                        bound = max(state.bound, self._lower_bound(i, buffers))
                        following[key] = _State(bound, buffers, _Trail(number, state.trail))
            level = sorted((s for s in following.values() if s.bound < best_bytes), key=lambda s: (s.bound, s.buffers))
            if len(level) > width:
                dropped = min(dropped, level[width].bound)
                del level[width:]
        return (level[0].trail if level else None), dropped

    def _first_buffers(self) -> tuple[_Buffer, ...]:
        """Return the buffers of the fixed intervals or, without any, empty ones of the sizes that every assignment
        needs.
        """
        if self.taken:
            sizes = {number: max(item.size for item in items) for number, items in self.taken.items()}
            return tuple(sorted(_Buffer(size, _BEFORE, number, number) for number, size in sizes.items()))
        return tuple(sorted(_Buffer(size, _BEFORE, _NOT_FIXED, number) for number, size in enumerate(self.ranks)))

    def _choices(self, i: int, buffers: tuple[_Buffer, ...]) -> Iterator[tuple[tuple[_Buffer, ...], int]]:
        """Yield the buffers after each way to place the interval, and the number of the buffer that contains it."""
        start, end, size = self.intervals[i]
        # When a free buffer was last occupied has no effect any more.
        now = [b if b.until >= start else b._replace(until=_BEFORE) for b in buffers]
        tried = set()
        for at, buffer in enumerate(now):
            kind = (buffer.size, buffer.fixed)
            if kind not in tried and self._may_take(buffer, i):
                tried.add(kind)
                grown = buffer._replace(size=max(buffer.size, size), until=end)
                yield tuple(sorted([*now[:at], grown, *now[at + 1 :]])), buffer.number
        if self.fixed[i] is None:
            number = 1 + max((buffer.number for buffer in now), default=-1)
            yield tuple(sorted([*now, _Buffer(size, end, _NOT_FIXED, number)])), number

    def _may_take(self, buffer: _Buffer, i: int) -> bool:
        current = self.intervals[i]
        if self.fixed[i] is not None:
            return buffer.fixed == self.fixed[i]
        if buffer.until >= current.start:
            return False
        return all(current.end < item.start or item.end < current.start for item in self.taken.get(buffer.fixed, ()))

    def _lower_bound(self, i: int, buffers: tuple[_Buffer, ...]) -> int:
        """Return the minimum total bytes once every interval live together with interval i is placed as well."""
        sizes = sorted((buffer.size for buffer in buffers), reverse=True)
        growth = 0
        for index in self.cliques_of[i]:
            time, members = self.cliques[index]
            free = sorted((buffer.size for buffer in buffers if buffer.until < time), reverse=True)
            later_sizes = [self.intervals[member].size for member in members if member > i]
            missing = sum(max(0, size - free[k]) if k < len(free) else size for k, size in enumerate(later_sizes))
            growth = max(growth, missing)
        return max(sum(sizes) + growth, sum(map(max, zip_longest(sizes, self.ranks, fillvalue=0))))


# A few seconds.
DEFAULT_EFFORT = Effort(node_limit=50_000)


def assign(
    ranges: Ranges,
    algorithm: Algorithm = "dynamic-programming",
    *,
    static: Collection[str] = (),
    initial: Sequence[TensorGroup] = (),
    prefix: str = "",
    in_place: bool = False,
    effort: Effort | None = None,
) -> Sharing:
    """Return the tensors by the buffer that they share; the assignment is checked.

    static: tensors that never share, like all whose names do not start with `prefix`. initial: groups that share
    already; they remain together, and others may join them. in_place: an operator may overwrite the tensors that it
    reads last. Raises UsageError for ranges that end before they start, and for initial groups that interfere, repeat
    or do not exist.
    """
    filled = fill_unknowns(ranges)
    static = frozenset(static)
    alone = {name: None for name in filled if name in static or not name.startswith(prefix)}
    _check_initial(filled, initial, alone, in_place)
    shared = [name for name in filled if name not in alone]
    intervals = [interval(filled[name], in_place=in_place) for name in shared]
    group_of = {name: number for number, group in enumerate(initial) for name in group if group[0] not in alone}
    numbers = {number: k for k, number in enumerate(sorted(set(group_of.values())))}
    fixed = [numbers[group_of[name]] if name in group_of else None for name in shared]
    rank_bound = sum(rank_sizes(intervals))
    if algorithm == "greedy":
        buffers, bound = best_fit(intervals, fixed), rank_bound
    else:
        buffers, _, bound = minimum_assignment(intervals, fixed, effort or DEFAULT_EFFORT)
    groups = _groups(filled, shared, buffers, alone)
    require_valid_assignment(filled, groups, static=alone, in_place=in_place)
    optimized = memory_used(filled, groups)
    separate = memory_used(filled, [(name,) for name in alone])
    meets_bound, proven = optimized == separate + rank_bound, optimized == separate + bound
    return Sharing(
        groups=groups,
        baseline_bytes=memory_used(filled, [(name,) for name in filled]),
        optimized_bytes=optimized,
        lower_bound=separate + bound,
        proof="bound met" if meets_bound else "search exhausted" if proven else "none",
        cut_short=algorithm != "greedy" and not proven,
    )


def memory_used(ranges: Ranges, groups: Sequence[TensorGroup]) -> int:
    """Return the bytes of all buffers, each as large as its largest tensor; an unknown size counts as 1."""
    sizes = {name: 1 if live.size is None else live.size for name, live in ranges.items()}
    return sum(max((sizes[name] for name in group), default=0) for group in groups)


def _groups(
    filled: Ranges, shared: Sequence[str], buffers: Sequence[int], alone: Collection[str]
) -> tuple[TensorGroup, ...]:
    """Return the groups in order of their first tensor, each in order of last use."""
    place = {name: index for index, name in enumerate(filled)}
    members: dict[int, list[str]] = {}
    for name, buffer in zip(shared, buffers, strict=True):
        members.setdefault(buffer, []).append(name)
    groups = [*members.values(), *([name] for name in alone)]
    ordered = [tuple(sorted(group, key=lambda name: (filled[name].used, place[name]))) for group in groups]
    return tuple(sorted(ordered, key=lambda group: min(place[name] for name in group)))


def _check_initial(filled: Ranges, initial: Sequence[TensorGroup], alone: Collection[str], in_place: bool) -> None:
    """Raise UsageError, naming the tensors, for groups that no assignment can keep."""
    given = {name: filled[name] for group in initial for name in group if name in filled}
    conflicts = check_assignment(given, initial, static=alone, in_place=in_place)
    if conflicts or not all(initial):
        raise UsageError(
            conflicts[0].message if conflicts else "an initial group is empty",
            where="the initial assignment",
            fix="use groups of different tensors that do not interfere",
            details=tuple(conflict.message for conflict in conflicts[1:6]),
        )


@dataclass(frozen=True, slots=True)
class SharedLayout:
    """The shared buffers of a problem.

    groups: the indices of the problem's buffers in each shared buffer; sizes: its bytes. A shared buffer begins where
    the previous one ends, or at the next offset that its alignment allows. offsets: one per buffer of the problem, -1
    for scratch, which TFLM places itself. baseline_bytes: every tensor in separate memory; optimized_bytes: all shared
    buffers. lower_bound holds for every assignment to whole buffers; proof is how optimality was established.
    """

    offsets: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    baseline_bytes: int
    optimized_bytes: int
    lower_bound: int
    proof: Proof
    cut_short: bool


def shared_offsets(
    problem: LayoutProblem, algorithm: Algorithm = "dynamic-programming", effort: Effort | None = None
) -> SharedLayout:
    """Return the tensors of the problem in shared buffers, the largest first; the assignment is checked.

    Sizes count as the arena reserves them. Buffers of one alias share from the start, for all of their lifetimes
    together. Raises UsageError for a buffer that is pinned to an offset, because shared buffers follow each other.
    """
    merged = _merge_aliases(problem)
    ranges = {
        str(index): LiveRange(
            min(buffer.lifetime.first for _, buffer in members),
            max(buffer.lifetime.last for _, buffer in members),
            max(aligned(buffer.aligned_bytes, buffer.alignment) for _, buffer in members),
        )
        for index, members in enumerate(merged)
    }
    sharing = assign(ranges, algorithm, effort=effort)
    sized = [(max(ranges[name].size or 0 for name in group), group) for group in sharing.groups]
    offsets = [-1] * len(problem.buffers)
    groups, sizes, end = [], [], 0
    for size, group in sorted(sized, key=lambda pair: -pair[0]):
        members = [index for name in group for index, _ in merged[int(name)]]
        start = aligned(end, lcm(*(problem.buffers[index].alignment for index in members)))
        for index in members:
            offsets[index] = start
        groups.append(tuple(sorted(members)))
        sizes.append(size)
        end = start + max(problem.buffers[index].aligned_bytes for index in members)
    return SharedLayout(
        offsets=tuple(offsets),
        groups=tuple(groups),
        sizes=tuple(sizes),
        baseline_bytes=sharing.baseline_bytes,
        optimized_bytes=sharing.optimized_bytes,
        lower_bound=sharing.lower_bound,
        proof=sharing.proof,
        cut_short=sharing.cut_short,
    )


def whole_problem(model: Model, times: Timeline) -> LayoutProblem:
    """Return every tensor that needs RAM, without scratch buffers; variables are included, and never share."""
    variables = {
        (graph.index, tensor.index)
        for graph in model.subgraphs
        for tensor in graph.tensors
        if tensor.is_variable and arena_bytes(tensor) > 0
    }
    buffers = layout_problem(model, times, fixed=variables).buffers
    always = Lifetime(DEAD.first, max((buffer.lifetime.last for buffer in buffers), default=0))
    return LayoutProblem(
        tuple(replace(b, lifetime=always) if (b.subgraph, b.tensor) in variables else b for b in buffers)
    )


def _merge_aliases(problem: LayoutProblem) -> list[list[tuple[int, Buffer]]]:
    """Return the (index, buffer) pairs without scratch, those of one alias together."""
    merged: dict[str | int, list[tuple[int, Buffer]]] = {}
    for index, buffer in enumerate(problem.buffers):
        if buffer.is_scratch:
            continue
        if buffer.pinned is not None:
            raise UsageError(
                f"is pinned to offset {buffer.pinned}, but shared buffers have no offsets to choose",
                where=f"buffer {index} ({buffer.name!r})",
                fix="plan without --sharing",
            )
        merged.setdefault(index if buffer.alias is None else buffer.alias, []).append((index, buffer))
    return list(merged.values())
