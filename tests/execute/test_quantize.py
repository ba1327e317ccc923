"""Quantizing as TensorFlow Lite does it, against plain arithmetic on single numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool import errors
from edgetool.execute.quantize import NUMPY_DTYPES, dequantize, numpy_dtype, quantize, random_inputs
from edgetool.model.types import DType, Graph, Model, Quantization, Tensor

QUANTIZED = (DType.INT8, DType.UINT8, DType.INT16)
scales = st.floats(2**-20, 2**10, width=32)
reals = st.floats(-(2**20), 2**20, width=32)


def affine(scale: float, zero_point: int = 0) -> Quantization:
    return Quantization((scale,), (zero_point,), 0)


def expected(real: float, scale: float, zero_point: int, dtype: DType) -> int:
    """One number, by exact fractions but for the float32 division."""
    quotient = Fraction(float(np.float32(real) / np.float32(scale)))
    rounded = math.floor(abs(quotient) + Fraction(1, 2)) * (1 if quotient >= 0 else -1)
    limits = np.iinfo(NUMPY_DTYPES[dtype])
    return min(max(rounded + zero_point, int(limits.min)), int(limits.max))


@given(reals, scales, st.integers(-128, 127), st.sampled_from(QUANTIZED))
def test_each_number_is_rounded_shifted_and_saturated(real: float, scale: float, zero_point: int, dtype: DType) -> None:
    raw = quantize([real], affine(scale, zero_point), dtype)
    assert raw.dtype == NUMPY_DTYPES[dtype]
    assert int(raw[0]) == expected(real, scale, zero_point, dtype)


@given(scales, st.integers(-128, 127))
def test_every_int8_value_survives_the_way_back_and_forth(scale: float, zero_point: int) -> None:
    raw = np.arange(-128, 128, dtype=np.int8)
    kept = affine(scale, zero_point)
    np.testing.assert_array_equal(quantize(dequantize(raw, kept), kept, DType.INT8), raw)


def test_halves_go_away_from_zero() -> None:
    raw = quantize([0.5, -0.5, 1.5, -1.5, 2.5, 0.49999997, -0.49999997], affine(1.0), DType.INT8)
    assert raw.tolist() == [1, -1, 2, -2, 3, 0, 0]


def test_infinity_saturates_and_nan_is_refused() -> None:
    assert quantize([np.inf, -np.inf], affine(0.1, 7), DType.INT8).tolist() == [127, -128]
    assert quantize([3e38, -3e38], affine(1e-6), DType.INT16).tolist() == [32767, -32768]
    with pytest.raises(errors.UsageError, match=r"element \[1, 0\]: NaN"):
        quantize([[0.0, 1.0], [np.nan, 2.0]], affine(0.1), DType.INT8)


def test_per_channel_parameters_follow_their_axis() -> None:
    kept = Quantization((1.0, 0.5), (0, 10), 1)
    raw = quantize([[1, 1], [2, 2], [3, 3]], kept, DType.INT8)
    assert raw.tolist() == [[1, 12], [2, 14], [3, 16]]
    np.testing.assert_array_equal(dequantize(raw, kept), [[1, 1], [2, 2], [3, 3]])


@pytest.mark.parametrize("quantization", [None, Quantization((), (), 0, (-1.0,), (1.0,))])
def test_without_scales_numbers_stay_what_they_are(quantization: Quantization | None) -> None:
    assert quantize([1, 300, -300], quantization, DType.INT8).tolist() == [1, 127, -128]
    assert quantize([1.5, 300.0], quantization, DType.UINT8).tolist() == [2, 255]
    assert quantize(np.array([200], np.uint8), quantization, DType.INT8).tolist() == [127]
    assert quantize([2**62, -5], quantization, DType.INT64).tolist() == [2**62, -5]
    assert quantize([1e30, -1e30], quantization, DType.INT64).tolist() == [2**63 - 1, -(2**63)]
    assert quantize([1e30, -1e30], quantization, DType.INT32).tolist() == [2**31 - 1, -(2**31)]
    assert quantize([0.0, 2.0], quantization, DType.BOOL).tolist() == [False, True]
    assert dequantize(np.array([3], np.int32), quantization).tolist() == [3.0]


def test_floats_are_only_cast() -> None:
    real = np.array([0.1, np.nan, -np.inf])
    np.testing.assert_array_equal(quantize(real, None, DType.FLOAT32), real.astype(np.float32))
    np.testing.assert_array_equal(dequantize(real.astype(np.float32), None), real.astype(np.float32))


def test_a_dtype_without_arrays_is_refused() -> None:
    for dtype in set(DType) - set(NUMPY_DTYPES):
        with pytest.raises(errors.UnsupportedModelError, match=dtype.name):
            numpy_dtype(dtype)
    for dtype, kind in NUMPY_DTYPES.items():
        assert kind.itemsize * 8 == dtype.bits


def model(*kinds: tuple[tuple[int, ...], DType, Quantization | None]) -> Model:
    tensors = tuple(
        Tensor(index, f"t{index}", shape, dtype, None, quantization, False)
        for index, (shape, dtype, quantization) in enumerate(kinds)
    )
    graph = Graph(0, "main", tensors, (), tuple(range(len(tensors))), ())
    return Model(3, "", (), (graph,), ())


def test_random_inputs_fill_the_range_of_their_dtype() -> None:
    inputs = random_inputs(
        model(
            ((1, 40), DType.INT8, affine(0.1)),
            ((1, 5, 2), DType.INT16, affine(0.1)),
            ((3,), DType.FLOAT32, None),
            ((), DType.INT32, None),
            ((2,), DType.BOOL, None),
        ),
        200,
        seed=1,
    )
    assert [(array.shape, array.dtype.name) for array in inputs] == [
        ((200, 1, 40), "int8"),
        ((200, 1, 5, 2), "int16"),
        ((200, 3), "float32"),
        ((200,), "int32"),
        ((200, 2), "bool"),
    ]
    assert (inputs[0].min(), inputs[0].max()) == (-128, 127)
    assert inputs[1].min() < -30000
    assert inputs[1].max() > 30000
    assert set(inputs[3].tolist()) == {0, 1}


def test_random_inputs_repeat_with_their_seed() -> None:
    made = [random_inputs(model(((1, 9), DType.INT8, affine(1.0))), 5, seed)[0] for seed in (1, 1, 2)]
    np.testing.assert_array_equal(made[0], made[1])
    assert (made[0] != made[2]).any()
