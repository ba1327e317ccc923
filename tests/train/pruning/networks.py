"""Small networks of every shape that pruning must follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

keras = pytest.importorskip("keras", reason="pruning needs the convert extra")
layers = keras.layers

LEVELS = (0.25, 0.5, 0.75)


def plain() -> Any:
    return keras.Sequential(
        [
            keras.Input((12, 12, 2)),
            layers.Conv2D(8, 3, activation="relu", name="first"),
            layers.MaxPooling2D(),
            layers.ZeroPadding2D(1),
            layers.Conv2D(12, 3, name="second"),
            layers.LeakyReLU(0.1),
            layers.Dropout(0.2),
            layers.Flatten(),
            layers.Dense(8, activation="relu", name="hidden"),
            layers.Dense(3, activation="softmax", name="scores"),
        ]
    )


def depthwise() -> Any:
    picture = x = keras.Input((12, 12, 2))
    x = layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False, name="stem")(x)
    x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
    for index, width in enumerate((12, 16)):
        x = layers.DepthwiseConv2D(3, padding="same", depth_multiplier=index + 1, name=f"depthwise_{index}")(x)
        x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
        x = layers.Conv2D(width, 1, name=f"pointwise_{index}")(x)
        x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
    x = layers.SeparableConv2D(12, 3, activation="relu", name="separable")(x)
    return keras.Model(picture, layers.Dense(3)(layers.GlobalAveragePooling2D()(x)))


def residual() -> Any:
    picture = x = keras.Input((8, 8, 2))
    x = layers.Conv2D(8, 3, padding="same", name="stem")(x)
    for index in range(2):
        y = layers.Conv2D(12, 3, padding="same", name=f"wide_{index}")(x)
        y = layers.Activation("relu")(layers.BatchNormalization()(y))
        y = layers.BatchNormalization()(layers.Conv2D(8, 3, padding="same", name=f"narrow_{index}")(y))
        x = layers.ReLU()(layers.Add()([x, y]))
    y = layers.Conv2D(8, 1, strides=2, name="projection")(x)
    x = layers.ReLU()(y + layers.Conv2D(8, 3, strides=2, padding="same", name="last")(x))
    return keras.Model(picture, layers.Dense(3)(layers.GlobalAveragePooling2D()(x)))


def dense_concat() -> Any:
    picture = x = keras.Input((8, 8, 2))
    x = layers.Conv2D(8, 3, padding="same", name="stem")(x)
    for index in range(3):
        y = layers.Activation("relu")(layers.BatchNormalization()(x))
        y = layers.Conv2D(4, 3, padding="same", name=f"growth_{index}")(y)
        x = layers.Concatenate()([x, y])
    x = layers.AveragePooling2D(2)(layers.ReLU()(layers.BatchNormalization()(x)))
    return keras.Model(picture, layers.Dense(3)(layers.Flatten()(x)))


def squeeze_excite() -> Any:
    picture = x = keras.Input((8, 8, 2))
    x = layers.Conv2D(8, 3, padding="same", activation="relu", name="stem")(x)
    gate = layers.Reshape((1, 1, 8))(layers.GlobalAveragePooling2D()(x))
    gate = layers.Conv2D(4, 1, activation="relu", name="squeeze")(gate)
    x = layers.Multiply()([x, layers.Conv2D(8, 1, activation="sigmoid", name="excite")(gate)])
    x = layers.Conv2D(12, 3, activation="relu", name="body")(x)
    gate = layers.Dense(4, activation="relu", name="squeeze_2")(layers.GlobalAveragePooling2D(keepdims=True)(x))
    x = layers.Multiply()([x, layers.Dense(12, activation="hard_sigmoid", name="excite_2")(gate)])
    return keras.Model(picture, layers.Dense(3)(layers.GlobalMaxPooling2D()(x)))


def branches() -> Any:
    picture = x = keras.Input((8, 8, 2))
    x = layers.Conv2D(8, 3, padding="same", activation="relu", name="stem")(x)
    parts = [
        layers.Conv2D(4, 1, activation="relu", name="one")(x),
        layers.Conv2D(8, 3, padding="same", activation="relu", name="three")(
            layers.Conv2D(4, 1, activation="relu", name="reduce")(x)
        ),
        layers.Conv2D(4, 1, activation="tanh", name="pooled")(layers.MaxPooling2D(3, 1, padding="same")(x)),
    ]
    x = layers.Conv2D(16, 3, name="mix")(layers.Concatenate()([*parts, x]))
    left = layers.Dense(3, name="left")(layers.GlobalAveragePooling2D()(layers.ReLU()(x)))
    return keras.Model(picture, {"left": left, "right": layers.Dense(2, name="right")(layers.Flatten()(x))})


def batch_norms() -> Any:
    return keras.Sequential(
        [
            keras.Input((8, 8, 2)),
            layers.Conv2D(8, 3, activation="sigmoid", name="saved_by_its_scale"),
            layers.BatchNormalization(),
            layers.Conv2D(12, 3, use_bias=False, name="without_scale"),
            layers.BatchNormalization(scale=False),
            layers.PReLU(shared_axes=[1, 2]),
            layers.Conv2D(8, 3, name="without_center"),
            layers.BatchNormalization(center=False),
            layers.Activation("hard_swish"),
            layers.Flatten(),
            layers.BatchNormalization(),
            layers.Dense(3),
        ]
    )


def series() -> Any:
    signal = x = keras.Input((24, 3))
    x = layers.Conv1D(8, 3, padding="same", activation="relu", name="stem")(x)
    x = layers.MaxPooling1D()(layers.BatchNormalization()(x))
    x = layers.DepthwiseConv1D(3, padding="same", name="depthwise")(x)
    x = layers.SeparableConv1D(12, 3, depth_multiplier=2, activation="relu", name="separable")(x)
    y = layers.Conv1D(12, 1, name="side")(x)
    x = layers.Conv1D(8, 3, activation="relu", name="last")(layers.Average()([x, y]))
    x = layers.Dense(6, activation="relu", name="per_step")(x)
    return keras.Model(signal, layers.Dense(3)(layers.GlobalAveragePooling1D()(x)))


def perceptron() -> Any:
    return keras.Sequential(
        [
            keras.Input((4, 6)),
            layers.Flatten(),
            layers.Dense(16, name="one"),
            layers.ELU(),
            layers.Dense(12, activation="relu", name="two"),
            layers.Reshape((3, 4, 1)),  # spreads the units over a picture
            layers.Reshape((12,)),
            layers.Dense(8, activation=layers.LeakyReLU(0.3), name="three"),
            layers.Dense(4),
        ]
    )


def autoencoder() -> Any:
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(8, 3, strides=2, padding="same", activation="relu", name="encode"),
            layers.Flatten(),
            layers.Dense(6, activation="relu", name="code"),
            layers.Dense(64, activation="relu", name="grow"),
            layers.Reshape((4, 4, 4)),
            layers.Conv2DTranspose(8, 3, strides=2, padding="same", activation="relu", name="decode"),
            layers.Cropping2D(1),
            layers.Conv2DTranspose(4, 3, name="decode_2"),
            layers.Conv2D(1, 3, padding="same", name="picture"),
        ]
    )


def two_inputs() -> Any:
    inputs = {"sound": keras.Input((16, 2), name="sound"), "level": keras.Input((4,), name="level")}
    x = layers.Conv1D(8, 3, activation="relu", name="ear")(inputs["sound"])
    x = layers.Permute((2, 1))(x)
    x = layers.Permute((2, 1))(x)
    x = layers.GlobalMaxPooling1D()(x)
    y = layers.Dense(8, activation="relu", name="meter")(inputs["level"])
    joined = layers.Concatenate()([layers.Maximum()([x, y]), layers.Subtract()([x, y]), inputs["level"]])
    return keras.Model(inputs, layers.Dense(3)(layers.Dense(12, activation="relu", name="mix")(joined)))


def nested() -> Any:
    inner = keras.Sequential(
        [
            keras.Input((6, 6, 8)),
            layers.Conv2D(8, 3, padding="same", name="conv"),
            layers.BatchNormalization(),
            layers.ReLU(),
        ],
        name="block",
    )
    inside = keras.Input((6, 6, 8))
    outside = keras.Model(inside, layers.Add()([inside, inner(inside)]), name="skip")
    picture = keras.Input((8, 8, 2))
    x = outside(layers.Conv2D(8, 3, activation="relu", name="conv")(picture))
    head = keras.Sequential([layers.Flatten(), layers.Dense(6, name="code"), layers.Dense(3)], name="head")
    return keras.Model(picture, head(x))


def shared() -> Any:
    left, right = keras.Input((8, 8, 2), name="left"), keras.Input((8, 8, 2), name="right")
    eye = layers.Conv2D(8, 3, activation="relu", name="eye")
    again = layers.Conv2D(8, 3, padding="same", activation="relu", name="again")
    tail = keras.Sequential([keras.Input((6, 6, 8)), layers.Conv2D(6, 3, name="deep"), layers.Flatten()], name="tail")
    features = [tail(again(again(eye(picture)))) for picture in (left, right)]
    return keras.Model([left, right], layers.Dense(3)(layers.Subtract()(features)))


NETWORKS: dict[str, Callable[[], Any]] = {
    build.__name__: build
    for build in (
        plain,
        depthwise,
        residual,
        dense_concat,
        squeeze_excite,
        branches,
        batch_norms,
        series,
        perceptron,
        autoencoder,
        two_inputs,
        nested,
        shared,
    )
}
