"""Depthwise convolutions: what their kernels ask for in Prepare.

Sources: depthwise_conv.cc and depthwise_conv_common.cc, and cmsis_nn/depthwise_conv.cc.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgetool.model.types import DType
from edgetool.operators.kernel import Call, PrepareRule, Request, scratch
from edgetool.operators.prepare import cmsis_buffers
from edgetool.operators.prepare.convolution import (
    QUANTIZED,
    TYPES,
    Operands,
    buffer_sizes,
    check_filter_scales,
    check_rank_4,
    check_same_type,
    check_symmetric,
    check_type_pair,
    operand_tensors,
    request_channels,
    request_output_first,
    request_output_last,
    request_parameters,
    unpacked_filter,
)
from edgetool.operators.prepare.inspection import demand

DEPTHWISE = Operands(0, 1, 2, 3)


def _depthwise_conv_2d(call: Call) -> Iterator[Request]:
    if call.platform.cmsis_nn:
        yield from _cmsis_depthwise_conv_2d(call)
        return
    source, weights, _ = operand_tensors(call, DEPTHWISE)
    yield from request_output_first(call, DEPTHWISE)
    yield from request_channels(call, weights, DEPTHWISE)
    if source.dtype == DType.INT8:
        check_filter_scales(call, weights, DEPTHWISE)
    check_type_pair(call, source, weights, {*TYPES, (source.dtype, source.dtype)})
    if weights.dtype == DType.INT4:
        yield unpacked_filter(weights)
    yield from _depthwise_parameters(call)


def _cmsis_depthwise_conv_2d(call: Call) -> Iterator[Request]:
    source, weights, result = operand_tensors(call, DEPTHWISE)
    yield from request_output_last(call, DEPTHWISE)
    check_same_type(call, source, result)
    check_type_pair(call, source, weights, TYPES)
    if source.dtype in QUANTIZED:
        check_symmetric(call, source, result)
        check_filter_scales(call, weights, DEPTHWISE)
        yield from request_channels(call, weights, DEPTHWISE)
    yield from _depthwise_parameters(call)
    if source.dtype != DType.INT8:
        return
    for tensor in (source, weights, result):
        check_rank_4(call, tensor)
    sizes = buffer_sizes(call, DEPTHWISE, (source.shape[3], min(result.shape[3], weights.shape[3]), 1))
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
    yield from request_parameters(call, DEPTHWISE)


RULES: dict[str, PrepareRule] = {"DEPTHWISE_CONV_2D": _depthwise_conv_2d}
