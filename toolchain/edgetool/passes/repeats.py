"""TILE, which TensorFlow Lite Micro lacks, and BROADCAST_TO of more dimensions than its kernel takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from math import prod

from edgetool.model.edit import Draft
from edgetool.model.types import DType, Operator
from edgetool.passes.joins import concatenate, join
from edgetool.passes.rewrite import Applied, Context, Rewrite
from edgetool.passes.steps import Steps

# Axes from the outermost on: whether it is repeated, from size 1, and how long it becomes.
Axes = list[tuple[bool, int]]


def broadcast_axes(shape: Sequence[int], multiples: Sequence[int]) -> Axes:
    """TILE as a broadcast: before each axis stands one of size 1 that is repeated, and all others stay.

    Neighbours of one kind are one axis, those of size 1 are left out: [4, 1, 6] times [1, 2, 3] is 4, x6 and 6.
    """
    return _merged(
        axis for size, times in zip(shape, multiples, strict=True) for axis in ((True, times), (False, size))
    )


def _merged(axes: Iterable[tuple[bool, int]]) -> Axes:
    kept = [axis for axis in axes if axis[1] != 1]
    return [(repeated, prod(size for _, size in group)) for repeated, group in groupby(kept, lambda axis: axis[0])]


def _multiples(draft: Draft, operator: Operator) -> tuple[int, ...] | None:
    """How often each axis of the input is repeated, None where that is not known or the result is empty."""
    shape, output = draft.tensors[operator.inputs[0]].shape, draft.tensors[operator.outputs[0]]
    if output.element_count == 0:
        return None
    if operator.code == "BROADCAST_TO":
        shape = (1,) * (len(output.shape) - len(shape)) + shape
        return tuple(after // before for before, after in zip(shape, output.shape, strict=True))
    values = draft.values(operator.inputs[1])
    return None if values is None else tuple(int(times) for times in values)


def _broadcast(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """One BROADCAST_TO, or several where the axes are more than it takes, with RESHAPE around them."""
    source, output = operator.inputs[0], draft.tensors[operator.outputs[0]]
    multiples = _multiples(draft, operator)
    most = context.runtime.limit("BROADCAST_TO", "dimensions") or len(output.shape) + 1
    if multiples is None or most < 3:
        return None
    shape = (1,) * (len(output.shape) - len(draft.tensors[source].shape)) + draft.tensors[source].shape
    steps = Steps(draft, operator)
    repeats_ones = all(size == 1 for size, times in zip(shape, multiples, strict=True) if times != 1)
    if len(shape) <= most and repeats_ones:
        result = _broadcast_to(steps, source, output.shape)
    else:
        result = _broadcast_in_turn(steps, source, broadcast_axes(shape, multiples), most)
    if not all(context.legal(draft, made) for made in steps.made):
        return None
    return steps.finish("repeat-broadcast", result)


def _broadcast_in_turn(steps: Steps, tensor: int, axes: Axes, most: int) -> int:
    """Repeat the innermost axes first, as many at a time as one operator takes."""
    while any(repeated for repeated, _ in axes):
        inner = axes if len(axes) <= most else axes[1 - most :]
        outer = axes[: len(axes) - len(inner)]
        lead = [prod(size for repeated, size in outer if not repeated)] if outer else []
        tensor = steps.reshape(tensor, [*lead, *(1 if repeated else size for repeated, size in inner)])
        tensor = _broadcast_to(steps, tensor, [*lead, *(size for _, size in inner)])
        axes = _merged([*outer, (False, prod(size for _, size in inner))])
    return tensor


def _broadcast_to(steps: Steps, tensor: int, shape: Sequence[int]) -> int:
    version = 3 if steps.draft.tensors[tensor].dtype is DType.INT16 else 2
    return steps.step("BROADCAST_TO", [tensor, steps.constant(list(shape))], shape, like=tensor, version=version)


def _concatenate(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """CONCATENATION of the tensor with itself, axis by axis, for a runtime without BROADCAST_TO."""
    multiples = _multiples(draft, operator)
    if multiples is None:
        return None
    steps = Steps(draft, operator)
    shape = draft.tensors[operator.inputs[0]].shape
    result = steps.reshape(operator.inputs[0], (1,) * (len(multiples) - len(shape)) + shape)
    for axis, times in reversed(tuple(enumerate(multiples))):
        result = _times(steps, result, axis, times, context)
    if not all(context.legal(draft, made) for made in steps.made):
        return None
    return steps.finish("repeat-concatenate", result)


def _times(steps: Steps, tensor: int, axis: int, times: int, context: Context) -> int:
    """The tensor `times` times along the axis: tens of tens of them, as it were."""
    most = context.runtime.limit("CONCATENATION", "inputs") or times
    whole, rest = divmod(times, most)
    if not whole:
        return concatenate(steps, [tensor] * times, axis)
    many = _times(steps, concatenate(steps, [tensor] * most, axis), axis, whole, context)
    return join(steps, [many, *[tensor] * rest], axis, context)


_CODES = frozenset({"TILE", "BROADCAST_TO"})
RULES = (
    Rewrite(
        "repeat-broadcast",
        "replaced by BROADCAST_TO with at most five dimensions, which TensorFlow Lite Micro supports",
        _broadcast,
        _CODES,
    ),
    Rewrite(
        "repeat-concatenate",
        "replaced by CONCATENATION of the tensor with itself: the runtime supports neither TILE nor BROADCAST_TO",
        _concatenate,
        _CODES,
    ),
)
