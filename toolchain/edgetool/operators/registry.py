"""Every operator that edgetool knows, one entry each."""

from __future__ import annotations

from collections.abc import Mapping

from edgetool.model.types import Operator
from edgetool.operators import macs
from edgetool.operators.kernel import PrepareRule, nothing
from edgetool.operators.prepare import (
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
from edgetool.operators.types import OperatorEntry, Rule

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
    **activation.RULES,
    **arithmetic.RULES,
    **comparison.RULES,
    **control.RULES,
    **convolution.RULES,
    **depthwise.RULES,
    **transpose_conv.RULES,
    **dense.RULES,
    **elementwise.RULES,
    **movement.RULES,
    **normalization.RULES,
    **padding.RULES,
    **pooling.RULES,
    **recurrent.RULES,
    **reduction.RULES,
    **selection.RULES,
    **shape.RULES,
}

OPERATORS: dict[str, OperatorEntry] = {
    code: OperatorEntry(code, MAC_RULES.get(code), PREPARE_RULES.get(code))
    for code in sorted([*MAC_RULES, *WITHOUT_MACS])
}

# The custom operators that TFLM brings, by their custom code.
CUSTOM_OPERATORS: dict[str, OperatorEntry] = {
    name: OperatorEntry(name, None, rule, signal.INIT_RULES.get(name, nothing))
    for name, rule in sorted({**custom.RULES, **signal.RULES}.items())
}


def entry_of(operator: Operator, custom: Mapping[str, OperatorEntry] | None = None) -> OperatorEntry | None:
    """The operator's entry; one of `custom` (by custom code) goes before TFLM's own. None where there is none."""
    if operator.code != "CUSTOM":
        return OPERATORS.get(operator.code)
    name = operator.custom_code or ""
    return (custom or {}).get(name) or CUSTOM_OPERATORS.get(name)
