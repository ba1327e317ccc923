"""Masks without REDUCE_ANY, and attention that leaves out positions without sums of -1e9, in which int8 loses all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from edgetool.convert.lowering.context import FunctionContext, Lower, LowerContext, LowerFunction

# Below the largest score that counts: exp(-16) is 1e-7.
FAR = 16.0


def _any(context: FunctionContext) -> Callable[..., Any]:
    """Not all are not: TFLM has REDUCE_ALL."""
    tf = context.tf

    def some(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return tf.logical_not(tf.reduce_all(tf.logical_not(tf.cast(x, "bool")), axis=axis, keepdims=keepdims))

    return some


def _masking(context: LowerContext, layer: Any) -> Callable[..., Any] | None:
    if layer.mask_value and context.options.quantize in ("int8", "int16x8"):
        context.note(
            f"layer {context.scope!r} (Masking) compares quantized values with {layer.mask_value:g}, but only 0 is "
            "guaranteed to be exactly representable"
        )
    return None


def masked_scores(tf: Any, scores: Any, mask: Any, quantize: str) -> Any:
    """Scores whose softmax over the last axis is that of `scores` where the mask holds, and 0 (1e-7) elsewhere.

    The largest score that counts becomes 0, what does not count becomes FAR below it, and what is further below is
    worth no more: the values have a range of FAR, whatever the scores are.
    """
    if quantize == "int16x8":
        # There is no REDUCE_MAX, SELECT_V2 or GREATER in 16 bits. Above the row's lowest, what does not count is 0 and
        # what counts is not below it, so that the largest of all is the largest that counts.
        kept = tf.cast(mask, scores.dtype)
        above = (scores + _largest(tf, scores * -1.0)) * kept
        return above - _largest(tf, above) + (kept - 1) * FAR
    lowest = tf.reduce_min(scores, -1, keepdims=True)
    largest = tf.reduce_max(tf.where(mask, scores, lowest), -1, keepdims=True)
    return tf.maximum(tf.where(mask, scores - largest, -FAR), -FAR)


def _largest(tf: Any, scores: Any) -> Any:
    """The largest of each row, (..., 1), by MAX_POOL_2D, which has int16."""
    if not scores.shape.is_fully_defined():
        return tf.reduce_max(scores, -1, keepdims=True)
    *rows, count = scores.shape.as_list()
    pooled = tf.nn.max_pool2d(tf.reshape(scores, (math.prod(rows), count, 1, 1)), (count, 1), 1, "VALID")
    return tf.reshape(pooled, (*rows, 1))


def _apply_masks(context: FunctionContext) -> Callable[..., Any]:
    """In keras.ops.dot_product_attention, which MultiHeadAttention and GroupQueryAttention use."""
    tf = context.tf

    def apply(logits: Any, mask: Any, is_causal: bool) -> Any:
        if is_causal:
            causal = tf.constant(np.tri(*logits.shape[-2:])[None, None] > 0)
            mask = causal if mask is None else tf.logical_and(mask, causal)
        return logits if mask is None else masked_scores(tf, logits, mask, context.options.quantize)

    return apply


def _attention(context: LowerContext, layer: Any) -> Callable[..., Any]:
    """Attention and AdditiveAttention mask in a method of their own."""
    tf, apply = context.tf, layer._apply_scores

    def apply_scores(scores: Any, value: Any, scores_mask: Any = None, training: bool = False) -> Any:
        if scores_mask is not None:
            mask = scores_mask if len(scores_mask.shape) > 2 else tf.expand_dims(scores_mask, -2)
            scores = masked_scores(tf, scores, mask, context.options.quantize)
        return apply(scores, value, None, training)

    def call(*args: Any, **kwargs: Any) -> Any:
        vars(layer)["_apply_scores"] = apply_scores
        try:
            return context.original(*args, **kwargs)
        finally:
            del vars(layer)["_apply_scores"]

    return call


def _softmax(context: LowerContext, layer: Any) -> Callable[..., Any] | None:
    tf = context.tf
    axes = layer.axis if isinstance(layer.axis, list | tuple) else [layer.axis]
    if len(axes) > 1:
        return None

    def call(inputs: Any, mask: Any = None) -> Any:
        if mask is None or axes[0] % len(inputs.shape) != len(inputs.shape) - 1:
            return context.original(inputs, mask=mask)
        mask = mask if mask.dtype == tf.bool else mask > 0.5
        outputs = tf.nn.softmax(masked_scores(tf, inputs, mask, context.options.quantize))
        return outputs * tf.cast(mask, outputs.dtype)

    return call


RULES: dict[str, Lower] = {
    "AdditiveAttention": _attention,
    "Attention": _attention,
    "Masking": _masking,
    "Softmax": _softmax,
}
FUNCTIONS: dict[str, LowerFunction] = {"nn._apply_masks": _apply_masks, "numpy.any": _any}
