"""Normalization along an axis: Prepare and loop counts.

Sources of Prepare: softmax_common.cc, cmsis_nn/softmax.cc, esp_nn/softmax.cc, log_softmax.cc, l2norm.cc and
PreprocessSoftmaxScaling (quantization_util.cc).

Sources of the loop counts: softmax.h, log_softmax.h, l2normalization.h; of CMSIS-NN arm_nn_softmax_common_s8.c and
arm_softmax_s16.c (GCC 12.2 does not compile the vector code of arm_softmax_s8.c, so MVE runs the common code).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import frexp, prod

from edgetool.model.types import DType, Tensor
from edgetool.operators import esp_nn
from edgetool.operators.call import (
    Call,
    PrepareRule,
    Request,
    float32,
    input_rank,
    output_type,
    persistent,
    prepare_rule,
    require,
    same_output_shape,
    same_output_type,
    scale,
    zero_point,
)
from edgetool.operators.entry import KernelFault, entries
from edgetool.operators.loops import LoopCounts, LoopRule, count_near_largest, shape_copy_loops
from edgetool.operators.overlap import OverlapRules, elementwise_overlaps

TABLE_BYTES = 2 * 513  # LUTSize<int16_t>
LOG_SOFTMAX_SCALE, LOG_SOFTMAX_ZERO_POINT = 16 / 256, 127
SCALE_TOLERANCE = float32(0.001)
SCALED_BITS = 26  # 31 minus the integer bits of a scaled difference

# SOFTMAX's output by input and output type: its zero point, its scale, and whether the scale must match exactly.
OUTPUT_QUANTIZATION = {
    (DType.INT16, DType.INT16): (0, 2.0**-15, False),
    (DType.INT8, DType.INT16): (-32768, 2.0**-16, False),
    (DType.INT8, DType.INT8): (-128, 2.0**-8, True),
}


def _prepare_softmax(call: Call) -> Iterator[Request]:
    source, result = call.required_input(0), call.required_output()
    yield from call.temporary_inputs(0)
    require(call, len(source.shape) > 0, "does not support a scalar")
    yield from call.temporary_outputs(0)
    types = (source.dtype, result.dtype)
    supported = types in OUTPUT_QUANTIZATION or types == (DType.FLOAT32, DType.FLOAT32)
    require(call, supported, f"cannot produce {types[1].name.lower()} from {types[0].name.lower()}")
    if source.dtype == DType.INT16:
        for what in ("table of exponentials", "table of reciprocals"):
            yield persistent(what, TABLE_BYTES)
        require(call, zero_point(source) == 0, "supports int16 only with zero points of 0")
    if types in OUTPUT_QUANTIZATION:
        _check_output_quantization(call, *OUTPUT_QUANTIZATION[types])
    if source.dtype == DType.INT8:
        beta = call.option("beta", 0.0)
        _check_exponent(call, beta if isinstance(beta, float) else 0.0)
    if call.platform.esp_nn is not None and types == (DType.INT8, DType.INT8):
        require(call, len(source.shape) > 1, "with ESP-NN kernels reads a second dimension, which its input lacks")
        yield from esp_nn.requested(esp_nn.softmax_scratch(source.shape[1], call.platform.esp_nn))


def _check_output_quantization(call: Call, expected_zero_point: int, expected_scale: float, exact: bool) -> None:
    result = call.required_output()
    tolerance = 0.0 if exact else SCALE_TOLERANCE * expected_scale
    matching = zero_point(result) == expected_zero_point and abs(scale(result) - expected_scale) <= tolerance
    require(call, matching, f"produces only the scale {expected_scale:g} with the zero point {expected_zero_point}")


def _check_exponent(call: Call, beta: float) -> None:
    """Require the fixed-point multiplier of the exponent to exceed 1; otherwise the kernel aborts the program."""
    input_scale = scale(call.required_input(0))
    require(
        call,
        beta * input_scale * 2**SCALED_BITS > 1,
        f"does not support an input scale of {input_scale} with a beta of {beta:g}",
    )


def _prepare_log_softmax(call: Call) -> Iterator[Request]:
    """Yield the requests of LOG_SOFTMAX. Prepare accepts any type; Invoke supports only int8 and float32."""
    yield from prepare_rule((0,), (0,), same_output_type, same_output_shape)(call)
    if call.required_input(0).dtype == DType.INT8:
        yield persistent("parameters", call.platform.size_of("LogSoftmaxOpData"))
        _check_output_quantization(call, LOG_SOFTMAX_ZERO_POINT, LOG_SOFTMAX_SCALE, True)
        _check_exponent(call, 1.0)


def _no_activation(call: Call) -> None:
    activation = call.option("fused_activation_function", "NONE")
    require(call, activation == "NONE", f"does not support the fused activation {activation!r}")


PREPARE: dict[str, PrepareRule] = {
    "L2_NORMALIZATION": prepare_rule(
        (0,),
        (0,),
        input_rank(0, 0, 4),
        output_type(0, DType.FLOAT32, DType.INT8),
        same_output_type,
        _no_activation,
    ),
    "LOG_SOFTMAX": _prepare_log_softmax,
    "SOFTMAX": _prepare_softmax,
}


INTEGER_BITS = 5  # of the scaled difference from a row's maximum
INT16_STEPS, TABLE_RANGE = 2**16 - 1, 10.0  # of the table of exponentials


def _row_loops(source: Tensor, path: str, **loops: int) -> LoopCounts:
    rows = prod(source.shape[:-1])
    shapes = shape_copy_loops(source.shape)
    return LoopCounts(path, {**shapes, "row": rows, "element": source.element_count, **loops})


def _float_exponentials(source: Tensor) -> int:
    """Return one exponential per difference from its row's maximum; a difference of 0 takes a shortcut."""
    return source.element_count - prod(source.shape[:-1])


