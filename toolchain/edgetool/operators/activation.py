"""Activation functions as operators of their own: MACs, Prepare, loop counts and bounds.

Their tables and parameters lie in what Init allocates. Sources: activations_common.cc, leaky_relu_common.cc,
prelu_common.cc, elu.cc, hard_swish_common.cc, logistic_common.cc, tanh.cc.

Sources: activations_common.cc, leaky_relu.h, prelu.h, prelu_common.cc, elu.cc, hard_swish.h, logistic.h and tanh.h,
the latter two also of integer_ops.
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

LOG2_TOLERANCE = 1e-3  # CheckedLog2, quantization_util.cc


def _check_slope_type(call: Call) -> None:
    if call.required_output().dtype == DType.INT16 and call.required_input(1).dtype != DType.INT8:
        raise KernelRefusal("int16 PRELU supports only int8 slopes")


def _check_output_scale(call: Call) -> None:
    """The multiplier from 1/128 of the input's scale to the output's has no left shift."""
    source, result = call.required_input(0), call.required_output()
    if source.dtype == DType.INT8 and scale(result) and float32(float32(scale(source) / 128) / scale(result)) >= 1:
        raise KernelRefusal(
            "HARD_SWISH supports int8 only if the output scale is greater than 1/128 of the input scale"
        )


def _check_int8_zero_point(call: Call) -> None:
    """Results from 0 to 1 in int8 start at the lowest value."""
    if call.required_input(0).dtype == DType.INT8 and zero_point(call.required_output()) != -128:
        raise KernelRefusal(f"{call.operator.label} produces int8 only with a zero point of -128")


def _check_int16_scale(call: Call) -> None:
    """Results in int16 have a scale of 2^-15."""
    own = scale(call.required_output())
    if call.required_input(0).dtype == DType.INT16 and not (own > 0 and abs(log2(own) + 15) < LOG2_TOLERANCE):
        raise KernelRefusal(f"{call.operator.label} produces int16 only with a scale of 2^-15, not {own}")


PREPARE: dict[str, PrepareRule] = {
    "ELU": prepare_rule((0,), (0,), same_output_type),
    "HARD_SWISH": prepare_rule((0,), (0,), _check_output_scale),
    "LEAKY_RELU": prepare_rule((0,), (0,), same_output_type),
    "LOGISTIC": prepare_rule(
        (0,), (0,), same_output_type, _check_int8_zero_point, symmetric_int16(1), _check_int16_scale
    ),
    "PRELU": prepare_rule((0, 1), (0,), _check_slope_type),
    "RELU": prepare_rule((0,), (0,), symmetric_int16(1)),
    # The output is not looked at.
    "RELU6": prepare_rule((0,), ()),
    # The input is asked for twice.
    "TANH": prepare_rule((0, 0), (0,), same_output_type, symmetric_int16(1), _check_int16_scale),
}


INTEGER_BITS = 4  # of what LOGISTIC and TANH calculate with
# The real numbers at which the table of int16 ends: 255 steps of 2^9 or 2^8, at 3 * 2^12 to the unit.
TABLE_END = {"LOGISTIC": 255 * 2**9 / (3 * 2**12), "TANH": 255 * 2**8 / (3 * 2**12)}
RELUISH_SCALE = float32(3 / 32768)
HARD_SWISH_BOUND, RELU6_BOUND = 3, 6  # the real numbers where HARD_SWISH and RELU6 begin to clamp


def _elementwise(call: Call) -> LoopCounts:
    return elementwise_loops(call, dtype_name(call))


def _sign_dependent(call: Call) -> LoopCounts:
    """Numbers below zero take another branch."""
    return elementwise_loops(call, dtype_name(call), negative=negative_count(call))


def _prelu(call: Call) -> LoopCounts:
    """Integers always go through the broadcast; floats through four loops, whatever the shapes."""
    source, result = call.required_input(0), call.required_output()
    negative = negative_count(call)
    if source.dtype != DType.FLOAT32:
        return broadcast_loops(call, dtype_name(call), negative=negative)
    batch, height, width, channels = extend_shape(result.shape, 4)
    turns = {"plane": batch * height, "row": batch * height * width}
    return LoopCounts("float32", {**turns, "element": prod((batch, height, width, channels)), "negative": negative})


def _sigmoid(call: Call) -> LoopCounts:
    """Integers beyond what their fixed-point numbers hold are saturated without calculation."""
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


def _input_radius(own: float) -> int:
    """CalculateInputRadius for the multiplier of a scale (quantization_util.cc)."""
    _, left_shift = frexp(own * 2 ** (31 - INTEGER_BITS))
    return int((2**INTEGER_BITS - 1) * 2.0 ** (31 - INTEGER_BITS - left_shift))


def _hard_swish(call: Call) -> LoopCounts:
    """int8 is shifted to the scale of the clamped factor: to the left, to the right or not at all.

    What a shift to the left saturates is done sooner: numbers beyond 3.
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
    """A quantized number above six needs no look at zero."""
    source = call.required_input(0)
    if source.dtype not in DEVIATIONS:
        return _sign_dependent(call)
    beyond = 1 - share_within(ratio(RELU6_BOUND, scale(source)), DEVIATIONS[source.dtype])
    above = (source.element_count - negative_count(call)) * beyond
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


OPERATORS = entries(prepare=PREPARE, loops=LOOPS)
