"""A layout problem as tuples of integers, the form in which every solver stage works.

A problem is split into parts between which no buffer is live. In each part, buffers of one alias are merged, sizes and
offsets are counted in the largest unit that keeps an optimal layout expressible, and time is counted in maximal cliques
of the interference graph instead of operators. The module also has the basic lower bound on an instance's peak, and
the node budget that the stages share.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate, combinations
from math import gcd, lcm

from edgetool.errors import InternalError, UsageError
from edgetool.memory.layout.union import least_unions
from edgetool.memory.problem import Buffer, LayoutProblem


@dataclass(frozen=True, slots=True)
class Instance:
    """The buffers to place, by index.

    first and last: the cliques, both inclusive, in which a buffer is live; a clique is a maximal set of buffers that
    are live at the same time, numbered in order of time from 0 to clique_count - 1. sizes are positive; alignments are
    at least 1; pins contain the offset of each pinned buffer, and -1 for all others. Sizes, offsets, alignments and
    distances are in units of `unit` bytes.

    overlaps: (i, j, distance) if i may share space with j where offset(i) - offset(j) is at least the distance, which
    is less than the size of j; at most one for each ordered pair, and only for buffers that are live together.
    """

    first: tuple[int, ...]
    last: tuple[int, ...]
    sizes: tuple[int, ...]
    alignments: tuple[int, ...]
    pins: tuple[int, ...]
    clique_count: int
    unit: int = 1
    overlaps: tuple[tuple[int, int, int], ...] = ()

    @property
    def distances(self) -> dict[tuple[int, int], int]:
        """The distance of each overlap by (i, j)."""
        return {(i, j): distance for i, j, distance in self.overlaps}


@dataclass(frozen=True, slots=True)
class ProblemPart:
    """An instance, and for each of its buffers the indices of the problem's buffers that are merged into it."""

    instance: Instance
    members: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class _MergedBuffer:
    """All buffers of one alias, or one buffer without an alias, in bytes."""

    first: int
    last: int
    size: int
    alignment: int
    pin: int
    members: tuple[int, ...]


def split(problem: LayoutProblem) -> tuple[ProblemPart, ...]:
    """Return the parts of the problem between which no buffer is live, in order of time; each is solved separately.

    Buffers of one alias are merged. Empty buffers are left out, because any offset is valid for them. Buffers keep the
    order of the problem. Raises UsageError if buffers of one alias are pinned to different offsets, and InternalError
    if an overlap does not name two buffers, or names two of one alias.
    """
    overlaps = _closest_overlaps(problem)
    merged = _merge_aliases(problem)
    order = sorted(range(len(merged)), key=lambda i: merged[i].first)
    parts: list[list[int]] = []
    end = 0
    for i in order:
        if not parts or merged[i].first > end:
            parts.append([])
            end = merged[i].last
        parts[-1].append(i)
        end = max(end, merged[i].last)
    return tuple(_part([merged[i] for i in sorted(part)], overlaps) for part in parts)


def offsets_in_bytes(
    problem: LayoutProblem, parts: Sequence[ProblemPart], part_offsets: Sequence[Sequence[int]]
) -> tuple[int, ...]:
    """Return the offset of every buffer of the problem, from the offsets of each part."""
    # An empty buffer gets its own pin, or that of its alias.
    pins = {buffer.alias: buffer.pinned for buffer in problem.buffers if buffer.alias and buffer.pinned is not None}
    offsets = [pins.get(b.alias or "", 0) if b.pinned is None else b.pinned for b in problem.buffers]
    for part, placed in zip(parts, part_offsets, strict=True):
        unit = part.instance.unit
        for members, offset in zip(part.members, placed, strict=True):
            for buffer in members:
                offsets[buffer] = offset * unit
    return tuple(offsets)


def layout_peak(instance: Instance, offsets: Sequence[int]) -> int:
    """Return the highest end of a buffer, in units."""
    return max(map(int.__add__, offsets, instance.sizes), default=0)


def is_searchable(instance: Instance) -> bool:
    """Return whether no pinned buffers overlap without permission: otherwise no layout is valid, and nothing can be
    proven about it.
    """
    if instance.overlaps:
        return _pins_agree(instance)
    pinned = sorted((instance.first[i], i) for i, pin in enumerate(instance.pins) if pin >= 0)
    # As long as the live ones are disjoint, a buffer that overlaps any of them overlaps one next to it.
    alive: list[tuple[int, int]] = []
    ends: list[tuple[int, int, int]] = []
    for first, i in pinned:
        while ends and ends[0][0] < first:
            _, begin, end = heappop(ends)
            del alive[bisect_left(alive, (begin, end))]
        begin, end = instance.pins[i], instance.pins[i] + instance.sizes[i]
        at = bisect_left(alive, (begin, end))
        if (at > 0 and alive[at - 1][1] > begin) or (at < len(alive) and alive[at][0] < end):
            return False
        alive.insert(at, (begin, end))
        heappush(ends, (instance.last[i], begin, end))
    return True


