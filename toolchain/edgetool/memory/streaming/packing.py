"""Where each row is: offsets for the rows and the scratch of a schedule, in as little memory as possible.

A block is what lies together: a group of rows, or the scratch of a firing, at first that of all firings of an operator.
Each of its rows occupies its bytes from the step that writes it to the last one that reads it, scratch at the steps of
its firings.

Two searches follow each other. The first places all blocks one by one at the lowest offset that is free, in an order in
which blocks that end at the top come earlier each time. The second lowers the top: blocks that end above it lose their
place, and each, in some attempts the largest first, takes another one below from blocks that conflict with it, which
are next to find a place. A block that had to take one is harder to displace from then on, so that the search does not
go round in circles.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, groupby
from math import gcd

import numpy as np
import numpy.typing as npt

from edgetool.memory.problem import never
from edgetool.memory.streaming.problem import NO_SCRATCH, RowProblem, RowTensor, steps_of
from edgetool.memory.streaming.schedule import row_lives

PASSES = 40  # the effort, which the following numbers refer to
ORDERS = 0.3  # placements of all blocks for each pass, unless the target is reached before
PATIENCE = 5  # placements without a better one until the search continues from another order
ORDER_WORK = 24_000  # the conflicts that are considered in a placement for each pass; there are fewer with more
# The moves in vain of the second search for each pass, and for each block and pass at most. An attempt has a share.
PASS_MOVES = 200
BLOCK_MOVES = 0.6
ATTEMPTS = 6
# The conflicts of blocks that are moved in vain for each pass: with more, only a share of the moves is made.
MOVE_WORK = 10_000
LEAST_MOVES = 2 / 3
# The share of the memory that scratch with an offset for each firing must save, because tables are larger with it.
APART_GAIN = 0.02
APART_SHARE = 0.25  # of the passes, to find such a packing
# The moves to make room for more scratch: for that of one firing, and in vain for all.
MOVES_AT_ONCE, MORE_MOVES = 60, 2_000
# How far below the best top it tries the next one, as parts of the distance to the target: one after the other in vain.
PARTS = (8, 16, 32, 4)
ROUNDS = 2  # in which rows of each tensor move to fewer places
SCRATCH_ALIGNMENT = 4
UNPLACED = -1
FAR_BELOW = -(1 << 40)  # what lies there conflicts with nothing

Numbers = npt.NDArray[np.int64]
SmallNumbers = npt.NDArray[np.int32]
FEW = 100  # conflicts of a block, for which lists are faster than arrays
KNOWN_EDGES = 2_000_000  # where conflicts begin or end, which are kept as the second search needs them
KNOWN_BLOCKS = 2  # of the problems that one search after the other packs


@dataclass(frozen=True, slots=True)
class Packing:
    """The offset of each row and of the scratch of each firing, as in RowPlan, and the end of the highest."""

    offsets: tuple[int, ...]
    scratch: tuple[tuple[int, ...], ...]
    memory_bytes: int


def pack_rows(
    problem: RowProblem,
    schedule: Sequence[int],
    target: int,
    *,
    unit: int = 1,
    passes: int = PASSES,
    stopped: Callable[[], bool] = never,
) -> Packing:
    """Return offsets for a schedule.

    Args:
        problem: The rows and firings.
        schedule: The operator that fires at each step.
        target: The memory at which to stop, such as the peak of live bytes.
        unit: All offsets are multiples of it.
        passes: The effort; see PASSES.
        stopped: Whether to stop after the current pass.
    """
    shares = any(sum(firing.scratch_bytes > 0 for firing in item.firings) > 1 for item in problem.operators)
    blocks = _blocks(problem, tuple(schedule), unit, apart=not shares)
    starts = _by_order(blocks, target, passes, stopped)
    offsets = starts[0]
    if blocks.top(offsets) > target and not stopped():
        offsets = _by_displacing(blocks, starts, target, passes, stopped)
    packing = blocks.packing(offsets)
    enough = int((1 - APART_GAIN) * packing.memory_bytes)
    if target <= enough and shares and not stopped():
        # The scratch of each firing alone: a search with more blocks, for which there is a good packing to start from.
        few = int(APART_SHARE * passes)
        apart = pack_again(problem, schedule, packing, enough, target, unit=unit, passes=few, stopped=stopped)
        packing = apart or packing
    return packing


def pack_again(
    problem: RowProblem,
    schedule: Sequence[int],
    near: Packing,
    limit: int,
    target: int,
    *,
    unit: int = 1,
    passes: int = PASSES,
    anew: bool = False,
    stopped: Callable[[], bool] = never,
) -> Packing | None:
    """Return offsets within a limit, close to another packing of the same rows; None if none are found.

    near: a packing of smaller groups, without a place for some scratch, or with rows that are too close together. anew:
    whether offsets may be far from it if there are none close to it. The other arguments are those of pack_rows.
    """
    blocks = _blocks(problem, tuple(schedule), unit, apart=True)
    if max(blocks.sizes, default=0) > limit:
        return None
    offsets = blocks.without_conflicts(blocks.offsets_in(near))
    search = _Displacing(blocks, offsets, limit, _Generator(), largest_first=True)
    moves = _most_moves(blocks, passes)
    while search.waiting and search.moves < moves and not stopped():
        search.place_one()
    if search.waiting and not anew:
        return None
    offsets = _by_order(blocks, limit, passes, stopped)[0] if search.waiting else search.offsets
    if blocks.top(offsets) > limit:
        return None
    if blocks.top(offsets) > target and not stopped():
        offsets = _by_displacing(blocks, [offsets], target, passes, stopped)
    return blocks.packing(offsets)


def pack_more(
    problem: RowProblem,
    schedule: Sequence[int],
    near: Packing,
    limit: int,
    wanted: Sequence[int],
    *,
    unit: int = 1,
    stopped: Callable[[], bool] = never,
) -> Packing:
    """Return offsets within a limit with as much more scratch as finds a place; NO_SCRATCH for the rest.

    Rows and other scratch move to make room, and what has a place keeps one.

    Args:
        problem: The rows and firings, with all scratch that shall have a place.
        schedule: The operator that fires at each step.
        near: A packing within the limit, in which only wanted scratch has no place.
        limit: The memory in bytes.
        wanted: The operators whose scratch may be left without a place, the ones that need it most first.
        unit: All offsets are multiples of it.
        stopped: Whether to end the search.
    """
    blocks = _blocks(problem, tuple(schedule), unit, apart=True)
    offsets, generator = blocks.offsets_in(near), _Generator()
    numbers = {item: block for block, item in enumerate(blocks.scratch, len(offsets) - len(blocks.scratch))}
    waiting = [number for operator in wanted for item, number in numbers.items() if item[0] == operator]
    waiting = [number for number in waiting if offsets[number] == UNPLACED and blocks.sizes[number] <= limit]
    absent = set()
    places = _Places(offsets)
    offsets = places.listed
    for block in waiting:
        place = blocks.lowest(block, places)
        if place + blocks.sizes[block] <= limit:
            places.put(block, place)
        else:
            absent.add(block)
    moves = MORE_MOVES
    for block in sorted(absent, key=waiting.index):
        search = _Displacing(blocks, offsets, limit, generator, largest_first=True, absent=absent - {block})
        while search.waiting and search.moves < MOVES_AT_ONCE:
            search.place_one()
        if search.waiting:
            moves -= search.moves
        else:
            absent.discard(block)
            offsets = [UNPLACED if place == FAR_BELOW else place for place in search.offsets]
        if moves <= 0 or stopped():
            break
    return blocks.packing(offsets)


def with_few_places(problem: RowProblem, schedule: Sequence[int], packing: Packing, *, unit: int = 1) -> Packing:
    """Return a packing in no more memory in which rows of a tensor lie together or share places where they can.

    Tables state each place of a tensor once, and only the first one of rows that lie together. The arguments are those
    of pack_rows.
    """
    blocks = _blocks(problem, tuple(schedule), unit, apart=True)
    tensors = enumerate(problem.tensors)
    firsts = [row for i, tensor in tensors for row in problem.rows_of(i)[:: tensor.group]]
    offsets = [
        *(packing.offsets[row] for row in firsts),
        *(packing.scratch[i][first] for i, (first, *_) in blocks.scratch),
    ]
    return blocks.packing(blocks.with_few_places(offsets))


def _by_order(blocks: _Blocks, target: int, passes: int, stopped: Callable[[], bool]) -> list[list[int]]:
    """Return offsets from several orders of placement, the lowest first."""
    placements = min(passes * ORDERS, passes * ORDER_WORK // max(1, blocks.conflict_count))
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
        first = [i for i in order if offsets[i] + blocks.sizes[i] == top]
        while best > target and idle < PATIENCE and count < placements and not stopped():
            is_first = set(first)
            order = [*first, *(i for i in order if i not in is_first)]
            offsets = blocks.place(order, best)
            count += 1
            idle += 1
            if UNPLACED in offsets:
                first = [next(i for i in order if offsets[i] == UNPLACED)]
                continue
            best, idle = blocks.top(offsets), 0
            results.insert(0, offsets)
            first = [i for i in order if offsets[i] + blocks.sizes[i] == best]
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
    share = _most_moves(blocks, passes) // ATTEMPTS
    cheap = MOVE_WORK * len(blocks.sizes) // max(1, blocks.conflict_count)
    moves = int(passes * min(PASS_MOVES, max(LEAST_MOVES * PASS_MOVES, cheap)))
    for start in starts:
        for largest_first in (True, False):
            vain, result = 0, start
            while top > target and vain < len(PARTS) and moves > 0 and not stopped():
                limit = top - max(1, (top - target) // PARTS[vain])
                search = _Displacing(blocks, result, limit, generator, largest_first=largest_first)
                while search.waiting and search.moves < min(moves, share) and not stopped():
                    search.place_one()
                if search.waiting:
                    moves -= search.moves
                    vain += 1
                    continue
                best = result = search.offsets
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

    waiting: the blocks without a place, behind their sizes and the order in which they lost their places; sorted if the
    largest comes first. moves: how many blocks have been placed. absent: blocks that need no place.
    """

    def __init__(
        self,
        blocks: _Blocks,
        offsets: Sequence[int],
        limit: int,
        generator: _Generator,
        *,
        largest_first: bool,
        absent: Collection[int] = (),
    ) -> None:
        self._blocks, self._generator, self._largest_first = blocks, generator, largest_first
        there, sizes = np.array(offsets, np.int64), np.array(blocks.sizes, np.int64)
        has_place = (there != UNPLACED) & (there + sizes <= limit)
        self._places: Numbers = np.where(has_place, there, FAR_BELOW) << blocks.key_bits  # as keys
        self.waiting: list[tuple[int, int, int]] = []
        self._waited = 0
        self.moves = 0
        # The first keys behind the first offset of each block and behind the last one.
        self._range: Numbers = np.stack([np.ones_like(sizes), limit - sizes + 1], axis=1) << blocks.key_bits
        # What changes where conflicts with each block begin, and where they end.
        self._weights: Numbers = np.repeat([1, -1], len(sizes))
        self._wait([block for block in np.flatnonzero(~has_place).tolist() if block not in absent])

    @property
    def offsets(self) -> list[int]:
        """The offset of each block, FAR_BELOW for those without a place."""
        offsets: list[int] = (self._places >> self._blocks.key_bits).tolist()
        return offsets

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
        bits = self._blocks.key_bits
        others, distances = self._blocks.edges(block)
        # Where the weight changes: at the first offset that conflicts with another block, and at the first one behind.
        edges = self._places.take(others)
        edges += distances
        if self._blocks.alignments[block] != self._blocks.unit:
            edges += self._blocks.padding(block, edges)
        # Conflicts that begin come before those that end there, so that no sum on the way is as small as the last one.
        in_order = edges.copy()
        in_order.sort()
        count, end = in_order.searchsorted(self._range[block]).tolist()
        if not count:
            self._places[block] = 0
            return
        weights = self._weights.take(in_order[:end] & (1 << bits) - 1).cumsum()[count - 1 :]
        first = int(weights.argmin())
        weight = weights[first]
        if weight:
            lightest = (weights == weight).nonzero()[0]
            first = int(lightest[self._generator.below(len(lightest))])
        place = max(0, int(in_order[count - 1 + first]) >> bits)
        if weight:
            self._weights[block] += 1
            self._weights[block + len(self._places)] -= 1
            half = len(others) // 2
            is_begun = edges < place + 1 << bits
            displaced = others[:half][is_begun[:half] > is_begun[half:]]
            self._places[displaced] = FAR_BELOW << bits
            self._wait(list(dict.fromkeys(displaced.tolist())))
        self._places[block] = place << bits


