"""Operators that TensorFlow Lite Micro has in no type: the same values in float32 and int32.

GELU in a cheaper form, if the user allows it: the reported error is the actual one.

Operators that TensorFlow Lite Micro has in float32 alone, in quantized graphs.
"""

from __future__ import annotations

import math
from math import erf, sqrt

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.model.types import DType, Model
from edgetool.passes.legalize import ELEMENTWISE_RULES as ELEMENTWISE_RULES
from edgetool.passes.legalize import Legalized, legalize
from tests.passes.chains import BOOL, FLOAT, INT8, INT16, INT32, REAL, TRUTH, Chain, Kind, legal, plain_litert
from tests.passes.runs import Net, codes, litert, runtime, tflm

CHEAP_FLOAT = ["SQUARE", "MUL", "ADD", "MUL", "LOGISTIC", "MUL"]
CHEAP_INT16 = ["MUL", "MUL", "ADD", "MUL", "LOGISTIC", "MUL"]


def gelu(x: np.ndarray) -> np.ndarray:
    return np.asarray([v * 0.5 * (1 + erf(v / sqrt(2))) for v in x.reshape(-1)]).reshape(x.shape)


def model_of(kind: Kind, result: Kind, size: int, *, approximate: bool = False) -> Model:
    chain = Chain([1, size])
    x = chain.made(kind)
    return chain.model([x], [chain.step("GELU", [x], result, approximate=approximate)])


def allowed(model: Model) -> Legalized:
    return legalize(model, runtime(), allow_approximation=True, rules=ELEMENTWISE_RULES)


@pytest.mark.parametrize("power", [-15, -13, -12, -10], ids=["1", "4", "8", "32"])
def test_the_error_in_int16_is_reported(power: int) -> None:
    """For inputs up to 1, 4, 8 and 32, over all their 65536 codes."""
    kind: Kind = (INT16, 2.0**power, 0)
    result = allowed(model_of(kind, kind, 65536))
    assert codes(result.model) == CHEAP_INT16
    error = result.applied[0].error
    assert error is not None
    assert error < 6e-4 + 2 * kind[1]
    given = (np.arange(-32768, 32768).astype(np.int16).reshape(1, 1, -1),)
    exact = gelu(given[0] * kind[1])
    for engine in (tflm, litert):
        made = np.abs(engine(result.model, given)[0] * kind[1] - exact).max()
        assert made <= error + 3 * kind[1] + 2e-4  # kernels round each product in 16 bits
        assert made >= 0.5 * error


def test_the_error_in_float32_is_reported() -> None:
    result = allowed(model_of(REAL, REAL, 20001))
    assert codes(result.model) == CHEAP_FLOAT
    error = result.applied[0].error
    assert error == pytest.approx(2.7e-4, rel=0.05)
    values = np.linspace(-20, 20, 20001, dtype=np.float32).reshape(1, 1, -1)
    (made,) = tflm(result.model, (values,))
    assert np.abs(made - gelu(values.astype(np.float64))).max() == pytest.approx(error, rel=0.02)
    assert "with an error of up to 0.00027" in result.sentences({})[0]


def test_int8_and_the_tanh_form_in_float32_are_exact_anyway() -> None:
    int8: Kind = (INT8, 1 / 16, 0)
    for model in (model_of(int8, int8, 16), model_of(REAL, REAL, 16, approximate=True)):
        result = allowed(model)
        assert [change.error for change in result.applied] == [None]
        assert result.model == legalize(model, runtime(), rules=ELEMENTWISE_RULES).model


def test_nothing_is_approximated_without_permission() -> None:
    kind: Kind = (INT16, 2.0**-13, 0)
    result = legalize(model_of(kind, kind, 16), runtime(), rules=ELEMENTWISE_RULES)
    assert {change.error for change in result.applied} == {None}
    assert "DEQUANTIZE" in codes(result.model)


INTEGER: Kind = (INT32, 0.0, 0)
EXPONENTS = (0.5, -0.5, 1.5, 0.25, 1.0, 2.0, 3.0, 7.0, -1.0, -2.0, 0.3, -1.7)


