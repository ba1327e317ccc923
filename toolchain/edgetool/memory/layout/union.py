"""The fewest bytes that buffers which are live at the same time occupy, if some pairs of them may overlap.

A layout cannot be lower than this. Buffers that may not overlap any other count in full. The others form groups,
connected by the pairs that may overlap. For a group of up to MAX_EXACT buffers, the minimum is exact: the bytes covered
are a piecewise linear function of the offsets, so that the minimum is at offsets where enough pairs are at a distance
at which the function or the constraints have a corner. For larger groups, there are two bounds: the sum of the sizes
without the bytes that each pair can share at most (Bonferroni's inequality), and the minimum without one of the
buffers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

# The minimum of a group is computed exactly up to this number of buffers, for about ten thousand layouts at most.
MAX_EXACT = 4

# For (i, j): i may share bytes with j if offset(i) - offset(j) is at least this.
Distances = Mapping[tuple[int, int], int]


def least_unions(
    first: Sequence[int], last: Sequence[int], sizes: Sequence[int], distances: Distances, moments: int
) -> list[int]:
    """Return the fewest bytes that the live buffers occupy at each moment from 0 to moments - 1.

    first and last: the moments at which each buffer is live, both inclusive.
    """
    change = [0] * (moments + 1)
    for begin, end, size in zip(first, last, sizes, strict=True):
        change[begin] += size
        change[end + 1] -= size
    sharing: list[set[tuple[int, int]]] = [set() for _ in range(moments)]
    for i, j in distances:
        for moment in range(max(first[i], first[j]), min(last[i], last[j]) + 1):
            sharing[moment].add((min(i, j), max(i, j)))
    unions, total = [], 0
    saved: dict[tuple[int, ...], int] = {}
    for moment in range(moments):
        total += change[moment]
        union = total
        for group in _groups(sharing[moment]):
            if group not in saved:
                saved[group] = sum(sizes[i] for i in group) - _least_union(group, sizes, distances)
            union -= saved[group]
        unions.append(union)
    return unions


def shareable_bytes(first_bytes: int, second_bytes: int, min_distance: int) -> int:
    """Return the most bytes that two buffers can share if the first is at least min_distance behind the second.

    At a distance of d >= 0 they share min(d + first_bytes, second_bytes) - d bytes, which falls with d.
    """
    distance = max(0, min_distance)
    return max(0, min(distance + first_bytes, second_bytes) - distance)


def _groups(pairs: set[tuple[int, int]]) -> Iterator[tuple[int, ...]]:
    """Yield the buffers of the pairs in groups between which there is no pair, each in ascending order."""
    near: dict[int, set[int]] = {}
    for i, j in pairs:
        near.setdefault(i, set()).add(j)
        near.setdefault(j, set()).add(i)
    while near:
        group, todo = set(), [min(near)]
        while todo:
            i = todo.pop()
            if i not in group:
                group.add(i)
                todo.extend(near.pop(i))
        yield tuple(sorted(group))


def _least_union(group: Sequence[int], sizes: Sequence[int], distances: Distances) -> int:
    """Return the fewest bytes that buffers which are live at the same time occupy, or a lower bound on them."""
    if len(group) <= MAX_EXACT:
        return _exact_union(group, sizes, distances)
    shared: dict[tuple[int, int], int] = {}
    for i, j in permutations(group, 2):
        distance = distances.get((i, j))
        if distance is not None:
            pair = min(i, j), max(i, j)
            shared[pair] = max(shared.get(pair, 0), shareable_bytes(sizes[i], sizes[j], distance))
    partners = Counter(i for pair in shared for i in pair)
    common = max(group, key=lambda i: partners[i])
    rest = {pair for pair in shared if common not in pair}
    alone = set(group) - {common} - {i for pair in rest for i in pair}
    without = sum(sizes[i] for i in alone) + sum(_least_union(part, sizes, distances) for part in _groups(rest))
    return max(without, sizes[common], sum(sizes[i] for i in group) - sum(shared.values()))


def _exact_union(group: Sequence[int], sizes: Sequence[int], distances: Distances) -> int:
    """Return the fewest bytes, by trying all offsets at which each buffer is at a corner with an earlier one."""
    best, floor = sum(sizes[i] for i in group), max(sizes[i] for i in group)
    offsets = {group[0]: 0}

    def extend() -> None:
        nonlocal best
        covered = _covered([(offset, offset + sizes[i]) for i, offset in offsets.items()])
        if covered >= best:
            return  # more buffers never cover fewer bytes
        if len(offsets) == len(group):
            best = covered
            return
        for i in group:
            if i in offsets:
                continue
            places = {x + step for j, x in offsets.items() for step in _corners(i, j, sizes, distances)}
            for place in places:
                if best > floor and all(_is_allowed(i, place, j, x, sizes, distances) for j, x in offsets.items()):
                    offsets[i] = place
                    extend()
                    del offsets[i]

    extend()
    return best


def _corners(i: int, j: int, sizes: Sequence[int], distances: Distances) -> set[int]:
    """Return the distances of i above j at which the bytes covered, or what is allowed, changes."""
    above, below = distances.get((i, j), sizes[j]), distances.get((j, i), sizes[i])
    return {0, sizes[j] - sizes[i], sizes[j], -sizes[i], above, -below}


def _is_allowed(i: int, place: int, j: int, other: int, sizes: Sequence[int], distances: Distances) -> bool:
    return place - other >= distances.get((i, j), sizes[j]) or other - place >= distances.get((j, i), sizes[i])


def _covered(spans: list[tuple[int, int]]) -> int:
    """Return the bytes that spans cover together."""
    covered, end = 0, min(spans)[0]
    for low, high in sorted(spans):
        covered += max(0, high - max(low, end))
        end = max(end, high)
    return covered
