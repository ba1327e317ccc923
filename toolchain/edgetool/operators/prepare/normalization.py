"""Normalization along an axis: what its kernels ask for in Prepare.

Sources: softmax_common.cc, cmsis_nn/softmax.cc, log_softmax.cc, l2norm.cc and PreprocessSoftmaxScaling
(quantization_util.cc).
"""

from __future__ import annotations

from collections.abc import Iterator

from edgetool.model.types import DType
from edgetool.operators.kernel import Call, PrepareRule, Request, persistent
from edgetool.operators.prepare.conditions import counts, looks_at, output_alike, same_shape
from edgetool.operators.prepare.inspection import demand, input_rank, output_type
from edgetool.operators.prepare.quantization import float32, scale, zero_point

TABLE_BYTES = 2 * 513  # LUTSize<int16_t>
LOG_SOFTMAX_SCALE, LOG_SOFTMAX_ZERO_POINT = 16 / 256, 127
SCALE_TOLERANCE = float32(0.001)
SCALED_BITS = 26  # 31 less the integer bits of a scaled difference

# What SOFTMAX makes of its input: the output's zero point, scale, and whether exactly that scale.
MADE = {
    (DType.INT16, DType.INT16): (0, 2.0**-15, False),
    (DType.INT8, DType.INT16): (-32768, 2.0**-16, False),
    (DType.INT8, DType.INT8): (-128, 2.0**-8, True),
}


def _softmax(call: Call) -> Iterator[Request]:
    counts(1)(call)
    source, result = call.required_input(0), call.required_output()
    yield from call.temporary_inputs(0)
    demand(call, len(source.shape) > 0, "does not support a scalar")
    yield from call.temporary_outputs(0)
    types = (source.dtype, result.dtype)
    taken = types in MADE or types == (DType.FLOAT32, DType.FLOAT32)
    demand(call, taken, f"cannot produce {types[1].name.lower()} from {types[0].name.lower()}")
    if source.dtype == DType.INT16:
        for what in ("table of exponentials", "table of reciprocals"):
            yield persistent(what, TABLE_BYTES)
        demand(call, zero_point(source) == 0, "supports int16 only with zero points of 0")
    if types in MADE:
        _check_output(call, *MADE[types])
    if source.dtype == DType.INT8:
        beta = call.option("beta", 0.0)
        _check_exponent(call, beta if isinstance(beta, float) else 0.0)


def _check_output(call: Call, expected_zero_point: int, expected_scale: float, exact: bool) -> None:
    result = call.required_output()
    tolerance = 0.0 if exact else SCALE_TOLERANCE * expected_scale
    alike = zero_point(result) == expected_zero_point and abs(scale(result) - expected_scale) <= tolerance
    demand(call, alike, f"produces only the scale {expected_scale:g} with the zero point {expected_zero_point}")


def _check_exponent(call: Call, beta: float) -> None:
    """The fixed-point multiplier of the exponent must exceed 1; the kernel aborts the program otherwise."""
    own = scale(call.required_input(0))
    demand(call, beta * own * 2**SCALED_BITS > 1, f"does not support an input scale of {own} with a beta of {beta:g}")


def _log_softmax(call: Call) -> Iterator[Request]:
    """Types other than int8 pass; Invoke takes float32 only."""
    yield from looks_at((0,), (0,), counts(1), output_alike, same_shape)(call)
    if call.required_input(0).dtype == DType.INT8:
        yield persistent("parameters", call.platform.size_of("LogSoftmaxOpData"))
        _check_output(call, LOG_SOFTMAX_ZERO_POINT, LOG_SOFTMAX_SCALE, True)
        _check_exponent(call, 1.0)


def _no_activation(call: Call) -> None:
    activation = call.option("fused_activation_function", "NONE")
    demand(call, activation == "NONE", f"does not support the fused activation {activation!r}")


RULES: dict[str, PrepareRule] = {
    "L2_NORMALIZATION": looks_at(
        (0,),
        (0,),
        counts(1),
        input_rank(0, 0, 4),
        output_type(0, DType.FLOAT32, DType.INT8),
        output_alike,
        _no_activation,
    ),
    "LOG_SOFTMAX": _log_softmax,
    "SOFTMAX": _softmax,
}
