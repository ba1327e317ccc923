"""What is removed, what is kept of the model, and what is refused.

What must stay, and why it is said to.

Every kind of network, at every level: the pruned model computes what the original does without those channels.

Random networks: whatever is removed, the rest computes what it did without it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgetool.convert.keras_model import float_model
from edgetool.convert.load_keras import import_libraries, load_keras_model
from edgetool.convert.request import PRUNING_METHODS
from edgetool.convert.source import read_model_file
from edgetool.convert.tflite import ConverterOptions, convert, order_of
from edgetool.errors import UnsupportedModelError, UsageError
from edgetool.execute.run import run_model
from edgetool.train.pruning import count_to_remove, prune
from tests.train.pruning.checks import (
    assert_same,
    checked,
    ended,
    outputs,
    picture,
    randomised,
    reasons,
    samples,
    sizes,
    zeroed_outputs,
)
from tests.train.pruning.networks import LEVELS, NETWORKS, keras, layers

# ---- what is removed


def joined_with_the_input() -> Any:
    inputs = picture()
    x = layers.Conv2D(4, 1, name="a")(inputs)
    return ended(inputs, layers.Conv2D(6, 3, name="b")(layers.Concatenate()([inputs, x])))


def stacked_in_height() -> Any:
    inputs = picture()
    parts = [layers.Conv2D(4, 1, name=name)(inputs) for name in "ab"]
    return ended(inputs, layers.Conv2D(6, 3, name="c")(layers.Concatenate(axis=1)(parts)))


def dense_on_every_pixel() -> Any:
    inputs = picture()
    return ended(inputs, layers.Dense(6, name="b")(layers.Dense(4, name="a", activation="relu")(inputs)))


def spatial_gate() -> Any:
    """One map for all channels."""
    inputs = picture()
    x = layers.Conv2D(4, 1, name="a")(inputs)
    gate = layers.Conv2D(1, 1, name="gate", activation="sigmoid")(x)
    return ended(inputs, layers.Multiply()([x, gate]))


def transposed_picture() -> Any:
    inputs = picture()
    x = layers.Permute((3, 1, 2))(layers.Conv2D(4, 1, name="a")(inputs))
    return ended(inputs, x)


def three_dimensions() -> Any:
    inputs = keras.Input((4, 4, 4, 2))
    x = layers.Conv3D(4, 2, name="a", activation="relu")(inputs)
    x = layers.UpSampling3D(2)(layers.MaxPooling3D(1)(layers.BatchNormalization()(x)))
    x = layers.Conv3DTranspose(6, 2, name="b")(x)
    return keras.Model(inputs, layers.Dense(2, name="head")(layers.GlobalAveragePooling3D()(x)))


def recurrence() -> Any:
    inputs = keras.Input((8, 3))
    x = layers.Conv1D(4, 3, name="a", activation="relu")(inputs)
    x = layers.Bidirectional(layers.GRU(3, return_sequences=True), name="gru")(x)
    return keras.Model(inputs, layers.Dense(2, name="head")(layers.LSTM(4, name="lstm")(x)))


def words() -> Any:
    inputs = keras.Input((5,))
    x = layers.Conv1D(4, 3, name="b")(layers.Embedding(7, 6, name="a")(inputs))
    return keras.Model(inputs, layers.Dense(2, name="head")(layers.GlobalMaxPooling1D()(x)))


def normalised_without_a_scale() -> Any:
    """Of a removed channel a half would stay, which nothing after it could set to zero."""
    inputs = picture()
    x = layers.Conv2D(4, 1, name="a", activation="sigmoid")(inputs)
    x = layers.Conv2D(6, 1, name="b")(layers.BatchNormalization(scale=False)(x))
    return ended(inputs, x)


def added_to_a_map() -> Any:
    """A removed channel would be the map, which the next kernel sums over."""
    inputs = picture()
    x = layers.Conv2D(4, 1, name="a")(inputs)
    one_map = layers.Conv2D(1, 1, name="map")(inputs)
    return ended(inputs, layers.Conv2D(6, 1, name="b")(layers.Add()([x, one_map])))


def operations() -> Any:
    inputs = picture()
    x = layers.Conv2D(4, 1, name="a")(inputs)
    x = keras.ops.relu(x * 0.5) - layers.Conv2D(4, 1, name="b")(inputs)
    gate = layers.ReLU(6.0)(x + 3.0) * (1 / 6)
    return ended(inputs, layers.Multiply()([x, gate]))


REMOVED: list[tuple[Callable[[], Any], dict[str, int]]] = [
    (joined_with_the_input, {"a": 2, "b": 3}),
    (stacked_in_height, {"a": 2, "b": 2, "c": 3}),
    (dense_on_every_pixel, {"a": 2, "b": 3}),
    (spatial_gate, {"a": 2}),
    (transposed_picture, {"a": 2}),
    (three_dimensions, {"a": 2, "b": 3}),
    (recurrence, {"a": 2}),
    (words, {"a": 3, "b": 2}),
    (operations, {"a": 2, "b": 2}),
    (normalised_without_a_scale, {"b": 3}),
    (added_to_a_map, {"b": 3}),
]


@pytest.mark.parametrize(("build", "expected"), REMOVED, ids=lambda value: getattr(value, "__name__", ""))
def test_channels_are_followed(build: Callable[[], Any], expected: dict[str, int]) -> None:
    assert sizes(checked(build())) == expected


def test_a_channel_joined_to_others_may_go_alone() -> None:
    """Half of 'sum' is tied to 'a', the other half to the input, which stays."""
    inputs = picture(4)
    x = layers.Concatenate(name="join")([layers.Conv2D(4, 1, name="a")(inputs), inputs])
    x = layers.Add()([x, layers.Conv2D(8, 1, name="sum")(inputs)])
    pruned = checked(ended(inputs, x))
    assert pruned.removed["a"] == pruned.removed["sum"]
    assert len(pruned.removed["a"]) == 2
    assert reasons(pruned) == {
        "sum": "4 of 8 channels: linked by 'join' (Concatenate) to the model's input 'picture', whose channels cannot "
        "be removed"
    }


def test_channels_first() -> None:
    inputs = keras.Input((3, 6, 6))
    x = layers.Conv2D(4, 1, data_format="channels_first", name="a")(inputs)
    x = layers.GlobalAveragePooling2D(data_format="channels_first")(layers.BatchNormalization(axis=1)(x))
    model = randomised(keras.Model(inputs, layers.Dense(2)(x)))
    pruned = prune(keras, model, 0.5)
    kept = [index for index in range(4) if index not in pruned.removed["a"]]
    found = {weight.path.split("/", 1)[1]: weight.numpy().shape for weight in pruned.model.weights}
    assert len(kept) == 2
    assert found["kernel"] == (2, 2)
    np.testing.assert_array_equal(pruned.model.layers[1].kernel, model.layers[1].kernel.numpy()[..., kept])
    np.testing.assert_array_equal(pruned.model.layers[2].gamma, model.layers[2].gamma.numpy()[kept])


# ---- which channels go


@pytest.mark.parametrize(
    ("level", "units", "expected"),
    [(0.29, 100, 29), (0.57, 100, 57), (0.1, 10, 1), (0.3, 10, 3), (0.999, 4, 3), (0.24, 4, 0), (0, 5, 0), (0.5, 1, 0)],
)
def test_a_level_is_interpreted_as_an_exact_decimal(level: float, units: int, expected: int) -> None:
    assert count_to_remove(level, units) == expected


def test_at_least_one_channel_stays() -> None:
    assert checked(dense_on_every_pixel(), level=0.999).model.get_layer("a").units == 1


def ranked() -> Any:
    model = keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            layers.Conv2D(4, 1, name="a"),
            layers.BatchNormalization(),
            layers.Conv2D(4, 1, name="b"),
            layers.Flatten(),
            layers.Dense(1),
        ]
    )
    model.layers[0].kernel.assign(np.array([3, -1, 2, -4], np.float32).reshape(1, 1, 1, 4))
    model.layers[1].gamma.assign(np.array([0.5, 2, -3, -0.1], np.float32))
    model.layers[2].kernel.assign(np.ones((1, 1, 4, 4), np.float32))
    return model


def test_the_lowest_l1_norms_are_removed_and_ties_are_broken_by_index() -> None:
    pruned = prune(keras, ranked(), 0.5, method="l1")
    assert pruned.removed == {"a": (1, 2), "b": (0, 1)}
    assert pruned.notes == ()


def test_the_smallest_scales_are_removed_and_layers_without_scales_reported() -> None:
    pruned = prune(keras, ranked(), 0.5, method="batch-norm")
    assert pruned.removed == {"a": (0, 3), "b": (0, 1)}
    assert pruned.notes == ("ranked by L1 norm because there is no batch normalization with a scale: 'b'",)


# ---- what is kept of the model


def test_names_flags_policies_and_structures_are_kept() -> None:
    inputs = {"picture": picture()}
    x = layers.Conv2D(4, 1, name="a", trainable=False, kernel_regularizer="l2", dtype="mixed_float16")(
        inputs["picture"]
    )
    inner = keras.Sequential([layers.Conv2D(4, 1, name="b"), layers.Conv2D(4, 1, name="c", trainable=False)], name="in")
    x = inner(x)
    inner.get_layer("b").trainable = False
    model = keras.Model(inputs, {"scores": layers.Dense(2, dtype="float32")(layers.Flatten()(x))}, name="kept")
    pruned = prune(keras, model, 0.5)
    result = pruned.model
    assert sizes(pruned) == {"a": 2, "b": 2, "c": 2}
    assert (result.name, list(result.input), list(result.output)) == ("kept", ["picture"], ["scores"])
    assert [layer.name for layer in result.layers] == [layer.name for layer in model.layers]
    assert [weight.path for weight in result.weights] == [weight.path for weight in model.weights]
    assert [weight.trainable for weight in result.weights] == [weight.trainable for weight in model.weights]
    assert result.get_layer("a").dtype_policy == model.get_layer("a").dtype_policy
    assert result.get_layer("a").kernel_regularizer is not None
    loaded = keras.Model.from_config(result.get_config())
    assert loaded.count_params() == pruned.parameters


def test_a_frozen_base_in_a_sequential() -> None:
    base = keras.Sequential([keras.Input((6, 6, 3)), layers.Conv2D(4, 3, name="a"), layers.BatchNormalization()])
    base.trainable = False
    model = keras.Sequential([base, layers.ReLU(), layers.Flatten(), layers.Dense(4, name="b"), layers.Dense(2)])
    pruned = checked(model)
    assert sizes(pruned) == {"a": 2, "b": 2}
    assert [weight.path for weight in pruned.model.trainable_weights] == [
        weight.path for weight in model.trainable_weights
    ]


# ---- what is refused


@pytest.mark.parametrize("level", [-0.1, 1, 1.5, math.nan, math.inf])
def test_impossible_levels(level: float) -> None:
    with pytest.raises(UsageError, match=r"is not a valid pruning level.*0 to less than 1"):
        prune(keras, ranked(), level)


def test_an_unknown_method() -> None:
    with pytest.raises(UsageError, match=r"unknown pruning method 'random'.*l1 or batch-norm"):
        prune(keras, ranked(), 0.5, method="random")


def test_a_pattern_without_a_layer() -> None:
    with pytest.raises(UsageError, match=r"there is no layer named 'haed'.*did you mean 'head'"):
        prune(keras, dense_on_every_pixel(), 0.5, exclude=["a", "haed"])
    pruned = prune(keras, dense_on_every_pixel(), 0.5, exclude=["a", "haed"], allow_missing=True)
    assert "exclude: there is no layer named 'haed'" in pruned.notes
    assert "a" not in pruned.removed


def test_a_layer_that_cannot_be_rebuilt() -> None:
    class Scaled(layers.Layer):
        def __init__(self, factor: float, **options: Any) -> None:
            super().__init__(**options)
            self.factor = factor

        def call(self, inputs: Any) -> Any:
            return inputs * self.factor

        def get_config(self) -> dict[str, Any]:
            return {"name": self.name}

    inputs = picture()
    with pytest.raises(UnsupportedModelError, match=r"layer 'own' \(Scaled\): cannot be rebuilt.*get_config"):
        prune(keras, ended(inputs, Scaled(2, name="own")(inputs)), 0.5)


def test_models_without_a_graph() -> None:
    class Free(keras.Model):
        def call(self, inputs: Any) -> Any:
            return inputs

    class Doubled(keras.Model):
        def call(self, inputs: Any) -> Any:
            return super().call(inputs) * 2

    inputs = keras.Input((4,))
    doubled = Doubled(inputs, layers.Dense(2)(inputs), name="free")
    for model in (Free(name="free"), doubled, keras.Sequential([layers.Dense(2)], name="free")):
        with pytest.raises(UnsupportedModelError, match=r"'free'.*no layer graph.*functional model"):
            prune(keras, model, 0.5)


ENDS = "its output is the model's output"


def frozen_by_the_input() -> Any:
    inputs = picture()
    x = layers.Conv2D(3, 1, name="a")(inputs)
    y = layers.Add(name="add")([inputs, x])
    return ended(inputs, layers.Concatenate()([layers.Flatten()(x), layers.Flatten()(y)]))


def sigmoid_in_the_middle() -> Any:
    inputs = picture()
    x = layers.Conv2D(4, 1, activation="sigmoid", name="a")(inputs)
    return ended(inputs, layers.Conv2D(1, 1, name="b")(layers.MaxPooling2D()(x)))


def sigmoid_layer() -> Any:
    inputs = picture()
    x = layers.Activation("sigmoid", name="squash")(layers.Conv2D(4, 1, name="a")(inputs))
    return ended(inputs, layers.Conv2D(1, 1, name="b")(x))


def softmax_in_the_middle() -> Any:
    inputs = picture()
    return ended(inputs, layers.Conv2D(4, 1, activation="softmax", name="a")(inputs))


def grouped() -> Any:
    inputs = picture()
    x = layers.Conv2D(4, 1, name="a")(inputs)
    return ended(inputs, layers.Conv2D(4, 3, groups=2, name="b")(x))


def normalized_by_layer() -> Any:
    inputs = picture()
    return ended(inputs, layers.LayerNormalization(name="norm")(layers.Conv2D(4, 1, name="a")(inputs)))


def mixed_by_dense() -> Any:
    """A dense layer that works along the width of a picture."""
    inputs = picture()
    x = layers.Permute((3, 1, 2))(layers.Conv2D(4, 1, name="a")(inputs))
    return ended(inputs, layers.Dense(1, name="b")(x))


def shared_with_the_input() -> Any:
    inputs = picture()
    twice = layers.Conv2D(3, 1, name="a")
    return ended(inputs, twice(twice(inputs)))


def shared_reshape() -> Any:
    """One reshape for a tensor that can lose channels and one that cannot."""
    inputs = picture(4)
    fold = layers.Reshape((36, 4), name="fold")
    x = fold(layers.Conv2D(4, 1, name="a")(inputs))
    return ended(inputs, layers.Concatenate(axis=1)([x, fold(inputs)]))


def shared_normalization() -> Any:
    """One batch normalization, behind an axis of channels and behind one that is none."""
    inputs = keras.Input((4, 4))
    shift = layers.BatchNormalization(name="shift")
    x = layers.Dense(4, name="a")(inputs)
    return ended(inputs, layers.Concatenate()([shift(x), shift(layers.Permute((2, 1))(x))]))


LEFT_ALONE: list[tuple[Callable[[], Any], dict[str, str]]] = [
    (
        frozen_by_the_input,
        {"a": "linked by 'add' (Add) to the model's input 'picture', whose channels cannot be removed"},
    ),
    (
        sigmoid_in_the_middle,
        {
            "a": "activation 'sigmoid' of 'a' (Conv2D) does not map 0 to 0, so a removed channel would still "
            "contribute a constant to 'b' (Conv2D)",
            "b": "0.5 of 1 channels rounds down to zero",
        },
    ),
    (
        sigmoid_layer,
        {
            "a": "'squash' (Activation) does not map 0 to 0, so a removed channel would still contribute a constant to "
            "'b' (Conv2D)",
            "b": "0.5 of 1 channels rounds down to zero",
        },
    ),
    (softmax_in_the_middle, {"a": "activation 'softmax' of 'a' (Conv2D) may mix channels"}),
    (grouped, {"a": "feeds 'b' (Conv2D), a grouped convolution", "b": "it is a grouped convolution"}),
    (
        normalized_by_layer,
        {"a": "feeds 'norm' (LayerNormalization), through which channels cannot be tracked"},
    ),
    (
        mixed_by_dense,
        {
            "a": "'b' (Dense) operates along an axis other than the channel axis",
            "b": "0.5 of 1 channels rounds down to zero",
        },
    ),
    (
        shared_with_the_input,
        {"a": "linked by 'a' (Conv2D) to the model's input 'picture', whose channels cannot be removed"},
    ),
    (shared_reshape, {"a": "'fold' (Reshape) is shared by calls with different channels"}),
    (shared_normalization, {"a": "feeds 'shift' (BatchNormalization), which normalizes along a different axis"}),
]


@pytest.mark.parametrize(("build", "expected"), LEFT_ALONE, ids=lambda value: getattr(value, "__name__", ""))
def test_layers_that_stay_are_named_with_the_reason(build: Callable[[], Any], expected: dict[str, str]) -> None:
    pruned = checked(build())
    assert pruned.removed == {}
    assert reasons(pruned) == expected
    assert [left.reason for left in pruned.left_alone if left.layer == "head"] == [ENDS]
    assert pruned.notes == ("no channel can be removed at this level, so no layer was pruned",)
    assert pruned.parameters == pruned.original_parameters


class Own(layers.Layer):
    def call(self, inputs: Any) -> Any:
        return inputs * 2


def wave(x: Any) -> Any:
    return keras.ops.sin(x)


def test_user_code_freezes_its_inputs() -> None:
    inputs = picture()
    x = layers.Conv2D(4, 1, name="a")(inputs)
    x = layers.Conv2D(4, 1, activation=wave, name="b")(Own(name="own")(x))
    x = layers.Lambda(lambda tensor: tensor + 1, name="shift")(layers.Conv2D(4, 1, name="c")(x))
    model = randomised(ended(inputs, keras.ops.sin(layers.Conv2D(4, 1, name="d")(x))))
    pruned = prune(keras, model, 0.5)
    assert pruned.removed == {}
    assert_same(outputs(pruned.model, samples(model)), outputs(model, samples(model)), tolerance=0)
    found = reasons(pruned)
    assert found["a"] == "feeds 'own' (Own), through which channels cannot be tracked"
    assert found["b"] == "activation 'wave' of 'b' (Conv2D) may mix channels"
    assert found["c"] == "feeds 'shift' (Lambda), through which channels cannot be tracked"
    assert found["d"].endswith("(Sin), through which channels cannot be tracked")


def test_recurrent_layers_are_named() -> None:
    assert reasons(checked(recurrence())) == {
        "gru": "the units of Bidirectional layers are not pruned",
        "lstm": "the units of LSTM layers are not pruned",
    }


def body() -> Any:
    inside = keras.Input((6, 6, 3))
    return keras.Model(inside, layers.Conv2D(4, 1, name="a")(layers.Conv2D(4, 1, name="b")(inside)), name="body")


@pytest.mark.parametrize(
    ("exclude", "left"),
    [
        (["a"], {"a"}),
        (["body/a"], {"a"}),
        (["body"], {"a", "b"}),
        (["?", "out*"], {"a", "b", "outer"}),
        (["relu"], {"outer"}),
    ],
)
def test_excluded_layers_keep_their_channels(exclude: list[str], left: set[str]) -> None:
    inputs = picture()
    x = layers.ReLU(name="relu")(layers.Conv2D(4, 1, name="outer")(body()(inputs)))
    pruned = checked(ended(inputs, x), exclude=exclude)
    assert set(pruned.removed) == {"a", "b", "outer"} - left
    assert all("excluded by" in reason for reason in reasons(pruned).values())


WITH_BATCH_NORM = ("dense_concat", "batch_norms", "nested")


@pytest.fixture(scope="module")
def built() -> dict[str, Any]:
    return {name: randomised(build()) for name, build in NETWORKS.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_level_0_is_the_identity(built: dict[str, Any], name: str) -> None:
    model = built[name]
    pruned = prune(keras, model, 0)
    assert pruned.removed == {}
    assert pruned.left_alone == ()
    assert pruned.parameters == pruned.original_parameters == model.count_params()
    assert pruned.model is not model
    for one, other in zip(pruned.model.weights, model.weights, strict=True):
        assert one.name == other.name
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    inputs = samples(model)
    for one, other in zip(outputs(pruned.model, inputs), outputs(model, inputs), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "method"), [*((name, "l1") for name in NETWORKS), *((name, "batch-norm") for name in WITH_BATCH_NORM)]
)
def test_pruning_is_setting_to_zero(built: dict[str, Any], name: str, method: str) -> None:
    model = built[name]
    inputs = samples(model)
    before = [weight.numpy().copy() for weight in model.weights]
    parameters = model.count_params()
    removed: dict[str, tuple[int, ...]] = {}
    for level in LEVELS:
        pruned = prune(keras, model, level, method=method)
        assert pruned.model.count_params() == pruned.parameters < parameters
        assert pruned.original_parameters == model.count_params()
        assert_same(outputs(pruned.model, inputs), zeroed_outputs(model, pruned.removed, inputs))
        for label, channels in removed.items():
            assert set(channels) <= set(pruned.removed[label])
        parameters, removed = pruned.parameters, pruned.removed
    for weight, values in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), values)


# One level each, since converting takes a second: together they cover all levels.
@pytest.mark.slow
@pytest.mark.parametrize(("name", "level"), [(name, LEVELS[number % 3]) for number, name in enumerate(NETWORKS)])
def test_a_pruned_model_converts_and_runs_on_tflm(
    built: dict[str, Any], name: str, level: float, tmp_path: Path
) -> None:
    pytest.importorskip("tflite_micro")
    check_on_tflm(prune(keras, built[name], level).model, tmp_path)


def check_on_tflm(model: Any, folder: Path) -> None:
    """Save, load and convert a model, and compare what TFLM says with what Keras does."""
    tf, _ = import_libraries()
    model.save(folder / "pruned.keras")
    source = read_model_file(folder / "pruned.keras")
    assert source.config is not None
    again = load_keras_model(keras, source, source.config, folder, trust_model_code=False)
    loaded = float_model(keras, again, source.path)
    arrays = samples(model)
    content = convert(tf, loaded, arrays, ConverterOptions("int8", "float32", False), folder, lambda _: None).content
    order = order_of(content, loaded)
    found = run_model(content, [arrays[index][:, None] for index in order.inputs], engine="tflm")
    expected = outputs(model, arrays)
    assert len(found) == len(expected)
    for one, index in zip(found, order.outputs, strict=True):
        other = expected[index]
        assert one.reshape(other.shape).shape == other.shape
        error = np.sqrt(np.mean((one.reshape(other.shape) - other) ** 2))
        assert error < 0.15 * np.sqrt(np.mean(other**2))


SIDE = 4
ACTIVATIONS = [None, "relu", "tanh", "hard_swish", "sigmoid", "softmax", "elu"]
STEPS = [
    "convolution",
    "convolution",
    "normalization",
    "depthwise",
    "separable",
    "add",
    "multiply",
    "maximum",
    "concatenate",
    "stack",
    "gate",
    "activation",
    "slopes",
    "pool",
    "permute",
    "reshape",
    "again",
    "grouped",
    "frozen",
    "nested",
]


@st.composite
def networks(draw: st.DrawFn) -> Any:
    """A functional model of pictures of SIDE x SIDE; every tensor on the way can be used again."""
    keras.backend.clear_session()
    picture = keras.Input((SIDE, SIDE, 2))
    pool = [picture]
    convolutions: list[Any] = []
    activation = st.sampled_from(ACTIVATIONS)

    def tensor() -> Any:
        return pool[draw(st.integers(max(0, len(pool) - 4), len(pool) - 1))]

    for step in draw(st.lists(st.sampled_from(STEPS), min_size=3, max_size=10)):
        x = tensor()
        channels = x.shape[-1]
        same = [other for other in pool if other.shape == x.shape or other.shape[-1] == 1]
        other = same[draw(st.integers(0, len(same) - 1))]
        if step == "convolution":
            layer = layers.Conv2D(
                draw(st.integers(1, 5)), draw(st.sampled_from([1, 3])), padding="same", activation=draw(activation)
            )
            convolutions.append(layer)
            x = layer(x)
        elif step == "normalization":
            x = layers.BatchNormalization(scale=draw(st.booleans()), center=draw(st.booleans()))(x)
        elif step == "depthwise":
            x = layers.DepthwiseConv2D(
                3, padding="same", depth_multiplier=draw(st.integers(1, 2)), activation=draw(activation)
            )(x)
        elif step == "separable":
            x = layers.SeparableConv2D(draw(st.integers(2, 4)), 3, padding="same", depth_multiplier=2)(x)
        elif step == "add":
            x = layers.Add()([x, other])
        elif step == "multiply":
            x = layers.Multiply()([x, other])
        elif step == "maximum":
            x = keras.ops.maximum(x, other)
        elif step == "concatenate":
            x = layers.Concatenate()([x, tensor()])
        elif step == "stack":
            alike = [other for other in pool if other.shape == x.shape]
            joined = layers.Concatenate(axis=1)([x, alike[draw(st.integers(0, len(alike) - 1))]])
            x = layers.MaxPooling2D((2, 1))(joined)
        elif step == "gate":
            gate = layers.Dense(draw(st.integers(1, 4)), activation=draw(activation))(layers.GlobalMaxPooling2D()(x))
            gate = layers.Reshape((1, 1, channels))(layers.Dense(channels, activation="sigmoid")(gate))
            x = layers.Multiply()([x, gate])
        elif step == "activation":
            x = layers.Activation(draw(activation.filter(bool)))(x)
        elif step == "slopes":
            x = layers.PReLU(shared_axes=draw(st.sampled_from([None, [1, 2], [1]])))(x)
        elif step == "pool":
            x = layers.AveragePooling2D(3, 1, padding="same")(x)
        elif step == "permute":
            x = layers.Permute((2, 1, 3))(x)
        elif step == "reshape":
            x = layers.Reshape((SIDE, SIDE, channels))(layers.Reshape((-1, channels))(x))
        elif step == "again":
            fitting = [layer for layer in convolutions if layer.kernel.shape[2] == channels]
            x = fitting[draw(st.integers(0, len(fitting) - 1))](x) if fitting else x
        elif step == "grouped":
            x = layers.Conv2D(channels, 1, groups=channels)(x)
        elif step == "frozen":
            x = layers.LayerNormalization()(x)
        elif step == "nested":
            inside = keras.Input((SIDE, SIDE, channels))
            body = layers.Conv2D(3, 1)(layers.BatchNormalization()(inside))
            x = keras.Model(inside, layers.Concatenate()([inside, body]))(x)
        pool.append(x)
    heads = []
    for index in range(draw(st.integers(1, 2))):
        flat = draw(st.sampled_from([layers.Flatten, layers.GlobalAveragePooling2D]))()(pool[-1 - index])
        heads.append(layers.Dense(2)(layers.Dense(4, activation=draw(activation))(flat)))
    return randomised(keras.Model(picture, heads), seed=draw(st.integers(0, 9)))


@pytest.mark.slow
@given(networks(), st.sampled_from(PRUNING_METHODS))
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
def test_pruning_a_random_network_is_setting_to_zero(model: Any, method: str) -> None:
    inputs = samples(model, count=6)
    found = [prune(keras, model, level, method=method) for level in (0.4, 0.8)]
    for pruned in found:
        assert_same(outputs(pruned.model, inputs), zeroed_outputs(model, pruned.removed, inputs), tolerance=1e-4)
        assert (pruned.parameters < model.count_params()) == bool(pruned.removed)
    for less, more in itertools.pairwise(found):
        assert all(set(channels) <= set(more.removed[layer]) for layer, channels in less.removed.items())
