"""Operators that join, split and rearrange tensors: Prepare, loop counts and bounds.

Sources of Prepare: concatenation.cc, split.cc, split_v.cc, transpose_common.cc, reverse.cc, space_to_depth.cc,
depth_to_space.cc, space_to_batch_nd.cc, batch_to_space_nd.cc, resize_bilinear.cc, resize_nearest_neighbor.cc.
pack.cc and unpack.cc have no Prepare. CMSIS-NN's transpose shares the reference kernel's Prepare.

Sources of the loop counts: reference/concatenation.h, split.cc, split_v.cc, pack.cc, unpack.cc, reference/transpose.h,
arm_transpose_s8.c, reference/reverse.h, reference/resize_bilinear.h, reference/resize_nearest_neighbor.h,
reference/space_to_depth.h, reference/depth_to_space.h, reference/space_to_batch_nd.h, reference/batch_to_space_nd.h.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from math import floor, prod

from edgetool.model.types import DType, Graph, Operator, Tensor
from edgetool.operators.call import (
    INT32_BYTES,
    MAX_SMALL_RANK,
    Call,
    Condition,
    KernelRefusal,
    PrepareRule,
    Request,
    all_of,
    constant_input,
    dimensions_copy,
    float32,
    input_rank,
    input_type,
    int32_words,
    integer_option,
    integers,
    no_requests,
    output_rank,
    persistent,
    prepare_rule,
    require,
    same_output_type,
    scale,
    zero_point,
)
from edgetool.operators.entry import KernelFault, entries
from edgetool.operators.loops import (
    WORD,
    LoopCounts,
    LoopRule,
    Loops,
    Offsets,
    alignment_period,
    check_steps,
    combined,
    dimension_loops,
    memcpy_loops,
    memset_loops,
    prefixed,
    repeated,
    strided_memcpy_loops,
)
from edgetool.operators.rows import RowInput, RowRule, concatenated_rows, multiplied_rows

FLOAT_BYTES = 4
MAX_CONCATENATION_INPUTS = 10
IMAGE_RANK = 4


def _prepare_concatenation(call: Call) -> Iterator[Request]:
    """Yield the requests of CONCATENATION, which requests the first input twice."""
    first, result = call.required_input(0), call.required_output()
    yield from call.temporary_inputs(0)
    yield from call.temporary_outputs(0)
    activation = call.option("fused_activation_function", "NONE")
    require(call, activation == "NONE", f"does not support the fused activation {activation!r}")
    input_type(0, DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.BOOL)(call)
    same_output_type(call)
    inputs = len(call.operator.inputs)
    require(
        call, inputs <= MAX_CONCATENATION_INPUTS, f"supports at most {MAX_CONCATENATION_INPUTS} inputs, not {inputs}"
    )
    if not call.platform.has("concatenation-without-scales"):
        yield from _request_scales(call, inputs)
        return
    for position in range(inputs):
        tensor = call.required_input(position)
        yield from call.temporary_inputs(position)
        input_type(position, first.dtype)(call)
        input_rank(position, 0, MAX_SMALL_RANK)(call)
        if first.dtype == DType.INT8:
            same = (scale(tensor), zero_point(tensor)) == (scale(result), zero_point(result))
            require(call, same, "supports int8 only if all inputs are quantized like the output")
        if first.dtype == DType.INT16:
            require(call, zero_point(tensor) == 0, "supports int16 only with zero points of 0")
    if first.dtype == DType.INT16:
        require(call, zero_point(result) == 0, "supports int16 only with zero points of 0")


def _request_scales(call: Call, inputs: int) -> Iterator[Request]:
    """Yield the requests of a CONCATENATION that requantizes its int8 inputs, and so keeps their scales."""
    for position in range(inputs):
        yield from call.temporary_inputs(position)
        input_rank(position, 0, MAX_SMALL_RANK)(call)
    yield from call.temporary_outputs(0)
    if call.required_input(0).dtype != DType.INT8:
        return
    yield persistent("scales of the inputs", FLOAT_BYTES * inputs)
    yield persistent("zero points of the inputs", INT32_BYTES * inputs)
    yield from call.temporary_inputs(*range(inputs))


def _check_permutation(call: Call) -> None:
    rank, permutation = len(call.required_input(0).shape), call.required_input(1)
    require(call, permutation.shape == (rank,), f"requires {rank} axes for {rank} dimensions, not {permutation.shape}")
    # The kernel does not check the type: it reads an int64 list as twice as many words.
    for axis in int32_words(permutation)[:rank]:
        require(call, 0 <= axis < rank, f"supports axes from 0 to {rank - 1}, not {axis}")


def _check_reversed_axes(call: Call) -> None:
    rank, axes = len(call.required_input(0).shape), call.required_input(1).element_count
    require(call, axes <= rank, f"supports at most as many axes as dimensions, not {axes} axes for {rank} dimensions")


def _prepare_space_to_depth(call: Call) -> Iterator[Request]:
    yield from _BLOCK_RULE(call)
    _, height, width, _ = call.required_input(0).shape
    block = integer_option(call, "block_size")
    require(call, block != 0, "does not support a block size of 0")
    require(call, height % block == width % block == 0, f"cannot divide {height} x {width} into blocks of {block}")
    yield dimensions_copy(call.required_output())


def _prepare_depth_to_space(call: Call) -> Iterator[Request]:
    yield from _BLOCK_RULE(call)
    channels = call.required_input(0).shape[3]
    block = integer_option(call, "block_size")
    require(call, block > 0, f"does not support a block size of {block}")
    require(call, channels % (block * block) == 0, f"cannot divide {channels} channels into blocks of {block}")
    yield dimensions_copy(call.required_output())


def _check_pixel_centers(call: Call) -> None:
    if call.option("half_pixel_centers", False) and call.option("align_corners", False):
        raise KernelRefusal(f"{call.operator.label} does not support half-pixel centers together with aligned corners")


def _check_size_shape(call: Call) -> None:
    size = call.required_input(1).shape
    require(call, size == (2,), f"requires a height and a width, not a tensor of shape {size}")


_BLOCK_RULE = prepare_rule(
    (0,), (0,), input_rank(0, 4), input_type(0, DType.FLOAT32, DType.INT8), same_output_type
)  # fmt: skip
_BATCH_RULE = prepare_rule((0,), (0,), input_rank(0, 3, 4), output_rank(0, 3, 4), same_output_type)
_RESIZE_CONDITIONS = (input_rank(0, 4), input_rank(1, 1), input_type(1, DType.INT32), constant_input(1, "size"))
_REVERSIBLE_TYPES = (DType.INT32, DType.FLOAT32, DType.UINT8, DType.INT8, DType.INT16, DType.INT64, DType.BOOL)

PREPARE: dict[str, PrepareRule] = {
    "BATCH_TO_SPACE_ND": _BATCH_RULE,
    "CONCATENATION": _prepare_concatenation,
    "DEPTH_TO_SPACE": _prepare_depth_to_space,
    "PACK": no_requests,
    "RESIZE_BILINEAR": prepare_rule((0, 1), (0,), *_RESIZE_CONDITIONS, _check_pixel_centers),
    "RESIZE_NEAREST_NEIGHBOR": prepare_rule((0, 1), (0,), *_RESIZE_CONDITIONS, _check_size_shape),
    "REVERSE_V2": prepare_rule(
        (0, 1),
        (0,),
        input_rank(1, 1),
        input_rank(0, 0, MAX_SMALL_RANK),
        _check_reversed_axes,
        input_type(0, *_REVERSIBLE_TYPES),
        input_type(1, DType.INT32),
        same_output_type,
    ),
    "SPACE_TO_BATCH_ND": _BATCH_RULE,
    "SPACE_TO_DEPTH": _prepare_space_to_depth,
    # Prepare requests neither the outputs nor the tensor that is split.
    "SPLIT": prepare_rule((0,), (), constant_input(0, "axis")),
    "SPLIT_V": prepare_rule((2,), (), constant_input(2, "axis")),
    "TRANSPOSE": prepare_rule(
        (0, 1), (0,), input_rank(0, 0, 5), same_output_type, constant_input(1, "permutation"), _check_permutation
    ),
    "UNPACK": no_requests,
}


LANES = 8  # elements per vector when CMSIS-NN transposes bytes


def _type_name(tensor: Tensor) -> str:
    return tensor.dtype.name.lower()


def _element_bytes(tensor: Tensor) -> int:
    return max(tensor.dtype.bits // 8, 1)


def _constants(call: Call, position: int) -> tuple[int, ...]:
    tensor = call.required_input(position)
    return integers(tensor) if tensor.is_constant else ()


def _concatenation_loops(call: Call) -> LoopCounts:
    """Return the loops of CONCATENATION, which copies one part of each input in turn, along the axis."""
    output_rank(0, 1, MAX_SMALL_RANK)(call)
    result = call.required_output()
    axis = integer_option(call, "axis") % len(result.shape)
    outer = prod(result.shape[:axis])
    stride, start = prod(result.shape[axis:]) * _element_bytes(result), 0
    inputs, rank = len(call.operator.inputs), len(result.shape)
    parts: list[Loops] = [
        dimension_loops(rank),
        {"input": inputs, "turn": outer},
        prefixed("input's", repeated(inputs, dimension_loops(rank))),
    ]
    for position in range(inputs):
        size = prod(call.required_input(position).shape[axis:]) * _element_bytes(result)
        parts.append(strided_memcpy_loops(size, outer, (start, stride), (0, size)))
        start += size
    return LoopCounts(_type_name(result), combined(*parts))


def _part_loops(call: Call, axis: int, tensor: Tensor, part_count: int) -> LoopCounts:
    outer = prod(tensor.shape[:axis])
    loops = {
        "axis": len(tensor.shape),
        "outer axis": axis,
        "tensor": part_count,
        "turn": outer,
        "piece": outer * part_count,
    }
    return LoopCounts(_type_name(tensor), loops | {"element": tensor.element_count})


def _split_rule(axis_at: int, source_at: int) -> LoopRule:
    def rule(call: Call) -> LoopCounts:
        input_rank(source_at, 1, MAX_SMALL_RANK)(call)
        source = call.required_input(source_at)
        axis = (*_constants(call, axis_at), 0)[0] % len(source.shape)
        return _part_loops(call, axis, source, len(call.operator.outputs))

    return rule


def _pack(call: Call) -> LoopCounts:
    output_rank(0, 1, MAX_SMALL_RANK)(call)
    result = call.required_output()
    return _part_loops(call, integer_option(call, "axis") % len(result.shape), result, len(call.operator.inputs))


def _unpack(call: Call) -> LoopCounts:
    input_rank(0, 1, MAX_SMALL_RANK)(call)
    source = call.required_input(0)
    return _part_loops(call, integer_option(call, "axis") % len(source.shape), source, len(call.operator.outputs))


def _transpose(call: Call) -> LoopCounts:
    source, result = call.required_input(0), call.required_output()
    if source.dtype == DType.INT8 and call.platform.cmsis_nn:
        return _cmsis_transpose(call, source)
    # The kernel calls a function for each step of every axis but the last.
    rank = len(result.shape)
    call_count = sum(prod(result.shape[:axis]) for axis in range(1, rank))
    loops = {"step": call_count, "row": prod(result.shape[:-1]), "element": result.element_count}
    return LoopCounts(_type_name(source), {**dimension_loops(rank), **loops})


def _cmsis_transpose(call: Call, source: Tensor) -> LoopCounts:
    """Return the loops of CMSIS-NN, which has separate code for matrices and, with MVE, for the last two axes."""
    shape, rank = source.shape, len(source.shape)
    if rank == 1:
        return LoopCounts("int8 CMSIS-NN vector", strided_memcpy_loops(source.size_bytes, 1))
    last_two = rank == 2 or (rank == 4 and call.platform.mve and _constants(call, 1)[:2] == (0, 1))
    if not last_two:
        loops = {"plane": prod(shape[:-2]), "row": prod(shape[:-1]), "element": prod(shape)}
        return LoopCounts("int8 CMSIS-NN", {"fourth axis": int(rank == 4), "volume": prod(shape[:-3]), **loops})
    matrices, (rows, columns) = prod(shape[:-2]), shape[-2:]
    if call.platform.mve:
        vectors = {"column": matrices * columns, "vector": matrices * columns * -(-rows // LANES)}
        return LoopCounts("int8 CMSIS-NN matrix", {"matrix": matrices, **vectors})
    return LoopCounts("int8 CMSIS-NN matrix", {"matrix": matrices, "row": matrices * rows, "element": prod(shape)})


def _reverse(call: Call) -> LoopCounts:
    """Return the loops of REVERSE_V2.

    Elements are copied in reverse order; if axes follow the reversed ones, contiguous parts are copied instead.
    """
    input_rank(0, 1, MAX_SMALL_RANK)(call)
    source = call.required_input(0)
    rank = len(source.shape)
    axes = sorted(axis % rank for axis in _constants(call, 1)) or [0]
    inner = prod(source.shape[axes[-1] + 1 :])
    if len(axes) == rank:
        return LoopCounts(f"{_type_name(source)} whole", {**dimension_loops(rank), "element": source.element_count})
    outer = prod(source.shape[: axes[0]])
    loops = {**dimension_loops(rank), "reversed axis": len(axes), "row": outer}
    if inner == 1:
        return LoopCounts(_type_name(source), loops | {"element": source.element_count})
    axis_offsets = []
    for axis in range(axes[-1] + 1):
        stride = prod(source.shape[axis + 1 :]) * _element_bytes(source)
        offsets = [position * stride for position in range(source.shape[axis])]
        axis_offsets.append(list(zip(reversed(offsets) if axis in axes else offsets, offsets, strict=True)))
    return LoopCounts("pieces", combined(loops, memcpy_loops(inner * _element_bytes(source), *axis_offsets)))


def _check_images(call: Call) -> None:
    """Require non-empty images. Raises KernelRefusal for other tensors, beyond which the kernel would read."""
    input_rank(0, 4)(call)
    output_rank(0, 4)(call)
    require(call, 0 not in call.required_output().shape, "cannot produce an empty image")


def _coordinate_mode(call: Call) -> str:
    """Return which points of input and output pixels are aligned; the kernel has separate code for each mode."""
    if call.option("align_corners"):
        return "corners"
    return "centers" if call.option("half_pixel_centers") else "edges"


def _resize_bilinear(call: Call) -> LoopCounts:
    _check_images(call)
    source, result = call.required_input(0), call.required_output()
    batches, height, width, channels = result.shape
    rows = batches * height
    down, across = (
        _interpolated_points(call, source.shape[1], height),
        _interpolated_points(call, source.shape[2], width),
    )
    return LoopCounts(
        f"{_type_name(source)} {_coordinate_mode(call)}",
        {
            "row": rows,
            "pixel": rows * width,
            "element": rows * width * channels,
            # Without a floating-point unit, products with 0 take fewer instructions.
            "element between rows": batches * down * width * channels,
            "element between columns": rows * across * channels,
            "element between both": batches * down * across * channels,
        },
    )


def _interpolated_points(call: Call, size: int, output_size: int) -> int:
    """Return how many points along a side are not on a row or column of the input."""
    scale, centers = _scale(call, size, output_size), bool(call.option("half_pixel_centers"))
    shift = 0.5 if centers else 0.0
    return sum(not float32(float32((position + shift) * scale) - shift).is_integer() for position in range(output_size))


def _resize_nearest(call: Call) -> LoopCounts:
    _check_images(call)
    source, result = call.required_input(0), call.required_output()
    size = source.shape[3] * _element_bytes(source)
    rows = result.shape[0] * result.shape[1]
    loops: Loops = {
        "row": rows,
        "pixel": rows * result.shape[2],
        # Each row and pixel divides the sides again; without an FPU, one binary digit at a time up to the last one.
        "digit of a row": rows * _significant_bits(_scale(call, source.shape[1], result.shape[1])),
        "digit of a pixel": rows * result.shape[2] * _significant_bits(_scale(call, source.shape[2], result.shape[2])),
    }
    return LoopCounts(
        f"{_type_name(source)} {_coordinate_mode(call)}",
        combined(loops, memcpy_loops(size, *_nearest_offsets(call, size))),
    )


def _nearest_offsets(call: Call, size: int) -> tuple[Offsets, Offsets, Offsets]:
    """Return the offsets of the output's pixels and of the nearest input pixels, for images, rows and columns."""
    (batches, height, width, _), (_, high, wide, _) = call.required_input(0).shape, call.required_output().shape
    return (
        [(at * high * wide * size, at * height * width * size) for at in range(batches)],
        [(at * wide * size, row * width * size) for at, row in enumerate(_nearest_indices(call, height, high))],
        [(at * size, column * size) for at, column in enumerate(_nearest_indices(call, width, wide))],
    )


