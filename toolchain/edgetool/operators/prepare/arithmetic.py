"""Arithmetic on two or more operands: what their kernels ask for in Prepare, and what they refuse.

The account of each rests on the file of TFLM of the same name (add_common.cc, cmsis_nn/add.cc, mul_common.cc...).
"""

from __future__ import annotations

from collections.abc import Iterator

from edgetool.model.types import DType
from edgetool.operators.kernel import Call, KernelRefusal, PrepareRule, Request, nothing, persistent, scratch
from edgetool.operators.prepare.conditions import counts, inputs_alike, looks_at, output_alike, symmetric_int16
from edgetool.operators.prepare.quantization import (
    check_activation_range,
    is_below_one,
    is_quantized,
    ratio,
    scale,
    zero_point,
)

QUANTIZED = (DType.INT8, DType.INT16)
# Bits by which inputs are scaled up before they are added, by the type of the output.
LEFT_SHIFT = {DType.INT8: 20, DType.INT16: 15}
ADD_N_DATA_BYTES = 40  # add_n.cc: ten 32-bit words of parameters, on every ABI
CMSIS_ADD_TYPES = (DType.FLOAT32, DType.INT32, DType.INT16, DType.INT8)


def add_n(call: Call) -> Iterator[Request]:
    """ADD_N keeps a pointer to each input in scratch, and its parameters, for int8 only, in the tail (add_n.cc)."""
    count = len(call.operator.inputs)
    if count < 2:
        raise KernelRefusal("ADD_N requires two or more inputs")
    first, result = call.required_input(0), call.required_output()
    yield from call.temporary_inputs(0)
    yield from call.temporary_outputs(0)
    output_alike(call)
    for position in range(1, count):
        tensor = call.required_input(position)
        yield from call.temporary_inputs(position)
        if (tensor.shape, tensor.dtype) != (first.shape, first.dtype):
            raise KernelRefusal("ADD_N requires inputs with the same shape and type")
        if first.dtype == DType.INT8 and (scale(tensor), zero_point(tensor)) != (scale(first), zero_point(first)):
            raise KernelRefusal("ADD_N requires int8 inputs with the same scale and zero point")
    if result.dtype not in (DType.FLOAT32, DType.INT8):
        raise KernelRefusal(f"ADD_N supports float32 and int8, not {result.dtype.name.lower()}")
    if result.dtype == DType.INT8:
        yield persistent("parameters", ADD_N_DATA_BYTES)
    yield scratch("pointers to the inputs", call.platform.abi.pointer_bytes * count)
    if result.dtype == DType.INT8:
        _check_sum_scales(call, scale(first), scale(first))


def _scaled_sum(call: Call) -> None:
    result = call.required_output()
    if result.dtype in QUANTIZED:
        _check_sum_scales(call, scale(call.required_input(0)), scale(call.required_input(1)))
        check_activation_range(call)


def _check_sum_scales(call: Call, first: float, second: float) -> None:
    """Inputs are brought to twice the larger scale, and the sum from there to the output's (add_common.cc)."""
    result = call.required_output()
    _check_input_scales(call, first, second)
    common = 2 * max(first, second)
    if not is_below_one(ratio(common, 2 ** LEFT_SHIFT[result.dtype] * scale(result))):
        raise KernelRefusal(
            f"{call.operator.label} has an output scale of {scale(result)}, too small for its inputs' {first}, {second}"
        )


def _check_input_scales(call: Call, first: float, second: float) -> None:
    common = 2 * max(first, second)
    if not all(is_below_one(ratio(operand, common)) for operand in (first, second)):
        raise KernelRefusal(f"{call.operator.label} requires positive input scales, not {first} and {second}")


def _inputs_plain_int32(call: Call) -> None:
    """An int32 output is no quantized one: neither are its inputs."""
    if call.required_output().dtype == DType.INT32 and any(is_quantized(call.required_input(i)) for i in (0, 1)):
        raise KernelRefusal(f"{call.operator.label} supports int32 inputs only without quantization")


def _output_plain_int32(call: Call) -> None:
    result = call.required_output()
    if result.dtype == DType.INT32 and is_quantized(result):
        raise KernelRefusal(f"{call.operator.label} produces int32 only without quantization")


def _cmsis_nn_add(call: Call) -> None:
    """What cmsis_nn/add.cc checks beyond the reference kernel."""
    if not call.platform.cmsis_nn:
        return
    output_alike(call)
    inputs_alike(call)
    if call.required_input(0).dtype not in CMSIS_ADD_TYPES:
        raise KernelRefusal(f"CMSIS-NN's ADD does not support {call.required_input(0).dtype.name.lower()}")
    symmetric_int16(2)(call)


def _product(call: Call) -> None:
    if call.required_output().dtype in QUANTIZED:
        check_activation_range(call)
        symmetric_int16(2)(call)


def _quotient(call: Call) -> None:
    if call.required_output().dtype == DType.INT8:
        check_activation_range(call)


def _difference(call: Call) -> None:
    """Zero points within the type's range, and scales from which multipliers can be made (squared_difference.cc)."""
    first, second, result = call.required_input(0), call.required_input(1), call.required_output()
    if first.dtype not in QUANTIZED:
        return
    if first.dtype == DType.INT8 and any(not -128 <= zero_point(tensor) <= 127 for tensor in (first, second, result)):
        raise KernelRefusal("SQUARED_DIFFERENCE supports int8 only with zero points from -128 to 127")
    symmetric_int16(2)(call)
    _check_input_scales(call, scale(first), scale(second))


_FLOORED = looks_at((0, 1), (0,), counts(2), inputs_alike, output_alike)

RULES: dict[str, PrepareRule] = {
    "ADD": looks_at((0, 1), (0,), _cmsis_nn_add, _scaled_sum, _inputs_plain_int32),
    "ADD_N": add_n,
    "DIV": looks_at((0, 1), (0,), inputs_alike, output_alike, _quotient, _inputs_plain_int32),
    "FLOOR_DIV": _FLOORED,
    "FLOOR_MOD": _FLOORED,
    "MAXIMUM": nothing,
    "MINIMUM": nothing,
    "MUL": looks_at((0, 1), (0,), counts(2), inputs_alike, _product),
    "SQUARED_DIFFERENCE": looks_at((0, 1), (0,), counts(2), inputs_alike, _difference),
    "SUB": looks_at((0, 1), (0,), _scaled_sum, _inputs_plain_int32, _output_plain_int32),
}
