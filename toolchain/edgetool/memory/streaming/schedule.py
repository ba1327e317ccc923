"""When each row is computed: segments of operators that run row by row, one segment after the other.

Within a segment, the last operator demands rows: an operator fires when a row is missing, and first demands those that
its own firing reads. Rows are thus computed as late as possible. An operator that only reads, because the application
takes rows of an output, fires as soon as it can. Tensors between segments are complete, and a segment
of one operator is what runtimes without rows do. Segments are chosen for the smallest peak of live bytes.

Live bytes are those of rows that are needed at a step or later, of rows that the step writes, and of its scratch. A row
that is read for the last time may share bytes with the row that is written, as far as the operator's overlaps allow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from edgetool.memory.streaming.problem import RowProblem, steps_of

FOREVER = 1 << 60
# Of all segments that are tried: seconds. They are enough for some 250 operators; with more, the longest segments are
# left out.
FIRINGS = 1_500_000
KNOWN_SCHEDULES = 16  # of the same problems, for which pairs of operators are chosen and plans made


@dataclass(frozen=True, slots=True)
class RowSchedule:
    """The operator that fires at each step, the peak of live bytes, and the first position of each segment."""

    steps: tuple[int, ...]
    peak_bytes: int
    cuts: tuple[int, ...]


@lru_cache(maxsize=KNOWN_SCHEDULES)
def best_schedule(
    problem: RowProblem,
    order: tuple[int, ...] | None = None,
    *,
    most_weights: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> RowSchedule:
    """Return the segments of an order of operators with the smallest peak, the shortest ones where peaks are equal.

    Args:
        problem: What is to be planned.
        order: The operators in an order in which they can run one after the other; by default, that of the problem.
        most_weights: The bytes of constants of all operators in a segment at most, if it has several; None for any.
        stopped: Whether to return the best segments so far; those that were not tried have a single operator.
    """
    order = tuple(range(len(problem.operators))) if order is None else order
    network = _Network(problem, order)
    count = len(order)
    weights = [0, *accumulate(problem.operators[number].weight_bytes for number in order)]
    best = [network.given_bytes] + [FOREVER] * count
    previous = list(range(-1, count))
    tried = 0
    for end in range(1, count + 1):
        for start in range(end - 1, -1, -1):
            is_single = start == end - 1
            # What the ends before have not used is left for the following ones.
            if not is_single and (problem.sequential or tried * count > FIRINGS * end or stopped()):
                break
            if not is_single and most_weights is not None and weights[end] - weights[start] > most_weights:
                break
            if max(best[start], network.live[start], network.live[end]) >= best[end]:
                continue
            segment = _Segment(network, start, end)
            peak = max(best[start], segment.run(best[end]))
            tried += len(segment.steps)
            if peak < best[end]:
                best[end], previous[end] = peak, start
    cuts = [count]
    while cuts[-1]:
        cuts.append(previous[cuts[-1]])
    cuts.reverse()
    return _in_segments(network, tuple(cuts[:-1]))


def schedule_segments(problem: RowProblem, cuts: Sequence[int]) -> RowSchedule:
    """Return the schedule of segments that start at these operators, in the order of the problem; the first is 0."""
    return _in_segments(_Network(problem, range(len(problem.operators))), tuple(cuts))


def _in_segments(network: _Network, cuts: tuple[int, ...]) -> RowSchedule:
    steps: list[int] = []
    peak = network.given_bytes
    for start, end in zip(cuts, (*cuts[1:], len(network.order)) if cuts else (), strict=True):
        segment = _Segment(network, start, end)
        peak = max(peak, segment.run(FOREVER))
        steps += segment.steps
    return RowSchedule(tuple(steps), peak, cuts)


@lru_cache(maxsize=KNOWN_SCHEDULES)
def live_bytes(problem: RowProblem, schedule: tuple[int, ...], *, at_least: bool = False) -> tuple[int, ...]:
    """Return the bytes that are live at each step of a schedule.

    at_least: whether all rows that are read for the last time share bytes with what is written, each as many as it can,
    instead of one of them. No memory is smaller.
    """
    sizes, (first, last) = problem.row_sizes(), row_lives(problem, schedule)
    total = 0
    new_bytes, dying_bytes = ([0] * (len(schedule) + 1) for _ in range(2))
    for size, start, end in zip(sizes, first, last, strict=True):
        if start < 0 <= end:
            total += size
        else:
            new_bytes[start] += size
        dying_bytes[end] += size
    result = []
    for step, (_, firing) in enumerate(steps_of(problem, schedule)):
        new = new_bytes[step]
        total += new
        saved = 0
        if new:
            for row, distance in firing.overlaps:
                if last[row] == step:
                    bytes_saved = saving(sizes[row], new, distance)
                    saved = saved + bytes_saved if at_least else max(saved, bytes_saved)
            saved = min(new, saved)
        result.append(total + firing.scratch_bytes - saved)
        total -= dying_bytes[step]
    return tuple(result)


@lru_cache(maxsize=KNOWN_SCHEDULES)
def row_lives(problem: RowProblem, schedule: tuple[int, ...]) -> tuple[Sequence[int], Sequence[int]]:
    """Return the first step that writes each row, and the last one that reads or writes it.

    The first step is -1 for rows that are given, and the number of steps for those that are never written. The last
    one is that number for rows that are kept, and -1 for those that are never used.
    """
    end = len(schedule)
    first, last = [end] * problem.row_count, [-1] * problem.row_count
    for row in problem.given_rows():
        first[row] = -1
    for step, (_, firing) in enumerate(steps_of(problem, schedule)):
        for row in firing.reads:
            last[row] = step
        for row in firing.writes:
            last[row] = step
            if first[row] == end:
                first[row] = step
    for index, tensor in enumerate(problem.tensors):
        if tensor.kept:
            for row in problem.rows_of(index):
                last[row] = end
    return first, last


def live_tensors(problem: RowProblem, schedule: Sequence[int], steps: Sequence[int]) -> set[int]:
    """Return the tensors of which rows are live at some steps of a schedule."""
    (first, last), tensor_of = row_lives(problem, tuple(schedule)), problem.tensor_of_rows()
    return {tensor for row, tensor in enumerate(tensor_of) if any(first[row] <= step <= last[row] for step in steps)}


def saving(read: int, written: int, distance: int) -> int:
    """Return the bytes that a row that is read and one that is written can share."""
    return max(0, min(read, written - max(0, distance)))


class _Network:
    """The problem in one order, as lists by row and by position in the order."""

    def __init__(self, problem: RowProblem, order: Sequence[int]) -> None:
        self.order = order
        self.sizes = problem.row_sizes()
        self.operators = [problem.operators[number] for number in order]
        # The position that makes each row, its number of firings until the row is complete, and the readers' positions.
        self.maker = [-1] * problem.row_count
        self.firings = [0] * problem.row_count
        self.writes = [0] * problem.row_count
        self.readers: list[list[int]] = [[] for _ in range(problem.row_count)]
        for position, operator in enumerate(self.operators):
            for number, firing in enumerate(operator.firings, 1):
                for row in firing.writes:
                    self.maker[row], self.firings[row] = position, number
                    self.writes[row] += 1
                for row in firing.reads:
                    self.readers[row].append(position)
        # The position of the operator that only reads a row, if there is one.
        self.taker = {
            row: position
            for position, operator in enumerate(self.operators)
            for firing in operator.firings
            if not firing.writes
            for row in firing.reads
        }
        end = len(self.operators)
        given = set(problem.given_rows())
        for row in given:
            self.maker[row] = -1
        for index, tensor in enumerate(problem.tensors):
            if tensor.kept:
                for row in problem.rows_of(index):
                    self.readers[row].append(end)
        self.given_bytes = sum(self.sizes[row] for row in given)
        # The bytes that are live between positions; inputs that nothing reads are gone at the first step.
        change = [0] * (end + 2)
        for row, readers in enumerate(self.readers):
            if readers and (row in given or self.maker[row] >= 0):
                change[0 if row in given else self.maker[row] + 1] += self.sizes[row]
                change[readers[-1] + 1] -= self.sizes[row]
        self.live = [0] * (end + 1)
        total = 0
        for position in range(end + 1):
            total += change[position]
            self.live[position] = total
        self.moves = [
            [self._move(position, number) for number in range(len(item.firings))]
            for position, item in enumerate(self.operators)
        ]
        self._reads = [len(readers) for readers in self.readers]
        self._left: dict[int, list[int]] = {}

    def reads_from(self, start: int) -> list[int]:
        """Return how many firings from a position on read each row."""
        if start not in self._left:
            left = self._left.get(start - 1, self._reads).copy()
            for position in range(start - 1 if start - 1 in self._left else 0, start):
                for move in self.moves[position]:
                    for row in move.reads:
                        left[row] -= 1
            self._left[start] = left
        return self._left[start]

    def _move(self, position: int, number: int) -> _Move:
        operator = self.operators[position]
        firing = operator.firings[number]
        needs: list[tuple[int, int]] = []
        for row in firing.reads:
            source, count = self.maker[row], self.firings[row]
            if source < 0 or source == position:
                continue
            # Of rows of one tensor, the last one is made last.
            if needs and needs[-1][0] == source:
                count = max(count, needs.pop()[1])
            needs.append((source, count))
        created = tuple(row for row in firing.writes if self.maker[row] >= 0)
        new = sum(self.sizes[row] for row in created)
        unread = (row for row in created if not self.readers[row] and number + 1 == self.firings[row])
        savings = ((row, saving(self.sizes[row], new, distance)) for row, distance in firing.overlaps)
        return _Move(
            needs=tuple(needs),
            reads=firing.reads,
            created=created,
            created_bytes=new if all(self.writes[row] == 1 for row in created) else -1,
            unread_bytes=sum(self.sizes[row] for row in unread),
            scratch_bytes=firing.scratch_bytes,
            savings=tuple(sorted(savings, key=lambda item: -item[1])),
            takers=tuple(self.taker[row] for row in firing.writes if row in self.taker),
        )


@dataclass(frozen=True, slots=True)
class _Move:
    """A firing in one order of operators.

    Attributes:
        needs: The positions that make what it reads, and how many of their firings must be done, in the order of rows.
        reads: The rows that it reads.
        created: The rows that it may create: all that it writes and that are not given.
        created_bytes: The bytes of these if no other firing writes them, else -1.
        unread_bytes: The bytes of rows that it completes and that nothing reads.
        scratch_bytes: Those of the firing.
        savings: The rows that it may overlap and the bytes that this saves, the most first.
        takers: The positions of operators that only read what it writes.
    """

    needs: tuple[tuple[int, int], ...]
    reads: tuple[int, ...]
    created: tuple[int, ...]
    created_bytes: int
    unread_bytes: int
    scratch_bytes: int
    savings: tuple[tuple[int, int], ...]
    takers: tuple[int, ...]


class _Segment:
    """The operators from position `start` up to `end`, run row by row."""

    def __init__(self, network: _Network, start: int, end: int) -> None:
        self._network, self._start, self._end = network, start, end
        self._done = [0] * end
        self._left = network.reads_from(start).copy()
        self._written: set[int] = set()
        self._live = network.live[start]
        self._peak = 0
        self.steps: list[int] = []

    def run(self, limit: int) -> int:
        """Return the peak of live bytes; at least the limit as soon as it is reached."""
        moves, done = self._network.moves, self._done
        # Operators that the last one does not depend on come at the end.
        for position in (self._end - 1, *range(self._start, self._end - 1)):
            while done[position] < len(moves[position]):
                self._demand(position, limit)
                if self._peak >= limit:
                    return self._peak
        return self._peak

    def _demand(self, wanted: int, limit: int) -> None:
        """Fire an operator once, after all that this firing needs."""
        moves, done, start = self._network.moves, self._done, self._start
        number = done[wanted]
        stack = [wanted]
        # An operator that only reads may have fired behind one of those that it needs.
        while done[wanted] == number and self._peak < limit:
            position = stack[-1]
            for source, count in moves[position][done[position]].needs:
                if source >= start and done[source] < count:
                    stack.append(source)
                    break
            else:
                self._fire(position)
                stack.pop()

    def _fire(self, position: int) -> None:
        left, sizes = self._left, self._network.sizes
        move = self._network.moves[position][self._done[position]]
        new = move.created_bytes
        if new < 0:
            written = [row for row in move.created if row not in self._written]
            self._written.update(written)
            new = sum(sizes[row] for row in written)
        dying = 0
        for row in move.reads:
            left[row] -= 1
            if not left[row]:
                dying += sizes[row]
        saved = 0
        if dying and new:
            for row, size in move.savings:
                if not left[row]:
                    saved = min(size, new)
                    break
        live = self._live + new
        need = live + move.scratch_bytes - saved
        if need > self._peak:
            self._peak = need
        self._live = live - dying - move.unread_bytes
        self._done[position] += 1
        self.steps.append(self._network.order[position])
        for taker in move.takers:
            while taker < self._end and self._can_fire(taker):
                self._fire(taker)

    def _can_fire(self, position: int) -> bool:
        """Return whether an operator has another firing, and all that it reads is complete."""
        moves, done = self._network.moves[position], self._done
        number = done[position]
        return number < len(moves) and all(
            source < self._start or done[source] >= count for source, count in moves[number].needs
        )
