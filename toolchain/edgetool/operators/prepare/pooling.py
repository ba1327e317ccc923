"""Pooling: what its kernels ask for in Prepare.

Sources: pooling_common.cc, l2_pool_2d.cc and cmsis_nn/pooling.cc. A range that the fused activation cannot have is
not noticed here.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgetool.model.types import DType
from edgetool.operators.kernel import Call, PrepareRule, Request, scratch
from edgetool.operators.prepare import cmsis_dense_buffers
from edgetool.operators.prepare.conditions import counts, output_alike
from edgetool.operators.prepare.inspection import demand, dims_copy, input_rank, input_type, integer, output_rank
from edgetool.operators.prepare.quantization import float32, scale, zero_point

QUANTIZED = (DType.INT8, DType.INT16)
SCALE_TOLERANCE = 1e-6


def _pool(call: Call) -> Iterator[Request]:
    source, result = call.required_input(0), call.required_output()
    yield from call.temporary_inputs(0)
    yield from call.temporary_outputs(0)
    input_type(0, DType.FLOAT32, *QUANTIZED)(call)
    if source.dtype in QUANTIZED:
        near = abs(float32(scale(source) - scale(result))) <= SCALE_TOLERANCE
        alike = near and zero_point(source) == zero_point(result)
        demand(call, alike, "requires an output quantized like the input")


def _average_pool(call: Call) -> Iterator[Request]:
    """CMSIS-NN's looks at both tensors once more."""
    yield from _pool(call)
    if not call.platform.cmsis_nn:
        return
    yield from call.temporary_inputs(0)
    yield from call.temporary_outputs(0)
    source, result = call.required_input(0), call.required_output()
    if source.dtype in QUANTIZED:
        channels = min((*source.shape[3:4], *result.shape[3:4]), default=0)
        size = cmsis_dense_buffers.average_pool(channels, dsp=call.platform.dsp, mve=call.platform.mve)
        if size > 0:
            yield scratch("accumulators", size)


def _l2_pool(call: Call) -> Iterator[Request]:
    """The output's size is calculated; one of 0 is taken for a dynamic tensor."""
    counts(1)(call)
    yield from call.temporary_outputs(0)
    yield from call.temporary_inputs(0)
    for condition in (input_rank(0, 4), output_rank(0, 4), output_alike, input_type(0, DType.FLOAT32)):
        condition(call)
    yield dims_copy(call.required_output())
    for axis, side in ((1, "h"), (2, "w")):
        size = call.required_input(0).shape[axis]
        window = integer(call, "filter_height" if side == "h" else "filter_width")
        made = _windows(call, size, window, integer(call, f"stride_{side}"))
        demand(call, made > 0, f"cannot produce an output from {size} elements with a window of {window}")


def _windows(call: Call, size: int, window: int, stride: int) -> int:
    """The positions of a window along one side (padding.h)."""
    if window <= 0 or stride <= 0:
        return 0
    uncovered = {"SAME": 1, "VALID": window}.get(str(call.option("padding", "")), size + stride)
    return (size + stride - uncovered) // stride


RULES: dict[str, PrepareRule] = {
    "AVERAGE_POOL_2D": _average_pool,
    "L2_POOL_2D": _l2_pool,
    "MAX_POOL_2D": _pool,
}
