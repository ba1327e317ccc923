"""Matrix products: what their kernels ask for in Prepare.

Sources: fully_connected.cc, fully_connected_common.cc, batch_matmul.cc, batch_matmul_common.cc, their counterparts in
cmsis_nn/, and kernel_util.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from edgetool.model.types import DType, Tensor
from edgetool.operators.kernel import Call, PrepareRule, Request, persistent, scratch
from edgetool.operators.prepare import cmsis_dense_buffers
from edgetool.operators.prepare.conditions import counts, inputs_alike, output_alike, symmetric_int16
from edgetool.operators.prepare.inspection import demand, dims_copy, input_rank, input_type
from edgetool.operators.prepare.multipliers import check_product, is_per_channel, weight_multipliers
from edgetool.operators.prepare.quantization import check_activation_range, scale

INT32_BYTES = 4

# Weights that each type of input takes; the reference kernel lets inputs of other types pass to the next check.
WEIGHTS = {
    DType.FLOAT32: (DType.FLOAT32,),
    DType.INT8: (DType.INT8, DType.INT4),
    DType.INT16: (DType.INT8,),
}
CLAMPED = (DType.UINT8, DType.INT8, DType.INT16)  # types with a range for the fused activation
MULTIPLIED = (DType.FLOAT32, DType.INT8, DType.INT16)
QUANTIZED = (DType.INT8, DType.INT16)
RANKS, CMSIS_RANKS = (2, 5), (2, 4)  # of BATCH_MATMUL's operands


def _fully_connected(call: Call) -> Iterator[Request]:
    source, weights, result = call.required_input(0), call.required_input(1), call.required_output()
    yield from call.temporary_inputs(0, 1, 2)
    yield from call.temporary_outputs(0)
    output_alike(call)
    taken = weights.dtype in WEIGHTS.get(source.dtype, () if call.platform.cmsis_nn else (weights.dtype,))
    names = f"{source.dtype.name.lower()} with weights of {weights.dtype.name.lower()}"
    demand(call, taken, f"does not support {names}")
    if weights.dtype == DType.INT4 and not call.platform.cmsis_nn:
        yield scratch("weights unpacked from int4", weights.element_count)
    yield from weight_multipliers(call, source, weights, call.input(2), scale(result))
    if source.dtype != DType.FLOAT32:
        demand(call, result.dtype in CLAMPED, f"does not support {result.dtype.name.lower()}")
        check_activation_range(call)
    if call.platform.cmsis_nn:
        yield from _cmsis_fully_connected(call, source, weights, result)


def _cmsis_fully_connected(call: Call, source: Tensor, weights: Tensor, result: Tensor) -> Iterator[Request]:
    """An output of more than two dimensions runs as a 1x1 convolution, where the depth is a multiple of 4.

    Sums over constant weights are made once and kept, in builds optimized for speed (the default).
    """
    per_channel = source.dtype != DType.FLOAT32 and is_per_channel(weights)
    taken = not per_channel or source.dtype == DType.INT8
    demand(call, taken, "with CMSIS-NN kernels does not support int16 with weights quantized per channel")
    symmetric_int16(1)(call)
    if source.dtype != DType.INT8 or weights.dtype == DType.INT4:
        return
    outputs, depth = (shape[-1] if shape else 0 for shape in (result.shape, weights.shape))
    if len(result.shape) > 2 and depth % 4 == 0:
        if not per_channel:
            yield scratch("per-channel multipliers and shifts", 2 * INT32_BYTES * outputs)
        return
    size = cmsis_dense_buffers.fully_connected_s8(outputs, mve=call.platform.mve)
    bias = call.input(2)
    if size > 0:
        kept = weights.is_constant and (bias is None or bias.is_constant)
        yield persistent("sums of weights", size) if kept else scratch("sums of weights", size)


def _batch_matmul(call: Call) -> Iterator[Request]:
    left, right, result = call.required_input(0), call.required_input(1), call.required_output()
    ranks = CMSIS_RANKS if call.platform.cmsis_nn else RANKS
    if not call.platform.cmsis_nn:
        counts(2)(call)
    yield from call.temporary_inputs(0, 1)
    yield from call.temporary_outputs(0)
    for condition in (inputs_alike, output_alike, input_type(0, *MULTIPLIED), input_rank(0, *ranks)):
        condition(call)
    input_rank(1, *ranks)(call)
    shape = _product_shape(call, left, right)
    quantized = left.dtype in QUANTIZED
    parameters = persistent("multiplier and zero points", call.platform.size_of("QuantizationOpDataBatchMatmul"))
    if quantized and not call.platform.cmsis_nn:
        yield parameters
    if call.option("adj_x", False):
        yield from _transposed(call, "left", left)
    # A right operand that the model gives transposed lies as the kernel wants it.
    if not call.option("adj_y", False):
        yield from _transposed(call, "right", right)
    demand(call, len(shape) <= len(result.shape), f"cannot produce an output with {len(result.shape)} dimensions")
    yield dims_copy(result)
    demand(call, prod(shape) == result.element_count, f"produces an output of shape {shape}, not {result.shape}")
    if not quantized:
        return
    if call.platform.cmsis_nn:
        yield parameters
    check_product(call, left, right)
    symmetric_int16(2)(call)
    if call.platform.cmsis_nn and left.dtype == DType.INT8:
        size = cmsis_dense_buffers.fully_connected_s8(shape[-1], mve=call.platform.mve)
        if size > 0:
            yield scratch("sums of weights", size)


def _transposed(call: Call, side: str, tensor: Tensor) -> Iterator[Request]:
    """A whole copy, constant or not."""
    yield persistent(f"tensor of the transposed {side} operand", call.platform.size_of("TfLiteEvalTensor"))
    yield persistent(f"dimensions of the transposed {side} operand", INT32_BYTES * (1 + len(tensor.shape)))
    yield persistent(f"transposed {side} operand", tensor.size_bytes)


def _product_shape(call: Call, left: Tensor, right: Tensor) -> tuple[int, ...]:
    """The output's shape: batch dimensions broadcast, then rows and columns. Raises KernelRefusal where they differ."""
    rank = max(len(left.shape), len(right.shape))
    first, second = ((1,) * (rank - len(tensor.shape)) + tensor.shape for tensor in (left, right))
    rows, depth = first[:-3:-1] if call.option("adj_x", False) else first[-2:]
    other, columns = second[:-3:-1] if call.option("adj_y", False) else second[-2:]
    batches = list(zip(first[:-2], second[:-2], strict=True))
    fits = depth == other and all(a == b or 1 in (a, b) for a, b in batches)
    demand(call, fits, f"cannot multiply the shapes {left.shape} and {right.shape}")
    return (*(b if a == 1 else a for a, b in batches), rows, columns)


RULES: dict[str, PrepareRule] = {
    "BATCH_MATMUL": _batch_matmul,
    "FULLY_CONNECTED": _fully_connected,
}
