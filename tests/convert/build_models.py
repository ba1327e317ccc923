"""Builds the models of this room's tests: run as `python build_models.py DIRECTORY`, once per test session.

One process for all of them: importing TensorFlow takes seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers


def small(name: str = "small") -> Any:
    return keras.Sequential(
        [
            keras.Input((8, 8, 3), name="picture"),
            layers.Conv2D(4, 3, padding="same"),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dense(5, activation="softmax", name="scores"),
        ],
        name=name,
    )


def permuted() -> Any:
    """Three inputs and three outputs whose names, order of use and shapes all disagree."""
    zeta = keras.Input((4,), name="zeta")
    alpha = keras.Input((6,), name="alpha")
    mid = keras.Input((5, 3), name="mid")
    flat = layers.Flatten()(mid)
    first = layers.Dense(2, name="y_first")(layers.Concatenate()([alpha, flat]))
    second = layers.Dense(7, name="a_second")(zeta)
    third = layers.Dense(3, name="m_third")(layers.Concatenate()([second, zeta, alpha]))
    return keras.Model([zeta, alpha, mid], [first, second, third], name="permuted")


def twins() -> Any:
    """Inputs and outputs of equal shapes, so that only the names can tell them apart."""
    b = keras.Input((4,), name="b")
    a = keras.Input((4,), name="a")
    return keras.Model([b, a], [layers.Dense(4, name="z")(b), layers.Dense(4, name="c")(a)], name="twins")


def dictionary() -> Any:
    inputs = {"left": keras.Input((4,), name="left"), "again": keras.Input((3,), name="again")}
    joined = layers.Concatenate()([inputs["left"], inputs["again"]])
    return keras.Model(inputs, {"sum": layers.Dense(2)(joined), "all": layers.Dense(3)(joined)})


def tokens() -> Any:
    return keras.Sequential(
        [keras.Input((6,), dtype="int32", name="tokens"), layers.Embedding(11, 4), layers.Flatten(), layers.Dense(2)]
    )


def float_tokens() -> Any:
    return keras.Sequential([keras.Input((6,)), layers.Embedding(11, 4), layers.Flatten(), layers.Dense(2)])


def nested_pixels() -> Any:
    body = keras.Sequential([keras.Input((4, 4, 1)), layers.Rescaling(1 / 255), layers.Flatten()], name="body")
    inputs = keras.Input((4, 4, 1))
    return keras.Model(inputs, layers.Dense(2)(body(inputs)))


def fixed_batch() -> Any:
    inputs = keras.Input(batch_shape=(16, 6))
    return keras.Model(inputs, layers.Dense(2)(layers.Reshape((2, 3))(inputs)))


def operators() -> Any:
    inputs = keras.Input((4,))
    doubled = keras.ops.multiply(inputs, 2.0)
    return keras.Model(inputs, layers.Dense(3, activation=layers.LeakyReLU(0.2))(doubled[:, :3]))


def recurrent(unroll: bool) -> Any:
    return keras.Sequential([keras.Input((5, 3)), layers.LSTM(4, unroll=unroll), layers.Dense(2)])


def with_lambda() -> Any:
    inner = keras.Sequential([keras.Input((4,)), layers.Lambda(lambda x: x * 2, name="doubler")], name="inner")
    inputs = keras.Input((4,))
    return keras.Model(inputs, layers.Dense(2)(inner(inputs)))


def simple_lambda() -> Any:
    return keras.Sequential([keras.Input((4,)), layers.Lambda(lambda x: x * 2, name="doubler"), layers.Dense(2)])


class Own(layers.Layer):
    def call(self, inputs: Any) -> Any:
        return inputs * 2


def with_own_class() -> Any:
    return keras.Sequential([keras.Input((4,)), Own(name="mine"), layers.Dense(2)])


def with_own_function() -> Any:
    def wave(x: Any) -> Any:
        return keras.ops.sin(x)

    return keras.Sequential([keras.Input((4,)), layers.Dense(2, activation=wave, name="wavy")])


def half() -> Any:
    policy = keras.dtype_policies.DTypePolicy("mixed_float16")
    return keras.Sequential([keras.Input((4,)), layers.Dense(3, dtype=policy), layers.Dense(2, dtype=policy)])


def without_counterpart() -> Any:
    inputs = keras.Input((4, 4))
    return keras.Model(inputs, layers.Flatten()(keras.ops.erfinv(inputs)))


# File name -> what to save in it.
MODELS: dict[str, Callable[[], Any]] = {
    "small.keras": small,
    "small.h5": small,
    "permuted.keras": permuted,
    "permuted.h5": permuted,
    "twins.keras": twins,
    "dictionary.keras": dictionary,
    "tokens.keras": tokens,
    "float_tokens.keras": float_tokens,
    "nested_pixels.keras": nested_pixels,
    "fixed_batch.keras": fixed_batch,
    "fixed_batch.h5": fixed_batch,
    "dynamic.keras": lambda: keras.Sequential([keras.Input((None, 3), name="series"), layers.Conv1D(2, 3)]),
    "operators.keras": operators,
    "operators.h5": operators,
    "looped.keras": lambda: recurrent(False),
    "unrolled.keras": lambda: recurrent(True),
    "lambda.keras": with_lambda,
    "lambda.h5": with_lambda,
    "simple_lambda.keras": simple_lambda,
    "own_class.keras": with_own_class,
    "own_class.h5": with_own_class,
    "own_function.keras": with_own_function,
    "half.keras": half,
    "without_counterpart.keras": without_counterpart,
}


class Serving(tf.Module):
    """A SavedModel that Keras had no part in, with a lookup table's worth of state."""

    def __init__(self, batch: int | None) -> None:
        super().__init__()
        self.weight = tf.Variable(np.arange(12, dtype=np.float32).reshape(4, 3) / 10)
        signature = tf.TensorSpec((batch, 4), tf.float32, name="features")
        self.serve = tf.function(self._serve, input_signature=[signature])

    def _serve(self, features: Any) -> dict[str, Any]:
        flat = tf.reshape(features, (tf.shape(features)[0], 2, 2))
        product = tf.matmul(tf.reshape(flat, (tf.shape(features)[0], 4)), self.weight)
        return {"product": product, "doubled": features * 2}