def _lie_together(problem: RowProblem, tensor_of: Sequence[int], rows: Sequence[int]) -> bool:
    """Return whether rows are in one group, one behind the other."""
    tensor = tensor_of[rows[0]]
    first, group = problem.first_row(tensor), problem.tensors[tensor].group
    places = [row - first for row in rows]
    return places == list(range(places[0], places[0] + len(rows))) and places[0] // group == places[-1] // group


@dataclass(frozen=True, slots=True)
class _Parts:
    """The bytes from `begin` to `end` of blocks, which are in use from one step to another: an array of each."""

    block: SmallNumbers
    first: SmallNumbers
    last: SmallNumbers
    begin: SmallNumbers
    end: SmallNumbers


@dataclass(frozen=True, slots=True)
class _Conflicts:
    """What blocks exclude, ordered by block and by the other block.

    The conflicts of block i are those from bounds[i] up to bounds[i + 1]. If one is with block j, which is at offset o,
    then i cannot be at offsets from o + start on that are below o + end.
    """

    others: SmallNumbers
    starts: SmallNumbers
    ends: SmallNumbers
    bounds: list[int]

    def of(self, block: int) -> slice:
        """Return where the conflicts of a block are."""
        return slice(self.bounds[block], self.bounds[block + 1]) if block + 1 < len(self.bounds) else slice(0, 0)


