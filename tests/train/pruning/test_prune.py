"""What is removed, what is kept of the model, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from edgetool.errors import UnsupportedModelError, UsageError
from edgetool.train.pruning import prune
from edgetool.train.pruning.prune import count_to_remove
from tests.train.pruning.checks import checked, ended, picture, randomised, reasons, sizes
from tests.train.pruning.networks import keras, layers

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
def test_a_level_is_meant_as_it_is_written(level: float, units: int, expected: int) -> None:
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


def test_the_lowest_l1_norms_go_and_ties_go_by_index() -> None:
    pruned = prune(keras, ranked(), 0.5, method="l1")
    assert pruned.removed == {"a": (1, 2), "b": (0, 1)}
    assert pruned.notes == ()


def test_the_smallest_scales_go_and_layers_without_are_told() -> None:
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
    pruned = prune(keras, dense_on_every_pixel(), 0.5, exclude=["a", "haed"], may_lack=True)
    assert "exclude: there is no layer named 'haed'" in pruned.notes
    assert "a" not in pruned.removed


def test_a_layer_that_cannot_be_made_again() -> None:
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
