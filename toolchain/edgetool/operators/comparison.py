"""Comparisons, logic and choice: MACs, Prepare, loop counts and bounds.

Sources: comparisons.cc, logical.cc, logical_common.cc, select.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from math import prod

from edgetool.model.types import DType
from edgetool.operators.arithmetic import rounded_negatives
from edgetool.operators.call import (
    Call,
    KernelRefusal,
    PrepareRule,
    is_below_one,
    looks_at,
    nothing,
    output_alike,
    scale,
)
from edgetool.operators.entry import entries
from edgetool.operators.loops import (
    Level,
    LoopCounts,
    LoopRule,
    Loops,
    arranged,
    calls,
    copied_evenly,
    dtype_name,
    filled,
    flat,
    nest,
    repeated,
    strict,
    together,
)


def _int8_scales(call: Call) -> None:
    """Both scales become multipliers below one as they are; the type of the first input decides."""
    if call.required_input(0).dtype != DType.INT8:
        return
    for position in (0, 1):
        own = scale(call.required_input(position))
        if not is_below_one(own):
            raise KernelRefusal(f"{call.operator.label} supports int8 only with scales between 0 and 1, not {own}")


def _choice(call: Call) -> None:
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
    """The shapes broadcast to the result's: aligned at the last dimension, each is 1 or the one size of the others."""
    made = []
    for sizes in zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1):
        made.append(0 if min(sizes) == 0 else max(sizes))
        if any(size not in (1, made[-1]) for size in sizes):
            raise KernelRefusal(f"{call.operator.label} cannot broadcast {', '.join(map(str, shapes))}")
    if tuple(reversed(made)) != result:
        raise KernelRefusal(f"{call.operator.label} produces {tuple(reversed(made))}, but the file specifies {result}")


# The output is not looked at.
_COMPARISON = looks_at((0, 1), (), _int8_scales)

PREPARE: dict[str, PrepareRule] = {
    "EQUAL": _COMPARISON,
    "GREATER": _COMPARISON,
    "GREATER_EQUAL": _COMPARISON,
    "LESS": _COMPARISON,
    "LESS_EQUAL": _COMPARISON,
    "LOGICAL_AND": nothing,
    "LOGICAL_NOT": looks_at((0,), (0,), output_alike),
    "LOGICAL_OR": nothing,
    "NOT_EQUAL": _COMPARISON,
    "SELECT_V2": looks_at((0, 1, 2), (0,), _choice),
}


def _comparison(call: Call) -> LoopCounts:
    """int8 is brought to a common scale before."""
    return strict(call, dtype_name(call), **rounded_negatives(call))


def _logic(call: Call) -> LoopCounts:
    return strict(call, "bool")


def _not(call: Call) -> LoopCounts:
    return flat(call, "bool")


def _select(call: Call) -> LoopCounts:
    """Without broadcast one loop. With it, a row under one condition is a copy, or a fill where its source is one."""
    shapes = [call.required_input(position).shape for position in range(3)]
    result = call.required_output()
    path = result.dtype.name.lower()
    if len(set(shapes)) == 1 or result.element_count == max(map(prod, shapes)) == 1:
        return flat(call, path)
    levels = nest(shapes, result.shape)
    rows, planes, blocks = calls(levels)
    loops = {**arranged(shapes, result.shape, levels), "row": rows, "plane": planes, "block": blocks}
    return LoopCounts(f"{path} broadcast", {**loops, **_row_loops(levels, result.dtype)})


def _row_loops(levels: Sequence[Level], dtype: DType) -> dict[str, int]:
    condition, *sources = levels[0].steps
    rows = prod(level.turns for level in levels[1:])
    if condition:
        kind = "both" if all(sources) else "one" if any(sources) else "none"
        return {f"element of {kind}": rows * levels[0].turns}
    shares = (rows // 2, rows - rows // 2)  # each is chosen half the time
    return together(
        *(_source_loops(levels[0].turns, dtype, step, share) for step, share in zip(sources, shares, strict=True))
    )


def _source_loops(length: int, dtype: DType, step: int, rows: int) -> Loops:
    size = length * dtype.bits // 8
    if step:
        return copied_evenly(size, rows, target=(0, size))
    return repeated(rows, filled(size)) if dtype == DType.INT8 else {"filled element": rows * length}


LOOPS: dict[str, LoopRule] = {
    "EQUAL": _comparison,
    "GREATER": _comparison,
    "GREATER_EQUAL": _comparison,
    "LESS": _comparison,
    "LESS_EQUAL": _comparison,
    "LOGICAL_AND": _logic,
    "LOGICAL_NOT": _not,
    "LOGICAL_OR": _logic,
    "NOT_EQUAL": _comparison,
    "SELECT_V2": _select,
}


OPERATORS = entries(prepare=PREPARE, loops=LOOPS)