class _Places:
    """The offsets of blocks, as a list with UNPLACED for those without a place, and as an array with FAR_BELOW."""

    def __init__(self, offsets: Sequence[int]) -> None:
        self.listed = list(offsets)
        self.array: Numbers = np.array(self.listed, np.int64)
        self.array[self.array == UNPLACED] = FAR_BELOW

    def put(self, block: int, offset: int) -> None:
        """Give a block a place."""
        self.listed[block] = self.array[block] = offset


class _Blocks:
    """Blocks with their sizes, alignments, and conflicts."""

    def __init__(self, problem: RowProblem, schedule: tuple[int, ...], unit: int, *, apart: bool) -> None:
        self._problem = problem
        first, last = self._lives = row_lives(problem, schedule)
        tensor_of = problem.tensor_of_rows()
        self._scratch_steps: dict[tuple[int, int], int] = {}  # by operator and number of its firing
        fired = [0] * len(problem.operators)
        # The distances of rows that are written from rows that they may overlap.
        distances: dict[tuple[int, int], int] = {}
        for step, (number, firing) in enumerate(steps_of(problem, schedule)):
            if firing.scratch_bytes:
                self._scratch_steps[number, fired[number]] = step
            fired[number] += 1
            dying = [item for item in firing.overlaps if last[item[0]] == step]
            if dying and _lie_together(problem, tensor_of, firing.writes):
                size = problem.tensors[tensor_of[firing.writes[0]]].row_bytes
                new = [(i * size, written) for i, written in enumerate(firing.writes) if first[written] == step]
                distances.update({(row, written): least - begin for row, least in dying for begin, written in new})
        self._block_of, self._inside, _ = _blocks_of_rows(problem.tensors)
        self.sizes: list[int] = []
        self.alignments: list[int] = []
        for tensor in problem.tensors:
            groups = range(0, tensor.rows, tensor.group)
            self.sizes += [min(tensor.group, tensor.rows - i) * tensor.row_bytes for i in groups]
            self.alignments += [max(unit, tensor.alignment)] * len(groups)
        # What the blocks behind those of rows are: operators and their firings.
        self.scratch: list[tuple[int, tuple[int, ...]]] = []
        scratch: list[tuple[int, int, int]] = []  # block, step and size
        for number, operator in enumerate(problem.operators):
            firings = tuple(i for i in range(len(operator.firings)) if (number, i) in self._scratch_steps)
            for together in [(i,) for i in firings] if apart else [firings][: len(firings)]:
                size = max(operator.firings[i].scratch_bytes for i in together)
                scratch += [(len(self.sizes), self._scratch_steps[number, i], size) for i in together]
                self.sizes.append(size)
                self.alignments.append(max(unit, SCRATCH_ALIGNMENT))
                self.scratch.append((number, together))
        # Of all offsets at which conflicts begin or end; a model without rows has none.
        self.unit = gcd(*self.alignments) or 1
        lives, items = (tuple(first), tuple(last)), tuple(distances.items())
        parts, of_rows = _conflicts_of_rows(problem.tensors, lives, items, self.unit)
        self._conflicts = of_rows, _conflicts_with_scratch(len(self.sizes), parts, scratch, self.unit)
        self.key_bits = (2 * len(self.sizes)).bit_length()
        self._room = KNOWN_EDGES
        self._edges: list[tuple[Numbers, Numbers] | None] = [None] * len(self.sizes)
        self._listed: list[list[tuple[int, int, int]] | None] = [None] * len(self.sizes)

    @property
    def conflict_count(self) -> int:
        """The number of conflicts of all blocks."""
        return sum(len(conflicts.others) for conflicts in self._conflicts)

    def edges(self, block: int) -> tuple[Numbers, Numbers]:
        """Return the blocks that conflict with a block, twice, and what to add to the keys of their offsets.

        A key is an offset shifted by `key_bits`, so that it can state what is there: where a conflict begins, the
        number of the other block, and where it ends, that number behind those of all blocks. Keys are sorted many times
        faster than the positions of offsets.
        """
        edges = self._edges[block]
        if edges is None:
            slices = [(conflicts, conflicts.of(block)) for conflicts in self._conflicts]
            others = [conflicts.others[at] for conflicts, at in slices]
            bounds = [conflicts.starts[at] for conflicts, at in slices] + [item.ends[at] for item, at in slices]
            twice = np.concatenate([*others, *others], dtype=np.int64)
            distances = (np.concatenate(bounds, dtype=np.int64) << self.key_bits) + twice
            distances[len(twice) // 2 :] += len(self.sizes)
            edges = twice, distances
            if self._room >= len(twice):
                self._room -= len(twice)
                self._edges[block] = edges
        return edges

    def padding(self, block: int, keys: Numbers) -> Numbers:
        """Return what to add to keys of offsets so that a block's alignment divides these."""
        return -(keys >> self.key_bits) % self.alignments[block] << self.key_bits

    def _conflicts_of(self, block: int) -> tuple[SmallNumbers, SmallNumbers, SmallNumbers]:
        """Return the conflicts of a block: the other block of each, where it starts, and where it ends."""
        rows, scratch = self._conflicts
        here, there = rows.of(block), scratch.of(block)
        if here.start == here.stop:
            return scratch.others[there], scratch.starts[there], scratch.ends[there]
        if there.start == there.stop:
            return rows.others[here], rows.starts[here], rows.ends[here]
        return (
            np.concatenate([rows.others[here], scratch.others[there]]),
            np.concatenate([rows.starts[here], scratch.starts[there]]),
            np.concatenate([rows.ends[here], scratch.ends[there]]),
        )

    def _count(self, block: int) -> int:
        """Return the number of a block's conflicts."""
        slices = (conflicts.of(block) for conflicts in self._conflicts)
        return sum(item.stop - item.start for item in slices)

    def _few_conflicts(self, block: int) -> list[tuple[int, int, int]]:
        """Return the conflicts of a block that has few of them."""
        conflicts = self._listed[block]
        if conflicts is None:
            items = (array.tolist() for array in self._conflicts_of(block))
            conflicts = self._listed[block] = list(zip(*items, strict=True))
        return conflicts

    def aligned_up(self, block: int, offsets: Numbers) -> Numbers:
        """Return the first offsets from some on, multiples of the unit, that are multiples of a block's alignment."""
        alignment = self.alignments[block]
        return offsets if alignment == self.unit else -(-offsets // alignment) * alignment

    def offsets_in(self, packing: Packing) -> list[int]:
        """Return the offset of each block in a packing of the same rows; UNPLACED if its rows do not lie together."""
        there, blocks = np.array(packing.offsets, np.int64), self._block_of
        firsts = there[np.flatnonzero(np.diff(blocks, prepend=-1))]
        is_apart = np.bincount(blocks, there != firsts[blocks] + self._inside, minlength=len(firsts)) > 0
        is_apart |= firsts % np.array(self.alignments[: len(firsts)], np.int64) != 0
        offsets: list[int] = np.where(is_apart, UNPLACED, firsts).tolist()
        scratch = packing.scratch
        return offsets + [scratch[number][i] if scratch[number] else UNPLACED for number, (i, *_) in self.scratch]

    def without_conflicts(self, offsets: Sequence[int]) -> list[int]:
        """Return offsets without those that conflict with others, for which they are UNPLACED."""
        kept = np.array(offsets, np.int64)
        violated: list[tuple[int, int]] = []
        for conflicts in self._conflicts:
            places = kept[: len(conflicts.bounds) - 1].repeat(np.diff(conflicts.bounds))
            there = kept.take(conflicts.others)
            is_violated = (there + conflicts.starts <= places) & (places < there + conflicts.ends)
            is_violated &= (places != UNPLACED) & (there != UNPLACED)
            found = np.flatnonzero(is_violated)
            blocks = np.searchsorted(conflicts.bounds, found, "right") - 1
            violated += zip(blocks.tolist(), conflicts.others[found].tolist(), strict=True)
        for block, other in sorted(violated):
            if kept[other] != UNPLACED:
                kept[block] = UNPLACED
        listed: list[int] = kept.tolist()
        return listed

    def first_orders(self) -> list[list[int]]:
        """Return orders of placement to start from."""
        blocks = range(len(self.sizes))
        sizes = self.sizes
        first, last = self._lives
        lives: list[tuple[int, int]] = []
        for index, tensor in enumerate(self._problem.tensors):
            rows = self._problem.rows_of(index)
            for group in (rows[i : i + tensor.group] for i in range(0, tensor.rows, tensor.group)):
                used = [row for row in group if first[row] <= last[row]]
                lives.append((min(first[row] for row in used), max(last[row] for row in used)) if used else (0, 0))
        for number, firings in self.scratch:
            steps = [self._scratch_steps[number, i] for i in firings]
            lives.append((min(steps), max(steps)))
        return [
            sorted(blocks, key=lambda i: (lives[i][0], -sizes[i])),
            sorted(blocks, key=lambda i: (-sizes[i], lives[i][0])),
            sorted(blocks, key=lambda i: (lives[i][0] - lives[i][1], -sizes[i])),
            sorted(blocks, key=lambda i: (lives[i][0] - lives[i][1]) * sizes[i]),
        ]

    def place(self, order: Sequence[int], below: int | None = None) -> list[int]:
        """Place blocks in an order, each at the lowest offset that is free; return the offset of each.

        below: if a block does not end below, it has no place, nor do all that follow; None for any end.
        """
        offsets = _Places([UNPLACED] * len(self.sizes))
        for i in order:
            place = self.lowest(i, offsets)
            if below is not None and place + self.sizes[i] >= below:
                break
            offsets.put(i, place)
        return offsets.listed

    def lowest(self, block: int, offsets: _Places) -> int:
        """Return the lowest offset for a block that conflicts with no other one at its own offset."""
        alignment, place = self.alignments[block], 0
        if self._count(block) > FEW:
            return self._lowest_of_many(block, offsets.array)
        listed = offsets.listed
        taken = [
            (there + start, there + end)
            for other, start, end in self._few_conflicts(block)
            if (there := listed[other]) != UNPLACED and there + end > 0
        ]
        taken.sort()
        for start, end in taken:
            if place < start:
                break
            if place < end:
                place = -(-end // alignment) * alignment
        return place

    def _lowest_of_many(self, block: int, offsets: Numbers) -> int:
        """Return the same as `lowest`, for a block with many conflicts."""
        behind, starts = self._gaps(block, offsets)
        free = self.aligned_up(block, behind)
        is_free = free[:-1] < starts
        first = int(is_free.argmax())
        return int(free[first if is_free[first] else -1])

    def with_few_places(self, offsets: Sequence[int]) -> list[int]:
        """Return offsets with no higher top; see the function."""
        there, top = np.array(offsets, np.int64), self.top(offsets)
        for _ in range(ROUNDS):
            before = there.copy()
            for blocks, are_rows in self._families():
                if are_rows and self._put_together(blocks, there, top):
                    continue
                places = Counter(there[blocks.start : blocks.stop].tolist())
                for place, _ in sorted(places.items(), key=lambda item: (item[1], item[0])):
                    for i in np.flatnonzero(there[blocks.start : blocks.stop] == place).tolist():
                        self._move(blocks.start + i, there, top, places)
            if (there == before).all():
                break
        return [int(offset) for offset in there]

    def _families(self) -> Iterator[tuple[range, bool]]:
        """Yield the blocks of each tensor, and those of each operator's scratch; and whether they are rows."""
        first = 0
        for tensor in self._problem.tensors:
            blocks = range(first, first + -(-tensor.rows // tensor.group))
            yield blocks, True
            first = blocks.stop
        for _, items in groupby(self.scratch, lambda item: item[0]):
            blocks = range(first, first + len(list(items)))
            yield blocks, False
            first = blocks.stop

    def _put_together(self, blocks: range, there: Numbers, top: int) -> bool:
        """Put blocks behind each other if there is room for that, and return whether there was."""
        sizes = self.sizes[blocks.start : blocks.stop]
        inside = list(accumulate(sizes, initial=0))
        # Offsets of blocks need alignments, and so do all behind the first one.
        if len(blocks) < 2 or inside[-1] > top or any(i % self.alignments[blocks.start] for i in inside[:-1]):
            return False
        highest = top - inside[-1]
        starts, ends = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)]
        for block, distance in zip(blocks, inside, strict=False):
            others, begin, end = self._conflicts_of(block)
            at = there.take(others) - distance
            first, behind = at + begin, at + end
            matter = (first <= highest) & (behind > 0) & ((others < blocks.start) | (others >= blocks.stop))
            starts.append(first[matter])
            ends.append(behind[matter])
        all_starts, all_ends = np.concatenate(starts), np.concatenate(ends)
        order = positions_in_order((all_starts - all_starts.min()) // self.unit)
        free = self.aligned_up(blocks.start, np.maximum.accumulate(all_ends.take(order)))
        following = np.append(all_starts.take(order)[1:], highest + 1)
        found = np.flatnonzero((free < following) & (free + inside[-1] <= top))
        if not len(found):
            return False
        there[blocks.start : blocks.stop] = int(free[found[0]]) + np.array(inside[:-1])
        return True

    def _move(self, block: int, there: Numbers, top: int, places: Counter[int]) -> None:
        """Move a block to the place with the most rows, at least as many as at its own, that has room for it."""
        here = int(there[block])
        highest, least = top - self.sizes[block], places[here]
        usual = [item for item in places.items() if item[1] >= least and item[0] != here and item[0] <= highest]
        if not usual:
            return
        usual.sort(key=lambda item: -item[1])
        candidates = np.array([place for place, _ in usual])
        free, following = self._gaps(block, there)
        has_room = free.take(following.searchsorted(candidates, "right")) <= candidates
        if has_room.any():
            place = usual[int(has_room.argmax())][0]
            there[block] = place
            places[place] += 1
            places[here] -= 1

    def _gaps(self, block: int, there: Numbers) -> tuple[Numbers, Numbers]:
        """Return where conflicts of a block begin, in ascending order, and in front of these the first offset behind
        all conflicts that begin before each, and behind all.

        there: the offset of each block, FAR_BELOW for those without a place.
        """
        others, starts, ends = self._conflicts_of(block)
        at = there.take(others)
        bits = len(others).bit_length()
        keys = (at + starts << bits) + np.arange(len(others))
        keys.sort()
        behind = np.zeros(len(others) + 1, np.int64)
        np.maximum.accumulate((at + ends).take(keys & (1 << bits) - 1), out=behind[1:])
        return np.maximum(behind, 0, out=behind), keys >> bits

    def top(self, offsets: Sequence[int]) -> int:
        """Return the end of the highest block that has a place."""
        ends = (offset + size for offset, size in zip(offsets, self.sizes, strict=True) if offset != UNPLACED)
        return max(ends, default=0)

    def packing(self, offsets: Sequence[int]) -> Packing:
        """Return the offsets of rows and scratch."""
        rows: list[int] = (np.array(offsets, np.int64)[self._block_of] + self._inside).tolist()
        scratch = [[NO_SCRATCH] * len(item.firings) if item.scratch_bytes else [] for item in self._problem.operators]
        for (number, firings), place in zip(self.scratch, offsets[len(offsets) - len(self.scratch) :], strict=True):
            for i in firings:
                scratch[number][i] = place
        return Packing(tuple(rows), tuple(map(tuple, scratch)), self.top(offsets))


@lru_cache(maxsize=KNOWN_BLOCKS)
def _blocks(problem: RowProblem, schedule: tuple[int, ...], unit: int, *, apart: bool) -> _Blocks:
    return _Blocks(problem, schedule, unit, apart=apart)


def positions_in_order(numbers: Numbers | SmallNumbers) -> Numbers:
    """Return the positions of numbers from 0 on in ascending order of these, and of the positions of equal ones.

    Numbers of 16 bits are sorted many times faster than others.
    """
    order = np.arange(len(numbers))
    for shift in range(0, int(numbers.max(initial=0)).bit_length(), 16):
        digits = (numbers >> shift).astype(np.uint16)
        order = order[digits[order].argsort(stable=True)]
    return order


@lru_cache(maxsize=KNOWN_BLOCKS)
def _blocks_of_rows(tensors: tuple[RowTensor, ...]) -> tuple[SmallNumbers, SmallNumbers, SmallNumbers]:
    """Return the block of each row, where it begins in the block, and its size."""
    blocks, inside, sizes = ([np.zeros(0, np.int32)] for _ in range(3))
    count = 0
    for tensor in tensors:
        block, place = np.divmod(np.arange(tensor.rows, dtype=np.int32), tensor.group)
        blocks.append(count + block)
        inside.append(place * tensor.row_bytes)
        sizes.append(np.full(tensor.rows, tensor.row_bytes, np.int32))
        count += -(-tensor.rows // tensor.group)
    return np.concatenate(blocks), np.concatenate(inside), np.concatenate(sizes)


@lru_cache(maxsize=KNOWN_BLOCKS)
def _conflicts_of_rows(
    tensors: tuple[RowTensor, ...],
    lives: tuple[tuple[int, ...], tuple[int, ...]],
    distances: tuple[tuple[tuple[int, int], int], ...],
    unit: int,
) -> tuple[_Parts, _Conflicts]:
    """Return the rows that are used, in the order of their first steps, and what the blocks of all rows exclude.

    Kernels with other scratch have the same.

    Args:
        tensors: Those of the problem.
        lives: The first and the last step of each row.
        distances: By row that is read and row that is written.
        unit: What all offsets at which conflicts begin or end are multiples of.
    """
    blocks, begins, sizes = _blocks_of_rows(tensors)
    firsts, lasts = (np.array(items, np.int32) for items in lives)
    rows = np.flatnonzero(firsts <= lasts)
    rows = rows[firsts[rows].argsort(stable=True)]
    parts = _Parts(blocks[rows], firsts[rows], lasts[rows], begins[rows], (begins + sizes)[rows])
    # Parts that begin while another one is in use follow it: those up to the first one that begins later.
    counts = parts.first.searchsorted(parts.last, "right") - np.arange(1, len(rows) + 1)
    pairs_before = counts.cumsum() - counts
    earlier = np.arange(len(rows), dtype=np.int32).repeat(counts)
    later = np.arange(1, len(earlier) + 1, dtype=np.int32) - pairs_before.astype(np.int32).repeat(counts) + earlier
    is_turned = parts.block[earlier] > parts.block[later]
    one, two = np.where(is_turned, later, earlier), np.where(is_turned, earlier, later)
    # The second part cannot be between these distances behind the first one.
    after, before = parts.begin[one] - parts.end[two], parts.end[one] - parts.begin[two]
    if distances:
        # The row that is read must be at least the distance behind the one that is written.
        part_of = np.full(len(firsts), -1)
        part_of[rows] = np.arange(len(rows))
        read, written = part_of[np.array([item for item, _ in distances])].T
        least = np.array([distance for _, distance in distances])
        lower, upper = np.minimum(read, written), np.maximum(read, written)
        meet = (lower >= 0) & (lower < upper) & (upper - lower <= counts[lower])
        pair, read, least = (pairs_before[lower] + upper - lower - 1)[meet], read[meet], least[meet]
        shift, is_one = parts.begin[one[pair]] - parts.begin[two[pair]], one[pair] == read
        after[pair[is_one]] = np.maximum(after[pair[is_one]], (shift - least)[is_one])
        before[pair[~is_one]] = np.minimum(before[pair[~is_one]], (shift + least)[~is_one])
    count = int(blocks.max(initial=-1)) + 1
    return parts, _conflicts(count, parts.block[one], parts.block[two], after, before, unit)


def _conflicts_with_scratch(
    blocks: int, rows: _Parts, scratch: Sequence[tuple[int, int, int]], unit: int
) -> _Conflicts:
    """Return what blocks of rows exclude because of scratch, and the other way round.

    Args:
        blocks: The number of blocks.
        rows: Those that are used.
        scratch: The block, the step and the size of the scratch of each firing.
        unit: As for _conflicts_of_rows.
    """
    block, step, size = np.array(sorted(scratch, key=lambda item: item[1]), np.int32).reshape(-1, 3).T
    start = step.searchsorted(rows.first)
    counts = step.searchsorted(rows.last, "right") - start
    row = np.arange(len(counts)).repeat(counts)
    other = np.arange(len(row)) - (counts.cumsum() - counts - start).repeat(counts)
    return _conflicts(blocks, rows.block[row], block[other], rows.begin[row] - size[other], rows.end[row], unit)


def _conflicts(
    blocks: int, one: SmallNumbers, two: SmallNumbers, after: SmallNumbers, before: SmallNumbers, unit: int
) -> _Conflicts:
    """Return the conflicts of blocks, in multiples of a unit.

    Args:
        blocks: Their number.
        one: For each pair of parts that are in use at the same time, the block with the lower number, or the same.
        two: The other one.
        after: The second block cannot be further behind the first one than this,
        before: and closer than this.
        unit: What the numbers are rounded to.
    """
    # Large models have millions of pairs of parts, and all of these numbers are below 2^31.
    starts, ends = (after // unit + 1) * unit, -(-before // unit) * unit
    exist = np.flatnonzero((starts < ends) & (one != two))
    one, two, starts, ends = one[exist], two[exist], starts[exist], ends[exist]
    reach = int(max(np.abs(starts).max(initial=0), np.abs(ends).max(initial=0))) * 2 + 1
    keys = two.astype(np.int64) * blocks + one
    order = positions_in_order(keys * (reach // unit + 1) + starts // unit + reach // (2 * unit))
    starts, ends, keys = starts[order], ends[order], keys[order]
    # Conflicts of the same blocks that touch become one.
    pair = np.zeros(len(keys), np.int64)
    np.cumsum(keys[1:] != keys[:-1], out=pair[1:])
    pair *= reach
    furthest = np.maximum.accumulate(ends + pair)
    is_new = np.ones(len(keys), bool)
    is_new[1:] = starts[1:] + pair[1:] > furthest[:-1]
    firsts = np.flatnonzero(is_new)
    lasts = np.append(firsts[1:], len(keys))[: len(firsts)] - 1
    one, two, starts = one[order[firsts]], two[order[firsts]], starts[firsts]
    ends = (furthest[lasts] - pair[lasts]).astype(np.int32)
    # From the second block to the first one, and back: of each block, those with lower ones come first.
    back = positions_in_order(one)
    below, above = (np.bincount(items, minlength=blocks).cumsum() for items in (two, one))
    at = np.arange(len(two)) + (above - np.bincount(one, minlength=blocks))[two]
    at_back = np.arange(len(one)) + below[one[back]]
    results = [np.empty(2 * len(one), np.int32) for _ in range(3)]
    both = ((one, two[back]), (starts, (unit - ends)[back]), (ends, (unit - starts)[back]))
    for result, (there, here) in zip(results, both, strict=True):
        result[at], result[at_back] = there, here
    others, begins, behind = results
    return _Conflicts(others, begins, behind, [0, *(below + above).tolist()])
