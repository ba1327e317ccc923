"""Operators that move or repeat elements: reshapes, slices, transpositions, concatenations and blocks.

Each is an expression on an array. The strides of its result, which NumPy computes, describe the copy. A result whose
elements follow each other in the source is a view of it and needs no copy; see `_is_view`. What is computed from
constants is constant itself, unless it repeats them often.

Rows: an image row where each output row needs one input row; DEPTH_TO_SPACE and SPACE_TO_DEPTH, too. Otherwise a whole
tensor is one row: reversed rows, exchanged rows or batches, blocks of batches, and tensors that are no images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import TypeAlias

import numpy as np

from edgetool.codegen.native.program import Constant, Descriptor, RowInput, Step, describe
from edgetool.codegen.native.site import Array, Folded, Lowered, Lowering, Site, View, element_bytes
from edgetool.errors import InternalError
from edgetool.model.types import Tensor

Move: TypeAlias = Callable[[Array], Array]
Axes: TypeAlias = "tuple[tuple[int, int], ...]"
MAX_LOOPS = 5  # of edgetool_copy and edgetool_copy_table
IMAGE_RANK = 4
# A constant result may be this much larger than the constant from which it is computed.
FOLDED_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Strided:
    """Where the elements of an output are in its source, in bytes: the first one, and count and step of each axis."""

    start: int
    axes: Axes

    def merged(self, element: int) -> tuple[Axes, int]:
        """Return the loops that remain if neighbouring axes are merged, and the bytes that are copied at once."""
        loops: list[tuple[int, int]] = []
        for count, step in self.axes:
            if count == 1:
                continue
            if loops and loops[-1][1] == count * step:
                count *= loops.pop()[0]
            loops.append((count, step))
        if loops and loops[-1][1] == element:
            return tuple(loops[:-1]), element * loops[-1][0]
        return tuple(loops), element


def strided(shape: Sequence[int], element: int, rearrange: Move) -> Strided:
    """Return where the result of an expression has its elements; it must not copy."""
    source = np.empty(shape, f"V{element}")
    result = rearrange(source)
    if not np.may_share_memory(source, result):
        raise InternalError("the expression of an operator copies its elements")
    start = result.__array_interface__["data"][0] - source.__array_interface__["data"][0]
    axes = [(count, 0 if count == 1 else step) for count, step in zip(result.shape, result.strides, strict=True)]
    return Strided(start, tuple(axes))


def whole_element(site: Site, tensor: Tensor) -> int:
    """Return the size of an element; raise UnsupportedModelError if it has no whole bytes."""
    site.require(tensor.dtype.bits >= 8, f"{tensor.dtype.name} is not supported")
    return element_bytes(tensor)


def is_image(site: Site, tensor: Tensor) -> bool:
    """Return whether the rows of a tensor are planned one by one."""
    return site.row_wise and len(tensor.shape) == IMAGE_RANK


def moved(site: Site, position: int, output: int, rearrange: Move) -> Iterator[Lowered]:
    """Lower one output whose elements an expression selects from one input."""
    source, result = site.input(position), site.graph.tensors[output]
    if is_unused(site, output):
        return
    if is_foldable(site, position, result):
        data = np.ascontiguousarray(rearrange(site.constant(position))).tobytes()
        site.require(len(data) == result.size_bytes, "its output has another size than it computes")
        yield Folded(output, data)
        return
    yield from strided_copy(site, position, output, strided(source.shape, whole_element(site, source), rearrange))


def is_unused(site: Site, output: int) -> bool:
    """Return whether nothing needs to be computed: the output is empty, or nothing reads it."""
    return site.graph.tensors[output].element_count == 0 or _last_use(site, output) < 0


def is_foldable(site: Site, position: int, result: Tensor) -> bool:
    """Return whether an input is constant and an output computed from it is not much larger."""
    source = site.input(position)
    return source.data is not None and result.size_bytes <= source.size_bytes + FOLDED_BYTES


def strided_copy(site: Site, position: int, output: int, place: Strided) -> Iterator[Lowered]:
    """Lower the copy of evenly spaced elements of one input: to a view of them if they follow each other."""
    index, source, result = site.index(position), site.input(position), site.graph.tensors[output]
    element = whole_element(site, source)
    counts = [count for count, _ in place.axes]
    site.require(prod(counts) == result.element_count, "its output has another size than it computes")
    if not place.merged(element)[0] and source.data is None and _is_view(site, index, output):
        yield View(output, index, place.start)
        return
    image = _image_rows(site, index, source, result, place, element)
    if image is not None:
        rows, row = image
        yield copy_step(site, output, rows, row, element, rows=result.shape[1], batches=result.shape[0])
        return
    yield copy_step(site, output, RowInput(index, source.size_bytes), place, element)


def copy_step(
    site: Site, output: int, source: RowInput, row: Strided, element: int, *, rows: int = 1, batches: int = 1
) -> Step:
    """Return the step that copies `row` from each row of the source."""
    return Step(
        operator=site.operator.index,
        kernel="edgetool_copy",
        op=_copy_descriptor(site, row, element),
        inputs=(source,),
        output=output,
        row_bytes=element * prod(count for count, _ in row.axes),
        rows=rows,
        batches=batches,
    )


def _copy_descriptor(site: Site, row: Strided, element: int, phases: int = 1, phase_step: int = 0) -> Descriptor:
    loops, run = row.merged(element)
    site.require(len(loops) <= MAX_LOOPS, f"it copies along more than {MAX_LOOPS} axes")
    padded = (*[(1, 0)] * (MAX_LOOPS - len(loops)), *loops)
    return describe(
        "edgetool_copy",
        count=tuple(count for count, _ in padded),
        step=tuple(step % 2**32 for _, step in padded),
        start=row.start,
        run=run,
        phases=phases,
        phase_step=phase_step,
    )


def _image_rows(
    site: Site, index: int, source: Tensor, result: Tensor, place: Strided, element: int
) -> tuple[RowInput, Strided] | None:
    """Return the input row of each output row, and what is copied from it; None if rows cannot be copied one by one."""
    if not is_image(site, result) or len(place.axes) != IMAGE_RANK or len(source.shape) > IMAGE_RANK:
        return None
    images, height, *row = (*[1] * (IMAGE_RANK - len(source.shape)), *source.shape)
    row_bytes = prod(row) * element
    (batches, batch_step), (rows, row_step), *inner = place.axes
    low = place.start + sum(min(0, (count - 1) * step) for count, step in inner)
    high = place.start + sum(max(0, (count - 1) * step) for count, step in inner) + element
    first, stride = low // row_bytes, row_step // row_bytes
    if (high - 1) // row_bytes != first or row_step % row_bytes or not 0 <= stride < 2**16 or first >= 2**15:
        return None
    if batches > 1 and (batch_step != height * row_bytes or first + (rows - 1) * stride >= height):
        return None
    available = height if batches > 1 else images * height
    source_rows = RowInput(index, row_bytes, rows=available, stride=stride, pad=-first)
    return source_rows, Strided(place.start - first * row_bytes, tuple(inner))


def _is_view(site: Site, source: int, output: int) -> bool:
    """Return whether an output whose bytes follow each other in a source is a view of it.

    A view keeps all bytes of the source alive, and a copy needs memory besides the source. A view is chosen if the
    operator's outputs together have at least half of the source's bytes, or if the live tensors need no more memory
    with it. Rows of images that are planned one by one are copied instead, unless the output has all of them.
    """
    tensors = site.graph.tensors
    if is_image(site, tensors[output]) and tensors[output].size_bytes != tensors[source].size_bytes:
        return False
    outputs = sum(tensors[index].size_bytes for index in site.operator.outputs)
    return 2 * outputs >= tensors[source].size_bytes or _is_view_smaller(site, source, output)


def _is_view_smaller(site: Site, source: int, output: int) -> bool:
    """Return whether the live tensors need no more memory with a view than with a copy, as long as the output lives."""
    graph, here = site.graph, site.operator.index
    sizes = [0 if tensor.data is not None else tensor.size_bytes for tensor in graph.tensors]
    first = {index: operator.index for operator in graph.operators for index in operator.outputs}
    last = {index: operator.index for operator in graph.operators for index in operator.inputs}
    last |= dict.fromkeys(graph.outputs, len(graph.operators))
    changes = np.zeros(len(graph.operators) + 2, np.int64)
    for index, end in last.items():
        if index not in (-1, source, output):
            changes[first.get(index, 0)] += sizes[index]
            changes[end + 1] -= sizes[index]
    others = np.cumsum(changes)[here : last[output] + 1]
    alive = here + np.arange(len(others)) <= last[source]
    return int(others.max()) + sizes[source] <= int((others + alive * sizes[source] + sizes[output]).max())


def _last_use(site: Site, tensor: int) -> int:
    """Return the position of the last operator that reads a tensor; that behind all for an output, -1 if none does."""
    operators = site.graph.operators
    if tensor in site.graph.outputs:
        return len(operators)
    return max((operator.index for operator in operators if tensor in operator.inputs), default=-1)


def _first(site: Site) -> int:
    return site.operator.outputs[0]


def _reshape(site: Site) -> Iterator[Lowered]:
    """RESHAPE, SQUEEZE and EXPAND_DIMS."""
    site.require(site.input(0).size_bytes == site.output().size_bytes, "its output has another size than its input")
    yield View(_first(site), site.index(0))


def _transpose(site: Site) -> Iterator[Lowered]:
    order = [int(axis) for axis in site.constant(1).reshape(-1)]
    site.require(sorted(order) == list(range(len(site.input(0).shape))), "its permutation is not one")
    yield from moved(site, 0, _first(site), lambda array: array.transpose(order))


def axis_in(site: Site, axis: int, rank: int) -> int:
    """Return an axis that may count from the end."""
    site.require(-rank <= axis < rank, f"axis {axis} does not exist")
    return axis % rank


def _part(axis: int, index: slice | int, array: Array) -> Array:
    return array[(*[slice(None)] * axis, index, ...)]


def _split_along(site: Site, position: int, axis: int) -> Iterator[Lowered]:
    """Lower SPLIT and SPLIT_V, whose outputs follow each other along an axis."""
    shape, start = site.input(position).shape, 0
    for number, output in enumerate(site.operator.outputs):
        other = site.output(number).shape
        site.require(len(other) == len(shape), "its outputs have another rank than its input")
        size = other[axis]
        site.require(start + size <= shape[axis], "its outputs are larger than its input")
        yield from moved(site, position, output, partial(_part, axis, slice(start, start + size)))
        start += size


def _split(site: Site) -> Iterator[Lowered]:
    yield from _split_along(site, 1, axis_in(site, int(site.constant(0).reshape(-1)[0]), len(site.input(1).shape)))


def _split_v(site: Site) -> Iterator[Lowered]:
    yield from _split_along(site, 0, axis_in(site, int(site.constant(2).reshape(-1)[0]), len(site.input(0).shape)))


def _unpack(site: Site) -> Iterator[Lowered]:
    shape = site.input(0).shape
    axis = axis_in(site, site.option("axis", 0), len(shape))
    site.require(
        len(site.operator.outputs) == shape[axis], "it has another number of outputs than its axis has indices"
    )
    for number, output in enumerate(site.operator.outputs):
        yield from moved(site, 0, output, partial(_part, axis, number))


def _slice(site: Site) -> Iterator[Lowered]:
    shape = site.input(0).shape
    begins, sizes = (site.constant(position).reshape(-1).tolist() for position in (1, 2))
    site.require(len(begins) == len(sizes) == len(shape), "it does not slice every axis")
    index = []
    for side, begin, size in zip(shape, begins, sizes, strict=True):
        end = side if size == -1 else begin + size
        site.require(0 <= begin <= end <= side, "it reads outside its input")
        index.append(slice(begin, end))
    yield from moved(site, 0, _first(site), lambda array: array[tuple(index)])


def _strided_slice(site: Site) -> Iterator[Lowered]:
    """STRIDED_SLICE (StridedSliceStartForAxis and StridedSliceEndForAxis, strided_slice_logic.h)."""
    shape = site.input(0).shape
    begins, ends, strides = (site.constant(position).reshape(-1).tolist() for position in (1, 2, 3))
    site.require(len(begins) == len(ends) == len(strides) == len(shape), "it does not slice every axis")
    begin_mask, end_mask, shrink_mask = (site.option(f"{name}_mask", 0) for name in ("begin", "end", "shrink_axis"))
    index = []
    for axis, (side, stride) in enumerate(zip(shape, strides, strict=True)):
        low, high = (0, side) if stride > 0 else (-1, side - 1)
        begin, end = (min(max(at + side if at < 0 else at, low), high) for at in (begins[axis], ends[axis]))
        if begin_mask >> axis & 1:
            begin = 0 if stride > 0 else side - 1
        if end_mask >> axis & 1:
            end = side if stride > 0 else -1
        if shrink_mask >> axis & 1:
            site.require(0 <= begin < side and stride > 0, "it removes an axis at a position outside")
            index.append(slice(begin, begin + 1))
            continue
        index.append(slice(begin, None if end < 0 else end, stride))
    yield from moved(site, 0, _first(site), lambda array: array[tuple(index)])


def _reverse(site: Site) -> Iterator[Lowered]:
    rank = len(site.input(0).shape)
    axes = [axis_in(site, int(axis), rank) for axis in site.constant(1).reshape(-1)]
    site.require(bool(axes), "it has no axis")
    site.require(len(set(axes)) == len(axes), "it has an axis twice")
    yield from moved(site, 0, _first(site), lambda array: np.flip(array, tuple(axes)))


def _broadcast_to(site: Site) -> Iterator[Lowered]:
    shape = site.output().shape
    yield from moved(site, 0, _first(site), lambda array: np.broadcast_to(array, shape))


def _fill(site: Site) -> Iterator[Lowered]:
    shape = site.output().shape
    yield from moved(site, 1, _first(site), lambda array: np.broadcast_to(array.reshape(()), shape))


def _shape(site: Site) -> Iterator[Lowered]:
    yield Folded(_first(site), np.array(site.input(0).shape, "<i4").tobytes())


def _concatenation(site: Site) -> Iterator[Lowered]:
    output = site.output()
    axis = axis_in(site, site.option("axis", 0), len(output.shape))
    positions = _filled_inputs(site)
    if is_image(site, output) and len(positions) > 1 and axis <= 1:
        yield from _joined_batches(site, positions) if axis == 0 else _joined_rows(site, positions)
        return
    yield from _joined(site, positions, axis)


def _pack(site: Site) -> Iterator[Lowered]:
    axis = axis_in(site, site.option("axis", 0), len(site.output().shape))
    yield from _joined(site, _filled_inputs(site), axis)


def _filled_inputs(site: Site) -> list[int]:
    positions = [position for position in range(len(site.operator.inputs)) if site.input(position).element_count]
    elements = sum(site.input(position).element_count for position in positions)
    site.require(elements == site.output().element_count, "its output has another size than its inputs together")
    return positions


def _joined(site: Site, positions: Sequence[int], axis: int) -> Iterator[Lowered]:
    """Lower inputs whose blocks from an axis on alternate in the output."""
    index, output = _first(site), site.output()
    if is_unused(site, index):
        return
    inputs = [site.input(position) for position in positions]
    if all(tensor.data is not None for tensor in inputs):
        blocks = [site.constant(position).reshape(prod(output.shape[:axis]), -1) for position in positions]
        yield Folded(index, np.concatenate(blocks, axis=1).tobytes())
        return
    if len(inputs) == 1:
        yield View(index, site.index(positions[0]))
        return
    element = whole_element(site, output)
    in_rows = is_image(site, output) and axis > 1 and all(len(tensor.shape) == IMAGE_RANK for tensor in inputs)
    outer = 2 if in_rows else 0
    yield concat_step(
        site,
        [
            RowInput(
                site.index(position),
                prod(tensor.shape[outer:]) * element,
                rows=tensor.shape[1] if in_rows else 1,
            )
            for position, tensor in zip(positions, inputs, strict=True)
        ],
        [prod(tensor.shape[axis:]) * element for tensor in inputs],
        blocks=prod(output.shape[outer:axis]),
        rows=output.shape[1] if in_rows else 1,
        batches=output.shape[0] if in_rows else 1,
    )


def concat_step(
    site: Site, inputs: Sequence[RowInput], sizes: Sequence[int], *, blocks: int = 1, rows: int = 1, batches: int = 1
) -> Step:
    """Return the step that writes blocks of the given sizes of all input rows in turn."""
    output = site.output()
    return Step(
        operator=site.operator.index,
        kernel="edgetool_concat",
        op=describe(
            "edgetool_concat",
            bytes=Constant("uint32_t", np.array(sizes, "<u4").tobytes(), "sizes of blocks"),
            blocks=blocks,
            inputs=len(sizes),
        ),
        inputs=tuple(inputs),
        output=_first(site),
        row_bytes=output.size_bytes // (rows * batches),
        rows=rows,
        batches=batches,
    )


def _joined_rows(site: Site, positions: Sequence[int]) -> Iterator[Step]:
    """Lower images on top of each other: for each output row, one of the inputs has a row."""
    batches, height, width, channels = site.output().shape
    row_bytes = width * channels * whole_element(site, site.output())
    inputs, above = [], 0
    for position in positions:
        rows = site.input(position).shape[1]
        inputs.append(RowInput(site.index(position), row_bytes, rows=rows, pad=above))
        above += rows
    yield concat_step(site, inputs, [row_bytes] * len(inputs), rows=height, batches=batches)


def _joined_batches(site: Site, positions: Sequence[int]) -> Iterator[Step]:
    """Lower batches behind each other, one input at a time."""
    _, height, width, channels = site.output().shape
    element, start = whole_element(site, site.output()), 0
    row = Strided(0, ((width * channels, element),))
    for position in positions:
        source, batches = site.index(position), site.input(position).shape[0]
        rows = RowInput(source, width * channels * element, rows=height)
        step = copy_step(site, _first(site), rows, row, element, rows=height, batches=batches)
        yield replace(step, output_offset=start)
        start += site.input(position).size_bytes


def _blocks(site: Site) -> int:
    block = site.option("block_size", 0)
    site.require(block > 0, "its block size is 0")
    return int(block)


def _depth_to_space(site: Site) -> Iterator[Lowered]:
    """DEPTH_TO_SPACE: output row y has parts of the pixels of input row y / block."""
    source, output, block = site.input(0), site.output(), _blocks(site)
    batches, height, width, depth = source.shape
    if is_foldable(site, 0, output):
        parts = site.constant(0).reshape(batches, height, width, block, block, -1)
        yield Folded(_first(site), np.ascontiguousarray(parts.transpose(0, 1, 3, 2, 4, 5)).tobytes())
        return
    if is_unused(site, _first(site)):
        return
    if block == 1:
        yield View(_first(site), site.index(0))
        return
    pixel = depth * whole_element(site, source)
    run = pixel // block
    row = Strided(0, ((width, pixel), (run, 1)))
    yield Step(
        operator=site.operator.index,
        kernel="edgetool_copy",
        op=_copy_descriptor(site, row, 1, phases=block, phase_step=run),
        inputs=(RowInput(site.index(0), width * pixel, rows=height, divisor=block),),
        output=_first(site),
        row_bytes=width * run,
        rows=output.shape[1],
        batches=batches,
    )


def _space_to_depth(site: Site) -> Iterator[Lowered]:
    """SPACE_TO_DEPTH: output row y has the parts of `block` input rows, pixel by pixel, as CONCATENATION has."""
    source, output, block = site.input(0), site.output(), _blocks(site)
    if is_unused(site, _first(site)):
        return
    if block == 1:
        yield View(_first(site), site.index(0))
        return
    batches, height, width, depth = source.shape
    _, rows, columns, _ = output.shape
    if is_foldable(site, 0, output):
        parts = site.constant(0).reshape(batches, rows, block, columns, block, depth)
        yield Folded(_first(site), np.ascontiguousarray(parts.transpose(0, 1, 3, 2, 4, 5)).tobytes())
        return
    element = whole_element(site, source)
    taps = RowInput(site.index(0), width * depth * element, rows=height, taps=block, stride=block)
    sizes = [block * depth * element] * block
    yield concat_step(site, [taps], sizes, blocks=columns, rows=rows, batches=batches)


LOWERINGS: dict[str, Lowering] = {
    "BROADCAST_TO": _broadcast_to,
    "CONCATENATION": _concatenation,
    "DEPTH_TO_SPACE": _depth_to_space,
    "EXPAND_DIMS": _reshape,
    "FILL": _fill,
    "PACK": _pack,
    "RESHAPE": _reshape,
    "REVERSE_V2": _reverse,
    "SHAPE": _shape,
    "SLICE": _slice,
    "SPACE_TO_DEPTH": _space_to_depth,
    "SPLIT": _split,
    "SPLIT_V": _split_v,
    "SQUEEZE": _reshape,
    "STRIDED_SLICE": _strided_slice,
    "TRANSPOSE": _transpose,
    "UNPACK": _unpack,
}