def _scale(call: Call, size: int, output_size: int) -> float:
    return float32(
        (size - 1) / (output_size - 1) if call.option("align_corners") and output_size > 1 else size / output_size
    )


def _significant_bits(number: float) -> int:
    """Return the number of binary digits of a number from the first to the last that is set."""
    top, _ = number.as_integer_ratio()
    return (top // (top & -top)).bit_length() if top else 0


def _nearest_indices(call: Call, size: int, output_size: int) -> list[int]:
    scale = _scale(call, size, output_size)
    offset = 0.5 if call.option("half_pixel_centers") else 0.0
    rounding = 0.5 if call.option("align_corners") else 0.0
    return [min(floor((position + offset) * scale + rounding), size - 1) for position in range(output_size)]


def _depth_block_loops(call: Call) -> LoopCounts:
    """Return the loops over the larger of the two images, which is the one that the kernel iterates over."""
    _check_images(call)
    source, result = call.required_input(0), call.required_output()
    wide = max(source.shape, result.shape, key=lambda shape: shape[1] * shape[2])
    return LoopCounts(_type_name(source), {"row": prod(wide[:2]), "pixel": prod(wide[:3]), "element": prod(wide)})


def _image_shape(tensor: Tensor) -> tuple[int, int, int, int]:
    """Return batches, height, width and channels; the width is 1 if the tensor has only three dimensions."""
    batches, height, *width, channels = tensor.shape
    return batches, height, width[0] if width else 1, channels


def _block_parameters(call: Call) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the block's height and width, and the padding above and to the left of the image."""
    block, paddings = _constants(call, 1), _constants(call, 2)
    has_width = len(call.required_input(0).shape) == 4
    usable = len(block) >= 1 + has_width and len(paddings) >= 2 + 2 * has_width and 0 not in block
    require(call, usable, "requires constant blocks and paddings")
    require(
        call,
        0 not in (call.required_input(0).shape[0], call.required_output().shape[0]),
        "does not support an empty batch",
    )
    return (block[0], block[1] if has_width else 1), (paddings[0], paddings[2] if has_width else 0)


def _inside_positions(size: int, part_size: int, block: int, shift: int, before: int) -> list[tuple[int, int]]:
    """Return the positions of one batch part, along one side, whose values come from the image.

    Each is a pair of the position in the part and the position in the image.
    """
    places = ((position, position * block + shift - before) for position in range(part_size))
    return [(position, place) for position, place in places if 0 <= place < size]


def _space_to_batch(call: Call) -> LoopCounts:
    """Return the loops of SPACE_TO_BATCH_ND: each output pixel is copied, or filled if it is outside the image."""
    source, result = call.required_input(0), call.required_output()
    (batches, height, width, channels), (out_batches, out_height, out_width, _) = (
        _image_shape(source),
        _image_shape(result),
    )
    (down, across), (above, left) = _block_parameters(call)
    check_steps(out_batches * (out_height + out_width))
    size = channels * _element_bytes(source)
    parts: list[Loops] = [
        {"image": out_batches, "row": out_batches * out_height, "pixel": out_batches * out_height * out_width}
    ]
    for out in range(out_batches):
        shift, batch = divmod(out, batches)
        rows = _inside_positions(height, out_height, down, shift // across, above)
        columns = _inside_positions(width, out_width, across, shift % across, left)
        parts.append(
            memcpy_loops(
                size,
                [(out * out_height * out_width * size, batch * height * width * size)],
                [(at * out_width * size, row * width * size) for at, row in rows],
                [(at * size, column * size) for at, column in columns],
            )
        )
        outside = Counter(dict(alignment_period(out_height * out_width)))
        row_alignments, column_alignments = (
            Counter(at * step % WORD for at, _ in side) for side, step in ((rows, out_width), (columns, 1))
        )
        for (row_alignment, row_count), (column_alignment, count) in product(
            row_alignments.items(), column_alignments.items()
        ):
            outside[(row_alignment + column_alignment) % WORD] -= row_count * count
        for pixel, count in outside.items():
            parts.append(repeated(count, memset_loops(size, (out * out_height * out_width + pixel) * size)))
    return LoopCounts("copy", combined(*parts))


def _batch_to_space(call: Call) -> LoopCounts:
    """Return the loops of BATCH_TO_SPACE_ND: each input pixel is copied unless it is cropped."""
    source, result = call.required_input(0), call.required_output()
    (batches, height, width, channels), (out_batches, out_height, out_width, _) = (
        _image_shape(source),
        _image_shape(result),
    )
    (down, across), (above, left) = _block_parameters(call)
    check_steps(batches * (height + width))
    size = channels * _element_bytes(source)
    parts: list[Loops] = [{"image": batches, "row": batches * height}]
    for batch in range(batches):
        shift, out = divmod(batch, out_batches)
        rows = _inside_positions(out_height, height, down, shift // across, above)
        columns = _inside_positions(out_width, width, across, shift % across, left)
        parts.append({"pixel": len(rows) * width})
        parts.append(
            memcpy_loops(
                size,
                [(out * out_height * out_width * size, batch * height * width * size)],
                [(row * out_width * size, at * width * size) for at, row in rows],
                [(column * size, at * size) for at, column in columns],
            )
        )
    return LoopCounts("copy", combined(*parts))


LOOPS: dict[str, LoopRule] = {
    "BATCH_TO_SPACE_ND": _batch_to_space,
    "CONCATENATION": _concatenation_loops,
    "DEPTH_TO_SPACE": _depth_block_loops,
    "PACK": _pack,
    "RESIZE_BILINEAR": _resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": _resize_nearest,
    "REVERSE_V2": _reverse,
    "SPACE_TO_BATCH_ND": _space_to_batch,
    "SPACE_TO_DEPTH": _depth_block_loops,
    "SPLIT": _split_rule(0, 1),
    "SPLIT_V": _split_rule(2, 0),
    "TRANSPOSE": _transpose,
    "UNPACK": _unpack,
}


def _image_bounds(call: Call) -> None:
    """Require 4 dimensions of the output, because SPACE_TO_DEPTH and DEPTH_TO_SPACE overwrite 4 of its sizes."""
    rank = len(call.required_output().shape)
    require(call, rank == IMAGE_RANK, f"writes 4 dimensions to an output with {rank}")


def _reverse_bounds(call: Call) -> None:
    require(call, call.required_input(1).element_count > 0, "does not support an empty list of axes")


_BLOCK_BOUNDS = all_of(constant_input(1, "blocks"), constant_input(2, "border"))


BOUNDS: dict[str, Condition] = {
    "BATCH_TO_SPACE_ND": _BLOCK_BOUNDS,
    "DEPTH_TO_SPACE": _image_bounds,
    "REVERSE_V2": _reverse_bounds,
    "SPACE_TO_BATCH_ND": _BLOCK_BOUNDS,
    "SPACE_TO_DEPTH": _image_bounds,
}


def _exchanges_anyway(call: Call) -> bool:
    """Return whether arm_transpose_s8 exchanges the last two dimensions although the permutation leaves them in place.

    It does so for two dimensions, and with Helium for four of which the first two stay in place.
    """
    source, order = call.required_input(0), call.required_input(1)
    rank = len(source.shape)
    exchanges = rank == 2 or (rank == 4 and call.platform.mve)
    if source.dtype is not DType.INT8 or not exchanges or min(source.shape[-2:]) < 2 or not order.is_constant:
        return False
    return int32_words(order) == tuple(range(rank))


def _pads_blocks(call: Call) -> bool:
    paddings = call.required_input(2)
    return paddings.is_constant and any(int32_words(paddings))


FAULTS: dict[str, tuple[KernelFault, ...]] = {
    "SPACE_TO_BATCH_ND": (
        KernelFault(
            name="space-to-batch-padding",
            kernels=("reference", "cmsis-nn"),
            applies=_pads_blocks,
            condition="with padding",
            effect="pads with whatever its memory contained before",
            remedy="first pad the input with PAD",
            source="space_to_batch_nd.cc",
            fixed_by="",
            wrong="int8/0",
            right="int8/1",
        ),
    ),
    "TRANSPOSE": (
        KernelFault(
            name="transpose-identity",
            kernels=("cmsis-nn",),
            applies=_exchanges_anyway,
            condition="with int8 and a permutation that leaves every dimension in place",
            effect="exchanges the last two dimensions, which the permutation leaves in place",
            remedy="remove the operator: it has no effect",
            source="arm_transpose_s8.c",
            fixed_by="",
            wrong="int8/15",
            right="int8/0",
        ),
    ),
}


def _spread_rows(operator: Operator, graph: Graph) -> Iterator[RowInput]:
    """Yield the input of DEPTH_TO_SPACE, whose channels become rows and columns."""
    yield from multiplied_rows(operator, graph, 0)


ROWS: dict[str, RowRule] = {"CONCATENATION": concatenated_rows, "DEPTH_TO_SPACE": _spread_rows}


OPERATORS = entries(prepare=PREPARE, loops=LOOPS, bounds=BOUNDS, rows=ROWS, faults=FAULTS)
