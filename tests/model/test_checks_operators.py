"""Which operators have which rules, told a second time: each is held to its counts and, shared or not, to its rules."""

from __future__ import annotations

import pytest

from edgetool.errors import InvalidModelError
from edgetool.model.reader import read_model
from tests.attacks.operators import Input, model_of

pytest.importorskip("edgetool.model.rules")

ANY = 64  # no operator has as many where a number is told
COUNTS = {
    """
    ABS AVERAGE_POOL_2D BITCAST BUCKETIZE CAST CEIL COMPLEX_ABS COS DENSIFY DEPTH_TO_SPACE DEQUANTIZE ELU EXP
    FAKE_QUANT FLOOR GELU HARD_SWISH IMAG L2_NORMALIZATION L2_POOL_2D LEAKY_RELU LOCAL_RESPONSE_NORMALIZATION
    LOG LOGICAL_NOT LOGISTIC LOG_SOFTMAX MATRIX_DIAG MAX_POOL_2D NEG QUANTIZE RANDOM_STANDARD_NORMAL
    RANDOM_UNIFORM RANK READ_VARIABLE REAL RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT SHAPE SIGN SIN
    SOFTMAX SPACE_TO_DEPTH SQRT SQUARE SQUEEZE TANH WHERE ZEROS_LIKE
    """: (1, 1, 1, 1),
    """
    ADD ARG_MAX ARG_MIN ATAN2 BATCH_MATMUL BITWISE_XOR BROADCAST_ARGS BROADCAST_TO CUMSUM DIV EMBEDDING_LOOKUP
    EQUAL EXPAND_DIMS FILL FLOOR_DIV FLOOR_MOD GATHER GATHER_ND GREATER GREATER_EQUAL LESS LESS_EQUAL
    LOGICAL_AND LOGICAL_OR MATRIX_SET_DIAG MAXIMUM MEAN MINIMUM MIRROR_PAD MUL MULTINOMIAL NOT_EQUAL POW PRELU
    REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR
    REVERSE_SEQUENCE REVERSE_V2 RFFT2D RIGHT_SHIFT SEGMENT_SUM SQUARED_DIFFERENCE SUB SUM TILE TRANSPOSE
    """: (2, 2, 1, 1),
    """
    BATCH_TO_SPACE_ND DILATE DYNAMIC_UPDATE_SLICE RANGE SCATTER_ND SELECT SELECT_V2 SLICE SPACE_TO_BATCH_ND
    UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM
    """: (3, 3, 1, 1),
    "CONV_2D CONV_3D DEPTHWISE_CONV_2D PAD PADV2": (2, 3, 1, 1),
    "ONE_HOT SPARSE_TO_DENSE STRIDED_SLICE": (4, 4, 1, 1),
    "RNN SVDF UNIDIRECTIONAL_SEQUENCE_RNN": (5, 5, 1, 1),
    "CONCATENATION PACK": (1, ANY, 1, 1),
    "CONV_3D_TRANSPOSE TRANSPOSE_CONV": (3, 4, 1, 1),
    "ADD_N": (2, ANY, 1, 1),
    "ASSIGN_VARIABLE": (2, 2, 0, 0),
    "BIDIRECTIONAL_SEQUENCE_LSTM": (48, 48, 1, 2),
    "BIDIRECTIONAL_SEQUENCE_RNN": (12, 12, 1, 2),
    "CALL_ONCE": (0, 0, 0, 0),
    "FULLY_CONNECTED": (2, 3, 1, 2),
    "IF": (1, ANY, 0, ANY),
    "LSTM": (5, 24, 1, 4),
    "NON_MAX_SUPPRESSION_V4": (5, 5, 2, 2),
    "NON_MAX_SUPPRESSION_V5": (6, 6, 3, 3),
    "RESHAPE": (1, 2, 1, 1),
    "SPLIT_V": (3, 3, 1, ANY),
    "SPLIT": (2, 2, 1, ANY),
    "TOPK_V2": (2, 2, 2, 2),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (20, 24, 1, 1),
    "UNIQUE": (1, 1, 2, 2),
    "UNPACK": (1, 1, 1, ANY),
    "VAR_HANDLE": (0, 0, 1, 1),
}
EACH = {code: counts for codes, counts in COUNTS.items() for code in codes.split()}
FIRST, OTHERS = Input((2, 3)), Input((2,))


