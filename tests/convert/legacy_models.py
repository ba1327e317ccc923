"""Models as Keras 2 saves them, one layer or one way of connecting layers each; they need tf_keras to be built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Build = Callable[[Any], Any]
One = tuple[tuple[int, ...], Callable[[Any], Any]]
PICTURE, SERIES, VOLUME, ROW = (8, 8, 4), (6, 4), (4, 4, 4, 2), (6,)


def one(shape: tuple[int, ...], layer: Callable[[Any], Any]) -> One:
    """One layer on an input of this shape, without batch."""
    return shape, layer


MERGES: dict[str, Callable[[Any], Any]] = {
    "concatenate": lambda k: k.Concatenate(),
    "average": lambda k: k.Average(),
    "maximum": lambda k: k.Maximum(),
    "minimum": lambda k: k.Minimum(),
    "add": lambda k: k.Add(),
    "subtract": lambda k: k.Subtract(),
    "multiply": lambda k: k.Multiply(),
    "dot": lambda k: k.Dot(axes=1, normalize=True),
}


def merges(keras: Any) -> Any:
    inputs = [keras.Input(ROW, name="left"), keras.Input(ROW, name="right")]
    return keras.Model(inputs, [make(keras.layers)(inputs) for make in MERGES.values()])


def of_tokens(keras: Any) -> Any:
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    return keras.Model(tokens, keras.layers.Embedding(10, 4, input_length=6)(tokens))


def attention(name: str, **options: Any) -> Build:
    def build(keras: Any) -> Any:
        query, value = keras.Input(SERIES, name="query"), keras.Input((5, 4), name="value")
        return keras.Model([query, value], getattr(keras.layers, name)(**options)([query, value]))

    return build


def multi_head(keras: Any) -> Any:
    series = keras.Input(SERIES)
    layer = keras.layers.MultiHeadAttention(2, 3, value_dim=2, output_shape=5)
    return keras.Model(series, layer(series, series))


def shared(keras: Any) -> Any:
    a, b = keras.Input(ROW, name="a"), keras.Input(ROW, name="b")
    dense = keras.layers.Dense(3, activation="tanh", name="twice")
    return keras.Model([a, b], keras.layers.Subtract()([dense(a), dense(b)]))


def nested(keras: Any) -> Any:
    layers = keras.layers
    body = keras.Sequential([layers.Dense(5, activation="relu", input_shape=ROW), layers.BatchNormalization()])
    inside = keras.Input((5,))
    head = keras.Model(inside, [layers.Dense(2, name="p")(inside), layers.Dense(3, name="q")(inside)], name="head")
    row = keras.Input(ROW)
    p, q = head(body(row))
    return keras.Model(row, [layers.Softmax()(p), layers.Dense(2)(q)])


def nested_twice(keras: Any) -> Any:
    inner = keras.Sequential([keras.layers.Dense(4), keras.layers.LayerNormalization()], name="inner")
    middle = keras.Sequential([inner, keras.layers.Dense(6)], name="middle")
    row = keras.Input(ROW)
    return keras.Model(row, middle(middle(row)))


def named_arrays(keras: Any) -> Any:
    inputs = {"zulu": keras.Input((4,), name="zulu"), "alpha": keras.Input((3,), name="alpha")}
    joined = keras.layers.Concatenate()([inputs["zulu"], inputs["alpha"]])
    return keras.Model(inputs, {"yes": keras.layers.Dense(2, name="yes")(joined), "all": keras.layers.ReLU()(joined)})


def residual(keras: Any) -> Any:
    layers = keras.layers
    picture = keras.Input(PICTURE)
    tensor = picture
    for _ in range(2):
        side = layers.Conv2D(4, 3, padding="same", use_bias=False)(tensor)
        side = layers.BatchNormalization()(side)
        tensor = layers.Activation("relu")(layers.add([tensor, side]))
    return keras.Model(picture, layers.Dense(3)(layers.GlobalAveragePooling2D()(tensor)))


def cells(keras: Any) -> Any:
    layers = keras.layers
    stack = layers.StackedRNNCells([layers.LSTMCell(3), layers.GRUCell(4), layers.SimpleRNNCell(2)])
    return keras.Sequential([keras.Input(SERIES), layers.RNN(stack, return_sequences=True)])


def with_state(name: str) -> Build:
    def build(keras: Any) -> Any:
        series = keras.Input(SERIES)
        out, *state = getattr(keras.layers, name)(3, return_state=True, return_sequences=True)(series)
        again = getattr(keras.layers, name)(3)(out, initial_state=state)
        return keras.Model(series, [again, *state])

    return build


def masked(keras: Any) -> Any:
    return keras.Sequential([keras.Input(SERIES), keras.layers.Masking(0.0), keras.layers.LSTM(3)])


def normalized(keras: Any) -> Any:
    layer = keras.layers.Normalization(axis=-1)
    layer.adapt(np.arange(24, dtype=np.float32).reshape(4, 6))
    return keras.Sequential([keras.Input(ROW), layer])


def frozen(keras: Any) -> Any:
    layers = keras.layers
    base = keras.Sequential([keras.Input(PICTURE), layers.Conv2D(3, 3), layers.BatchNormalization()], name="base")
    base.trainable = False
    part = [keras.Input((6, 6, 3)), layers.Conv2D(3, 2), layers.BatchNormalization(), layers.Conv2D(3, 2)]
    part = keras.Sequential(part, name="part")
    part.layers[0].trainable = False
    picture = keras.Input(PICTURE)
    return keras.Model(picture, layers.Dense(3)(layers.Flatten()(part(base(picture, training=False)))))


def half(keras: Any) -> Any:
    policy = keras.mixed_precision.Policy("mixed_float16")
    return keras.Sequential([keras.Input(ROW), keras.layers.Dense(3, dtype=policy)])


def fixed_batch(keras: Any) -> Any:
    inputs = keras.Input(batch_shape=(4, 6))
    return keras.Model(inputs, keras.layers.Dense(2)(keras.layers.Reshape((2, 3))(inputs)))


# Name -> a layer, or a whole model; in the order of keras.layers' documentation.
ALL: dict[str, Build | One] = {
    "dense": one(ROW, lambda k: k.Dense(4, activation="relu", kernel_regularizer="l2", bias_constraint="non_neg")),
    "activation": one(ROW, lambda k: k.Activation("swish")),
    "embedding": of_tokens,
    "masking": masked,
    "conv1d": one(SERIES, lambda k: k.Conv1D(4, 3, padding="causal", groups=2, activation="elu")),
    "conv2d": one(PICTURE, lambda k: k.Conv2D(4, 3, 2, "same", dilation_rate=1, groups=2)),
    "conv3d": one(VOLUME, lambda k: k.Conv3D(2, 2)),
    "separable_conv1d": one(SERIES, lambda k: k.SeparableConv1D(4, 3, depth_multiplier=2)),
    "separable_conv2d": one(PICTURE, lambda k: k.SeparableConv2D(4, 3, depthwise_regularizer="l2", use_bias=False)),
    "depthwise_conv1d": one(SERIES, lambda k: k.DepthwiseConv1D(3)),
    "depthwise_conv2d": one(PICTURE, lambda k: k.DepthwiseConv2D(3, 2, "same", 2)),
    "conv1d_transpose": one(SERIES, lambda k: k.Conv1DTranspose(3, 3, 2)),
    "conv2d_transpose": one(PICTURE, lambda k: k.Conv2DTranspose(3, 3, 2, "same")),
    "conv2d_transpose_padded": one(PICTURE, lambda k: k.Conv2DTranspose(3, 3, 2, output_padding=1)),
    "conv3d_transpose": one(VOLUME, lambda k: k.Conv3DTranspose(2, 2)),
    "max_pooling1d": one(SERIES, lambda k: k.MaxPooling1D()),
    "max_pooling2d": one(PICTURE, lambda k: k.MaxPool2D(3, 2, "same")),
    "max_pooling3d": one(VOLUME, lambda k: k.MaxPooling3D()),
    "average_pooling1d": one(SERIES, lambda k: k.AveragePooling1D()),
    "average_pooling2d": one(PICTURE, lambda k: k.AveragePooling2D(3, 2, "same")),
    "average_pooling3d": one(VOLUME, lambda k: k.AveragePooling3D()),
    "global_max_pooling1d": one(SERIES, lambda k: k.GlobalMaxPooling1D()),
    "global_max_pooling2d": one(PICTURE, lambda k: k.GlobalMaxPooling2D(keepdims=True)),
    "global_max_pooling3d": one(VOLUME, lambda k: k.GlobalMaxPooling3D()),
    "global_average_pooling1d": one(SERIES, lambda k: k.GlobalAveragePooling1D()),
    "global_average_pooling2d": one(PICTURE, lambda k: k.GlobalAveragePooling2D(keepdims=True)),
    "global_average_pooling3d": one(VOLUME, lambda k: k.GlobalAveragePooling3D()),
    "lstm": one(SERIES, lambda k: k.LSTM(3, return_sequences=True)),
    "lstm_backwards": one(SERIES, lambda k: k.LSTM(3, go_backwards=True, unroll=True, unit_forget_bias=False)),
    "lstm_states": with_state("LSTM"),
    "gru": one(SERIES, lambda k: k.GRU(3)),
    "gru_reset_before": one(SERIES, lambda k: k.GRU(3, reset_after=False, return_sequences=True)),
    "gru_states": with_state("GRU"),
    "simple_rnn": one(SERIES, lambda k: k.SimpleRNN(3)),
    "rnn_of_a_cell": one(SERIES, lambda k: k.RNN(k.LSTMCell(3))),
    "rnn_of_cells": cells,
    "time_distributed": one((3, *PICTURE), lambda k: k.TimeDistributed(k.Conv2D(2, 3))),
    "bidirectional_lstm": one(SERIES, lambda k: k.Bidirectional(k.LSTM(3, return_sequences=True))),
    "bidirectional_gru": one(SERIES, lambda k: k.Bidirectional(k.GRU(3), merge_mode="sum")),
    "bidirectional_two": one(
        SERIES, lambda k: k.Bidirectional(k.SimpleRNN(3), backward_layer=k.SimpleRNN(2, go_backwards=True))
    ),
    "conv_lstm1d": one((3, 6, 2), lambda k: k.ConvLSTM1D(2, 3)),
    "conv_lstm2d": one((3, 6, 6, 2), lambda k: k.ConvLSTM2D(2, 3, padding="same", return_sequences=True)),
    "conv_lstm3d": one((2, 4, 4, 4, 1), lambda k: k.ConvLSTM3D(2, 2)),
    "normalization": normalized,
    "rescaling": one(PICTURE, lambda k: k.Rescaling(1 / 255, offset=-0.5)),
    "resizing": one(PICTURE, lambda k: k.Resizing(4, 6)),
    "center_crop": one(PICTURE, lambda k: k.CenterCrop(4, 6)),
    "discretization": one(ROW, lambda k: k.Discretization(bin_boundaries=[-1.0, 0.0, 1.0])),
    "category_encoding": one((1,), lambda k: k.CategoryEncoding(5, "one_hot")),
    "random_crop": one(PICTURE, lambda k: k.RandomCrop(4, 4)),
    "random_flip": one(PICTURE, lambda k: k.RandomFlip("horizontal")),
    "random_translation": one(PICTURE, lambda k: k.RandomTranslation(0.1, 0.1)),
    "random_rotation": one(PICTURE, lambda k: k.RandomRotation(0.1)),
    "random_zoom": one(PICTURE, lambda k: k.RandomZoom(0.1)),
    "random_contrast": one(PICTURE, lambda k: k.RandomContrast(0.1)),
    "random_brightness": one(PICTURE, lambda k: k.RandomBrightness(0.1)),
    "batch_normalization": one(PICTURE, lambda k: k.BatchNormalization(center=False)),
    "layer_normalization": one(PICTURE, lambda k: k.LayerNormalization()),
    "layer_normalization_axes": one(PICTURE, lambda k: k.LayerNormalization(axis=[2, 3])),
    "group_normalization": one(PICTURE, lambda k: k.GroupNormalization(2)),
    "unit_normalization": one(ROW, lambda k: k.UnitNormalization()),
    "sync_batch_normalization": one(PICTURE, lambda k: k.BatchNormalization(synchronized=True)),
    "dropout": one(ROW, lambda k: k.Dropout(0.5, noise_shape=(None, 1))),
    "spatial_dropout1d": one(SERIES, lambda k: k.SpatialDropout1D(0.5)),
    "spatial_dropout2d": one(PICTURE, lambda k: k.SpatialDropout2D(0.5)),
    "spatial_dropout3d": one(VOLUME, lambda k: k.SpatialDropout3D(0.5)),
    "gaussian_noise": one(ROW, lambda k: k.GaussianNoise(0.5)),
    "gaussian_dropout": one(ROW, lambda k: k.GaussianDropout(0.5)),
    "alpha_dropout": one(ROW, lambda k: k.AlphaDropout(0.5, noise_shape=(None, 1))),
    "activity_regularization": one(ROW, lambda k: k.ActivityRegularization(0.1)),
    "multi_head_attention": multi_head,
    "attention": attention("Attention", use_scale=True, score_mode="concat"),
    "additive_attention": attention("AdditiveAttention"),
    "reshape": one(ROW, lambda k: k.Reshape((3, -1))),
    "flatten": one(PICTURE, lambda k: k.Flatten()),
    "flatten_channels_first": one(PICTURE, lambda k: k.Flatten("channels_first")),
    "repeat_vector": one(ROW, lambda k: k.RepeatVector(3)),
    "permute": one(SERIES, lambda k: k.Permute((2, 1))),
    "cropping1d": one(SERIES, lambda k: k.Cropping1D(1)),
    "cropping2d": one(PICTURE, lambda k: k.Cropping2D(((1, 2), (0, 1)))),
    "cropping3d": one(VOLUME, lambda k: k.Cropping3D(1)),
    "up_sampling1d": one(SERIES, lambda k: k.UpSampling1D(2)),
    "up_sampling2d": one(PICTURE, lambda k: k.UpSampling2D(2)),
    "up_sampling2d_bilinear": one(PICTURE, lambda k: k.UpSampling2D((2, 3), interpolation="bilinear")),
    "up_sampling3d": one(VOLUME, lambda k: k.UpSampling3D(2)),
    "zero_padding1d": one(SERIES, lambda k: k.ZeroPadding1D(1)),
    "zero_padding2d": one(PICTURE, lambda k: k.ZeroPadding2D(((1, 0), (0, 1)))),
    "zero_padding3d": one(VOLUME, lambda k: k.ZeroPadding3D(1)),
    "merges": merges,
    "relu": one(ROW, lambda k: k.ReLU(6.0, negative_slope=0.1, threshold=0.2)),
    "softmax": one(ROW, lambda k: k.Softmax()),
    "leaky_relu": one(ROW, lambda k: k.LeakyReLU(0.2)),
    "prelu": one(PICTURE, lambda k: k.PReLU("uniform", shared_axes=[1, 2])),
    "elu": one(ROW, lambda k: k.ELU(0.5)),
    "identity": one(ROW, lambda k: k.Identity()),
    "einsum_dense": one(SERIES, lambda k: k.EinsumDense("abc,cd->abd", output_shape=(None, 3), bias_axes="d")),
    "shared": shared,
    "nested": nested,
    "nested_twice": nested_twice,
    "named_arrays": named_arrays,
    "residual": residual,
    "frozen": frozen,
    "half": half,
    "fixed_batch": fixed_batch,
}


def beside(shape: tuple[int, ...]) -> Build:
    def build(keras: Any) -> Any:
        inputs = keras.Input(shape)
        return keras.Model(inputs, [make(keras.layers)(inputs) for at, make in LAYERS.values() if at == shape])

    return build


LAYERS = {name: made for name, made in ALL.items() if isinstance(made, tuple)}
# The layers of one input's shape side by side in one model, each with an output: a fraction of the time of one by one.
MODELS: dict[str, Build] = {
    **{"x".join(map(str, shape)): beside(shape) for shape in dict.fromkeys(shape for shape, _ in LAYERS.values())},
    **{name: build for name, build in ALL.items() if not isinstance(build, tuple)},
}


def names_of(model: str) -> list[str]:
    """What each output of a model is of: a layer, or the model itself."""
    of_shape = [name for name, (shape, _) in LAYERS.items() if "x".join(map(str, shape)) == model]
    return of_shape or (list(MERGES) if model == "merges" else [model])


def inputs_of(model: Any) -> list[Any]:
    """Two random samples for each input; small whole numbers where it takes classes."""
    random = np.random.default_rng(7)
    tokens = any(type(layer).__name__ in ("CategoryEncoding", "Embedding") for layer in model.layers)
    shapes = [(2, *tensor.shape[1:]) for tensor in model.inputs]
    if tokens:
        return [random.integers(0, 5, shape).astype(np.int32) for shape in shapes]
    return [random.normal(size=shape).astype(np.float32) for shape in shapes]


def shake(model: Any) -> None:
    """Random weights throughout: those that start as zeros and ones would hide an exchange."""
    random = np.random.default_rng(3)
    for layer in model.layers:
        if type(layer).__name__ not in ("Normalization", "Discretization"):
            layer.set_weights([random.uniform(0.05, 0.6, w.shape).astype(w.dtype) for w in layer.get_weights()])
