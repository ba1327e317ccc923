"""CONV_2D and the 3D convolutions: MACs, Prepare, loop counts and constant reads.

Sources of Prepare: conv_common.cc, its counterparts in cmsis_nn/ and esp_nn/, padding.h and
PopulateConvolutionQuantizationParams of kernel_util.cc. Depthwise and transposed convolutions use the public functions,
too.

Sources of the loop counts: conv.cc and conv_common.cc; CMSIS-NN's arm_convolve_wrapper_s8.c, _s16.c and _s4.c. int16
(windows are copied to columns unchanged): arm_convolve_s16.c, arm_nn_mat_mult_kernel_s16.c,
arm_nn_mat_mult_nt_t_s16.c. int8: arm_convolve_1x1_s8.c, arm_convolve_1x1_s8_fast.c, arm_convolve_1_x_n_s8.c and
arm_convolve_s8.c. int8 with int4 filters (two weights in a byte): arm_convolve_1x1_s4.c, arm_convolve_s4.c,
arm_convolve_even_s4.c, arm_convolve_1_x_n_s4.c, arm_nn_mat_mult_nt_t_s4.c, arm_nn_mat_mult_kernel_s4_s16.c. Reference
kernels (which visit every element of every window, for every output): conv.h, integer_ops/conv.h,
depthwiseconv_float.h, integer_ops/depthwise_conv.h.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from edgetool.model.types import DType, Graph, Operator, Tensor
from edgetool.operators import cmsis_nn, esp_nn
from edgetool.operators.call import (
    ACTIVATION_TYPES,
    INT32_BYTES,
    QUANTIZED_TYPES,
    Call,
    PrepareRule,
    Request,
    check_activation_range,
    input_shapes,
    integer_option,
    is_quantized,
    output_elements,
    persistent,
    require,
    scratch,
    zero_point,
)
from edgetool.operators.cmsis_nn import (
    Convolution,
    biased_tiles,
    cmsis_copy_loops,
    cmsis_fill_loops,
    convolution_path,
    im2col_loops,
    packed_row_loops,
    pointwise_loops,
    product_input_reads,
    product_s8,
    product_s16,
    product_weight_reads,
    uses_cmsis_nn,
)
from edgetool.operators.entry import KernelFault, MacRule, ReadsRule, entries
from edgetool.operators.loops import (
    Axis,
    LoopCounts,
    LoopRule,
    Loops,
    Windows,
    combined,
    convolution_windows,
    nested,
    prefixed,
    product_loops,
    repeated,
)
from edgetool.operators.overlap import InputOverlap, OverlapRules, conv_distance, pixelwise_distance, window_overlap
from edgetool.operators.rows import RowRule, convolution_rows
from edgetool.target.platform import Platform

INT64_BYTES = 8

TYPES = {
    (DType.FLOAT32, DType.FLOAT32),
    (DType.INT16, DType.INT8),
    (DType.INT8, DType.INT8),
    (DType.INT8, DType.INT4),
}
# The output pixels for which CMSIS-NN's general convolution reads the filters once: the columns that it collects, by
# whether the build has the vector extension.
COLLECTED_COLUMNS = {True: 4, False: 2}


@dataclass(frozen=True, slots=True)
class Operands:
    """The positions of an operator's tensors, and the filter's dimension of output channels.

    clamps_in_cmsis_nn: whether CMSIS-NN's kernel applies the fused activation; that of transposed convolutions ignores
    it.
    """

    source: int
    filter: int
    bias: int
    channel_axis: int
    clamps_in_cmsis_nn: bool = True


CONV = Operands(0, 1, 2, 0)


def _prepare_conv_2d(call: Call) -> Iterator[Request]:
    if call.platform.cmsis_nn:
        yield from _cmsis_conv_2d(call)
        return
    source, weights, result = operand_tensors(call, CONV)
    yield from request_output_first(call, CONV)
    check_same_type(call, source, result)
    check_type_pair(call, source, weights, TYPES)
    yield from request_channels(call, weights, CONV)
    if source.dtype in QUANTIZED_TYPES:
        check_filter_scales(call, weights, CONV)
    yield from request_parameters(call, CONV)
    if weights.dtype == DType.INT4:
        yield unpacked_filter(weights)
    if call.platform.esp_nn is not None and source.dtype == DType.INT8:
        yield from esp_nn.requested(esp_nn.conv_scratch(esp_nn_sizes(call, CONV), call.platform.esp_nn))


def _cmsis_conv_2d(call: Call) -> Iterator[Request]:
    """Yield the requests with CMSIS-NN kernels, which look for the bias among the outputs and never find it."""
    source, weights, result = operand_tensors(call, CONV)
    yield from request_output_last(call, CONV)
    check_same_type(call, source, result)
    check_type_pair(call, source, weights, TYPES)
    if weights.dtype == DType.INT4 and not call.platform.has("int4-of-cmsis-nn"):
        yield unpacked_filter(weights)
    for tensor in (source, weights, result):
        check_rank_4(call, tensor)
    require(
        call, source.shape[0] == result.shape[0], f"cannot produce a batch of {result.shape[0]} from {source.shape[0]}"
    )
    grouped = weights.shape[3] > 0 and source.shape[3] % weights.shape[3] == 0
    require(call, grouped, f"cannot divide {source.shape[3]} channels into groups of {weights.shape[3]}")
    if source.dtype in QUANTIZED_TYPES:
        yield from request_channels(call, weights, CONV)
    yield from request_parameters(call, CONV)
    if source.dtype == DType.FLOAT32:
        return
    sizes = buffer_sizes(call, CONV, (source.shape[3], result.shape[3], weights.shape[3]))
    if source.dtype == DType.INT16:
        check_symmetric(call, source, result)
        size = cmsis_nn.convolve_s16(sizes, call.platform)
    else:
        size = cmsis_nn.convolve_s8(sizes, call.platform)
    if size > 0:
        yield scratch("im2col buffer", size)


def operand_tensors(call: Call, operands: Operands) -> tuple[Tensor, Tensor, Tensor]:
    """Return the input, the filter and the output."""
    return call.required_input(operands.source), call.required_input(operands.filter), call.required_output()


def request_output_first(call: Call, operands: Operands) -> Iterator[Request]:
    """Yield the requests of the output, and then those of input and filter."""
    yield from call.temporary_outputs(0)
    yield from call.temporary_inputs(operands.source, operands.filter)


def request_output_last(call: Call, operands: Operands) -> Iterator[Request]:
    """Yield the requests of input and filter, and then that of the output."""
    yield from call.temporary_inputs(operands.source, operands.filter)
    yield from call.temporary_outputs(0)


def request_channels(call: Call, weights: Tensor, operands: Operands) -> Iterator[Request]:
    """Yield the buffers of the channels' multipliers, sized by the filter's channels, not by the output's."""
    axis = operands.channel_axis
    require(call, axis < len(weights.shape), f"does not support a filter with {len(weights.shape)} dimensions")
    for what in ("per-channel multipliers", "per-channel shifts"):
        yield persistent(what, INT32_BYTES * weights.shape[axis])


