"""Where each row is: offsets for the rows and the scratch of a schedule, in as little memory as possible.

A block is what lies together: a group of rows, or an operator's scratch. Each of its rows occupies its bytes from the
step that writes it to the last one that reads it, scratch at all steps of its operator.

Two searches follow each other. The first places all blocks one by one at the lowest offset that is free, in an order in
which blocks that end at the top come earlier each time. The second lowers the top: blocks that end above it lose their
place, and each takes another one below from blocks that conflict with it, which are next to find a place. A block that
had to take one is harder to displace from then on, so that the search does not go round in circles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd

from edgetool.memory.problem import aligned
from edgetool.memory.streaming.problem import NO_SCRATCH, RowProblem, steps_of
from edgetool.memory.streaming.schedule import first_steps, last_steps

PASSES = 40  # placements of all blocks, unless the target is reached before
PATIENCE = 10  # placements without a better one until the search continues from another order
# The conflicts of blocks that the second search may consider for each pass of the first one, and how many times it may
# consider all of them at most.
PASS_WORK = 8_000
ROUNDS = 10
# How far below the best top it tries the next one, as parts of the distance to the target: one after the other in vain.
PARTS = (4, 8, 2, 16, 1, 32)
SCRATCH_ALIGNMENT = 4
UNPLACED = -1
NO_PLACE = 1 << 60


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
    stopped: Callable[[], bool] = lambda: False,
) -> Packing:
    """Return offsets for a schedule.

    Args:
        problem: The rows and firings.
        schedule: The operator that fires at each step.
        target: The memory at which to stop, such as the peak of live bytes.
        unit: All offsets are multiples of it.
        passes: The effort: how often to place all blocks at most, and the share of the second search.
        stopped: Whether to stop after the current pass.
    """
    blocks = _Blocks(problem, schedule, unit)
    offsets = _by_order(blocks, target, passes, stopped)
    if blocks.top(offsets) > target and not stopped():
        offsets = _by_displacing(blocks, offsets, target, passes, stopped)
    return blocks.packing(offsets)


def _by_order(blocks: _Blocks, target: int, passes: int, stopped: Callable[[], bool]) -> list[int]:
    """Return the offsets of the best order of placement that is found."""
    found: list[tuple[int, list[int], list[int]]] = []
    for order in blocks.first_orders():
        offsets = blocks.place(order)
        found.append((blocks.top(offsets), offsets, order))
        if found[-1][0] <= target or stopped():
            break
    found.sort(key=lambda item: item[0])
    best, result = found[0][:2]
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
                best, result, idle = top, offsets, 0
    return result


def _by_displacing(
    blocks: _Blocks, offsets: list[int], target: int, passes: int, stopped: Callable[[], bool]
) -> list[int]:
    """Return offsets with a lower top, if any are found."""
    generator = _Generator()
    target = max(target, *blocks.sizes)
    best = blocks.top(offsets)
    work = passes * min(PASS_WORK, ROUNDS * sum(map(len, blocks.conflicts)))
    share = work // len(PARTS)
    vain = 0
    while best > target and vain < len(PARTS) and work > 0 and not stopped():
        limit = best - max(1, (best - target) // PARTS[vain])
        search = _Displacing(blocks, offsets, limit, generator)
        while search.waiting and search.work < min(work, share) and not stopped():
            search.place_one()
        work -= search.work
        if search.waiting or blocks.top(search.offsets) >= best:
            vain += 1
        else:
            offsets, vain = search.offsets, 0
            best = blocks.top(offsets)
    return offsets


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

    waiting: the blocks that have no place. work: how many conflicts have been considered.
    """

    def __init__(self, blocks: _Blocks, offsets: Sequence[int], limit: int, generator: _Generator) -> None:
        self._blocks, self._limit, self._generator = blocks, limit, generator
        above = [offset + size > limit for offset, size in zip(offsets, blocks.sizes, strict=True)]
        self.offsets = [UNPLACED if is_above else offset for offset, is_above in zip(offsets, above, strict=True)]
        self.waiting = [i for i, is_above in enumerate(above) if is_above]
        self.work = 0
        self._weights = [1] * len(above)

    def place_one(self) -> None:
        """Place a block where the blocks that it displaces have the least weight."""
        block = self.waiting.pop(self._generator.below(len(self.waiting)))
        conflicts = self._blocks.conflicts[block]
        offsets = self.offsets
        self.work += len(conflicts) + 1
        weight, places = self._lightest(block)
        offset = places[0]
        if weight:
            offset = places[self._generator.below(len(places))]
            self._weights[block] += 1
            for other, start, end in conflicts:
                there = offsets[other]
                if there != UNPLACED and there + start <= offset < there + end:
                    offsets[other] = UNPLACED
                    self.waiting.append(other)
        offsets[block] = offset

    def _lightest(self, block: int) -> tuple[int, list[int]]:
        """Return the least weight of blocks to displace for a block, and the lowest offsets where it is that."""
        offsets, weights, alignment = self.offsets, self._weights, self._blocks.alignments[block]
        last = self._limit - self._blocks.sizes[block]
        # By offset: how the weight changes from there on.
        changes = []
        for other, start, end in self._blocks.conflicts[block]:
            there = offsets[other]
            if there != UNPLACED and there + start <= last:
                changes.append((there + start, weights[other]))
                changes.append((there + end, -weights[other]))
        changes.sort()
        changes.append((last + 1, 0))
        weight, offset = 0, 0
        least, places = NO_PLACE, list[int]()
        for position, change in changes:
            if position > offset:
                if weight < least:
                    least, places = weight, []
                if weight == least:
                    places.append(offset)
                if position > last or not least:
                    break
                offset = -(-position // alignment) * alignment
            weight += change
        return least, places


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
        self.conflicts = _conflicts(len(self.sizes), parts, distances, gcd(*self.alignments))

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
            offset = 0
            for start, end in sorted(
                (there + start, there + end)
                for other, start, end in self.conflicts[i]
                if (there := offsets[other]) != UNPLACED
            ):
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
    found: list[dict[int, list[tuple[int, int]]]] = [{} for _ in range(blocks)]
    live: list[_Part] = []
    for part in parts:
        live = [other for other in live if other.last >= part.first]
        for other in live:
            if other.block == part.block:
                continue
            # The part cannot be between these distances behind the other one.
            after, before = other.begin - part.end, other.end - part.begin
            # The row that is read must be at least the distance behind the one that is written.
            if (part.row, other.row) in distances:
                before = min(before, other.begin - part.begin + distances[part.row, other.row])
            elif (other.row, part.row) in distances:
                after = max(after, other.begin - part.begin - distances[other.row, part.row])
            start, end = (after // unit + 1) * unit, -(-before // unit) * unit
            if start < end:
                found[part.block].setdefault(other.block, []).append((start, end))
                found[other.block].setdefault(part.block, []).append((unit - end, unit - start))
        live.append(part)
    return [
        [(other, start, end) for other, excluded in items.items() for start, end in _merged(excluded)]
        for items in found
    ]


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
