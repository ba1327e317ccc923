"""Networks for what microcontrollers are used for: pictures, sensors, text, recommendations."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.classics import conv, separable
from benchmarks.zoo.entry import collection
from benchmarks.zoo.samples import centred, indices

ENTRIES, zoo = collection("networks")


@zoo("lenet")
def lenet(keras: Any) -> Any:
    """Digit recognition: convolution, average pooling, tanh."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(6, 5, padding="same", activation="tanh"),
            layers.AveragePooling2D(2),
            layers.Conv2D(12, 5, activation="tanh"),
            layers.AveragePooling2D(2),
            layers.Flatten(),
            layers.Dense(24, activation="tanh"),
            layers.Dense(10, activation="softmax"),
        ]
    )


@zoo("squeeze-excite", samplers={"": centred})
def squeeze_excite(keras: Any) -> Any:
    """MBConv as in EfficientNet and MobileNetV3: hard swish, squeeze and excitation."""
    layers = keras.layers
    source = keras.Input((24, 24, 3))
    x = conv(keras, source, 8, strides=2, activation="hard_silu")
    y = conv(keras, x, 16, 1, activation="silu")
    y = layers.Activation("silu")(layers.BatchNormalization()(layers.DepthwiseConv2D(3, padding="same")(y)))
    gate = layers.Reshape((1, 1, 16))(layers.GlobalAveragePooling2D()(y))
    gate = layers.Conv2D(16, 1, activation="hard_sigmoid")(layers.Conv2D(4, 1, activation="relu")(gate))
    x = layers.Add()([x, conv(keras, layers.Multiply()([y, gate]), 8, 1, activation="linear")])
    return keras.Model(source, layers.Dense(4)(layers.GlobalAveragePooling2D()(x)))


@zoo("shufflenet-like")
def shufflenet(keras: Any) -> Any:
    """Grouped convolutions and a channel shuffle."""
    layers = keras.layers
    source = keras.Input((16, 16, 3))
    x = conv(keras, source, 12, strides=2)
    y = layers.Conv2D(12, 1, groups=3, activation="relu")(x)
    y = layers.Reshape((8, 8, 3, 4))(y)
    y = layers.Reshape((8, 8, 12))(layers.Permute((1, 2, 4, 3))(y))
    x = layers.Add()([x, layers.Conv2D(12, 1, groups=3)(y)])
    return keras.Model(source, layers.Dense(4)(layers.GlobalAveragePooling2D()(x)))


@zoo("inception-block")
def inception(keras: Any) -> Any:
    """Four parallel paths, which are concatenated."""
    layers = keras.layers
    source = keras.Input((16, 16, 3))
    x = conv(keras, source, 8)
    paths = [conv(keras, x, 4, 1), conv(keras, x, 4, 3), conv(keras, x, 4, 5)]
    paths.append(conv(keras, layers.MaxPooling2D(3, 1, padding="same")(x), 4, 1))
    return keras.Model(source, layers.Dense(4)(layers.GlobalMaxPooling2D()(layers.Concatenate()(paths))))


@zoo("detector", samplers={"": centred})
def detector(keras: Any) -> Any:
    """Single-shot detection: boxes and scores at two scales, with a feature pyramid."""
    layers = keras.layers
    source = keras.Input((32, 32, 3))
    fine = separable(keras, conv(keras, source, 8, strides=2), 12, strides=2)
    coarse = separable(keras, fine, 16, strides=2)
    merged = layers.Add()([layers.UpSampling2D()(conv(keras, coarse, 12, 1)), fine])
    boxes, scores = [], []
    for scale in (merged, coarse):
        boxes.append(layers.Reshape((-1, 4))(layers.Conv2D(8, 3, padding="same")(scale)))
        scores.append(layers.Reshape((-1, 3))(layers.Conv2D(6, 3, padding="same")(scale)))
    return keras.Model(
        source,
        {"boxes": layers.Concatenate(axis=1)(boxes), "scores": layers.Softmax()(layers.Concatenate(axis=1)(scores))},
    )


@zoo("ecg-resnet")
def ecg(keras: Any) -> Any:
    """Heartbeat classification: a residual network over time with global pooling."""
    layers = keras.layers
    source = keras.Input((64, 1))
    x = layers.Conv1D(8, 7, strides=2, padding="same", activation="relu")(source)
    for _ in range(2):
        y = layers.BatchNormalization()(layers.Conv1D(8, 5, padding="same")(x))
        y = layers.Conv1D(8, 5, padding="same")(layers.ReLU()(y))
        x = layers.ReLU()(layers.Add()([x, y]))
    return keras.Model(source, layers.Dense(5, activation="softmax")(layers.GlobalAveragePooling1D()(x)))


@zoo("text-cnn", samplers={"": indices(60)})
def text_cnn(keras: Any) -> Any:
    """Sentence classification: embedding and convolutions of three widths."""
    layers = keras.layers
    source = keras.Input((16,), dtype="int32")
    x = layers.Embedding(60, 8)(source)
    views = [layers.GlobalMaxPooling1D()(layers.Conv1D(6, width, activation="relu")(x)) for width in (2, 3, 4)]
    return keras.Model(source, layers.Dense(2, activation="softmax")(layers.Concatenate()(views)))


@zoo("recommender", samplers={"user": indices(30), "item": indices(50)})
def recommender(keras: Any) -> Any:
    """Two embeddings, their product and a small network."""
    layers = keras.layers
    user, item = (keras.Input((1,), dtype="int32", name=name) for name in ("user", "item"))
    left = layers.Flatten()(layers.Embedding(30, 8)(user))
    right = layers.Flatten()(layers.Embedding(50, 8)(item))
    x = layers.Concatenate()([layers.Multiply()([left, right]), left, right])
    return keras.Model([user, item], layers.Dense(1)(layers.Dense(12, activation="relu")(x)))


@zoo("forecaster")
def forecaster(keras: Any) -> Any:
    """Forecasting with doubly residual dense blocks."""
    layers = keras.layers
    source = keras.Input((24,))
    rest, forecast = source, []
    for _ in range(2):
        x = layers.Dense(24, activation="relu")(layers.Dense(24, activation="relu")(rest))
        rest = layers.Subtract()([rest, layers.Dense(24)(x)])
        forecast.append(layers.Dense(6)(x))
    return keras.Model(source, layers.Add()(forecast))


@zoo("highway-mlp")
def highway(keras: Any) -> Any:
    """Self-normalizing dense layers with learned gates."""
    layers = keras.layers
    source = keras.Input((16,))
    x = layers.Dense(16, activation="selu", kernel_initializer="lecun_normal")(source)
    for _ in range(2):
        gate = layers.Dense(16, activation="sigmoid")(x)
        y = layers.AlphaDropout(0.1)(layers.Dense(16, activation="selu")(x))
        x = gate * y + (1.0 - gate) * x
    return keras.Model(source, layers.Dense(4, activation="softmax")(x))
