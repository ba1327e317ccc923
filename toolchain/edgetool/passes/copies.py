"""LEAKY_RELU that lets everything through: what conversion puts where a tensor is to have a second scale."""

from __future__ import annotations

from edgetool.model.edit import Draft
from edgetool.model.types import DType, Operator
from edgetool.passes.functions import is_quantized
from edgetool.passes.rewrite import Applied, Context, Rewrite
from edgetool.passes.steps import Steps

# From 1. The code of a result is off by 255 times as much at most, so that rounding alone may tell it from a copy's.
SLOPE_TOLERANCE = 1e-5


def _requantize(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """QUANTIZE: the nearest codes, and fewer instructions for each element."""
    if len(operator.inputs) != 1 or len(operator.outputs) != 1 or operator.inputs[0] < 0:
        return None
    source, result = (draft.tensors[index] for index in (*operator.inputs, *operator.outputs))
    slope = operator.options["alpha"] if operator.options else 0.0
    if not isinstance(slope, int | float) or not abs(slope - 1) <= SLOPE_TOLERANCE:
        return None
    if any(tensor.dtype is not DType.INT8 or not is_quantized(tensor) for tensor in (source, result)):
        return None
    steps = Steps(draft, operator)
    copy = steps.step("QUANTIZE", operator.inputs, result.shape, like=result.index)
    if source.shape != result.shape or not all(context.legal(draft, made) for made in steps.made):
        return None
    return steps.finish("copy", copy)


RULES = (Rewrite("copy", "", _requantize, frozenset({"LEAKY_RELU"}), wanted=True),)
