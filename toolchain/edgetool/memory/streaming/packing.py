"""Where each row is: offsets for the rows and the scratch of a schedule, in as little memory as possible.

A block is what lies together: a group of rows, or an operator's scratch. Each of its rows occupies its bytes from the
step that writes it to the last one that reads it, scratch at all steps of its operator.

Two searches follow each other. The first places all blocks one by one at the lowest offset that is free, in an order in
which blocks that end at the top come earlier each time. The second lowers the top: blocks that end above it lose their
place, and each, in some attempts the largest first, takes another one below from blocks that conflict with it, which
are next to find a place. A block that had to take one is harder to displace from then on, so that the search does not
go round in circles.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np
import numpy.typing as npt

from edgetool.memory.problem import aligned, never
from edgetool.memory.streaming.problem import NO_SCRATCH, RowProblem, steps_of
from edgetool.memory.streaming.schedule import first_steps, last_steps

PASSES = 40  # placements of all blocks, unless the target is reached before
PATIENCE = 10  # placements without a better one until the search continues from another order
PASS_WORK = 8_000  # the conflicts that are considered in a pass of the first search; there are fewer passes with more
# The moves of the second search for each pass of the first one, and for each block and pass at most.
PASS_MOVES = 400
BLOCK_MOVES = 0.6
# How far below the best top it tries the next one, as parts of the distance to the target: one after the other in vain.
PARTS = (4, 8, 2, 16, 1, 32)
SCRATCH_ALIGNMENT = 4
UNPLACED = -1
FAR_BELOW = -(1 << 50)  # what lies there conflicts with nothing

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Packing:
    """The offset of each row and of each operator's scratch, and the bytes up to the end of the highest."""

    offsets: tuple[int, ...]
    scratch: tuple[int, ...]
    memory_bytes: int


def pack_rows(
    problem: RowProblem,
    schedule: Sequence[int],
    target: int,
    *,
    unit: int = 1,
    passes: int = PASSES,
    near: Packing | None = None,
    stopped: Callable[[], bool] = never,
) -> Packing:
    """Return offsets for a schedule.

    Args:
        problem: The rows and firings.
        schedule: The operator that fires at each step.
        target: The memory at which to stop, such as the peak of live bytes.
        unit: All offsets are multiples of it.
        passes: The effort: how often to place all blocks at most, and the share of the second search.
        near: A packing of the same rows in smaller groups, close to which there may be one as well.
        stopped: Whether to stop after the current pass.
    """
    blocks = _Blocks(problem, schedule, unit)
    starts = _by_order(blocks, target, passes, stopped)
    again = None if near is None else _again(blocks, near, passes, stopped)
    if again is not None:
        starts = sorted([again, *starts], key=blocks.top)
    offsets = starts[0]
    if blocks.top(offsets) > target and not stopped():
        offsets = _by_displacing(blocks, starts, target, passes, stopped)
    return blocks.packing(offsets)


def _again(blocks: _Blocks, packing: Packing, passes: int, stopped: Callable[[], bool]) -> list[int] | None:
    """Return offsets in no more memory than a packing of the same rows in smaller groups; None if none are found."""
    if max(blocks.sizes, default=0) > packing.memory_bytes:
        return None
    offsets = blocks.offsets_in(packing)
    search = _Displacing(blocks, offsets, packing.memory_bytes, _Generator(), largest_first=True)
    moves = _most_moves(blocks, passes)
    while search.waiting and search.moves < moves and not stopped():
        search.place_one()
    return None if search.waiting else search.offsets.tolist()


