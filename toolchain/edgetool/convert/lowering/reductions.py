"""Reductions that TFLM has no operator for, in those that it has."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from edgetool.convert.lowering.context import FunctionContext, LowerFunction

# REDUCE_PROD becomes so many multiplications at most.
MOST_FACTORS = 64


def _prod(context: FunctionContext) -> Callable[..., Any]:
    tf = context.tf

    def prod(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
        x = tf.convert_to_tensor(x)
        axes = [axis] if isinstance(axis, int) else list(range(x.shape.rank) if axis is None else axis)
        if not x.shape.is_fully_defined() or dtype is not None or not x.dtype.is_floating:
            return context.original(x, axis=axis, keepdims=keepdims, dtype=dtype)
        count = math.prod(x.shape[place] for place in axes)
        if count > MOST_FACTORS:
            context.refuse(
                f"multiplies {count} values with each other, for which TFLM has no operator",
                "sum logarithms instead",
            )
        for place in sorted((place % x.shape.rank for place in axes), reverse=True):
            x = functools.reduce(tf.multiply, tf.split(x, x.shape[place], place))
        return x if keepdims else tf.squeeze(x, axes)

    return prod


def _log_sum_exp(context: FunctionContext) -> Callable[..., Any]:
    """Without the branch for infinite values, whose constants stop TFLM."""
    tf = context.tf

    def log_sum_exp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        x = tf.convert_to_tensor(x)
        largest = tf.reduce_max(x, axis, keepdims=True)
        total = tf.math.log(tf.reduce_sum(tf.exp(x - largest), axis, keepdims=True)) + largest
        if keepdims:
            return total
        return (
            tf.reshape(total, tf.reduce_max(x, axis).shape) if x.shape.is_fully_defined() else tf.squeeze(total, axis)
        )

    return log_sum_exp


FUNCTIONS: dict[str, LowerFunction] = {
    "math.logsumexp": _log_sum_exp,
    "numpy.prod": _prod,
}
