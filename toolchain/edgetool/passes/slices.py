"""STRIDED_SLICE and UNPACK of ranks and types that their kernels lack, by those that take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgetool.model.draft import Draft
from edgetool.model.types import Operator
from edgetool.passes.rewrite import Applied, Context, Rewrite, Steps


@dataclass(frozen=True, slots=True)
class Cut:
    """What is taken of one axis: `count` elements from `start` on, `step` apart, which may be negative; 1 for one."""

    size: int
    start: int
    step: int
    count: int

    @property
    def is_whole(self) -> bool:
        """Whether it takes all, as it is."""
        return (self.start, self.step, self.count) == (0, 1, self.size)


def merged(cuts: Sequence[Cut]) -> list[Cut]:
    """The same cut of a view with fewer axes: one that is taken whole is part of the axis before it.

    Axes of one element are left out. The axis before must be cut without steps; there is always one axis.
    """
    result: list[Cut] = []
    for cut in cuts:
        if cut.size == 1 and cut.is_whole:
            continue
        last = result[-1] if result else None
        if last is not None and cut.is_whole and last.step == 1:
            result[-1] = Cut(last.size * cut.size, last.start * cut.size, 1, last.count * cut.size)
        else:
            result.append(cut)
    return result or [Cut(1, 0, 1, 1)]


def slice_of(steps: Steps, tensor: int, cuts: Sequence[Cut], wanted: Sequence[int], context: Context) -> int | None:
    """The cut of a tensor as a tensor of the wanted shape, by the fewest operators that the runtime has.

    The tensor may be cut in its own shape, without axes of one element, or with as few axes as possible.
    """
    small = [cut for cut in cuts if not (cut.size == 1 and cut.is_whole)] or [Cut(1, 0, 1, 1)]
    best: list[Operator] | None = None
    result = None
    for view in (list(cuts), small, merged(cuts)):
        trial = Steps(steps.draft, steps.operator)
        made = trial.reshape(_one_cut(trial, trial.reshape(tensor, [cut.size for cut in view]), view), wanted)
        if all(context.legal(steps.draft, step) for step in trial.made) and (
            best is None or len(trial.made) < len(best)
        ):
            best, result = trial.made, made
    steps.made += best or ()
    return result


def _one_cut(steps: Steps, tensor: int, cuts: Sequence[Cut]) -> int:
    """SLICE where it has no steps, else STRIDED_SLICE."""
    shape = [cut.count for cut in cuts]
    starts = steps.constant([cut.start for cut in cuts])
    if all(cut.step == 1 for cut in cuts):
        return steps.step("SLICE", [tensor, starts, steps.constant(shape)], shape, like=tensor, version=2)
    ends = [cut.start + cut.step * (cut.count - 1) + (1 if cut.step > 0 else -1) for cut in cuts]
    end_mask = sum(1 << axis for axis, end in enumerate(ends) if end < 0)  # -1 would count from the end
    strides = steps.constant([cut.step for cut in cuts])
    inputs = [tensor, starts, steps.constant(ends), strides]
    return steps.step("STRIDED_SLICE", inputs, shape, like=tensor, version=2, end_mask=end_mask)


def cuts_of(draft: Draft, operator: Operator) -> list[Cut] | None:
    """What a STRIDED_SLICE takes of each axis of its input; None where that is not known before it runs.

    Source: strided_slice_logic.h (TensorFlow Lite). New axes are of size 1 and belong to the output alone.
    """
    options = operator.options
    begin, end, strides = (draft.values(tensor) for tensor in operator.inputs[1:4])
    if options is None or begin is None or end is None or strides is None or options["offset"]:
        return None
    shape = draft.tensors[operator.inputs[0]].shape
    new_axes, ellipsis = options.integer("new_axis_mask"), options.integer("ellipsis_mask")
    spec = range(len(begin))
    taken = sum(1 for i in spec if not ellipsis >> i & 1 and not new_axes >> i & 1)
    cuts: list[Cut] = []
    for i in spec:
        if ellipsis >> i & 1:
            cuts += [Cut(size, 0, 1, size) for size in shape[len(cuts) : len(cuts) + len(shape) - taken]]
        elif not new_axes >> i & 1:
            masks = (options.integer(f"{name}_mask") >> i & 1 for name in ("begin", "end", "shrink_axis"))
            cuts.append(_cut(shape[len(cuts)], int(begin[i]), int(end[i]), int(strides[i]), *map(bool, masks)))
    return [*cuts, *(Cut(size, 0, 1, size) for size in shape[len(cuts) :])]


def _cut(size: int, begin: int, end: int, step: int, from_begin: bool, to_end: bool, shrink: bool) -> Cut:
    """Python's own slice, where a mask stands for a bound left out; one element where the axis is dropped."""
    if shrink:
        return Cut(size, 0 if from_begin else begin % size, 1, 1)
    start, stop, step = slice(None if from_begin else begin, None if to_end else end, step).indices(size)
    count = len(range(start, stop, step))
    return Cut(size, start, step if count > 1 else 1, count)


def _strided_slice(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    cuts = cuts_of(draft, operator)
    wanted = draft.tensors[operator.outputs[0]].shape
    if cuts is None or 0 in wanted:
        return None
    steps = Steps(draft, operator)
    result = slice_of(steps, operator.inputs[0], cuts, wanted, context)
    return None if result is None else steps.finish("slice", result)


def _unpack(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """A slice for each output."""
    shape = draft.tensors[operator.inputs[0]].shape
    axis = operator.options.integer("axis") % len(shape) if operator.options else 0
    steps = Steps(draft, operator)
    results = []
    for place, output in enumerate(operator.outputs):
        cuts = [Cut(size, 0, 1, size) for size in shape]
        cuts[axis] = Cut(shape[axis], place, 1, 1)
        result = slice_of(steps, operator.inputs[0], cuts, draft.tensors[output].shape, context)
        if result is None:
            return None
        results.append(result)
    return steps.finish("unpack", *results)


RULES = (
    Rewrite(
        "slice",
        "replaced by SLICE, or STRIDED_SLICE with fewer dimensions: TensorFlow Lite Micro supports at most "
        "four dimensions for this operator",
        _strided_slice,
        frozenset({"STRIDED_SLICE"}),
    ),
    Rewrite(
        "unpack",
        "replaced by one SLICE per output: TensorFlow Lite Micro's kernel does not support this type",
        _unpack,
        frozenset({"UNPACK"}),
    ),
)
