"""Operators that TensorFlow Lite Micro has in float32 alone, in quantized graphs."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from edgetool.model.types import DType
from edgetool.passes.legalize import ELEMENTWISE_RULES as ELEMENTWISE_RULES
from edgetool.passes.legalize import legalize
from tests.passes.chains import FLOAT, INT8, INT16, REAL, TRUTH, Chain, Kind, legal
from tests.passes.runs import codes, litert, runtime, tflm

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
