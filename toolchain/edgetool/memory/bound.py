"""The lower bound on a problem's peak: the maximum live bytes (max-live), raised by alignment and pins.

Buffers that may overlap need less than the sum of their sizes. The bound then counts the fewest bytes that the buffers
live at one moment can occupy together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from math import gcd

from edgetool.memory.layout.instance import easy_bound, split
from edgetool.memory.layout.union import least_unions
from edgetool.memory.problem import LayoutProblem, aligned


def lower_bound(problem: LayoutProblem) -> int:
    """Return the bound in bytes, 0 for an empty problem: max-live, or more if alignment or pins leave holes.

    Buffers of one alias count once. It holds for every layout that the checker accepts if buffers occupy their size
    rounded up to their granule. With overlaps, the union of the buffers live at a moment replaces their sum.
    """
    return max((easy_bound(part.instance) * part.instance.unit for part in split(problem)), default=0)


def live_bytes(problem: LayoutProblem) -> list[tuple[int, int]]:
    """Return (position, aligned live bytes) for each position at which they change.

    Bytes that buffers may share at most count once, also those of buffers with one alias.
    """
    change: Counter[int] = Counter()
    for buffer in problem.buffers:
        change[buffer.lifetime.first] += buffer.aligned_bytes
        change[buffer.lifetime.last + 1] -= buffer.aligned_bytes
    positions = sorted(change)
    aliased = list(alias_pairs(problem))
    if not problem.overlaps and not aliased:
        return list(zip(positions, accumulate(change[position] for position in positions), strict=True))
    distances = dict.fromkeys(aliased, 0)
    for overlap in problem.overlaps:
        pair = overlap.first, overlap.second
        # Offsets differ by a multiple of what divides both alignments.
        distance = aligned(overlap.min_distance, gcd(*(problem.buffers[i].alignment for i in pair)))
        distances[pair] = min(distance, distances.get(pair, distance))
    unions = least_unions(
        [bisect_left(positions, buffer.lifetime.first) for buffer in problem.buffers],
        [bisect_left(positions, buffer.lifetime.last + 1) - 1 for buffer in problem.buffers],
        [buffer.aligned_bytes for buffer in problem.buffers],
        distances,
        len(positions),
    )
    return list(zip(positions, unions, strict=True))


def alias_pairs(problem: LayoutProblem) -> Iterator[tuple[int, int]]:
    """Yield the pairs of buffers that share an alias and are live at the same time."""
    members: dict[str, list[int]] = {}
    for index, buffer in enumerate(problem.buffers):
        if buffer.alias is not None:
            members.setdefault(buffer.alias, []).append(index)
    for group in members.values():
        for place, i in enumerate(group):
            for j in group[place + 1 :]:
                if problem.buffers[i].lifetime.overlaps(problem.buffers[j].lifetime):
                    yield i, j
