"""Interpolations that TFLM has no operator for: a resize is a matrix along the height and one along the width."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool.convert.lowering.context import FunctionContext, LowerFunction


def _resize(context: FunctionContext) -> Callable[..., Any]:
    tf = context.tf

    def resize(
        images: Any, size: Any, interpolation: str = "bilinear", antialias: bool = False, *args: Any, **options: Any
    ) -> Any:
        given = {"interpolation": interpolation, "antialias": antialias}
        native = {"nearest"} if context.options.quantize == "int16x8" else {"nearest", "bilinear"}
        if interpolation in native and not antialias:
            return context.original(images, size, interpolation, antialias, *args, **options)
        first = options.get("data_format") == "channels_first"
        changed = args or any(value for name, value in options.items() if name.endswith("_to_aspect_ratio"))
        images = tf.convert_to_tensor(images)
        if first or changed or not images.shape.is_fully_defined() or images.shape.rank not in (3, 4):
            context.refuse(
                f"resizes with {interpolation!r} interpolation, for which TFLM has no operator",
                "use interpolation='bilinear' or 'nearest' without antialias, and data_format='channels_last'",
            )

        def matrix(old: int, new: int) -> npt.NDArray[np.float32]:
            """What the original does with each single pixel of a column, (old, new)."""
            with tf.init_scope():
                ones = tf.reshape(tf.eye(old), (1, old, 1, old))
                found: Any = context.original(ones, (new, 1), **given, data_format="channels_last")
                return np.transpose(np.asarray(found).reshape(new, old)).astype(np.float32)

        x = tf.cast(images if images.shape.rank == 4 else images[None], "float32")
        batch, height, width, channels = x.shape.as_list()
        rows, columns = (int(length) for length in size)
        x = tf.reshape(tf.transpose(x, (0, 2, 3, 1)), (-1, height)) @ matrix(height, rows)
        x = tf.transpose(tf.reshape(x, (batch, width, channels, rows)), (0, 3, 2, 1))
        x = tf.reshape(x, (-1, width)) @ matrix(width, columns)
        x = tf.transpose(tf.reshape(x, (batch, rows, channels, columns)), (0, 1, 3, 2))
        return tf.cast(x if images.shape.rank == 4 else x[0], images.dtype)

    return resize


FUNCTIONS: dict[str, LowerFunction] = {"image.resize": _resize}
