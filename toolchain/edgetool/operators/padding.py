"""Operators that enlarge a tensor: Prepare, loop counts and bounds.

Sources of Prepare: pad_common.cc, mirror_pad.cc, broadcast_to.cc, fill.cc. CMSIS-NN's pad shares the reference kernel's
Prepare.

Sources of the loop counts: reference/pad.h, cmsis_nn/pad.cc, arm_pad_s8.c, mirror_pad.cc, reference/broadcast_to.h,
reference/fill.h. CMSIS-NN pads int8 only.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from edgetool.model.types import DType, Graph, Operator, Tensor
from edgetool.operators.call import (
    INT32_BYTES,
    Call,
    Condition,
    PrepareRule,
    Request,
    constant_input,
    input_rank,
    input_type,
    int32_words,
    integers,
    prepare_rule,
    require,
    same_output_type,
    scale,
    scratch,
    zero_point,
)
from edgetool.operators.entry import KernelFault, entries
from edgetool.operators.loops import (
    Axis,
    LoopCounts,
    LoopRule,
    Loops,
    alignment_period,
    combined,
    dimension_loops,
    memcpy_loops,
    memset_loops,
    repeated,
    strided_memcpy_loops,
)
from edgetool.operators.overlap import InputOverlap, OverlapRules
from edgetool.operators.rows import RowInput, RowRule

# PadKernelMaxDimensionCount (pad.h) and kMaxDims (broadcast_to.cc)
MAX_RANK = 5


def _prepare_pad(call: Call) -> Iterator[Request]:
    source, paddings, value, result = (
        call.required_input(0), call.required_input(1), call.input(2), call.required_output()
    )  # fmt: skip
    yield from call.temporary_inputs(0, 1, 2)
    yield from call.temporary_outputs(0)
    same_output_type(call)
    input_rank(0, 0, MAX_RANK)(call)
    if value is not None:
        input_type(2, source.dtype)(call)
        require(call, value.element_count == 1, f"requires one padding value, not {value.element_count}")
    rank = len(result.shape)
    require(call, paddings.element_count == 2 * rank, f"requires 2 paddings for each of {rank} dimensions")
    constant_input(1, "paddings")(call)
    _check_padded_shape(call, source, paddings, result)
    if source.dtype == DType.INT8:
        _check_padding_value(call, value, result)


def _check_padded_shape(call: Call, source: Tensor, paddings: Tensor, result: Tensor) -> None:
    # The kernel does not check the type: it reads int64 paddings as twice as many words.
    values = int32_words(paddings)
    if len(values) < 2 * len(result.shape):
        return  # Narrower paddings: the kernel reads beyond them, so the values that it finds are unknown.
    for axis, (size, padded) in enumerate(zip(source.shape, result.shape, strict=False)):
        before, after = values[2 * axis], values[2 * axis + 1]
        expected = size + before + after
        require(call, expected == padded, f"produces {expected} in dimension {axis}, but the file specifies {padded}")


def _check_padding_value(call: Call, value: Tensor | None, result: Tensor) -> None:
    if value is None:
        require(
            call,
            -128 <= zero_point(result) <= 127,
            f"does not support an int8 output with a zero point of {zero_point(result)}",
        )
    else:
        same = (scale(value), zero_point(value)) == (scale(result), zero_point(result))
        require(call, same, "supports an int8 value only if it is quantized like the output")


def _prepare_mirror_pad(call: Call) -> Iterator[Request]:
    rank, paddings = len(call.required_input(0).shape), call.required_input(1).shape
    yield from call.temporary_inputs(0, 1)
    yield from call.temporary_outputs(0)
    require(
        call, len(paddings) == 2 and paddings[0] == rank, f"requires paddings for {rank} dimensions, not {paddings}"
    )
    yield scratch("strides of the output", INT32_BYTES * rank)
    yield scratch("strides of the input", INT32_BYTES * rank)


def _check_broadcast(call: Call) -> None:
    source, result = call.required_input(0).shape, call.required_output().shape
    shape = call.required_input(1)
    rank = len(result)
    require(
        call, shape.shape == (rank,), f"requires a shape with {rank} dimensions, not a tensor of shape {shape.shape}"
    )
    require(call, len(source) <= rank <= MAX_RANK, f"cannot broadcast {source} to {result}")
    target = integers(shape)
    aligned = zip(source, target[rank - len(source) :], strict=False)  # a sparse shape may be shorter
    require(call, all(size in (1, expected) for size, expected in aligned), f"cannot broadcast {source} to {target}")
    require(call, target == result, f"produces {target}, but the file specifies {result}")


def _check_fill_shape(call: Call) -> None:
    shape, result = call.required_input(0), call.required_output()
    input_type(0, DType.INT8, DType.INT16, DType.INT32, DType.INT64)(call)
    require(
        call,
        shape.shape == (len(result.shape),),
        f"requires a shape for {result.shape}, not a tensor of shape {shape.shape}",
    )
    require(call, integers(shape) == result.shape, f"produces {integers(shape)}, but the file specifies {result.shape}")


def _check_fill_type(call: Call) -> None:
    input_type(1, call.required_output().dtype)(call)


PREPARE: dict[str, PrepareRule] = {
    "BROADCAST_TO": prepare_rule(
        (0, 1),
        (0,),
        input_rank(0, 0, MAX_RANK),
        input_type(1, DType.INT32, DType.INT64),
        same_output_type,
        constant_input(1, "shape"),
        _check_broadcast,
    ),
    "FILL": prepare_rule(
        (0, 1),
        (0,),
        input_rank(1, 0),
        _check_fill_type,
        constant_input(0, "shape"),
        input_rank(0, 1),
        _check_fill_shape,
    ),
    "MIRROR_PAD": _prepare_mirror_pad,
    "PAD": _prepare_pad,
    "PADV2": _prepare_pad,
}


PADDED_RANK = 5  # PadKernelMaxDimensionCount (pad.h)
BROADCAST_RANK = 5  # kMaxDims (broadcast_to.cc)
CMSIS_RANK = 4
IMAGE_RANK, IMAGE_TYPES = 4, (DType.INT8, DType.FLOAT32)
VECTOR_BYTES = 16


def _extend_shape(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return (1,) * (rank - len(shape)) + shape


def _axis_paddings(call: Call, rank: int) -> list[tuple[int, int]]:
    """Return the padding before and after each of `rank` axes; all of it after if the file does not contain it."""
    paddings, source = call.required_input(1), _extend_shape(call.required_input(0).shape, rank)
    result = _extend_shape(call.required_output().shape, rank)
    if not paddings.is_constant:
        return [(0, after - before) for before, after in zip(source, result, strict=True)]
    values = int32_words(paddings)  # the kernel does not check the type
    require(call, len(values) % 2 == 0, "requires two paddings for each dimension")
    pairs = list(zip(values[::2], values[1::2], strict=True))[-rank:]
    by_axis = [(0, 0)] * (rank - len(pairs)) + pairs
    axes = zip(source[-rank:], by_axis, result[-rank:], strict=True)
    matching = all(min(pad) >= 0 and size + sum(pad) == side for size, pad, side in axes)
    require(call, matching, "requires paddings that match its input and output shapes")
    return by_axis


def _pad_loops(call: Call) -> LoopCounts:
    """Return the loops of PAD: images padded only in height and width have separate code (PadImageStyle)."""
    source = call.required_input(0)
    if source.dtype == DType.INT8 and call.platform.cmsis_nn:
        return LoopCounts("int8 CMSIS-NN", _cmsis_pad_loops(call, vectors=call.platform.mve))
    shape, paddings = _extend_shape(call.required_output().shape, PADDED_RANK), _axis_paddings(call, PADDED_RANK)
    loops = {"axis 3": prod(shape[:4]), "axis 2": prod(shape[:3])}
    inside = 1  # the output elements that are inside along all previous axes
    for axis, (size, (before, after)) in enumerate(zip(shape, paddings, strict=True)):
        remaining = inside * prod(shape[axis + 1 :])
        # An element is compared with the borders of one axis after another until it is found to be outside.
        loops[f"before axis {axis}"] = before * remaining
        loops[f"after axis {axis}"] = after * remaining
        inside *= size - before - after
    image = len(source.shape) == IMAGE_RANK and paddings[1] == paddings[4] == (0, 0) and source.dtype in IMAGE_TYPES
    name = source.dtype.name.lower()
    return LoopCounts(f"{name} image" if image else name, loops | {"inside": inside})


def _cmsis_pad_loops(call: Call, *, vectors: bool) -> Loops:
    """Return the loops of CMSIS-NN's PAD, which fills blocks of padding and copies what is between them.

    It copies rows, or pixels if channels are added.
    """
    batches, height, width, channels = _extend_shape(call.required_input(0).shape, CMSIS_RANK)[-CMSIS_RANK:]
    paddings = _axis_paddings(call, CMSIS_RANK)
    result_shape = [size + sum(pad) for size, pad in zip((batches, height, width, channels), paddings, strict=True)]
    pixel, row, image = (
        result_shape[3],
        result_shape[2] * result_shape[3],
        result_shape[1] * result_shape[2] * result_shape[3],
    )
    parts: list[Loops] = [{"row": batches * height}]

    def fill(size: int, address: int, times: int = 1) -> None:
        parts.append(repeated(times, _vector_loops("filled", size) if vectors else memset_loops(size, address)))

    def copy(size: int, target: int, source: int, times: int = 1) -> None:
        copy_loops = _vector_loops("copied", size) if vectors else memcpy_loops(size, [(target, source)])
        parts.append(repeated(times, copy_loops))

    fill(image * paddings[0][0], 0)
    for batch, images in alignment_period(batches):
        start = image * (paddings[0][0] + batch)
        fill(row * paddings[1][0], start, images)
        for y, rows in alignment_period(height):
            left = start + row * (paddings[1][0] + y)
            target, source = left + pixel * paddings[2][0], (batch * height + y) * width * channels
            lines = images * rows
            fill(pixel * paddings[2][0], left, lines)
            if channels == pixel:
                copy(width * channels, target, source, lines)
            else:
                for x, columns in alignment_period(width):
                    place, times = target + x * pixel, lines * columns
                    fill(paddings[3][0], place, times)
                    copy(channels, place + paddings[3][0], source + x * channels, times)
                    fill(paddings[3][1], place + paddings[3][0] + channels, times)
            fill(pixel * paddings[2][1], target + width * pixel, lines)
        fill(row * paddings[1][1], start + row * (paddings[1][0] + height), images)
    fill(image * paddings[0][1], image * (paddings[0][0] + batches))
    return combined(*parts)


def _vector_loops(what: str, size: int) -> Loops:
    return {f"{what} block": 1, f"{what} vector": -(-size // VECTOR_BYTES)}


def _mirror_pad_loops(call: Call) -> LoopCounts:
    """Return the loops of MIRROR_PAD, which computes each element's position in the input axis by axis."""
    result = call.required_output()
    return LoopCounts(
        result.dtype.name.lower(),
        {"element": result.element_count, "axis of an element": result.element_count * len(result.shape)},
    )


