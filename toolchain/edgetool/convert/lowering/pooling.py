"""Pools that TFLM lacks: over volumes, and to a given size (adaptive)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from edgetool.convert.lowering.context import FunctionContext, Lower, LowerContext, LowerFunction
from edgetool.convert.lowering.volumes import triple


def _pool_3d(name: str) -> LowerFunction:
    """A pool of a volume as one over height and width and one over depth."""

    def lower(context: FunctionContext) -> Callable[..., Any]:
        tf = context.tf
        pool = getattr(tf.nn, "max_pool2d" if name == "max" else "avg_pool2d")

        def pooled(
            inputs: Any, pool_size: Any, strides: Any = None, padding: str = "valid", data_format: str | None = None
        ) -> Any:
            shape = inputs.shape
            if shape.rank != 5 or not shape.is_fully_defined() or data_format == "channels_first":
                return context.original(inputs, pool_size, strides, padding, data_format)
            size = triple(pool_size)
            stride = size if strides is None else triple(strides)
            batch, depth, height, width, channels = shape.as_list()
            x = tf.reshape(inputs, (batch * depth, height, width, channels))
            x = pool(x, size[1:], stride[1:], padding.upper())
            _, height, width, _ = x.shape.as_list()
            x = tf.reshape(x, (batch, depth, height * width, channels))
            x = pool(x, (size[0], 1), (stride[0], 1), padding.upper())
            return tf.reshape(x, (batch, x.shape[1], height, width, channels))

        return pooled

    return lower


def _adaptive(name: str) -> LowerFunction:
    """A pool to a given size, one axis after the other: Keras gathers from two pools of every position."""

    def lower(context: FunctionContext) -> Callable[..., Any]:
        tf = context.tf

        def reduced(x: Any, length: int) -> Any:
            """Each `length` indices of axis 1 of three as one."""
            if name == "max":  # by MAX_POOL_2D, which has int16 too, unlike REDUCE_MAX
                return tf.squeeze(tf.nn.max_pool2d(tf.expand_dims(x, 2), (length, 1), (length, 1), "VALID"), 2)
            before, size, after = x.shape.as_list()
            means = tf.reduce_mean(tf.reshape(x, (before * size // length, length, after)), 1)
            return tf.reshape(means, (before, size // length, after))

        def along(x: Any, axis: int, count: int) -> Any:
            shape = x.shape.as_list()
            size = shape[axis]
            if count == size:
                return x
            before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
            x = tf.reshape(x, (before, size, after))
            if size % count == 0:  # equal windows
                x = reduced(x, size // count)
            else:
                windows = [(place * size // count, -(-(place + 1) * size // count)) for place in range(count)]
                x = tf.concat([reduced(x[:, start:stop], stop - start) for start, stop in windows], 1)
            return tf.reshape(x, (*shape[:axis], count, *shape[axis + 1 :]))

        def pooled(inputs: Any, output_size: int | Sequence[int], data_format: str | None = None) -> Any:
            if not inputs.shape.is_fully_defined():
                return context.original(inputs, output_size, data_format)
            first = 2 if data_format == "channels_first" else 1
            axes = range(first, first + inputs.shape.rank - 2)
            counts = (output_size,) * len(axes) if isinstance(output_size, int) else output_size
            for axis, count in zip(axes, counts, strict=True):
                inputs = along(inputs, axis, count)
            return inputs

        return pooled

    return lower


def _global_max(context: LowerContext, layer: Any) -> Callable[..., Any] | None:
    if context.options.quantize != "int16x8" or layer.data_format == "channels_first":
        return None
    tf = context.tf

    def call(inputs: Any) -> Any:
        if not inputs.shape.is_fully_defined():
            return context.original(inputs)
        batch, *sizes, channels = inputs.shape.as_list()
        count = math.prod(sizes)
        x = tf.nn.max_pool2d(tf.reshape(inputs, (batch, count, 1, channels)), (count, 1), 1, "VALID")
        return tf.reshape(x, (batch, *([1] * len(sizes) if layer.keepdims else []), channels))

    return call


RULES: dict[str, Lower] = dict.fromkeys([f"GlobalMaxPooling{rank}D" for rank in (1, 2, 3)], _global_max)
FUNCTIONS: dict[str, LowerFunction] = {
    "nn.adaptive_average_pool": _adaptive("average"),
    "nn.adaptive_max_pool": _adaptive("max"),
    "nn.average_pool": _pool_3d("average"),
    "nn.max_pool": _pool_3d("max"),
}