def _pins_agree(instance: Instance) -> bool:
    """Return whether all pinned buffers that are live together are disjoint, or as far apart as an overlap requires."""
    first, last, sizes, pins = instance.first, instance.last, instance.sizes, instance.pins
    distances = instance.distances
    pinned = [i for i, pin in enumerate(pins) if pin >= 0]
    return all(
        last[i] < first[j]
        or last[j] < first[i]
        or pins[i] - pins[j] >= distances.get((i, j), sizes[j])
        or pins[j] - pins[i] >= distances.get((j, i), sizes[i])
        for i, j in combinations(pinned, 2)
    )


def grain(instance: Instance) -> int:
    """Return the greatest common divisor of all possible offsets, in units."""
    return gcd(*instance.alignments, *(pin for pin in instance.pins if pin > 0))


def easy_bound(instance: Instance) -> int:
    """Return a lower bound on the peak, in units: the maximum live size, and the highest end of a pinned buffer.

    If every offset is a multiple of the grain, all buffers of a clique but the highest occupy a multiple of it. Of
    buffers that may overlap, the fewest units that they occupy together count.
    """
    step = grain(instance)
    pinned = (pin + size for pin, size in zip(instance.pins, instance.sizes, strict=True) if pin >= 0)
    bound = max(pinned, default=0)
    if instance.overlaps:
        return max(bound, _union_bound(instance, step))
    change = [0] * (instance.clique_count + 1)
    if step == 1:
        for first, last, size in zip(instance.first, instance.last, instance.sizes, strict=True):
            change[first] += size
            change[last + 1] -= size
        return max(bound, *accumulate(change))
    entering: list[list[int]] = [[] for _ in range(instance.clique_count)]
    for i, first in enumerate(instance.first):
        entering[first].append(i)
    paddings: list[tuple[int, int]] = []
    alive = 0
    for clique, buffers in enumerate(entering):
        alive += change[clique]
        for i in buffers:
            padding = -instance.sizes[i] % step
            alive += instance.sizes[i] + padding
            change[instance.last[i] + 1] -= instance.sizes[i] + padding
            heappush(paddings, (-padding, instance.last[i]))
        while paddings[0][1] < clique:
            heappop(paddings)
        bound = max(bound, alive + paddings[0][0])
    return bound


