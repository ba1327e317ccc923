"""Operators that select parts of a tensor or write into it: Prepare, loop counts and bounds.

Sources of Prepare: gather.cc, gather_nd.cc, slice.cc, strided_slice_common.cc, strided_slice_logic.h,
embedding_lookup.cc, dynamic_update_slice.cc.

Sources of the loop counts: reference/slice.h, reference/strided_slice.h, gather.cc, gather_nd.cc, embedding_lookup.cc,
dynamic_update_slice.cc.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import prod
from operator import mul

from edgetool.model.types import DType, Graph, Operator, Tensor
from edgetool.operators.call import (
    Call,
    Condition,
    KernelRefusal,
    PrepareRule,
    Request,
    constant_input,
    dimensions_copy,
    input_rank,
    input_type,
    int32_words,
    integer_option,
    integers,
    output_type,
    persistent,
    prepare_rule,
    require,
    same_input_types,
    zero_point,
)
from edgetool.operators.entry import entries
from edgetool.operators.loops import (
    LoopCounts,
    LoopRule,
    Loops,
    Offsets,
    check_steps,
    combined,
    dimension_loops,
    memcpy_loops,
    strided_memcpy_loops,
)
from edgetool.operators.overlap import KERNEL_SETS, PLAIN_TYPES, InputOverlap, OverlapRules
from edgetool.operators.rows import ROWS as ROW_AXIS
from edgetool.operators.rows import RowInput, RowRule, part_rows

MAX_GATHER_ND_COORDINATES = 5


def _prepare_gather(call: Call) -> Iterator[Request]:
    yield from _GATHER_RULE(call)
    source, positions = call.required_input(0), call.required_input(1)
    rank = len(source.shape)
    axis, batches = integer_option(call, "axis"), integer_option(call, "batch_dims")
    axis += rank if axis < 0 else 0
    batches += len(positions.shape) if batches < 0 else 0
    require(call, 0 <= axis < rank, f"does not support axis {axis} with {rank} dimensions")
    require(
        call,
        0 <= batches <= min(axis, len(positions.shape)) and source.shape[:batches] == positions.shape[:batches],
        f"does not support {batches} batch dimensions of {source.shape} and {positions.shape} before axis {axis}",
    )
    yield dimensions_copy(call.required_output())


def _prepare_gather_nd(call: Call) -> Iterator[Request]:
    yield from _GATHER_RULE(call)
    source, positions = call.required_input(0), call.required_input(1)
    require(call, bool(source.shape) and bool(positions.shape), "does not support scalars")
    depth = positions.shape[-1]
    require(
        call,
        depth <= min(len(source.shape), MAX_GATHER_ND_COORDINATES),
        f"supports at most {min(len(source.shape), MAX_GATHER_ND_COORDINATES)} coordinates per index here, not {depth}",
    )
    yield dimensions_copy(call.required_output())


def _prepare_embedding_lookup(call: Call) -> Iterator[Request]:
    lookup, value, result = call.required_input(0), call.required_input(1), call.required_output()
    yield from call.temporary_inputs(0, 1)
    yield from call.temporary_outputs(0)
    input_rank(0, 1)(call)
    input_type(0, DType.INT32)(call)
    require(call, len(value.shape) >= 2, f"does not support a table of shape {value.shape}")
    input_type(1, DType.FLOAT32, DType.INT8)(call)
    output_type(0, DType.FLOAT32, *([DType.INT8] if value.dtype == DType.INT8 else []))(call)
    require(call, len(result.shape) >= len(value.shape), f"does not support an output of shape {result.shape}")
    yield dimensions_copy(result)
    looked_up = (lookup.shape[0], *value.shape[1:], *result.shape[len(value.shape) :])
    require(call, prod(looked_up) <= result.element_count, f"cannot fit {looked_up} into {result.shape}")
    # A float and a size_t; this kernel has no Init.
    yield persistent("OpData", 2 * call.platform.abi.pointer_bytes)
    if value.dtype == DType.INT8 and result.dtype == DType.FLOAT32:
        require(call, zero_point(value) == 0, "supports an int8 table only with a zero point of 0")


def _check_slice_shape(call: Call) -> None:
    """Require the output to have the shape of the slice; masks for new axes and ellipses are ignored."""
    source, result = call.required_input(0), call.required_output()
    begins, ends, strides = (int32_words(call.required_input(position)) for position in (1, 2, 3))
    if min(len(begins), len(ends), len(strides)) < len(source.shape):
        return  # The kernel reads beyond the constants, so the values that it finds are unknown.
    shape = []
    for axis, size in enumerate(source.shape):
        bit, begin, end, stride = 1 << axis, begins[axis], ends[axis], strides[axis]
        require(call, stride != 0, "does not support a stride of 0")
        begin = _clamp_index(begin, size, stride, integer_option(call, "begin_mask") & bit, first=True)
        end = _clamp_index(end, size, stride, integer_option(call, "end_mask") & bit, first=False)
        if not integer_option(call, "shrink_axis_mask") & bit:
            shape.append(max(-(-(end - begin) // stride), 0))
    require(call, tuple(shape) == result.shape, f"produces {tuple(shape)}, but the file specifies {result.shape}")


def _clamp_index(index: int, size: int, stride: int, mask: int, *, first: bool) -> int:
    """Return where a slice begins or ends on an axis; if its mask is set, that is as far out as possible."""
    if size == 0:
        return 0
    if mask:
        return (0 if stride > 0 else size - 1) if first else (size if stride > 0 else -1)
    index += size if index < 0 else 0
    return min(max(index, 0), size) if stride > 0 else min(max(index, -1), size - 1)


def _check_update(call: Call) -> None:
    operand, update, start = (call.required_input(position).shape for position in range(3))
    if start != (len(operand),):
        raise KernelRefusal(
            f"{call.operator.label} requires a start with {len(operand)} indices, not a tensor of shape {start}"
        )
    if len(update) != len(operand) or any(new > old for new, old in zip(update, operand, strict=True)):
        raise KernelRefusal(f"{call.operator.label} does not support an update of shape {update} for {operand}")


_GATHER_RULE = prepare_rule(
    (0, 1), (0,), input_type(1, DType.INT32), input_type(0, DType.FLOAT32, DType.INT8)
)  # fmt: skip

PREPARE: dict[str, PrepareRule] = {
    "DYNAMIC_UPDATE_SLICE": prepare_rule(
        (0, 1, 2), (0,), same_input_types, input_type(2, DType.INT32, DType.INT64), _check_update
    ),
    "EMBEDDING_LOOKUP": _prepare_embedding_lookup,
    "GATHER": _prepare_gather,
    "GATHER_ND": _prepare_gather_nd,
    "SLICE": prepare_rule((0, 1, 2), (0,)),
    "STRIDED_SLICE": prepare_rule(
        (0, 1, 2, 3),
        (0,),
        input_rank(0, 0, 4),
        constant_input(1, "begin"),
        constant_input(2, "end"),
        constant_input(3, "strides"),
        _check_slice_shape,
    ),
}


SLICED_RANK = 5  # the rank to which both kinds of slices are extended


def _element_bytes(tensor: Tensor) -> int:
    return max(tensor.dtype.bits // 8, 1)


def _slice_axis_loops(sizes: tuple[int, ...]) -> Loops:
    """Return the iterations of five nested loops, the outermost first."""
    loop_sizes = (1,) * (SLICED_RANK - len(sizes)) + sizes
    return {f"turn of axis {axis}": iterations for axis, iterations in enumerate(accumulate(loop_sizes, mul))}


def _slice(call: Call) -> LoopCounts:
    result, wide = call.required_output(), call.required_input(1).dtype == DType.INT64
    loops = {"int32 bounds": int(not wide), "int64 bound": len(result.shape) * wide}
    return LoopCounts(
        result.dtype.name.lower(), {**loops, **dimension_loops(len(result.shape)), **_slice_axis_loops(result.shape)}
    )


def _strided_slice(call: Call) -> LoopCounts:
    """Return the loops of STRIDED_SLICE.

    Rows are copied, unless the last axis has a stride: then elements are copied. A removed axis contributes one
    element.
    """
    source, result = call.required_input(0), call.required_output()
    shrink_mask, rank = integer_option(call, "shrink_axis_mask"), len(source.shape)
    remaining_sizes = iter(result.shape)
    sizes = tuple(1 if shrink_mask >> axis & 1 else next(remaining_sizes, 1) for axis in range(rank))
    begins, _, strides = (_indices(call.required_input(position)) for position in (1, 2, 3))
    require(call, min(len(begins), len(strides)) >= rank, f"requires bounds for {rank} dimensions")
    loops = {**dimension_loops(rank), **_slice_axis_loops(sizes)}
    if rank and strides[-1] != 1:
        return LoopCounts(result.dtype.name.lower(), loops | {"element backwards": prod(sizes) * (strides[-1] < 0)})
    starts = [
        _slice_start(begin, size, stride, masked=bool(integer_option(call, "begin_mask") >> axis & 1))
        for axis, (begin, size, stride) in enumerate(zip(begins, source.shape, strides, strict=False))
    ]
    size = (sizes[-1] if rank else 1) * _element_bytes(source)
    del loops[f"turn of axis {SLICED_RANK - 1}"]
    rows = _row_offsets(source, starts, strides, sizes)
    offsets = [[(target, origin) for origin, target in axis] for axis in rows]
    return LoopCounts(f"{result.dtype.name.lower()} rows", combined(loops, memcpy_loops(size, *offsets)))


def _row_offsets(tensor: Tensor, starts: Sequence[int], steps: Sequence[int], sizes: Sequence[int]) -> list[Offsets]:
    """Return the offsets of the rows of a part of a tensor, axis by axis.

    Each offset is a pair: in the tensor, and in the part if it is stored separately.
    """
    rank, element = len(tensor.shape), _element_bytes(tensor)
    tensor_strides = [prod(tensor.shape[axis + 1 :]) * element for axis in range(rank)]
    part_strides = [prod(sizes[axis + 1 :]) * element for axis in range(rank)]
    first = [(sum(start * stride for start, stride in zip(starts, tensor_strides, strict=True)), 0)]
    return [
        first,
        *(
            [(step * steps[axis] * tensor_strides[axis], step * part_strides[axis]) for step in range(sizes[axis])]
            for axis in range(rank - 1)
        ),
    ]


def _slice_start(begin: int, size: int, stride: int, *, masked: bool) -> int:
    """Return where a slice begins on an axis (StridedSliceStartForAxis)."""
    if masked:
        return 0 if stride > 0 else size - 1
    begin += size if begin < 0 else 0
    return min(max(begin, 0), size) if stride > 0 else min(max(begin, -1), size - 1)


def _indices(tensor: Tensor) -> tuple[int, ...]:
    """Return the elements of a constant; for a computed tensor, the first indices in order."""
    check_steps(tensor.element_count)
    return integers(tensor) if tensor.is_constant else tuple(range(tensor.element_count))


def _gather_loops(call: Call) -> LoopCounts:
    source, index_tensor = call.required_input(0), call.required_input(1)
    axis = integer_option(call, "axis") % max(len(source.shape), 1)
    batches = integer_option(call, "batch_dims")
    batches += len(index_tensor.shape) if batches < 0 else 0
    size = prod(source.shape[axis + 1 :]) * _element_bytes(source)
    batch, outer = prod(source.shape[:batches]), prod(source.shape[batches:axis])
    positions, length = _indices(index_tensor), source.shape[axis]
    count = len(positions) // max(batch, 1)
    check_steps(batch * outer)
    outer_offsets = [(outer_index * count * size, outer_index * length * size) for outer_index in range(outer)]
    parts = [
        memcpy_loops(
            size,
            [(batch_index * outer * count * size, batch_index * outer * length * size)],
            outer_offsets,
            [
                (position * size, row * size)
                for position, row in enumerate(positions[batch_index * count : (batch_index + 1) * count])
            ],
        )
        for batch_index in range(batch)
    ]
    loops = {"axis": len(source.shape), "batch": batch, "turn": batch * outer}
    return LoopCounts(source.dtype.name.lower(), combined(loops, *parts))


def _gather_nd_loops(call: Call) -> LoopCounts:
    source, index_tensor = call.required_input(0), call.required_input(1)
    depth = index_tensor.shape[-1]
    require(call, index_tensor.element_count <= len(_indices(index_tensor)), "requires constant indices")
    index_count = prod(index_tensor.shape[:-1])
    check_steps(index_count * max(depth, 1))
    strides = [prod(source.shape[axis + 1 :]) for axis in range(depth)]
    positions = _indices(index_tensor)
    size = prod(source.shape[depth:]) * _element_bytes(source)
    starts = [
        sum(
            index * stride
            for index, stride in zip(positions[index_number * depth : (index_number + 1) * depth], strides, strict=True)
        )
        for index_number in range(index_count)
    ]
    offsets = [(index_number * size, start * _element_bytes(source)) for index_number, start in enumerate(starts)]
    return LoopCounts(
        "copy", combined({"axis": len(source.shape), "index": index_count * depth}, memcpy_loops(size, offsets))
    )


def _embedding_lookup_loops(call: Call) -> LoopCounts:
    """Return the loops of EMBEDDING_LOOKUP: rows are copied, or dequantized element by element."""
    lookup, table, result = call.required_input(0), call.required_input(1), call.required_output()
    columns = prod(table.shape[1:])
    if table.dtype == DType.INT8 and result.dtype == DType.FLOAT32:
        return LoopCounts("int8 to float32", {"row": lookup.element_count, "element": lookup.element_count * columns})
    size = columns * _element_bytes(table)
    offsets = [(position * size, row * size) for position, row in enumerate(_indices(lookup))]
    return LoopCounts("copy", memcpy_loops(size, offsets))


def _update_loops(call: Call) -> LoopCounts:
    """Return the loops of DYNAMIC_UPDATE_SLICE.

    The operand is copied, and then the update over it, row by row; an update of the whole operand is only copied.
    """
    source, update = call.required_input(0), call.required_input(1)
    full_copy = strided_memcpy_loops(source.size_bytes, 1)
    if source.element_count == update.element_count:
        return LoopCounts("whole", combined(dimension_loops(len(source.shape)), full_copy))
    rank = len(source.shape)
    require(call, len(_indices(call.required_input(2))) >= rank, f"requires a start for {rank} dimensions")
    starts = [
        min(max(start, 0), old - new)
        for start, old, new in zip(_indices(call.required_input(2)), source.shape, update.shape, strict=False)
    ]
    rows = _row_offsets(source, starts, [1] * rank, update.shape)
    steps = {**dimension_loops(rank), "step": sum(accumulate(update.shape[:-1], mul))}
    return LoopCounts(
        "copy", combined(steps, full_copy, memcpy_loops(update.shape[-1] * _element_bytes(source), *rows))
    )


LOOPS: dict[str, LoopRule] = {
    "DYNAMIC_UPDATE_SLICE": _update_loops,
    "EMBEDDING_LOOKUP": _embedding_lookup_loops,
    "GATHER": _gather_loops,
    "GATHER_ND": _gather_nd_loops,
    "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice,
}


def _strided_slice_bounds(call: Call) -> None:
    """Require STRIDED_SLICE to have a begin, an end and a stride for each dimension.

    A dimension that is removed must contain the element at its begin.
    """
    source = call.required_input(0).shape
    for position in (1, 2, 3):
        count = call.required_input(position).element_count
        require(call, count >= len(source), f"reads {len(source)} elements of input {position}, which has {count}")
    begins, strides = int32_words(call.required_input(1)), int32_words(call.required_input(3))
    for axis, size in enumerate(source):
        if not integer_option(call, "shrink_axis_mask") & 1 << axis:
            continue
        begin = begins[axis] + (size if begins[axis] < 0 else 0)
        if integer_option(call, "begin_mask") & 1 << axis:
            begin = 0 if strides[axis] > 0 else size - 1
        require(call, 0 <= begin < size, f"reads element {begins[axis]} of a dimension of size {size}")


def _slice_bounds(call: Call) -> None:
    """Require SLICE to have an output of exactly the sizes in the file.

    The kernel reads the sizes in the type of the begins, and writes as many elements as they specify.
    """
    begins, counts = call.required_input(1), call.required_input(2)
    types = begins.dtype.name.lower(), counts.dtype.name.lower()
    require(call, types[0] == types[1], f"does not support {types[0]} together with {types[1]}")
    constant_input(2, "sizes")(call)
    if begins.is_constant:
        return  # the reader compares all three
    source, output_elements = call.required_input(0).shape, call.required_output().element_count
    sizes = [size if count == -1 else count for size, count in zip(source, integers(counts), strict=False)]
    fits = all(0 <= count <= size for size, count in zip(source, sizes, strict=False))
    require(
        call,
        fits and prod(sizes) == output_elements,
        f"may write a {tuple(sizes)} slice of its {source} input to an output with only {output_elements} elements",
    )


def _gather_bounds(call: Call) -> None:
    """Require an output with enough dimensions, because GATHER and GATHER_ND overwrite its sizes."""
    source, positions = call.required_input(0).shape, call.required_input(1).shape
    if call.operator.code == "GATHER":
        batches = integer_option(call, "batch_dims")
        written_rank = len(source) + len(positions) - 1 - (batches + len(positions) if batches < 0 else batches)
    else:
        written_rank = len(positions) - 1 + len(source) - positions[-1]
    output_rank = len(call.required_output().shape)
    require(call, written_rank <= output_rank, f"writes {written_rank} dimensions to an output with {output_rank}")


BOUNDS: dict[str, Condition] = {
    "GATHER": _gather_bounds,
    "GATHER_ND": _gather_bounds,
    "SLICE": _slice_bounds,
    "STRIDED_SLICE": _strided_slice_bounds,
}


def _slice_overlap(call: Call) -> Iterator[InputOverlap]:
    """Yield the input of SLICE: the part begins at `begin` along each axis."""
    begins = call.required_input(1)
    if begins.is_constant:
        yield from _part_overlap(call, integers(begins))


def _strided_slice_overlap(call: Call) -> Iterator[InputOverlap]:
    """Yield the input of STRIDED_SLICE, unless it runs backwards along some axis, or adds axes."""
    source = call.required_input(0)
    begins, strides = call.required_input(1), call.required_input(3)
    adds_axes = integer_option(call, "new_axis_mask") or integer_option(call, "ellipsis_mask")
    if adds_axes or not begins.is_constant or not strides.is_constant or min(int32_words(strides), default=1) < 1:
        return
    mask = integer_option(call, "begin_mask")
    bounds = zip(int32_words(begins), source.shape, int32_words(strides), strict=False)
    yield from _part_overlap(
        call,
        [
            _slice_start(begin, size, stride, masked=bool(mask >> axis & 1))
            for axis, (begin, size, stride) in enumerate(bounds)
        ],
    )


def _part_overlap(call: Call, starts: Sequence[int]) -> Iterator[InputOverlap]:
    """Yield the input of a kernel that copies a part of it, row by row or element by element.

    A row is copied with memcpy, whose source and destination must not overlap. Its place in the output is at most that
    in the input less that of the first element, so that the first row needs the largest distance: its size, less the
    elements in front of it in the input.
    """
    source, result = call.required_input(0), call.required_output()
    if len(starts) != len(source.shape) or source.dtype != result.dtype or source.dtype not in PLAIN_TYPES:
        return
    skipped = 0
    for start, size in zip(starts, source.shape, strict=True):
        skipped = skipped * size + start
    same_rank = len(result.shape) == len(source.shape)
    row = 1 if not starts else result.shape[-1] if same_rank else source.shape[-1] - starts[-1]
    yield InputOverlap(0, (row - skipped) * (source.dtype.bits // 8))


# No kernel set has kernels of its own for them.
OVERLAPS: dict[str, OverlapRules] = {
    "SLICE": dict.fromkeys(KERNEL_SETS, _slice_overlap),
    "STRIDED_SLICE": dict.fromkeys(KERNEL_SETS, _strided_slice_overlap),
}


def _sliced_rows(operator: Operator, graph: Graph) -> Iterator[RowInput]:
    """Yield the input of SLICE, if the file contains the part."""
    begins, sizes = (graph.tensors[index] for index in operator.inputs[1:3])
    if begins.is_constant and sizes.is_constant:
        yield from part_rows(operator, graph, integers(begins))


def _strided_rows(operator: Operator, graph: Graph) -> Iterator[RowInput]:
    """Yield the input of STRIDED_SLICE, if the file contains the part, and it has each row and all axes."""
    source, *bounds = (graph.tensors[index] for index in operator.inputs)
    options = operator.options
    if options is None or not all(tensor.is_constant for tensor in bounds):
        return
    begins, _, strides = map(int32_words, bounds)
    if strides[ROW_AXIS : ROW_AXIS + 1] == (1,) and not any(
        options.integer(mask) for mask in ("new_axis_mask", "ellipsis_mask", "shrink_axis_mask")
    ):
        mask = options.integer("begin_mask")
        yield from part_rows(
            operator,
            graph,
            [
                _slice_start(begin, size, 1, masked=bool(mask >> axis & 1))
                for axis, (begin, size) in enumerate(zip(begins, source.shape, strict=False))
            ],
        )


ROWS: dict[str, RowRule] = {"SLICE": _sliced_rows, "STRIDED_SLICE": _strided_rows}


OPERATORS = entries(prepare=PREPARE, loops=LOOPS, bounds=BOUNDS, overlaps=OVERLAPS, rows=ROWS)