def test_float_formulas_agree_with_litert() -> None:
    chain = Chain([1, 501])
    x, above = chain.made(REAL), chain.made(REAL)
    outputs = [chain.step("GELU", [x], REAL, approximate=form) for form in (False, True)]
    outputs += [chain.step(code, [x], REAL) for code in ("SIGN", "RELU_0_TO_1", "RELU_N1_TO_1")]
    outputs += [chain.step("POW", [above, chain.number(number, REAL)], REAL) for number in EXPONENTS]
    outputs += [chain.step("POW", [x, chain.number(number, REAL)], REAL) for number in (2.0, 3.0)]
    outputs.append(chain.step("POW", [chain.number(1.5, REAL), x], REAL))
    model = chain.model([x, above], outputs)
    made = legal(model).model
    values = (np.linspace(-8, 8, 501, dtype=np.float32)[None], np.linspace(0.1, 4, 501, dtype=np.float32)[None])
    before = plain_litert(model, values)
    batch = tuple(one[None] for one in values)
    for engine in (litert, tflm):
        for old, new in zip(before, engine(made, batch), strict=True):
            np.testing.assert_allclose(new[0], old, rtol=1e-5, atol=1e-5)
    assert "POW" not in codes(made)


def test_gelu_is_as_exact_as_float32() -> None:
    chain = Chain([1, 40001])
    x = chain.made(REAL)
    made = legal(chain.model([x], [chain.step("GELU", [x], REAL, approximate=False)])).model
    values = np.linspace(-14, 14, 40001, dtype=np.float32)
    exact = np.asarray([v * 0.5 * (1 + erf(v / sqrt(2))) for v in values.astype(np.float64)])
    (result,) = tflm(made, (values.reshape(1, 1, -1),))
    assert np.abs(result.reshape(-1) - exact).max() < 1e-6
    far = np.float32([-1e30, -1e4, -30, 30, 1e4, 1e30])
    (ends,) = tflm(made, (np.resize(far, 40001).reshape(1, 1, -1),))
    assert ends.reshape(-1)[:6].tolist() == [0, 0, 0, *far[3:].tolist()]


@given(st.integers(1, 15), st.booleans(), st.floats(0.25, 3.0))
@settings(max_examples=25)
def test_whole_powers_take_few_multiplications(exponent: int, negative: bool, value: float) -> None:
    chain = Chain([1, 1])
    x = chain.made(REAL)
    power = chain.step("POW", [x, chain.number(-exponent if negative else exponent, REAL)], REAL)
    made = legalize(chain.model([x], [power]), runtime(), rules=ELEMENTWISE_RULES).model
    assert codes(made).count("MUL") <= 6
    known = {made.main.inputs[0]: value}
    for operator in made.main.operators:
        a, b = (known.get(i, _number(made.main.tensors[i].data)) for i in operator.inputs)
        known[operator.outputs[0]] = a * b if operator.code == "MUL" else a / b
    assert known[made.main.outputs[0]] == pytest.approx(value ** (-exponent if negative else exponent), rel=1e-9)


def _number(data: bytes | None) -> float:
    return float(np.frombuffer(data, np.float32)[0]) if data else 0.0


def test_integers() -> None:
    chain = Chain([1, 7])
    x = chain.made(INTEGER)
    outputs = [chain.step(code, [x], INTEGER) for code in ("ABS", "NEG", "SIGN", "SQUARE")]
    made = legal(chain.model([x], outputs)).model
    values = np.int32([[-(2**31), -70000, -1, 0, 1, 70000, 2**31 - 1]])
    expected = (np.abs(values), -values, np.sign(values), values * values)
    for engine in (tflm, litert):
        for result, wanted in zip(engine(made, (values[None],)), expected, strict=True):
            assert np.array_equal(result[0], wanted)


@pytest.mark.parametrize("exponent", [0.0, 16.0, None])
def test_powers_without_a_formula_stay(exponent: float | None) -> None:
    """x^0 of 0, large powers, and of two tensors where EXP and LOG would fail below 0."""
    chain = Chain([1, 4])
    x, y = chain.made(REAL), chain.made(REAL)
    chosen = y if exponent is None else chain.number(exponent, REAL)
    model = chain.model([x, y], [chain.step("POW", [x, chosen], REAL), chain.step("ABS", [y], REAL)])
    result = legalize(model, runtime(), rules=ELEMENTWISE_RULES)
    assert (result.model, result.applied) == (model, ())


