"""Matrix products: which kernel runs, and how often its loops turn.

Sources: fully_connected.cc, batch_matmul.cc, integer_ops/fully_connected.h, batch_matmul.h, transpose.h and
CMSIS-NN's arm_fully_connected_s8.c, _per_channel_s8.c, _s16.c, _s4.c, arm_batch_matmul_s8.c, _s16.c,
arm_vector_sum_s8.c.
"""

from __future__ import annotations

from math import prod

from edgetool.model.types import DType, Tensor
from edgetool.operators.kernel import Call
from edgetool.operators.prepare.multipliers import is_per_channel
from edgetool.operators.prepare.quantization import zero_point
from edgetool.operators.work.loops import Loops, named, repeated, together
from edgetool.operators.work.matrix import biased_tiles, product_s8
from edgetool.operators.work.types import Work, WorkRule
from edgetool.operators.work.values import products
from edgetool.operators.work.vector_matrix import (
    units_at_once,
    vector_product_s4,
    vector_product_s8,
    vector_product_s16,
)
from edgetool.target.platform import Platform

ROWS_SUMMED_AT_ONCE = 5
LANES = 16


def is_pointwise(call: Call) -> bool:
    """Whether CMSIS-NN runs the dense layer as a 1x1 convolution (fully_connected.cc)."""
    source, weights, result = call.required_input(0), call.required_input(1), call.required_output()
    return source.dtype == weights.dtype == DType.INT8 and len(result.shape) > 2 and weights.shape[-1] % 4 == 0


def _fully_connected(call: Call) -> Work:
    source, weights, result = call.required_input(0), call.required_input(1), call.required_output()
    units, depth = result.shape[-1] if result.shape else 1, weights.shape[-1]
    rows = result.element_count // max(units, 1)
    if call.platform.cmsis_nn and source.dtype != DType.FLOAT32:
        return _cmsis_fully_connected(call, rows, units, depth)
    bias = call.input(2)
    loops = {"row": rows, "unit": rows * units, **products(call, rows * units * depth)}
    loops |= _biased(rows * units, bias)
    path = f"reference {source.dtype.name.lower()}"
    if source.dtype == DType.INT16:
        path += " with int32 sums" if bias is not None and bias.dtype == DType.INT32 else ""
    if weights.dtype == DType.INT4:
        return Work(f"{path} with int4 weights", loops | {"unpacked pair": (weights.element_count + 1) // 2})
    return Work(f"{path} per channel" if _per_channel(source, weights) else path, loops)


def _cmsis_fully_connected(call: Call, rows: int, units: int, depth: int) -> Work:
    source, weights = call.required_input(0), call.required_input(1)
    platform, bias = call.platform, call.input(2)
    biased = _biased(rows * units, bias)
    if source.dtype == DType.INT16:
        return Work("int16", together(biased, repeated(rows, {"row": 1, **vector_product_s16(units, depth, platform)})))
    if weights.dtype == DType.INT4:
        return Work("int4", together(biased, repeated(rows, {"row": 1, **vector_product_s4(units, depth, platform)})))
    per_channel = _per_channel(source, weights)
    if is_pointwise(call):
        # The multipliers are written out for each channel first.
        written = {"unit": 0 if per_channel else units}
        return Work(
            "int8 1x1", together(written, product_s8(rows, units, depth, platform), biased_tiles(call, rows, units))
        )
    path = "int8 per channel" if per_channel else "int8"
    path += " asymmetric" if zero_point(weights) != 0 else ""
    loops = together(biased, repeated(rows, {"row": 1, **vector_product_s8(units, depth, platform)}))
    if platform.mve and not (weights.is_constant and (bias is None or bias.is_constant)):
        return Work(f"{path} with moving weights", together(loops, _sums(units, depth, platform)))
    return Work(path, loops)


def _biased(outputs: int, bias: Tensor | None) -> Loops:
    return {"bias": 1, "biased unit": outputs} if bias is not None else {}


def _per_channel(source: Tensor, weights: Tensor) -> bool:
    return source.dtype != DType.FLOAT32 and is_per_channel(weights)


def _sums(units: int, depth: int, platform: Platform) -> Loops:
    """The sum of each row of weights (arm_vector_sum_s8 with MVE)."""
    inner = {"by 16": -(-depth // LANES)}
    return named("sum of", units_at_once(units, ROWS_SUMMED_AT_ONCE, inner)) if platform.mve else {}


def _batch_matmul(call: Call) -> Work:
    """Operands lie as the kernel wants them, or are turned first: a constant right one in the first run only."""
    left, right, result = call.required_input(0), call.required_input(1), call.required_output()
    turned = together(
        _turned("left", left) if call.option("adj_x", False) else {},
        {} if call.option("adj_y", False) or right.is_constant else _turned("right", right),
    )
    rows, columns = result.shape[-2:]
    depth = left.shape[-2] if call.option("adj_x", False) else left.shape[-1]
    batches = prod(result.shape[:-2])
    dtype = left.dtype.name.lower()
    if len(left.shape) > 2 < len(right.shape) and right.shape[-3] == 1:
        # One right operand for several left ones: their rows follow each other.
        rows, batches = rows * result.shape[-3], batches // result.shape[-3]
        turned = together(turned, {"flattened": 1})
    if not call.platform.cmsis_nn or left.dtype == DType.FLOAT32:
        outputs = batches * rows * columns
        loops = {"batch": batches, "row": batches * rows, "output": outputs, "product": outputs * depth}
        return Work(f"reference {dtype}", together(turned, loops))
    product = vector_product_s8 if left.dtype == DType.INT8 else _vector_product_s16_s16
    sums = _sums(columns, depth, call.platform) if left.dtype == DType.INT8 else {}
    row = {"row": 1, **product(columns, depth, call.platform)}
    loops = repeated(batches, together({"batch": 1}, sums, repeated(rows, row)))
    asymmetric = left.dtype == DType.INT8 and zero_point(right) != 0
    return Work(f"{dtype} asymmetric" if asymmetric else dtype, together(turned, loops))


def _turned(side: str, tensor: Tensor) -> Loops:
    """The last two dimensions exchanged (transpose.h): one call for each row that it makes."""
    matrices = prod(tensor.shape[:-2])
    return {
        f"turned {side}": 1,
        "turned matrix": matrices,
        "turned row": matrices * tensor.shape[-1],
        "turned element": tensor.element_count,
    }


def _vector_product_s16_s16(units: int, depth: int, platform: Platform) -> Loops:
    if platform.mve:
        return units_at_once(units, 4, {"by 8": -(-depth // 8)})
    if platform.dsp:
        return units_at_once(units, 2, {"by 4": depth // 4, "by 1": depth % 4})
    return {"unit": units, "unit by 1": units * depth}


WORK: dict[str, WorkRule] = {
    "BATCH_MATMUL": _batch_matmul,
    "FULLY_CONNECTED": _fully_connected,
}
