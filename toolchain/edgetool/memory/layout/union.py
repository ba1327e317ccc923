"""The fewest bytes that buffers which are live at the same time occupy, if some pairs of them may overlap.

A layout cannot be lower than this. Buffers that may not overlap any other count in full. The others form groups,
connected by the pairs that may overlap. For a group of up to MAX_EXACT buffers, the minimum is exact: the bytes covered
are a piecewise linear function of the offsets, so that the minimum is at offsets where enough pairs are at a distance
at which the function or the constraints have a corner. For larger groups, there are two bounds: the sum of the sizes
without the bytes that each pair can share at most (Bonferroni's inequality), and the minimum without one of the
buffers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

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
    groups = _Groups(sizes, distances)
    begins: list[list[int]] = [[] for _ in range(moments + 1)]
    ends: list[list[int]] = [[] for _ in range(moments + 1)]
    for i, (begin, end) in enumerate(zip(first, last, strict=True)):
        begins[begin].append(i)
        ends[end + 1].append(i)
    unions, total = [], 0
    live: set[int] = set()
    for moment in range(moments):
        total += sum(sizes[i] for i in begins[moment]) - sum(sizes[i] for i in ends[moment])
        live = live.union(i for i in begins[moment] if i in groups.near).difference(ends[moment])
        unions.append(total - sum(sum(sizes[i] for i in part) - groups.least(part) for part in groups.parts(live)))
    return unions


def shareable_bytes(first_bytes: int, second_bytes: int, min_distance: int) -> int:
    """Return the most bytes that two buffers can share if the first is at least min_distance behind the second.

    At a distance of d >= 0 they share min(d + first_bytes, second_bytes) - d bytes, which falls with d.
    """
    distance = max(0, min_distance)
    return max(0, min(distance + first_bytes, second_bytes) - distance)


class _Groups:
    """Groups of buffers that are live at the same time, each with the fewest bytes that it occupies.

    near: the buffers that each one may overlap, or that may overlap it.
    """

    def __init__(self, sizes: Sequence[int], distances: Distances) -> None:
        self._sizes = sizes
        self._distances = distances
        self.near: dict[int, set[int]] = {}
        self._shared: dict[tuple[int, int], int] = {}
        self._least: dict[tuple[int, ...], int] = {}
        for (i, j), distance in distances.items():
            self.near.setdefault(i, set()).add(j)
            self.near.setdefault(j, set()).add(i)
            pair = min(i, j), max(i, j)
            self._shared[pair] = max(self._shared.get(pair, 0), shareable_bytes(sizes[i], sizes[j], distance))

    def parts(self, buffers: Collection[int]) -> Iterator[tuple[int, ...]]:
        """Yield those of the buffers that may overlap another one, in groups between which no pair may, each in
        ascending order.
        """
        left = set(buffers)
        while left:
            group: set[int] = set()
            todo = {left.pop()}
            while todo:
                i = todo.pop()
                group.add(i)
                found = self.near[i] & left
                left -= found
                todo |= found
            if len(group) > 1:
                yield tuple(sorted(group))

    def least(self, group: tuple[int, ...]) -> int:
        """Return the fewest bytes that a group occupies, or a lower bound on them."""
        if group not in self._least:
            self._least[group] = (
                _exact_union(group, self._sizes, self._distances) if len(group) <= MAX_EXACT else self._bound(group)
            )
        return self._least[group]

    def _bound(self, group: tuple[int, ...]) -> int:
        sizes, members = self._sizes, {*group}
        near = {i: self.near[i] & members for i in group}
        common = max(group, key=lambda i: len(near[i]))
        shared = sum(self._shared[i, j] for i in group for j in near[i] if i < j)
        parts = [*self.parts(members - {common})]
        alone = members.difference({common}, *parts)
        without = sum(sizes[i] for i in alone) + sum(map(self.least, parts))
        return max(without, sizes[common], sum(sizes[i] for i in group) - shared)


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
