"""The same kinds of network in every kind of file that people have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.zoo.entry import BENCHMARK, collection
from benchmarks.zoo.samples import centred, pixels

ENTRIES, zoo = collection("formats")
OWN_LAYERS = Path(__file__).with_name("own_layers.py")
TRUSTED = {"trust_model_code": True}


def _small_cnn(keras: Any, *, batch: int | None = None) -> Any:
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input(batch_shape=(batch, 12, 12, 3)) if batch else keras.Input((12, 12, 3)),
            layers.Conv2D(8, 3, use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dense(4, activation="softmax"),
        ]
    )


@zoo("h5-cnn", format="h5")
def h5_cnn(keras: Any) -> Any:
    """A Keras 3 model in HDF5 format."""
    return _small_cnn(keras)


@zoo("h5-lstm", format="h5")
def h5_lstm(keras: Any) -> Any:
    """A recurrent Keras 3 network in HDF5 format."""
    layers = keras.layers
    return keras.Sequential([keras.Input((8, 5)), layers.LSTM(6), layers.Dense(3, activation="softmax")])


@zoo("keras2-h5-cnn", format="keras2 .h5")
def keras2_cnn(keras: Any) -> Any:
    """Keras 2 in HDF5: depthwise, separable and transposed convolutions with keys that Keras 3 does not have."""
    layers = keras.layers
    source = keras.Input((16, 16, 3))
    x = layers.DepthwiseConv2D(3, padding="same", activation="relu")(source)
    x = layers.SeparableConv2D(8, 3, padding="same", activation="relu")(x)
    x = layers.BatchNormalization()(layers.MaxPooling2D()(x))
    x = layers.Conv2DTranspose(6, 3, strides=2, padding="same")(x)
    x = layers.LeakyReLU(alpha=0.2)(x)
    return keras.Model(source, layers.Dense(4, activation="softmax")(layers.GlobalAveragePooling2D()(x)))


@zoo("keras2-h5-rnn", format="keras2 .h5", runs=BENCHMARK)
def keras2_rnn(keras: Any) -> Any:
    """Keras 2 in HDF5: LSTM, GRU and a bidirectional layer with time_major."""
    layers = keras.layers
    source = keras.Input((8, 5))
    x = layers.Bidirectional(layers.LSTM(6, return_sequences=True))(source)
    return keras.Model(source, layers.Dense(3, activation="softmax")(layers.GRU(6)(x)))


@zoo("keras2-h5-lstm", format="keras2 .h5")
def keras2_lstm(keras: Any) -> Any:
    """Keras 2 in HDF5: one LSTM."""
    layers = keras.layers
    return keras.Sequential([keras.Input((8, 5)), layers.LSTM(6), layers.Dense(3, activation="softmax")])


@zoo("keras2-h5-preprocessing", format="keras2 .h5", samplers={"": pixels})
def keras2_preprocessing(keras: Any) -> Any:
    """Keras 2 in HDF5: rescaling and augmentation before the network."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            layers.RandomFlip("horizontal"),
            layers.RandomRotation(0.1),
            layers.Rescaling(1 / 255),
            layers.Conv2D(8, 3, strides=2, activation="relu"),
            layers.UpSampling2D(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(4),
        ]
    )


@zoo("keras2-h5-operations", format="keras2 .h5")
def keras2_operations(keras: Any) -> Any:
    """Keras 2 in HDF5: arithmetic between layers, stored as TensorFlow calls."""
    layers = keras.layers
    source = keras.Input((12,))
    x = layers.Dense(8, activation="relu")(source)
    y = layers.Dense(8, activation="tanh")(source)
    return keras.Model(source, layers.Dense(3)(x * 0.5 + y[:, :8] - 0.1))


