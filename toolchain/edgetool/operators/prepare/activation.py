"""Activation functions as operators of their own: what their kernels ask for in Prepare.

Their tables and parameters lie in what Init allocates. Sources: activations_common.cc, leaky_relu_common.cc,
prelu_common.cc, elu.cc, hard_swish_common.cc, logistic_common.cc, tanh.cc.
"""

from __future__ import annotations

from math import log2

from edgetool.model.types import DType
from edgetool.operators.kernel import Call, KernelRefusal, PrepareRule
from edgetool.operators.prepare.conditions import counts, looks_at, output_alike, symmetric_int16
from edgetool.operators.prepare.quantization import float32, scale, zero_point

LOG2_TOLERANCE = 1e-3  # CheckedLog2, quantization_util.cc


def _int8_slopes(call: Call) -> None:
    if call.required_output().dtype == DType.INT16 and call.required_input(1).dtype != DType.INT8:
        raise KernelRefusal("int16 PRELU supports only int8 slopes")


def _shrinking_output(call: Call) -> None:
    """The multiplier from 1/128 of the input's scale to the output's has no left shift."""
    source, result = call.required_input(0), call.required_output()
    if source.dtype == DType.INT8 and scale(result) and float32(float32(scale(source) / 128) / scale(result)) >= 1:
        raise KernelRefusal(
            "HARD_SWISH supports int8 only if the output scale is greater than 1/128 of the input scale"
        )


def _from_zero(call: Call) -> None:
    """Results from 0 to 1 in int8 start at the lowest value."""
    if call.required_input(0).dtype == DType.INT8 and zero_point(call.required_output()) != -128:
        raise KernelRefusal(f"{call.operator.label} produces int8 only with a zero point of -128")


def _fifteen_bits(call: Call) -> None:
    """Results in int16 have a scale of 2^-15."""
    own = scale(call.required_output())
    if call.required_input(0).dtype == DType.INT16 and not (own > 0 and abs(log2(own) + 15) < LOG2_TOLERANCE):
        raise KernelRefusal(f"{call.operator.label} produces int16 only with a scale of 2^-15, not {own}")


RULES: dict[str, PrepareRule] = {
    "ELU": looks_at((0,), (0,), counts(1), output_alike),
    "HARD_SWISH": looks_at((0,), (0,), counts(1), _shrinking_output),
    "LEAKY_RELU": looks_at((0,), (0,), counts(1), output_alike),
    "LOGISTIC": looks_at((0,), (0,), output_alike, _from_zero, symmetric_int16(1), _fifteen_bits),
    "PRELU": looks_at((0, 1), (0,), _int8_slopes),
    "RELU": looks_at((0,), (0,), symmetric_int16(1)),
    # The output is not looked at.
    "RELU6": looks_at((0,), ()),
    # The input is asked for twice.
    "TANH": looks_at((0, 0), (0,), counts(1), output_alike, symmetric_int16(1), _fifteen_bits),
}
