"""Comparisons, logic and choice: which loops their kernels run (comparisons.cc, logical_common.cc, select.cc)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from edgetool.model.types import DType
from edgetool.operators.kernel import Call
from edgetool.operators.work.arithmetic import rounded_negatives
from edgetool.operators.work.broadcast import Level, arranged, calls, nest
from edgetool.operators.work.copies import copied_evenly, filled
from edgetool.operators.work.elements import dtype_name, flat, strict
from edgetool.operators.work.loops import Loops, repeated, together
from edgetool.operators.work.types import Work, WorkRule


def _comparison(call: Call) -> Work:
    """int8 is brought to a common scale before."""
    return strict(call, dtype_name(call), **rounded_negatives(call))


def _logic(call: Call) -> Work:
    return strict(call, "bool")


def _not(call: Call) -> Work:
    return flat(call, "bool")


def _select(call: Call) -> Work:
    """Without broadcast one loop. With it, a row under one condition is a copy, or a fill where its source is one."""
    shapes = [call.required_input(position).shape for position in range(3)]
    result = call.required_output()
    path = result.dtype.name.lower()
    if len(set(shapes)) == 1 or result.element_count == max(map(prod, shapes)) == 1:
        return flat(call, path)
    levels = nest(shapes, result.shape)
    rows, planes, blocks = calls(levels)
    loops = {**arranged(shapes, result.shape, levels), "row": rows, "plane": planes, "block": blocks}
    return Work(f"{path} broadcast", {**loops, **_row_loops(levels, result.dtype)})


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


WORK: dict[str, WorkRule] = {
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
