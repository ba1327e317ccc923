"""What must stay, and why it is said to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from edgetool.train.pruning import prune
from tests.train.pruning.checks import assert_same, checked, ended, outputs, picture, randomised, reasons, samples
from tests.train.pruning.networks import keras, layers

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


def test_code_of_the_users_own_freezes_what_goes_in() -> None:
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


def recurrence() -> Any:
    inputs = keras.Input((8, 3))
    x = layers.Conv1D(4, 3, name="a", activation="relu")(inputs)
    x = layers.Bidirectional(layers.GRU(3, return_sequences=True), name="gru")(x)
    return keras.Model(inputs, layers.Dense(2, name="head")(layers.LSTM(4, name="lstm")(x)))


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
