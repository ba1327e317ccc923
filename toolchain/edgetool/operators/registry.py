"""Every operator that edgetool knows: the entries of all families, and the questions that other packages ask them."""

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
from edgetool.operators.loops import LoopCounts, TooLongError

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
# Other operators of the schema: TFLM does not support them, or their kernels are not described; they have no MACs.
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
# The custom operators that TFLM includes, by custom code.
CUSTOM_OPERATORS: dict[str, OperatorEntry] = {
    entry.code: entry for entry in sorted((*custom.OPERATORS, *signal.OPERATORS), key=lambda entry: entry.code)
}
# Loop rules iterate along the sides of images; no supported device has memory for a longer side.
LONGEST_SIDE = 2**17


def entry_of(operator: Operator, custom: Mapping[str, OperatorEntry] | None = None) -> OperatorEntry | None:
    """Return the operator's entry; one of `custom` (by custom code) precedes TFLM's own. None if there is none."""
    if operator.code != "CUSTOM":
        return OPERATORS.get(operator.code)
    name = operator.custom_code or ""
    return (custom or {}).get(name) or CUSTOM_OPERATORS.get(name)


def loop_counts_of(call: Call) -> LoopCounts | None:
    """Return the loop counts of one run of the operator's kernel on this build.

    None if there is no rule for it, or if a side of a tensor is longer than LONGEST_SIDE.

    Raises KernelRefusal for tensors that do not fit each other: a kernel that accepts them reads beyond their ends, and
    what it executes does not follow from their shapes.
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
    """Raise KernelRefusal if Eval would access memory outside its tensors although Prepare accepts the operator."""
    entry = entry_of(call.operator)
    if entry is not None and entry.bounds is not None:
        entry.bounds(call)


def constant_passes(call: Call) -> int:
    """Return how often one run of the operator reads all its constants, assuming TFLM's own kernels."""
    entry = entry_of(call.operator)
    return 1 if entry is None or entry.passes is None else max(1, entry.passes(call))
