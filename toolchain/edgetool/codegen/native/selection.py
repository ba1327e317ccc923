"""GATHER, GATHER_ND, EMBEDDING_LOOKUP, DYNAMIC_UPDATE_SLICE, BATCH_TO_SPACE_ND and SPACE_TO_BATCH_ND as native kernels.

The place of an element whose place is known is the sum of an offset per axis of the output (`looked_up`). Indices that
the model computes are looked up at run time; the kernel clamps them, so that none reads outside. TFLM reads outside in
GATHER, and fails in GATHER_ND and EMBEDDING_LOOKUP.

Rows: whole tensors, or for GATHER the whole tensors of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from math import prod

import numpy as np

from edgetool.codegen.native.movement import (
    MAX_LOOPS,
    Strided,
    axis_in,
    is_foldable,
    is_unused,
    moved,
    strided_copy,
    whole_element,
)
from edgetool.codegen.native.program import Constant, RowInput, Step, describe
from edgetool.codegen.native.site import Array, Folded, Lowered, Lowering, Site
from edgetool.model.types import DType

MAX_DEPTH = 5  # of edgetool_gather
MAX_RANK = 6  # of edgetool_update_slice


def looked_up(site: Site, position: int, output: int, offsets: Sequence[Array]) -> Iterator[Lowered]:
    """Lower an output whose elements are at the sums of offsets in one input: elements, one array per axis."""
    source, result = site.input(position), site.graph.tensors[output]
    if is_unused(site, output):
        return
    site.require(prod(item.size for item in offsets) == result.element_count, "its output has another size")
    site.require(source.element_count > 0, "its input is empty")
    if is_foldable(site, position, result):
        places = reduce(np.add.outer, offsets).reshape(-1)
        yield Folded(output, site.constant(position).reshape(-1)[places].tobytes())
        return
    element = whole_element(site, source)
    if all(np.all(np.diff(item, 2) == 0) for item in offsets):
        steps = [int(item[1] - item[0]) if item.size > 1 else 0 for item in offsets]
        axes = tuple((item.size, step * element) for item, step in zip(offsets, steps, strict=True))
        yield from strided_copy(site, position, output, Strided(sum(int(item[0]) for item in offsets) * element, axes))
        return
    rows = RowInput(site.index(position), source.size_bytes)
    yield table_step(site, output, rows, [item * element for item in offsets], element)


def table_step(
    site: Site,
    output: int,
    source: RowInput,
    offsets: Sequence[Array],
    element: int,
    *,
    rows: int = 1,
    batches: int = 1,
) -> Step:
    """Return the step that copies the elements at the sums of byte offsets in each row of the source."""
    loops, run = [item for item in offsets if item.size != 1 or item[0] != 0], element
    while loops and np.array_equal(loops[-1], np.arange(loops[-1].size) * run):
        run *= loops.pop().size
    site.require(len(loops) <= MAX_LOOPS, f"it copies along more than {MAX_LOOPS} axes")
    loops = [np.zeros(1, np.int64)] * (MAX_LOOPS - len(loops)) + loops
    return Step(
        operator=site.operator.index,
        kernel="edgetool_copy_table",
        op=describe(
            "edgetool_copy_table",
            offsets=Constant("uint32_t", np.concatenate(loops).astype("<u4").tobytes(), "offsets of elements"),
            count=tuple(item.size for item in loops),
            run=run,
        ),
        inputs=(source,),
        output=output,
        row_bytes=element * prod(item.size for item in offsets),
        rows=rows,
        batches=batches,
    )


def _gather(site: Site) -> Iterator[Lowered]:
    source, positions = site.input(0), site.input(1)
    shape = source.shape
    axis = axis_in(site, site.option("axis", 0), len(shape))
    batch_axes = site.option("batch_dims", 0)
    batch_axes += len(positions.shape) if batch_axes < 0 else 0
    batches, outer = prod(shape[:batch_axes]), prod(shape[batch_axes:axis])
    yield from _rows_at(site, 0, 1, batches, outer, shape[axis], prod(shape[axis + 1 :]))


def _embedding_lookup(site: Site) -> Iterator[Lowered]:
    table, output = site.input(1), site.output()
    site.require(table.dtype is output.dtype, "it dequantizes the table")
    yield from _rows_at(site, 1, 0, 1, 1, table.shape[0], prod(table.shape[1:]))


def _rows_at(site: Site, table: int, where: int, batches: int, outer: int, size: int, run: int) -> Iterator[Lowered]:
    """Lower GATHER along one axis of `size` rows of `run` elements; `batches` have indices of their own."""
    site.require(site.input(where).dtype is DType.INT32, "its indices are not int32")
    if site.input(where).data is not None:
        indices = site.constant(where).reshape(-1)
        site.require(bool(np.all((indices >= 0) & (indices < size))), "an index is outside its input")
        if batches == 1:
            offsets = [np.arange(outer) * (size * run), indices.astype(np.int64) * run, np.arange(run)]
            yield from looked_up(site, table, site.operator.outputs[0], offsets)
            return
    yield from _at_run_time(site, table, where, (run,), batches=batches, outer=outer, part=size * run, run=run)


def _gather_nd(site: Site) -> Iterator[Lowered]:
    """GATHER_ND, which checks only the sum of its indices: one of them may be outside its axis."""
    shape, depth = site.input(0).shape, site.input(1).shape[-1]
    site.require(site.input(1).dtype is DType.INT32, "its indices are not int32")
    site.require(0 < depth <= MAX_DEPTH, f"it has {depth} indices per element")
    run, total = prod(shape[depth:]), site.input(0).element_count
    steps = tuple(prod(shape[axis + 1 :]) for axis in range(depth))
    if site.input(1).data is not None:
        places = site.constant(1).reshape(-1, depth).astype(np.int64) @ np.array(steps, np.int64)
        site.require(bool(np.all((places >= 0) & (places + run <= total))), "an index is outside its input")
        yield from looked_up(site, 0, site.operator.outputs[0], [places, np.arange(run)])
        return
    yield from _at_run_time(site, 0, 1, steps, batches=1, outer=1, part=total, run=run)


def _at_run_time(
    site: Site, table: int, where: int, steps: tuple[int, ...], *, batches: int, outer: int, part: int, run: int
) -> Iterator[Lowered]:
    """Lower lookups at run time; steps, part and run are in elements."""
    index, source, indices = site.operator.outputs[0], site.input(table), site.input(where)
    if is_unused(site, index):
        return
    site.require(source.element_count > 0, "its input is empty")
    site.require(batches < 2**16, f"it has {batches} batches")
    element, depth = whole_element(site, source), len(steps)
    positions = indices.element_count // (batches * depth)
    row_bytes = outer * positions * run * element
    site.require(row_bytes * batches == site.output().size_bytes, "its output has another size than it computes")
    places: int | Constant = site.index(where)
    if indices.data is not None:
        places = Constant("int32_t", site.constant(where).astype("<i4").tobytes(), "indices")
    yield Step(
        operator=site.operator.index,
        kernel="edgetool_gather",
        op=describe(
            "edgetool_gather",
            step=(*(step * element for step in steps), *[0] * (MAX_DEPTH - depth)),
            depth=depth,
            positions=positions,
            outer=outer,
            part=part * element,
            run=run * element,
            limit=(part - run) * element,
        ),
        inputs=(RowInput(site.index(table), source.size_bytes // batches), RowInput(places, positions * depth * 4)),
        output=index,
        row_bytes=row_bytes,
        batches=batches,
    )


def _update_slice(site: Site) -> Iterator[Lowered]:
    """DYNAMIC_UPDATE_SLICE, whose starts the kernel clamps as TFLM does."""
    source, update, starts, index = site.input(0), site.input(1), site.input(2), site.operator.outputs[0]
    rank, element = len(source.shape), whole_element(site, source)
    if is_unused(site, index):
        return
    site.require(0 < rank <= MAX_RANK, f"it has {rank} axes")
    site.require(site.output().size_bytes == source.size_bytes, "its output has another size than its input")
    places: int | Constant = site.index(2)
    if starts.data is not None:
        clamped = np.clip(site.constant(2), -(2**31), 2**31 - 1).astype("<i4")
        places = Constant("int32_t", clamped.tobytes(), "starts")
    site.require(starts.data is not None or starts.dtype is DType.INT32, "its starts are not int32")
    missing = [1] * (MAX_RANK - rank)
    whole, part = [*missing, *source.shape], [*missing, *update.shape]
    yield Step(
        operator=site.operator.index,
        kernel="edgetool_update_slice",
        op=describe(
            "edgetool_update_slice",
            count=tuple(part[:-1]),
            step=tuple(element * prod(whole[axis + 1 :]) for axis in range(MAX_RANK)),
            limit=tuple(size - updated for size, updated in zip(whole, part, strict=True)),
            axes=rank,
            run=part[-1] * element,
            bytes=source.size_bytes,
        ),
        inputs=(
            RowInput(site.index(0), source.size_bytes),
            RowInput(site.index(1), update.size_bytes),
            RowInput(places, rank * 4),
        ),
        output=index,
        row_bytes=source.size_bytes,
    )


def _block_shape(site: Site) -> tuple[tuple[int, int], Array]:
    """Return the sizes of a block and what is padded or cropped around the two sides of an image."""
    for position in (1, 2):
        site.require(site.input(position).dtype is DType.INT32, "its sizes are not int32")
    blocks, border = site.constant(1).reshape(-1).tolist(), site.constant(2).reshape(-1, 2)
    sides = len(site.input(0).shape) - 2
    site.require(len(blocks) == len(border) == sides and sides in (1, 2), "it does not divide each side of an image")
    site.require(min(blocks) > 0 and int(border.min()) >= 0, "it has blocks of 0 or a negative border")
    return (blocks[0], blocks[1] if sides == 2 else 1), np.vstack([border, [[0, 0]]])[:2]


def _images(shape: Sequence[int]) -> tuple[int, int, int, int]:
    """Return the shape as that of images; without columns, they have one."""
    batches, height, *width, channels = shape
    return batches, height, width[0] if width else 1, channels


def _space_to_batch(site: Site) -> Iterator[Lowered]:
    """SPACE_TO_BATCH_ND without padding, which TFLM fills with what its memory contained before."""
    (block_y, block_x), border = _block_shape(site)
    site.require(not border.any(), "TFLM pads with undefined values; first pad its input with PAD")
    batches, height, width, channels = _images(site.input(0).shape)
    site.require(height % block_y == 0 and width % block_x == 0, "its blocks do not divide its input")
    parts = (batches, height // block_y, block_y, width // block_x, block_x, channels)
    output = site.operator.outputs[0]
    yield from moved(site, 0, output, lambda array: array.reshape(parts).transpose(2, 4, 0, 1, 3, 5))


def _batch_to_space(site: Site) -> Iterator[Lowered]:
    """BATCH_TO_SPACE_ND: along each side of an image, the input's batch changes from pixel to pixel."""
    (block_y, block_x), border = _block_shape(site)
    total, height, width, channels = _images(site.input(0).shape)
    batches, rows, columns, _ = _images(site.output().shape)
    site.require(total == batches * block_y * block_x, "its batches are no multiple of its blocks")
    y, x = (np.arange(count) + int(crop) for count, crop in zip((rows, columns), border[:, 0], strict=True))
    site.require(int(y[-1]) < height * block_y and int(x[-1]) < width * block_x, "its output is larger than its input")
    image = height * width * channels
    offsets = [
        np.arange(batches) * image,
        y % block_y * (block_x * batches * image) + y // block_y * (width * channels),
        x % block_x * (batches * image) + x // block_x * channels,
        np.arange(channels),
    ]
    yield from looked_up(site, 0, site.operator.outputs[0], offsets)


LOWERINGS: dict[str, Lowering] = {
    "BATCH_TO_SPACE_ND": _batch_to_space,
    "DYNAMIC_UPDATE_SLICE": _update_slice,
    "EMBEDDING_LOOKUP": _embedding_lookup,
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "SPACE_TO_BATCH_ND": _space_to_batch,
}
