"""The words of sharing, as values: when a named tensor is alive, and which tensors share one whole buffer.

Live ranges as plain intervals, the form in which the solvers work, and what no assignment can beat.

Two tensors may share when the interval of one ends before that of the other starts. An operator's outputs must not lie
over its inputs: a tensor that is last used where another is defined interferes with it. Where the caller allows work in
place, they may share: positions count double, and a definition falls between the reads of its operator and the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from edgetool.memory.problem import Proof

Algorithm = Literal["greedy", "dynamic-programming"]


@dataclass(frozen=True, slots=True)
class LiveRange:
    """From the position that defines a tensor to the last one that uses it, both inclusive, and its bytes.

    An unknown definition is before the start, an unknown use at the end, an unknown size 1.
    """

    defined: int | None
    used: int | None
    size: int | None = None


Ranges = Mapping[str, LiveRange]
# The tensors of one buffer, in order of their last use.
Group = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sharing:
    """Tensors by the buffer that they share.

    baseline_bytes: every tensor with memory of its own; optimized_bytes: the sum of the largest tensor of each group.
    lower_bound is what no assignment can beat, and proof says how optimality was established. cut_short: the budget
    ended before the search for a better assignment did.
    """

    groups: tuple[Group, ...]
    baseline_bytes: int
    optimized_bytes: int
    lower_bound: int
    proof: Proof
    cut_short: bool

    @property
    def optimal(self) -> bool:
        """Whether no assignment takes less."""
        return self.proof != "none"


class Interval(NamedTuple):
    """The time that a buffer is taken, both ends inclusive, and the bytes of it."""

    start: int
    end: int
    size: int


def interval(live: LiveRange, *, in_place: bool = False) -> Interval:
    """The interval of a range without unknowns (see ranges.known)."""
    if live.defined is None or live.used is None or live.size is None:
        raise ValueError(f"{live} has unknowns")
    start = 2 * live.defined + in_place
    return Interval(start, max(2 * live.used, start), live.size)


def cliques(intervals: Sequence[Interval]) -> list[tuple[int, list[int]]]:
    """The largest sets alive at one time: the time, and the intervals by index, the largest first.

    Every other set alive at once is part of one of them.
    """
    by_start = sorted(range(len(intervals)), key=lambda i: intervals[i].start)
    alive: list[int] = []
    found: list[tuple[int, list[int]]] = []
    for position, i in enumerate(by_start):
        time = intervals[i].start
        alive.append(i)
        following = intervals[by_start[position + 1]].start if position + 1 < len(by_start) else None
        if following == time:
            continue
        staying = [j for j in alive if following is not None and intervals[j].end >= following]
        if len(staying) < len(alive):
            found.append((time, sorted(alive, key=lambda j: (-intervals[j].size, j))))
            alive = staying
    return found


def rank_sizes(intervals: Sequence[Interval]) -> list[int]:
    """What the largest buffer must hold at least, the second largest, and so on.

    The k-th largest tensor alive at a time lies in one of at least k buffers of at least its size, so that the k-th
    largest buffer is as large. Their sum bounds every assignment from below, and is at least the bytes alive at once.
    """
    needed: list[int] = []
    for _, members in cliques(intervals):
        sizes = [intervals[i].size for i in members]
        needed += [0] * (len(sizes) - len(needed))
        for rank, size in enumerate(sizes):
            needed[rank] = max(needed[rank], size)
    return needed
