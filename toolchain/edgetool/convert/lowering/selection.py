"""Lower index lookups, conversions to indices, and masks, to operators that TFLM has.

Masks do not use REDUCE_ANY, which TFLM lacks. Attention is masked without adding -1e9, which would lose all precision
in int8.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from edgetool.convert.lowering.context import FunctionContext, Lower, LowerContext, LowerFunction

# The number of indices that int8 can represent: the index and the sum that rounds it each have an error of half a
# quantization step, indices/255.
INT8_INDICES = 127


def rounded_indices(tf: Any, x: Any) -> Any:
    """Round whole numbers of any type to int32. Keras truncates, but a 5 may be 4.99 after quantization."""
    x = _integer_source(x)
    return tf.cast(tf.floor(x + 0.5) if x.dtype.is_floating else x, "int32")


def _integer_source(x: Any) -> Any:
    """Return the integers that Keras cast to float, as it does with the inputs of a float layer; else x itself."""
    operation: Any = getattr(x, "op", None)  # an eager tensor has none
    if operation is not None and operation.type == "Cast" and operation.inputs[0].dtype.is_integer:
        return operation.inputs[0]
    return x


def _embedding(context: LowerContext, layer: Any) -> Callable[..., Any] | None:
    """Lower to a plain GATHER: an Embedding has no negative indices, which keras.ops.take would count from the end."""
    tf = context.tf
    if layer.lora_enabled or getattr(layer, "quantization_mode", None):
        return None

    def call(inputs: Any) -> Any:
        exceeds_int8 = context.options.quantize == "int8" and layer.input_dim > INT8_INDICES
        if exceeds_int8 and _integer_source(inputs).dtype.is_floating:
            context.refuse(
                f"accepts {layer.input_dim} indices as {inputs.dtype.name}, and int8 cannot represent that many",
                "declare the model's input with dtype='int32'",
            )
        outputs = tf.gather(tf.convert_to_tensor(layer.embeddings), rounded_indices(tf, inputs))
        return tf.cast(outputs, layer.compute_dtype)

    return call


def _take(context: FunctionContext) -> Callable[..., Any]:
    tf = context.tf

    def take(x: Any, indices: Any, axis: int | None = None) -> Any:
        if isinstance(indices, tf.SparseTensor | tf.RaggedTensor):
            return context.original(x, indices, axis=axis)
        x = tf.convert_to_tensor(x)
        if axis is None:
            x, axis = tf.reshape(x, (-1,)), 0
        size = x.shape[axis]
        indices = tf.convert_to_tensor(indices)
        constant = tf.get_static_value(indices)
        if size is None:
            return context.original(x, indices, axis=axis)
        if constant is not None:
            return tf.gather(x, tf.constant(constant % size if (constant < 0).any() else constant, "int32"), axis=axis)
        # A sum, because SELECT_V2 does not support int32.
        indices = tf.cast(indices, "int32")
        return tf.gather(x, indices + tf.cast(indices < 0, "int32") * size, axis=axis)

    return take


def _one_hot(context: FunctionContext) -> Callable[..., Any]:
    tf = context.tf

    def one_hot(x: Any, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False) -> Any:
        x = tf.convert_to_tensor(x)
        if sparse or not x.shape.is_fully_defined():
            return context.original(x, num_classes, axis=axis, dtype=dtype, sparse=sparse)
        x = tf.cast(x, "int32")
        rank = x.shape.rank + 1
        axis %= rank
        classes = tf.reshape(tf.range(num_classes), [num_classes if index == axis else 1 for index in range(rank)])
        shape = x.shape.as_list()
        x = tf.reshape(x, [*shape[:axis], 1, *shape[axis:]])
        # Two comparisons: the converter turns a single EQUAL into ONE_HOT, which TFLM lacks.
        is_class = tf.logical_and(x >= classes, x <= classes)
        return is_class if dtype == "bool" else tf.cast(is_class, dtype or "float32")

    return one_hot


def _digitize(context: FunctionContext) -> Callable[..., Any]:
    tf = context.tf

    def digitize(x: Any, bins: Sequence[float]) -> Any:
        if isinstance(x, tf.SparseTensor | tf.RaggedTensor):
            return context.original(x, bins)
        x = tf.convert_to_tensor(x)
        x = x if x.dtype.is_floating else tf.cast(x, "float32")
        boundaries = [float(value) for value in bins]
        if not boundaries:
            return tf.zeros_like(x, dtype="int32")
        steps = [tf.cast(x >= tf.constant(value, x.dtype), "int32") for value in boundaries]
        return functools.reduce(tf.add, steps)

    return digitize


def _extreme(name: str) -> LowerFunction:
    """Lower argmax or argmin without the bit operations by which Keras distinguishes -0.0 from 0.0."""

    def lower(context: FunctionContext) -> Callable[..., Any]:
        tf = context.tf
        search = getattr(tf, name)

        def find(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
            x = tf.convert_to_tensor(x)
            if x.shape.rank == 0:
                return context.original(x, axis=axis, keepdims=keepdims)
            shape = x.shape.as_list()
            flat = tf.reshape(x, (-1,)) if axis is None else x
            indices = search(flat, axis=axis if axis is not None else 0, output_type="int32")
            if not keepdims:
                return indices
            return tf.reshape(indices, [1] * len(shape)) if axis is None else tf.expand_dims(indices, axis)

        return find

    return lower


def _encoded(tf: Any, one_hot: Callable[..., Any], x: Any, mode: str, depth: int, dtype: Any, weights: Any) -> Any:
    """Compute the modes of CategoryEncoding from one-hot vectors, because TensorFlow Lite has no bincount."""
    x = rounded_indices(tf, tf.convert_to_tensor(x))
    if mode == "one_hot":
        return one_hot(tf.squeeze(x, -1) if x.shape.rank > 1 and x.shape[-1] == 1 else x, depth, dtype=dtype)
    vectors = one_hot(x, depth, dtype=dtype if weights is None else weights.dtype)
    if weights is not None:
        vectors *= tf.expand_dims(weights, -1)
    axis = 1 if x.shape.rank > 1 else 0
    return tf.reduce_max(vectors, axis) if mode == "multi_hot" else tf.reduce_sum(vectors, axis)


def _category_encoding(context: LowerContext, layer: Any) -> Callable[..., Any] | None:
    if layer.sparse or layer.output_mode not in ("one_hot", "multi_hot", "count"):
        return None
    tf = context.tf
    one_hot = _one_hot(FunctionContext(tf, context.options, {}, context.keras.ops.one_hot))

    def call(inputs: Any, count_weights: Any = None) -> Any:
        if count_weights is not None:
            count_weights = tf.cast(count_weights, layer.compute_dtype)
        return _encoded(tf, one_hot, inputs, layer.output_mode, layer.num_tokens, layer.dtype, count_weights)

    return call


def _discretization(context: LowerContext, layer: Any) -> Callable[..., Any] | None:
    if layer.sparse or layer.bin_boundaries is None:
        return None
    tf = context.tf
    one_hot = _one_hot(FunctionContext(tf, context.options, {}, context.keras.ops.one_hot))
    digitize = _digitize(FunctionContext(tf, context.options, {}, context.keras.ops.digitize))

    def call(inputs: Any) -> Any:
        indices = digitize(inputs, layer.bin_boundaries)
        if layer.output_mode == "int":
            return tf.cast(indices, layer.output_dtype)
        depth = len(layer.bin_boundaries) + 1
        return _encoded(tf, one_hot, indices, layer.output_mode, depth, layer.output_dtype, None)

    return call


LOOKUP_RULES: dict[str, Lower] = {
    "CategoryEncoding": _category_encoding,
    "Discretization": _discretization,
    "Embedding": _embedding,
}
LOOKUP_FUNCTIONS: dict[str, LowerFunction] = {
    "nn.one_hot": _one_hot,
    "numpy.argmax": _extreme("argmax"),
    "numpy.argmin": _extreme("argmin"),
    "numpy.digitize": _digitize,
    "numpy.take": _take,
}


# Masked scores are this far below the largest unmasked score: exp(-16) is 1e-7.
MASK_DISTANCE = 16.0


def _any(context: FunctionContext) -> Callable[..., Any]:
    """Lower any(x) to not all(not x): TFLM has REDUCE_ALL."""
    tf = context.tf

    def lowered(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return tf.logical_not(tf.reduce_all(tf.logical_not(tf.cast(x, "bool")), axis=axis, keepdims=keepdims))

    return lowered


def _masking(context: LowerContext, layer: Any) -> Callable[..., Any] | None:
    if layer.mask_value and context.options.quantize in ("int8", "int16x8"):
        context.note(
            f"layer {context.scope!r} (Masking) compares quantized values with {layer.mask_value:g}, but only 0 is "
            "guaranteed to be exactly representable"
        )
    return None


def masked_scores(tf: Any, scores: Any, mask: Any, quantize: str) -> Any:
    """Return scores whose softmax over the last axis is that of the unmasked `scores`, and 0 (1e-7) for masked ones.

    The largest unmasked score becomes 0. Masked scores become -MASK_DISTANCE, and lower scores are clipped to it, so
    that the range of the values is MASK_DISTANCE for all scores.
    """
    if quantize == "int16x8":
        # There is no REDUCE_MAX, SELECT_V2 or GREATER in 16 bits. After the subtraction of the row's minimum, masked
        # scores are 0 and unmasked ones at least 0, so that the maximum is the largest unmasked score.
        unmasked = tf.cast(mask, scores.dtype)
        shifted = (scores + _largest(tf, scores * -1.0)) * unmasked
        return shifted - _largest(tf, shifted) + (unmasked - 1) * MASK_DISTANCE
    lowest = tf.reduce_min(scores, -1, keepdims=True)
    largest = tf.reduce_max(tf.where(mask, scores, lowest), -1, keepdims=True)
    return tf.maximum(tf.where(mask, scores - largest, -MASK_DISTANCE), -MASK_DISTANCE)


def _largest(tf: Any, scores: Any) -> Any:
    """Return the maximum of each row, (..., 1), by MAX_POOL_2D, which supports int16."""
    if not scores.shape.is_fully_defined():
        return tf.reduce_max(scores, -1, keepdims=True)
    *rows, count = scores.shape.as_list()
    pooled = tf.nn.max_pool2d(tf.reshape(scores, (math.prod(rows), count, 1, 1)), (count, 1), 1, "VALID")
    return tf.reshape(pooled, (*rows, 1))


def _apply_masks(context: FunctionContext) -> Callable[..., Any]:
    """Lower the masks of keras.ops.dot_product_attention, which MultiHeadAttention and GroupQueryAttention use."""
    tf = context.tf

    def apply(logits: Any, mask: Any, is_causal: bool) -> Any:
        if is_causal:
            causal = tf.constant(np.tri(*logits.shape[-2:])[None, None] > 0)
            mask = causal if mask is None else tf.logical_and(mask, causal)
        return logits if mask is None else masked_scores(tf, logits, mask, context.options.quantize)

    return apply


def _attention(context: LowerContext, layer: Any) -> Callable[..., Any]:
    """Lower the masks of Attention and AdditiveAttention, which apply them in a method of the layer."""
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


MASK_RULES: dict[str, Lower] = {
    "AdditiveAttention": _attention,
    "Attention": _attention,
    "Masking": _masking,
    "Softmax": _softmax,
}
MASK_FUNCTIONS: dict[str, LowerFunction] = {"nn._apply_masks": _apply_masks, "numpy.any": _any}