def request_parameters(call: Call, operands: Operands) -> Iterator[Request]:
    """Yield the requests of CalculateOpData, which uses every tensor once more.

    Raises KernelRefusal if it cannot compute the multipliers.
    """
    yield from call.temporary_inputs(operands.source, operands.filter, operands.bias)
    yield from call.temporary_outputs(0)
    source, weights, result = operand_tensors(call, operands)
    if source.dtype == DType.FLOAT32:
        return
    for what, tensor in (("input", source), ("filter", weights)):
        require(call, is_quantized(tensor), f"requires scales and zero points for its {what}")
    quantization = weights.quantization
    if quantization is not None and quantization.per_channel:
        integer_types = source.dtype in QUANTIZED_TYPES and weights.dtype in (DType.INT8, DType.INT4)
        require(call, integer_types, f"does not support a filter of type {_type(weights)} quantized per channel")
        channels, axis = weights.shape[operands.channel_axis], quantization.axis
        matching = len(quantization.scales) == channels
        matching = matching and 0 <= axis < len(weights.shape) and weights.shape[axis] == channels
        require(call, matching, "supports only filters quantized per tensor or per output channel")
    if source.dtype in ACTIVATION_TYPES:
        require(call, result.dtype in ACTIVATION_TYPES, f"cannot produce {_type(result)} from {_type(source)}")
        if operands.clamps_in_cmsis_nn or not call.platform.cmsis_nn:
            check_activation_range(call)


def check_filter_scales(call: Call, weights: Tensor, operands: Operands) -> None:
    """Reject a filter without scales, or with a number of scales other than 1 or its number of channels."""
    require(call, is_quantized(weights), "does not support a filter without scales and zero points")
    scales = len(weights.quantization.scales) if weights.quantization is not None else 0
    channels = weights.shape[operands.channel_axis : operands.channel_axis + 1]
    require(
        call,
        scales == 1 or (scales,) == channels,
        f"does not support a filter of shape {weights.shape} with {scales} scales",
    )


def unpacked_filter(weights: Tensor) -> Request:
    """Return the scratch request for an unpacked int4 filter, with one byte per weight."""
    return scratch("filter unpacked from int4", weights.element_count)


def check_symmetric(call: Call, *tensors: Tensor) -> None:
    """Reject int16 tensors with zero points other than 0."""
    for tensor in tensors if tensors[0].dtype == DType.INT16 else ():
        require(call, zero_point(tensor) == 0, f"supports int16 only with zero points of 0, not {zero_point(tensor)}")


def check_same_type(call: Call, source: Tensor, result: Tensor) -> None:
    """Reject an output whose type differs from the input's."""
    require(call, source.dtype == result.dtype, f"cannot produce {_type(result)} from {_type(source)}")


def check_type_pair(call: Call, source: Tensor, weights: Tensor, pairs: set[tuple[DType, DType]]) -> None:
    """Reject a pair of input and filter types that is not in `pairs`."""
    supported = (source.dtype, weights.dtype) in pairs
    require(call, supported, f"does not support {_type(source)} with filters of type {_type(weights)}")


def check_rank_4(call: Call, tensor: Tensor) -> None:
    """Reject a tensor that does not have 4 dimensions.

    Kernels that do not check the rank read sizes from beyond the shape.
    """
    require(call, len(tensor.shape) == 4, f"requires tensors with 4 dimensions, not {len(tensor.shape)}")


