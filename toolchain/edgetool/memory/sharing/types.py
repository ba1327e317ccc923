"""Sharing of whole buffers: live ranges of named tensors, assignments, and a lower bound on every assignment.

Two tensors may share a buffer if the interval of one ends before that of the other starts. An operator's outputs must
not overwrite its inputs: a tensor that is last used where another is defined interferes with it. If the caller allows
in-place operators, they may share: positions are doubled, and a definition lies between the reads of its operator and
those of the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from edgetool.memory.problem import Proof

Algorithm = Literal["greedy", "dynamic-programming"]


@dataclass(frozen=True, slots=True)
class LiveRange:
    """The positions of a tensor's definition and last use, both inclusive, and its bytes.

    An unknown definition is before the start, an unknown use at the end, an unknown size 1.
    """

    defined: int | None
    used: int | None
    size: int | None = None


Ranges = Mapping[str, LiveRange]
# The tensors of one buffer, in order of their last use.
TensorGroup = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sharing:
    """The tensors by the buffer that they share.

    baseline_bytes: every tensor in separate memory; optimized_bytes: the sum of the largest tensor of each group.
    lower_bound holds for every assignment; proof is how optimality was established. cut_short: the budget ended before
    the search for a better assignment did.
    """

    groups: tuple[TensorGroup, ...]
    baseline_bytes: int
    optimized_bytes: int
    lower_bound: int
    proof: Proof
    cut_short: bool

    @property
    def optimal(self) -> bool:
        """Whether no assignment needs fewer bytes."""
        return self.proof != "none"


class Interval(NamedTuple):
    """The time that a buffer is occupied, both ends inclusive, and its bytes."""

    start: int
    end: int
    size: int


def interval(live: LiveRange, *, in_place: bool = False) -> Interval:
    """Return the interval of a range without unknowns (see graph.fill_unknowns)."""
    if live.defined is None or live.used is None or live.size is None:
        raise ValueError(f"{live} has unknowns")
    start = 2 * live.defined + in_place
    return Interval(start, max(2 * live.used, start), live.size)


def cliques(intervals: Sequence[Interval]) -> list[tuple[int, list[int]]]:
    """Return the maximal sets of intervals that are live together: the time and the indices, the largest interval
    first.

    Every other set of live intervals is a subset of one of them.
    """
    by_start = sorted(range(len(intervals)), key=lambda i: intervals[i].start)
    alive: list[int] = []
    cliques_by_time: list[tuple[int, list[int]]] = []
    for position, i in enumerate(by_start):
        time = intervals[i].start
        alive.append(i)
        following = intervals[by_start[position + 1]].start if position + 1 < len(by_start) else None
        if following == time:
            continue
        staying = [j for j in alive if following is not None and intervals[j].end >= following]
        if len(staying) < len(alive):
            cliques_by_time.append((time, sorted(alive, key=lambda j: (-intervals[j].size, j))))
            alive = staying
    return cliques_by_time


def rank_sizes(intervals: Sequence[Interval]) -> list[int]:
    """Return the minimum size of the largest buffer, of the second largest, and so on.

    The k-th largest tensor live at a time lies in one of at least k buffers of at least its size, so the k-th largest
    buffer is at least as large. The sum of these sizes is a lower bound on every assignment, and at least the maximum
    live bytes.
    """
    minimum_sizes: list[int] = []
    for _, members in cliques(intervals):
        sizes = [intervals[i].size for i in members]
        minimum_sizes += [0] * (len(sizes) - len(minimum_sizes))
        for rank, size in enumerate(sizes):
            minimum_sizes[rank] = max(minimum_sizes[rank], size)
    return minimum_sizes
