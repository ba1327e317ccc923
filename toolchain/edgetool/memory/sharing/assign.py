"""Which tensors share a buffer: greedily, or as few bytes as there can be.

Best fit: each tensor to the buffer whose size is closest to its own.

The assignment to whole buffers that takes least, by dynamic programming over time.

Tensors come in the order in which they start. Of what came before, only the buffers matter: the size of each, and
when it is taken. So a state is that list, and the least memory follows by recursion over the states that one more
tensor makes of it: it goes into a free buffer, which may have to grow, or into a new one. Buffers that are alike are
one choice.

At the start there are empty buffers of the sizes that every assignment needs (interval.rank_sizes): memory is only paid
for beyond them. A state is given up when its memory, and what the largest sets alive in the future add to it at least,
reach the best assignment known. Few states are kept for each tensor at first, then ever more of them, until none had to
be dropped: then the best is proven. What was dropped bounds it from below.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from edgetool.errors import UsageError
from edgetool.memory.effort import Effort
from edgetool.memory.sharing.check import check_assignment, require_valid_assignment
from edgetool.memory.sharing.graph import known
from edgetool.memory.sharing.types import Algorithm, Group, Interval, Ranges, Sharing, cliques, interval, rank_sizes

# The buffer of each interval, by number; None while it has none.
Buffers = Sequence[int | None]


def best_fit(intervals: Sequence[Interval], fixed: Buffers) -> tuple[int, ...]:
    """The buffer of each interval, chosen in order of their last use; `fixed` ones lie in theirs already.

    A buffer grows with what it takes; of equally close ones the first is taken (Caffe2's memonger, greedy).
    """
    return _placed(intervals, fixed, sorted(range(len(intervals)), key=lambda i: (intervals[i].end, i)))


def largest_first(intervals: Sequence[Interval], fixed: Buffers) -> tuple[int, ...]:
    """The same, chosen in order of size, the largest first."""
    return _placed(
        intervals, fixed, sorted(range(len(intervals)), key=lambda i: (-intervals[i].size, intervals[i].start, i))
    )


def total(intervals: Sequence[Interval], buffers: Sequence[int]) -> int:
    """The bytes of all buffers: of each the largest that lies in it."""
    sizes: dict[int, int] = {}
    for buffer, taken in zip(buffers, intervals, strict=True):
        sizes[buffer] = max(sizes.get(buffer, 0), taken.size)
    return sum(sizes.values())


def _placed(intervals: Sequence[Interval], fixed: Buffers, order: Sequence[int]) -> tuple[int, ...]:
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


# The states that are kept for each tensor at first, and how many times more in the next round.
FIRST_WIDTH = 8
WIDER = 8
# The sets alive in the future that a choice is held against.
SETS_AHEAD = 64
STATES_BETWEEN_STOPS = 256
_BEFORE = -(2**62)
_NOT_FIXED = -1


class Found(NamedTuple):
    """The buffer of each interval, their bytes, and what no choice can beat."""

    buffers: tuple[int, ...]
    bytes: int
    lower_bound: int


class _Buffer(NamedTuple):
    """Its size, when it was last taken, and its number where it is that of fixed intervals: what tells states apart.

    number: that of the buffer in the result.
    """

    size: int
    until: int
    fixed: int
    number: int


class _Trail(NamedTuple):
    """The buffers that were chosen on the way to a state, the last first."""

    number: int
    before: _Trail | None


class _State(NamedTuple):
    worth: int
    buffers: tuple[_Buffer, ...]
    trail: _Trail | None


def least_bytes(intervals: Sequence[Interval], fixed: Buffers, effort: Effort) -> Found:
    """The choice of buffers that takes least, or the best within the effort; never worse than best_fit.

    `fixed` intervals lie in their buffers already. effort.node_limit counts states.
    """
    search = _Search(intervals, fixed, effort)
    best = min((way(intervals, fixed) for way in (best_fit, largest_first)), key=lambda b: total(intervals, b))
    least, bound, width = total(intervals, best), sum(search.ranks), FIRST_WIDTH
    while bound < least and not search.spent():
        trail, dropped = search.sweep(width, least)
        if trail is not None:
            best = search.in_given_order(trail)
            least = total(intervals, best)
        bound = max(bound, min(least, dropped))
        width *= WIDER
    return Found(best, least, bound)


class _Search:
    """The tensors in order of their start, and what the states of a sweep are held against."""

    def __init__(self, intervals: Sequence[Interval], fixed: Buffers, effort: Effort) -> None:
        self.effort, self.states = effort, 0
        self.order = sorted(range(len(intervals)), key=lambda i: (intervals[i].start, -intervals[i].size, i))
        self.intervals = [intervals[i] for i in self.order]
        self.fixed = [fixed[i] for i in self.order]
        self.ranks = rank_sizes(intervals)
        self.sets = cliques(self.intervals)
        self.sets_of: list[list[int]] = [[] for _ in self.order]
        for index, (_, members) in enumerate(self.sets):
            for i in members:
                if len(self.sets_of[i]) < SETS_AHEAD:
                    self.sets_of[i].append(index)
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
        """The buffers along a whole trail, by the intervals as they were given."""
        chosen = [0] * len(self.order)
        at: _Trail | None = trail
        for i in reversed(self.order):
            if at is not None:
                chosen[i], at = at.number, at.before
        return tuple(chosen)

    def sweep(self, width: int, least: int) -> tuple[_Trail | None, int]:
        """The best way below `least` that keeps `width` states for each tensor, and what no dropped one can beat."""
        level = [_State(sum(self.ranks), self._first_buffers(), None)]
        dropped = least
        for i in range(len(self.intervals)):
            following: dict[tuple[tuple[int, int, int], ...], _State] = {}
            for state in level:
                if self.spent():
                    return None, min(dropped, level[0].worth)
                self.states += 1
                for buffers, number in self._choices(i, state.buffers):
                    key = tuple(buffer[:3] for buffer in buffers)
                    if key not in following:
                        worth = max(state.worth, self._worth(i, buffers))
                        following[key] = _State(worth, buffers, _Trail(number, state.trail))
            level = sorted((s for s in following.values() if s.worth < least), key=lambda s: (s.worth, s.buffers))
            if len(level) > width:
                dropped = min(dropped, level[width].worth)
                del level[width:]
        return (level[0].trail if level else None), dropped

    def _first_buffers(self) -> tuple[_Buffer, ...]:
        """Those of the fixed intervals; without any, empty ones of the sizes that every choice needs."""
        if self.taken:
            sizes = {number: max(item.size for item in items) for number, items in self.taken.items()}
            return tuple(sorted(_Buffer(size, _BEFORE, number, number) for number, size in sizes.items()))
        return tuple(sorted(_Buffer(size, _BEFORE, _NOT_FIXED, number) for number, size in enumerate(self.ranks)))

    def _choices(self, i: int, buffers: tuple[_Buffer, ...]) -> Iterator[tuple[tuple[_Buffer, ...], int]]:
        """What the buffers become for each way to place the interval, and the number of the buffer that takes it."""
        start, end, size = self.intervals[i]
        # When a buffer was free before does not matter any more.
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
        mine = self.intervals[i]
        if self.fixed[i] is not None:
            return buffer.fixed == self.fixed[i]
        if buffer.until >= mine.start:
            return False
        return all(mine.end < item.start or item.end < mine.start for item in self.taken.get(buffer.fixed, ()))

    def _worth(self, i: int, buffers: tuple[_Buffer, ...]) -> int:
        """What the buffers come to at least, once all that is alive with interval i has its place, too."""
        sizes = sorted((buffer.size for buffer in buffers), reverse=True)
        growth = 0
        for index in self.sets_of[i]:
            time, members = self.sets[index]
            free = sorted((buffer.size for buffer in buffers if buffer.until < time), reverse=True)
            wanted = [self.intervals[member].size for member in members if member > i]
            missing = sum(max(0, size - free[k]) if k < len(free) else size for k, size in enumerate(wanted))
            growth = max(growth, missing)
        return max(sum(sizes) + growth, sum(map(max, zip_longest(sizes, self.ranks, fillvalue=0))))


# A few seconds.
DEFAULT_EFFORT = Effort(node_limit=50_000)


def assign(
    ranges: Ranges,
    algorithm: Algorithm = "dynamic-programming",
    *,
    static: Collection[str] = (),
    initial: Sequence[Group] = (),
    prefix: str = "",
    in_place: bool = False,
    effort: Effort | None = None,
) -> Sharing:
    """The tensors by the buffer that they share; a judged assignment.

    static: tensors that never share, as do all whose name does not start with `prefix`. initial: groups that share
    already; they stay together, and others may join them. in_place: an operator may write over what it reads last.
    Raises UsageError for ranges that make no sense, and for initial groups that interfere, repeat or do not exist.
    """
    filled = known(ranges)
    static = frozenset(static)
    alone = {name: None for name in filled if name in static or not name.startswith(prefix)}
    _check_initial(filled, initial, alone, in_place)
    shared = [name for name in filled if name not in alone]
    intervals = [interval(filled[name], in_place=in_place) for name in shared]
    group_of = {name: number for number, group in enumerate(initial) for name in group if group[0] not in alone}
    numbers = {number: k for k, number in enumerate(sorted(set(group_of.values())))}
    fixed = [numbers[group_of[name]] if name in group_of else None for name in shared]
    needed = sum(rank_sizes(intervals))
    if algorithm == "greedy":
        buffers, bound = best_fit(intervals, fixed), needed
    else:
        buffers, _, bound = least_bytes(intervals, fixed, effort or DEFAULT_EFFORT)
    groups = _groups(filled, shared, buffers, alone)
    require_valid_assignment(filled, groups, static=alone, in_place=in_place)
    optimized = memory_used(filled, groups)
    apart = memory_used(filled, [(name,) for name in alone])
    met, proven = optimized == apart + needed, optimized == apart + bound
    return Sharing(
        groups=groups,
        baseline_bytes=memory_used(filled, [(name,) for name in filled]),
        optimized_bytes=optimized,
        lower_bound=apart + bound,
        proof="bound met" if met else "search exhausted" if proven else "none",
        cut_short=algorithm != "greedy" and not proven,
    )


def memory_used(ranges: Ranges, groups: Sequence[Group]) -> int:
    """The bytes of all buffers: of each its largest tensor, of unknown size 1."""
    sizes = {name: 1 if live.size is None else live.size for name, live in ranges.items()}
    return sum(max((sizes[name] for name in group), default=0) for group in groups)


def _groups(filled: Ranges, shared: Sequence[str], buffers: Sequence[int], alone: Collection[str]) -> tuple[Group, ...]:
    """The groups in order of their first tensor, each in order of last use."""
    place = {name: index for index, name in enumerate(filled)}
    members: dict[int, list[str]] = {}
    for name, buffer in zip(shared, buffers, strict=True):
        members.setdefault(buffer, []).append(name)
    groups = [*members.values(), *([name] for name in alone)]
    ordered = [tuple(sorted(group, key=lambda name: (filled[name].used, place[name]))) for group in groups]
    return tuple(sorted(ordered, key=lambda group: min(place[name] for name in group)))


def _check_initial(filled: Ranges, initial: Sequence[Group], alone: Collection[str], in_place: bool) -> None:
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
