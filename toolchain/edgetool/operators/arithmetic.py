"""Arithmetic on two or more operands: MACs, Prepare, loop counts and bounds.

The account of each rests on the file of TFLM of the same name (add_common.cc, cmsis_nn/add.cc, mul_common.cc...).

Sources: add.cc, sub.cc, mul_common.cc, div.cc, maximum_minimum.cc, squared_difference.cc, floor_div.cc, floor_mod.cc,
add_n.cc; of CMSIS-NN arm_elementwise_add_*.c, arm_elementwise_mul_*.c, and arm_maximum_s8.c and arm_minimum_s8.c, which
broadcast on their own. FLOOR_DIV and FLOOR_MOD depend
on the quotients: the mean counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from edgetool.model.types import DType
from edgetool.operators.call import (
    QUANTIZED_TYPES,
    Call,
    KernelRefusal,
    PrepareRule,
    Request,
    check_activation_range,
    inputs_alike,
    is_below_one,
    is_quantized,
    looks_at,
    nothing,
    output_alike,
    persistent,
    ratio,
    scale,
    scratch,
    symmetric_int16,
    zero_point,
)
from edgetool.operators.entry import entries
from edgetool.operators.loops import (
    LoopCounts,
    LoopRule,
    Loops,
    Shape,
    Spread,
    alike,
    copied_shapes,
    dtype_name,
    extended,
    flat,
    lenient,
    negative_sum,
    nest,
    opposite,
    spread,
    strict,
)
from edgetool.target.platform import Platform

# Bits by which inputs are scaled up before they are added, by the type of the output.
LEFT_SHIFT = {DType.INT8: 20, DType.INT16: 15}
ADD_N_DATA_BYTES = 40  # add_n.cc: ten 32-bit words of parameters, on every ABI
CMSIS_ADD_TYPES = (DType.FLOAT32, DType.INT32, DType.INT16, DType.INT8)


def add_n(call: Call) -> Iterator[Request]:
    """ADD_N keeps a pointer to each input in scratch, and its parameters, for int8 only, in the tail (add_n.cc)."""
    count = len(call.operator.inputs)
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
    if result.dtype in QUANTIZED_TYPES:
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
    if call.required_output().dtype in QUANTIZED_TYPES:
        check_activation_range(call)
        symmetric_int16(2)(call)


def _quotient(call: Call) -> None:
    if call.required_output().dtype == DType.INT8:
        check_activation_range(call)


def _difference(call: Call) -> None:
    """Zero points within the type's range, and scales from which multipliers can be made (squared_difference.cc)."""
    first, second, result = call.required_input(0), call.required_input(1), call.required_output()
    if first.dtype not in QUANTIZED_TYPES:
        return
    if first.dtype == DType.INT8 and any(not -128 <= zero_point(tensor) <= 127 for tensor in (first, second, result)):
        raise KernelRefusal("SQUARED_DIFFERENCE supports int8 only with zero points from -128 to 127")
    symmetric_int16(2)(call)
    _check_input_scales(call, scale(first), scale(second))


_FLOORED = looks_at((0, 1), (0,), inputs_alike, output_alike)

PREPARE: dict[str, PrepareRule] = {
    "ADD": looks_at((0, 1), (0,), _cmsis_nn_add, _scaled_sum, _inputs_plain_int32),
    "ADD_N": add_n,
    "DIV": looks_at((0, 1), (0,), inputs_alike, output_alike, _quotient, _inputs_plain_int32),
    "FLOOR_DIV": _FLOORED,
    "FLOOR_MOD": _FLOORED,
    "MAXIMUM": nothing,
    "MINIMUM": nothing,
    "MUL": looks_at((0, 1), (0,), inputs_alike, _product),
    "SQUARED_DIFFERENCE": looks_at((0, 1), (0,), inputs_alike, _difference),
    "SUB": looks_at((0, 1), (0,), _scaled_sum, _inputs_plain_int32, _output_plain_int32),
}


LANES = 16
RANK = 4


def loops(first: Shape, second: Shape, result: Shape, platform: Platform) -> dict[str, int]:
    """Rows of equal elements or of one element against a row; a row is as long as the shapes allow.

    Operands of the same shape are one row; otherwise the longest trailing part decides that is the same in both, or a
    single element in one.
    """
    one, other = extended(first, RANK), extended(second, RANK)
    sizes = extended(result, RANK)
    turns = {"batch": 0, "height": 0, "width": 0}
    if one == other:
        return {**turns, **_rows("pair", 1, prod(one), platform)}
    if 1 in (prod(one), prod(other)):
        return {**turns, **_rows("scalar", 1, max(prod(one), prod(other)), platform)}
    rows = 1
    for depth, name in enumerate(turns, start=1):
        rows *= sizes[depth - 1]
        turns[name] = rows
        ours, theirs = one[depth:], other[depth:]
        if ours == theirs:
            return {**turns, **_rows("pair", rows, prod(ours), platform)}
        if 1 in (prod(ours), prod(theirs)):
            break
    return {**turns, **_rows("scalar", rows, max(prod(ours), prod(theirs)), platform)}