def test_a_base_below_zero_stays() -> None:
    chain = Chain([1, 4])
    x = chain.made(REAL)
    model = chain.model([x], [chain.step("POW", [chain.number(-2.0, REAL), x], REAL)])
    assert legalize(model, runtime(), rules=ELEMENTWISE_RULES).applied == ()


def test_types_of_the_new_tensors() -> None:
    chain = Chain([1, 4])
    x = chain.made(REAL)
    made = legal(chain.model([x], [chain.step("SIGN", [x], REAL)])).model
    assert codes(made) == ["GREATER", "CAST", "LESS", "CAST", "SUB"]
    assert {tensor.dtype for tensor in made.main.tensors} == {FLOAT, BOOL}
    assert all(tensor.dtype is not DType.INT32 for tensor in made.main.tensors)


def test_powers_of_one_number_for_many_and_of_none() -> None:
    """A result that is larger than what varies, and numbers that have no place in a formula, are left alone."""
    net = Net()
    y, bases = net.input([1], FLOAT), net.constant([2, 2, 2, 2], FLOAT)
    model = net.model([y], net.add_operator("POW", [bases, y], [4], version=1, table="PowOptions"))
    assert legalize(model, runtime()).model is model
    for base, exponent in ((None, np.inf), (None, np.nan), (np.inf, None), (np.nan, None), (0.0, None), (-2.0, None)):
        net = Net()
        x = net.input([4], FLOAT)
        inputs = [x if number is None else net.constant(number, FLOAT) for number in (base, exponent)]
        model = net.model([x], net.add_operator("POW", inputs, [4], version=1, table="PowOptions"))
        assert legalize(model, runtime()).model is model


SOURCE: Kind = (INT16, 2.0**-12, 0)
RESULT: Kind = (INT16, float(np.float32(0.00053)), 0)  # no multiple, so that no value lies between two codes
Reals = npt.NDArray[np.float64]


def rounded(values: Reals, kind: Kind) -> Reals:
    steps = values / kind[1]
    return np.clip(np.copysign(np.floor(np.abs(steps) + 0.5), steps), -32768, 32767)


def numbers(count: int, seed: int = 0) -> npt.NDArray[np.int16]:
    return np.random.default_rng(seed).integers(-32768, 32768, (1, 1, count)).astype(np.int16)


def test_chains_of_int16_run_in_float32_and_are_exact() -> None:
    chain = Chain([1, 4096])
    x = chain.made(SOURCE)
    one = chain.number(32767, (INT16, 1 / 32767, 0))
    grown = chain.step("EXP", [x], RESULT)
    softplus = chain.step("LOG", [chain.step("ADD", [grown, one], RESULT)], RESULT)
    mish = chain.step("MUL", [x, chain.step("TANH", [softplus], (INT16, 1 / 32768, 0))], RESULT)
    gelu = chain.step("GELU", [x], RESULT, approximate=False)
    made = legal(chain.model([x], [mish, gelu, chain.step("COS", [x], SOURCE)])).model
    found = codes(made)
    assert found.count("DEQUANTIZE") == 3
    assert found.count("QUANTIZE") == 3
    given = (numbers(4096),)
    real = given[0].reshape(-1) * SOURCE[1]
    normal = np.vectorize(lambda v: 0.5 * (1 + math.erf(v / math.sqrt(2))))(real)
    expected = [
        rounded(real * np.tanh(np.log1p(np.exp(real))), RESULT),
        rounded(real * normal, RESULT),
        rounded(np.cos(real), SOURCE),
    ]
    for engine in (tflm, litert):
        for result, wanted in zip(engine(made, given), expected, strict=True):
            apart = np.abs(result.reshape(-1) - wanted)
            assert apart.max() <= 1  # float32 rounds to the other side of a tie now and then
            assert np.count_nonzero(apart) <= 8


