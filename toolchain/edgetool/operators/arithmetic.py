"""Arithmetic on two or more operands: Prepare and loop counts.

Prepare follows TFLM's file of the same name as the operator (add_common.cc, cmsis_nn/add.cc, mul_common.cc...).

Sources of the loop counts: add.cc, sub.cc, mul_common.cc, div.cc, maximum_minimum.cc, squared_difference.cc,
floor_div.cc, floor_mod.cc, add_n.cc; of CMSIS-NN arm_elementwise_add_*.c, arm_elementwise_mul_*.c, and arm_maximum_s8.c
and arm_minimum_s8.c, which have a broadcast of their own. The instructions of FLOOR_DIV and FLOOR_MOD depend on the
quotients: their mean is counted.
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
    is_below_one,
    is_quantized,
    no_requests,
    persistent,
    prepare_rule,
    ratio,
    same_input_types,
    same_output_type,
    scale,
    scratch,
    symmetric_int16,
    zero_point,
)
from edgetool.operators.entry import KernelFault, entries
from edgetool.operators.loops import (
    Distribution,
    LoopCounts,
    LoopRule,
    Loops,
    Shape,
    broadcast_levels,
    dtype_name,
    elementwise_loops,
    equal_but_for_leading_ones,
    extend_shape,
    negated,
    negative_sum_share,
    same_shape_loops,
    shape_copy_loops,
    similar_shape_loops,
    value_distribution,
)
from edgetool.operators.overlap import OverlapRules, elementwise_overlaps
from edgetool.operators.rows import RowRule, same_rows
from edgetool.target.platform import Platform

# The left shift of inputs before they are added, by the type of the output.
LEFT_SHIFT = {DType.INT8: 20, DType.INT16: 15}
ADD_N_DATA_BYTES = 40  # add_n.cc: ten 32-bit words of parameters, on every ABI
CMSIS_ADD_TYPES = (DType.FLOAT32, DType.INT32, DType.INT16, DType.INT8)


def add_n(call: Call) -> Iterator[Request]:
    """Yield the requests of ADD_N (add_n.cc).

    It requests a pointer to each input in scratch and, for int8 only, persistent parameters.
    """
    count = len(call.operator.inputs)
    first, result = call.required_input(0), call.required_output()
    yield from call.temporary_inputs(0)
    yield from call.temporary_outputs(0)
    same_output_type(call)
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


def _check_sum(call: Call) -> None:
    result = call.required_output()
    if result.dtype in QUANTIZED_TYPES:
        _check_sum_scales(call, scale(call.required_input(0)), scale(call.required_input(1)))
        check_activation_range(call)


def _check_sum_scales(call: Call, first: float, second: float) -> None:
    """Require scales from which multipliers can be made (add_common.cc).

    Inputs are rescaled to twice the larger scale, and the sum from there to the output's scale.
    """
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


def _check_int32_inputs(call: Call) -> None:
    """Require inputs without quantization if the output is int32, which cannot be quantized."""
    if call.required_output().dtype == DType.INT32 and any(is_quantized(call.required_input(i)) for i in (0, 1)):
        raise KernelRefusal(f"{call.operator.label} supports int32 inputs only without quantization")


def _check_int32_output(call: Call) -> None:
    result = call.required_output()
    if result.dtype == DType.INT32 and is_quantized(result):
        raise KernelRefusal(f"{call.operator.label} produces int32 only without quantization")


def _check_cmsis_add(call: Call) -> None:
    """Check the conditions of cmsis_nn/add.cc that the reference kernel does not have."""
    if not call.platform.cmsis_nn:
        return
    same_output_type(call)
    same_input_types(call)
    if call.required_input(0).dtype not in CMSIS_ADD_TYPES:
        raise KernelRefusal(f"CMSIS-NN's ADD does not support {call.required_input(0).dtype.name.lower()}")
    symmetric_int16(2)(call)


def _check_product(call: Call) -> None:
    if call.required_output().dtype in QUANTIZED_TYPES:
        check_activation_range(call)
        symmetric_int16(2)(call)


def _check_quotient(call: Call) -> None:
    if call.required_output().dtype == DType.INT8:
        check_activation_range(call)


def _check_difference(call: Call) -> None:
    """Require zero points in the type's range, and scales from which multipliers can be made.

    Source: squared_difference.cc.
    """
    first, second, result = call.required_input(0), call.required_input(1), call.required_output()
    if first.dtype not in QUANTIZED_TYPES:
        return
    if first.dtype == DType.INT8 and any(not -128 <= zero_point(tensor) <= 127 for tensor in (first, second, result)):
        raise KernelRefusal("SQUARED_DIFFERENCE supports int8 only with zero points from -128 to 127")
    symmetric_int16(2)(call)
    _check_input_scales(call, scale(first), scale(second))


_FLOOR_RULE = prepare_rule((0, 1), (0,), same_input_types, same_output_type)

PREPARE: dict[str, PrepareRule] = {
    "ADD": prepare_rule((0, 1), (0,), _check_cmsis_add, _check_sum, _check_int32_inputs),
    "ADD_N": add_n,
    "DIV": prepare_rule((0, 1), (0,), same_input_types, same_output_type, _check_quotient, _check_int32_inputs),
    "FLOOR_DIV": _FLOOR_RULE,
    "FLOOR_MOD": _FLOOR_RULE,
    "MAXIMUM": no_requests,
    "MINIMUM": no_requests,
    "MUL": prepare_rule((0, 1), (0,), same_input_types, _check_product),
    "SQUARED_DIFFERENCE": prepare_rule((0, 1), (0,), same_input_types, _check_difference),
    "SUB": prepare_rule((0, 1), (0,), _check_sum, _check_int32_inputs, _check_int32_output),
}


LANES = 16
CMSIS_RANK = 4


def cmsis_broadcast_loops(first: Shape, second: Shape, result: Shape, platform: Platform) -> dict[str, int]:
    """Return the loops of CMSIS-NN's broadcast, over rows that are as long as the shapes allow.

    A row is combined with an equally long row or with a single element. Operands of the same shape are one row.
    Otherwise the row is the longest trailing part of the shapes that is the same in both, or a single element in one of
    them.
    """
    first_sizes, second_sizes = extend_shape(first, CMSIS_RANK), extend_shape(second, CMSIS_RANK)
    sizes = extend_shape(result, CMSIS_RANK)
    outer_loops = {"batch": 0, "height": 0, "width": 0}
    if first_sizes == second_sizes:
        return {**outer_loops, **_row_loops("pair", 1, prod(first_sizes), platform)}
    if 1 in (prod(first_sizes), prod(second_sizes)):
        return {**outer_loops, **_row_loops("scalar", 1, max(prod(first_sizes), prod(second_sizes)), platform)}
    rows = 1
    for depth, name in enumerate(outer_loops, start=1):
        rows *= sizes[depth - 1]
        outer_loops[name] = rows
        first_row, second_row = first_sizes[depth:], second_sizes[depth:]
        if first_row == second_row:
            return {**outer_loops, **_row_loops("pair", rows, prod(first_row), platform)}
        if 1 in (prod(first_row), prod(second_row)):
            break
    return {**outer_loops, **_row_loops("scalar", rows, max(prod(first_row), prod(second_row)), platform)}


def _row_loops(kind: str, count: int, length: int, platform: Platform) -> dict[str, int]:
    iterations = -(-length // LANES) if platform.mve else length
    return {f"{kind} row": count, f"{kind} element": count * iterations}


VECTOR_ELEMENTS = 4  # elements per iteration of CMSIS-NN's loops: on MVE, and for int8 with the DSP extension


def negative_rounding_loops(
    call: Call, sums: Callable[[Distribution, Distribution], float] = lambda _first, _second: 0.0
) -> Loops:
    """Return how many times negative numbers are rounded.

    Counted are the operands that are not repeated in the innermost loop, and the results.

    Args:
        sums: the expected share of negative results, from the distributions of both operands.
    """
    first, second, result = call.required_input(0), call.required_input(1), call.required_output()
    if first.dtype not in QUANTIZED_TYPES:
        return {}
    levels = broadcast_levels((first.shape, second.shape), result.shape)
    steps = levels[0].steps if levels else (1, 1)
    distributions = value_distribution(call.graph, first), value_distribution(call.graph, second)
    negative_share = sum(distribution.negative for distribution, step in zip(distributions, steps, strict=True) if step)
    ending = "" if all(steps) else " beside one"
    return {
        f"negative{ending}": round(result.element_count * negative_share),
        f"negative result{ending}": round(result.element_count * sums(*distributions)),
    }


def _uses_cmsis_nn(call: Call) -> bool:
    """Return whether CMSIS-NN's loop runs: it supports neither broadcast nor types that are not quantized."""
    same = equal_but_for_leading_ones(call.required_input(0).shape, call.required_input(1).shape)
    return call.platform.cmsis_nn and call.required_input(0).dtype in QUANTIZED_TYPES and same


