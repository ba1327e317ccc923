"""Comparisons, logic and selection: Prepare and loop counts.

Sources: comparisons.cc, logical.cc, logical_common.cc, select.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from math import prod

from edgetool.model.types import DType
from edgetool.operators.arithmetic import negative_rounding_loops
from edgetool.operators.call import (
    Call,
    KernelRefusal,
    PrepareRule,
    is_below_one,
    no_requests,
    prepare_rule,
    same_output_type,
    scale,
)
from edgetool.operators.entry import KernelFault, entries
from edgetool.operators.loops import (
    Level,
    LoopCounts,
    LoopRule,
    Loops,
    broadcast_levels,
    broadcast_setup_loops,
    call_counts,
    combined,
    dtype_name,
    elementwise_loops,
    memset_loops,
    repeated,
    same_shape_loops,
    strided_memcpy_loops,
)
from edgetool.operators.overlap import OverlapRules, elementwise_overlaps


def _check_int8_scales(call: Call) -> None:
    """Require both scales to be below 1 if the first input is int8, because they are used as multipliers unchanged."""
    if call.required_input(0).dtype != DType.INT8:
        return
    for position in (0, 1):
        value = scale(call.required_input(position))
        if not is_below_one(value):
            raise KernelRefusal(f"{call.operator.label} supports int8 only with scales between 0 and 1, not {value}")


def _check_select(call: Call) -> None:
    condition, first, second = (call.required_input(position) for position in range(3))
    result = call.required_output()
    if condition.dtype != DType.BOOL:
        raise KernelRefusal(
            f"{call.operator.label} requires a condition of type bool, not {condition.dtype.name.lower()}"
        )
    if first.dtype != second.dtype:
        types = f"{first.dtype.name.lower()} and {second.dtype.name.lower()}"
        raise KernelRefusal(f"{call.operator.label} cannot select between {types}")
    operands = (condition, first, second)
    single = all(tensor.element_count == 1 for tensor in (*operands, result))
    if not single and len({tensor.shape for tensor in operands}) > 1:
        _check_broadcast(call, [tensor.shape for tensor in operands], result.shape)


def _check_broadcast(call: Call, shapes: list[tuple[int, ...]], result: tuple[int, ...]) -> None:
    """Require the shapes to broadcast to the shape of the result.

    Shapes are aligned at the last dimension, where each size is 1 or the same as all other sizes.
    """
    reversed_shape = []
    for sizes in zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1):
        reversed_shape.append(0 if min(sizes) == 0 else max(sizes))
        if any(size not in (1, reversed_shape[-1]) for size in sizes):
            raise KernelRefusal(f"{call.operator.label} cannot broadcast {', '.join(map(str, shapes))}")
    if tuple(reversed(reversed_shape)) != result:
        raise KernelRefusal(
            f"{call.operator.label} produces {tuple(reversed(reversed_shape))}, but the file specifies {result}"
        )


# Prepare does not request the output.
_COMPARISON_RULE = prepare_rule((0, 1), (), _check_int8_scales)

PREPARE: dict[str, PrepareRule] = {
    "EQUAL": _COMPARISON_RULE,
    "GREATER": _COMPARISON_RULE,
    "GREATER_EQUAL": _COMPARISON_RULE,
    "LESS": _COMPARISON_RULE,
    "LESS_EQUAL": _COMPARISON_RULE,
    "LOGICAL_AND": no_requests,
    "LOGICAL_NOT": prepare_rule((0,), (0,), same_output_type),
    "LOGICAL_OR": no_requests,
    "NOT_EQUAL": _COMPARISON_RULE,
    "SELECT_V2": prepare_rule((0, 1, 2), (0,), _check_select),
}


def _comparison(call: Call) -> LoopCounts:
    """Return the loops of a comparison; int8 is rescaled to a common scale first."""
    return same_shape_loops(call, dtype_name(call), **negative_rounding_loops(call))


def _logic(call: Call) -> LoopCounts:
    return same_shape_loops(call, "bool")


def _logical_not(call: Call) -> LoopCounts:
    return elementwise_loops(call, "bool")


def _select(call: Call) -> LoopCounts:
    """Return the loops of SELECT_V2: one loop if nothing is broadcast.

    Otherwise a row whose condition is a single element is copied, or filled if its source is a single element too.
    """
    shapes = [call.required_input(position).shape for position in range(3)]
    result = call.required_output()
    path = result.dtype.name.lower()
    if len(set(shapes)) == 1 or result.element_count == max(map(prod, shapes)) == 1:
        return elementwise_loops(call, path)
    levels = broadcast_levels(shapes, result.shape)
    rows, planes, blocks = call_counts(levels)
    loops = {**broadcast_setup_loops(shapes, result.shape, levels), "row": rows, "plane": planes, "block": blocks}
    return LoopCounts(f"{path} broadcast", {**loops, **_row_loops(levels, result.dtype)})


def _row_loops(levels: Sequence[Level], dtype: DType) -> dict[str, int]:
    condition, *sources = levels[0].steps
    rows = prod(level.iterations for level in levels[1:])
    if condition:
        kind = "both" if all(sources) else "one" if any(sources) else "none"
        return {f"element of {kind}": rows * levels[0].iterations}
    shares = (rows // 2, rows - rows // 2)  # each source is assumed to be chosen half the time
    return combined(
        *(_source_loops(levels[0].iterations, dtype, step, share) for step, share in zip(sources, shares, strict=True))
    )


def _source_loops(length: int, dtype: DType, step: int, rows: int) -> Loops:
    size = length * dtype.bits // 8
    if step:
        return strided_memcpy_loops(size, rows, target=(0, size))
    return repeated(rows, memset_loops(size)) if dtype == DType.INT8 else {"filled element": rows * length}


LOOPS: dict[str, LoopRule] = {
    "EQUAL": _comparison,
    "GREATER": _comparison,
    "GREATER_EQUAL": _comparison,
    "LESS": _comparison,
    "LESS_EQUAL": _comparison,
    "LOGICAL_AND": _logic,
    "LOGICAL_NOT": _logical_not,
    "LOGICAL_OR": _logic,
    "NOT_EQUAL": _comparison,
    "SELECT_V2": _select,
}


BROADCAST_RANK = 4  # of Broadcast4DSlow*


def _broadcasts_too_many_dimensions(call: Call) -> bool:
    first, second = call.required_input(0).shape, call.required_input(1).shape
    return first != second and max(len(first), len(second)) > BROADCAST_RANK


_BROADCAST_FAULTS = (
    KernelFault(
        name="comparison-broadcast-rank",
        kernels=("reference", "cmsis-nn"),
        applies=_broadcasts_too_many_dimensions,
        condition="of inputs that are broadcast in more than four dimensions",
        effect="crashes",
        remedy="reshape the inputs to four dimensions, or use a version of TFLM from July 2026 or later",
        source="reference/comparisons.h",
        fixed_by="fbda8b8d6",
        wrong="",
        right="",
    ),
)
COMPARISONS = ("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL")
FAULTS: dict[str, tuple[KernelFault, ...]] = dict.fromkeys(COMPARISONS, _BROADCAST_FAULTS)


OVERLAPS: dict[str, OverlapRules] = {
    "LOGICAL_NOT": elementwise_overlaps(0),
    **dict.fromkeys(set(PREPARE) - {"LOGICAL_NOT", "SELECT_V2"}, elementwise_overlaps(0, 1)),
}


OPERATORS = entries(prepare=PREPARE, loops=LOOPS, overlaps=OVERLAPS, faults=FAULTS)
