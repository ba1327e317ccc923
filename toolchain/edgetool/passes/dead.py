"""Operators whose results nobody reads."""

from __future__ import annotations

from edgetool.model.edit import Draft
from edgetool.model.types import DType, Operator

# These do something besides giving a result.
_EFFECTS = frozenset({"ASSIGN_VARIABLE", "CALL_ONCE", "CALL", "CUSTOM", "HASHTABLE_IMPORT", "IF", "WHILE"})


def is_dead(draft: Draft, operator: Operator) -> bool:
    """Whether it can go: nothing reads what it writes, and it changes no state."""
    if operator.code in _EFFECTS or not operator.outputs:
        return False
    for output in operator.outputs:
        if output in draft.outputs or draft.consumers(output) or draft.tensors[output].dtype is DType.RESOURCE:
            return False
    return not any(draft.tensors[tensor].is_variable for tensor in operator.inputs if tensor >= 0)


def dead_operators(draft: Draft) -> list[Operator]:
    """All that can go now; when they have, others may."""
    return [operator for operator in draft.operators if is_dead(draft, operator)]
