"""Graphs of keras.ops calls, and combinations of layers that are hard to quantize."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.entry import collection

ENTRIES, zoo = collection("networks")


@zoo("operations")
def operations(keras: Any) -> Any:
    """keras.ops between layers: slices, sums, roots, powers, clips."""
    ops, layers = keras.ops, keras.layers
    source = keras.Input((12,))
    x = layers.Dense(8)(source)
    length = ops.sqrt(ops.sum(ops.square(x), axis=-1, keepdims=True) + 0.1)
    y = ops.concatenate([x[:, ::2], ops.clip(x, -0.5, 0.5)], axis=-1) / length
    largest = ops.max(y, axis=-1, keepdims=True) - ops.mean(y, axis=-1, keepdims=True)
    return keras.Model(source, layers.Dense(3)(ops.maximum(y, 0.1 * largest)))


@zoo("operations-shapes")
def operations_shapes(keras: Any) -> Any:
    """keras.ops that move values: stack, split, roll, flip, tile, repeat, transpose, pad."""
    ops, layers = keras.ops, keras.layers
    source = keras.Input((6, 4))
    x = layers.Dense(4)(source)
    first, second = ops.split(x, 2, axis=1)
    x = ops.stack([first, ops.flip(second, axis=1)], axis=1)
    x = ops.transpose(ops.tile(x, (1, 1, 2, 1)), (0, 2, 1, 3))
    x = ops.pad(ops.roll(ops.repeat(x, 2, axis=2), 1, axis=1), ((0, 0), (1, 0), (0, 0), (0, 0)))
    return keras.Model(source, layers.Dense(3)(layers.Flatten()(x)))


@zoo("operations-math")
def operations_math(keras: Any) -> Any:
    """Functions that TFLM supports only in float."""
    ops, layers = keras.ops, keras.layers
    source = keras.Input((8,))
    x = layers.Dense(6)(source)
    positive = ops.abs(x) + 0.5
    heads = {
        "exp": ops.exp(x),
        "log": ops.log(positive),
        "sqrt": ops.sqrt(positive),
        "rsqrt": ops.rsqrt(positive),
        "sine": ops.sin(x),
        "cosine": ops.cos(x),
        "square": ops.square(x),
        "erf": ops.erf(x),
        "reciprocal": ops.reciprocal(positive),
    }
    return keras.Model(source, heads)


@zoo("operations-compare")
def operations_compare(keras: Any) -> Any:
    """Comparisons and conditional selection."""
    ops, layers = keras.ops, keras.layers
    source = keras.Input((8,))
    x, y, z, w = (layers.Dense(6)(source) for _ in range(4))
    return keras.Model(source, {"where": ops.where(x > 0.0, x, 0.3 * x), "between": ops.minimum(ops.maximum(y, z), w)})


@zoo("batch-norm-behind-relu")
def batch_norm_behind_relu(keras: Any) -> Any:
    """Batch normalization after an activation, so that it cannot be folded into a convolution."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((12, 12, 3)),
            layers.Conv2D(8, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dense(4, activation="softmax"),
        ]
    )
