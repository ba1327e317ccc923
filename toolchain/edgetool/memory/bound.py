"""The lower bound on a problem's peak: the maximum live bytes (max-live), raised by alignment and pins.

Buffers that may overlap are live at the same time without needing the sum of their sizes. The bound then holds for the
union: at each moment, the sizes minus the bytes that the permitted pairs can share at most (Bonferroni's inequality).
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

from edgetool.memory.layout.instance import easy_bound, split
from edgetool.memory.problem import LayoutProblem


def lower_bound(problem: LayoutProblem) -> int:
    """Return the bound in bytes, 0 for an empty problem: max-live, or more if alignment or pins leave holes.

    Buffers of one alias count once.
    """
    if problem.overlaps:
        return max((size for _, size in _needed_bytes(problem)), default=0)
    return max((easy_bound(part.instance) * part.instance.unit for part in split(problem)), default=0)


def _needed_bytes(problem: LayoutProblem) -> list[tuple[int, int]]:
    """Return (position, bytes that the live buffers need, wherever they are) for each position at which they change.

    Pairs that share a buffer save at most its size together, because the union contains all others.
    """
    buffers = problem.buffers
    savings: dict[tuple[int, int], int] = {}
    for overlap in problem.overlaps:
        sizes = buffers[overlap.first].aligned_bytes, buffers[overlap.second].aligned_bytes
        pair = min(overlap.first, overlap.second), max(overlap.first, overlap.second)
        savings[pair] = max(savings.get(pair, 0), shareable_bytes(*sizes, overlap.min_distance))
    needed = []
    for moment in sorted({end for b in buffers for end in (b.lifetime.first, b.lifetime.last + 1)}):
        live = {i for i, buffer in enumerate(buffers) if buffer.lifetime.first <= moment <= buffer.lifetime.last}
        shared = {pair: saving for pair, saving in savings.items() if live.issuperset(pair)}
        total = sum(buffers[i].aligned_bytes for i in live)
        needed.append((moment, total - sum(_group_saving(problem, group) for group in _connected(shared))))
    return needed


def shareable_bytes(first_bytes: int, second_bytes: int, min_distance: int) -> int:
    """Return the most bytes that two buffers can share if the first is at least min_distance behind the second.

    At a distance of d >= 0 they share min(d + first_bytes, second_bytes) - d bytes, which falls with d.
    """
    distance = max(0, min_distance)
    return max(0, min(distance + first_bytes, second_bytes) - distance)


def _connected(pairs: dict[tuple[int, int], int]) -> list[dict[tuple[int, int], int]]:
    """Return the pairs in groups that have no buffer in common."""
    groups: list[dict[tuple[int, int], int]] = []
    for pair, saving in pairs.items():
        touching = [group for group in groups if any(set(other) & set(pair) for other in group)]
        merged = {pair: saving}
        for group in touching:
            merged |= group
            groups.remove(group)
        groups.append(merged)
    return groups


def _group_saving(problem: LayoutProblem, group: dict[tuple[int, int], int]) -> int:
    """Return the most bytes that pairs can save: the sum, or the size of a buffer that all have in common."""
    common = set.intersection(*map(set, group))
    return min([sum(group.values()), *(problem.buffers[i].aligned_bytes for i in common)])


def live_bytes(problem: LayoutProblem) -> list[tuple[int, int]]:
    """Return (position, aligned live bytes) for each position at which they change; each buffer of an alias counts.

    Bytes that two buffers may share count once.
    """
    if problem.overlaps:
        return _needed_bytes(problem)
    change: Counter[int] = Counter()
    for buffer in problem.buffers:
        change[buffer.lifetime.first] += buffer.aligned_bytes
        change[buffer.lifetime.last + 1] -= buffer.aligned_bytes
    positions = sorted(change)
    return list(zip(positions, accumulate(change[position] for position in positions), strict=True))
