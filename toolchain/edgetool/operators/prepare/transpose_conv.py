"""TRANSPOSE_CONV: what its kernels ask for in Prepare.

Sources: transpose_conv.cc, and cmsis_nn/transpose_conv.cc.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgetool.model.types import DType
from edgetool.operators.kernel import Call, PrepareRule, Request, scratch
from edgetool.operators.prepare import cmsis_buffers
from edgetool.operators.prepare.convolution import (
    INT32_BYTES,
    INT64_BYTES,
    QUANTIZED,
    TYPES,
    Operands,
    buffer_sizes,
    check_filter_scales,
    check_operand_count,
    check_rank_4,
    check_same_type,
    check_type_pair,
    operand_tensors,
    request_channels,
    request_output_first,
    request_parameters,
)
from edgetool.operators.prepare.inspection import demand

TRANSPOSE = Operands(2, 1, 3, 0, clamps_in_cmsis_nn=False)


def _transpose_conv(call: Call) -> Iterator[Request]:
    """The shape of the output is the tensor's; the input that repeats it is not looked at."""
    source, weights, result = operand_tensors(call, TRANSPOSE)
    yield from request_output_first(call, TRANSPOSE)
    if call.platform.cmsis_nn:
        check_same_type(call, source, result)
        check_type_pair(call, source, weights, TYPES - {(DType.INT8, DType.INT4)})
    else:
        check_type_pair(call, source, weights, {(source.dtype, source.dtype), (DType.INT16, DType.INT8)})
    yield from request_channels(call, weights, TRANSPOSE)
    if source.dtype == DType.INT8 and call.platform.cmsis_nn:
        for tensor in (source, weights, result):
            check_rank_4(call, tensor)
        depth = min(source.shape[3], weights.shape[3])
        sizes = buffer_sizes(call, TRANSPOSE, (depth, min(result.shape[3], weights.shape[0]), depth))
        yield scratch("im2col buffer or accumulators", cmsis_buffers.transpose_s8(sizes, mve=call.platform.mve))
        # Requested, and counted, even when it is empty.
        yield scratch("reversed filter", cmsis_buffers.transpose_reversed_filter_s8(sizes))
    elif source.dtype in QUANTIZED:
        width = INT32_BYTES if source.dtype == DType.INT8 else INT64_BYTES
        yield scratch("accumulators", width * result.element_count)
    if source.dtype in QUANTIZED:
        check_filter_scales(call, weights, TRANSPOSE)
    check_operand_count(call, TRANSPOSE)
    if source.dtype == DType.FLOAT32:
        return
    yield from request_parameters(call, TRANSPOSE)
    bias = call.input(TRANSPOSE.bias)
    if source.dtype != DType.INT16:
        return
    crashes = call.platform.cmsis_nn and bias is None
    demand(call, not crashes, "crashes without a bias in int16")
    if bias is not None and bias.dtype == DType.INT16:
        yield scratch("bias as int64", INT64_BYTES * bias.element_count)


RULES: dict[str, PrepareRule] = {"TRANSPOSE_CONV": _transpose_conv}
