"""Activation functions that are separate operators: Prepare and loop counts.

Their tables and parameters are in what Init allocates. Sources of Prepare: activations_common.cc,
leaky_relu_common.cc, prelu_common.cc, elu.cc, hard_swish_common.cc, logistic_common.cc, tanh.cc.

Sources of the loop counts: activations_common.cc, leaky_relu.h, prelu.h, prelu_common.cc, elu.cc, hard_swish.h,
logistic.h and tanh.h, and integer_ops/logistic.h and integer_ops/tanh.h.
"""

from __future__ import annotations

from math import frexp, log2, prod

from edgetool.model.types import DType
from edgetool.operators.call import (
    Call,
    KernelRefusal,
    PrepareRule,
    float32,
    prepare_rule,
    ratio,
    same_output_type,
    scale,
    symmetric_int16,
    zero_point,
)
from edgetool.operators.entry import entries
from edgetool.operators.loops import (
    DEVIATIONS,
    LoopCounts,
    LoopRule,
    broadcast_loops,
    dtype_name,
    elementwise_loops,
    extend_shape,
    negative_count,
    share_within,
)
from edgetool.operators.overlap import OverlapRules, elementwise_overlaps
from edgetool.operators.rows import RowRule, same_rows

LOG2_TOLERANCE = 1e-3  # CheckedLog2, quantization_util.cc


def _check_slope_type(call: Call) -> None:
    if call.required_output().dtype == DType.INT16 and call.required_input(1).dtype != DType.INT8:
        raise KernelRefusal("int16 PRELU supports only int8 slopes")


def _check_output_scale(call: Call) -> None:
    """Require the multiplier from 1/128 of the input's scale to the output's scale to have no left shift."""
    source, result = call.required_input(0), call.required_output()
    if source.dtype == DType.INT8 and scale(result) and float32(float32(scale(source) / 128) / scale(result)) >= 1:
        raise KernelRefusal(
            "HARD_SWISH supports int8 only if the output scale is greater than 1/128 of the input scale"
        )


def _check_int8_zero_point(call: Call) -> None:
    """Require the lowest zero point of an int8 output, because results range from 0 to 1."""
    if call.required_input(0).dtype == DType.INT8 and zero_point(call.required_output()) != -128:
        raise KernelRefusal(f"{call.operator.label} produces int8 only with a zero point of -128")


def _check_int16_scale(call: Call) -> None:
    """Require a scale of 2^-15 of an int16 output."""
    actual = scale(call.required_output())
    if call.required_input(0).dtype == DType.INT16 and not (actual > 0 and abs(log2(actual) + 15) < LOG2_TOLERANCE):
        raise KernelRefusal(f"{call.operator.label} produces int16 only with a scale of 2^-15, not {actual}")


PREPARE: dict[str, PrepareRule] = {
    "ELU": prepare_rule((0,), (0,), same_output_type),
    "HARD_SWISH": prepare_rule((0,), (0,), _check_output_scale),
    "LEAKY_RELU": prepare_rule((0,), (0,), same_output_type),
    "LOGISTIC": prepare_rule(
        (0,), (0,), same_output_type, _check_int8_zero_point, symmetric_int16(1), _check_int16_scale
    ),
    "PRELU": prepare_rule((0, 1), (0,), _check_slope_type),
    "RELU": prepare_rule((0,), (0,), symmetric_int16(1)),
    # Prepare does not request the output.
    "RELU6": prepare_rule((0,), ()),
    # Prepare requests the input twice.
    "TANH": prepare_rule((0, 0), (0,), same_output_type, symmetric_int16(1), _check_int16_scale),
}


INTEGER_BITS = 4  # of the fixed-point numbers in which LOGISTIC and TANH calculate
# The real numbers at which the int16 table ends: 255 steps of 2^9 or 2^8, with 3 * 2^12 steps per unit.
TABLE_END = {"LOGISTIC": 255 * 2**9 / (3 * 2**12), "TANH": 255 * 2**8 / (3 * 2**12)}
RELUISH_SCALE = float32(3 / 32768)
HARD_SWISH_BOUND, RELU6_BOUND = 3, 6  # the real numbers beyond which HARD_SWISH and RELU6 clamp


