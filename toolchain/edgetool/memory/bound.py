"""What no layout can beat: the largest sum of aligned sizes alive at one position (max-live)."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

from edgetool.memory.types import LayoutProblem


def lower_bound(problem: LayoutProblem) -> int:
    """The max-live bound in bytes; 0 for an empty problem."""
    return max((live for _, live in live_bytes(problem)), default=0)


def live_bytes(problem: LayoutProblem) -> list[tuple[int, int]]:
    """The aligned bytes alive from each position at which they change, by position."""
    change: Counter[int] = Counter()
    for buffer in problem.buffers:
        change[buffer.lifetime.first] += buffer.aligned_bytes
        change[buffer.lifetime.last + 1] -= buffer.aligned_bytes
    positions = sorted(change)
    return list(zip(positions, accumulate(change[position] for position in positions), strict=True))
