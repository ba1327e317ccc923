"""Writes a Keras model and what TensorFlow's converter makes of it: `python -m tests.convert.any_batch_child FOLDER`.

The .tflite has a batch of any size, from which the sizes of other tensors are computed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main(folder: Path) -> None:
    os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
    import keras
    import numpy as np
    import tensorflow as tf

    keras.utils.set_random_seed(0)
    layers = keras.layers
    first = keras.Input((16, 6), name="x")
    dilated = layers.Conv1D(8, 3, padding="causal", dilation_rate=2, activation="relu")(first)
    dense = layers.Dense(8, activation="relu")(dilated)
    image = layers.UpSampling2D(2)(layers.Reshape((4, 4, 8))(dense))
    model = keras.Model(first, layers.Conv2D(4, 3, padding="same")(image))
    model.save(folder / "model.keras")
    (folder / "model.tflite").write_bytes(tf.lite.TFLiteConverter.from_keras_model(model).convert())
    np.save(folder / "samples.npy", np.random.default_rng(0).uniform(-1, 1, (32, 16, 6)).astype(np.float32))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
