"""The lower bound on a problem's peak: the maximum live bytes (max-live), raised by alignment and pins.

Buffers that may overlap need less than the sum of their sizes. The bound then counts the fewest bytes that the buffers
live at one moment can occupy together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import accumulate

from edgetool.memory.layout.instance import easy_bound, split
from edgetool.memory.layout.union import least_unions
from edgetool.memory.problem import LayoutProblem


def lower_bound(problem: LayoutProblem) -> int:
    """Return the bound in bytes, 0 for an empty problem: max-live, or more if alignment or pins leave holes.

    Buffers of one alias count once. It holds for every layout that the checker accepts if buffers occupy their size
    rounded up to their granule. With overlaps, the union of the buffers live at a moment replaces their sum.
    """
    return max((easy_bound(part.instance) * part.instance.unit for part in split(problem)), default=0)


def live_bytes(problem: LayoutProblem) -> list[tuple[int, int]]:
    """Return (position, aligned live bytes) for each position at which they change; each buffer of an alias counts.

    Bytes that buffers may share at most count once.
    """
    change: Counter[int] = Counter()
    for buffer in problem.buffers:
        change[buffer.lifetime.first] += buffer.aligned_bytes
        change[buffer.lifetime.last + 1] -= buffer.aligned_bytes
    positions = sorted(change)
    if not problem.overlaps:
        return list(zip(positions, accumulate(change[position] for position in positions), strict=True))
    distances: dict[tuple[int, int], int] = {}
    for overlap in problem.overlaps:
        pair = overlap.first, overlap.second
        distances[pair] = min(overlap.min_distance, distances.get(pair, overlap.min_distance))
    unions = least_unions(
        [bisect_left(positions, buffer.lifetime.first) for buffer in problem.buffers],
        [bisect_left(positions, buffer.lifetime.last + 1) - 1 for buffer in problem.buffers],
        [buffer.aligned_bytes for buffer in problem.buffers],
        distances,
        len(positions),
    )
    return list(zip(positions, unions, strict=True))