def _union_bound(instance: Instance, step: int) -> int:
    """Return the maximum over all cliques of what their buffers occupy, in multiples of the grain but for the
    highest.
    """
    first, last = instance.first, instance.last
    padded = [-(-size // step) * step for size in instance.sizes]
    unions = least_unions(first, last, padded, instance.distances, instance.clique_count)
    paddings = [0] * instance.clique_count
    for i, size in enumerate(padded):
        for clique in range(first[i], last[i] + 1) if size > instance.sizes[i] else ():
            paddings[clique] = max(paddings[clique], size - instance.sizes[i])
    return max(map(int.__sub__, unions, paddings))


def _closest_overlaps(problem: LayoutProblem) -> dict[tuple[int, int], int]:
    """Return the smallest distance in bytes at which the first buffer may overlap the second."""
    count = len(problem.buffers)
    distances: dict[tuple[int, int], int] = {}
    for overlap in problem.overlaps:
        pair = overlap.first, overlap.second
        if pair[0] == pair[1] or not all(0 <= i < count for i in pair):
            raise InternalError(f"buffers {pair[0]} and {pair[1]} cannot overlap")
        distances[pair] = min(overlap.min_distance, distances.get(pair, overlap.min_distance))
    return distances


def _merge_aliases(problem: LayoutProblem) -> list[_MergedBuffer]:
    """Return the buffers that need memory, in the order of the problem, those of one alias merged."""
    groups: dict[str | int, list[int]] = {}
    for i, buffer in enumerate(problem.buffers):
        groups.setdefault(i if buffer.alias is None else buffer.alias, []).append(i)
    merged = []
    for members in groups.values():
        if len(members) == 1:
            one = problem.buffers[members[0]]
            if one.size_bytes:
                pin = -1 if one.pinned is None else one.pinned
                times = one.lifetime
                merged.append(
                    _MergedBuffer(times.first, times.last, one.aligned_bytes, one.alignment, pin, tuple(members))
                )
        elif one_buffer := _merge(problem, members):
            merged.append(one_buffer)
    return merged


def _merge(problem: LayoutProblem, members: Sequence[int]) -> _MergedBuffer | None:
    """Merge the buffers of one alias; None if all of them are empty."""
    buffers = [problem.buffers[i] for i in members]
    if not any(buffer.size_bytes for buffer in buffers):
        return None
    return _MergedBuffer(
        min(buffer.lifetime.first for buffer in buffers),
        max(buffer.lifetime.last for buffer in buffers),
        max(buffer.aligned_bytes for buffer in buffers),
        lcm(*(buffer.alignment for buffer in buffers)),
        _pin(buffers),
        tuple(members),
    )


def _pin(buffers: Sequence[Buffer]) -> int:
    pins = {buffer.pinned for buffer in buffers if buffer.pinned is not None}
    if len(pins) > 1:
        places = " and ".join(map(str, sorted(pins)))
        raise UsageError(
            f"the buffers of alias {buffers[0].alias!r} are pinned to {places}", fix="pin them to the same offset"
        )
    return pins.pop() if pins else -1


def _part(buffers: Sequence[_MergedBuffer], overlaps: Mapping[tuple[int, int], int]) -> ProblemPart:
    overlaps = _overlaps_within(buffers, overlaps)
    unit, alignments = _unit(buffers, with_distances=bool(overlaps))
    first, last, clique_count = _cliques(buffers)
    instance = Instance(
        tuple(first),
        tuple(last),
        tuple(buffer.size // unit for buffer in buffers),
        alignments,
        tuple(-1 if buffer.pin < 0 else buffer.pin // unit for buffer in buffers),
        clique_count,
        unit,
        tuple((i, j, distance // unit) for (i, j), distance in overlaps.items()),
    )
    return ProblemPart(instance, tuple(buffer.members for buffer in buffers))


def _overlaps_within(
    buffers: Sequence[_MergedBuffer], overlaps: Mapping[tuple[int, int], int]
) -> dict[tuple[int, int], int]:
    """Return the overlaps of a part's buffers, by their indices in it, that permit more than disjoint buffers.

    Every offset is a multiple of the grain, and so is every distance.
    """
    if not overlaps:
        return {}
    step = gcd(*(buffer.alignment for buffer in buffers), *(buffer.pin for buffer in buffers if buffer.pin > 0))
    index = {member: i for i, buffer in enumerate(buffers) for member in buffer.members}
    within: dict[tuple[int, int], int] = {}
    for (first, second), distance in overlaps.items():
        if first not in index or second not in index:
            continue
        i, j = index[first], index[second]
        if i == j:
            raise InternalError(f"buffers {first} and {second} share an alias and cannot overlap")
        rounded = -(-distance // step) * step
        are_live = buffers[i].first <= buffers[j].last and buffers[j].first <= buffers[i].last
        if are_live and rounded < buffers[j].size:
            within[i, j] = min(rounded, within.get((i, j), rounded))
    return within


def _unit(buffers: Sequence[_MergedBuffer], *, with_distances: bool) -> tuple[int, tuple[int, ...]]:
    """Return the largest unit in which some optimal layout can be expressed, and the alignments in it.

    If no buffer can be moved down, an offset is a pin, a sum of sizes, or such a sum rounded up to an alignment. An
    alignment that divides all sizes and pins has no effect; any other one divides the unit further. If there are
    distances as well, which are multiples of the grain, the unit divides all alignments.
    """
    unit = gcd(*(buffer.size for buffer in buffers), *(buffer.pin for buffer in buffers if buffer.pin > 0))
    distinct = {buffer.alignment for buffer in buffers}
    if with_distances:
        unit = gcd(unit, *distinct)
    while coarser := [alignment for alignment in distinct if unit % alignment and alignment % unit]:
        unit = gcd(unit, *coarser)
    return unit, tuple(max(1, buffer.alignment // unit) for buffer in buffers)


def _cliques(buffers: Sequence[_MergedBuffer]) -> tuple[list[int], list[int], int]:
    """Return the first and last clique of each buffer and the number of cliques, by a sweep over starts and ends."""
    starts = sorted(range(len(buffers)), key=lambda i: buffers[i].first)
    ends = sorted(range(len(buffers)), key=lambda i: buffers[i].last)
    first, last = [0] * len(buffers), [0] * len(buffers)
    clique = ended = 0
    grown = False
    for i in starts:
        while buffers[ends[ended]].last < buffers[i].first:
            clique += grown
            grown = False
            last[ends[ended]] = clique - 1
            ended += 1
        first[i] = clique
        grown = True
    for i in ends[ended:]:
        last[i] = clique
    return first, last, clique + 1
