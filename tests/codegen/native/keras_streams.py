"""Networks that stream over time, converted by Keras: `python -m tests.codegen.native.keras_streams DIRECTORY`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers


def spotter() -> Any:
    """A DS-CNN that pads frequencies only."""
    source = x = keras.Input((31, 10, 1), batch_size=1)
    x = layers.ZeroPadding2D(((0, 0), (1, 1)))(x)
    x = layers.Conv2D(16, (10, 4), strides=(2, 2), activation="relu")(x)
    for _ in range(2):
        x = layers.ZeroPadding2D(((0, 0), (1, 1)))(x)
        x = layers.DepthwiseConv2D((3, 3), activation="relu")(x)
        x = layers.Conv2D(16, 1, activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(source, layers.Dense(4, activation="softmax")(x))


def tcn() -> Any:
    """Residual blocks of causal 1-D convolutions, of whose last row a dense layer computes the output."""
    source = x = keras.Input((40, 8), batch_size=1)
    for dilation in (1, 2, 4):
        y = x
        for _ in range(2):
            y = layers.Conv1D(16, 3, dilation_rate=dilation, padding="causal", activation="relu")(y)
        if x.shape[-1] != 16:
            x = layers.Conv1D(16, 1)(x)
        x = layers.ReLU()(layers.Add()([x, y]))
    return keras.Model(source, layers.Dense(4)(x[:, -1, :]))


def convolutions() -> Any:
    """1-D convolutions without padding, pooling, and a mean over time."""
    source = x = keras.Input((40, 8), batch_size=1)
    x = layers.Conv1D(16, 3, activation="relu")(x)
    x = layers.Conv1D(16, 3, dilation_rate=2, activation="relu")(x)
    x = layers.DepthwiseConv1D(3)(x)
    x = layers.MaxPool1D(2)(x)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(source, layers.Dense(4, activation="softmax")(x))


def main(directory: Path) -> None:
    keras.utils.set_random_seed(1)
    for make in (spotter, tcn, convolutions):
        model = make()
        shape = (1, *model.inputs[0].shape[1:])

        def samples(shape: tuple[int, ...] = shape) -> Iterator[list[Any]]:
            generator = np.random.default_rng(0)
            for _ in range(8):
                yield [generator.normal(size=shape).astype(np.float32)]

        converter = tf.lite.TFLiteConverter.from_keras_model(model)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = samples
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
        (directory / f"{make.__name__}.tflite").write_bytes(converter.convert())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
