"""Replace STRIDED_SLICE and UNPACK of ranks and types that their kernels do not support with SLICE or a simpler
STRIDED_SLICE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgetool.model.draft import Draft
from edgetool.model.types import Operator
from edgetool.passes.rewrite import Applied, Context, OperatorBuilder, Rewrite


@dataclass(frozen=True, slots=True)
class AxisSlice:
    """The slice of one axis: `count` elements from `start`, `step` apart, which may be negative; step is 1 for one
    element.
    """

    size: int
    start: int
    step: int
    count: int

    @property
    def is_whole(self) -> bool:
        """Whether it selects all elements in order."""
        return (self.start, self.step, self.count) == (0, 1, self.size)


def merge_slices(slices: Sequence[AxisSlice]) -> list[AxisSlice]:
    """Return the same slice of a view with fewer axes: an axis that is selected entirely is merged with the one before
    it.

    Axes of one element are left out. The axis before must be sliced with step 1; there is always at least one axis.
    """
    result: list[AxisSlice] = []
    for part in slices:
        if part.size == 1 and part.is_whole:
            continue
        last = result[-1] if result else None
        if last is not None and part.is_whole and last.step == 1:
            result[-1] = AxisSlice(last.size * part.size, last.start * part.size, 1, last.count * part.size)
        else:
            result.append(part)
    return result or [AxisSlice(1, 0, 1, 1)]


def add_slice(
    builder: OperatorBuilder, tensor: int, slices: Sequence[AxisSlice], shape: Sequence[int], context: Context
) -> int | None:
    """Return the slice of a tensor in this shape, with the fewest operators that the runtime supports; None if there is
    none.

    The tensor may be sliced in its original shape, without axes of one element, or with as few axes as possible.
    """
    without_ones = [part for part in slices if not (part.size == 1 and part.is_whole)] or [AxisSlice(1, 0, 1, 1)]
    best: list[Operator] | None = None
    result = None
    for view in (list(slices), without_ones, merge_slices(slices)):
        trial = OperatorBuilder(builder.draft, builder.operator)
        output = trial.reshape(_add_one_slice(trial, trial.reshape(tensor, [part.size for part in view]), view), shape)
        if trial.is_supported(context) and (best is None or len(trial.operators) < len(best)):
            best, result = trial.operators, output
    builder.operators += best or ()
    return result


def _add_one_slice(builder: OperatorBuilder, tensor: int, slices: Sequence[AxisSlice]) -> int:
    """Add SLICE if all steps are 1, otherwise STRIDED_SLICE."""
    shape = [part.count for part in slices]
    starts = builder.constant([part.start for part in slices])
    if all(part.step == 1 for part in slices):
        return builder.add("SLICE", [tensor, starts, builder.constant(shape)], shape, like=tensor, version=2)
    ends = [part.start + part.step * (part.count - 1) + (1 if part.step > 0 else -1) for part in slices]
    end_mask = sum(1 << axis for axis, end in enumerate(ends) if end < 0)  # -1 would count from the end
    strides = builder.constant([part.step for part in slices])
    inputs = [tensor, starts, builder.constant(ends), strides]
    return builder.add("STRIDED_SLICE", inputs, shape, like=tensor, version=2, end_mask=end_mask)


def axis_slices(draft: Draft, operator: Operator) -> list[AxisSlice] | None:
    """Return the slice of each axis by a STRIDED_SLICE; None if that is unknown before it runs.

    Source: strided_slice_logic.h (TensorFlow Lite). New axes have size 1 and belong only to the output.
    """
    options = operator.options
    begin, end, strides = (draft.values(tensor) for tensor in operator.inputs[1:4])
    if options is None or begin is None or end is None or strides is None or options["offset"]:
        return None
    shape = draft.tensors[operator.inputs[0]].shape
    new_axes, ellipsis = options.integer("new_axis_mask"), options.integer("ellipsis_mask")
    spec = range(len(begin))
    slice_count = sum(1 for i in spec if not ellipsis >> i & 1 and not new_axes >> i & 1)
    slices: list[AxisSlice] = []
    for i in spec:
        if ellipsis >> i & 1:
            slices += [
                AxisSlice(size, 0, 1, size) for size in shape[len(slices) : len(slices) + len(shape) - slice_count]
            ]
        elif not new_axes >> i & 1:
            masks = (options.integer(f"{name}_mask") >> i & 1 for name in ("begin", "end", "shrink_axis"))
            slices.append(
                _axis_slice(shape[len(slices)], int(begin[i]), int(end[i]), int(strides[i]), *map(bool, masks))
            )
    return [*slices, *(AxisSlice(size, 0, 1, size) for size in shape[len(slices) :])]


def _axis_slice(size: int, begin: int, end: int, step: int, from_begin: bool, to_end: bool, shrink: bool) -> AxisSlice:
    """Return Python's slice, where a mask stands for an omitted bound; one element if the axis is dropped."""
    if shrink:
        return AxisSlice(size, 0 if from_begin else begin % size, 1, 1)
    start, stop, step = slice(None if from_begin else begin, None if to_end else end, step).indices(size)
    count = len(range(start, stop, step))
    return AxisSlice(size, start, step if count > 1 else 1, count)


def _strided_slice(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    slices = axis_slices(draft, operator)
    shape = draft.tensors[operator.outputs[0]].shape
    if slices is None or 0 in shape:
        return None
    builder = OperatorBuilder(draft, operator)
    result = add_slice(builder, operator.inputs[0], slices, shape, context)
    return None if result is None else builder.finish("slice", result)


def _unpack(draft: Draft, operator: Operator, context: Context) -> Applied | None:
    """Use one slice per output."""
    shape = draft.tensors[operator.inputs[0]].shape
    axis = operator.options.integer("axis") % len(shape) if operator.options else 0
    builder = OperatorBuilder(draft, operator)
    results = []
    for place, output in enumerate(operator.outputs):
        slices = [AxisSlice(size, 0, 1, size) for size in shape]
        slices[axis] = AxisSlice(shape[axis], place, 1, 1)
        result = add_slice(builder, operator.inputs[0], slices, draft.tensors[output].shape, context)
        if result is None:
            return None
        results.append(result)
    return builder.finish("unpack", *results)


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