def _vector_loops(dtype: DType, count: int, platform: Platform) -> dict[str, int]:
    if platform.mve:
        return {"vector": -(-count // VECTOR_ELEMENTS)}
    if dtype == DType.INT16:
        return {"pair": count // 2, "rest": count % 2}
    if platform.dsp:
        return {"vector": count // VECTOR_ELEMENTS, "rest": count % VECTOR_ELEMENTS}
    return {"element": count}


def _vectorized(call: Call, **loops: int) -> LoopCounts:
    """Return the loops of CMSIS-NN's sum or product."""
    first, second = call.required_input(0), call.required_input(1)
    result = call.required_output()
    vectors = _vector_loops(first.dtype, result.element_count, call.platform)
    shapes = shape_copy_loops(first.shape, second.shape, result.shape)
    return LoopCounts(f"{dtype_name(call)} CMSIS-NN", {**shapes, **vectors, **loops})


def _add(call: Call) -> LoopCounts:
    negative = negative_rounding_loops(call, negative_sum_share)
    return _vectorized(call, **negative) if _uses_cmsis_nn(call) else _sum_loops(call, negative)


def _sub(call: Call) -> LoopCounts:
    return _sum_loops(
        call, negative_rounding_loops(call, lambda first, second: negative_sum_share(first, negated(second)))
    )


def _sum_loops(call: Call, loops: Loops) -> LoopCounts:
    """Return the loops of a sum: leading ones cause a broadcast of all operands except quantized ones."""
    run = similar_shape_loops if call.required_output().dtype in QUANTIZED_TYPES else same_shape_loops
    return run(call, dtype_name(call), **loops)


def _mul(call: Call) -> LoopCounts:
    """Return the loops of MUL: a product is negative if exactly one operand is."""
    negative: Loops = {}
    if call.required_input(0).dtype in QUANTIZED_TYPES:
        first, second = (value_distribution(call.graph, call.required_input(position)).negative for position in (0, 1))
        negative = {"negative": round(call.required_output().element_count * (first + second - 2 * first * second))}
    return (
        _vectorized(call, **negative)
        if _uses_cmsis_nn(call)
        else similar_shape_loops(call, dtype_name(call), **negative)
    )


def _div(call: Call) -> LoopCounts:
    return similar_shape_loops(call, dtype_name(call), **negative_rounding_loops(call))


def _squared_difference(call: Call) -> LoopCounts:
    return same_shape_loops(call, dtype_name(call), **negative_rounding_loops(call))


def _min_max(call: Call) -> LoopCounts:
    if not (call.platform.cmsis_nn and call.required_output().dtype == DType.INT8):
        return same_shape_loops(call, dtype_name(call))
    first, second, result = call.required_input(0), call.required_input(1), call.required_output()
    shapes = first.shape, second.shape, result.shape
    return LoopCounts("int8 CMSIS-NN", {**shape_copy_loops(*shapes), **cmsis_broadcast_loops(*shapes, call.platform)})


def _floor_div(call: Call) -> LoopCounts:
    """Return the loops of FLOOR_DIV: divisors are first searched for a zero, and their count is recomputed for each."""
    divisor = call.required_input(1)
    count = divisor.element_count
    return same_shape_loops(
        call, dtype_name(call), **{"divisor": count, "divisor dimension": count * len(divisor.shape)}
    )


def _floor_mod(call: Call) -> LoopCounts:
    return same_shape_loops(call, dtype_name(call))


def _add_n(call: Call) -> LoopCounts:
    inputs = len(call.operator.inputs)
    return elementwise_loops(call, dtype_name(call), input=inputs, addend=inputs * call.required_output().element_count)


LOOPS: dict[str, LoopRule] = {
    "ADD": _add,
    "ADD_N": _add_n,
    "DIV": _div,
    "FLOOR_DIV": _floor_div,
    "FLOOR_MOD": _floor_mod,
    "MAXIMUM": _min_max,
    "MINIMUM": _min_max,
    "MUL": _mul,
    "SQUARED_DIFFERENCE": _squared_difference,
    "SUB": _sub,
}


Dims = tuple[int, ...]


def _shrunk(dims: Dims) -> Dims:
    """Return dimensions of at most 3, with which pointers move in the same way, extended to 4 dimensions."""
    return tuple(min(side, 3) for side in (*(1,) * (4 - len(dims)), *dims))


def misreads_broadcast(first: Dims, second: Dims) -> bool:
    """Return whether arm_maximum_s8 and arm_minimum_s8 read the wrong elements of two broadcast inputs.

    Within an image, they move a pointer through each input, and move it back by a number of elements that is wrong for
    some pairs of shapes.
    """
    dims = _shrunk(first), _shrunk(second)
    images = [prod(own[1:]) for own in dims]
    if dims[0][1:] == dims[1][1:] or 1 in images:
        return False
    _, height, width, _ = (max(sides) for sides in zip(*dims, strict=True))
    both_ways = dims, dims[::-1]
    back = [0 if own[2] >= other[2] else own[3] for own, other in both_ways]
    after_row = [
        step if own[1] >= other[1] else -own[2] * (own[3] - step)
        for (own, other), step in zip(both_ways, back, strict=True)
    ]
    rows = [own[2] * own[3] for own in dims]
    by_row = dims[0][2:] == dims[1][2:] or 1 in rows
    at = [0, 0]
    for row in range(height):
        for column in range(1 if by_row else width):
            if at != [(row % own[1] * own[2] + column % own[2]) * own[3] for own in dims]:
                return True
            steps = rows if by_row else [own[3] - step for own, step in zip(dims, back, strict=True)]
            at = [position + step for position, step in zip(at, steps, strict=True)]
        at = [position + step for position, step in zip(at, after_row, strict=True)]
    return False


def _misreads_broadcast(call: Call) -> bool:
    first, second = call.required_input(0), call.required_input(1)
    if first.dtype is not DType.INT8 or max(len(first.shape), len(second.shape)) > 4:
        return False
    return misreads_broadcast(first.shape, second.shape)


def _broadcast_fault(kernel: str, wrong: str) -> tuple[KernelFault, ...]:
    return (
        KernelFault(
            name="extremum-broadcast",
            kernels=("cmsis-nn",),
            applies=_misreads_broadcast,
            condition="of inputs that are broadcast in this way",
            effect="reads the wrong elements of an input that is broadcast",
            remedy="first broadcast the input with BROADCAST_TO",
            source=f"{kernel}.c",
            fixed_by="",
            wrong=wrong,
            right="int8/0",
        ),
    )


FAULTS: dict[str, tuple[KernelFault, ...]] = {
    "MAXIMUM": _broadcast_fault("arm_maximum_s8", "int8/25"),
    "MINIMUM": _broadcast_fault("arm_minimum_s8", "int8/18"),
}


OVERLAPS: dict[str, OverlapRules] = {
    **dict.fromkeys(("ADD", "MUL", "SUB"), elementwise_overlaps(0, 1, broadcast=True)),
    **dict.fromkeys(
        ("DIV", "FLOOR_DIV", "FLOOR_MOD", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE"), elementwise_overlaps(0, 1)
    ),
}


ROWS: dict[str, RowRule] = dict.fromkeys(PREPARE, same_rows())


OPERATORS = entries(prepare=PREPARE, loops=LOOPS, overlaps=OVERLAPS, rows=ROWS, faults=FAULTS)
