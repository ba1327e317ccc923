"""Copies along an axis: TFLM has no TILE, but BROADCAST_TO in every type, and RESIZE_NEAREST_NEIGHBOR for images."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from edgetool.convert.lowering.context import FunctionContext, Lower, LowerContext, LowerFunction


def copied(tf: Any, x: Any, axis: int, times: int, *, each: bool) -> Any:
    """`x` (static shape) with its indices of `axis` repeated `times` times, each in turn or all of them again."""
    shape = x.shape.as_list()
    if times == 1:
        return x
    split = axis + 1 if each else axis
    before, after = math.prod(shape[:split]), math.prod(shape[split:])
    spread = tf.broadcast_to(tf.reshape(x, (before, 1, after)), (before, times, after))
    return tf.reshape(spread, (*shape[:axis], shape[axis] * times, *shape[axis + 1 :]))


def _repeat(context: FunctionContext) -> Callable[..., Any]:
    tf = context.tf

    def repeat(x: Any, repeats: Any, axis: int | None = None) -> Any:
        x = tf.convert_to_tensor(x)
        if not isinstance(repeats, int) or not x.shape.is_fully_defined():
            return context.original(x, repeats, axis=axis)
        if axis is None:
            x, axis = tf.reshape(x, (-1,)), 0
        return copied(tf, x, axis % x.shape.rank, repeats, each=True)

    return repeat


def _tile(context: FunctionContext) -> Callable[..., Any]:
    tf = context.tf

    def tile(x: Any, repeats: int | Sequence[int]) -> Any:
        x = tf.convert_to_tensor(x)
        times = [repeats] if isinstance(repeats, int) else list(repeats)
        if not all(isinstance(count, int) for count in times) or not x.shape.is_fully_defined():
            return context.original(x, repeats)
        rank = max(len(times), x.shape.rank)
        times = [1] * (rank - len(times)) + times
        x = tf.reshape(x, [1] * (rank - x.shape.rank) + x.shape.as_list())
        for axis, count in enumerate(times):
            x = copied(tf, x, axis, count, each=False)
        return x

    return tile


def _up_sampling_2d(context: LowerContext, layer: Any) -> Callable[..., Any] | None:
    if layer.interpolation != "nearest":
        return None
    tf = context.tf

    def call(inputs: Any) -> Any:
        first = layer.data_format == "channels_first"
        x = tf.transpose(inputs, (0, 2, 3, 1)) if first else inputs
        size = [old * factor for old, factor in zip(x.shape[1:3], layer.size, strict=True)]
        # With half-pixel centres no coordinate comes near a whole number: rounding cannot choose a neighbour.
        x = tf.image.resize(x, size, method="nearest")
        return tf.transpose(x, (0, 3, 1, 2)) if first else x

    return call


RULES: dict[str, Lower] = {"UpSampling2D": _up_sampling_2d}
FUNCTIONS: dict[str, LowerFunction] = {"numpy.repeat": _repeat, "numpy.tile": _tile}
