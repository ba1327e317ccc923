"""The assignment to whole buffers that takes least, by dynamic programming over time.

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

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from edgetool.memory.effort import Effort
from edgetool.memory.sharing.greedy import Buffers, best_fit, largest_first, total
from edgetool.memory.sharing.interval import Interval, cliques, rank_sizes

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
