"""Each lowering is exact: the traced model gives what the model gives, in every configuration it is for.

Tensors that need two scales, and normalizations that no convolution takes in: traced otherwise, same values.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.errors import UnsupportedModelError
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

layers, ops = keras.layers, keras.ops
IMAGE, SERIES, VOLUME = (5, 6, 3), (6, 4), (5, 6, 7, 2)
FIRST = "channels_first"

PLAIN: dict[str, tuple[tuple[int, ...], Callable[[], Any]]] = {
    "up 2d": (IMAGE, lambda: layers.UpSampling2D((2, 3))),
    "up 2d by 49": ((2, 3, 1), lambda: layers.UpSampling2D((49, 1))),
    "up 2d channels first": (IMAGE, lambda: layers.UpSampling2D(2, data_format=FIRST)),
    "up 2d bilinear": (IMAGE, lambda: layers.UpSampling2D((2, 3), interpolation="bilinear")),
    "up 2d bicubic": (IMAGE, lambda: layers.UpSampling2D((2, 3), interpolation="bicubic")),
    "up 2d lanczos": (IMAGE, lambda: layers.UpSampling2D(2, interpolation="lanczos5")),
    "up 1d": (SERIES, lambda: layers.UpSampling1D(3)),
    "up 3d": (VOLUME, lambda: layers.UpSampling3D((2, 1, 3))),
    "up 3d channels first": (VOLUME, lambda: layers.UpSampling3D(2, data_format=FIRST)),
    "resizing down antialiased": ((9, 8, 3), lambda: layers.Resizing(4, 5, antialias=True)),
    "repeat": ((4,), lambda: layers.RepeatVector(5)),
    "max pool 3d": (VOLUME, lambda: layers.MaxPooling3D((2, 3, 2), padding="same")),
    "max pool 3d strides": (VOLUME, lambda: layers.MaxPooling3D(2, strides=(1, 2, 3))),
    "average pool 3d": (VOLUME, lambda: layers.AveragePooling3D((2, 3, 2), padding="same")),
    "average pool 3d strides": (VOLUME, lambda: layers.AveragePooling3D(2, strides=(2, 1, 3))),
    "conv 3d": (VOLUME, lambda: layers.Conv3D(3, (3, 2, 3), activation="relu")),
    "conv 3d same strides": (VOLUME, lambda: layers.Conv3D(3, 3, padding="same", strides=2)),
    "conv 3d dilated": (VOLUME, lambda: layers.Conv3D(3, 2, dilation_rate=(3, 1, 2))),
    "crop 3d": (VOLUME, lambda: layers.Cropping3D(((1, 2), (0, 1), (3, 0)))),
    "adaptive average 1d": (SERIES, lambda: layers.AdaptiveAveragePooling1D(4)),
    "adaptive average 2d": ((7, 9, 3), lambda: layers.AdaptiveAveragePooling2D((3, 4))),
    "adaptive average 2d first": ((3, 8, 9), lambda: layers.AdaptiveAveragePooling2D((2, 4), data_format=FIRST)),
    "adaptive average 3d": (VOLUME, lambda: layers.AdaptiveAveragePooling3D((2, 3, 7))),
    "adaptive max 1d": (SERIES, lambda: layers.AdaptiveMaxPooling1D(2)),
    "adaptive max 2d": ((7, 9, 3), lambda: layers.AdaptiveMaxPooling2D((3, 9))),
    "layer norm of few": (IMAGE, lambda: layers.LayerNormalization(epsilon=1e-5)),
    "layer norm of many": ((4, 40), lambda: layers.LayerNormalization()),
    "layer norm of axes": (IMAGE, lambda: layers.LayerNormalization(axis=(1, 3))),
    "layer norm of rows": (IMAGE, lambda: layers.LayerNormalization(axis=1)),
    "layer norm without weights": (SERIES, lambda: layers.LayerNormalization(center=False, scale=False)),
    "rms norm of few": (SERIES, lambda: layers.RMSNormalization()),
    "rms norm of many": ((4, 40), lambda: layers.RMSNormalization()),
    "unit norm": (SERIES, lambda: layers.UnitNormalization()),
    "unit norm of axes": (IMAGE, lambda: layers.UnitNormalization(axis=(1, 2))),
    "relu slope": (IMAGE, lambda: layers.ReLU(negative_slope=0.1)),
    "relu slope and limit": (IMAGE, lambda: layers.ReLU(0.5, negative_slope=0.1)),
    "relu of all": (IMAGE, lambda: layers.ReLU(0.7, negative_slope=0.1, threshold=0.2)),
    "relu slope and threshold": (IMAGE, lambda: layers.ReLU(negative_slope=0.1, threshold=0.3)),
    "relu threshold": (IMAGE, lambda: layers.ReLU(threshold=0.2)),
    "each step dense": (SERIES, lambda: layers.TimeDistributed(layers.Dense(3, activation="relu"))),
    "each step conv": ((3, *IMAGE), lambda: layers.TimeDistributed(layers.Conv2D(3, 2))),
    "each step lstm": ((3, *SERIES), lambda: layers.TimeDistributed(layers.LSTM(3, unroll=True))),
    "each step each step": ((2, *SERIES), lambda: layers.TimeDistributed(layers.TimeDistributed(layers.Dense(3)))),
    "each step batch norm": (SERIES, lambda: layers.TimeDistributed(layers.BatchNormalization())),
    "bins": (SERIES, lambda: layers.Discretization([-0.5, 0.1, 0.4])),
    "bins one hot": ((4,), lambda: layers.Discretization([-0.5, 0.1], output_mode="one_hot")),
    "bins multi hot": ((4,), lambda: layers.Discretization([-0.5, 0.1], output_mode="multi_hot")),
    "bins count": ((4,), lambda: layers.Discretization([-0.5, 0.1], output_mode="count")),
    "mel": ((600,), lambda: layers.MelSpectrogram(fft_length=128, sequence_stride=64, sampling_rate=8000)),
    "stft": ((200, 2), lambda: layers.STFTSpectrogram(frame_length=64, frame_step=32, fft_length=64)),
    "softmax over rows": (SERIES, lambda: layers.Softmax(axis=1)),
}


@pytest.mark.parametrize("name", PLAIN)
def test_layers(name: str) -> None:
    shape, make = PLAIN[name]
    assert_exact(sequential(shape, make()))


@pytest.mark.parametrize("keepdims", [False, True])
def test_the_largest_of_all_in_16_bits(keepdims: bool) -> None:
    assert_exact(sequential(SERIES, layers.GlobalMaxPooling1D(keepdims=keepdims)), scheme="int16x8")
    assert_exact(sequential(IMAGE, layers.GlobalMaxPooling2D(keepdims=keepdims)), scheme="int16x8")


@pytest.mark.parametrize("mode", ["one_hot", "multi_hot", "count"])
@pytest.mark.parametrize("shape", [(1,), (4,)])
def test_categories(mode: str, shape: tuple[int, ...]) -> None:
    if mode == "one_hot" and shape != (1,):
        shape = (2, 3)
    model = sequential(shape, layers.CategoryEncoding(6, output_mode=mode), dtype="int32")
    assert_exact(model, inputs_of(model, 8, classes=6))


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_embedding(dtype: str) -> None:
    model = sequential((7,), layers.Embedding(20, 6), dtype=dtype)
    assert_exact(model, np.random.default_rng(0).integers(0, 20, (4, 7)).astype(dtype))


def test_an_embedding_that_int8_cannot_index_is_refused() -> None:
    model = sequential((7,), layers.Embedding(128, 6, name="words"))
    with pytest.raises(UnsupportedModelError, match=r"layer 'words' \(Embedding\) accepts 128 indices as float32"):
        outputs(model, inputs_of(model, 1), plan(model))
    assert_exact(sequential((7,), layers.Embedding(128, 6), dtype="int32"))


GRAPHS: dict[str, Callable[[Any], Any]] = {
    "argmax": lambda x: ops.argmax(x, -1),
    "argmax of all": lambda x: ops.argmax(x, keepdims=True),
    "argmin keeps": lambda x: ops.argmin(x, 1, keepdims=True),
    "one hot": lambda x: ops.one_hot(ops.argmax(x, -1), 8),
    "one hot in front": lambda x: ops.one_hot(ops.argmax(x, -1) - 1, 3, axis=1),
    "tile": lambda x: ops.tile(x, (1, 3, 2)),
    "tile to more dimensions": lambda x: ops.tile(x, (1, 2, 1, 3)),
    "repeat": lambda x: ops.repeat(x, 3, axis=-1),
    "repeat all": lambda x: ops.repeat(x, 2),
    "take": lambda x: ops.take(x, [2, -1, 0], axis=1),
    "take by tensor": lambda x: ops.take(x, ops.argmax(x[0], -1) - 2, axis=-1),
    "digitize": lambda x: ops.digitize(x, np.array([-0.2, 0.3])),
    "any": lambda x: ops.any(x > 0.8, axis=-1),
    "any of all": lambda x: ops.any(x > 0.99, axis=(1, 2), keepdims=True),
    "prod": lambda x: ops.prod(x + 2, axis=-1, keepdims=True),
    "prod of all": lambda x: ops.prod(x + 2, axis=(1, 2)),
    "logsumexp": lambda x: ops.logsumexp(x * 20, axis=-1),
    "logsumexp of axes": lambda x: ops.logsumexp(x, axis=(1, 2), keepdims=True),
    "sparse plus": lambda x: ops.sparse_plus(x * 3),
    "top k": lambda x: ops.top_k(x, 2)[0],
    "gelu": lambda x: ops.gelu(x * 3, approximate=False),
    "gelu rectified": lambda x: ops.relu(ops.gelu(x * 3, approximate=False)),
    "gelu by tanh rectified": lambda x: ops.relu6(ops.gelu(x * 3, approximate=True)),
    "resize": lambda x: ops.image.resize(ops.expand_dims(x, -1), (9, 3), interpolation="bicubic"),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_operations(name: str) -> None:
    assert_exact(functional((5, 4), GRAPHS[name]))


HEADS = {
    "heads": lambda x: layers.MultiHeadAttention(2, 3)(x, x),
    "heads causal": lambda x: layers.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True),
    "heads with scores": lambda x: layers.MultiHeadAttention(2, 3)(x, x, return_attention_scores=True),
    "grouped": lambda x: layers.GroupQueryAttention(4, 4, 2)(x, x, use_causal_mask=True),
    "attention": lambda x: layers.Attention()([x, x]),
    "attention causal": lambda x: layers.Attention(use_scale=True)([x, x], use_causal_mask=True),
    "attention concat": lambda x: layers.Attention(score_mode="concat")([x, x]),
    "additive": lambda x: layers.AdditiveAttention()([x, x], use_causal_mask=True),
    "mean": lambda x: layers.GlobalAveragePooling1D()(x),
    "softmax": lambda x: layers.Softmax()(x, mask=ops.not_equal(x, 0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("masked", [False, True])
def test_masks(name: str, masked: bool) -> None:
    model = functional((6, 8), lambda x: HEADS[name](layers.Masking()(x) if masked else x))
    assert_exact(model, inputs_of(model, padded=True), "int16x8" if "causal" in name and not masked else "int8")


@settings(max_examples=30)
@given(st.data())
@pytest.mark.parametrize("scheme", ["int8", "int16x8"])
def test_masked_scores_give_the_softmax_of_the_unmasked_ones(scheme: str, data: Any) -> None:
    """However far the scores lie apart; against softmax by its definition."""
    from edgetool.convert.lowering.selection import masked_scores
    from tests.convert.lowering.lowered import tf

    scale = data.draw(st.sampled_from([0.01, 1.0, 30.0, 1000.0]))
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    scores = random.normal(size=(3, 5)).astype(np.float32) * scale
    mask = random.random((3, 5)) < 0.5
    mask[:, data.draw(st.integers(0, 4))] = True
    scores += data.draw(st.sampled_from([0.0, -200.0]))
    found = np.asarray(tf.nn.softmax(masked_scores(tf, tf.constant(scores), tf.constant(mask), scheme)))
    largest = scores.max(-1, keepdims=True, where=mask, initial=-1e9)
    raised = np.exp(np.where(mask, scores.astype(np.float64) - largest, -np.inf))
    # In 16 bits the scores are shifted twice, each time rounded as large numbers are.
    tolerance = 2e-6 if scheme == "int8" else max(2e-6, 3e-7 * float(np.abs(scores).max()))
    np.testing.assert_allclose(found, raised / raised.sum(-1, keepdims=True), atol=tolerance)


@settings(max_examples=25)
@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    times=st.integers(1, 5),
    axis=st.integers(0, 3),
    each=st.booleans(),
)
def test_copies_are_those_of_numpy(shape: list[int], times: int, axis: int, each: bool) -> None:
    from edgetool.convert.lowering.spatial import copied
    from tests.convert.lowering.lowered import tf

    axis %= len(shape)
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    tiles = [times if place == axis else 1 for place in range(len(shape))]
    expected = np.repeat(x, times, axis) if each else np.tile(x, tiles)
    np.testing.assert_array_equal(np.asarray(copied(tf, tf.constant(x), axis, times, each=each)), expected)


def test_layers_without_a_supported_form_are_rejected() -> None:
    model = functional((4,), lambda x: ops.prod(ops.tile(x, (1, 17)), -1))
    with pytest.raises(UnsupportedModelError, match="multiplies 68 values"):
        outputs(model, inputs_of(model, 1), plan(model))


def test_a_threshold_in_16_bits_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match=r"layer 'step' \(ReLU\) has a threshold"):
        plan(sequential(SERIES, layers.ReLU(threshold=0.2, name="step")), "int16x8")


def test_a_mask_value_that_may_get_lost_is_reported() -> None:
    model = sequential(SERIES, layers.Masking(-1.0, name="skip"), layers.GlobalAveragePooling1D())
    (note,) = plan(model).notes
    assert "'skip' (Masking) compares quantized values with -1, " in note
    assert plan(model, "float32").notes == plan(sequential(SERIES, layers.Masking())).notes == ()


pytest.importorskip("tflite_micro", reason="needs the verify extra")


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_each_channel_of_a_normalization_has_its_scale(tmp_path: Path) -> None:
    model = _behind((10, 10, 3), layers.Flatten(), layers.Dense(4))
    samples = inputs_of(model, 40)
    expected = outputs(model, samples[:10])
    better, _ = converted(model, tmp_path, samples)
    (tmp_path / "plain").mkdir()
    plain, _ = converted(model, tmp_path / "plain", samples, lower=False)
    assert len(read_model(better).main.operators) < len(read_model(plain).main.operators)
    # Weights are random: by chance, the plain model can be slightly better.
    assert sqnr_db(better, samples[:10], expected)[0] > max(30.0, sqnr_db(plain, samples[:10], expected)[0] - 1)


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
