"""A native program as a problem of planning rows: its tensors as rows, its steps as firings, and how rows may overlap.

A tensor's rows in the plan are cells: the largest pieces that every step reads and writes whole numbers of. If a step
reads or writes several cells as one of its rows, all of the tensor lies together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import gcd

from edgetool.codegen.native.lower import NativeProgram
from edgetool.codegen.native.program import Constant, RowInput, Step
from edgetool.errors import UnsupportedModelError
from edgetool.memory.streaming.problem import Firing, RowOperator, RowProblem, RowTensor
from edgetool.operators.overlap import Window, banded_distance, channelwise_distance, conv_distance

KNOWN_FIRINGS = 2048  # of steps that plans have in common, as far as their kernels are the same
MAX_CELLS = 4096  # of a tensor; one of more, as an odd slice makes them, is one row
WORD = 4  # rows of whole words are placed at multiples of it, so that kernels may read words
FEED, TAKE = "feed", "take"  # operators of the application, which hands over rows of inputs and takes those of outputs


@dataclass(frozen=True, slots=True)
class _Access:
    """The bytes of a root tensor that a step reads or writes: `count` rows of `row_bytes` from `offset` on."""

    root: int
    offset: int
    row_bytes: int
    count: int


def row_problem(
    program: NativeProgram, fed: Collection[int] = (), complete: Collection[int] = (), *, taken: Collection[int] = ()
) -> RowProblem:
    """Return the rows of a program: an operator for each fed input, then one for each step in the program's order.

    An output that is taken has an operator, too, behind the last step that writes it.

    Args:
        program: Steps that keep the rows of images apart (lower with row_wise).
        fed: The inputs that the application hands over row by row, as tensors of the main graph.
        complete: Root tensors whose rows shall lie together.
        taken: The outputs that the application takes row by row, of those that takeable_outputs returns.
    """
    graph = program.graph
    accesses = [_step_accesses(program, step) for step in program.steps]
    inputs = [program.places[index].root for index in graph.inputs if program.places[index].constant is None]
    outputs = [program.places[index].root for index in graph.outputs if program.places[index].constant is None]
    taken_roots = {program.places[index].root for index in taken}
    state = {program.places[index].root for step in program.steps for index in step.states}
    state |= {item.root for items in accesses for item in items if graph.tensors[item.root].is_variable}
    # The rows of a band lie together.
    banded = {program.places[step.output].root for step in program.steps if min(step.band, step.rows) > 1}
    rings = {} if program.stream is None else program.stream.rings
    fed_roots = {program.places[index].root for index in fed}
    by_root: dict[int, list[_Access]] = {root: [] for root in (*inputs, *outputs)}
    for items in accesses:
        for item in items:
            by_root.setdefault(item.root, []).append(item)
    tensors: list[RowTensor] = []
    cells: dict[int, _Cells] = {}
    first = 0
    for root, items in by_root.items():
        tensor = graph.tensors[root]
        ring = rings.get(root)
        kept_bytes = 0 if ring is None else ring.kept_bytes
        is_fed = root in inputs and root in fed_roots and root not in state
        if ring is not None:
            items = [*items, _Access(root, kept_bytes, ring.hop_bytes, 1)]
        if is_fed and program.stream is not None:
            items = [*items, _Access(root, kept_bytes, program.stream.row_bytes, 1)]
        size, together = _cell(tensor.size_bytes, items)
        is_kept = root in state or (root in outputs and root not in taken_roots) or ring is not None
        together |= is_kept or root in complete or root in banded
        together |= root in inputs and not is_fed
        if kept_bytes % max(1, size):
            raise UnsupportedModelError(
                f"a plan of rows has room for {MAX_CELLS:,} rows of a tensor, and {tensor.name!r} has more",
                fix="omit --incremental",
            )
        rows = tensor.size_bytes // size if size else 0
        element = max(1, tensor.dtype.bits // 8)
        tensors.append(
            RowTensor(
                name=tensor.name,
                rows=rows,
                row_bytes=size,
                group=max(1, rows) if together else 1,
                alignment=max(element, WORD if together or rows == 1 else gcd(size, WORD)),
                given=root in state or (root in inputs and not is_fed) or ring is not None,
                kept=is_kept,
                tensor=root,
                computed=0 if ring is None else rows - kept_bytes // size,
            )
        )
        cells[root] = _Cells(first, size)
        first += rows
    operators = [
        RowOperator(FEED, tuple(Firing((), (row,)) for row in _rows_to_feed(cells[root].first, tensor)))
        for root, tensor in zip(by_root, tensors, strict=True)
        if root in inputs and (tensor.computed or not tensor.given)
    ]
    last = {program.places[step.output].root: position for position, step in enumerate(program.steps)}
    outputs_taken = [(root, item) for root, item in zip(by_root, tensors, strict=True) if root in taken_roots]
    for position, step in enumerate(program.steps):
        operators.append(_operator(program, step, cells))
        for root, tensor_taken in outputs_taken:
            if last[root] == position:
                start = cells[root].first
                operators.append(RowOperator(TAKE, tuple(Firing((start + i,), ()) for i in range(tensor_taken.rows))))
    return RowProblem(tuple(tensors), tuple(operators), sequential=bool(state))


def _rows_to_feed(first: int, tensor: RowTensor) -> range:
    """Return the rows of a tensor that is fed: all, or those behind its ring."""
    return range(first + (tensor.rows - tensor.computed if tensor.given else 0), first + tensor.rows)


def step_numbers(problem: RowProblem) -> list[int]:
    """Return the program's step of each operator: for one of the application, the last step before it, or -1."""
    return [count - 1 for count in accumulate(item.name not in (FEED, TAKE) for item in problem.operators)]


