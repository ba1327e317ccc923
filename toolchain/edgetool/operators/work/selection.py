"""The work of operators that pick parts of a tensor or write into it.

Sources: reference/slice.h, reference/strided_slice.h, gather.cc, gather_nd.cc, embedding_lookup.cc,
dynamic_update_slice.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from operator import mul

from edgetool.model.types import DType, Tensor
from edgetool.operators.kernel import Call
from edgetool.operators.prepare.inspection import demand, integer, integers
from edgetool.operators.work.copies import Places, copied, copied_evenly, dimensions
from edgetool.operators.work.loops import Loops, together
from edgetool.operators.work.types import Work, WorkRule, walk

SLICED_RANK = 5  # both kinds of slices are extended to it


def _element_bytes(tensor: Tensor) -> int:
    return max(tensor.dtype.bits // 8, 1)


def _nested(sizes: tuple[int, ...]) -> Loops:
    """The turns of five loops in each other, the outermost first."""
    extended = (1,) * (SLICED_RANK - len(sizes)) + sizes
    return {f"turn of axis {axis}": turns for axis, turns in enumerate(accumulate(extended, mul))}


def _slice(call: Call) -> Work:
    result, wide = call.required_output(), call.required_input(1).dtype == DType.INT64
    loops = {"int32 bounds": int(not wide), "int64 bound": len(result.shape) * wide}
    return Work(result.dtype.name.lower(), {**loops, **dimensions(len(result.shape)), **_nested(result.shape)})


def _strided_slice(call: Call) -> Work:
    """Rows are copied, unless the last axis has a stride: then elements are. An axis that goes away has one of them."""
    source, result = call.required_input(0), call.required_output()
    gone, rank = integer(call, "shrink_axis_mask"), len(source.shape)
    left = iter(result.shape)
    sizes = tuple(1 if gone >> axis & 1 else next(left, 1) for axis in range(rank))
    begins, _, strides = (_positions(call.required_input(at)) for at in (1, 2, 3))
    demand(call, min(len(begins), len(strides)) >= rank, f"requires bounds for {rank} dimensions")
    loops = {**dimensions(rank), **_nested(sizes)}
    if rank and strides[-1] != 1:
        return Work(result.dtype.name.lower(), loops | {"element backwards": prod(sizes) * (strides[-1] < 0)})
    starts = [
        _start(begin, size, stride, masked=bool(integer(call, "begin_mask") >> axis & 1))
        for axis, (begin, size, stride) in enumerate(zip(begins, source.shape, strides, strict=False))
    ]
    size = (sizes[-1] if rank else 1) * _element_bytes(source)
    del loops[f"turn of axis {SLICED_RANK - 1}"]
    rows = _rows(source, starts, strides, sizes)
    places = [[(made, found) for found, made in axis] for axis in rows]
    return Work(f"{result.dtype.name.lower()} rows", together(loops, copied(size, *places)))


def _rows(tensor: Tensor, starts: Sequence[int], steps: Sequence[int], sizes: Sequence[int]) -> list[Places]:
    """The offsets of the rows of a part of a tensor, and of those of the part itself when it is alone, axis by axis."""
    rank, element = len(tensor.shape), _element_bytes(tensor)
    wide = [prod(tensor.shape[axis + 1 :]) * element for axis in range(rank)]
    close = [prod(sizes[axis + 1 :]) * element for axis in range(rank)]
    first = [(sum(start * stride for start, stride in zip(starts, wide, strict=True)), 0)]
    return [
        first,
        *(
            [(turn * steps[axis] * wide[axis], turn * close[axis]) for turn in range(sizes[axis])]
            for axis in range(rank - 1)
        ),
    ]


def _start(begin: int, size: int, stride: int, *, masked: bool) -> int:
    """Where a slice begins on an axis (StridedSliceStartForAxis)."""
    if masked:
        return 0 if stride > 0 else size - 1
    begin += size if begin < 0 else 0
    return min(max(begin, 0), size) if stride > 0 else min(max(begin, -1), size - 1)


def _positions(tensor: Tensor) -> tuple[int, ...]:
    """What the file says is looked up; the first ones in order when that is calculated."""
    walk(tensor.element_count)
    return integers(tensor) if tensor.is_constant else tuple(range(tensor.element_count))


def _gather(call: Call) -> Work:
    source, given = call.required_input(0), call.required_input(1)
    axis = integer(call, "axis") % max(len(source.shape), 1)
    batches = integer(call, "batch_dims")
    batches += len(given.shape) if batches < 0 else 0
    size = prod(source.shape[axis + 1 :]) * _element_bytes(source)
    batch, outer = prod(source.shape[:batches]), prod(source.shape[batches:axis])
    positions, length = _positions(given), source.shape[axis]
    each = len(positions) // max(batch, 1)
    walk(batch * outer)
    turns = [(turn * each * size, turn * length * size) for turn in range(outer)]
    parts = [
        copied(
            size,
            [(one * outer * each * size, one * outer * length * size)],
            turns,
            [(at * size, row * size) for at, row in enumerate(positions[one * each : (one + 1) * each])],
        )
        for one in range(batch)
    ]
    loops = {"axis": len(source.shape), "batch": batch, "turn": batch * outer}
    return Work(source.dtype.name.lower(), together(loops, *parts))


def _gather_nd(call: Call) -> Work:
    source, given = call.required_input(0), call.required_input(1)
    depth = given.shape[-1]
    demand(call, given.element_count <= len(_positions(given)), "requires constant indices")
    number = prod(given.shape[:-1])
    walk(number * max(depth, 1))
    strides = [prod(source.shape[axis + 1 :]) for axis in range(depth)]
    positions = _positions(given)
    size = prod(source.shape[depth:]) * _element_bytes(source)
    starts = [
        sum(index * stride for index, stride in zip(positions[at * depth : (at + 1) * depth], strides, strict=True))
        for at in range(number)
    ]
    places = [(at * size, start * _element_bytes(source)) for at, start in enumerate(starts)]
    return Work("copy", together({"axis": len(source.shape), "index": number * depth}, copied(size, places)))


def _embedding_lookup(call: Call) -> Work:
    """Rows are copied, or dequantized element by element."""
    given, table, result = call.required_input(0), call.required_input(1), call.required_output()
    columns = prod(table.shape[1:])
    if table.dtype == DType.INT8 and result.dtype == DType.FLOAT32:
        return Work("int8 to float32", {"row": given.element_count, "element": given.element_count * columns})
    size = columns * _element_bytes(table)
    places = [(at * size, row * size) for at, row in enumerate(_positions(given))]
    return Work("copy", copied(size, places))


def _update(call: Call) -> Work:
    """All is copied, and then the update over it, row by row; an update of everything is copied alone."""
    source, update = call.required_input(0), call.required_input(1)
    whole = copied_evenly(source.size_bytes, 1)
    if source.element_count == update.element_count:
        return Work("whole", together(dimensions(len(source.shape)), whole))
    rank = len(source.shape)
    demand(call, len(_positions(call.required_input(2))) >= rank, f"requires a start for {rank} dimensions")
    starts = [
        min(max(start, 0), old - new)
        for start, old, new in zip(_positions(call.required_input(2)), source.shape, update.shape, strict=False)
    ]
    rows = _rows(source, starts, [1] * rank, update.shape)
    steps = {**dimensions(rank), "step": sum(accumulate(update.shape[:-1], mul))}
    return Work("copy", together(steps, whole, copied(update.shape[-1] * _element_bytes(source), *rows)))


WORK: dict[str, WorkRule] = {
    "DYNAMIC_UPDATE_SLICE": _update,
    "EMBEDDING_LOOKUP": _embedding_lookup,
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice,
}
