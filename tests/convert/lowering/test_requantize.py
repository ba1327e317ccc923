"""Tensors that need two scales, and normalizations that no convolution takes in: traced otherwise, same values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.model.reader import read_model
from tests.convert.lowering.lowered import (
    assert_exact,
    converted,
    functional,
    inputs_of,
    keras,
    outputs,
    plan,
    sequential,
    shaken,
    sqnr_db,
    tf,
    traced_operations,
)

pytest.importorskip("tflite_micro", reason="needs the verify extra")
layers, ops = keras.layers, keras.ops


def _pair(x: Any, kind: str | None = None) -> list[Any]:
    return [layers.Dense(6, activation="relu")(x), layers.Dense(6, activation=kind)(x)]


def _choice(x: Any) -> list[Any]:
    y = layers.Dense(6)(x)
    return [ops.where(y > 0.0, y, 0.3 * y), ops.clip(y, -0.2, 0.3), y * 2.0]


def _joined(x: Any) -> list[Any]:
    pair = _pair(x, "tanh")
    return [layers.Maximum()(pair), layers.Concatenate()(pair)]


def _smaller(x: Any) -> list[Any]:
    pair = _pair(x)
    return [layers.Minimum()(pair), layers.Add()(pair)]


def _pools(x: Any) -> list[Any]:
    y = layers.Conv1D(6, 3)(x)
    return [layers.AdaptiveAveragePooling1D(3)(y), layers.AdaptiveMaxPooling1D(4)(y)]


SHARED: dict[str, tuple[tuple[int, ...], Callable[[Any], list[Any]], int]] = {
    "smaller": ((8,), _smaller, 2),
    "choice": ((8,), _choice, 2),
    "joined": ((8,), _joined, 3),
    "pools": ((14, 4), _pools, 1),
}


@pytest.mark.parametrize("name", SHARED)
def test_a_shared_tensor_gets_a_scale_for_each_need(name: str) -> None:
    shape, build, count = SHARED[name]
    model = functional(shape, build)
    assert traced_operations(model)["LeakyRelu"] == count
    assert traced_operations(model, "float32")["LeakyRelu"] == 0
    assert_exact(model)


def test_a_tensor_without_other_readers_stays() -> None:
    model = functional((8,), lambda x: layers.Dense(3)(layers.Minimum()(_pair(x, "tanh"))))
    assert traced_operations(model)["LeakyRelu"] == 0
    rectified = functional((8, 8, 3), lambda x: _pooled_twice(layers.Conv2D(4, 3, activation="relu")(x)))
    assert traced_operations(rectified)["LeakyRelu"] == 0


def _pooled_twice(x: Any) -> list[Any]:
    return [layers.MaxPooling2D()(x), layers.AveragePooling2D(2)(x)]


def test_on_tflm_neither_reader_is_clipped(tmp_path: Path) -> None:
    model = functional((8,), lambda x: [*_smaller(x), *_joined(x)])
    samples = inputs_of(model, 40)
    content, order = converted(model, tmp_path, samples)
    expected = outputs(model, samples[:10])
    ratios = sqnr_db(content, samples[:10], [expected[place] for place in order])
    assert min(ratios) >= 30.0, ratios


def _with_statistics(model: Any, spread: float) -> Any:
    random = np.random.default_rng(3)
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            count = layer.moving_mean.shape[0]
            layer.moving_mean.assign(random.normal(0, 0.3, count))
            layer.moving_variance.assign(np.exp(random.normal(0, spread, count)))
    return model


def _behind(shape: tuple[int, ...], *last: Any, activation: str | None = "relu") -> Any:
    convolution = {1: layers.Conv1D, 2: layers.Conv2D, 3: layers.Conv3D}[len(shape) - 1]
    keras.utils.set_random_seed(1)  # how much is won by scales of its own depends on the weights
    model = sequential(shape, convolution(8, 2, activation=activation), layers.BatchNormalization(), *last)
    return _with_statistics(model, 1.5)


@pytest.mark.parametrize(("shape", "expected"), [((90, 3), 1), ((12, 13, 3), 1), ((6, 7, 8, 2), 0)])
def test_normalization_behind_an_activation_becomes_a_convolution(shape: tuple[int, ...], expected: int) -> None:
    model = _behind(shape, layers.Flatten(), layers.Dense(3))
    assert traced_operations(model)["DepthwiseConv2dNative"] == expected
    assert_exact(model)


def test_normalizations_that_would_fill_the_arena_stay() -> None:
    """Eight bytes of each channel, of an eighth of the largest tensor's bytes."""
    shape = (9, 9, 4)
    model = sequential(
        shape, *[part for _ in range(5) for part in (layers.ReLU(), layers.BatchNormalization())], layers.Flatten()
    )
    assert traced_operations(model)["DepthwiseConv2dNative"] == 9 * 9 * 4 // 8 // (8 * 4) == 1
    assert_exact(model)


def test_normalization_behind_a_convolution_is_still_absorbed(tmp_path: Path) -> None:
    model = _behind((8, 8, 3), layers.ReLU(), activation=None)
    assert traced_operations(model)["DepthwiseConv2dNative"] == 0
    content, _ = converted(model, tmp_path, inputs_of(model, 8))
    assert [operator.code for operator in read_model(content).main.operators] == ["CONV_2D"]


def test_each_channel_of_a_normalization_has_its_scale(tmp_path: Path) -> None:
    model = _behind((10, 10, 3), layers.Flatten(), layers.Dense(4))
    samples = inputs_of(model, 40)
    expected = outputs(model, samples[:10])
    better, _ = converted(model, tmp_path, samples)
    (tmp_path / "plain").mkdir()
    plain, _ = converted(model, tmp_path / "plain", samples, lower=False)
    assert len(read_model(better).main.operators) < len(read_model(plain).main.operators)
    assert sqnr_db(better, samples[:10], expected)[0] > max(30.0, sqnr_db(plain, samples[:10], expected)[0])


@settings(max_examples=20)
@given(st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=30))
def test_the_error_function(values: list[float]) -> None:
    from math import erf

    from edgetool.convert.lowering.activations import FUNCTIONS
    from edgetool.convert.lowering.context import FunctionContext, LoweringOptions

    context = FunctionContext(tf, LoweringOptions(), {}, tf.math.erf)
    expected = np.array([erf(value) for value in values])
    found, complement = (np.asarray(FUNCTIONS[key](context)(tf.constant(values))) for key in ("math.erf", "math.erfc"))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(complement, 1 - expected, atol=1e-6)


def test_the_error_function_in_a_model() -> None:
    model = shaken(functional((5,), lambda x: [ops.erf(x * 3.0), ops.erfc(x)]))
    assert traced_operations(model)["Erf"] == 0
    assert_exact(model)


@pytest.mark.parametrize(("mode", "reported"), [("log", 1), ("psd", 1), ("real", 0)])
def test_a_spectrogram_that_int8_cannot_hold_is_reported(mode: str, reported: int) -> None:
    spectra = layers.STFTSpectrogram(mode=mode, frame_length=16, frame_step=8, fft_length=16, name="spectra")
    model = sequential((64, 1), spectra)
    assert len(plan(model).notes) == reported
    assert all("--keep-float spectra" in note for note in plan(model).notes)
    assert plan(model, "float32").notes == ()