def step_operators(problem: RowProblem) -> list[int]:
    """Return the operator of each step of the program."""
    return [number for number, item in enumerate(problem.operators) if item.name not in (FEED, TAKE)]


def takeable_outputs(program: NativeProgram) -> tuple[int, ...]:
    """Return the outputs that can be taken by rows: those that are computed, and are nothing else."""
    tensors, places = program.graph.tensors, program.places
    states = {places[index].root for step in program.steps for index in step.states}
    others = states | {places[index].root for index in program.graph.inputs}
    written = {places[step.output].root for step in program.steps}
    roots = [places[index].root for index in program.graph.outputs]
    return tuple(
        index
        for index, root in zip(program.graph.outputs, roots, strict=True)
        if places[index].constant is None
        and root in written
        and root not in others
        and roots.count(root) == 1
        and not tensors[root].is_variable
        and (places[index].offset, tensors[index].size_bytes) == (0, tensors[root].size_bytes)
        and tensors[index].size_bytes
    )


@dataclass(frozen=True, slots=True)
class _Cells:
    """The number of a root tensor's first row in the plan, and the bytes of each."""

    first: int
    size: int

    def at(self, offset: int, size: int) -> range:
        """Return the rows of the plan in a range of bytes."""
        # A tensor of too many cells is one row, of which steps read and write parts.
        return range(self.first + offset // self.size, self.first - -(offset + size) // self.size)


def _cell(size: int, accesses: list[_Access]) -> tuple[int, bool]:
    """Return the bytes of a tensor's cells, and whether they must lie together."""
    cell = size
    for item in accesses:
        cell = gcd(cell, gcd(item.offset, item.row_bytes))
    if cell and size // cell > MAX_CELLS:
        cell = size
    return cell, any(item.row_bytes != cell for item in accesses)


def _step_accesses(program: NativeProgram, step: Step) -> list[_Access]:
    place = program.places[step.output]
    rows = 1 if step.accumulates else step.rows * step.batches
    written = _Access(place.root, place.offset + step.output_offset, step.row_bytes, rows)
    read = [
        _Access(
            program.places[source].root,
            program.places[source].offset,
            item.row_bytes or program.graph.tensors[source].size_bytes,
            item.rows * step.batches if item.row_bytes else 1,
        )
        for item, source in _computed_inputs(program, step)
    ]
    states = [program.places[index] for index in step.states]
    sizes = [program.graph.tensors[index].size_bytes for index in step.states]
    return [written, *read, *(_Access(p.root, p.offset, size, 1) for p, size in zip(states, sizes, strict=True))]


def _computed_inputs(program: NativeProgram, step: Step) -> Iterator[tuple[RowInput, int]]:
    """Return the inputs of a step that are in the arena, with their tensors."""
    for item in step.inputs:
        if isinstance(item.source, int) and program.places[item.source].constant is None:
            yield item, item.source


@dataclass(frozen=True, slots=True)
class _Source:
    """Where an input of a step is, if it is in the arena.

    Attributes:
        cells: Those of its root tensor.
        offset: Where the input starts in it.
        length: The bytes of a row. Without a size, all rows are the whole tensor.
        is_single: Whether the step has no other input from the same root tensor.
    """

    cells: _Cells
    offset: int
    length: int
    is_single: bool


def _operator(program: NativeProgram, step: Step, cells: dict[int, _Cells]) -> RowOperator:
    """Return a step as firings, each of which computes a band."""
    places, tensors = program.places, program.graph.tensors
    place = places[step.output]
    roots = [places[source].root for _, source in _computed_inputs(program, step)]
    sources = tuple(
        _Source(
            cells[places[item.source].root],
            places[item.source].offset,
            item.row_bytes or tensors[item.source].size_bytes,
            roots.count(places[item.source].root) == 1,
        )
        if isinstance(item.source, int) and places[item.source].constant is None
        else None
        for item in step.inputs
    )
    states = tuple(
        row
        for index in step.states
        for row in cells[places[index].root].at(places[index].offset, tensors[index].size_bytes)
    )
    firings = _firings(step, cells[place.root], place.offset + step.output_offset, sources, states)
    return RowOperator(step.kernel, firings, step.accumulates, _weight_bytes(program, step))


@lru_cache(maxsize=KNOWN_FIRINGS)
def _firings(
    step: Step, output: _Cells, begin: int, sources: tuple[_Source | None, ...], states: tuple[int, ...]
) -> tuple[Firing, ...]:
    """Return the firings of a step.

    Args:
        step: The step.
        output: The cells of the root tensor that it writes.
        begin: Where its first output row starts there.
        sources: Where its inputs are; None for constants.
        states: The rows of its variable tensors.
    """
    of_rows = [row_distance(step, number) for number in range(len(step.inputs))]
    of_tensors = [_tensor_distance(step, number) for number in range(len(step.inputs))]
    firings: list[Firing] = []
    for batch in range(step.batches):
        for y in range(0, step.rows, step.band):
            count = min(step.band, step.rows - y)
            read: dict[int, int | None] = dict.fromkeys(states)
            for number, (item, source) in enumerate(zip(step.inputs, sources, strict=True)):
                if source is None:
                    continue
                size = source.cells.size
                # A second input from the same tensor may be read after the first output is written.
                is_single = source.is_single and not step.accumulates and item.row_bytes > 0
                for row in rows_read(item, y, count):
                    start = (batch * item.rows + row) * item.row_bytes
                    distance = of_rows[number] if count == 1 else None
                    of_tensor = of_tensors[number]
                    if of_tensor is not None:
                        # The row is as far from the output as in tensors at their distance.
                        there = of_tensor + start - (batch * step.rows + step.first + y) * step.row_bytes
                        distance = there if distance is None else min(distance, there)
                    is_whole = (source.offset + start) % size == 0
                    for i, cell in enumerate(source.cells.at(source.offset + start, source.length)):
                        known = is_single and is_whole
                        read[cell] = distance + i * size if known and distance is not None else None
            row = 0 if step.accumulates else batch * step.rows + y
            written = output.at(begin + row * step.row_bytes, count * step.row_bytes)
            overlaps = tuple((cell, distance) for cell, distance in sorted(read.items()) if distance is not None)
            scratch_bytes = 0 if len(firings) in step.bare else step.scratch_bytes
            firings.append(Firing(tuple(sorted(read)), (*written, *states), overlaps, scratch_bytes))
    return tuple(firings)


def _weight_bytes(program: NativeProgram, step: Step) -> int:
    """Return the bytes of the constants of a step: weights, biases, scales, tables and constant inputs."""
    constants = [value for _, value in step.op.values if isinstance(value, Constant)]
    for item in step.inputs:
        constant = item.source if isinstance(item.source, Constant) else program.places[item.source].constant
        constants += [constant] if constant is not None else []
    return sum(len(constant.data) for constant in constants)


def rows_read(item: RowInput, first: int, count: int) -> list[int]:
    """Return the rows of an input's batch that a band of output rows reads."""
    rows = set()
    for y in range(first, first + count):
        for tap in range(item.taps):
            place = y * item.stride + tap * item.dilation - item.pad
            if 0 <= place < item.rows * item.divisor:
                rows.add(place // item.divisor)
    return sorted(rows)


# How kernels with windows read and write one row: of groups of pixels, of channels, or of all before the first output.
_WINDOW_KERNELS = {
    "edgetool_conv2d_lean_s8": conv_distance,
    "edgetool_conv2d_s8": conv_distance,
    "edgetool_conv2d_s16": conv_distance,
    "edgetool_conv2d_tiled_s8": conv_distance,
    "edgetool_depthwise_3x3_s8": channelwise_distance,
    "edgetool_depthwise_few_s8": channelwise_distance,
    "edgetool_depthwise_lanes_s8": channelwise_distance,
    "edgetool_depthwise_3x3_vector_s8": channelwise_distance,
    "edgetool_depthwise_s8": channelwise_distance,
    "edgetool_depthwise_s16": channelwise_distance,
    "edgetool_average_pool_s8": channelwise_distance,
    "edgetool_average_pool_s16": channelwise_distance,
    "edgetool_average_pool_vector_s8": channelwise_distance,
    "edgetool_max_pool_s8": channelwise_distance,
    "edgetool_max_pool_s16": channelwise_distance,
    "edgetool_max_pool_vector_s8": channelwise_distance,
}


def row_distance(step: Step, number: int) -> int | None:
    """Return the distance in bytes of an output row from an input row that it is computed from; None if unknown.

    Kernels with windows may have each of their input rows anywhere, so that each has the distance of a window with one
    row. Kernels that work in place do so in each row.
    """
    distance = _WINDOW_KERNELS.get(step.kernel)
    if distance is not None:
        fields = {name: value for name, value in step.op.values if isinstance(value, int)}
        element = 2 if step.kernel.endswith("s16") else 1
        groups = fields.get("groups", 1)
        channels = fields.get("input_channels", fields.get("channels", groups * fields.get("depth", 0)))
        width = fields["output_width"]
        window = Window(
            batches=1,
            height=1,
            width=fields["input_width"],
            channels=channels,
            output_height=1,
            output_width=width,
            output_channels=step.row_bytes // (width * element),
            taps_x=fields["taps_x"],
            stride_x=fields["stride_x"],
            dilation_x=fields.get("dilation_x", 1),
            pad_x=fields["pad_x"],
        )
        if step.kernel == "edgetool_conv2d_tiled_s8" and groups > 1:
            # A row is complete in one group of channels before another one is read.
            return banded_distance(window, 1)
        return distance(window, element_bytes=element)
    declared = _tensor_distance(step, number)
    return declared if declared is not None and declared <= 0 else None


def _tensor_distance(step: Step, number: int) -> int | None:
    """Return the distance in bytes of the output from an input if the rows of both lie together; None if unknown."""
    declared = [item.distance for item in step.overlaps if item.input == number and not item.descending]
    return min(declared, default=None)
