"""The layout of models with views: which bytes of a tensor are in use when, and how far tensors may therefore overlap.

A tensor with views is written and read in parts, by several operators one after another. It is divided into cells, the
largest parts that every operator writes and reads as a whole. A cell is in use from an operator that writes it to the
last one that reads it before another one writes it. Two tensors A and B need not be disjoint: if at each moment the
bytes of A in use begin at a or behind it, and those of B end at b or before it, then A may lie at any
offset(A) - offset(B) >= max(b - a).

At an operator that reads a part of A for the last time and writes a part of B, what the kernel permits for the two
parts replaces the condition for their bytes. It holds for the offsets of the parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from edgetool.memory.lifetimes import DEAD, Timeline
from edgetool.memory.overlaps import OperatorOverlaps
from edgetool.memory.problem import Buffer, LayoutProblem, Lifetime, Overlap, aligned
from edgetool.model.types import Graph, Model
from edgetool.model.views import View
from edgetool.operators.call import arena_bytes

NOWHERE = -(2**62)
BEFORE_ALL, ALWAYS = -2, 2**31  # a cell that is read before it is written is in use before everything else


@dataclass(frozen=True, slots=True)
class _Range:
    """Bytes of a root tensor, from `start` to but without `end`."""

    start: int
    end: int

    def contains(self, other: _Range) -> bool:
        return self.start <= other.start and other.end <= self.end


@dataclass(frozen=True, slots=True)
class _Cell:
    bytes: _Range
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Handover:
    """An operator that reads a part of one root for the last time and writes a part of another.

    distance: the least offset(source) - offset(result) of the parts.
    """

    moment: int
    source: _Range
    result: _Range
    distance: int


def view_problem(
    model: Model,
    views: Sequence[View],
    problem: LayoutProblem,
    times: Timeline,
    overlaps: OperatorOverlaps,
    *,
    keep_inputs: bool = False,
) -> LayoutProblem:
    """Return the problem with the roots of all views instead of the views, and what may overlap.

    Args:
        model: The model in the order in which its operators run.
        views: Its views.
        problem: All tensors, views among them, and scratch buffers, without any overlaps.
        times: When operators run, and when tensors without views are live.
        overlaps: What the kernels of a build permit.
        keep_inputs: Whether nothing may overwrite a part of an input of the model while an operator reads another one.
    """
    places = {view.tensor: (view.parent, view.offset) for view in views}
    buffers = [b for b in problem.buffers if b.is_scratch or b.subgraph != 0 or b.tensor not in places]
    accesses = _Accesses(model.main, places, times)
    cells: dict[int, tuple[_Cell, ...]] = {}
    # TFLM places scratch buffers, and knows of a tensor with views only when each of these tensors is live.
    seen: dict[int, tuple[_Cell, ...]] = {}
    requests = [buffer.lifetime for buffer in buffers if buffer.is_scratch]
    for position, buffer in enumerate(buffers):
        cells[position] = (_Cell(_Range(0, buffer.size_bytes), buffer.lifetime.first, buffer.lifetime.last),)
        if buffer.subgraph == 0 and buffer.operator < 0 and not model.main.tensors[buffer.tensor].is_variable:
            cells[position] = accesses.cells(buffer, whole=keep_inputs and buffer.tensor in model.main.inputs)
            # TFLM reserves multiples of 16 bytes for views, too.
            ends = [
                view.offset + aligned(arena_bytes(model.main.tensors[view.tensor]))
                for view in views
                if view.parent == buffer.tensor
            ]
            size = max([buffer.size_bytes, *ends])
            seen[position] = (*cells[position], *_seen_by_tflm(model.main, buffer.tensor, views, times))
            together = [
                replace(cell, first=max(cell.first, request.first), last=min(cell.last, request.last))
                for cell in seen[position]
                for request in requests
                if cell.first <= request.last and request.first <= cell.last
            ]
            buffers[position] = replace(buffer, lifetime=_hull([*cells[position], *together]), size_bytes=size)
    handovers = _handovers(model.main, accesses, overlaps, keep_inputs=keep_inputs)
    pairs = []
    lives = [(buffer.lifetime.first, buffer.lifetime.last) for buffer in buffers]
    apart, seen_apart = _CellDistances(cells), _CellDistances({**cells, **seen})
    scratch = [position for position, buffer in enumerate(buffers) if buffer.is_scratch]
    for first, one in enumerate(buffers):
        begin, end = lives[first]
        distances = (seen_apart if one.is_scratch else apart).above(first)
        if scratch and not one.is_scratch:
            known = seen_apart.above(first)
            distances = {**distances, **{position: known[position] for position in scratch if position in known}}
        for second in [number for number, (start, last) in enumerate(lives) if start <= end and begin <= last]:
            other = buffers[second]
            if first == second:
                continue
            in_main = one.subgraph == other.subgraph == 0
            between = handovers.get((one.tensor, other.tensor), ()) if in_main else ()
            # Roots that are never in use at the same time may lie anywhere.
            distance = distances.get(second, -(2**31))
            if between:
                known_cells = seen if one.is_scratch or other.is_scratch else cells
                distance = _distance(
                    known_cells.get(first, cells[first]), known_cells.get(second, cells[second]), between
                )
            if aligned(distance) < other.aligned_bytes:
                far = max(distance, -buffers[first].aligned_bytes)
                pairs.append(Overlap(first, second, far, of_operator=bool(between)))
    return LayoutProblem(tuple(buffers), tuple(pairs))


def _seen_by_tflm(graph: Graph, root: int, views: Sequence[View], times: Timeline) -> Iterator[_Cell]:
    """Yield when TFLM regards a tensor with views, and each view, as live."""
    parts = [(root, 0), *((view.tensor, view.offset) for view in views if view.parent == root)]
    for index, start in parts if len(parts) > 1 else ():
        lifetime = times.lifetimes.get((0, index), DEAD)
        if lifetime != DEAD:
            end = start + aligned(arena_bytes(graph.tensors[index]))
            yield _Cell(_Range(start, end), lifetime.first, lifetime.last)


def view_offsets(views: Sequence[View], offsets: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    """Return the offsets of all tensors, given those of all but the views."""
    placed = dict(offsets)
    for view in views:
        placed[0, view.tensor] = offsets[0, view.parent] + view.offset
    return placed


class _Accesses:
    """The parts of each root that operators write and read, and when."""

    def __init__(self, graph: Graph, places: Mapping[int, tuple[int, int]], times: Timeline) -> None:
        self.graph = graph
        self.times = times
        self.places = places
        self.writes: dict[int, list[tuple[_Range, int]]] = defaultdict(list)
        self.reads: dict[int, list[tuple[_Range, int]]] = defaultdict(list)
        for operator in graph.operators:
            run = times.operators[0, operator.index]
            for index in operator.inputs:
                if index >= 0:
                    self.reads[self.root(index)].append((self.part(index), run.last))
            for index in operator.outputs:
                self.writes[self.root(index)].append((self.part(index), run.first))
        for index in graph.inputs:
            self.writes[self.root(index)].append((self.part(index), -1))
        for index in graph.outputs:
            self.reads[self.root(index)].append((self.part(index), times.lifetimes[0, index].last))

    def root(self, index: int) -> int:
        """Return the tensor that contains another one: its parent or itself."""
        return self.places[index][0] if index in self.places else index

    def part(self, index: int) -> _Range:
        """Return the bytes of its root that a tensor is."""
        start = self.places[index][1] if index in self.places else 0
        return _Range(start, start + arena_bytes(self.graph.tensors[index]))

    def cells(self, buffer: Buffer, *, whole: bool) -> tuple[_Cell, ...]:
        """Return the cells of a root that are ever in use; as a single one with `whole`."""
        writes, reads = self.writes[buffer.tensor], self.reads[buffer.tensor]
        edges = {edge for part, _ in (*writes, *reads) for edge in (part.start, part.end)}
        ends = sorted({0, buffer.size_bytes} if whole else edges)
        result = []
        for start, end in pairwise(ends):
            cell = _Range(start, end)
            written = sorted(moment for part, moment in writes if whole or part.contains(cell))
            read = [moment for part, moment in reads if whole or part.contains(cell)]
            if whole and written:
                result.append(_Cell(cell, written[0], max(*written, *read)))
                continue
            if read and min(read) < min(written, default=ALWAYS):
                written.insert(0, BEFORE_ALL)
            for moment, following in pairwise([*written, ALWAYS]):
                result.append(_Cell(cell, moment, max([moment, *(r for r in read if moment <= r <= following)])))
        return tuple(result)


def _hull(cells: Sequence[_Cell]) -> Lifetime:
    if not cells:
        return DEAD
    return Lifetime(min(cell.first for cell in cells), max(cell.last for cell in cells))


def _handovers(
    graph: Graph, accesses: _Accesses, overlaps: OperatorOverlaps, *, keep_inputs: bool
) -> dict[tuple[int, int], list[_Handover]]:
    """Return the operators whose output may overlap a dying input, by the roots of input and output."""
    kept = {accesses.root(index) for index in (*graph.outputs, *(graph.inputs if keep_inputs else ()))}
    result: dict[tuple[int, int], list[_Handover]] = defaultdict(list)
    for operator in graph.operators:
        run = accesses.times.operators[0, operator.index]
        for item in overlaps.get(operator.index, ()):
            source, output = operator.inputs[item.input], operator.outputs[0]
            roots = accesses.root(source), accesses.root(output)
            others = [index for place, index in enumerate(operator.inputs) if place != item.input and index >= 0]
            is_apart = all(
                accesses.root(index) != roots[0] or not _intersect(accesses.part(index), accesses.part(source))
                for index in others
            )
            if item.distance is not None and run.first == run.last and roots[0] not in kept and is_apart:
                parts = accesses.part(source), accesses.part(output)
                result[roots].append(_Handover(run.first, *parts, item.distance))
    return result


def _intersect(first: _Range, second: _Range) -> bool:
    return first.start < second.end and second.start < first.end


def _together(first: _Cell, second: _Cell) -> bool:
    return first.first <= second.last and second.first <= first.last


class _CellDistances:
    """How far apart buffers must be so that no bytes are in use by both, without what kernels permit."""

    def __init__(self, cells: Mapping[int, Sequence[_Cell]]) -> None:
        import numpy as np  # most plans have no views, and do not need it

        self._np = np
        self._cells = cells
        table = [
            (position, cell.first, cell.last, cell.bytes.end) for position, items in cells.items() for cell in items
        ]
        self._owners, self._firsts, self._lasts, self._ends = np.array(table, np.int64).reshape(-1, 4).T

    def above(self, position: int) -> dict[int, int]:
        """Return the least offset(position) - offset(other) for all others that are in use at the same time."""
        np = self._np
        distances = np.full(int(self._owners.max(initial=-1)) + 1, NOWHERE)
        for cell in self._cells[position]:
            meet = np.flatnonzero((self._firsts <= cell.last) & (self._lasts >= cell.first))
            np.maximum.at(distances, self._owners[meet], self._ends[meet] - cell.bytes.start)
        return {int(other): int(distances[other]) for other in np.flatnonzero(distances != NOWHERE)}


def _distance(above: Sequence[_Cell], below: Sequence[_Cell], handovers: Sequence[_Handover]) -> int:
    """Return the least offset(above) - offset(below) at which no bytes are in use by both."""
    by_moment = {item.moment: item for item in handovers}
    moments = {cell.first for cell in (*above, *below)} | by_moment.keys()
    distances = []
    for moment in moments:
        uppers = [cell for cell in above if cell.first <= moment <= cell.last]
        lowers = [cell for cell in below if cell.first <= moment <= cell.last]
        item = by_moment.get(moment)
        read = [c for c in uppers if item and item.source.contains(c.bytes) and c.first < moment == c.last]
        if item and read:
            distances.append(item.distance + item.result.start - item.source.start)
            others = [cell for cell in lowers if not item.result.contains(cell.bytes)]
            distances += _apart(read, others)
            uppers = [cell for cell in uppers if cell not in read]
        distances += _apart(uppers, lowers)
    # Roots that are never in use at the same time may lie anywhere.
    return max(distances, default=-(2**31))


def _apart(above: Sequence[_Cell], below: Sequence[_Cell]) -> list[int]:
    """Return the difference of offsets that separates cells; none if one of them has none."""
    if not above or not below:
        return []
    return [max(cell.bytes.end for cell in below) - min(cell.bytes.start for cell in above)]
