"""Convolutions: what their kernels ask for in Prepare.

Sources: conv_common.cc, depthwise_conv_common.cc, transpose_conv.cc, their counterparts in cmsis_nn/, padding.h and
PopulateConvolutionQuantizationParams of kernel_util.cc.
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
class _Operands:
    """The positions of an operator's tensors, and the filter's dimension of output channels."""

    source: int
    filter: int
    bias: int
    channel_axis: int


CONV = _Operands(0, 1, 2, 0)
DEPTHWISE = _Operands(0, 1, 2, 3)
TRANSPOSE = _Operands(2, 1, 3, 0)


def _conv_2d(call: Call) -> Iterator[Request]:
    if call.platform.cmsis_nn:
        yield from _cmsis_conv_2d(call)
        return
    source, weights, result = _tensors(call, CONV)
    yield from _output_first(call, CONV)
    _same_type(call, source, result)
    _type_pair(call, source, weights, TYPES)
    yield from _channels(call, weights, CONV)
    if source.dtype in QUANTIZED:
        _filter_scales(call, weights, CONV)
    yield from _parameters(call, CONV)
    if weights.dtype == DType.INT4:
        yield _unpacked(weights)


def _cmsis_conv_2d(call: Call) -> Iterator[Request]:
    """The bias is looked for among the outputs, so that none is ever found."""
    source, weights, result = _tensors(call, CONV)
    yield from _output_last(call, CONV)
    _same_type(call, source, result)
    _type_pair(call, source, weights, TYPES)
    for tensor in (source, weights, result):
        _rank_4(call, tensor)
    demand(
        call, source.shape[0] == result.shape[0], f"cannot produce a batch of {result.shape[0]} from {source.shape[0]}"
    )
    grouped = weights.shape[3] > 0 and source.shape[3] % weights.shape[3] == 0
    demand(call, grouped, f"cannot divide {source.shape[3]} channels into groups of {weights.shape[3]}")
    if source.dtype in QUANTIZED:
        yield from _channels(call, weights, CONV)
    yield from _parameters(call, CONV)
    if source.dtype == DType.FLOAT32:
        return
    sizes = _sizes(call, CONV, (source.shape[3], result.shape[3], weights.shape[3]))
    if source.dtype == DType.INT16:
        _symmetric(call, source, result)
        size = cmsis_buffers.convolve_s16(sizes, mve=call.platform.mve)
    else:
        size = cmsis_buffers.convolve_s8(sizes, mve=call.platform.mve)
    if size > 0:
        yield scratch("im2col buffer", size)


def _depthwise_conv_2d(call: Call) -> Iterator[Request]:
    if call.platform.cmsis_nn:
        yield from _cmsis_depthwise_conv_2d(call)
        return
    source, weights, _ = _tensors(call, DEPTHWISE)
    yield from _output_first(call, DEPTHWISE)
    yield from _channels(call, weights, DEPTHWISE)
    if source.dtype == DType.INT8:
        _filter_scales(call, weights, DEPTHWISE)
    _type_pair(call, source, weights, {*TYPES, (source.dtype, source.dtype)})
    if weights.dtype == DType.INT4:
        yield _unpacked(weights)
    yield from _depthwise_parameters(call)


def _cmsis_depthwise_conv_2d(call: Call) -> Iterator[Request]:
    source, weights, result = _tensors(call, DEPTHWISE)
    yield from _output_last(call, DEPTHWISE)
    _same_type(call, source, result)
    _type_pair(call, source, weights, TYPES)
    if source.dtype in QUANTIZED:
        _symmetric(call, source, result)
        _filter_scales(call, weights, DEPTHWISE)
        yield from _channels(call, weights, DEPTHWISE)
    yield from _depthwise_parameters(call)
    if source.dtype != DType.INT8:
        return
    for tensor in (source, weights, result):
        _rank_4(call, tensor)
    sizes = _sizes(call, DEPTHWISE, (source.shape[3], min(result.shape[3], weights.shape[3]), 1))
    if weights.dtype == DType.INT4:
        size = cmsis_buffers.depthwise_s4(sizes, mve=call.platform.mve)
    else:
        size = cmsis_buffers.depthwise_s8(sizes, dsp=call.platform.dsp, mve=call.platform.mve)
    if size > 0:
        yield scratch("im2col buffer", size)


def _depthwise_parameters(call: Call) -> Iterator[Request]:
    """A third input that is left out is given back all the same, as a null pointer."""
    demand(
        call,
        tuple(call.operator.inputs[2:]) != (-1,),
        "crashes if the bias is omitted by setting its input index to -1",
    )
    yield from _parameters(call, DEPTHWISE)


def _transpose_conv(call: Call) -> Iterator[Request]:
    """The shape of the output is the tensor's; the input that repeats it is not looked at."""
    source, weights, result = _tensors(call, TRANSPOSE)
    yield from _output_first(call, TRANSPOSE)
    if call.platform.cmsis_nn:
        _same_type(call, source, result)
        _type_pair(call, source, weights, TYPES - {(DType.INT8, DType.INT4)})
    else:
        _type_pair(call, source, weights, {(source.dtype, source.dtype), (DType.INT16, DType.INT8)})
    yield from _channels(call, weights, TRANSPOSE)
    if source.dtype == DType.INT8 and call.platform.cmsis_nn:
        for tensor in (source, weights, result):
            _rank_4(call, tensor)
        depth = min(source.shape[3], weights.shape[3])
        sizes = _sizes(call, TRANSPOSE, (depth, min(result.shape[3], weights.shape[0]), depth))
        yield scratch("im2col buffer or accumulators", cmsis_buffers.transpose_s8(sizes, mve=call.platform.mve))
        # Requested, and counted, even when it is empty.
        yield scratch("reversed filter", cmsis_buffers.transpose_reversed_filter_s8(sizes))
    elif source.dtype in QUANTIZED:
        width = INT32_BYTES if source.dtype == DType.INT8 else INT64_BYTES
        yield scratch("accumulators", width * result.element_count)
    if source.dtype in QUANTIZED:
        _filter_scales(call, weights, TRANSPOSE)
    _operand_count(call, TRANSPOSE)
    if source.dtype == DType.FLOAT32:
        return
    yield from _parameters(call, TRANSPOSE)
    bias = call.input(TRANSPOSE.bias)
    if source.dtype != DType.INT16:
        return
    crashes = call.platform.cmsis_nn and bias is None
    demand(call, not crashes, "crashes without a bias in int16")
    if bias is not None and bias.dtype == DType.INT16:
        yield scratch("bias as int64", INT64_BYTES * bias.element_count)


