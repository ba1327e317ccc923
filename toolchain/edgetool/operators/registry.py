"""Every operator that edgetool knows, one entry each, assembled from the families."""

from __future__ import annotations

from collections.abc import Mapping

from edgetool.model.types import Operator
from edgetool.operators import (
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
    recurrent,
    reduction,
    selection,
    shape,
    signal,
    transpose_conv,
)
from edgetool.operators.call import Call, KernelRefusal
from edgetool.operators.entry import OperatorEntry
from edgetool.operators.loops import TooLongError, Work

FAMILIES = (
    activation,
    arithmetic,
    comparison,
    control,
    convolution,
    dense,
    depthwise,
    elementwise,
    movement,
    normalization,
    padding,
    pooling,
    recurrent,
    reduction,
    selection,
    shape,
    transpose_conv,
)
# Other operators of the schema: TFLM lacks them, or asks for nothing that is known; none multiplies and accumulates.
OTHERS = """
ATAN2 BITCAST BITWISE_XOR DELEGATE DENSIFY DILATE FAKE_QUANT GELU LOCAL_RESPONSE_NORMALIZATION MATRIX_DIAG
MATRIX_SET_DIAG NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 ONE_HOT POW RANGE RANK REDUCE_ANY REDUCE_PROD
RELU_0_TO_1 RELU_N1_TO_1 REVERSE_SEQUENCE RIGHT_SHIFT SCATTER_ND SEGMENT_SUM SELECT SIGN SPARSE_TO_DENSE TILE TOPK_V2
UNIQUE UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM WHERE
""".split()

_ENTRIES = {entry.code: entry for family in FAMILIES for entry in family.OPERATORS}
OPERATORS: dict[str, OperatorEntry] = {
    code: _ENTRIES.get(code) or OperatorEntry(code) for code in sorted({*_ENTRIES, *OTHERS})
}
# The custom operators that TFLM brings, by their custom code.
CUSTOM_OPERATORS: dict[str, OperatorEntry] = {
    entry.code: entry for entry in sorted((*custom.OPERATORS, *signal.OPERATORS), key=lambda entry: entry.code)
}
# Rules walk along the sides of images; so many elements in a row are more than any of these devices takes.
LONGEST_SIDE = 2**17


def entry_of(operator: Operator, custom: Mapping[str, OperatorEntry] | None = None) -> OperatorEntry | None:
    """The operator's entry; one of `custom` (by custom code) goes before TFLM's own. None where there is none."""
    if operator.code != "CUSTOM":
        return OPERATORS.get(operator.code)
    name = operator.custom_code or ""
    return (custom or {}).get(name) or CUSTOM_OPERATORS.get(name)


def work_of(call: Call) -> Work | None:
    """The work of one run of the operator's kernel on this build; None where there is no rule for it, or for tensors
    with sides that no device holds.

    Raises KernelRefusal for tensors that do not fit each other: a kernel that takes them reads beyond their ends, and
    what it executes follows from no shape.
    """
    operator = call.operator
    entry = entry_of(operator)
    indices = {index for index in (*operator.inputs, *operator.outputs) if index >= 0}
    longest = max((side for index in indices for side in call.graph.tensors[index].shape), default=0)
    if entry is None or entry.loops is None or longest > LONGEST_SIDE:
        return None
    try:
        work = entry.loops(call)
    except TooLongError:
        return None
    except (ArithmeticError, LookupError, ValueError) as error:
        raise KernelRefusal(f"{operator.label} does not support tensors of these shapes and types") from error
    if min(work.loops.values(), default=0) < 0:
        raise KernelRefusal(f"{operator.label} cannot produce a result of this shape")
    return work


def check_bounds(call: Call) -> None:
    """Raises KernelRefusal when the kernel, whose Prepare takes the operator, would leave its tensors."""
    entry = entry_of(call.operator)
    if entry is not None and entry.bounds is not None:
        entry.bounds(call)


def constant_passes(call: Call) -> int:
    """The times that one run of the operator reads all its constants, TFLM's own kernels assumed."""
    entry = entry_of(call.operator)
    return 1 if entry is None or entry.passes is None else max(1, entry.passes(call))