class Looping(tf.Module):
    """A SavedModel with a loop, of the kind that TensorFlow 2.21 crashes at when it calibrates."""

    @tf.function(input_signature=[tf.TensorSpec((1, 4), tf.float32)])
    def serve(self, features: Any) -> dict[str, Any]:
        return {"result": tf.reshape(tf.map_fn(lambda row: row * 2.0, tf.reshape(features, (4, 1))), (1, 4))}


class Writer(tf.Module):
    """A SavedModel that would write a file when it runs."""

    @tf.function(input_signature=[tf.TensorSpec((1, 4), tf.float32)])
    def serve(self, features: Any) -> dict[str, Any]:
        tf.io.write_file("written-by-the-model", "text")
        return {"doubled": features * 2}


def build_saved_models(directory: Path) -> None:
    for name, batch in (("plain", None), ("batch_of_eight", 8)):
        module = Serving(batch)
        tf.saved_model.save(module, str(directory / name), signatures={"serving_default": module.serve})
    looping = Looping()
    tf.saved_model.save(looping, str(directory / "looping"), signatures={"serving_default": looping.serve})
    writer = Writer()
    tf.saved_model.save(writer, str(directory / "writer"), signatures={"serving_default": writer.serve})
    tf.saved_model.save(tf.Module(), str(directory / "no_signature"))
    small().export(str(directory / "exported"), verbose=False)


def build_legacy(directory: Path) -> None:
    """Files as Keras 2 writes them, with its own outputs beside them."""
    try:
        import tf_keras
    except ImportError:
        return
    old = tf_keras.layers
    picture = tf_keras.Input((8, 8, 3))
    tensor = old.DepthwiseConv2D(3)(picture)
    tensor = old.SeparableConv2D(4, 3)(tensor)
    tensor = old.BatchNormalization()(tensor)
    tensor = old.LeakyReLU(0.2)(tensor)
    tensor = old.Conv2DTranspose(3, 3)(tensor)
    convolutions = tf_keras.Model(picture, old.Dense(3, activation="softmax")(old.Flatten()(tensor)))
    series = tf_keras.Input((6, 3))
    states = old.Bidirectional(old.LSTM(4))(series)
    recurrences = tf_keras.Model(series, old.Dense(2)(old.Concatenate()([states, old.GRU(3)(series)])))
    for name, model in (("legacy_convolutions", convolutions), ("legacy_recurrences", recurrences)):
        inputs = np.random.default_rng(1).normal(size=(20, *model.input_shape[1:])).astype(np.float32)
        for suffix in ("h5", "keras"):
            model.save(directory / f"{name}.{suffix}")
        np.savez(directory / f"{name}.npz", x=inputs, y=model.predict(inputs, verbose=0))
    raw = tf_keras.Input((4,))
    tf_keras.Model(raw, old.Dense(2)(tf.math.sin(raw))).save(directory / "legacy_raw_call.h5")


def main(directory: Path) -> None:
    for name, build in MODELS.items():
        keras.utils.set_random_seed(1)
        keras.backend.clear_session()
        build().save(directory / name)
    small().save_weights(directory / "small.weights.h5")
    build_saved_models(directory)
    build_legacy(directory)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
