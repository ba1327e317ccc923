"""Lower normalizations and reductions to operators that TFLM has, in a form that stays accurate in int8.

A batch normalization that no preceding convolution absorbs becomes a depthwise convolution of size 1. As a product and
a sum, its factors would have one scale for all channels, and the values would be rounded twice; a convolution has a
scale for each channel, rounds once, and absorbs an activation that follows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

from edgetool.convert.lowering.context import FunctionContext, Lower, LowerContext, LowerFunction

# L2_NORMALIZATION squares, sums and divides without rounding in between, but its results are multiples of 1/128, and n
# values are each about 1/sqrt(n). Measured: it is more accurate up to this number of values.
MAX_L2_VALUES = 16
# The square of 1e-6, the minimum to which TensorFlow Lite's L2_NORMALIZATION clamps the norm: zeros stay zeros, and
# rows with a norm below 1e-6 get a norm below 1.
L2_EPSILON = 1e-12
MEAN_EPSILON = 1e-20


def _layer_normalization(context: LowerContext, layer: Any) -> Callable[..., Any] | None:
    tf = context.tf
    if getattr(layer, "rms_scaling", False):
        return None

    def call(inputs: Any) -> Any:
        axes = _axes(layer.axis, inputs.shape.rank)
        # Subtract the mean first: x * inv - mean * inv, as in Keras, is a difference of large numbers.
        centred = tf.cast(inputs, "float32")
        centred -= tf.reduce_mean(centred, axes, keepdims=True)
        outputs = _by_root_mean_square(tf, centred, axes, layer.epsilon, context.options.quantize)
        if layer.gamma is not None:
            outputs *= _broadcastable(tf, layer.gamma, inputs.shape, axes)
        if layer.beta is not None:
            outputs += _broadcastable(tf, layer.beta, inputs.shape, axes)
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
        if not _is_l2_better(inputs.shape, axes, context.options.quantize):
            # SQUARE and SUM, as in Keras, fail with int16x8; MINIMUM requires one scale for its inputs and output.
            count = math.prod(inputs.shape[axis] for axis in axes)
            mean = tf.reduce_mean(inputs * inputs, axes, keepdims=True)
            return inputs * (tf.math.rsqrt(mean + MEAN_EPSILON) / math.sqrt(count))
        return tf.math.l2_normalize(inputs, -1, epsilon=L2_EPSILON)

    return call


def _by_root_mean_square(tf: Any, x: Any, axes: list[int], epsilon: float, quantize: str) -> Any:
    """Return x / sqrt(mean(x**2) + epsilon) over the axes."""
    if not _is_l2_better(x.shape, axes, quantize):
        return x * tf.math.rsqrt(tf.reduce_mean(x * x, axes, keepdims=True) + epsilon)
    count = x.shape[-1]
    # Add n * epsilon to the sum of squares, as the square of an additional value.
    additional = tf.fill((*x.shape[:-1], 1), math.sqrt(count * epsilon))
    return tf.math.l2_normalize(tf.concat([x, additional], -1), -1, epsilon=L2_EPSILON)[..., :count] * math.sqrt(count)


def _is_l2_better(shape: Any, axes: list[int], quantize: str) -> bool:
    """Return whether L2_NORMALIZATION in int8, which normalizes over the last axis, is more accurate."""
    is_last_axis = axes == [shape.rank - 1]
    return quantize == "int8" and is_last_axis and shape.is_fully_defined() and shape[-1] <= MAX_L2_VALUES


def _axes(axis: Any, rank: int) -> list[int]:
    return sorted(index % rank for index in (axis if isinstance(axis, list | tuple) else [axis]))


def _broadcastable(tf: Any, variable: Any, shape: Any, axes: list[int]) -> Any:
    """Reshape a weight with the shape of `axes`, so that it broadcasts along the other axes."""
    values = tf.cast(tf.convert_to_tensor(variable), "float32")
    if axes == [shape.rank - 1]:
        return values
    return tf.reshape(values, [shape[index] if index in axes else 1 for index in range(shape.rank)])


RULES: dict[str, Lower] = {
    "LayerNormalization": _layer_normalization,
    "RMSNormalization": _rms_normalization,
    "UnitNormalization": _unit_normalization,
}


# The name of the last operation of tf.nn.batch_normalization: x * factor + shift.
LAST_OPERATION = "batchnorm/add_1"
# The converter merges a normalization into the operation before it, but not into one after it.
ABSORBING = frozenset(["Conv2D", "Conv2DBackpropInput", "Conv3D", "DepthwiseConv2dNative", "MatMul"])
PASS_THROUGH = frozenset(["BiasAdd", "ExpandDims", "Identity", "Reshape", "Squeeze", "BatchToSpaceND"])
# TFLM keeps a multiplier and a shift for each channel of a convolution in the arena. Together they may occupy this
# fraction (1/8) of the largest normalized tensor: DenseNet121 would need more memory for them than for everything else.
BYTES_PER_CHANNEL = 8
LARGEST_TENSOR_DIVISOR = 8


def normalize_by_channel(tf: Any, graph: Any) -> None:
    """Replace unabsorbed normalizations of images or series by convolutions, in order, as long as memory allows."""
    candidates = [last for last in graph.get_operations() if _is_unabsorbed(last)]
    available = max((last.outputs[0].shape.num_elements() for last in candidates), default=0) // LARGEST_TENSOR_DIVISOR
    for last in candidates:
        available -= BYTES_PER_CHANNEL * last.outputs[0].shape[-1]
        if available >= 0:
            _replace(tf, last)


def _is_unabsorbed(last: Any) -> bool:
    if last.type != "AddV2" or not last.name.endswith(LAST_OPERATION) or last.inputs[0].op.type != "Mul":
        return False
    x, factor = last.inputs[0].op.inputs
    is_read = bool(last.outputs[0].consumers())  # by the graph, not only by the caller
    return is_read and not _is_absorbed(x) and _per_channel(factor, x) and _per_channel(last.inputs[1], x)


def _replace(tf: Any, last: Any) -> None:
    readers = last.outputs[0].consumers()
    with tf.name_scope(last.name.removesuffix(LAST_OPERATION)):
        x, factor = last.inputs[0].op.inputs
        result = _convolved(tf, x, factor, last.inputs[1])
    for reader in readers:
        for index, tensor in enumerate(reader.inputs):
            if tensor is last.outputs[0]:
                reader._update_input(index, result)


def _convolved(tf: Any, x: Any, factor: Any, shift: Any) -> Any:
    image = x if x.shape.rank == 4 else tf.expand_dims(x, 1)
    channels = x.shape[-1]
    result = tf.nn.depthwise_conv2d(image, tf.reshape(factor, (1, 1, channels, 1)), (1, 1, 1, 1), "VALID")
    result = tf.nn.bias_add(result, tf.reshape(shift, (channels,)))
    return result if x.shape.rank == 4 else tf.squeeze(result, 1)


def _is_absorbed(x: Any) -> bool:
    producer = x.op
    while producer.type in PASS_THROUGH:
        producer = producer.inputs[0].op
    return producer.type in ABSORBING


def _per_channel(tensor: Any, x: Any) -> bool:
    """Return whether a tensor has one value per channel (last axis) of images or series, and depends on no input."""
    return (
        x.shape.rank in (3, 4)
        and x.shape.is_fully_defined()
        and tensor.shape.num_elements() == x.shape[-1] == tensor.shape[-1]
        and all(one.type != "Placeholder" or one.outputs[0].dtype.name == "resource" for one in _ancestors(tensor))
    )


def _ancestors(tensor: Any) -> Iterator[Any]:
    stack, seen = [tensor.op], set()
    while stack:
        operation = stack.pop()
        if operation.name not in seen:
            seen.add(operation.name)
            yield operation
            stack += [source.op for source in operation.inputs]


# The largest number of multiplications that replace a REDUCE_PROD.
MAX_FACTORS = 64


def _prod(context: FunctionContext) -> Callable[..., Any]:
    tf = context.tf

    def prod(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
        x = tf.convert_to_tensor(x)
        axes = [axis] if isinstance(axis, int) else list(range(x.shape.rank) if axis is None else axis)
        if not x.shape.is_fully_defined() or dtype is not None or not x.dtype.is_floating:
            return context.original(x, axis=axis, keepdims=keepdims, dtype=dtype)
        count = math.prod(x.shape[index] for index in axes)
        if count > MAX_FACTORS:
            context.refuse(
                f"multiplies {count} values with each other, for which TFLM has no operator",
                "sum logarithms instead",
            )
        for index in sorted((index % x.shape.rank for index in axes), reverse=True):
            x = functools.reduce(tf.multiply, tf.split(x, x.shape[index], index))
        return x if keepdims else tf.squeeze(x, axes)

    return prod


def _log_sum_exp(context: FunctionContext) -> Callable[..., Any]:
    """Omit the branch for infinite values, whose constants TFLM rejects."""
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