def test_islands_of_two_tensors_join() -> None:
    """DIV and SQUARED_DIFFERENCE of tensors, one after the other: one QUANTIZE at the end."""
    chain = Chain([1, 512])
    x, y = chain.made(SOURCE), chain.made(SOURCE)
    ratio = chain.step("DIV", [x, y], RESULT)
    apart = chain.step("FLOOR_MOD", [ratio, y], RESULT)
    made = legal(chain.model([x, y], [apart])).model
    assert codes(made) == ["DEQUANTIZE", "DEQUANTIZE", "DIV", "DEQUANTIZE", "FLOOR_MOD", "QUANTIZE"]
    a, b = numbers(512), np.abs(numbers(512, 1)) // 4 + 8000
    b = b.astype(np.int16)
    values = (a * SOURCE[1]) / (b * SOURCE[1])
    wanted = rounded(np.mod(values, b * SOURCE[1]), RESULT)
    for engine in (tflm, litert):
        (result,) = engine(made, (a, b))
        assert np.abs(result - wanted).max() <= 1


def test_comparisons_give_truth_without_a_scale() -> None:
    chain = Chain([1, 6])
    x, y = chain.made(SOURCE), chain.made((INT16, 2.0**-9, 0))
    made = legal(chain.model([x, y], [chain.step("LESS", [x, y], TRUTH)])).model
    assert codes(made) == ["DEQUANTIZE", "DEQUANTIZE", "LESS"]
    a, b = np.int16([[[8, 16, 24, -8, 0, 7]]]), np.int16([[[1, 1, 4, -2, 0, 1]]])
    for engine in (tflm, litert):
        (result,) = engine(made, (a, b))
        assert result.tolist() == [[[False, False, True, False, False, True]]]


def test_constants_that_the_converter_left_quantized() -> None:
    """It leaves comparisons in float32 in a graph of 16 bits, but quantizes what they compare with."""
    chain = Chain([1, 4])
    x = chain.made(REAL)
    half = chain.number(16384, (INT16, 2.0**-15, 0))
    made = legal(chain.model([x], [chain.step("GREATER", [x, half], TRUTH)])).model
    assert codes(made) == ["GREATER"]
    given = (np.float32([[[0.25, 0.5, 0.50001, -1]]]),)
    for engine in (tflm, litert):
        assert engine(made, given)[0].tolist() == [[[False, False, True, False]]]


def test_other_operators_without_weights() -> None:
    chain = Chain([1, 8])
    x = chain.made(SOURCE)
    axis = chain.tensor([1], DType.INT32, data=np.int32([1]).tobytes())
    largest = chain.tensor([1], INT16, scales=(SOURCE[1],))
    chain.operator("REDUCE_MAX", [x, axis], [largest], version=3)
    made = legal(chain.model([x], [largest])).model
    assert codes(made) == ["DEQUANTIZE", "REDUCE_MAX", "QUANTIZE"]
    given = (numbers(8),)
    assert tflm(made, given)[0].item() == given[0].max()


def test_int8_of_two_tensors() -> None:
    chain = Chain([1, 256])
    kind: Kind = (INT8, 0.125, 0)
    x, y = chain.made(kind), chain.made(kind)
    made = legal(chain.model([x, y], [chain.step("FLOOR_MOD", [x, y], kind)])).model
    assert codes(made) == ["DEQUANTIZE", "DEQUANTIZE", "FLOOR_MOD", "QUANTIZE"]
    a = np.arange(-128, 128).astype(np.int8).reshape(1, 1, 256)
    b = np.full_like(a, 24)
    for engine in (tflm, litert):
        assert np.array_equal(engine(made, (a, b))[0], np.mod(a, b))


@pytest.mark.parametrize("code", ["CONV_2D", "LSH_PROJECTION"])
def test_weights_and_the_unknown_stay(code: str) -> None:
    chain = Chain([1, 4])
    x = chain.made(SOURCE)
    result = chain.made(SOURCE)
    chain.operator(code, [x, chain.made(SOURCE)], [result])
    model = chain.model([x], [result])
    assert legalize(model, runtime(), rules=ELEMENTWISE_RULES).applied == ()
    assert FLOAT not in {tensor.dtype for tensor in model.main.tensors}