def _broadcast_to_loops(call: Call) -> LoopCounts:
    """Return the loops of BROADCAST_TO.

    From the last axis that grows to the first, each block is written once and then copied along the axis.
    """
    source, result = call.required_input(0), call.required_output()
    element = max(result.dtype.bits // 8, 1)
    before, after = _extend_shape(source.shape, BROADCAST_RANK), _extend_shape(result.shape, BROADCAST_RANK)
    growing = [axis for axis in range(BROADCAST_RANK) if before[axis] != after[axis]]
    if not growing:
        return LoopCounts("same shape", strided_memcpy_loops(source.size_bytes, 1))
    last, parts = growing[-1], []
    block = prod(after[last + 1 :]) * element
    runs = prod(before[:last])
    parts.append({"axis step": sum(prod(before[: axis + 1]) for axis in range(last))})
    parts.append(repeated(runs, strided_memcpy_loops(block, after[last], (0, block))))
    for axis in growing[:-1]:
        block = prod(after[axis + 1 :]) * element
        parts.append(repeated(prod(before[:axis]), strided_memcpy_loops(block, after[axis] - 1, (block, block))))
    return LoopCounts("copy", combined(*parts))


def _fill_loops(call: Call) -> LoopCounts:
    result = call.required_output()
    return LoopCounts(
        result.dtype.name.lower(), {**dimension_loops(len(result.shape)), "element": result.element_count}
    )


LOOPS: dict[str, LoopRule] = {
    "BROADCAST_TO": _broadcast_to_loops,
    "FILL": _fill_loops,
    "MIRROR_PAD": _mirror_pad_loops,
    "PAD": _pad_loops,
    "PADV2": _pad_loops,
}


def _has_fewer_dimensions(call: Call) -> bool:
    source = call.required_input(0)
    return source.dtype == DType.INT8 and len(source.shape) < IMAGE_RANK


_PAD_FAULTS = (
    KernelFault(
        name="pad-rank",
        kernels=("cmsis-nn",),
        applies=_has_fewer_dimensions,
        condition="with int8 and fewer than four dimensions",
        effect="reads sizes and paddings of dimensions that do not exist, and may crash",
        remedy="reshape to four dimensions before it, or use a version of TFLM from June 2026 or later",
        source="cmsis_nn/pad.cc",
        fixed_by="2ba41b0f3",
        wrong="",
        right="",
    ),
)
FAULTS: dict[str, tuple[KernelFault, ...]] = {"PAD": _PAD_FAULTS, "PADV2": _PAD_FAULTS}


BOUNDS: dict[str, Condition] = {
    "MIRROR_PAD": constant_input(1, "border"),
}


def _pad_overlap(call: Call) -> Iterator[InputOverlap]:
    """Yield the input: elements are read in order, each before it is written (reference/pad.h).

    The output is as far ahead as the padding in front of the last input element.
    """
    source, result = call.required_input(0), call.required_output()
    rank = len(result.shape)
    alike = len(source.shape) == rank and source.dtype == result.dtype
    if not alike or not call.required_input(1).is_constant or source.element_count == 0:
        return
    last = 0
    for side, (before, _), size in zip(source.shape, _axis_paddings(call, rank), result.shape, strict=True):
        last = last * size + before + side - 1
    yield InputOverlap(0, (last + 1 - source.element_count) * (source.dtype.bits // 8))


# CMSIS-NN copies blocks with memcpy, whose source and destination must not overlap.
OVERLAPS: dict[str, OverlapRules] = {code: {"reference": _pad_overlap} for code in ("PAD", "PADV2")}


def _padded_rows(operator: Operator, graph: Graph) -> Iterator[RowInput]:
    """Yield the input if the file contains the paddings."""
    source, paddings, result = (graph.tensors[i] for i in (*operator.inputs[:2], operator.outputs[0]))
    is_image = len(source.shape) == len(result.shape) == IMAGE_RANK
    values = int32_words(paddings) if is_image and paddings.is_constant else ()
    if len(values) == 2 * IMAGE_RANK:
        rows = Axis(source.shape[1], 1, 1, 1, result.shape[1], values[2])
        yield RowInput(0, rows, "constant")


ROWS: dict[str, RowRule] = dict.fromkeys(OVERLAPS, _padded_rows)


OPERATORS = entries(prepare=PREPARE, loops=LOOPS, bounds=BOUNDS, overlaps=OVERLAPS, rows=ROWS, faults=FAULTS)
