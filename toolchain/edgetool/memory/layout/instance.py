"""A layout problem as plain numbers, the form in which every stage of the search works.

What is left of an effort: nodes, counted down by every stage, and the question whether to stop.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate
from math import gcd, lcm

from edgetool.errors import UsageError
from edgetool.memory.problem import Buffer, LayoutProblem


@dataclass(frozen=True, slots=True)
class Instance:
    """Pieces of memory to place, by index.

    first and last: the sections, both inclusive, in which a piece is alive; a section is a maximal set of pieces alive
    together, numbered in order of time from 0 to sections - 1. sizes are positive; alignments at least 1; pins hold
    the offset of a piece that has one, -1 for all others. Sizes, offsets and alignments are in units of `unit` bytes.
    """

    first: tuple[int, ...]
    last: tuple[int, ...]
    sizes: tuple[int, ...]
    alignments: tuple[int, ...]
    pins: tuple[int, ...]
    sections: int
    unit: int = 1


@dataclass(frozen=True, slots=True)
class Part:
    """An instance, and for each of its pieces the buffers of the problem that lie there."""

    instance: Instance
    buffers: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    first: int
    last: int
    size: int
    alignment: int
    pin: int
    buffers: tuple[int, ...]


def split(problem: LayoutProblem) -> tuple[Part, ...]:
    """The parts of the problem between which no buffer is alive, in order of time; each can be solved on its own.

    Buffers of one alias become one piece; empty buffers are left out, their offset is free. Pieces keep the order of
    the problem. Raises UsageError when buffers of one alias are pinned to different offsets.
    """
    pieces = _pieces(problem)
    order = sorted(range(len(pieces)), key=lambda i: pieces[i].first)
    parts: list[list[int]] = []
    end = 0
    for i in order:
        if not parts or pieces[i].first > end:
            parts.append([])
            end = pieces[i].last
        parts[-1].append(i)
        end = max(end, pieces[i].last)
    return tuple(_part([pieces[i] for i in sorted(part)]) for part in parts)


def offsets_in_bytes(
    problem: LayoutProblem, parts: Sequence[Part], offsets: Sequence[Sequence[int]]
) -> tuple[int, ...]:
    """The offset of every buffer of the problem, from the offsets of the pieces of each part."""
    # What is empty lies nowhere: at its pin, or where another of its alias is pinned.
    pins = {buffer.alias: buffer.pinned for buffer in problem.buffers if buffer.alias and buffer.pinned is not None}
    found = [pins.get(b.alias or "", 0) if b.pinned is None else b.pinned for b in problem.buffers]
    for part, placed in zip(parts, offsets, strict=True):
        unit = part.instance.unit
        for buffers, offset in zip(part.buffers, placed, strict=True):
            for buffer in buffers:
                found[buffer] = offset * unit
    return tuple(found)


def height(instance: Instance, offsets: Sequence[int]) -> int:
    """The highest end of the pieces, in units."""
    return max(map(int.__add__, offsets, instance.sizes), default=0)


def is_searchable(instance: Instance) -> bool:
    """Whether no pinned pieces lie over each other: else no layout is valid, and nothing can be proven of it."""
    pinned = sorted((instance.first[i], i) for i, pin in enumerate(instance.pins) if pin >= 0)
    # Until two meet, the living lie side by side: who meets any meets a neighbour.
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


def grain(instance: Instance) -> int:
    """What every offset is a multiple of, in units."""
    return gcd(*instance.alignments, *(pin for pin in instance.pins if pin > 0))


def easy_bound(instance: Instance) -> int:
    """What no layout can beat, in units: the most that is alive at once, and the highest pinned end.

    Where every offset is a multiple of the grain, all pieces of a section but the highest take up a multiple of it.
    """
    step = grain(instance)
    pinned = (pin + size for pin, size in zip(instance.pins, instance.sizes, strict=True) if pin >= 0)
    bound = max(pinned, default=0)
    change = [0] * (instance.sections + 1)
    if step == 1:
        for first, last, size in zip(instance.first, instance.last, instance.sizes, strict=True):
            change[first] += size
            change[last + 1] -= size
        return max(bound, *accumulate(change))
    entering: list[list[int]] = [[] for _ in range(instance.sections)]
    for i, first in enumerate(instance.first):
        entering[first].append(i)
    paddings: list[tuple[int, int]] = []
    alive = 0
    for section, pieces in enumerate(entering):
        alive += change[section]
        for i in pieces:
            padding = -instance.sizes[i] % step
            alive += instance.sizes[i] + padding
            change[instance.last[i] + 1] -= instance.sizes[i] + padding
            heappush(paddings, (-padding, instance.last[i]))
        while paddings[0][1] < section:
            heappop(paddings)
        bound = max(bound, alive + paddings[0][0])
    return bound


def _pieces(problem: LayoutProblem) -> list[_Piece]:
    """The buffers that need memory, those of one alias as one, in the order of the problem."""
    groups: dict[str | int, list[int]] = {}
    for i, buffer in enumerate(problem.buffers):
        groups.setdefault(i if buffer.alias is None else buffer.alias, []).append(i)
    pieces = []
    for members in groups.values():
        if len(members) == 1:
            one = problem.buffers[members[0]]
            if one.size_bytes:
                pin = -1 if one.pinned is None else one.pinned
                times = one.lifetime
                pieces.append(_Piece(times.first, times.last, one.aligned_bytes, one.alignment, pin, tuple(members)))
        elif piece := _merged(problem, members):
            pieces.append(piece)
    return pieces


def _merged(problem: LayoutProblem, members: Sequence[int]) -> _Piece | None:
    """The buffers of one alias as one piece, None when they are all empty."""
    buffers = [problem.buffers[i] for i in members]
    if not any(buffer.size_bytes for buffer in buffers):
        return None
    return _Piece(
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


def _part(pieces: Sequence[_Piece]) -> Part:
    unit, alignments = _unit(pieces)
    first, last, sections = _sections(pieces)
    instance = Instance(
        tuple(first),
        tuple(last),
        tuple(piece.size // unit for piece in pieces),
        alignments,
        tuple(-1 if piece.pin < 0 else piece.pin // unit for piece in pieces),
        sections,
        unit,
    )
    return Part(instance, tuple(piece.buffers for piece in pieces))


def _unit(pieces: Sequence[_Piece]) -> tuple[int, tuple[int, ...]]:
    """The largest unit in which some best layout can be told, and the alignments in it.

    In a layout in which nothing can sink, an offset is a pin, a sum of sizes or such a sum rounded up to an alignment:
    alignments that divide all sizes and pins say nothing, others divide the unit further.
    """
    unit = gcd(*(piece.size for piece in pieces), *(piece.pin for piece in pieces if piece.pin > 0))
    kinds = {piece.alignment for piece in pieces}
    while coarser := [alignment for alignment in kinds if unit % alignment and alignment % unit]:
        unit = gcd(unit, *coarser)
    return unit, tuple(max(1, piece.alignment // unit) for piece in pieces)


def _sections(pieces: Sequence[_Piece]) -> tuple[list[int], list[int], int]:
    """The first and last section of each piece, and how many there are: a sweep over starts and ends."""
    starts = sorted(range(len(pieces)), key=lambda i: pieces[i].first)
    ends = sorted(range(len(pieces)), key=lambda i: pieces[i].last)
    first, last = [0] * len(pieces), [0] * len(pieces)
    section = gone = 0
    grown = False
    for i in starts:
        while pieces[ends[gone]].last < pieces[i].first:
            section += grown
            grown = False
            last[ends[gone]] = section - 1
            gone += 1
        first[i] = section
        grown = True
    for i in ends[gone:]:
        last[i] = section
    return first, last, section + 1