def _type(tensor: Tensor) -> str:
    return tensor.dtype.name.lower()


def buffer_sizes(call: Call, operands: Operands, channels: tuple[int, int, int]) -> Convolution:
    """Return the sizes that TFLM passes to CMSIS-NN or ESP-NN.

    An operator without options has strides and dilations of 0, as TFLM parses it.

    Args:
        channels: the channels of the input, of the output and of one filter.
    """
    source, weights, result = operand_tensors(call, operands)
    image, kernel = source.shape[1:3], weights.shape[1:3]
    strides = integer_option(call, "stride_h"), integer_option(call, "stride_w")
    dilations = integer_option(call, "dilation_h_factor"), integer_option(call, "dilation_w_factor")
    pads = window_pads(str(call.option("padding", "")), image, kernel, strides, dilations)
    return Convolution(
        batch=min(source.shape[0], result.shape[0]),
        in_height=image[0],
        in_width=image[1],
        in_channels=channels[0],
        out_height=result.shape[1],
        out_width=result.shape[2],
        out_channels=channels[1],
        kernel_height=kernel[0],
        kernel_width=kernel[1],
        kernel_channels=channels[2],
        stride_height=strides[0],
        stride_width=strides[1],
        dilation_height=dilations[0],
        dilation_width=dilations[1],
        pad_height=pads[0],
        pad_width=pads[1],
    )


def esp_nn_sizes(call: Call, operands: Operands, multiplier: int | None = None) -> Convolution:
    """Return the sizes that TFLM passes to ESP-NN, whose size functions divide by them.

    multiplier: that of a depthwise convolution. Raises KernelRefusal for sizes or strides of 0.
    """
    source, weights, result = operand_tensors(call, operands)
    for tensor in (source, weights, result):
        check_rank_4(call, tensor)
    outputs = result.shape[3] if multiplier is None else source.shape[3] * multiplier
    sizes = buffer_sizes(call, operands, (source.shape[3], outputs, weights.shape[3]))
    smallest = min(*source.shape, *weights.shape, *result.shape, sizes.stride_height, sizes.stride_width)
    require(call, smallest > 0, "with ESP-NN kernels requires sizes and strides of at least 1")
    return sizes


def window_pads(
    kind: str, image: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, int]:
    """Return the padding above and to the left (ComputePaddingHeightWidth, padding.h).

    It depends on the input's size alone, and is 0 if the operator's padding is not defined.
    """
    height, width = map(_pad, (kind, kind), image, kernel, strides, dilations)
    return (0, 0) if height is None or width is None else (height, width)


def _pad(kind: str, image: int, kernel: int, stride: int, dilation: int) -> int | None:
    if kind not in ("SAME", "VALID") or image < 0 or kernel <= 0 or stride <= 0 or dilation <= 0:
        return None
    window = (kernel - 1) * dilation + 1
    covered = image + stride - (1 if kind == "SAME" else window)
    if covered <= -stride:
        return None
    outputs = max(covered, 0) // stride  # truncated towards 0
    return max((outputs - 1) * stride + window - image, 0) // 2


PREPARE: dict[str, PrepareRule] = {"CONV_2D": _prepare_conv_2d}


INT16_BYTES = 2
NARROW_SUMS = 512  # products whose sum an int32 can hold
COLUMNS_AT_ONCE = 4


def convolve_int16(w: Windows, platform: Platform, bias: Tensor | None) -> LoopCounts:
    """Return the loops of arm_convolve_s16.

    An int64 bias makes the sums beyond 512 products, and the rescaling, 64 bits wide.
    """
    wide = bias is not None and bias.dtype == DType.INT64
    depth = w.kernel * w.in_channels
    narrow = min(depth, NARROW_SUMS) if wide else depth
    product = _vectors_int16 if platform.mve else _column_pairs_int16
    image = combined(
        {"image": 1, "output row": w.rows.outputs, "window": w.positions, "window row": w.positions * w.rows.kernel},
        im2col_loops(replace(w, filter_channels=w.in_channels), INT16_BYTES, platform),
        product(w.positions, w.out_channels, narrow, depth - narrow, platform),
    )
    return LoopCounts("int16" if wide else "int16 with int32 sums", repeated(w.batch, image))