def _tensors(call: Call, operands: _Operands) -> tuple[Tensor, Tensor, Tensor]:
    return call.required_input(operands.source), call.required_input(operands.filter), call.required_output()


def _output_first(call: Call, operands: _Operands) -> Iterator[Request]:
    yield from call.temporary_outputs(0)
    yield from call.temporary_inputs(operands.source, operands.filter)


def _output_last(call: Call, operands: _Operands) -> Iterator[Request]:
    yield from call.temporary_inputs(operands.source, operands.filter)
    yield from call.temporary_outputs(0)


def _channels(call: Call, weights: Tensor, operands: _Operands) -> Iterator[Request]:
    """As many as the filter has, not the output."""
    axis = operands.channel_axis
    demand(call, axis < len(weights.shape), f"does not support a filter with {len(weights.shape)} dimensions")
    for what in ("per-channel multipliers", "per-channel shifts"):
        yield persistent(what, INT32_BYTES * weights.shape[axis])


def _parameters(call: Call, operands: _Operands) -> Iterator[Request]:
    """CalculateOpData: every tensor once more, and what multipliers can be made of."""
    _operand_count(call, operands)
    yield from call.temporary_inputs(operands.source, operands.filter, operands.bias)
    yield from call.temporary_outputs(0)
    source, weights, result = _tensors(call, operands)
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
        if not (operands is TRANSPOSE and call.platform.cmsis_nn):  # that one ignores the activation
            check_activation_range(call)


def _operand_count(call: Call, operands: _Operands) -> None:
    inputs, outputs = len(call.operator.inputs), len(call.operator.outputs)
    demand(call, inputs in (operands.bias, operands.bias + 1), f"does not support {inputs} inputs")
    demand(call, outputs == 1, f"does not support {outputs} outputs")


def _filter_scales(call: Call, weights: Tensor, operands: _Operands) -> None:
    demand(call, is_quantized(weights), "does not support a filter without scales and zero points")
    scales = len(weights.quantization.scales) if weights.quantization is not None else 0
    channels = weights.shape[operands.channel_axis : operands.channel_axis + 1]
    demand(
        call,
        scales == 1 or (scales,) == channels,
        f"does not support a filter of shape {weights.shape} with {scales} scales",
    )


def _unpacked(weights: Tensor) -> Request:
    return scratch("filter unpacked from int4", weights.element_count)


def _symmetric(call: Call, *tensors: Tensor) -> None:
    for tensor in tensors if tensors[0].dtype == DType.INT16 else ():
        demand(call, zero_point(tensor) == 0, f"supports int16 only with zero points of 0, not {zero_point(tensor)}")


def _same_type(call: Call, source: Tensor, result: Tensor) -> None:
    demand(call, source.dtype == result.dtype, f"cannot produce {_type(result)} from {_type(source)}")


def _type_pair(call: Call, source: Tensor, weights: Tensor, pairs: set[tuple[DType, DType]]) -> None:
    taken = (source.dtype, weights.dtype) in pairs
    demand(call, taken, f"does not support {_type(source)} with filters of type {_type(weights)}")


def _rank_4(call: Call, tensor: Tensor) -> None:
    """Not all kernels check it; those that do not read sizes from beyond the shape."""
    demand(call, len(tensor.shape) == 4, f"requires tensors with 4 dimensions, not {len(tensor.shape)}")


def _type(tensor: Tensor) -> str:
    return tensor.dtype.name.lower()


def _sizes(call: Call, operands: _Operands, channels: tuple[int, int, int]) -> Convolution:
    """What CMSIS-NN is told. An operator without options has strides and dilations of 0, as TFLM parses it.

    channels: those of the input, of the output and of one filter.
    """
    source, weights, result = _tensors(call, operands)
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


RULES: dict[str, PrepareRule] = {
    "CONV_2D": _conv_2d,
    "DEPTHWISE_CONV_2D": _depthwise_conv_2d,
    "TRANSPOSE_CONV": _transpose_conv,
}
