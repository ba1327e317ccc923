"""Every operator that edgetool knows, one entry each.

The work rule of every operator that has one.
"""

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
    macs,
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
from edgetool.operators.call import Call, KernelRefusal, PrepareRule, nothing
from edgetool.operators.entry import OperatorEntry, Rule
from edgetool.operators.loops import TooLongError, Work, WorkRule

MAC_RULES: dict[str, Rule] = {
    "BATCH_MATMUL": macs.batch_matmul,
    "BIDIRECTIONAL_SEQUENCE_LSTM": macs.recurrent,
    "BIDIRECTIONAL_SEQUENCE_RNN": macs.recurrent,
    "CONV_2D": macs.convolution,
    "CONV_3D": macs.convolution_3d,
    "CONV_3D_TRANSPOSE": macs.transposed_convolution_3d,
    "DEPTHWISE_CONV_2D": macs.depthwise_convolution,
    "FULLY_CONNECTED": macs.fully_connected,
    "LSTM": macs.recurrent,
    "RNN": macs.recurrent,
    "SVDF": macs.svdf,
    "TRANSPOSE_CONV": macs.transposed_convolution,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": macs.recurrent,
    "UNIDIRECTIONAL_SEQUENCE_RNN": macs.recurrent,
}

# Operators that move, compare or combine elements without multiply-accumulates.
WITHOUT_MACS = """
ABS ADD ADD_N ARG_MAX ARG_MIN ASSIGN_VARIABLE ATAN2 AVERAGE_POOL_2D BATCH_TO_SPACE_ND BITCAST BITWISE_XOR
BROADCAST_ARGS BROADCAST_TO CALL_ONCE CAST CEIL CONCATENATION COS CUMSUM DELEGATE DENSIFY DEPTH_TO_SPACE DEQUANTIZE
DILATE DIV DYNAMIC_UPDATE_SLICE ELU EMBEDDING_LOOKUP EQUAL EXP EXPAND_DIMS FAKE_QUANT FILL FLOOR FLOOR_DIV FLOOR_MOD
GATHER GATHER_ND GELU GREATER GREATER_EQUAL HARD_SWISH IF L2_NORMALIZATION L2_POOL_2D LEAKY_RELU LESS LESS_EQUAL
LOCAL_RESPONSE_NORMALIZATION LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC LOG_SOFTMAX MATRIX_DIAG MATRIX_SET_DIAG
MAXIMUM MAX_POOL_2D MEAN MINIMUM MIRROR_PAD MUL NEG NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 NOT_EQUAL ONE_HOT
PACK PAD PADV2 POW PRELU QUANTIZE RANGE RANK READ_VARIABLE REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD
RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR REVERSE_SEQUENCE REVERSE_V2
RIGHT_SHIFT ROUND RSQRT SCATTER_ND SEGMENT_SUM SELECT SELECT_V2 SHAPE SIGN SIN SLICE SOFTMAX SPACE_TO_BATCH_ND
SPACE_TO_DEPTH SPARSE_TO_DENSE SPLIT SPLIT_V SQRT SQUARE SQUARED_DIFFERENCE SQUEEZE STRIDED_SLICE SUB SUM TANH TILE
TOPK_V2 TRANSPOSE UNIQUE UNPACK UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM
VAR_HANDLE WHERE WHILE ZEROS_LIKE
""".split()

PREPARE_RULES: dict[str, PrepareRule] = {
    **activation.PREPARE,
    **arithmetic.PREPARE,
    **comparison.PREPARE,
    **control.PREPARE,
    **convolution.PREPARE,
    **depthwise.PREPARE,
    **transpose_conv.PREPARE,
    **dense.PREPARE,
    **elementwise.PREPARE,
    **movement.PREPARE,
    **normalization.PREPARE,
    **padding.PREPARE,
    **pooling.PREPARE,
    **recurrent.PREPARE,
    **reduction.PREPARE,
    **selection.PREPARE,
    **shape.PREPARE,
}

OPERATORS: dict[str, OperatorEntry] = {
    code: OperatorEntry(code, MAC_RULES.get(code), PREPARE_RULES.get(code))
    for code in sorted([*MAC_RULES, *WITHOUT_MACS])
}

# The custom operators that TFLM brings, by their custom code.
CUSTOM_OPERATORS: dict[str, OperatorEntry] = {
    name: OperatorEntry(name, None, rule, signal.INIT_RULES.get(name, nothing))
    for name, rule in sorted({**custom.PREPARE, **signal.PREPARE}.items())
}


def entry_of(operator: Operator, custom: Mapping[str, OperatorEntry] | None = None) -> OperatorEntry | None:
    """The operator's entry; one of `custom` (by custom code) goes before TFLM's own. None where there is none."""
    if operator.code != "CUSTOM":
        return OPERATORS.get(operator.code)
    name = operator.custom_code or ""
    return (custom or {}).get(name) or CUSTOM_OPERATORS.get(name)


WORK_RULES: dict[str, WorkRule] = {
    **elementwise.QUANTIZATION_WORK,
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
