"""The networks of TinyML: small forms of what is published, benchmarked and shipped."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.entry import BENCHMARK, collection
from benchmarks.zoo.samples import indices, pixels

ENTRIES, zoo = collection("networks")


def conv(keras: Any, x: Any, filters: int, size: int = 3, strides: int = 1, activation: str = "relu") -> Any:
    """Convolution without bias, batch normalization, activation."""
    layers = keras.layers
    x = layers.Conv2D(filters, size, strides=strides, padding="same", use_bias=False)(x)
    return layers.Activation(activation)(layers.BatchNormalization()(x))


def separable(keras: Any, x: Any, filters: int, strides: int = 1) -> Any:
    layers = keras.layers
    x = layers.DepthwiseConv2D(3, strides=strides, padding="same", use_bias=False)(x)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    return conv(keras, x, filters, 1)


@zoo("ds-cnn")
def ds_cnn(keras: Any) -> Any:
    """Keyword spotting on 49 x 10 MFCCs with depthwise separable convolutions."""
    layers = keras.layers
    source = keras.Input((49, 10, 1))
    x = layers.Dropout(0.2)(conv(keras, source, 32, (10, 4), 2))
    for _ in range(4):
        x = separable(keras, x, 32)
    x = layers.AveragePooling2D((25, 5))(layers.Dropout(0.4)(x))
    return keras.Model(source, layers.Dense(12, activation="softmax")(layers.Flatten()(x)))


@zoo("resnet-8")
def resnet_8(keras: Any) -> Any:
    """Three residual stacks for 32 x 32 images."""
    layers = keras.layers
    source = keras.Input((32, 32, 3))
    x = conv(keras, source, 8)
    for filters, strides in ((8, 1), (16, 2), (32, 2)):
        y = conv(keras, conv(keras, x, filters, strides=strides), filters, activation="linear")
        if strides > 1:
            x = layers.Conv2D(filters, 1, strides=strides, padding="same")(x)
        x = layers.ReLU()(layers.Add()([x, y]))
    x = layers.Flatten()(layers.AveragePooling2D(8)(x))
    return keras.Model(source, layers.Dense(10, activation="softmax")(x))


@zoo("mobilenet-like")
def mobilenet_like(keras: Any) -> Any:
    """Person detection with inverted residuals and ReLU6 on 48 x 48 grey images."""
    layers = keras.layers
    source = keras.Input((48, 48, 1))
    x = conv(keras, source, 8, strides=2, activation="relu6")
    for filters, strides in ((8, 1), (12, 2), (12, 1), (16, 2), (16, 1)):
        y = conv(keras, x, 4 * x.shape[-1], 1, activation="relu6")
        y = layers.ReLU(6.0)(
            layers.BatchNormalization()(layers.DepthwiseConv2D(3, strides=strides, padding="same", use_bias=False)(y))
        )
        y = conv(keras, y, filters, 1, activation="linear")
        x = layers.Add()([x, y]) if x.shape == y.shape else y
    x = layers.GlobalAveragePooling2D(keepdims=True)(x)
    return keras.Model(source, layers.Flatten()(layers.Conv2D(2, 1, activation="softmax")(x)))


@zoo("autoencoder-dense")
def autoencoder_dense(keras: Any) -> Any:
    """Anomaly detection in machine sounds: dense layers that narrow to eight units and widen again."""
    layers = keras.layers
    x = source = keras.Input((160,))
    for units in (32, 32, 8, 32, 32):
        x = layers.ReLU()(layers.BatchNormalization()(layers.Dense(units)(x)))
    return keras.Model(source, layers.Dense(160)(x))


@zoo("autoencoder-conv")
def autoencoder_conv(keras: Any) -> Any:
    """An image autoencoder with a convolutional bottleneck and transposed convolutions."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((16, 16, 1)),
            layers.Conv2D(8, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(4, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2DTranspose(8, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2DTranspose(1, 3, strides=2, padding="same", activation="sigmoid"),
        ]
    )


@zoo("tcn")
def tcn(keras: Any) -> Any:
    """A temporal convolutional network: causal, increasingly dilated convolutions with residual connections."""
    layers = keras.layers
    source = keras.Input((32, 6))
    x = layers.Conv1D(8, 1)(source)
    for dilation in (1, 2, 4):
        y = layers.Conv1D(8, 3, padding="causal", dilation_rate=dilation, activation="relu")(x)
        y = layers.SpatialDropout1D(0.1)(layers.LayerNormalization()(y))
        x = layers.Add()([x, layers.Conv1D(8, 3, padding="causal", dilation_rate=dilation, activation="relu")(y)])
    return keras.Model(source, layers.Dense(5)(x[:, -1, :]))


@zoo("u-net")
def u_net(keras: Any) -> Any:
    """Segmentation with skip connections and upsampling."""
    layers = keras.layers
    source = keras.Input((16, 16, 3))
    first = conv(keras, source, 8)
    second = conv(keras, layers.MaxPooling2D()(first), 12)
    bottom = conv(keras, layers.MaxPooling2D()(second), 16)
    x = conv(keras, layers.Concatenate()([layers.UpSampling2D()(bottom), second]), 12)
    up = layers.UpSampling2D(interpolation="bilinear")(x)
    x = conv(keras, layers.Concatenate()([up, first]), 8)
    return keras.Model(source, layers.Conv2D(2, 1, activation="softmax")(x))


@zoo("squeezenet")
def squeezenet(keras: Any) -> Any:
    """Fire modules: squeeze, then expand with two kernel sizes."""
    layers = keras.layers
    source = keras.Input((32, 32, 3))
    x = layers.MaxPooling2D(3, 2)(layers.Conv2D(12, 3, strides=2, activation="relu")(source))
    for squeeze, expand in ((4, 8), (6, 12)):
        s = layers.Conv2D(squeeze, 1, activation="relu")(x)
        wide = layers.Conv2D(expand, 3, padding="same", activation="relu")(s)
        x = layers.Concatenate()([layers.Conv2D(expand, 1, activation="relu")(s), wide])
    x = layers.Conv2D(6, 1, activation="relu")(layers.Dropout(0.5)(x))
    return keras.Model(source, layers.Softmax()(layers.GlobalAveragePooling2D()(x)))


def _encoder_block(keras: Any, x: Any, heads: int, width: int) -> Any:
    layers = keras.layers
    y = layers.LayerNormalization()(x)
    x = layers.Add()([x, layers.MultiHeadAttention(heads, width // heads)(y, y)])
    y = layers.Dense(2 * width, activation="gelu")(layers.LayerNormalization()(x))
    return layers.Add()([x, layers.Dense(width)(y)])


@zoo("transformer-encoder")
def transformer(keras: Any) -> Any:
    """Two encoder blocks applied to a signal: attention, layer normalization, GELU."""
    layers = keras.layers
    source = keras.Input((12, 6))
    x = layers.Dense(16)(source)
    for _ in range(2):
        x = _encoder_block(keras, x, 2, 16)
    return keras.Model(source, layers.Dense(4, activation="softmax")(layers.GlobalAveragePooling1D()(x)))


@zoo("vision-transformer", runs=BENCHMARK)
def vision_transformer(keras: Any) -> Any:
    """Image patches processed as a sequence by one encoder block."""
    layers = keras.layers
    source = keras.Input((16, 16, 3))
    x = layers.Reshape((16, 16))(layers.Conv2D(16, 4, strides=4)(source))
    x = _encoder_block(keras, x, 2, 16)
    return keras.Model(source, layers.Dense(5)(layers.Flatten()(layers.LayerNormalization()(x))))


@zoo("text-transformer", samplers={"": indices(40)})
def text_transformer(keras: Any) -> Any:
    """Word and position embeddings, one encoder block, a classifier."""
    layers = keras.layers
    source = keras.Input((10,), dtype="int32")
    x = layers.Embedding(40, 16)(source)
    places = layers.Embedding(10, 16)(keras.ops.arange(10))
    x = _encoder_block(keras, x + places, 2, 16)
    return keras.Model(source, layers.Dense(3, activation="softmax")(layers.GlobalMaxPooling1D()(x)))


@zoo("kws-crnn")
def crnn(keras: Any) -> Any:
    """Keyword spotting with a convolution and a bidirectional GRU."""
    layers = keras.layers
    source = keras.Input((24, 10, 1))
    x = layers.Conv2D(8, (5, 4), strides=(2, 2), activation="relu")(source)
    x = layers.Reshape((x.shape[1], x.shape[2] * x.shape[3]))(x)
    x = layers.Bidirectional(layers.GRU(8))(x)
    return keras.Model(source, layers.Dense(6, activation="softmax")(x))


@zoo("activity-lstm")
def activity(keras: Any) -> Any:
    """Human activity recognition from accelerometer data: convolution, then LSTM."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((32, 3)),
            layers.Conv1D(8, 5, strides=2, activation="relu"),
            layers.MaxPooling1D(2),
            layers.LSTM(10),
            layers.Dropout(0.3),
            layers.Dense(6, activation="softmax"),
        ]
    )


@zoo("wavenet-like")
def wavenet(keras: Any) -> Any:
    """Gated, dilated, causal convolutions with residual and skip connections."""
    layers = keras.layers
    source = keras.Input((32, 1))
    x = layers.Conv1D(8, 2, padding="causal")(source)
    skips = []
    for dilation in (1, 2, 4, 8):
        gate, value = (
            layers.Conv1D(8, 2, padding="causal", dilation_rate=dilation, activation=kind)(x)
            for kind in ("sigmoid", "tanh")
        )
        y = layers.Conv1D(8, 1)(layers.Multiply()([gate, value]))
        skips.append(y)
        x = layers.Add()([x, y])
    return keras.Model(source, layers.Conv1D(4, 1)(layers.ReLU()(layers.Add()(skips))))


@zoo("mlp-mixer")
def mlp_mixer(keras: Any) -> Any:
    """Image patches mixed across positions and channels by dense layers only."""
    layers = keras.layers
    source = keras.Input((16, 16, 3))
    x = layers.Reshape((16, 12))(layers.Conv2D(12, 4, strides=4)(source))
    for _ in range(2):
        y = layers.Permute((2, 1))(layers.LayerNormalization()(x))
        y = layers.Dense(16)(layers.Dense(24, activation="gelu")(y))
        x = layers.Add()([x, layers.Permute((2, 1))(y)])
        x = layers.Add()([x, layers.Dense(12)(layers.Dense(24, activation="gelu")(layers.LayerNormalization()(x)))])
    return keras.Model(source, layers.Dense(5)(layers.GlobalAveragePooling1D()(x)))


@zoo("attention-pooling")
def attention_pooling(keras: Any) -> Any:
    """Frames weighted by a learned softmax over time."""
    layers = keras.layers
    source = keras.Input((16, 6))
    x = layers.Conv1D(8, 3, padding="same", activation="relu")(source)
    weights = layers.Softmax(axis=1)(layers.Dense(1)(layers.Dense(6, activation="tanh")(x)))
    pooled = layers.Flatten()(layers.Dot(axes=1)([weights, x]))
    return keras.Model(source, layers.Dense(4, activation="softmax")(pooled))


@zoo("siamese")
def siamese(keras: Any) -> Any:
    """One encoder applied to two images, followed by their distance."""
    layers = keras.layers
    encoder = keras.Sequential(
        [
            keras.Input((12, 12, 1)),
            layers.Conv2D(6, 3, strides=2, activation="relu"),
            layers.Flatten(),
            layers.Dense(8),
        ],
        name="encoder",
    )
    left, right = keras.Input((12, 12, 1), name="left"), keras.Input((12, 12, 1), name="right")
    difference = keras.ops.abs(encoder(left) - encoder(right))
    return keras.Model([left, right], layers.Dense(1, activation="sigmoid")(difference))


@zoo("sensor-fusion")
def sensor_fusion(keras: Any) -> Any:
    """A model with a dictionary of three inputs and a dictionary of two outputs."""
    layers = keras.layers
    sources = {
        "camera": keras.Input((12, 12, 1), name="camera"),
        "motion": keras.Input((16, 3), name="motion"),
        "weather": keras.Input((5,), name="weather"),
    }
    camera = layers.GlobalAveragePooling2D()(layers.Conv2D(6, 3, activation="relu")(sources["camera"]))
    motion = layers.GlobalMaxPooling1D()(layers.Conv1D(6, 3, activation="relu")(sources["motion"]))
    joined = layers.Concatenate()([camera, motion, layers.Dense(4, activation="relu")(sources["weather"])])
    shared = layers.Dense(8, activation="relu")(joined)
    return keras.Model(
        sources, {"kind": layers.Dense(3, activation="softmax")(shared), "level": layers.Dense(1)(shared)}
    )


@zoo("nested-models")
def nested(keras: Any) -> Any:
    """A model nested in a Sequential, which is nested in another Sequential."""
    layers = keras.layers
    inner_source = keras.Input((8, 8, 4))
    inner = keras.Model(inner_source, layers.Add()([layers.Conv2D(4, 3, padding="same")(inner_source), inner_source]))
    block = keras.Sequential([keras.Input((8, 8, 4)), layers.ReLU(), inner, layers.MaxPooling2D()], name="block")
    return keras.Sequential(
        [keras.Input((8, 8, 1)), layers.Conv2D(4, 3, padding="same"), block, layers.Flatten(), layers.Dense(3)]
    )


@zoo("shared-layers")
def shared_layers(keras: Any) -> Any:
    """One convolution used in three places in the graph."""
    layers = keras.layers
    source = keras.Input((10, 10, 4))
    same = layers.Conv2D(4, 3, padding="same", activation="relu")
    x = same(same(source))
    return keras.Model(source, layers.Dense(3)(layers.Flatten()(layers.Average()([x, same(x)]))))


@zoo("camera-pipeline", samplers={"": pixels})
def camera(keras: Any) -> Any:
    """Resizing, augmentation and rescaling before a classifier."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((36, 28, 3)),
            layers.Resizing(24, 24),
            layers.RandomFlip("horizontal"),
            layers.RandomRotation(0.05),
            layers.Rescaling(1 / 255),
            layers.Conv2D(8, 3, strides=2, activation="relu"),
            layers.DepthwiseConv2D(3, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(4, activation="softmax"),
        ]
    )


@zoo("gan-generator")
def generator(keras: Any) -> Any:
    """Image generation from noise by upsampling and convolutions."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((12,)),
            layers.Dense(4 * 4 * 8),
            layers.Reshape((4, 4, 8)),
            layers.BatchNormalization(),
            layers.UpSampling2D(),
            layers.Conv2D(8, 3, padding="same"),
            layers.LeakyReLU(negative_slope=0.2),
            layers.UpSampling2D(),
            layers.Conv2D(1, 3, padding="same", activation="tanh"),
        ]
    )


@zoo("super-resolution")
def super_resolution(keras: Any) -> Any:
    """Doubles the resolution by rearranging channels into pixels (depth-to-space)."""
    layers = keras.layers
    source = keras.Input((12, 12, 1))
    x = layers.Conv2D(8, 5, padding="same", activation="tanh")(source)
    x = layers.Conv2D(4, 3, padding="same")(x)
    return keras.Model(source, keras.ops.nn.depth_to_space(x, 2))
