"""Run plans of rows byte by byte with a made-up arithmetic, to judge the checker; and make simple plans.

A firing computes each byte that it writes from the operator, the firing, the position of the byte, and all bytes that
it has read. It works as badly as its contract permits:

- Its scratch is overwritten before it reads anything and after it has written everything.
- It reads all rows at first. It reads byte b of a row with an overlap of distance d once more right before it writes
  byte b + d: after byte w, it only reads bytes from w + 1 - d on. If byte b + d does not exist, it reads byte b before
  the first byte that it writes or after the last one. Any two bytes that are closer than the distance thus clobber what
  is still read, and others do not.
- It reads other rows once more after the last byte that it writes.
- If it writes several rows, the distance counts from where the first one would be if the others were behind it.

The same program runs twice: with memory of its own for each row, and with the plan. A plan is correct if each firing of
each operator reads and writes the same bytes in both. Bytes have 64 bits here, so that different ones are never equal
by accident. For rows without bytes, it counts how often they have been written.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from edgetool.memory.streaming.problem import NO_SCRATCH, Firing, RowPlan, RowProblem

from .problems import first_schedule, ready_operators

MASK = (1 << 64) - 1
BEGIN, END = (-1, -1), (-2, -2)  # in place of an operator and a firing

# What each firing reads and writes, in the order in which it does.
Trace = dict[tuple[int, int], list[int]]


class Executor:
    """A problem, and what its firings read and write if each row has memory of its own."""

    def __init__(self, problem: RowProblem) -> None:
        self._problem = problem
        self._expected = dict(_run(problem, separate_plan(problem), seed=1))

    def error(self, plan: RowPlan) -> str | None:
        """Return what a plan clobbers or misses; None if it is correct. All offsets must be within the memory."""
        done: Trace = {}
        for key, trace in _run(self._problem, plan, seed=2):
            if key not in self._expected:
                return f"firing {key} does not exist"
            if trace != self._expected[key]:
                return f"firing {key} reads or writes other bytes"
            done[key] = trace
        missing = self._expected.keys() - done.keys()
        return f"firing {min(missing)} is missing" if missing else None


def separate_plan(problem: RowProblem) -> RowPlan:
    """Return a plan in which no two rows or scratch buffers ever share bytes, and operators run one after the other."""
    end = 0
    offsets: list[int] = []
    for tensor in problem.tensors:
        for row in range(tensor.rows):
            end += -end % tensor.alignment if row % tensor.group == 0 else 0
            offsets.append(end)
            end += tensor.row_bytes
    scratch = []
    for operator in problem.operators:
        end += -end % 4
        scratch.append(
            tuple(end if item.scratch_bytes else NO_SCRATCH for item in operator.firings)
            if operator.scratch_bytes
            else ()
        )
        end += operator.scratch_bytes
    return RowPlan(first_schedule(problem), tuple(offsets), tuple(scratch), end)


def _run(problem: RowProblem, plan: RowPlan, seed: int) -> Iterator[tuple[tuple[int, int], list[int]]]:
    """Run a plan; yield each firing with the bytes that it reads and writes."""
    sizes = problem.row_sizes()
    memory = [_mixed(seed, address) for address in range(plan.memory_bytes)]

    def addresses(rows: tuple[int, ...] | list[int]) -> list[int]:
        return [address for row in rows for address in range(plan.offsets[row], plan.offsets[row] + sizes[row])]

    given = list(problem.given_rows())
    kept = [row for index, tensor in enumerate(problem.tensors) if tensor.kept for row in problem.rows_of(index)]
    for position, address in enumerate(addresses(given)):
        memory[address] = _mixed(position)
    yield BEGIN, [memory[address] for address in addresses(given)]

    fired = [0] * len(problem.operators)
    empty = [0] * problem.row_count
    for number in plan.schedule:
        if not 0 <= number < len(problem.operators):
            yield (number, 0), []
            return
        operator, count = problem.operators[number], fired[number]
        if count == len(operator.firings):
            yield (number, count), []
            return
        firing = operator.firings[count]
        start = plan.scratch[number][count] if firing.scratch_bytes else 0
        scratch = range(start, start + firing.scratch_bytes)
        written = addresses(firing.writes)
        for address in scratch:
            memory[address] = _mixed(seed, number, count, address)
        read = [memory[address] for address in addresses(firing.reads)]
        read += [empty[row] for row in firing.reads if not sizes[row]]
        sums = [memory[address] if operator.accumulates and count else 0 for address in written]
        read += sums
        digest = _mixed(*read)
        late = _late_reads(firing, plan.offsets, sizes, len(written))
        for position in range(len(written) + 1):
            for address in late[position]:
                read.append(memory[address])
                digest = _mixed(digest, memory[address])
            if position < len(written):
                value = _mixed(number, count, position, digest)
                memory[written[position]] = sums[position] + value & MASK
        for address in scratch:
            memory[address] = _mixed(seed, number, count, address)
        yield (number, count), read + [memory[address] for address in written]
        fired[number] += 1
        for row in firing.writes:
            empty[row] += 1
    yield END, [memory[address] for address in addresses(kept)]


def _late_reads(firing: Firing, offsets: tuple[int, ...], sizes: list[int], written: int) -> list[list[int]]:
    """Return the addresses that are read again right before each byte that is written, and after the last one."""
    late: list[list[int]] = [[] for _ in range(written + 1)]
    distances = dict(firing.overlaps)
    for row in firing.reads:
        if row in firing.writes:
            continue  # state is read before it is written
        for byte in range(sizes[row]):
            before = min(max(0, byte + distances[row]), written) if row in distances else written
            late[before].append(offsets[row] + byte)
    return late


def _mixed(*values: int) -> int:
    return hash(values) & MASK


@dataclass(frozen=True, slots=True)
class Live:
    """Bytes that are in use from one step to another. row: NO_SCRATCH for scratch."""

    row: int
    begin: int
    end: int
    first: int
    last: int


class SimplePlanner:
    """Any schedule, and blocks in any order at the lowest offset at which they exclude none that is placed."""

    def __init__(self, problem: RowProblem, generator: random.Random, *, overlaps: bool) -> None:
        self._problem, self._generator = problem, generator
        self._sizes = problem.row_sizes()
        self.schedule = self._schedule()
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}
        # By row that is read and row that is written: the least difference of their offsets.
        self._distances: dict[tuple[int, int], int] = {}
        # By operator and firing, and by a number for each.
        self._scratch: list[tuple[int, int]] = []
        self._scratch_steps: list[tuple[int, int]] = []  # with their bytes
        self._find_lives(overlaps=overlaps)

    def plan(self) -> RowPlan:
        """Return the plan."""
        problem = self._problem
        blocks: list[tuple[int, list[int]]] = [(number, []) for number in range(len(self._scratch))]
        alignments = {}
        for index, tensor in enumerate(problem.tensors):
            rows = problem.rows_of(index)
            for first in range(0, tensor.rows, tensor.group):
                blocks.append((NO_SCRATCH, list(rows[first : first + tensor.group])))
                alignments[rows[first]] = tensor.alignment
        self._generator.shuffle(blocks)
        offsets, placed = [0] * problem.row_count, list[Live]()
        scratch = [[NO_SCRATCH] * len(item.firings) if item.scratch_bytes else [] for item in problem.operators]
        ends = [0]
        for number, block in blocks:
            offset = 0
            while any(self._excludes(a, b) for a in self._live(number, block, offset) for b in placed):
                offset += alignments[block[0]] if block else 4
            placed += self._live(number, block, offset)
            if block:
                for row in block:
                    offsets[row] = offset
                    offset += self._sizes[row]
            else:
                operator, firing = self._scratch[number]
                scratch[operator][firing] = offset
                ends.append(offset + self._scratch_steps[number][1])
        ends += [offset + size for offset, size in zip(offsets, self._sizes, strict=True)]
        return RowPlan(self.schedule, tuple(offsets), tuple(map(tuple, scratch)), max(ends))

    def _schedule(self) -> tuple[int, ...]:
        """Return a schedule that prefers some operators to others, by chance."""
        schedule: list[int] = []
        fired = [0] * len(self._problem.operators)
        weights = [self._generator.choice([1, 10, 100]) for _ in fired]
        while ready := ready_operators(self._problem, fired):
            number = self._generator.choices(ready, [weights[number] for number in ready])[0]
            schedule.append(number)
            fired[number] += 1
        return tuple(schedule)

    def _find_lives(self, *, overlaps: bool) -> None:
        problem = self._problem
        for row in problem.given_rows():
            self._first[row] = self._last[row] = -1
        firings = []
        fired = [0] * len(problem.operators)
        for step, number in enumerate(self.schedule):
            firing = problem.operators[number].firings[fired[number]]
            if firing.scratch_bytes:
                self._scratch.append((number, fired[number]))
                self._scratch_steps.append((step, firing.scratch_bytes))
            fired[number] += 1
            firings.append(firing)
            for row in (*firing.reads, *firing.writes):
                self._first.setdefault(row, step)
                self._last[row] = step
        for index, tensor in enumerate(problem.tensors):
            for row in problem.rows_of(index) if tensor.kept else ():
                self._last[row] = len(self.schedule)
        for step, firing in enumerate(firings if overlaps else []):
            position = 0
            for written in firing.writes:
                for row, distance in firing.overlaps:
                    if self._last[row] == step and self._first[written] == step:
                        self._distances[row, written] = distance - position
                position += self._sizes[written]

    def _live(self, number: int, block: list[int], offset: int) -> list[Live]:
        """Return when which bytes of a block at an offset are in use."""
        if not block:
            step, size = self._scratch_steps[number]
            return [Live(NO_SCRATCH, offset, offset + size, step, step)]
        result = []
        for row in block:
            if row in self._first:
                result.append(Live(row, offset, offset + self._sizes[row], self._first[row], self._last[row]))
            offset += self._sizes[row]
        return result

    def _excludes(self, a: Live, b: Live) -> bool:
        """Return whether two share bytes although they must not."""
        if a.first > b.last or b.first > a.last or max(a.begin, b.begin) >= min(a.end, b.end):
            return False
        for read, written in ((a, b), (b, a)):
            distance = self._distances.get((read.row, written.row))
            if distance is not None:
                return read.begin - written.begin < distance
        return True
