"""RESHAPE where it does nothing, and operators that are a RESHAPE. Data stays where it is in all of them."""

from __future__ import annotations

from dataclasses import replace

from edgetool.model.edit import Draft
from edgetool.model.types import Operator, Tensor
from edgetool.passes.rewrite import Applied, Context, Rewrite, applied
from edgetool.passes.sound import is_sound
from edgetool.passes.steps import Steps


def same_values(first: Tensor, second: Tensor) -> bool:
    """Whether equal elements of two tensors mean the same."""
    if first.dtype is not second.dtype:
        return False
    one, other = first.quantization, second.quantization
    if one is None or other is None:
        return one is other
    return (one.scales, one.zero_points, one.axis) == (other.scales, other.zero_points, other.axis)


def _merge(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """RESHAPE of a RESHAPE takes what the first one took."""
    before = draft.producer(operator.inputs[0])
    if before is None or before.code != "RESHAPE" or not is_sound(draft, before):
        return None
    if not draft.is_before(before, operator):
        return None
    source = draft.tensors[before.inputs[0]]
    if source.is_variable or not same_values(source, draft.tensors[operator.inputs[0]]):
        return None
    record = applied("merge-reshapes", draft, operator)
    draft.replace(operator, replace(operator, inputs=(before.inputs[0], *operator.inputs[1:])))
    return record


def _remove(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """RESHAPE to the shape that is there."""
    source, output = draft.tensors[operator.inputs[0]], draft.tensors[operator.outputs[0]]
    if source.shape != output.shape or source.is_variable or not same_values(source, output):
        return None
    record = applied("remove-reshape", draft, operator)
    return record if bypass(draft, operator) else None


def bypass(draft: Draft, operator: Operator) -> bool:
    """Leave out an operator whose output is its first input; False where the graph needs both tensors."""
    source, output = operator.inputs[0], operator.outputs[0]
    if output not in draft.outputs:
        draft.redirect(output, source)
        draft.replace(operator)
        return True
    maker = draft.producer(source)
    if maker is None or source in draft.outputs:
        return False
    draft.redirect(source, output)
    draft.replace(maker, replace(maker, outputs=tuple(output if made == source else made for made in maker.outputs)))
    draft.replace(operator)
    return True


def _as_reshape(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """EXPAND_DIMS or SQUEEZE of a type that their kernels lack."""
    steps = Steps(draft, operator)
    result = steps.reshape(operator.inputs[0], draft.tensors[operator.outputs[0]].shape)
    return steps.finish("as-reshape", result)


RULES = (
    Rewrite("merge-reshapes", "", _merge, frozenset({"RESHAPE"}), wanted=True),
    Rewrite("remove-reshape", "", _remove, frozenset({"RESHAPE"}), wanted=True),
    Rewrite(
        "as-reshape",
        "replaced by RESHAPE, which supports every type",
        _as_reshape,
        frozenset({"EXPAND_DIMS", "SQUEEZE"}),
    ),
)
