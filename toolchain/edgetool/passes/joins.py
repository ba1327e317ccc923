"""CONCATENATION of more inputs than the kernel takes."""

from __future__ import annotations

from collections.abc import Sequence

from edgetool.model.edit import Draft
from edgetool.model.types import Operator
from edgetool.passes.rewrite import Applied, Context, Rewrite
from edgetool.passes.steps import Steps


def concatenate(steps: Steps, tensors: Sequence[int], axis: int) -> int:
    """The tensors one after the other along an axis, by one operator; a single one as it is."""
    if len(tensors) == 1:
        return tensors[0]
    shape = list(steps.draft.tensors[tensors[0]].shape)
    shape[axis] = sum(steps.draft.tensors[tensor].shape[axis] for tensor in tensors)
    return steps.step("CONCATENATION", tensors, shape, like=tensors[0], version=2, axis=axis)


def join(steps: Steps, tensors: Sequence[int], axis: int, context: Context) -> int:
    """The tensors one after the other along an axis, by a tree of operators of as many inputs as each may have.

    As few as possible are joined before the last one, each of which is copied once more.
    """
    most = context.runtime.limit("CONCATENATION", "inputs") or len(tensors)
    while len(tensors) > most:
        joined, rest, excess = [], list(tensors), len(tensors) - most
        while excess > 0 and len(rest) > 1:
            group, rest = rest[: min(most, excess + 1)], rest[min(most, excess + 1) :]
            joined.append(concatenate(steps, group, axis))
            excess -= len(group) - 1
        tensors = [*joined, *rest]
    return concatenate(steps, tensors, axis)


def _concatenation(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """A tree of them; the scales are equal already where the operator has a quantized type."""
    options = operator.options
    most = context.runtime.limit("CONCATENATION", "inputs")
    if options is None or options["fused_activation_function"] != "NONE" or most is None:
        return None
    if len(operator.inputs) <= most:
        return None
    axis = options.integer("axis") % max(1, len(draft.tensors[operator.outputs[0]].shape))
    steps = Steps(draft, operator)
    result = join(steps, operator.inputs, axis, context)
    if not all(context.legal(draft, made) for made in steps.made):
        return None
    return steps.finish("split-concatenation", result)


RULES = (
    Rewrite(
        "split-concatenation",
        "split: TensorFlow Lite Micro can concatenate at most ten tensors at a time",
        _concatenation,
        frozenset({"CONCATENATION"}),
    ),
)
