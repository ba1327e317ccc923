"""Judge a plan of rows by executing it symbolically. Nothing here is shared with the planner.

The memory is an array with the row that each byte belongs to. A step may read a row only if the row is complete and
still owns all of its bytes. What it writes takes over the bytes, so that a row that is overwritten too early is noticed
when it is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from edgetool.errors import InternalError
from edgetool.memory.streaming.problem import Firing, PlacedRows, RowPlan, RowProblem, SeveralRows

NOTHING = -1  # the owner of a byte that no row has
SCRATCH_ALIGNMENT = 4
UNIT = 64  # offsets of large plans are multiples of a power of two up to this


def row_plan_problems(problem: RowProblem, plan: RowPlan) -> list[str]:
    """Return what is wrong with a plan: nothing if it is valid. The first error ends the execution."""
    firings = [len(operator.firings) if operator.scratch_bytes else 0 for operator in problem.operators]
    if len(plan.offsets) != problem.row_count or [len(offsets) for offsets in plan.scratch] != firings:
        return ["the plan is of another problem"]
    placed = [*_part_problems(problem, plan), *_placement_problems(problem, plan)]
    return placed[:1] or _Execution(problem, plan).problems()


def require_valid_rows(problem: RowProblem, plan: RowPlan) -> None:
    """Raise InternalError if a plan is not valid."""
    problems = row_plan_problems(problem, plan)
    if problems:
        raise InternalError(f"a plan of rows is invalid: {problems[0]}")


def require_valid_placed_rows(several: SeveralRows, placed: PlacedRows) -> None:
    """Raise InternalError if a plan in several memories is not valid, or not that of its choice.

    The rules: the plan is valid; each item is in the part of its memory, where it can be; no part is larger than the
    memory; and the cost is the sum of the items' costs and not below the bound.
    """
    require_valid_rows(several.problem, placed.plan)
    choice, problem, problems = placed.choice, several.problem, []
    costs = [row[memory] for row, memory in zip(several.costs, choice.memories, strict=True)]
    problems += [f"item {index} cannot be in its memory" for index, cost in enumerate(costs) if cost is None]
    cost = sum(item or 0 for item in costs)
    if cost != choice.cost or cost < choice.lower_bound or (choice.optimal and cost != choice.lower_bound):
        problems.append(f"the cost is {cost}, not {choice.cost}, with the bound {choice.lower_bound}")
    parts = {part.memory: part for part in placed.plan.parts}
    for memory, height in zip(several.memories, choice.heights, strict=True):
        size = parts[memory.name].size_bytes if memory.name in parts else 0
        if size != height or size > memory.size_bytes:
            problems.append(f"{size} bytes of {memory.name}, which has {memory.size_bytes}, are not {height}")
    rows = [(problem.rows_of(i), tensor.row_bytes) for i, tensor in enumerate(problem.tensors)]
    ranges = [[(placed.plan.offsets[row], size) for row in numbers] for numbers, size in rows]
    for operator, places in zip(problem.operators, placed.plan.scratch, strict=True):
        firings = zip(operator.firings, places, strict=False)
        ranges.append([(place, firing.scratch_bytes) for firing, place in firings])
    for index, (items, number) in enumerate(zip(ranges, choice.memories, strict=True)):
        part = parts.get(several.memories[number].name)
        for start, size in items:
            if size and (part is None or not part.start <= start <= part.start + part.size_bytes - size):
                problems.append(f"item {index} is not in the part of its memory")
    lowest = placed.lowest
    if lowest is not None and (
        lowest.layout != choice
        or lowest.height < lowest.lower_bound_bytes
        or (lowest.proof != "none" and lowest.height != lowest.lower_bound_bytes)
    ):
        problems.append(f"the height is {lowest.height}, with the bound {lowest.lower_bound_bytes}")
    if problems:
        raise InternalError(f"the placement of rows is invalid: {problems[0]}")


def _placement_problems(problem: RowProblem, plan: RowPlan) -> list[str]:
    """Return what is outside the memory, not aligned, or not behind the row that it must be behind."""
    problems = []
    # So much is enough for all rows and scratch side by side. No plan needs more, and a damaged one may have 2**60.
    enough = sum(tensor.rows * (tensor.row_bytes + tensor.alignment + UNIT) for tensor in problem.tensors)
    enough += sum(operator.scratch_bytes + SCRATCH_ALIGNMENT + UNIT for operator in problem.operators)
    enough += UNIT * len(plan.parts)
    if not 0 <= plan.memory_bytes <= enough:
        problems.append(f"{plan.memory_bytes} bytes of memory are not between 0 and {enough}")
    for index, tensor in enumerate(problem.tensors):
        for i, row in enumerate(problem.rows_of(index)):
            offset = plan.offsets[row]
            if not 0 <= offset <= plan.memory_bytes - tensor.row_bytes:
                problems.append(f"row {i} of {tensor.name} is outside the memory")
            elif i % tensor.group and offset != plan.offsets[row - 1] + tensor.row_bytes:
                problems.append(f"row {i} of {tensor.name} is not behind row {i - 1}")
            elif i % tensor.group == 0 and offset % tensor.alignment:
                problems.append(f"row {i} of {tensor.name} is not aligned")
    for operator, offsets in zip(problem.operators, plan.scratch, strict=True):
        for firing, offset in zip(operator.firings, offsets, strict=False):
            is_inside = 0 <= offset <= plan.memory_bytes - firing.scratch_bytes
            if firing.scratch_bytes and (not is_inside or offset % SCRATCH_ALIGNMENT):
                problems.append(f"the scratch of {operator.name} is outside the memory or not aligned")
    return problems


def _part_problems(problem: RowProblem, plan: RowPlan) -> list[str]:
    """Return what is wrong with the parts of the memory, and what is not in one of them as a whole.

    Offsets are those in all parts, one behind the other: in the others, which follow, nothing of it may be.
    """
    if not plan.parts:
        return []
    problems = []
    alignment = max([SCRATCH_ALIGNMENT, *(tensor.alignment for tensor in problem.tensors)])
    end = 0
    for part in plan.parts:
        if part.size_bytes <= 0 or not end <= part.start < end + alignment or part.start % alignment:
            problems.append(f"the part in {part.memory} is not behind the one before, or not aligned")
        end = part.start + part.size_bytes
    if end != plan.memory_bytes:
        problems.append(f"the parts end at {end}, and the memory at {plan.memory_bytes}")

    def is_in_one(ranges: Sequence[tuple[int, int]]) -> bool:
        low, high = min(start for start, _ in ranges), max(start + size for start, size in ranges)
        return any(part.start <= low and high <= part.start + part.size_bytes for part in plan.parts)

    for index, tensor in enumerate(problem.tensors):
        rows = [(plan.offsets[row], tensor.row_bytes) for row in problem.rows_of(index)]
        if rows and tensor.row_bytes and not is_in_one(rows):
            problems.append(f"the rows of {tensor.name} are in several memories")
    for operator, offsets in zip(problem.operators, plan.scratch, strict=True):
        firings = zip(operator.firings, offsets, strict=False)
        scratch = [(offset, firing.scratch_bytes) for firing, offset in firings if firing.scratch_bytes]
        if scratch and not is_in_one(scratch):
            problems.append(f"the scratch of {operator.name} is in several memories")
    return problems


class _Execution:
    """The memory while a schedule runs."""

    def __init__(self, problem: RowProblem, plan: RowPlan) -> None:
        self._problem, self._plan = problem, plan
        self._sizes = problem.row_sizes()
        self._owner: npt.NDArray[np.int32] = np.full(plan.memory_bytes, NOTHING, np.int32)
        self._fired = [0] * len(problem.operators)
        self._given = list(problem.given_rows())
        self._kept = [row for i, tensor in enumerate(problem.tensors) if tensor.kept for row in problem.rows_of(i)]
        # How many firings have yet to write a row, and which rows have been written. Given rows are always complete.
        self._missing = Counter(row for item in problem.operators for firing in item.firings for row in firing.writes)
        self._written: set[int] = set()
        for row in self._given:
            del self._missing[row]

    def problems(self) -> list[str]:
        """Run the schedule and return the first error."""
        self._take(self._given)
        for row in self._overwritten(self._given):
            return [f"{self._name(row)} shares bytes with another input"]
        for step, number in enumerate(self._plan.schedule):
            error = self._step(number)
            if error:
                return [f"step {step}: {error}"]
        for operator, fired in zip(self._problem.operators, self._fired, strict=True):
            if fired != len(operator.firings):
                return [f"{operator.name} fires {fired} times instead of {len(operator.firings)}"]
        for row in self._overwritten(self._kept):
            return [f"{self._name(row)}, which is kept, is not there after the last step"]
        return []

    def _step(self, number: int) -> str | None:
        """Fire an operator; return what is wrong."""
        if not 0 <= number < len(self._problem.operators):
            return f"operator {number} does not exist"
        operator, count = self._problem.operators[number], self._fired[number]
        if count == len(operator.firings):
            return f"{operator.name} fires once too often"
        if self._problem.sequential and any(
            done != len(item.firings)
            for item, done in zip(self._problem.operators[:number], self._fired[:number], strict=True)
        ):
            return f"{operator.name} fires before an operator that must come first"
        firing = operator.firings[count]
        for row in firing.reads:
            if self._missing[row] > 0:
                return f"{operator.name} reads {self._name(row)}, which is not complete"
        # What was written before is updated, as sums are.
        read = [*firing.reads, *(row for row in firing.writes if row in self._written)]
        for row in self._overwritten(read):
            return f"{operator.name} reads {self._name(row)}, which is not there"
        scratch = slice(0)
        if firing.scratch_bytes:
            start = self._plan.scratch[number][count]
            scratch = slice(start, start + firing.scratch_bytes)
            self._owner[scratch] = NOTHING
            for row in self._overwritten(read):
                return f"{operator.name}: its scratch shares bytes with {self._name(row)}, which it reads"
        self._take(firing.writes)
        if (self._owner[scratch] != NOTHING).any():
            return f"{operator.name}: its scratch shares bytes with a row that it writes"
        for row in self._overwritten(firing.writes):
            return f"{operator.name}: {self._name(row)} shares bytes with another row that it writes"
        self._fired[number] += 1
        self._missing.subtract(firing.writes)
        self._written.update(firing.writes)
        error = self._sharing_error(firing)
        return f"{operator.name}: {error}" if error else None

    def _sharing_error(self, firing: Firing) -> str | None:
        """Return which row that a firing reads is overwritten, or too close to the bytes that overwrite it."""
        distances = dict(firing.overlaps)
        for row in self._overwritten([row for row in firing.reads if row not in distances]):
            return f"{self._name(row)}, which it reads, shares bytes with a row that it writes"
        before = 0  # bytes that are written before the row: distances count from the first byte that is written
        for written in firing.writes:
            start, end = self._range(written)
            for row, distance in firing.overlaps:
                first, last = self._range(row)
                if max(start, first) < min(end, last) and row != written and first - (start - before) < distance:
                    return f"{self._name(written)} is too close to {self._name(row)}, which it reads"
            before += end - start
        return None

    def _range(self, row: int) -> tuple[int, int]:
        offset = self._plan.offsets[row]
        return offset, offset + self._sizes[row]

    def _take(self, rows: Iterable[int]) -> None:
        """Give rows their bytes."""
        for row in rows:
            start, end = self._range(row)
            self._owner[start:end] = row

    def _overwritten(self, rows: Iterable[int]) -> Iterator[int]:
        """Return the rows that do not own all of their bytes."""
        for row in rows:
            start, end = self._range(row)
            if np.count_nonzero(self._owner[start:end] != row):
                yield row

    def _name(self, row: int) -> str:
        for index, tensor in enumerate(self._problem.tensors):
            if row in self._problem.rows_of(index):
                return f"row {row - self._problem.first_row(index)} of {tensor.name}"
        return f"row {row}"
