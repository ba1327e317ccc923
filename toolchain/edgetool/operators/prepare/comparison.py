"""Comparisons, logic and choice: what their kernels ask for in Prepare (comparisons.cc, logical.cc, select.cc)."""

from __future__ import annotations

from itertools import zip_longest

from edgetool.model.types import DType
from edgetool.operators.kernel import Call, KernelRefusal, PrepareRule, nothing
from edgetool.operators.prepare.conditions import counts, looks_at, output_alike
from edgetool.operators.prepare.quantization import is_below_one, scale


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

RULES: dict[str, PrepareRule] = {
    "EQUAL": _COMPARISON,
    "GREATER": _COMPARISON,
    "GREATER_EQUAL": _COMPARISON,
    "LESS": _COMPARISON,
    "LESS_EQUAL": _COMPARISON,
    "LOGICAL_AND": nothing,
    "LOGICAL_NOT": looks_at((0,), (0,), counts(1), output_alike),
    "LOGICAL_OR": nothing,
    "NOT_EQUAL": _COMPARISON,
    "SELECT_V2": looks_at((0, 1, 2), (0,), counts(3), _choice),
}
