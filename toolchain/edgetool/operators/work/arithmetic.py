"""Functions of two numbers or more: which loops their kernels run.

Sources: add.cc, sub.cc, mul_common.cc, div.cc, maximum_minimum.cc, squared_difference.cc, floor_div.cc, floor_mod.cc,
add_n.cc; of CMSIS-NN arm_elementwise_add_*.c, arm_elementwise_mul_*.c and extremes.py. FLOOR_DIV and FLOOR_MOD depend
on the quotients: the mean counts.
"""

from __future__ import annotations

from collections.abc import Callable

from edgetool.model.types import DType
from edgetool.operators.kernel import Call
from edgetool.operators.work import extremes
from edgetool.operators.work.broadcast import alike, copied_shapes, nest
from edgetool.operators.work.elements import dtype_name, flat, lenient, strict
from edgetool.operators.work.loops import Loops
from edgetool.operators.work.types import Work, WorkRule
from edgetool.operators.work.values import Spread, negative_sum, opposite, spread
from edgetool.target.platform import Platform

QUANTIZED = (DType.INT8, DType.INT16)
VECTOR = 4  # elements of a turn of CMSIS-NN's loops on MVE, and of those for int8 with the DSP extension


def rounded_negatives(call: Call, sums: Callable[[Spread, Spread], float] = lambda _first, _second: 0.0) -> Loops:
    """How often a negative number is rounded: of the operands that go on in the innermost loop, and of the results."""
    first, second, result = call.required_input(0), call.required_input(1), call.required_output()
    if first.dtype not in QUANTIZED:
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
    return call.platform.cmsis_nn and call.required_input(0).dtype in QUANTIZED and same


def _vectors(dtype: DType, count: int, platform: Platform) -> dict[str, int]:
    if platform.mve:
        return {"vector": -(-count // VECTOR)}
    if dtype == DType.INT16:
        return {"pair": count // 2, "rest": count % 2}
    if platform.dsp:
        return {"vector": count // VECTOR, "rest": count % VECTOR}
    return {"element": count}


def _vectorized(call: Call, **loops: int) -> Work:
    """CMSIS-NN's sum or product."""
    first, second = call.required_input(0), call.required_input(1)
    result = call.required_output()
    vectors = _vectors(first.dtype, result.element_count, call.platform)
    shapes = copied_shapes(first.shape, second.shape, result.shape)
    return Work(f"{dtype_name(call)} CMSIS-NN", {**shapes, **vectors, **loops})


def _add(call: Call) -> Work:
    negative = rounded_negatives(call, negative_sum)
    return _vectorized(call, **negative) if _cmsis_nn(call) else _scaled(call, negative)


def _sub(call: Call) -> Work:
    return _scaled(call, rounded_negatives(call, lambda first, second: negative_sum(first, opposite(second))))


def _scaled(call: Call, loops: Loops) -> Work:
    """Quantized operands of a sum are alike up to ones in front; others have to be alike in rank too."""
    run = lenient if call.required_output().dtype in QUANTIZED else strict
    return run(call, dtype_name(call), **loops)


def _mul(call: Call) -> Work:
    """A product is negative where just one operand is."""
    negative: Loops = {}
    if call.required_input(0).dtype in QUANTIZED:
        one, other = (spread(call.graph, call.required_input(position)).negative for position in (0, 1))
        negative = {"negative": round(call.required_output().element_count * (one + other - 2 * one * other))}
    return _vectorized(call, **negative) if _cmsis_nn(call) else lenient(call, dtype_name(call), **negative)


def _div(call: Call) -> Work:
    return lenient(call, dtype_name(call), **rounded_negatives(call))


def _squared_difference(call: Call) -> Work:
    return strict(call, dtype_name(call), **rounded_negatives(call))


def _extreme(call: Call) -> Work:
    if not (call.platform.cmsis_nn and call.required_output().dtype == DType.INT8):
        return strict(call, dtype_name(call))
    first, second, result = call.required_input(0), call.required_input(1), call.required_output()
    shapes = first.shape, second.shape, result.shape
    return Work("int8 CMSIS-NN", {**copied_shapes(*shapes), **extremes.loops(*shapes, call.platform)})


def _floor_div(call: Call) -> Work:
    """The divisors are searched for a zero before, and their number is worked out anew for each."""
    divisor = call.required_input(1)
    count = divisor.element_count
    return strict(call, dtype_name(call), **{"divisor": count, "divisor dimension": count * len(divisor.shape)})


def _floor_mod(call: Call) -> Work:
    return strict(call, dtype_name(call))


def _add_n(call: Call) -> Work:
    inputs = len(call.operator.inputs)
    return flat(call, dtype_name(call), input=inputs, addend=inputs * call.required_output().element_count)


WORK: dict[str, WorkRule] = {
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