def _elementwise(call: Call) -> LoopCounts:
    return elementwise_loops(call, dtype_name(call))


def _sign_dependent(call: Call) -> LoopCounts:
    """Return the loops of a function that computes negative numbers in another branch."""
    return elementwise_loops(call, dtype_name(call), negative=negative_count(call))


def _prelu(call: Call) -> LoopCounts:
    """Return the loops of PRELU: integers are always broadcast; floats use four nested loops, whatever the shapes."""
    source, result = call.required_input(0), call.required_output()
    negative = negative_count(call)
    if source.dtype != DType.FLOAT32:
        return broadcast_loops(call, dtype_name(call), negative=negative)
    batch, height, width, channels = extend_shape(result.shape, 4)
    outer = {"plane": batch * height, "row": batch * height * width}
    return LoopCounts("float32", {**outer, "element": prod((batch, height, width, channels)), "negative": negative})


def _sigmoid(call: Call) -> LoopCounts:
    """Return the loops of LOGISTIC and TANH; integers outside the fixed-point range are saturated, not calculated."""
    source = call.required_input(0)
    if source.dtype == DType.FLOAT32:
        return _elementwise(call)
    if source.dtype == DType.INT8:
        share = share_within(_input_radius(scale(source)) - 0.5)
    else:
        share = share_within(ratio(TABLE_END[call.operator.code], scale(source)), DEVIATIONS[DType.INT16])
    return elementwise_loops(
        call, dtype_name(call), calculated=round(source.element_count * share), negative=negative_count(call)
    )


def _input_radius(input_scale: float) -> int:
    """Return CalculateInputRadius for the multiplier of a scale (quantization_util.cc)."""
    _, left_shift = frexp(input_scale * 2 ** (31 - INTEGER_BITS))
    return int((2**INTEGER_BITS - 1) * 2.0 ** (31 - INTEGER_BITS - left_shift))


def _hard_swish(call: Call) -> LoopCounts:
    """Return the loops of HARD_SWISH.

    int8 is shifted to the scale of the clamped factor: to the left, to the right or not at all. Numbers beyond 3
    saturate in a shift to the left, which takes fewer instructions.
    """
    source = call.required_input(0)
    if source.dtype != DType.INT8:
        return _elementwise(call)
    _, exponent = frexp(float32(float32(scale(source) / 128) / RELUISH_SCALE))
    count = source.element_count
    if exponent <= 0:
        return elementwise_loops(call, "int8", narrowed=count if exponent else 0)
    return elementwise_loops(
        call, "int8", widened=count, unsaturated=round(count * share_within(ratio(HARD_SWISH_BOUND, scale(source))))
    )


def _relu6(call: Call) -> LoopCounts:
    """Return the loops of RELU6: a quantized number above six is not compared with zero."""
    source = call.required_input(0)
    if source.dtype not in DEVIATIONS:
        return _sign_dependent(call)
    share_above = 1 - share_within(ratio(RELU6_BOUND, scale(source)), DEVIATIONS[source.dtype])
    above = (source.element_count - negative_count(call)) * share_above
    return elementwise_loops(call, dtype_name(call), **{"up to six": round(source.element_count - above)})


LOOPS: dict[str, LoopRule] = {
    "ELU": lambda call: _elementwise(call) if call.required_input(0).dtype == DType.INT8 else _sign_dependent(call),
    "HARD_SWISH": _hard_swish,
    "LEAKY_RELU": _sign_dependent,
    "LOGISTIC": _sigmoid,
    "PRELU": _prelu,
    "RELU": _sign_dependent,
    "RELU6": _relu6,
    "TANH": _sigmoid,
}


OVERLAPS: dict[str, OverlapRules] = dict.fromkeys(PREPARE, elementwise_overlaps(0))
ROWS: dict[str, RowRule] = dict.fromkeys(PREPARE, same_rows())


OPERATORS = entries(prepare=PREPARE, loops=LOOPS, overlaps=OVERLAPS, rows=ROWS)
