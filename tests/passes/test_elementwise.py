"""The float64 functions of elementwise operators, against LiteRT in float32."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.model.types import DType, Model, Operator, Quantization, Tensor
from edgetool.passes.elementwise import FUSED, apply, dequantized, is_function, is_quantized, quantized
from tests.passes.chains import BOOL, FLOAT, INT8, REAL, TRUTH, Chain, plain_litert

ONE = "ABS CEIL COS ELU EXP FLOOR HARD_SWISH LOG LOGISTIC NEG RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT SIGN SIN"
ONE += " SQRT SQUARE TANH ZEROS_LIKE"
TWO = "ADD ATAN2 DIV FLOOR_DIV FLOOR_MOD MAXIMUM MINIMUM MUL POW SQUARED_DIFFERENCE SUB"
COMPARED = "EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL NOT_EQUAL"
OPTIONS = {"GELU": [{"approximate": True}, {"approximate": False}], "LEAKY_RELU": [{"alpha": 0.25}]}
COUNT = 101


def test_functions_are_those_of_the_operators() -> None:
    pytest.importorskip("ai_edge_litert")
    chain = Chain([1, COUNT])
    x, y, p, q = chain.made(REAL), chain.made(REAL), chain.made(TRUTH), chain.made(TRUTH)
    outputs = [chain.step(code, [y if code == "RSQRT" else x], REAL) for code in ONE.split()]  # y has no 0
    outputs += [chain.step(code, [x, y], REAL) for code in TWO.split()]
    outputs += [chain.step(code, [x, y], TRUTH) for code in COMPARED.split()]
    outputs += [chain.step(code, [x], REAL, **fields) for code, all_ in OPTIONS.items() for fields in all_]
    outputs += [chain.step(code, [p, q], TRUTH) for code in ("LOGICAL_AND", "LOGICAL_OR")]
    outputs += [chain.step("LOGICAL_NOT", [p], TRUTH), chain.step("SELECT_V2", [p, x, y], REAL)]
    outputs += [chain.step("SELECT", [p, x, y], REAL), chain.step("CAST", [p], REAL, in_data_type="BOOL")]
    alpha = chain.tensor([1], FLOAT, data=np.float32(0.3).tobytes())
    outputs.append(chain.step("PRELU", [x, alpha], REAL))
    outputs += [
        chain.step("ADD", [x, y], REAL, fused_activation_function=name) for name in ("RELU", "RELU_N1_TO_1", "RELU6")
    ]
    model = chain.model([x, y, p, q], outputs)
    random = np.random.default_rng(0)
    known = {
        x: np.linspace(-5, 5, COUNT, dtype=np.float32)[None],
        y: random.permutation(np.linspace(-3.01, 3, COUNT, dtype=np.float32))[None],
        p: random.integers(0, 2, (1, COUNT)).astype(bool),
        q: random.integers(0, 2, (1, COUNT)).astype(bool),
        alpha: np.float32([0.3]),
    }
    made = plain_litert(model, tuple(known[index] for index in (x, y, p, q)))
    for operator, result in zip(model.main.operators, made, strict=True):
        expected = apply(operator, *(known[index].astype(np.float64) for index in operator.inputs))
        assert expected.dtype == np.float64
        np.testing.assert_allclose(result.astype(np.float64), expected, rtol=2e-6, atol=2e-6, err_msg=operator.code)


def tensor(scale: float, zero_point: int, dtype: DType = INT8) -> Tensor:
    return Tensor(0, "t", (), dtype, None, Quantization((scale,), (zero_point,), 0), False)


def test_rounding_is_that_of_quantize() -> None:
    pytest.importorskip("ai_edge_litert")
    chain = Chain([1, 1001])
    x = chain.made(REAL)
    result = chain.step("QUANTIZE", [x], (INT8, 0.25, -5))
    model: Model = chain.model([x], [result])
    values = np.linspace(-50, 50, 1001, dtype=np.float32)[None]  # ties, and both ends
    (made,) = plain_litert(model, (values,))
    assert np.array_equal(quantized(values.astype(np.float64), tensor(0.25, -5)), made)


@given(st.floats(1e-6, 1e3), st.integers(-128, 127), st.sampled_from([INT8, DType.INT16, DType.UINT8]))
@settings(max_examples=50)
def test_every_code_comes_back(scale: float, zero_point: int, dtype: DType) -> None:
    zero_point = abs(zero_point) if dtype is DType.UINT8 else zero_point
    own = tensor(scale, zero_point, dtype)
    lowest = 0 if dtype is DType.UINT8 else -(2 ** (dtype.bits - 1))
    codes = np.arange(lowest, lowest + 2**dtype.bits)
    assert np.array_equal(quantized(dequantized(codes, own), own), codes)


def test_operators_that_are_not_elementwise_functions() -> None:
    chain = Chain([1, 4])
    x = chain.made(REAL)
    chain.step("SOFTMAX", [x], REAL)
    chain.step("ADD", [x, x], REAL, fused_activation_function="SIGN_BIT")
    assert not any(is_function(operator) for operator in chain.operators)
    assert "SIGN_BIT" not in FUSED
    with pytest.raises(KeyError):
        apply(Operator(0, "SOFTMAX", 1, (0,), (1,), None), np.zeros(3))


def test_only_one_scale_makes_a_tensor_quantized() -> None:
    two = Tensor(0, "t", (2,), INT8, None, Quantization((0.5, 0.25), (0, 0), 0), False)
    assert is_quantized(tensor(0.5, 0))
    assert not is_quantized(two)
    assert not is_quantized(Tensor(0, "t", (2,), INT8, None, None, False))
    assert not is_quantized(Tensor(0, "t", (2,), BOOL, None, Quantization((0.5,), (0,), 0), False))
