"""CONV_2D as a native kernel."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edgetool.codegen.native.fixed_point import layer_scales, quantize_multiplier, reach_of_weights
from edgetool.codegen.native.program import Constant, RowInput, Step, StepOverlap, describe
from edgetool.codegen.native.site import Array, Lowering, Site, fused_range
from edgetool.model.types import DType, Tensor
from edgetool.operators.call import scale, zero_point
from edgetool.operators.overlap import Window, conv_distance


def window_of(site: Site, taps_y: int, taps_x: int, *, depth_multiplier: int = 1) -> Window:
    """Return the window of a convolution or pooling operator, with the padding of a PAD before it."""
    source, output = site.input(0), site.output()
    _, height, width, channels = source.shape
    batches, rows, columns, output_channels = output.shape
    stride_y, stride_x = site.option("stride_h", 1), site.option("stride_w", 1)
    dilation_y, dilation_x = site.option("dilation_h_factor", 1), site.option("dilation_w_factor", 1)
    pad_y = pad_x = 0
    if site.option("padding") == "SAME":
        padded_height, padded_width = _unfolded_sides(site)
        pad_y = _same_padding(padded_height, rows, stride_y, dilation_y, taps_y)
        pad_x = _same_padding(padded_width, columns, stride_x, dilation_x, taps_x)
    return Window(
        batches=batches,
        height=height,
        width=width,
        channels=channels,
        output_height=rows,
        output_width=columns,
        output_channels=output_channels,
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


def _same_padding(side: int, outputs: int, stride: int, dilation: int, taps: int) -> int:
    """Return the padding in front (ComputePadding, padding.h)."""
    effective = (taps - 1) * dilation + 1
    return max(0, ((outputs - 1) * stride + effective - side) // 2)


def conv_multipliers(site: Site, weights: Tensor, channels: int) -> list[float]:
    """Return the real multiplier of each channel (PopulateConvolutionQuantizationParams, kernel_util.cc)."""
    source, output = site.input(0), site.output()
    quantization = weights.quantization
    site.require(quantization is not None and len(quantization.scales) in (1, channels), "its weights have no scales")
    assert quantization is not None
    scales = quantization.scales * channels if len(quantization.scales) == 1 else quantization.scales
    return [scale(source) * item / scale(output) for item in scales]


def bias_of(site: Site, position: int, channels: int) -> Array:
    """Return the bias as int64, 0 if it is omitted."""
    if site.optional(position) is None:
        return np.zeros(channels, np.int64)
    return site.constant(position).reshape(-1).astype(np.int64)


def zero_pixel(source: Tensor) -> Constant:
    """Return one pixel of the input's zero point, for taps outside the input."""
    code = zero_point(source)
    return Constant("int8_t", np.full(source.shape[-1], code, np.int8).tobytes(), "a pixel outside the input")


def _conv_2d(site: Site) -> Iterator[Step]:
    source, weights, output = site.input(0), site.input(1), site.output()
    site.require(source.dtype is DType.INT8 and output.dtype is DType.INT8, f"{source.dtype.name} is not supported")
    filters = site.constant(1)
    channels, taps_y, taps_x, depth = filters.shape
    window = window_of(site, taps_y, taps_x)
    flat = filters.reshape(channels, -1)
    offsets = bias_of(site, 2, channels) - zero_point(source) * flat.astype(np.int64).sum(axis=1)
    low, high = fused_range(site, output)
    scales = layer_scales(
        [quantize_multiplier(real) for real in conv_multipliers(site, weights, channels)],
        offsets,
        reach_of_weights(flat),
        zero_point(output),
        low,
        high,
    )
    pointwise = window.is_pointwise and not site.row_wise
    overlaps = [StepOverlap(0, conv_distance(window))]
    if pointwise:
        window = window.flattened()
        overlaps.append(StepOverlap(0, conv_distance(window, descending=True), descending=True))
    yield Step(
        operator=site.operator.index,
        kernel="edgetool_conv2d_s8",
        op=describe(
            "edgetool_conv2d_s8",
            weights=Constant("int8_t", flat.astype(np.int8).tobytes(), "weights"),
            scales=scales.constant,
            zero_pixel=zero_pixel(source),
            input_width=window.width,
            output_width=window.output_width,
            input_channels=window.channels,
            output_channels=channels,
            groups=window.channels // depth,
            taps_y=taps_y,
            taps_x=taps_x,
            stride_x=window.stride_x,
            dilation_x=window.dilation_x,
            pad_x=window.pad_x,
            shift=scales.shift,
            zero_point=zero_point(output),
            low=low,
            high=high,
        ),
        inputs=(window_rows(site.index(0), window),),
        output=site.operator.outputs[0],
        row_bytes=window.output_width * channels,
        rows=window.output_height,
        batches=window.batches,
        overlaps=tuple(overlaps),
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


LOWERINGS: dict[str, Lowering] = {"CONV_2D": _conv_2d}
