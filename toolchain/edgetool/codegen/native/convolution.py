"""CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV as native kernels.

Weights of int8 and int4 become int8, scales one edgetool_scale for each output channel. Sources: conv.cc,
depthwise_conv.cc, transpose_conv.cc, their _common.cc and the kernels in integer_ops/.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from edgetool.codegen.native.fixed_point import (
    Multiplier,
    Scales,
    double_rounding_scales,
    layer_scales,
    quantize_multiplier,
    reach_of_weights,
    wide_scales,
)
from edgetool.codegen.native.program import Constant, FieldValue, RowInput, Step, StepOverlap, describe
from edgetool.codegen.native.site import RANGES, Array, Lowering, Site, fused_range
from edgetool.model.types import DType, Tensor
from edgetool.operators.call import scale, zero_point
from edgetool.operators.overlap import Window, channelwise_distance, conv_distance


@dataclass(frozen=True, slots=True)
class Operands:
    """The positions of a convolution's inputs, the axis of its weights' output channels, and its bias types by input.

    bias_types: for activations of int16, of which only int32 makes the sums 32 bits wide.
    """

    source: int
    weights: int
    bias: int
    axis: int
    bias_types: tuple[DType, ...]


CONV = Operands(0, 1, 2, 0, (DType.INT32, DType.INT64))
DEPTHWISE = Operands(0, 1, 2, 3, (DType.INT64,))
TRANSPOSE = Operands(2, 1, 3, 0, (DType.INT16, DType.INT64))


def window_of(site: Site, taps_y: int, taps_x: int) -> Window:
    """Return the window of a convolution or pooling operator, with the padding of a PAD before it."""
    source, output = site.input(0), site.output()
    stride_y, stride_x = site.option("stride_h", 1), site.option("stride_w", 1)
    dilation_y, dilation_x = site.option("dilation_h_factor", 1), site.option("dilation_w_factor", 1)
    pad_y = pad_x = 0
    if site.option("padding") == "SAME":
        padded_height, padded_width = _unfolded_sides(site)
        pad_y = _same_padding(padded_height, stride_y, dilation_y, taps_y)
        pad_x = _same_padding(padded_width, stride_x, dilation_x, taps_x)
    return Window(
        batches=output.shape[0],
        height=source.shape[1],
        width=source.shape[2],
        channels=source.shape[3],
        output_height=output.shape[1],
        output_width=output.shape[2],
        output_channels=output.shape[3],
        taps_y=taps_y,
        taps_x=taps_x,
        stride_y=stride_y,
        stride_x=stride_x,
        dilation_y=dilation_y,
        dilation_x=dilation_x,
        pad_y=pad_y + site.pad_top,
        pad_x=pad_x + site.pad_left,
    )


def _unfolded_sides(site: Site) -> tuple[int, int]:
    """Return height and width of the tensor that the .tflite gives the operator: the PAD's output if it is folded."""
    original = site.graph.operators[site.operator.index].inputs[0]
    shape = site.graph.tensors[original].shape
    return shape[1], shape[2]


