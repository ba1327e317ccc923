"""The work rule of every operator that has one."""

from __future__ import annotations

from edgetool.operators.kernel import Call, KernelRefusal
from edgetool.operators.work import (
    activation,
    arithmetic,
    comparison,
    control,
    convolution,
    custom,
    dense,
    depthwise,
    elementwise,
    movement,
    normalization,
    padding,
    pooling,
    quantization,
    recurrent,
    reduction,
    selection,
    shape,
    signal,
    transpose_conv,
)
from edgetool.operators.work.types import TooLongError, Work, WorkRule

WORK_RULES: dict[str, WorkRule] = {
    **quantization.WORK,
    **normalization.WORK,
    **elementwise.WORK,
    **comparison.WORK,
    **arithmetic.WORK,
    **activation.WORK,
    **movement.WORK,
    **padding.WORK,
    **pooling.WORK,
    **reduction.WORK,
    **selection.WORK,
    **shape.WORK,
    **control.WORK,
    **custom.WORK,
    **signal.WORK,
    **recurrent.WORK,
    **dense.WORK,
    **convolution.WORK,
    **depthwise.WORK,
    **transpose_conv.WORK,
}


# Rules walk along the sides of images; so many elements in a row are more than any of these devices takes.
LONGEST_SIDE = 2**17


def work_of(call: Call) -> Work | None:
    """The work of one run of the operator's kernel on this build; None where there is no rule for it, or for tensors
    with sides that no device holds.

    Raises KernelRefusal for tensors that do not fit each other: a kernel that takes them reads beyond their ends, and
    what it executes follows from no shape.
    """
    operator = call.operator
    rule = WORK_RULES.get((operator.custom_code or "") if operator.code == "CUSTOM" else operator.code)
    indices = {index for index in (*operator.inputs, *operator.outputs) if index >= 0}
    longest = max((side for index in indices for side in call.graph.tensors[index].shape), default=0)
    if rule is None or longest > LONGEST_SIDE:
        return None
    try:
        work = rule(call)
    except TooLongError:
        return None
    except (ArithmeticError, LookupError, ValueError) as error:
        raise KernelRefusal(f"{operator.label} does not support tensors of these shapes and types") from error
    if min(work.loops.values(), default=0) < 0:
        raise KernelRefusal(f"{operator.label} cannot produce a result of this shape")
    return work
