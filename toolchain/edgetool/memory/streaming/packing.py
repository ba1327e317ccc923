"""Where each row is: offsets for the rows and the scratch of a schedule, in as little memory as possible.

A block is what lies together: a group of rows, or an operator's scratch. Each of its rows occupies its bytes from the
step that writes it to the last one that reads it, scratch at all steps of its operator. Blocks are placed one by one at
the lowest offset that is free; the order of placement is searched: blocks that end at the top come earlier next time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgetool.memory.streaming.problem import NO_SCRATCH, RowProblem, steps_of
from edgetool.memory.streaming.schedule import first_steps, last_steps

PASSES = 40  # placements of all blocks, unless the target is reached before
PATIENCE = 10  # placements without a better one until the search continues from another order
SCRATCH_ALIGNMENT = 4
UNPLACED = -1
FAR = 1 << 40

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
    stopped: Callable[[], bool] = lambda: False,
) -> Packing:
    """Return offsets for a schedule.

    Args:
        problem: The rows and firings.
        schedule: The operator that fires at each step.
        target: The memory at which to stop, such as the peak of live bytes.
        unit: All offsets are multiples of it.
        passes: How often to place all blocks at most.
        stopped: Whether to stop after the current pass.
    """
    blocks = _Blocks(problem, schedule, unit)
    found: list[tuple[int, Numbers, list[int]]] = []
    for order in blocks.first_orders():
        top, offsets = blocks.place(order)
        found.append((top, offsets, order))
        if top <= target or stopped():
            break
    found.sort(key=lambda item: item[0])
    best, count = found[0][:2], len(found)
    for top, offsets, order in found:
        idle = 0
        while best[0] > target and idle < PATIENCE and count < passes and not stopped():
            highest = offsets + blocks.sizes == top
            order = [*(i for i in order if highest[i]), *(i for i in order if not highest[i])]
            top, offsets = blocks.place(order)
            count += 1
            idle += 1
            if top < best[0]:
                best, idle = (top, offsets), 0
    return blocks.packing(best[1], best[0])


def _lie_together(problem: RowProblem, tensor_of: Sequence[int], rows: Sequence[int]) -> bool:
    """Return whether rows are in one group, one behind the other."""
    tensor = tensor_of[rows[0]]
    first, group = problem.first_row(tensor), problem.tensors[tensor].group
    places = [row - first for row in rows]
    return places == list(range(places[0], places[0] + len(rows))) and places[0] // group == places[-1] // group


class _Blocks:
    """Blocks with their sizes and alignments, and what each excludes for each other one that is live with it.

    If block j is at offset o, then block i cannot be at offsets from o + after[i][k] + 1 to o + before[i][k] - 1, where
    j is neighbours[i][k].
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
        sizes, alignments = [], []
        rectangles: list[tuple[int, int, int, int, int, int]] = []  # block, row, first and last step, bytes
        for index, tensor in enumerate(problem.tensors):
            for i, row in enumerate(problem.rows_of(index)):
                inside = i % tensor.group
                if inside == 0:
                    count = min(tensor.group, tensor.rows - i)
                    sizes.append(count * tensor.row_bytes)
                    alignments.append(max(unit, tensor.alignment))
                begin = inside * tensor.row_bytes
                if first[row] <= last[row] or tensor.given:
                    rectangles.append(
                        (len(sizes) - 1, row, first[row], max(first[row], last[row]), begin, begin + tensor.row_bytes)
                    )
        self.operators = sorted(scratch_steps)
        for number in self.operators:
            size = problem.operators[number].scratch_bytes
            sizes.append(size)
            alignments.append(max(unit, SCRATCH_ALIGNMENT))
            rectangles += [(len(sizes) - 1, UNPLACED, step, step, 0, size) for step in scratch_steps[number]]
        self.sizes = np.array(sizes, np.int64)
        self._alignments = alignments
        self._lives = self._connect(np.array(rectangles, np.int64).reshape(-1, 6), distances)

    def _connect(self, rectangles: Numbers, distances: dict[tuple[int, int], int]) -> list[tuple[int, int]]:
        """Find out what each block excludes; return the first and last step of each."""
        count = len(self.sizes)
        block, row, first, last, begin, end = rectangles.T
        partners: dict[int, dict[int, int]] = {}
        for (source, target), distance in distances.items():
            partners.setdefault(source, {})[target] = distance
            partners.setdefault(target, {})[source] = distance
        found: list[list[Numbers]] = [[] for _ in range(count)]
        lives = [(FAR, -1)] * count
        for i in range(len(rectangles)):
            b = int(block[i])
            lives[b] = min(lives[b][0], int(first[i])), max(lives[b][1], int(last[i]))
            others = np.flatnonzero((first <= last[i]) & (last >= first[i]) & (block != b))
            after, before = begin[others] - end[i], end[others] - begin[i]
            mine = partners.get(int(row[i])) if row[i] >= 0 else None
            for k, other in enumerate(row[others].tolist()) if mine else ():
                if mine and other in mine:
                    source, target = (int(row[i]), other) if (int(row[i]), other) in distances else (other, int(row[i]))
                    # The row that is read must be at least the distance behind the one that is written.
                    limit = distances[source, target] + int(begin[others[k]] - begin[i])
                    if source == row[i]:
                        before[k] = min(before[k], limit)
                    else:
                        limit = int(begin[others[k]] - begin[i]) - distances[source, target]
                        after[k] = max(after[k], limit)
            found[b].append(np.stack([block[others], after, before]))
        empty: Numbers = np.zeros((3, 0), np.int64)
        joined = [np.unique(np.concatenate(items, axis=1), axis=1) if items else empty for items in found]
        self.neighbours = [item[0] for item in joined]
        self.after = [item[1] for item in joined]
        self.before = [item[2] for item in joined]
        return lives

    def first_orders(self) -> list[list[int]]:
        """Return orders of placement to start from."""
        blocks = range(len(self.sizes))
        sizes, lives = self.sizes.tolist(), self._lives
        return [
            sorted(blocks, key=lambda i: (lives[i][0], -sizes[i])),
            sorted(blocks, key=lambda i: (-sizes[i], lives[i][0])),
            sorted(blocks, key=lambda i: (lives[i][0] - lives[i][1], -sizes[i])),
            sorted(blocks, key=lambda i: (lives[i][0] - lives[i][1]) * sizes[i]),
        ]

    def place(self, order: Sequence[int]) -> tuple[int, Numbers]:
        """Place blocks in an order; return the top and the offset of each."""
        offsets: Numbers = np.full(len(self.sizes), UNPLACED, np.int64)
        for i in order:
            alignment = self._alignments[i]
            there = offsets[self.neighbours[i]]
            placed = there >= 0
            there = there[placed]
            offset = 0
            if there.size:
                after, before = there + self.after[i][placed], there + self.before[i][placed]
                by_start = np.argsort(after, kind="stable")
                ends = np.maximum.accumulate(before[by_start])
                # Candidates: 0 and the end of each run of excluded offsets.
                candidates = np.maximum(0, np.concatenate([np.zeros(1, np.int64), ends]))
                candidates = -(-candidates // alignment) * alignment
                limits = np.append(after[by_start], FAR)
                offset = int(candidates[np.argmax(candidates <= limits)])
            offsets[i] = offset
        return int((offsets + self.sizes).max(initial=0)), offsets

    def packing(self, offsets: Numbers, top: int) -> Packing:
        """Return the offsets of rows and scratch."""
        placed = iter(offsets.tolist())
        rows: list[int] = []
        start = 0
        for tensor in self._problem.tensors:
            for i in range(tensor.rows):
                start = next(placed) if i % tensor.group == 0 else start
                rows.append(start + i % tensor.group * tensor.row_bytes)
        scratch = [NO_SCRATCH] * len(self._problem.operators)
        for number in self.operators:
            scratch[number] = next(placed)
        return Packing(tuple(rows), tuple(scratch), top)