def _same_padding(side: int, stride: int, dilation: int, taps: int) -> int:
    """Return the padding in front (ComputePadding, padding.h)."""
    effective = (taps - 1) * dilation + 1
    return max(0, ((-(-side // stride) - 1) * stride + effective - side) // 2)


def conv_multipliers(site: Site, source: Tensor, weights: Tensor, channels: int) -> list[float]:
    """Return the real multiplier of each channel (PopulateConvolutionQuantizationParams, kernel_util.cc)."""
    quantization, output = weights.quantization, site.output()
    site.require(quantization is not None and len(quantization.scales) in (1, channels), "its weights have no scales")
    assert quantization is not None
    scales = quantization.scales * channels if len(quantization.scales) == 1 else quantization.scales
    return [scale(source) * item / scale(output) for item in scales]


def bias_of(site: Site, position: int, channels: int, types: tuple[DType, ...] = (DType.INT32,)) -> Array:
    """Return the bias as int64, 0 if it is omitted."""
    tensor = site.optional(position)
    if tensor is None:
        return np.zeros(channels, np.int64)
    site.require(tensor.dtype in types, f"its bias is of type {tensor.dtype.name}")
    site.require(tensor.element_count == channels, "its bias is not one number for each channel")
    return site.constant(position).reshape(-1).astype(np.int64)


def zero_pixel(source: Tensor) -> Constant:
    """Return one pixel of the input's zero point, for taps outside the input."""
    code = zero_point(source)
    return Constant("int8_t", np.full(source.shape[-1], code, np.int8).tobytes(), "a pixel outside the input")


def has_int32_sums(site: Site, position: int) -> bool:
    """Return whether a layer with int16 activations sums in 32 bits, which its bias decides."""
    bias = site.optional(position)
    name = site.option("quantized_bias_type", "FLOAT32") if bias is None else bias.dtype.name
    return bool(name == "INT32")


def _weights(site: Site, operands: Operands) -> Array:
    """Return the weights as int8, after a check of types and shapes, which TFLM's kernels rely on."""
    source, output = site.input(operands.source), site.output()
    types = (source.dtype, site.input(operands.weights).dtype)
    known = {(DType.INT8, DType.INT8), (DType.INT8, DType.INT4), (DType.INT16, DType.INT8)}
    names = f"{source.dtype.name} with weights of {types[1].name}"
    site.require(types in known and output.dtype is source.dtype, f"{names} is not supported")
    weights = site.constant(operands.weights)
    shapes = (source.shape, weights.shape, output.shape)
    site.require(all(len(shape) == 4 and all(shape) for shape in shapes), "a shape does not have 4 dimensions")
    matching = weights.shape[operands.axis] == output.shape[3] and source.shape[0] == output.shape[0]
    site.require(matching, f"it cannot multiply the shapes {source.shape} and {weights.shape}")
    return weights.astype(np.int8)


def _channel_scales(site: Site, operands: Operands, flat: Array, *, folded: bool) -> Scales:
    """Return the scales of a convolution.

    Args:
        site: The operator.
        operands: Where its operands are.
        flat: The weights as (output channels, products).
        folded: Whether the kernel multiplies codes as they are and leaves the input's zero point to the scales.
    """
    source, channels = site.input(operands.source), len(flat)
    reals = conv_multipliers(site, source, site.input(operands.weights), channels)
    multipliers = [quantize_multiplier(real) for real in reals]
    if source.dtype is DType.INT16:
        bias = bias_of(site, operands.bias, channels, operands.bias_types)
        return int16_scales(site, multipliers, bias, flat, narrow=operands == CONV and has_int32_sums(site, 2))
    offsets, zero = bias_of(site, operands.bias, channels), zero_point(source)
    low, high = RANGES[DType.INT8]
    if folded:
        offsets = offsets - zero * flat.astype(np.int64).sum(axis=1)
    else:
        low, high = low - zero, high - zero
    reach = reach_of_weights(flat, low, high)
    site.require(reach.fits(offsets), "its sums may exceed 32 bits")
    return layer_scales(multipliers, offsets, reach, zero_point(site.output()), *fused_range(site, site.output()))


def int16_scales(site: Site, multipliers: list[Multiplier], offsets: Array, flat: Array, *, narrow: bool) -> Scales:
    """Return the scales of a layer with int16 activations; narrow: TFLM's kernel sums in 32 bits."""
    reach = reach_of_weights(flat, *RANGES[DType.INT16])
    if narrow:
        site.require(reach.fits(offsets), "its sums may exceed 32 bits")
        return double_rounding_scales(multipliers, offsets)
    scales = wide_scales(multipliers, offsets, reach)
    if scales is None:
        site.refuse("its sums or multipliers are too large")
    return scales


def _step(
    site: Site,
    kernel: str,
    window: Window,
    overlaps: tuple[StepOverlap, ...],
    source: RowInput,
    **values: FieldValue,
) -> Step:
    """Return the step of a convolution; the values are the fields that only its kernel has."""
    output, element = site.output(), site.output().dtype.bits // 8
    low, high = fused_range(site, output)
    if element == 1:
        values["zero_point"] = zero_point(output)
    return Step(
        operator=site.operator.index,
        kernel=kernel,
        op=describe(
            kernel,
            input_width=window.width,
            output_width=window.output_width,
            input_channels=window.channels,
            taps_y=window.taps_y,
            taps_x=window.taps_x,
            stride_x=window.stride_x,
            pad_x=window.pad_x,
            low=low,
            high=high,
            **values,
        ),
        inputs=(source,),
        output=site.operator.outputs[0],
        row_bytes=window.output_width * window.output_channels * element,
        rows=window.output_height,
        batches=window.batches,
        overlaps=overlaps,
    )


def _suffix(site: Site) -> str:
    return "s8" if site.output().dtype is DType.INT8 else "s16"


def _conv_2d(site: Site) -> Iterator[Step]:
    filters = _weights(site, CONV)
    channels, taps_y, taps_x, depth = filters.shape
    window = window_of(site, taps_y, taps_x)
    groups = window.channels // depth
    matching = groups * depth == window.channels and channels % groups == 0
    site.require(matching, f"it cannot multiply {window.channels} channels and weights of shape {filters.shape}")
    flat = filters.reshape(channels, -1)
    scales = _channel_scales(site, CONV, flat, folded=True)
    element = site.output().dtype.bits // 8
    overlaps = [StepOverlap(0, conv_distance(window, element_bytes=element))]
    if window.is_pointwise and not site.row_wise:
        window = window.flattened()
        distance = conv_distance(window, descending=True, element_bytes=element)
        overlaps.append(StepOverlap(0, distance, descending=True))
    outside: dict[str, FieldValue] = {} if element == 2 else {"zero_pixel": zero_pixel(site.input(0))}
    yield _step(
        site,
        f"edgetool_conv2d_{_suffix(site)}",
        window,
        tuple(overlaps),
        window_rows(site.index(0), window, element),
        weights=Constant("int8_t", flat.tobytes(), "weights"),
        scales=scales.constant,
        shift=scales.shift,
        output_channels=channels,
        groups=groups,
        dilation_x=window.dilation_x,
        **outside,
    )


def _depthwise_conv_2d(site: Site) -> Iterator[Step]:
    filters = _weights(site, DEPTHWISE)
    one, taps_y, taps_x, channels = filters.shape
    window = window_of(site, taps_y, taps_x)
    multiplier = site.option("depth_multiplier", 0)
    matching = one == 1 and channels == window.channels * multiplier
    site.require(matching, f"it cannot multiply {window.channels} channels and weights of shape {filters.shape}")
    scales = _channel_scales(site, DEPTHWISE, filters.reshape(-1, channels).T, folded=True)
    element = site.output().dtype.bits // 8
    outside: dict[str, FieldValue] = {} if element == 2 else {"outside": zero_point(site.input(0))}
    yield _step(
        site,
        f"edgetool_depthwise_{_suffix(site)}",
        window,
        (StepOverlap(0, channelwise_distance(window, element_bytes=element)),),
        window_rows(site.index(0), window, element),
        weights=Constant("int8_t", filters.tobytes(), "weights"),
        scales=scales.constant,
        shift=scales.shift,
        depth_multiplier=multiplier,
        dilation_x=window.dilation_x,
        **outside,
    )


def _transpose_conv(site: Site) -> Iterator[Step]:
    filters = _weights(site, TRANSPOSE)
    channels, taps_y, taps_x, depth = filters.shape
    source, output = site.input(TRANSPOSE.source), site.output()
    site.require(depth == source.shape[3], f"it cannot multiply the shapes {source.shape} and {filters.shape}")
    scales = _channel_scales(site, TRANSPOSE, filters.reshape(channels, -1), folded=False)
    stride_y, stride_x = site.option("stride_h", 1), site.option("stride_w", 1)
    same = site.option("padding") == "SAME"
    window = Window(
        batches=output.shape[0],
        height=source.shape[1],
        width=source.shape[2],
        channels=depth,
        output_height=output.shape[1],
        output_width=output.shape[2],
        output_channels=channels,
        taps_y=taps_y,
        taps_x=taps_x,
        stride_y=stride_y,
        stride_x=stride_x,
        pad_y=_same_padding(output.shape[1], stride_y, 1, taps_y) if same else 0,
        pad_x=_same_padding(output.shape[2], stride_x, 1, taps_x) if same else 0,
        transposed=True,
    )
    input_rows = -(-taps_y // stride_y)
    element = output.dtype.bits // 8
    zero: dict[str, FieldValue] = {} if element == 2 else {"input_zero_point": zero_point(source)}
    yield _step(
        site,
        f"edgetool_transpose_conv_{_suffix(site)}",
        window,
        (StepOverlap(0, conv_distance(window, element_bytes=element)),),
        RowInput(
            site.index(TRANSPOSE.source),
            row_bytes=window.width * depth * element,
            rows=window.height,
            taps=input_rows,
            dilation=stride_y,
            pad=(input_rows - 1) * stride_y - window.pad_y,
            divisor=stride_y,
        ),
        weights=Constant("int8_t", filters.tobytes(), "weights"),
        scales=scales.constant,
        shift=scales.shift,
        input_rows=input_rows,
        output_channels=channels,
        stride_y=stride_y,
        pad_y=window.pad_y,
        **zero,
    )


def window_rows(source: int, window: Window, element_bytes: int = 1) -> RowInput:
    """Return the rows of a window's input."""
    return RowInput(
        source,
        row_bytes=window.width * window.channels * element_bytes,
        rows=window.height,
        taps=window.taps_y,
        stride=window.stride_y,
        dilation=window.dilation_y,
        pad=window.pad_y,
    )


LOWERINGS: dict[str, Lowering] = {
    "CONV_2D": _conv_2d,
    "DEPTHWISE_CONV_2D": _depthwise_conv_2d,
    "TRANSPOSE_CONV": _transpose_conv,
}