def _column_pairs_int16(columns: int, channels: int, narrow: int, wide: int, platform: Platform) -> Loops:
    """Return the loops of two columns by two channels; a last column alone is summed in 32 bits."""
    depth = narrow + wide
    inner = {"by 4": narrow // 4, "by 1": narrow % 4, "by 1 wide": wide}
    last = {"by 4": depth // 4, "by 1": depth % 4}
    if not platform.dsp:
        inner, last = {"by 1": narrow, "by 1 wide": wide}, {"by 1": depth}
    return combined(
        {"column pair": columns // 2, "column pair of channels": columns // 2 * (channels > 1)},
        repeated(columns // 2 * (channels // 2), nested("2x2", inner)),
        repeated(columns // 2 * (channels % 2), nested("2x1", inner)),
        repeated(columns % 2 * channels, nested("last column", last)),
    )


def _vectors_int16(columns: int, channels: int, narrow: int, wide: int, _: Platform) -> Loops:
    blocks, rest = divmod(columns, COLUMNS_AT_ONCE)
    return combined(
        {"block": blocks + (rest > 0)},
        repeated(blocks * channels, {"4x1": 1, "4x1 by 8": -(-narrow // 8), "4x1 by 1 wide": wide}),
        repeated(rest * channels, {"1x1": 1, "1x1 by 4": -(-narrow // 4), "1x1 by 1 wide": wide}),
        repeated(rest, {"last column": 1, "last column 4 channels": channels // 4, "last channel": channels % 4}),
    )


def convolve_int8(w: Windows, platform: Platform) -> LoopCounts:
    """Return the loops of a matrix product with the image itself, or with windows copied from it."""
    match convolution_path(w, platform):
        case "pointwise":
            return pointwise_loops("int8", product_s8, w, platform)
        case "one row":
            return _one_row_int8(w, platform)
        case "windows":
            return _windows_int8(w, platform)


def _one_row_int8(w: Windows, platform: Platform) -> LoopCounts:
    """Return the loops of a 1xN window on MVE, where only windows that reach into the padding are copied."""
    axis, depth = w.columns, w.columns.kernel * w.in_channels
    ends = padded_row_ends(axis)
    if ends is None:
        return LoopCounts("int8 1xN refused", {}, gives_up=True)
    left, right = ends
    if left + right > axis.outputs:
        return _windows_int8(w, platform)
    parts = (left, axis.outputs - left - right, right)
    image = combined(
        {"image": 1},
        cmsis_copy_loops(1, depth, platform),
        cmsis_copy_loops(1, depth - w.in_channels, platform),
        cmsis_fill_loops(2, axis.pad * w.in_channels, platform),
        *(product_s8(rows, w.out_channels, depth, platform) for rows in parts),
    )
    return LoopCounts("int8 1xN", repeated(w.batch, image))


def padded_row_ends(axis: Axis) -> tuple[int, int] | None:
    """Return how many windows arm_convolve_1_x_n_s8 pads on the left and on the right.

    Return None if it gives up and produces no result.
    """
    total = (axis.outputs - 1) * axis.stride + axis.kernel - axis.size
    odd = total % 2 if total >= 0 else -(-total % 2)  # the remainder has the sign that it has in C
    if 2 * axis.pad + odd != total:
        return None
    return _padded_window_count(axis.pad, axis.stride), _padded_window_count(axis.pad + odd, axis.stride)


def _padded_window_count(pad: int, stride: int) -> int:
    return max(1, (pad + stride - 1) // stride) if pad else 0


def _windows_int8(w: Windows, platform: Platform) -> LoopCounts:
    """Return the loops of arm_convolve_s8.

    Windows are copied to columns, of which two (four with MVE) are multiplied at once.
    """
    groups = w.in_channels // w.filter_channels
    channels, depth = w.out_channels // groups, w.kernel * w.filter_channels
    group = combined(
        {"group": 1, "output row": w.rows.outputs, "window": w.positions, "window row": w.positions * w.rows.kernel},
        columns_product(w.positions, channels, depth, platform),
    )
    image = combined(repeated(groups, group), im2col_loops(w, 1, platform))
    return LoopCounts("int8 windows" if groups == 1 else "int8 grouped windows", repeated(w.batch, image))


def columns_product(columns: int, channels: int, depth: int, platform: Platform) -> Loops:
    """Return the loops of copied columns times all channels; except with MVE, columns are widened to int16 first."""
    if not platform.mve:
        return combined(product_s16(columns, channels, depth, platform), _widening_loops(columns, depth, platform))
    blocks, rest = divmod(columns, COLUMNS_AT_ONCE)
    return combined(
        repeated(blocks, {"block": 1, **product_s8(COLUMNS_AT_ONCE, channels, depth, platform)}),
        {"block": int(rest > 0), **product_s8(rest, channels, depth, platform)},
    )


def _widening_loops(columns: int, depth: int, platform: Platform) -> Loops:
    """Return the loops that widen columns from int8 to int16."""
    if not platform.dsp:
        return {"widened by 1": columns * depth}
    return {"widened by 4": columns * (depth // 4), "widened by 1": columns * (depth % 4)}


CHANNELS_AT_ONCE = 4
WIDE_BLOCKS_BELOW = 3  # fewer rows than this are multiplied in blocks of 32


def convolve_int4(w: Windows, platform: Platform) -> LoopCounts:
    """Return the loops of arm_convolve_wrapper_s4."""
    match convolution_path(w, platform):
        case "pointwise":
            return pointwise_loops("int4", _product_int4, w, platform)
        case "one row":
            return _one_row_int4(w, platform)
        case "windows":
            even = platform.mve and w.kernel * w.in_channels % 2 == 0
            return LoopCounts("int4 even windows" if even else "int4 windows", _windows_int4(w, platform, even=even))


def _one_row_int4(w: Windows, platform: Platform) -> LoopCounts:
    """Return the loops of a 1xN window.

    Windows that reach into the padding are multiplied one by one, over the part that is inside the image.
    """
    ends, axis = padded_row_ends(w.columns), w.columns
    if ends is None or sum(ends) > axis.outputs:
        return LoopCounts("int4 1xN refused", {}, gives_up=True)
    left, right = ends
    border = (*axis.starts[:left], *axis.starts[axis.outputs - right :])
    inside = [min(start + axis.kernel, axis.size) - max(start, 0) for start in border]
    image = combined(
        {"image": 1},
        _product_int4(axis.outputs - left - right, w.out_channels, axis.kernel * w.in_channels, platform),
        *(prefixed("border", _product_int4(1, w.out_channels, taps * w.in_channels, platform)) for taps in inside),
    )
    return LoopCounts("int4 1xN", repeated(w.batch, image))


def _windows_int4(w: Windows, platform: Platform, *, even: bool) -> Loops:
    columns = _packed_columns(w, platform, even=even) if platform.mve else _wide_columns(w, platform)
    window_loops = {
        "image": 1,
        "output row": w.rows.outputs,
        "window": w.positions,
        "window row": w.positions * w.rows.kernel,
    }
    return repeated(w.batch, combined(window_loops, columns))


def _packed_columns(w: Windows, platform: Platform, *, even: bool) -> Loops:
    """Return the loops of four int8 columns at once; with an even depth, even and odd elements are separated first."""
    depth = w.kernel * w.in_channels
    blocks, rest = divmod(w.positions, COLUMNS_AT_ONCE)
    return combined(
        cmsis_copy_loops(w.inside, w.in_channels, platform),
        cmsis_fill_loops(w.taps - w.inside, w.in_channels, platform),
        repeated(blocks, {"block": 1, **_product_int4(COLUMNS_AT_ONCE, w.out_channels, depth, platform, even=even)}),
        {"block": int(rest > 0), **_product_int4(rest, w.out_channels, depth, platform, even=even)},
        {"taken apart by 32": w.positions * (depth // 32) if even else 0},
    )


def _wide_columns(w: Windows, platform: Platform) -> Loops:
    """Return the loops of two int16 columns at once."""
    four, rest = divmod(w.in_channels, 4) if platform.dsp else (0, w.in_channels)
    return combined(
        repeated(w.inside, {"widened": 1, "widened by 4": four, "widened by 1": rest}),
        cmsis_fill_loops(w.taps - w.inside, w.in_channels * INT16_BYTES, platform),
        _wide_product_int4(w.positions, w.out_channels, w.kernel * w.in_channels, platform),
    )


def _product_int4(rows: int, channels: int, depth: int, platform: Platform, *, even: bool = False) -> Loops:
    """Return the loops of arm_nn_mat_mult_nt_t_s4 or, with MVE, of its variant for even depths."""
    if platform.mve:
        return _vectors_int4(rows, channels, depth, even=even)
    inner = {"by 2": depth // 2, "odd": depth % 2}
    if platform.dsp:
        inner = {"by 16": depth // 16, "by 4": depth % 16 // 4, "by 2": depth % 4 // 2, "odd": depth % 2}
    fours, rest = divmod(channels, CHANNELS_AT_ONCE)
    return combined(
        {"4 channels": fours, "last channel": rest},
        repeated(fours * (rows // 2), nested("2x4", inner)),
        repeated(fours * (rows % 2), nested("1x4", inner)),
        repeated(rest * (rows // 2), nested("2x1", inner)),
        repeated(rest * (rows % 2), nested("1x1", inner)),
    )


def _vectors_int4(rows: int, channels: int, depth: int, *, even: bool) -> Loops:
    """Return the loops of four rows at a time, and of the rest. Every other channel may begin within a byte."""
    blocks, rest = divmod(rows, 4)
    tiles: list[Loops] = [{"4 rows": blocks, "last rows": int(rest > 0)}]
    for size, count in ((4, blocks), (rest, 1)):
        if size:
            first, second = packed_row_loops(depth, wide=even or size < WIDE_BLOCKS_BELOW)
            tile = combined(
                repeated((channels + 1) // 2, nested(f"{size}x1", first)),
                repeated(channels // 2, nested(f"{size}x1", second)),
            )
            tiles.append(repeated(count, tile))
    written = {"4 channels written": channels // 4, "last channel written": channels % 4} if rest == 1 else {}
    return combined(*tiles, written)


def _wide_product_int4(columns: int, channels: int, depth: int, platform: Platform) -> Loops:
    """Return the loops of arm_nn_mat_mult_kernel_s4_s16: two columns by four channels; a last column alone."""
    inner = {"by 2": depth // 2, "odd": depth % 2}
    if platform.dsp:
        inner = {"by 4": depth // 4, "by 2": depth % 4 // 2, "odd": depth % 2}
    fours, rest = divmod(channels, CHANNELS_AT_ONCE)
    pairs = columns // 2
    return combined(
        {"column pair": pairs},
        repeated(pairs * fours, nested("2x4", inner)),
        repeated(pairs * rest, nested("2x1", inner)),
        repeated(columns % 2 * channels, nested("last column", inner)),
    )


def reference_convolution(call: Call, w: Windows) -> LoopCounts:
    """Return the loops of the reference kernel: one multiplication per channel of each element inside the image."""
    outputs = w.batch * w.out_channels
    loops = {
        "output row": w.batch * w.rows.outputs,
        "position": w.batch * w.positions,
        "output": outputs * w.positions,
        "biased output": outputs * w.positions * (call.input(2) is not None),
        "window row": outputs * w.positions * w.rows.kernel,
        "element": outputs * w.inside,
        **product_loops(call, outputs * w.inside * w.filter_channels),
        **repeated(outputs, padding_loops(w)),
    }
    return LoopCounts(reference_path(call), loops | _unpacking_loops(call))


def reference_depthwise(call: Call, w: Windows) -> LoopCounts:
    """Return the loops of the depthwise reference kernel, whose outputs per channel are the depth multiplier."""
    outputs = w.batch * w.out_channels
    loops = {
        "output row": w.batch * w.rows.outputs,
        "position": w.batch * w.positions,
        "channel": w.batch * w.positions * w.in_channels,
        "output": outputs * w.positions,
        "biased output": outputs * w.positions * (call.input(2) is not None),
        "window row": outputs * w.positions * w.rows.kernel,
        **product_loops(call, outputs * w.inside),
        **repeated(outputs, padding_loops(w)),
    }
    return LoopCounts(reference_path(call), loops | _unpacking_loops(call))


def padding_loops(w: Windows) -> Loops:
    """Return the elements in the padding, by the first of the four comparisons that detects them."""
    rows, columns = w.rows, w.columns
    return {
        "element left": rows.taps * columns.before,
        "element right": rows.taps * (columns.taps - columns.before - columns.inside),
        "element above": rows.before * columns.inside,
        "element below": (rows.taps - rows.before - rows.inside) * columns.inside,
    }


def reference_path(call: Call) -> str:
    """Return the path of a reference kernel: the type of the activations, and whether the weights are int4.

    int16 with an int32 bias has a path of its own, since the accumulator has the type of the bias.
    """
    source, weights, bias = call.required_input(0), call.required_input(1), call.input(2)
    if source.dtype == DType.INT16 and bias is not None and bias.dtype == DType.INT32:
        return "reference int16 with int32 sums"
    packed = " with int4 weights" if weights.dtype == DType.INT4 else ""
    return f"reference {source.dtype.name.lower()}{packed}"


def _unpacking_loops(call: Call) -> dict[str, int]:
    """Return the loops that unpack int4 weights, two at a time, before each run."""
    weights = call.required_input(1)
    return {"unpacked pair": (weights.element_count + 1) // 2} if weights.dtype == DType.INT4 else {}


Kernel = Callable[[Windows, Platform, Tensor | None], LoopCounts]


def _conv_2d_loops(call: Call) -> LoopCounts:
    source, weights, result = call.required_input(0), call.required_input(1), call.required_output()
    w = convolution_windows(call, source, weights, result)
    kernel = CMSIS_KERNELS.get((source.dtype, weights.dtype)) if call.platform.cmsis_nn else None
    if kernel is None:
        return reference_convolution(call, w)
    counts = kernel(w, call.platform, call.input(2))
    loops = combined(counts.loops, biased_tiles(call, w.batch * w.positions, w.out_channels))
    return LoopCounts(counts.path, loops, counts.gives_up)


CMSIS_KERNELS: dict[tuple[DType, DType], Kernel] = {
    (DType.INT8, DType.INT8): lambda w, platform, _: convolve_int8(w, platform),
    (DType.INT8, DType.INT4): lambda w, platform, _: convolve_int4(w, platform),
    (DType.INT16, DType.INT8): convolve_int16,
}

LOOPS: dict[str, LoopRule] = {"CONV_2D": _conv_2d_loops}


def _conv_2d_macs(operator: Operator, graph: Graph) -> int:
    """Return outputs x window x input channels of a group. CONV_2D filters are [out, h, w, in / groups]."""
    shapes = input_shapes(operator, graph, 1)
    return output_elements(operator, graph) * prod(shapes[0][1:]) if shapes else 0


def _conv_3d_macs(operator: Operator, graph: Graph) -> int:
    """Return outputs x window x input channels. CONV_3D filters are [d, h, w, in, out]."""
    shapes = input_shapes(operator, graph, 1)
    return output_elements(operator, graph) * prod(shapes[0][:-1]) if shapes else 0


def _conv_3d_transpose_macs(operator: Operator, graph: Graph) -> int:
    """Return inputs x window x output channels. CONV_3D_TRANSPOSE filters are [d, h, w, out, in]."""
    shapes = input_shapes(operator, graph, 1, 2)
    return prod(shapes[1]) * prod(shapes[0][:-1]) if shapes else 0


MACS: dict[str, MacRule] = {
    "CONV_2D": _conv_2d_macs,
    "CONV_3D": _conv_3d_macs,
    "CONV_3D_TRANSPOSE": _conv_3d_transpose_macs,
}


def _conv_2d_constant_reads(call: Call) -> int:
    """Return one read per pixel, or with CMSIS-NN, per group of columns or rows of pixels processed together."""
    source, filters, output = call.input(0), call.input(1), call.output()
    if source is None or filters is None or output is None or len(filters.shape) != 4 or len(output.shape) != 4:
        return 1
    batch, rows, columns, _ = output.shape
    pixels = batch * rows * columns
    if not uses_cmsis_nn(call):
        return pixels
    if filters.shape[1] == filters.shape[2] == 1 and source.dtype is DType.INT8:
        return (
            product_weight_reads(call, pixels)
            if _stride(call) == 1
            else batch * rows * product_weight_reads(call, columns)
        )
    return -(-pixels // COLLECTED_COLUMNS[call.platform.mve])


def _stride(call: Call) -> int:
    strides = (call.option("stride_h", 1), call.option("stride_w", 1))
    return max(stride if isinstance(stride, int) else 1 for stride in strides)


def _conv_2d_input_reads(call: Call) -> int:
    """Return the reads of a matrix product for an int8 1x1 convolution without strides in CMSIS-NN.

    Other kernels read a window, or a row of pixels, while the cache holds it.
    """
    source, filters, output = call.input(0), call.input(1), call.output()
    if source is None or filters is None or output is None or len(filters.shape) != 4 or len(output.shape) != 4:
        return 1
    pointwise = filters.shape[1] == filters.shape[2] == 1 and source.dtype is DType.INT8
    if not uses_cmsis_nn(call) or not pointwise or _stride(call) != 1:
        return 1
    return product_input_reads(call, output.shape[3])


CONSTANT_READS: dict[str, ReadsRule] = {"CONV_2D": _conv_2d_constant_reads}
INPUT_READS: dict[str, ReadsRule] = {"CONV_2D": _conv_2d_input_reads}


def _groups(call: Call) -> int:
    """Return the number of groups of a CONV_2D whose shapes the kernel accepts."""
    return call.required_input(0).shape[3] // max(call.required_input(1).shape[3], 1)


def _is_grouped_int16(call: Call) -> bool:
    return call.required_input(0).dtype is DType.INT16 and _groups(call) > 1


def _is_grouped_int4(call: Call) -> bool:
    return call.required_input(1).dtype is DType.INT4 and _groups(call) > 1


def _is_grouped_without_bias(call: Call) -> bool:
    is_int8 = call.required_input(1).dtype is DType.INT8 and call.required_input(0).dtype is DType.INT8
    return is_int8 and call.input(CONV.bias) is None and _groups(call) > 1


def _is_int16_without_bias(call: Call) -> bool:
    unbiased = call.required_input(0).dtype is DType.INT16 and call.input(CONV.bias) is None
    return unbiased and _groups(call) == 1 and call.option("quantized_bias_type") != "INT32"


def misreads_row(w: Windows, *, int4: bool) -> bool:
    """Return whether arm_convolve_1_x_n_s8 or arm_convolve_1_x_n_s4 reads wrong values at the ends of a row.

    For int8, the buffer of the right end is right only if its first window overhangs the row by one column. For int4,
    the position of the first weight of a window at either end is rounded down to a whole byte.
    """
    axis, ends = w.columns, padded_row_ends(w.columns)
    if ends is None or sum(ends) > axis.outputs:
        return False  # no result, or another kernel
    total = (axis.outputs - 1) * axis.stride + axis.kernel - axis.size
    if int4:
        skipped = [(axis.pad - axis.stride * index) * w.in_channels for index in range(ends[0])]
        return sum(ends) > 0 and (axis.kernel * w.in_channels % 2 == 1 or any(count % 2 for count in skipped))
    overhang = total - axis.pad
    if overhang == 0 or axis.stride == 1:
        return False
    return overhang % axis.stride != 1 or (overhang != 1 and total % 2 != 0)


def _misreads_row(call: Call) -> bool:
    source, weights, result = operand_tensors(call, CONV)
    if not call.platform.mve or source.dtype is not DType.INT8:
        return False
    w = convolution_windows(call, source, weights, result)
    is_row = convolution_path(w, call.platform) == "one row"
    return is_row and misreads_row(w, int4=weights.dtype is DType.INT4)


def _exceeds_esp_nn_scratch(call: Call) -> bool:
    build = esp_nn.build_of(call)
    if build is None:
        return False
    sizes = esp_nn_sizes(call, CONV)
    return esp_nn.conv_written(sizes, build) > esp_nn.conv_scratch(sizes, build)


def _misreads_esp_nn_padding(call: Call) -> bool:
    build = esp_nn.build_of(call)
    return build is not None and esp_nn.misreads_padding(esp_nn_sizes(call, CONV), build)


def _ignores_groups(call: Call) -> bool:
    build = esp_nn.build_of(call)
    return build is not None and esp_nn.ignores_groups(esp_nn_sizes(call, CONV), build)


def _has_no_bias(call: Call) -> bool:
    return call.input(CONV.bias) is None


FAULTS: dict[str, tuple[KernelFault, ...]] = {
    "CONV_2D": (
        KernelFault(
            name="conv-row-ends",
            kernels=("cmsis-nn",),
            applies=_misreads_row,
            condition="of a single row with these windows",
            effect="reads wrong values at the ends of the row with Helium",
            remedy="use a stride of 1, or pad the row with PAD and use VALID padding",
            source="arm_convolve_1_x_n_s8.c, arm_convolve_1_x_n_s4.c",
            fixed_by="",
            wrong="int8/2",
            right="int8/0",
        ),
        KernelFault(
            name="grouped-conv-int16",
            kernels=("cmsis-nn",),
            applies=_is_grouped_int16,
            condition="with int16 and groups",
            effect="ignores the groups and reads beyond its weights",
            remedy="split the convolution into one per group",
            source="arm_convolve_s16.c",
            fixed_by="",
            wrong="int16/1",
            right="int16/0",
        ),
        KernelFault(
            name="grouped-conv-int4",
            kernels=("cmsis-nn",),
            applies=_is_grouped_int4,
            condition="with int4 weights and groups",
            effect="ignores the groups and reads beyond its weights",
            remedy="split the convolution into one per group, or use int8 weights",
            source="arm_convolve_s4.c, arm_convolve_even_s4.c",
            fixed_by="",
            wrong="int8-int4/2",
            right="int8-int4/3",
        ),
        KernelFault(
            name="grouped-conv-without-bias",
            kernels=("cmsis-nn",),
            applies=_is_grouped_without_bias,
            condition="with groups and without a bias",
            effect="reads the biases of every group but the first from an address close to 0",
            remedy="add a bias of zeros",
            source="arm_convolve_s8.c",
            fixed_by="",
            wrong="int8/54",
            right="int8/0",
        ),
        KernelFault(
            name="conv-without-bias",
            kernels=("reference", "cmsis-nn"),
            applies=_has_no_bias,
            condition="without a bias",
            effect="crashes in AllocateTensors",
            remedy="add a bias of zeros, or use a version of TFLM from September 2023 or later",
            source="conv_common.cc",
            fixed_by="17987e1a5",
            wrong="",
            right="",
        ),
        KernelFault(
            name="conv-int16-without-bias",
            kernels=("cmsis-nn",),
            applies=_is_int16_without_bias,
            condition="with int16 and without a bias",
            effect="rounds with a multiplier of 32 bits instead of 16, so that outputs may differ by 1",
            remedy="add an int64 bias of zeros",
            source="arm_convolve_s16.c, cmsis_nn/conv.cc",
            fixed_by="",
            wrong="int16/9",
            right="int16/0",
        ),
        KernelFault(
            name="esp-conv-padding",
            kernels=("esp-nn",),
            applies=_misreads_esp_nn_padding,
            condition="that is padded more at the right or at the bottom than on the other side",
            effect="takes other values for the padding at the right or at the bottom",
            remedy="pad the input with PAD and use VALID padding",
            source="esp_nn_conv_esp32s3.c, esp_nn_conv_esp32p4.c",
            fixed_by="esp-nn issue 31, on the ESP32-S3",
            wrong="int8/16",
            right="int8/0",
        ),
        KernelFault(
            name="esp-conv-scratch",
            kernels=("esp-nn",),
            applies=_exceeds_esp_nn_scratch,
            condition="with SAME padding and a window of less than 16 elements",
            effect="writes beyond its scratch buffer",
            remedy="pad the input with PAD and use VALID padding, or use a larger window",
            source="esp_nn_conv_esp32p4.c",
            fixed_by="",
            wrong="int8/11",
            right="int8/0",
        ),
        KernelFault(
            name="esp-grouped-conv",
            kernels=("esp-nn",),
            applies=_ignores_groups,
            condition="with groups",
            effect="ignores the groups and reads beyond its weights",
            remedy="use a convolution without groups, with weights of 0 between the groups",
            source="esp_nn_conv_ansi.c, esp_nn_conv_opt.c, esp_nn_conv_esp32s3.c, esp_nn_conv_esp32p4.c",
            fixed_by="9d9c32f",
            wrong="int8/7",
            right="int8/0",
        ),
    ),
}


def _sizes(call: Call) -> Convolution:
    source, weights, result = operand_tensors(call, CONV)
    for tensor in (source, weights, result):
        check_rank_4(call, tensor)
    return buffer_sizes(call, CONV, (source.shape[3], result.shape[3], weights.shape[3]))


def _reference_overlap(call: Call) -> Iterator[InputOverlap]:
    """Yield the input: ConvPerChannel and Conv compute one output after another (reference/integer_ops/conv.h)."""
    yield from window_overlap(call, _sizes(call).window, conv_distance)


def _cmsis_overlap(call: Call) -> Iterator[InputOverlap]:
    """Yield the input of int8 convolutions whose kernel writes in order; others run channel by channel.

    arm_convolve_s8 collects the inputs of two or four pixels before it writes them. Grouped, it starts over for each
    group. Without MVE, the product of 1x1 convolutions computes two channels of all pixels, then the next two
    (arm_nn_mat_mult_nt_t_s8). With MVE, it computes four pixels at a time, as for rows (arm_convolve_1_x_n_s8).
    """
    sizes, weights = _sizes(call), call.required_input(CONV.filter)
    grouped = sizes.kernel_channels != sizes.in_channels
    if not cmsis_nn.has_certified_order(call) or weights.dtype != DType.INT8 or grouped:
        return
    if cmsis_nn.is_1x1(sizes) or (call.platform.mve and cmsis_nn.is_1xn(sizes)):
        if call.platform.mve:
            yield from window_overlap(call, sizes.window, partial(pixelwise_distance, block=cmsis_nn.ROWS_AT_ONCE))
        return
    yield from window_overlap(call, sizes.window, conv_distance)


OVERLAPS: dict[str, OverlapRules] = {"CONV_2D": {"reference": _reference_overlap, "cmsis-nn": _cmsis_overlap}}
ROWS: dict[str, RowRule] = {"CONV_2D": convolution_rows}


OPERATORS = entries(
    prepare=PREPARE,
    loops=LOOPS,
    macs=MACS,
    constant_reads=CONSTANT_READS,
    input_reads=INPUT_READS,
    overlaps=OVERLAPS,
    rows=ROWS,
    faults=FAULTS,
)
