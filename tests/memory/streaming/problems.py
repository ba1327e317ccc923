"""Random small problems of planning rows, of every kind, and their schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from edgetool.memory.streaming.problem import Firing, RowOperator, RowProblem, RowTensor

KINDS = ("window", "window", "window", "row by row", "row by row", "join", "whole", "accumulate", "resize")


@st.composite
def row_problems(
    draw: st.DrawFn, most_operators: int = 4, most_rows: int = 4, *, with_state: bool = True
) -> RowProblem:
    """Chains and DAGs of windows with strides and bands, joins, accumulating and whole operators, resizing, or state.

    Inputs are given, partly or as a whole, or written by an operator of their own. Rows may consist of two cells that
    lie together. Sizes are 0 to 12 bytes, so that problems are small enough for brute force.
    """
    network = _Network(most_rows)
    for _ in range(draw(st.integers(1, 2))):
        rows = draw(st.integers(1, most_rows))
        is_given = draw(st.booleans())
        computed = draw(st.integers(0, rows - 1)) if is_given else rows
        tensor = network.add_tensor(draw, rows, given=is_given, computed=computed)
        if computed:
            written = [tuple(network.row(tensor, row)) for row in range(rows - computed, rows)]
            network.add_operator(draw, "feed", [Firing((), writes) for writes in written], scratch=0)
    for _ in range(draw(st.integers(1, most_operators))):
        _add_operator(draw, network)
    if with_state and draw(st.integers(0, 9)) == 0:
        return _with_state(draw, network)
    return network.problem(draw)


def minimal_problem(*tensors: RowTensor, operators: Sequence[RowOperator]) -> RowProblem:
    """Return a problem with the tensors in order."""
    return RowProblem(tensors, tuple(operators))


def given_bytes(problem: RowProblem) -> int:
    """Return the bytes of the rows that exist before the first step."""
    sizes = problem.row_sizes()
    return sum(sizes[row] for row in problem.given_rows())


def first_schedule(problem: RowProblem) -> tuple[int, ...]:
    """Return the schedule that runs each operator as a whole, in the problem's order."""
    return tuple(number for number, operator in enumerate(problem.operators) for _ in operator.firings)


@st.composite
def schedules(draw: st.DrawFn, problem: RowProblem) -> tuple[int, ...]:
    """Any schedule whose firings read only complete rows."""
    fired = [0] * len(problem.operators)
    schedule = []
    while ready := ready_operators(problem, fired):
        operator = draw(st.sampled_from(ready))
        fired[operator] += 1
        schedule.append(operator)
    return tuple(schedule)


def ready_operators(problem: RowProblem, fired: Sequence[int]) -> list[int]:
    """Return which operators can fire next: what they read is given or complete."""
    incomplete = {
        row
        for operator, count in zip(problem.operators, fired, strict=True)
        for firing in operator.firings[count:]
        for row in firing.writes
    }
    incomplete.difference_update(problem.given_rows())
    ready = []
    for number, operator in enumerate(problem.operators):
        if fired[number] < len(operator.firings):
            firing = operator.firings[fired[number]]
            if incomplete.isdisjoint(firing.reads):
                ready.append(number)
            if problem.sequential:
                return ready[:1]
    return ready