@zoo("keras2-h5-removed-layers", format="keras2 .h5")
def keras2_removed(keras: Any) -> Any:
    """Keras 2 in HDF5: layers that no longer exist in Keras 3."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((16, 3)),
            layers.LocallyConnected1D(4, 3, name="local"),
            layers.ThresholdedReLU(theta=0.1),
            layers.Flatten(),
            layers.Dense(3),
        ]
    )


@zoo("keras2-h5-mobilenet", format="keras2 .h5", samplers={"": centred}, runs=BENCHMARK)
def keras2_mobilenet(keras: Any) -> Any:
    """Keras 2 in HDF5: MobileNet, alpha 0.25, on 32 x 32 images."""
    return keras.applications.MobileNet(input_shape=(32, 32, 3), alpha=0.25, weights=None, classes=5)


@zoo("keras2-cnn", format="keras2 .keras")
def keras2_zip_cnn(keras: Any) -> Any:
    """A Keras 2 model in the .keras format."""
    return _small_cnn(keras)


@zoo("keras2-gru", format="keras2 .keras")
def keras2_zip_gru(keras: Any) -> Any:
    """A recurrent Keras 2 network in the .keras format."""
    layers = keras.layers
    return keras.Sequential([keras.Input((8, 5)), layers.GRU(6), layers.Dense(3, activation="softmax")])


@zoo("saved-model", format="saved_model")
def saved_model(keras: Any) -> Any:
    """A SavedModel written by model.export."""
    return _small_cnn(keras)


@zoo("saved-model-upsampling", format="saved_model")
def saved_model_upsampling(keras: Any) -> Any:
    """A SavedModel with operators that TFLM does not support; no Keras layers remain to be rewritten."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(6, 3, padding="same", activation="gelu"),
            layers.UpSampling2D(),
            layers.Conv2D(2, 3, activation="elu"),
        ]
    )


def _two_endpoints(keras: Any, model: Any, path: Path) -> None:
    archive = keras.export.ExportArchive()
    archive.track(model)
    signature = [keras.InputSpec(shape=(None, *model.inputs[0].shape[1:]), dtype="float32")]
    features = keras.Model(model.inputs, model.layers[-2].output)
    archive.add_endpoint("features", lambda x: features(x, training=False), input_signature=signature)
    archive.add_endpoint("classify", lambda x: model(x, training=False), input_signature=signature)
    archive.write_out(str(path), verbose=False)


@zoo("saved-model-signatures", format="saved_model", save=_two_endpoints, options={"signature": "classify"})
def saved_model_signatures(keras: Any) -> Any:
    """A SavedModel with two signatures, one of which is selected."""
    return _small_cnn(keras)


@zoo("mixed-precision")
def mixed_precision(keras: Any) -> Any:
    """A model trained in float16 with float32 variables."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        return _small_cnn(keras)
    finally:
        keras.config.set_dtype_policy(before)


@zoo("fixed-batch")
def fixed_batch(keras: Any) -> Any:
    """A model built for batches of four samples."""
    return _small_cnn(keras, batch=4)


@zoo("open-dimensions", options={"input_shapes": ((None, (16, 16, 3)),)})
def open_dimensions(keras: Any) -> Any:
    """A fully convolutional network for images of any size, converted for a given size."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((None, None, 3)),
            layers.Conv2D(8, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.UpSampling2D(),
            layers.Conv2D(2, 1),
        ]
    )


@zoo("open-time", options={"input_shapes": ((None, (10, 4)),)})
def open_time(keras: Any) -> Any:
    """A recurrent network for sequences of any length, converted for a given length."""
    layers = keras.layers
    return keras.Sequential([keras.Input((None, 4)), layers.GRU(6), layers.Dense(3)])


@zoo("own-layer", options={"custom_objects": OWN_LAYERS, **TRUSTED})
def own_layer(keras: Any) -> Any:
    """A user-defined layer and activation, loaded with --custom-objects."""
    from benchmarks.zoo.own_layers import ChannelGate, leaky_square

    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(6, 3, activation=leaky_square),
            ChannelGate(),
            layers.Flatten(),
            layers.Dense(3),
        ]
    )


@zoo("own-model", options={"custom_objects": OWN_LAYERS, **TRUSTED, "input_shapes": ((None, (9,)),)})
def own_model(keras: Any) -> Any:
    """A subclassed model with a build method, loaded with --custom-objects and --input-shape."""
    from benchmarks.zoo.own_layers import Residual

    model = Residual()
    model.build((None, 9))
    return model