def _rows(kind: str, count: int, length: int, platform: Platform) -> dict[str, int]:
    turns = -(-length // LANES) if platform.mve else length
    return {f"{kind} row": count, f"{kind} element": count * turns}


VECTOR = 4  # elements of a turn of CMSIS-NN's loops on MVE, and of those for int8 with the DSP extension


def rounded_negatives(call: Call, sums: Callable[[Spread, Spread], float] = lambda _first, _second: 0.0) -> Loops:
    """How often a negative number is rounded: of the operands that go on in the innermost loop, and of the results."""
    first, second, result = call.required_input(0), call.required_input(1), call.required_output()
    if first.dtype not in QUANTIZED_TYPES:
        return {}
    levels = nest((first.shape, second.shape), result.shape)
    steps = levels[0].steps if levels else (1, 1)
    spreads = spread(call.graph, first), spread(call.graph, second)
    moving = sum(own.negative for own, step in zip(spreads, steps, strict=True) if step)
    ending = "" if all(steps) else " beside one"
    return {
        f"negative{ending}": round(result.element_count * moving),
        f"negative result{ending}": round(result.element_count * sums(*spreads)),
    }


def _cmsis_nn(call: Call) -> bool:
    """Whether CMSIS-NN's loop runs: it has none for broadcast, nor for types that are not quantized."""
    same = alike(call.required_input(0).shape, call.required_input(1).shape)
    return call.platform.cmsis_nn and call.required_input(0).dtype in QUANTIZED_TYPES and same


def _vectors(dtype: DType, count: int, platform: Platform) -> dict[str, int]:
    if platform.mve:
        return {"vector": -(-count // VECTOR)}
    if dtype == DType.INT16:
        return {"pair": count // 2, "rest": count % 2}
    if platform.dsp:
        return {"vector": count // VECTOR, "rest": count % VECTOR}
    return {"element": count}


def _vectorized(call: Call, **loops: int) -> LoopCounts:
    """CMSIS-NN's sum or product."""
    first, second = call.required_input(0), call.required_input(1)
    result = call.required_output()
    vectors = _vectors(first.dtype, result.element_count, call.platform)
    shapes = copied_shapes(first.shape, second.shape, result.shape)
    return LoopCounts(f"{dtype_name(call)} CMSIS-NN", {**shapes, **vectors, **loops})


def _add(call: Call) -> LoopCounts:
    negative = rounded_negatives(call, negative_sum)
    return _vectorized(call, **negative) if _cmsis_nn(call) else _scaled(call, negative)


def _sub(call: Call) -> LoopCounts:
    return _scaled(call, rounded_negatives(call, lambda first, second: negative_sum(first, opposite(second))))


def _scaled(call: Call, loops: Loops) -> LoopCounts:
    """Quantized operands of a sum are alike up to ones in front; others have to be alike in rank too."""
    run = lenient if call.required_output().dtype in QUANTIZED_TYPES else strict
    return run(call, dtype_name(call), **loops)


def _mul(call: Call) -> LoopCounts:
    """A product is negative where just one operand is."""
    negative: Loops = {}
    if call.required_input(0).dtype in QUANTIZED_TYPES:
        one, other = (spread(call.graph, call.required_input(position)).negative for position in (0, 1))
        negative = {"negative": round(call.required_output().element_count * (one + other - 2 * one * other))}
    return _vectorized(call, **negative) if _cmsis_nn(call) else lenient(call, dtype_name(call), **negative)


def _div(call: Call) -> LoopCounts:
    return lenient(call, dtype_name(call), **rounded_negatives(call))


def _squared_difference(call: Call) -> LoopCounts:
    return strict(call, dtype_name(call), **rounded_negatives(call))


def _extreme(call: Call) -> LoopCounts:
    if not (call.platform.cmsis_nn and call.required_output().dtype == DType.INT8):
        return strict(call, dtype_name(call))
    first, second, result = call.required_input(0), call.required_input(1), call.required_output()
    shapes = first.shape, second.shape, result.shape
    return LoopCounts("int8 CMSIS-NN", {**copied_shapes(*shapes), **loops(*shapes, call.platform)})


def _floor_div(call: Call) -> LoopCounts:
    """The divisors are searched for a zero before, and their number is worked out anew for each."""
    divisor = call.required_input(1)
    count = divisor.element_count
    return strict(call, dtype_name(call), **{"divisor": count, "divisor dimension": count * len(divisor.shape)})


def _floor_mod(call: Call) -> LoopCounts:
    return strict(call, dtype_name(call))


def _add_n(call: Call) -> LoopCounts:
    inputs = len(call.operator.inputs)
    return flat(call, dtype_name(call), input=inputs, addend=inputs * call.required_output().element_count)


LOOPS: dict[str, LoopRule] = {
    "ADD": _add,
    "ADD_N": _add_n,
    "DIV": _div,
    "FLOOR_DIV": _floor_div,
    "FLOOR_MOD": _floor_mod,
    "MAXIMUM": _extreme,
    "MINIMUM": _extreme,
    "MUL": _mul,
    "SQUARED_DIFFERENCE": _squared_difference,
    "SUB": _sub,
}


OPERATORS = entries(prepare=PREPARE, loops=LOOPS)