class _Network:
    """A problem under construction. A tensor has rows of one or two cells; the rows of the problem are the cells."""

    def __init__(self, most_rows: int) -> None:
        self.most_rows = most_rows
        self.tensors: list[RowTensor] = []
        self.cells: list[int] = []
        self.operators: list[RowOperator] = []
        self._starts = [0]

    def add_tensor(
        self, draw: st.DrawFn, rows: int, *, given: bool = False, computed: int = 0, element: int | None = None
    ) -> int:
        cells = draw(st.sampled_from([1, 1, 1, 2]))
        size = draw(st.integers(0, 12 // cells)) if element is None else element
        self.tensors.append(
            RowTensor(
                name=f"t{len(self.tensors)}",
                rows=rows * cells,
                row_bytes=size,
                group=rows * cells if cells > 1 else draw(st.sampled_from([1, 1, rows])),
                alignment=draw(st.sampled_from([1, 1, 1, 2, 4])),
                given=given,
                computed=computed * cells if given else 0,
            )
        )
        self.cells.append(cells)
        self._starts.append(self._starts[-1] + rows * cells)
        return len(self.tensors) - 1

    def rows(self, tensor: int) -> int:
        return self.tensors[tensor].rows // self.cells[tensor]

    def row(self, tensor: int, row: int) -> range:
        """Return the cells of a row."""
        first = self._starts[tensor] + row * self.cells[tensor]
        return range(first, first + self.cells[tensor])

    def all_cells(self, tensor: int) -> tuple[int, ...]:
        return tuple(range(self._starts[tensor], self._starts[tensor + 1]))

    def add_operator(
        self,
        draw: st.DrawFn,
        name: str,
        firings: list[Firing],
        *,
        scratch: int | None = None,
        accumulates: bool = False,
    ) -> None:
        size = draw(st.sampled_from([0, 0, 0, 1, 4, 7])) if scratch is None else scratch
        # Some kernels do without at some firings.
        bare = draw(st.sets(st.integers(0, len(firings)))) if size and draw(st.booleans()) else set[int]()
        made = (replace(item, scratch_bytes=0 if i in bare else size) for i, item in enumerate(firings))
        self.operators.append(RowOperator(f"{name}{len(self.operators)}", tuple(made), accumulates))

    def problem(self, draw: st.DrawFn) -> RowProblem:
        """Return the problem; what nothing reads is kept or not, and so is now and then what something reads.

        Some tensors are taken row by row by operators that write nothing.
        """
        for index in range(len(self.tensors)):
            if draw(st.integers(0, 4)) == 0:
                rows = [tuple(self.row(index, row)) for row in range(self.rows(index))]
                self.add_operator(draw, "take", [Firing(cells, ()) for cells in rows], scratch=0)
        read = {row for operator in self.operators for firing in operator.firings for row in firing.reads}
        tensors = []
        for index, tensor in enumerate(self.tensors):
            is_read = bool(read & set(self.all_cells(index)))
            kept = draw(st.integers(0, 9)) == 0 if is_read else draw(st.integers(0, 4)) > 0
            tensors.append(_replaced(tensor, kept=kept))
        return RowProblem(tuple(tensors), tuple(self.operators))


def _replaced(tensor: RowTensor, *, kept: bool) -> RowTensor:
    return replace(tensor, kept=kept)


def _firing(draw: st.DrawFn, reads: set[int], writes: Sequence[int]) -> Firing:
    """Return a firing that may overlap some of the rows that it reads."""
    overlaps = []
    if draw(st.booleans()):
        distance = draw(st.integers(-3, 6))
        overlaps = [(row, distance + draw(st.sampled_from([0, 0, 1]))) for row in sorted(reads) if draw(st.booleans())]
    return Firing(tuple(sorted(reads)), tuple(writes), tuple(overlaps))


def _add_operator(draw: st.DrawFn, network: _Network) -> None:
    """Add an operator that reads tensors so far, mostly the latest."""
    last = len(network.tensors) - 1
    source = draw(st.one_of(st.just(last), st.integers(0, last)))
    rows = network.rows(source)
    kind = draw(st.sampled_from(KINDS))
    if kind == "whole":
        output = network.add_tensor(draw, draw(st.integers(1, 2)))
        network.add_operator(draw, kind, [_firing(draw, set(network.all_cells(source)), network.all_cells(output))])
        return
    if kind == "accumulate":
        output = network.add_tensor(draw, 1)
        writes = network.all_cells(output)
        firings = [Firing(tuple(network.row(source, row)), writes) for row in range(rows)]
        network.add_operator(draw, kind, firings, accumulates=True)
        return
    reads: list[list[tuple[int, int]]]
    if kind == "window":
        taps, stride = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        pad = draw(st.integers(0, taps - 1))
        count = max(1, (rows + 2 * pad - taps) // stride + 1)
        reads = [
            [(source, y) for y in range(first * stride - pad, first * stride - pad + taps) if 0 <= y < rows]
            for first in range(count)
        ]
    elif kind == "resize" and 2 * rows <= network.most_rows:
        reads = [[(source, y // 2)] for y in range(2 * rows)]
    elif kind == "join":
        others = [tensor for tensor in range(last + 1) if network.rows(tensor) == rows]
        other = draw(st.sampled_from(others))
        reads = [[(source, y), (other, y)] for y in range(rows)]
    else:
        reads = [[(source, y)] for y in range(rows)]
    output = network.add_tensor(draw, len(reads))
    band = draw(st.sampled_from([1, 1, 1, 2]))
    firings = []
    for first in range(0, len(reads), band):
        read = {cell for row in reads[first : first + band] for tensor, y in row for cell in network.row(tensor, y)}
        written = [cell for y in range(first, min(first + band, len(reads))) for cell in network.row(output, y)]
        firings.append(_firing(draw, read, written))
    network.add_operator(draw, kind, firings)


def _with_state(draw: st.DrawFn, network: _Network) -> RowProblem:
    """Return the problem with an operator that reads and writes a state, which makes the order fixed."""
    problem = network.problem(draw)
    state = RowTensor("state", 1, draw(st.integers(0, 8)), given=True, kept=True)
    row, number = problem.row_count, draw(st.integers(0, len(problem.operators) - 1))
    operators = list(problem.operators)
    chosen = operators[number]
    if not chosen.accumulates:
        firings = [replace(item, reads=(*item.reads, row), writes=(*item.writes, row)) for item in chosen.firings]
        operators[number] = RowOperator(chosen.name, tuple(firings))
    return RowProblem((*problem.tensors, state), tuple(operators), sequential=True)