def refusal(code: str, inputs: list[Input | None], outputs: list[tuple[int, ...]]) -> str:
    """What is said of a file with this operator."""
    with pytest.raises(InvalidModelError) as caught:
        read_model(model_of(code, inputs, outputs))
    return str(caught.value)


@pytest.mark.parametrize("code", sorted(EACH))
def test_one_tensor_too_few_or_too_many(code: str) -> None:
    least_in, most_in, least_out, most_out = EACH[code]
    for count in {least_in - 1, most_in + 1} - {-1, ANY + 1}:
        assert f"{code} has {count} input{'' if count == 1 else 's'}, not" in refusal(
            code, [FIRST] * count, [(2,)] * least_out
        )
    for count in {least_out - 1, most_out + 1} - {-1, ANY + 1}:
        assert f"{code} has {count} output{'' if count == 1 else 's'}, not" in refusal(
            code, [FIRST] * least_in, [(2,)] * count
        )


# Operators that share a rule, with tensors that break it and what is said then.
SHARED: dict[str, tuple[list[Input | None], tuple[int, ...], str]] = {
    """
    ABS CAST CEIL COS DEQUANTIZE ELU EXP FLOOR GELU HARD_SWISH L2_NORMALIZATION LEAKY_RELU LOG LOGICAL_NOT LOGISTIC
    LOG_SOFTMAX NEG QUANTIZE RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT SIGN SIN SOFTMAX SQRT SQUARE SQUEEZE TANH
    ZEROS_LIKE
    """: ([FIRST], (7,), "produce 6 elements"),
    "CUMSUM EXPAND_DIMS REVERSE_SEQUENCE REVERSE_V2": ([FIRST, Input((1,), (0,))], (7,), "produce 6 elements"),
    """
    ADD ATAN2 BITWISE_XOR DIV EQUAL FLOOR_DIV FLOOR_MOD GREATER GREATER_EQUAL LESS LESS_EQUAL LOGICAL_AND LOGICAL_OR
    MAXIMUM MINIMUM MUL NOT_EQUAL POW RIGHT_SHIFT SQUARED_DIFFERENCE SUB
    """: ([FIRST, Input((4, 3))], (2, 3), "incompatible shapes"),
    "ARG_MAX ARG_MIN MEAN REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD SUM": (
        [FIRST, Input((1,), (-100,))],
        (2,),
        "axis -100",
    ),
    "AVERAGE_POOL_2D L2_POOL_2D MAX_POOL_2D": ([FIRST], (2, 3), "with 2 dimensions instead of 4"),
    "DEPTH_TO_SPACE SPACE_TO_DEPTH": ([Input((1, 2, 2, 4))], (1, 2, 2, 4), "block_size 0"),
    "MIRROR_PAD PAD PADV2": ([FIRST, Input((3, 2), (0,) * 6)], (2, 3), "not 2 numbers for each of 2 dimensions"),
    "RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR": ([FIRST, Input((2,), (4, 4))], (2, 3), "with 2 dimensions instead of 4"),
}


@pytest.mark.parametrize(
    ("code", "inputs", "output", "message"),
    [(code, *broken) for codes, broken in SHARED.items() for code in codes.split()],
    ids=" ".join(SHARED).split(),
)
def test_each_operator_has_the_rule_it_shares(
    code: str, inputs: list[Input | None], output: tuple[int, ...], message: str
) -> None:
    assert message in refusal(code, inputs, [output])
