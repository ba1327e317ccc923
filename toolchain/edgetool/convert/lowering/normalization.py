"""Normalizations of each sample by its own values, in a form that survives int8: RSQRT of a wide range does not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from edgetool.convert.lowering.context import Lower, LowerContext

# L2_NORMALIZATION squares, sums and divides without rounding in between, but its results are 128ths: n values are
# each about 1/sqrt(n). Measured, it is worth it up to so many values.
MOST_IN_128THS = 16
# The square of the 1e-6 to which TensorFlow Lite's L2_NORMALIZATION raises a smaller norm: zeros stay zeros, and rows
# shorter than 1e-6 come out shorter than 1.
TINY = 1e-12
NOT_ZERO = 1e-20


def _layer_normalization(context: LowerContext, layer: Any) -> Callable[..., Any] | None:
    tf = context.tf
    if getattr(layer, "rms_scaling", False):
        return None

    def call(inputs: Any) -> Any:
        axes = _axes(layer.axis, inputs.shape.rank)
        # Centred first: x * inv - mean * inv, as Keras has it, is a difference of large numbers.
        centred = tf.cast(inputs, "float32")
        centred -= tf.reduce_mean(centred, axes, keepdims=True)
        outputs = _by_root_mean_square(tf, centred, axes, layer.epsilon, context.options.quantize)
        if layer.gamma is not None:
            outputs *= _spread(tf, layer.gamma, inputs.shape, axes)
        if layer.beta is not None:
            outputs += _spread(tf, layer.beta, inputs.shape, axes)
        return tf.cast(outputs, layer.compute_dtype)

    return call


def _rms_normalization(context: LowerContext, layer: Any) -> Callable[..., Any]:
    tf = context.tf

    def call(x: Any) -> Any:
        axes = _axes(layer.axis, x.shape.rank)
        outputs = _by_root_mean_square(tf, tf.cast(x, "float32"), axes, layer.epsilon, context.options.quantize)
        return tf.cast(outputs * tf.cast(tf.convert_to_tensor(layer.scale), "float32"), x.dtype)

    return call


def _unit_normalization(context: LowerContext, layer: Any) -> Callable[..., Any]:
    tf = context.tf

    def call(inputs: Any) -> Any:
        axes = _axes(layer.axis, inputs.shape.rank)
        if not _fits(inputs.shape, axes, context.options.quantize):
            # Neither SQUARE and SUM as Keras has it, at which int16x8 fails, nor MINIMUM, which has one scale for all.
            count = math.prod(inputs.shape[axis] for axis in axes)
            mean = tf.reduce_mean(inputs * inputs, axes, keepdims=True)
            return inputs * (tf.math.rsqrt(mean + NOT_ZERO) / math.sqrt(count))
        return tf.math.l2_normalize(inputs, -1, epsilon=TINY)

    return call


def _by_root_mean_square(tf: Any, x: Any, axes: list[int], epsilon: float, quantize: str) -> Any:
    """x / sqrt(mean(x**2) + epsilon) over the axes."""
    if not _fits(x.shape, axes, quantize):
        return x * tf.math.rsqrt(tf.reduce_mean(x * x, axes, keepdims=True) + epsilon)
    count = x.shape[-1]
    # n * epsilon joins the sum of squares as the square of one value more.
    more = tf.fill((*x.shape[:-1], 1), math.sqrt(count * epsilon))
    return tf.math.l2_normalize(tf.concat([x, more], -1), -1, epsilon=TINY)[..., :count] * math.sqrt(count)


def _fits(shape: Any, axes: list[int], quantize: str) -> bool:
    """Whether int8's L2_NORMALIZATION is the better way; it is over the last axis."""
    alone = axes == [shape.rank - 1]
    return quantize == "int8" and alone and shape.is_fully_defined() and shape[-1] <= MOST_IN_128THS


def _axes(axis: Any, rank: int) -> list[int]:
    return sorted(place % rank for place in (axis if isinstance(axis, list | tuple) else [axis]))


def _spread(tf: Any, variable: Any, shape: Any, axes: list[int]) -> Any:
    """A weight of the shape of `axes` in the shape that broadcasts along the others."""
    values = tf.cast(tf.convert_to_tensor(variable), "float32")
    if axes == [shape.rank - 1]:
        return values
    return tf.reshape(values, [shape[place] if place in axes else 1 for place in range(shape.rank)])


RULES: dict[str, Lower] = {
    "LayerNormalization": _layer_normalization,
    "RMSNormalization": _rms_normalization,
    "UnitNormalization": _unit_normalization,
}