def _by_order(blocks: _Blocks, target: int, passes: int, stopped: Callable[[], bool]) -> list[list[int]]:
    """Return offsets from several orders of placement, the lowest first."""
    passes = min(passes, passes * PASS_WORK * 4 // max(1, sum(map(len, blocks.conflicts))))
    found: list[tuple[int, list[int], list[int]]] = []
    for order in blocks.first_orders():
        offsets = blocks.place(order)
        found.append((blocks.top(offsets), offsets, order))
        if found[-1][0] <= target or stopped():
            break
    found.sort(key=lambda item: item[0])
    results = [offsets for _, offsets, _ in found]
    best = found[0][0]
    count = len(found)
    for top, offsets, order in found:
        idle = 0
        while best > target and idle < PATIENCE and count < passes and not stopped():
            order = sorted(order, key=lambda i: offsets[i] + blocks.sizes[i] != top)
            offsets = blocks.place(order)
            top = blocks.top(offsets)
            count += 1
            idle += 1
            if top < best:
                best, idle = top, 0
                results.insert(0, offsets)
    return results


def _most_moves(blocks: _Blocks, passes: int) -> int:
    """Return how many moves the second search may make."""
    return int(passes * min(PASS_MOVES, BLOCK_MOVES * len(blocks.sizes)))


def _by_displacing(
    blocks: _Blocks, starts: Sequence[list[int]], target: int, passes: int, stopped: Callable[[], bool]
) -> list[int]:
    """Return offsets with a lower top than those to start from, the best of which are first, if any are found."""
    generator = _Generator()
    target = max(target, *blocks.sizes)
    best = result = starts[0]
    top = blocks.top(best)
    moves = PASS_MOVES * passes
    share = _most_moves(blocks, passes) // len(PARTS)
    for start in starts:
        for largest_first in (True, False):
            vain, result = 0, start
            while top > target and vain < len(PARTS) and moves > 0 and not stopped():
                limit = top - max(1, (top - target) // PARTS[vain])
                search = _Displacing(blocks, result, limit, generator, largest_first=largest_first)
                while search.waiting and search.moves < min(moves, share) and not stopped():
                    search.place_one()
                moves -= search.moves
                if search.waiting:
                    vain += 1
                    continue
                best = result = search.offsets.tolist()
                top, vain = blocks.top(best), 0
            start = best
    return best


class _Generator:
    """Random numbers that are the same in every search: the linear congruential generator of MMIX."""

    def __init__(self) -> None:
        self._state = 1

    def below(self, limit: int) -> int:
        """Return a number from 0 to limit - 1."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self._state >> 32) % limit


class _Displacing:
    """A search for offsets below a limit.

    offsets: those of blocks, FAR_BELOW for blocks without a place. waiting: these, behind their sizes and the order in
    which they lost their places; sorted if the largest comes first. moves: how many blocks have been placed.
    """

    def __init__(
        self, blocks: _Blocks, offsets: Sequence[int], limit: int, generator: _Generator, *, largest_first: bool
    ) -> None:
        self._blocks, self._generator, self._largest_first = blocks, generator, largest_first
        there, sizes = np.array(offsets, np.int64), np.array(blocks.sizes, np.int64)
        has_place = (there != UNPLACED) & (there + sizes <= limit)
        self.offsets: Numbers = np.where(has_place, there, FAR_BELOW)
        self.waiting: list[tuple[int, int, int]] = []
        self._waited = 0
        self.moves = 0
        self._last = (limit - sizes).tolist()
        self._weights: Numbers = np.ones(len(sizes), np.int64)
        self._wait(np.flatnonzero(~has_place).tolist())

    def _wait(self, displaced: Sequence[int]) -> None:
        """Add blocks that have no place to those that wait."""
        sizes = self._blocks.sizes
        for block in displaced:
            self._waited += 1
            item = (sizes[block], self._waited, block)
            if self._largest_first:
                insort(self.waiting, item)
            else:
                self.waiting.append(item)

    def place_one(self) -> None:
        """Place a block that waits where the blocks that it displaces have the least weight."""
        number = -1 if self._largest_first else self._generator.below(len(self.waiting))
        block = self.waiting.pop(number)[-1]
        self.moves += 1
        others, distances, signs = self._blocks.edges(block)
        # Where the weight changes: at the first offset that conflicts with another block, and at the first one behind.
        edges = self.offsets.take(others)
        edges += distances
        np.maximum(edges, 0, out=edges)
        order = edges.argsort()
        edges_in_order = edges.take(order)
        if not len(others) or edges_in_order[0] > 0:
            self.offsets[block] = 0
            return
        weights = (self._weights.take(others) * signs).take(order).cumsum()
        places = self._blocks.aligned_up(block, edges_in_order)
        is_possible = places <= self._last[block]
        is_possible[:-1] &= places[:-1] < edges_in_order[1:]
        places, weights = places[is_possible], weights[is_possible]
        least = int(weights.min())
        lightest = places[weights == least]
        place = int(lightest[self._generator.below(len(lightest)) if least else 0])
        if least:
            self._weights[block] += 1
            half = len(others) // 2
            displaced = others[:half][(edges[:half] <= place) & (place < edges[half:])]
            self.offsets[displaced] = FAR_BELOW
            self._wait(list(dict.fromkeys(displaced.tolist())))
        self.offsets[block] = place


def _lie_together(problem: RowProblem, tensor_of: Sequence[int], rows: Sequence[int]) -> bool:
    """Return whether rows are in one group, one behind the other."""
    tensor = tensor_of[rows[0]]
    first, group = problem.first_row(tensor), problem.tensors[tensor].group
    places = [row - first for row in rows]
    return places == list(range(places[0], places[0] + len(rows))) and places[0] // group == places[-1] // group


@dataclass(frozen=True, slots=True)
class _Part:
    """The bytes from `begin` to `end` of a block, which are in use from one step to another. row: -1 for scratch."""

    block: int
    row: int
    first: int
    last: int
    begin: int
    end: int


class _Blocks:
    """Blocks with their sizes, alignments, and conflicts.

    If (j, start, end) is one of the conflicts of block i, and j is at offset o, then i cannot be at offsets from
    o + start on that are below o + end.
    """

    def __init__(self, problem: RowProblem, schedule: Sequence[int], unit: int) -> None:
        self._problem = problem
        last = last_steps(problem, schedule)
        first = first_steps(problem, schedule)
        tensor_of = problem.tensor_of_rows()
        scratch_steps: dict[int, list[int]] = {}
        # The distances of rows that are written from rows that they may overlap.
        distances: dict[tuple[int, int], int] = {}
        for step, (number, firing) in enumerate(steps_of(problem, tuple(schedule))):
            if problem.operators[number].scratch_bytes:
                scratch_steps.setdefault(number, []).append(step)
            if firing.overlaps and _lie_together(problem, tensor_of, firing.writes):
                size = problem.tensors[tensor_of[firing.writes[0]]].row_bytes
                for row, distance in firing.overlaps:
                    if last[row] == step:
                        new = ((i, written) for i, written in enumerate(firing.writes) if first[written] == step)
                        distances.update({(row, written): distance - i * size for i, written in new})
        self.sizes: list[int] = []
        self.alignments: list[int] = []
        parts = []
        for index, tensor in enumerate(problem.tensors):
            for i, row in enumerate(problem.rows_of(index)):
                inside = i % tensor.group
                if inside == 0:
                    self.sizes.append(min(tensor.group, tensor.rows - i) * tensor.row_bytes)
                    self.alignments.append(max(unit, tensor.alignment))
                begin = inside * tensor.row_bytes
                if first[row] <= last[row]:
                    end = begin + tensor.row_bytes
                    parts.append(_Part(len(self.sizes) - 1, row, first[row], max(first[row], last[row]), begin, end))
        self.operators = sorted(scratch_steps)
        for number in self.operators:
            size = problem.operators[number].scratch_bytes
            self.sizes.append(size)
            self.alignments.append(max(unit, SCRATCH_ALIGNMENT))
            parts += [_Part(len(self.sizes) - 1, -1, step, step, 0, size) for step in scratch_steps[number]]
        parts.sort(key=lambda part: part.first)
        self._lives: dict[int, tuple[int, int]] = {}
        for part in parts:
            start, end = self._lives.get(part.block, (part.first, part.last))
            self._lives[part.block] = start, max(end, part.last)
        self._unit = gcd(*self.alignments)  # of all offsets at which conflicts begin or end
        self.conflicts = _conflicts(len(self.sizes), parts, distances, self._unit)
        self._edges: list[tuple[Numbers, Numbers, Numbers] | None] = [None] * len(self.sizes)

    def edges(self, block: int) -> tuple[Numbers, Numbers, Numbers]:
        """Return the blocks that conflict with a block, twice, the distances from them where conflicts begin, and where
        they end, and the sign of what changes there.
        """
        known = self._edges[block]
        if known is None:
            others, starts, ends = np.array(self.conflicts[block], np.int64).reshape(-1, 3).T
            ones = np.ones(len(others), np.int64)
            known = np.tile(others, 2), np.concatenate([starts, ends]), np.concatenate([ones, -ones])
            self._edges[block] = known
        return known

    def aligned_up(self, block: int, offsets: Numbers) -> Numbers:
        """Return the first offsets from some on, multiples of the unit, that are multiples of a block's alignment."""
        alignment = self.alignments[block]
        return offsets if alignment == self._unit else -(-offsets // alignment) * alignment

    def offsets_in(self, packing: Packing) -> list[int]:
        """Return the offset of each block in a packing of the same rows; UNPLACED if its rows do not lie together."""
        offsets: list[int] = []
        rows = iter(packing.offsets)
        for tensor in self._problem.tensors:
            places = [next(rows) for _ in range(tensor.rows)]
            for i in range(0, tensor.rows, tensor.group):
                group = places[i : i + tensor.group]
                together = range(group[0], group[0] + len(group) * tensor.row_bytes, tensor.row_bytes or 1)
                is_place = (len(group) == 1 or group == list(together)) and not group[0] % self.alignments[len(offsets)]
                offsets.append(group[0] if is_place else UNPLACED)
        return offsets + [packing.scratch[number] for number in self.operators]

    def first_orders(self) -> list[list[int]]:
        """Return orders of placement to start from."""
        blocks = range(len(self.sizes))
        sizes = self.sizes
        lives = [self._lives.get(i, (0, 0)) for i in blocks]
        return [
            sorted(blocks, key=lambda i: (lives[i][0], -sizes[i])),
            sorted(blocks, key=lambda i: (-sizes[i], lives[i][0])),
            sorted(blocks, key=lambda i: (lives[i][0] - lives[i][1], -sizes[i])),
            sorted(blocks, key=lambda i: (lives[i][0] - lives[i][1]) * sizes[i]),
        ]

    def place(self, order: Sequence[int]) -> list[int]:
        """Place blocks in an order, each at the lowest offset that is free; return the offset of each."""
        offsets = [UNPLACED] * len(self.sizes)
        for i in order:
            taken = [
                (there + start, there + end)
                for other, start, end in self.conflicts[i]
                if (there := offsets[other]) != UNPLACED
            ]
            taken.sort()
            offset = 0
            for start, end in taken:
                if offset < start:
                    break
                if offset < end:
                    offset = aligned(end, self.alignments[i])
            offsets[i] = offset
        return offsets

    def top(self, offsets: Sequence[int]) -> int:
        """Return the end of the highest block."""
        return max((offset + size for offset, size in zip(offsets, self.sizes, strict=True)), default=0)

    def packing(self, offsets: Sequence[int]) -> Packing:
        """Return the offsets of rows and scratch."""
        placed = iter(offsets)
        rows: list[int] = []
        start = 0
        for tensor in self._problem.tensors:
            for i in range(tensor.rows):
                start = next(placed) if i % tensor.group == 0 else start
                rows.append(start + i % tensor.group * tensor.row_bytes)
        scratch = [NO_SCRATCH] * len(self._problem.operators)
        for number in self.operators:
            scratch[number] = next(placed)
        return Packing(tuple(rows), tuple(scratch), self.top(offsets))


def _conflicts(
    blocks: int, parts: Sequence[_Part], distances: dict[tuple[int, int], int], unit: int
) -> list[list[tuple[int, int, int]]]:
    """Return what each block excludes, in multiples of a unit, from parts in the order of their first steps."""
    found: list[list[tuple[int, int, int]]] = [[] for _ in range(blocks)]
    # Those of blocks with several parts, which may exclude the same.
    several: dict[tuple[int, int], list[tuple[int, int]]] = {}
    counts = Counter(part.block for part in parts)
    near: dict[int, set[int]] = {}
    for read, written in distances:
        near.setdefault(read, set()).add(written)
        near.setdefault(written, set()).add(read)
    live: list[tuple[int, int, int, int, int]] = []
    for part in parts:
        block, row, first, begin, end = part.block, part.row, part.first, part.begin, part.end
        live = [other for other in live if other[0] >= first]
        partners = near.get(row, ())
        is_single = counts[block] == 1
        items = found[block]
        for _, block2, row2, begin2, end2 in live:
            if block2 == block:
                continue
            # The part cannot be between these distances behind the other one.
            after, before = begin2 - end, end2 - begin
            # The row that is read must be at least the distance behind the one that is written.
            if row2 in partners:
                if (row, row2) in distances:
                    before = min(before, begin2 - begin + distances[row, row2])
                else:
                    after = max(after, begin2 - begin - distances[row2, row])
            start, stop = (after // unit + 1) * unit, -(-before // unit) * unit
            if start >= stop:
                continue
            if is_single and counts[block2] == 1:
                items.append((block2, start, stop))
                found[block2].append((block, unit - stop, unit - start))
            else:
                several.setdefault((block, block2), []).append((start, stop))
                several.setdefault((block2, block), []).append((unit - stop, unit - start))
        live.append((part.last, block, row, begin, end))
    for (block, block2), excluded in several.items():
        found[block] += [(block2, start, stop) for start, stop in _merged(excluded)]
    return found


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges that do not touch and cover the same."""
    ranges.sort()
    merged = ranges[:1]
    for start, end in ranges[1:]:
        if start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
