"""The minimum memory of plans of rows, by minimum cut, and the memory that each step of a schedule needs.

Before a firing, a set of firings is done that contains what each of them needs: a downset. A row is live if its writer
is in the downset and one of its readers is not. For each firing, consider the downsets after which it could run next,
and of these the one with the fewest live bytes: in every schedule, at least as many are live when it runs, plus its
scratch and what it writes, minus the most that this may overlap. The maximum over the firings, or over some of them, is
a lower bound on the memory of every plan without recomputation.

A downset is one side of a cut: each row is an edge from its writer to its reader, and what a firing needs is an edge of
infinite capacity.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from edgetool.memory.order.bound import FIRST, SINK, SOURCE, FlowGraph
from edgetool.memory.problem import never
from edgetool.memory.streaming.problem import Firing, RowProblem

# Firings that do not exist: the writer of rows that are there before the first step, and the reader of rows that are
# kept. Arrays have entries for them behind those of all firings.
GIVEN, NEVER = -1, -2

Numbers = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int32]  # a downset: how many firings of each operator are done


def row_bound(
    problem: RowProblem,
    schedules: Iterable[Sequence[int]] = (),
    *,
    target: int | None = None,
    cut_limit: int | None = None,
    stop: Callable[[], bool] = never,
) -> int:
    """Return a lower bound in bytes on the memory of every plan that the checker accepts.

    Args:
        problem: Its operators are in an order in which they can run.
        schedules: Valid schedules. Firings that need little in one of them are skipped: the better the schedules, the
            faster the search. They change the result only if it ends early.
        target: The memory of an existing plan: the search ends when no plan can need less.
        cut_limit: How many firings to compute a minimum cut for, None for all that are not skipped.
        stop: Ends the search by returning True; it is called for every firing.
    """
    network = _Network(problem)
    best = network.fixed_bytes
    # In order of the most that a firing's own bound can be. Downsets of others lower it before a cut is computed.
    in_order = [number for number, operator in enumerate(problem.operators) for _ in operator.firings]
    at_most = network.needs_in(in_order)
    for schedule in schedules:
        at_most = np.minimum(at_most, network.needs_in(schedule))
    waiting = [(-int(need), firing) for firing, need in enumerate(at_most)]
    heapify(waiting)
    downsets: list[Counts] = []
    tried = [-1] * len(waiting)
    while waiting and (target is None or best < target) and not stop():
        need, firing = heappop(waiting)
        if -need <= best:
            break
        low, high = network.downsets_before(firing)
        if tried[firing] < len(downsets):
            near = [low] if tried[firing] < 0 else []
            near += [np.clip(downset, low, high) for downset in reversed(downsets[max(0, tried[firing]) :])]
            tried[firing] = len(downsets)
            for downset in near:
                need = max(need, -(network.live_after(downset) + network.during[firing]))
                if -need <= best:
                    break
            else:
                heappush(waiting, (need, firing))
            continue
        if cut_limit is not None and len(downsets) == cut_limit:
            break
        live, downset = network.minimum_live(low, high)
        best = max(best, live + network.during[firing])
        downsets.append(downset)
    return best


def live_bytes(problem: RowProblem, schedule: Sequence[int]) -> list[int]:
    """Return the bytes that each step of a valid schedule needs: live rows, scratch, and what it writes, minus the most
    that this may overlap.
    """
    network = _Network(problem)
    needs = network.needs_in(schedule)
    next_firing = list(network.starts)
    steps = []
    for operator in schedule:
        steps.append(int(needs[next_firing[operator]]))
        next_firing[operator] += 1
    return steps


@dataclass(frozen=True, slots=True)
class _Row:
    """Rows that live and die together.

    Attributes:
        size: Bytes of all.
        writer: The firing that creates them, or GIVEN.
        readers: The last firings that read or update them, except those that others of them come after; none if they
            are kept.
    """

    size: int
    writer: int
    readers: tuple[int, ...]


class _Network:
    """A problem as firings with numbers of their own, in the order of operators, and rows that connect them."""

    def __init__(self, problem: RowProblem) -> None:
        self._operator_of = [number for number, operator in enumerate(problem.operators) for _ in operator.firings]
        self._count_of = [count for operator in problem.operators for count in range(len(operator.firings))]
        # The first firing of each operator, and the number of firings.
        self.starts = [0, *np.cumsum([len(operator.firings) for operator in problem.operators]).tolist()]
        self._operators = problem.operators
        self._sizes = problem.row_sizes()
        self._tensor_of = problem.tensor_of_rows()
        self._tensors = problem.tensors
        self._given = frozenset(problem.given_rows())
        self.fixed_bytes = max(
            sum(self._sizes[row] for row in self._given),
            sum(tensor.rows * tensor.row_bytes for tensor in problem.tensors if tensor.kept),
            # Rows that lie together have addresses of their own, whenever they are live.
            *(min(tensor.rows, tensor.group) * tensor.row_bytes for tensor in problem.tensors),
        )
        # What needs a row to be there, and what creates it. Whatever writes a row once more updates it.
        self._readers: list[list[int]] = [[] for _ in self._sizes]
        self._writer = [GIVEN] * len(self._sizes)
        for index in range(len(self._operator_of)):
            firing = self._firing(index)
            for row in firing.reads:
                self._readers[row].append(index)
            for row in set(firing.writes).difference(firing.reads):
                if self._writer[row] == GIVEN:
                    self._writer[row] = index
                else:
                    self._readers[row].append(index)
        self._needs = self._direct_needs(problem.sequential)
        self._before = self._all_needs()
        self._before_by_operator = np.ascontiguousarray(self._before.T)
        self._rows = self._merged_rows()
        self.during = [self._during(index, self._may_be_last) for index in range(len(self._operator_of))]
        self._positions = np.arange(len(self._operator_of))
        self._lengths = np.diff(self.starts)
        self._row_sizes = np.array([row.size for row in self._rows], np.int64)
        self._row_writers = np.array([row.writer for row in self._rows], np.int64)
        # The first reader of each row, and further ones with their rows.
        readers = [row.readers or (NEVER,) for row in self._rows]
        self._first_readers = np.array([item[0] for item in readers], np.int64)
        others = [(index, reader) for index, item in enumerate(readers) for reader in item[1:]]
        self._other_rows, self._other_readers = np.array(others, np.int64).reshape(-1, 2).T

    # -- building

    def _firing(self, index: int) -> Firing:
        return self._operators[self._operator_of[index]].firings[self._count_of[index]]

    def _direct_needs(self, sequential: bool) -> list[list[int]]:
        """Return the firings that each firing needs: of each operator, the last one."""
        completed_by: dict[int, dict[int, int]] = defaultdict(dict)
        for index, number in enumerate(self._operator_of):
            for row in self._firing(index).writes:
                if row not in self._given:
                    completed_by[row][number] = index
        result = []
        for index in range(len(self._operator_of)):
            last: dict[int, int] = {}
            for row in self._firing(index).reads:
                for number, needed in completed_by.get(row, {}).items():
                    last[number] = max(needed, last.get(number, needed))
            if index and (self._count_of[index] or sequential):
                last[self._operator_of[index - 1]] = index - 1
            result.append(list(last.values()))
        return result

    def _all_needs(self) -> Counts:
        """Return how many firings of each operator must be done before each firing."""
        before = np.zeros((len(self._operator_of), len(self._operators)), np.int32)
        for index, needs in enumerate(self._needs):
            for needed in needs:
                np.maximum(before[index], before[needed], out=before[index])
            for needed in needs:
                number = self._operator_of[needed]
                before[index, number] = max(before[index, number], self._count_of[needed] + 1)
        return before

    def _comes_before(self, first: int, second: int) -> bool:
        """Return whether the second firing needs the first one."""
        return bool(self._before[second, self._operator_of[first]] > self._count_of[first])

    def _merged_rows(self) -> list[_Row]:
        sizes: dict[tuple[int, tuple[int, ...]], int] = defaultdict(int)
        for row, size in enumerate(self._sizes):
            tensor, writer = self._tensors[self._tensor_of[row]], self._writer[row]
            if not size or (writer == GIVEN and row not in self._given):
                continue
            last = {self._operator_of[index]: index for index in self._readers[row] if index != writer}.values()
            readers = tuple(index for index in last if not any(self._comes_before(index, other) for other in last))
            if readers or tensor.kept:
                sizes[writer, () if tensor.kept else readers] += size
        return [_Row(size, writer, readers) for (writer, readers), size in sizes.items()]

    # -- what a firing needs

    def _may_be_last(self, index: int, row: int) -> bool:
        """Return whether a firing can be the last one that reads a row."""
        return not any(self._comes_before(index, other) for other in self._readers[row])

    def _during(self, index: int, is_last: Callable[[int, int], bool]) -> int:
        """Return what a firing needs in addition to the rows that are live before it.

        is_last: whether a firing is the last one that reads a row.
        """
        firing = self._firing(index)
        # Distances count from the first byte that is written, as if all rows were behind each other.
        created = []
        position = 0
        for row in firing.writes:
            if self._writer[row] == index:
                created.append((position, self._sizes[row]))
            position += self._sizes[row]
        distances = {
            row: distance
            for row, distance in firing.overlaps
            if not self._tensors[self._tensor_of[row]].kept and is_last(index, row)
        }
        # From the furthest row on: it and all before can only overlap bytes that are at its distance or further.
        saved = 0
        for row in sorted(distances, key=lambda row: -distances[row]):
            behind = sum(max(0, size - max(0, distances[row] - start)) for start, size in created)
            saved = min(saved + self._sizes[row], behind)
        return firing.scratch_bytes + sum(size for _, size in created) - saved

    def needs_in(self, schedule: Sequence[int]) -> Numbers:
        """Return the bytes that each firing needs in a schedule."""
        count = len(self._operator_of)
        step = np.full(count + 2, -1, np.int64)
        step[NEVER] = count
        next_firing = list(self.starts)
        for position, number in enumerate(schedule):
            step[next_firing[number]] = position
            next_firing[number] += 1
        change = np.zeros(count + 2, np.int64)
        last = step[self._first_readers]
        np.maximum.at(last, self._other_rows, step[self._other_readers])
        np.add.at(change, step[self._row_writers] + 1, self._row_sizes)
        np.add.at(change, last + 1, -self._row_sizes)
        live = np.cumsum(change)
        position_of = step.tolist()

        def is_last(index: int, row: int) -> bool:
            return all(position_of[other] <= position_of[index] for other in self._readers[row])

        during = [self._during(index, is_last) for index in range(count)]
        return live[step[:count]] + np.array(during, np.int64)

    # -- downsets

    def downsets_before(self, index: int) -> tuple[Counts, Counts]:
        """Return the smallest and the largest downset after which a firing can run next."""
        is_after = self._before_by_operator[self._operator_of[index]] > self._count_of[index]
        is_after[index] = True
        after = np.concatenate([[0], np.cumsum(is_after)])[self.starts]
        return self._before[index], (self._lengths - np.diff(after)).astype(np.int32)

    def live_after(self, downset: Counts) -> int:
        """Return the live bytes after a downset."""
        is_done = np.zeros(len(self._positions) + 2, bool)
        np.less(self._positions, np.repeat(self.starts[:-1] + downset, self._lengths), out=is_done[:-2])
        is_done[GIVEN] = True
        is_live = ~is_done[self._first_readers]
        is_live[self._other_rows[~is_done[self._other_readers]]] = True
        is_live &= is_done[self._row_writers]
        return int(self._row_sizes[is_live].sum())

    def minimum_live(self, low: Counts, high: Counts) -> tuple[int, Counts]:
        """Return the fewest bytes that are live after a downset between two, and the downset."""
        node = []
        count = FIRST
        for number, (start, end) in enumerate(pairwise(self.starts)):
            free = int(high[number] - low[number])
            node += [SOURCE] * int(low[number]) + list(range(count, count + free))
            node += [SINK] * (end - start - int(high[number]))
            count += free
        node.append(SOURCE)  # GIVEN
        graph = FlowGraph(count)
        capacities: dict[tuple[int, int], int] = defaultdict(int)
        for row in self._rows:
            start = node[row.writer]
            ends = {node[reader] for reader in row.readers} - {SOURCE} if row.readers else {SINK}
            if start == SINK or not ends:
                continue
            if SINK in ends:
                ends = {SINK}
            if len(ends) == 1:
                capacities[start, ends.pop()] += row.size
            else:
                last = graph.add_node()
                graph.add(start, last, row.size)
                for end in sorted(ends):
                    graph.add(last, end, None)
        constant = capacities.pop((SOURCE, SINK), 0)
        for (start, end), size in capacities.items():
            graph.add(start, end, size)
        for index, needs in enumerate(self._needs):
            if node[index] >= FIRST:
                for needed in needs:
                    if node[needed] >= FIRST:
                        graph.add(node[index], node[needed], None)
        cut = graph.maximum_flow(SOURCE, SINK, from_sink=True)
        reached = graph.reached(SOURCE)
        is_done = [reached[item] for item in node[:-1]]
        done = np.concatenate([[0], np.cumsum(is_done)])[self.starts]
        return constant + cut, np.diff(done).astype(np.int32)
