"""RELU and RELU6 as the activation of the operator before them."""

from __future__ import annotations

from dataclasses import replace

from edgetool.model.edit import Draft
from edgetool.model.types import Operator
from edgetool.passes.reshapes import same_values
from edgetool.passes.rewrite import Applied, Context, Rewrite, applied

# Operators whose kernels have an activation in every type that they take.
CARRIERS = frozenset(
    {"ADD", "AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MAX_POOL_2D", "MUL", "SUB"}
)
FIELD = "fused_activation_function"


def _fuse(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Where nothing else reads what is clamped; with one scale that is the same clamp of the same codes."""
    source, output = operator.inputs[0], operator.outputs[0]
    before = draft.producer(source)
    if before is None or before.code not in CARRIERS or before.options is None or before.options[FIELD] != "NONE":
        return None
    alone = len(draft.consumers(source)) == 1 and source not in draft.outputs
    if not alone or not same_values(draft.tensors[source], draft.tensors[output]):
        return None
    record = applied("fuse", draft, operator)
    fields = tuple((name, operator.code if name == FIELD else value) for name, value in before.options.fields)
    draft.replace(before, replace(before, options=replace(before.options, fields=fields), outputs=(output,)))
    draft.replace(operator)
    return record


RULES = (Rewrite("fuse", "", _fuse, frozenset({"RELU", "RELU6"}), wanted=True),)
