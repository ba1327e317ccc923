"""Convolutions: what their kernels ask for in Prepare.

Sources: conv_common.cc, its counterpart in cmsis_nn/, padding.h and PopulateConvolutionQuantizationParams of
kernel_util.cc. What follows CONV helps depthwise and transposed convolutions, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgetool.model.types import DType, Tensor
from edgetool.operators.kernel import Call, PrepareRule, Request, persistent, scratch
from edgetool.operators.prepare import cmsis_buffers
from edgetool.operators.prepare.cmsis_buffers import Convolution
from edgetool.operators.prepare.inspection import demand, integer
from edgetool.operators.prepare.quantization import check_activation_range, is_quantized, zero_point

INT32_BYTES = 4
INT64_BYTES = 8

TYPES = {
    (DType.FLOAT32, DType.FLOAT32),
    (DType.INT16, DType.INT8),
    (DType.INT8, DType.INT8),
    (DType.INT8, DType.INT4),
}
QUANTIZED = (DType.INT8, DType.INT16)
CLAMPED = (DType.UINT8, *QUANTIZED)  # types with a range for the fused activation


@dataclass(frozen=True, slots=True)
class Operands:
    """The positions of an operator's tensors, and the filter's dimension of output channels.

    clamps_in_cmsis_nn: CMSIS-NN's kernel applies the fused activation; that of transposed convolutions ignores it.
    """

    source: int
    filter: int
    bias: int
    channel_axis: int
    clamps_in_cmsis_nn: bool = True


CONV = Operands(0, 1, 2, 0)


def _conv_2d(call: Call) -> Iterator[Request]:
    if call.platform.cmsis_nn:
        yield from _cmsis_conv_2d(call)
        return
    source, weights, result = operand_tensors(call, CONV)
    yield from request_output_first(call, CONV)
    check_same_type(call, source, result)
    check_type_pair(call, source, weights, TYPES)
    yield from request_channels(call, weights, CONV)
    if source.dtype in QUANTIZED:
        check_filter_scales(call, weights, CONV)
    yield from request_parameters(call, CONV)
    if weights.dtype == DType.INT4:
        yield unpacked_filter(weights)


def _cmsis_conv_2d(call: Call) -> Iterator[Request]:
    """The bias is looked for among the outputs, so that none is ever found."""
    source, weights, result = operand_tensors(call, CONV)
    yield from request_output_last(call, CONV)
    check_same_type(call, source, result)
    check_type_pair(call, source, weights, TYPES)
    for tensor in (source, weights, result):
        check_rank_4(call, tensor)
    demand(
        call, source.shape[0] == result.shape[0], f"cannot produce a batch of {result.shape[0]} from {source.shape[0]}"
    )
    grouped = weights.shape[3] > 0 and source.shape[3] % weights.shape[3] == 0
    demand(call, grouped, f"cannot divide {source.shape[3]} channels into groups of {weights.shape[3]}")
    if source.dtype in QUANTIZED:
        yield from request_channels(call, weights, CONV)
    yield from request_parameters(call, CONV)
    if source.dtype == DType.FLOAT32:
        return
    sizes = buffer_sizes(call, CONV, (source.shape[3], result.shape[3], weights.shape[3]))
    if source.dtype == DType.INT16:
        check_symmetric(call, source, result)
        size = cmsis_buffers.convolve_s16(sizes, mve=call.platform.mve)
    else:
        size = cmsis_buffers.convolve_s8(sizes, mve=call.platform.mve)
    if size > 0:
        yield scratch("im2col buffer", size)


def operand_tensors(call: Call, operands: Operands) -> tuple[Tensor, Tensor, Tensor]:
    """The input, the filter and the output."""
    return call.required_input(operands.source), call.required_input(operands.filter), call.required_output()


def request_output_first(call: Call, operands: Operands) -> Iterator[Request]:
    """Look at the output, then at input and filter."""
    yield from call.temporary_outputs(0)
    yield from call.temporary_inputs(operands.source, operands.filter)


def request_output_last(call: Call, operands: Operands) -> Iterator[Request]:
    """Look at input and filter, then at the output."""
    yield from call.temporary_inputs(operands.source, operands.filter)
    yield from call.temporary_outputs(0)


def request_channels(call: Call, weights: Tensor, operands: Operands) -> Iterator[Request]:
    """As many as the filter has, not the output."""
    axis = operands.channel_axis
    demand(call, axis < len(weights.shape), f"does not support a filter with {len(weights.shape)} dimensions")
    for what in ("per-channel multipliers", "per-channel shifts"):
        yield persistent(what, INT32_BYTES * weights.shape[axis])


def request_parameters(call: Call, operands: Operands) -> Iterator[Request]:
    """CalculateOpData: every tensor once more, and what multipliers can be made of."""
    check_operand_count(call, operands)
    yield from call.temporary_inputs(operands.source, operands.filter, operands.bias)
    yield from call.temporary_outputs(0)
    source, weights, result = operand_tensors(call, operands)
    if source.dtype == DType.FLOAT32:
        return
    for what, tensor in (("input", source), ("filter", weights)):
        demand(call, is_quantized(tensor), f"requires scales and zero points for its {what}")
    quantization = weights.quantization
    if quantization is not None and quantization.per_channel:
        integer_types = source.dtype in QUANTIZED and weights.dtype in (DType.INT8, DType.INT4)
        demand(call, integer_types, f"does not support a filter of type {_type(weights)} quantized per channel")
        channels, axis = weights.shape[operands.channel_axis], quantization.axis
        alike = len(quantization.scales) == channels
        alike = alike and 0 <= axis < len(weights.shape) and weights.shape[axis] == channels
        demand(call, alike, "supports only filters quantized per tensor or per output channel")
    if source.dtype in CLAMPED:
        demand(call, result.dtype in CLAMPED, f"cannot produce {_type(result)} from {_type(source)}")
        if operands.clamps_in_cmsis_nn or not call.platform.cmsis_nn:
            check_activation_range(call)


def check_operand_count(call: Call, operands: Operands) -> None:
    """Refuse other numbers of inputs and outputs; the bias may be left out."""
    inputs, outputs = len(call.operator.inputs), len(call.operator.outputs)
    demand(call, inputs in (operands.bias, operands.bias + 1), f"does not support {inputs} inputs")
    demand(call, outputs == 1, f"does not support {outputs} outputs")


def check_filter_scales(call: Call, weights: Tensor, operands: Operands) -> None:
    """Refuse a filter without scales, or with as many as fit nothing."""
    demand(call, is_quantized(weights), "does not support a filter without scales and zero points")
    scales = len(weights.quantization.scales) if weights.quantization is not None else 0
    channels = weights.shape[operands.channel_axis : operands.channel_axis + 1]
    demand(
        call,
        scales == 1 or (scales,) == channels,
        f"does not support a filter of shape {weights.shape} with {scales} scales",
    )


def unpacked_filter(weights: Tensor) -> Request:
    """The scratch buffer for a filter of int4, a byte for each weight."""
    return scratch("filter unpacked from int4", weights.element_count)


def check_symmetric(call: Call, *tensors: Tensor) -> None:
    """Refuse int16 with zero points."""
    for tensor in tensors if tensors[0].dtype == DType.INT16 else ():
        demand(call, zero_point(tensor) == 0, f"supports int16 only with zero points of 0, not {zero_point(tensor)}")


def check_same_type(call: Call, source: Tensor, result: Tensor) -> None:
    """Refuse an output of another type than the input."""
    demand(call, source.dtype == result.dtype, f"cannot produce {_type(result)} from {_type(source)}")


def check_type_pair(call: Call, source: Tensor, weights: Tensor, pairs: set[tuple[DType, DType]]) -> None:
    """Refuse other pairs of types of input and filter."""
    taken = (source.dtype, weights.dtype) in pairs
    demand(call, taken, f"does not support {_type(source)} with filters of type {_type(weights)}")


def check_rank_4(call: Call, tensor: Tensor) -> None:
    """Not all kernels check it; those that do not read sizes from beyond the shape."""
    demand(call, len(tensor.shape) == 4, f"requires tensors with 4 dimensions, not {len(tensor.shape)}")


def _type(tensor: Tensor) -> str:
    return tensor.dtype.name.lower()


def buffer_sizes(call: Call, operands: Operands, channels: tuple[int, int, int]) -> Convolution:
    """What CMSIS-NN is told. An operator without options has strides and dilations of 0, as TFLM parses it.

    channels: those of the input, of the output and of one filter.
    """
    source, weights, result = operand_tensors(call, operands)
    image, kernel = source.shape[1:3], weights.shape[1:3]
    strides = integer(call, "stride_h"), integer(call, "stride_w")
    dilations = integer(call, "dilation_h_factor"), integer(call, "dilation_w_factor")
    pads = _pads(str(call.option("padding", "")), image, kernel, strides, dilations)
    return Convolution(
        batch=min(source.shape[0], result.shape[0]),
        in_height=image[0],
        in_width=image[1],
        in_channels=channels[0],
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


def _pads(
    kind: str, image: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, int]:
    """ComputePaddingHeightWidth (padding.h): from the input's size alone; no padding where that has no meaning."""
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


RULES: dict[str, PrepareRule] = {"CONV_2D": _conv_2d}