def _softmax_loops(call: Call) -> LoopCounts:
    source, result = call.required_input(0), call.required_output()
    path = source.dtype.name.lower()
    if source.dtype == DType.FLOAT32:
        return _row_loops(source, path, exponential=_float_exponentials(source))
    if result.dtype != source.dtype:
        path += f" to {result.dtype.name.lower()}"
    if call.platform.cmsis_nn:
        path += " CMSIS-NN"
    beta_option = call.option("beta", 0.0)
    beta = beta_option if isinstance(beta_option, float) else 0.0
    if source.dtype == DType.INT8:
        return _row_loops(source, path, exponential=_expected_exponentials(source, beta))
    return _row_loops(source, path, **{"shifted right": source.element_count * _scales_down(source, beta)})


def _scales_down(source: Tensor, beta: float) -> bool:
    """Return whether scaling int16 values for the table, whose range is 10, makes them smaller: another shift."""
    return scale(source) * beta * INT16_STEPS / TABLE_RANGE < 1


def _expected_exponentials(source: Tensor, beta: float) -> int:
    """Return the expected number of int8 values so close to their row's maximum that an exponential is computed."""
    _, left_shift = frexp(beta * scale(source) * 2 ** (31 - INTEGER_BITS))
    radius = int((2**INTEGER_BITS - 1) * 2.0 ** (31 - INTEGER_BITS - left_shift))
    return round(prod(source.shape[:-1]) * count_near_largest(source.shape[-1], radius))


def _log_softmax_loops(call: Call) -> LoopCounts:
    source = call.required_input(0)
    if source.dtype == DType.FLOAT32:
        return _row_loops(source, "float32", exponential=_float_exponentials(source))
    return _row_loops(source, "int8", exponential=_expected_exponentials(source, 1.0))


def _l2_normalization(call: Call) -> LoopCounts:
    source = call.required_input(0)
    return _row_loops(source, source.dtype.name.lower())


LOOPS: dict[str, LoopRule] = {
    "L2_NORMALIZATION": _l2_normalization,
    "LOG_SOFTMAX": _log_softmax_loops,
    "SOFTMAX": _softmax_loops,
}


def _overflows(call: Call) -> bool:
    source = call.required_input(0)
    return source.dtype is DType.INT16 and source.shape[-1:] == (1,)


def _exceeds_esp_nn_scratch(call: Call) -> bool:
    """Return whether rows are longer than the second dimension, by which esp_nn/softmax.cc sizes the scratch buffer."""
    source, build = call.required_input(0), esp_nn.build_of(call)
    if build is None:
        return False
    return esp_nn.softmax_written(source.shape[-1], build) > esp_nn.softmax_scratch(source.shape[1], build)


FAULTS: dict[str, tuple[KernelFault, ...]] = {
    "SOFTMAX": (
        KernelFault(
            name="softmax-int16-single",
            kernels=("cmsis-nn",),
            applies=_overflows,
            condition="with int16 over a single element",
            effect="returns the lowest code in place of the highest for a single element",
            remedy="replace it with a constant: the result is always 1",
            source="arm_softmax_s16.c",
            fixed_by="",
            wrong="int16/0",
            right="int16/1",
        ),
        KernelFault(
            name="esp-softmax-scratch",
            kernels=("esp-nn",),
            applies=_exceeds_esp_nn_scratch,
            condition="whose last dimension is larger than its second",
            effect="writes beyond its scratch buffer",
            remedy="reshape its input to two dimensions",
            source="esp_nn/softmax.cc",
            fixed_by="",
            wrong="int8/4",
            right="int8/0",
        ),
    ),
}


# The elements of a row are read for the maximum and the sum, and once more, each before it is written.
OVERLAPS: dict[str, OverlapRules] = {"SOFTMAX": elementwise_overlaps(0)}


OPERATORS = entries(prepare=PREPARE, loops=LOOPS, overlaps=OVERLAPS, faults=FAULTS)
