"""The work rule of every operator that has one."""

from __future__ import annotations

from edgetool.operators.kernel import Call
from edgetool.operators.work import (
    activation,
    arithmetic,
    comparison,
    control,
    convolution,
    custom,
    dense,
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
)
from edgetool.operators.work.types import Work, WorkRule

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
}


def work_of(call: Call) -> Work | None:
    """The work of one run of the operator's kernel on this build; None where there is no rule for it."""
    operator = call.operator
    rule = WORK_RULES.get((operator.custom_code or "") if operator.code == "CUSTOM" else operator.code)
    return None if rule is None else rule(call)
