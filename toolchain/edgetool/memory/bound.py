"""The lower bound on a problem's peak: the maximum live bytes (max-live), raised by alignment and pins."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

from edgetool.memory.layout.instance import easy_bound, split
from edgetool.memory.problem import LayoutProblem


def lower_bound(problem: LayoutProblem) -> int:
    """Return the bound in bytes, 0 for an empty problem: max-live, or more if alignment or pins leave holes.

    Buffers of one alias count once.
    """
    return max((easy_bound(part.instance) * part.instance.unit for part in split(problem)), default=0)


def live_bytes(problem: LayoutProblem) -> list[tuple[int, int]]:
    """Return (position, aligned live bytes) for each position at which they change; each buffer of an alias counts."""
    change: Counter[int] = Counter()
    for buffer in problem.buffers:
        change[buffer.lifetime.first] += buffer.aligned_bytes
        change[buffer.lifetime.last + 1] -= buffer.aligned_bytes
    positions = sorted(change)
    return list(zip(positions, accumulate(change[position] for position in positions), strict=True))
