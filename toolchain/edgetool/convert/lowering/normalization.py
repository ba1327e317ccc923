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

# L2_NORMALIZATION squares, sums and divides without rounding in between, but its results are 128ths: n values are
# each about 1/sqrt(n). Measured, it is worth it up to so many values.
MAX_L2_VALUES = 16
# The square of the 1e-6 to which TensorFlow Lite's L2_NORMALIZATION raises a smaller norm: zeros stay zeros, and rows
# shorter than 1e-6 come out shorter than 1.
L2_EPSILON = 1e-12
MEAN_EPSILON = 1e-20


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
            return inputs * (tf.math.rsqrt(mean + MEAN_EPSILON) / math.sqrt(count))
        return tf.math.l2_normalize(inputs, -1, epsilon=L2_EPSILON)

    return call


def _by_root_mean_square(tf: Any, x: Any, axes: list[int], epsilon: float, quantize: str) -> Any:
    """x / sqrt(mean(x**2) + epsilon) over the axes."""
    if not _fits(x.shape, axes, quantize):
        return x * tf.math.rsqrt(tf.reduce_mean(x * x, axes, keepdims=True) + epsilon)
    count = x.shape[-1]
    # n * epsilon joins the sum of squares as the square of one value more.
    more = tf.fill((*x.shape[:-1], 1), math.sqrt(count * epsilon))
    return tf.math.l2_normalize(tf.concat([x, more], -1), -1, epsilon=L2_EPSILON)[..., :count] * math.sqrt(count)


def _fits(shape: Any, axes: list[int], quantize: str) -> bool:
    """Whether int8's L2_NORMALIZATION is the better way; it is over the last axis."""
    alone = axes == [shape.rank - 1]
    return quantize == "int8" and alone and shape.is_fully_defined() and shape[-1] <= MAX_L2_VALUES


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


# What tf.nn.batch_normalization calls its last operation: x * factor + shift.
LAST = "batchnorm/add_1"
# The converter takes a normalization into what made its input, but not into what reads its output.
ABSORBING = frozenset(["Conv2D", "Conv2DBackpropInput", "Conv3D", "DepthwiseConv2dNative", "MatMul"])
PASS_THROUGH = frozenset(["BiasAdd", "ExpandDims", "Identity", "Reshape", "Squeeze", "BatchToSpaceND"])
# TFLM keeps a multiplier and a shift of each channel of a convolution in the arena. All of them may take this part of
# the largest tensor among those normalized: DenseNet121 would take more for them than for all else.
BYTES_PER_CHANNEL = 8
LARGEST_TENSOR_SHARE = 8


def normalize_by_channel(tf: Any, graph: Any) -> None:
    """Let the readers of such normalizations of images or series read convolutions, the first ones as memory allows."""
    found = [last for last in graph.get_operations() if _is_unabsorbed(last)]
    left = max((last.outputs[0].shape.num_elements() for last in found), default=0) // LARGEST_TENSOR_SHARE
    for last in found:
        left -= BYTES_PER_CHANNEL * last.outputs[0].shape[-1]
        if left >= 0:
            _replace(tf, last)


def _is_unabsorbed(last: Any) -> bool:
    if last.type != "AddV2" or not last.name.endswith(LAST) or last.inputs[0].op.type != "Mul":
        return False
    x, factor = last.inputs[0].op.inputs
    read = bool(last.outputs[0].consumers())  # not by the caller alone
    return read and not _is_absorbed(x) and _per_channel(factor, x) and _per_channel(last.inputs[1], x)


def _replace(tf: Any, last: Any) -> None:
    readers = last.outputs[0].consumers()
    with tf.name_scope(last.name.removesuffix(LAST)):
        x, factor = last.inputs[0].op.inputs
        result = _convolved(tf, x, factor, last.inputs[1])
    for reader in readers:
        for place, tensor in enumerate(reader.inputs):
            if tensor is last.outputs[0]:
                reader._update_input(place, result)


def _convolved(tf: Any, x: Any, factor: Any, shift: Any) -> Any:
    image = x if x.shape.rank == 4 else tf.expand_dims(x, 1)
    channels = x.shape[-1]
    result = tf.nn.depthwise_conv2d(image, tf.reshape(factor, (1, 1, channels, 1)), (1, 1, 1, 1), "VALID")
    result = tf.nn.bias_add(result, tf.reshape(shift, (channels,)))
    return result if x.shape.rank == 4 else tf.squeeze(result, 1)


def _is_absorbed(x: Any) -> bool:
    maker = x.op
    while maker.type in PASS_THROUGH:
        maker = maker.inputs[0].op
    return maker.type in ABSORBING


def _per_channel(tensor: Any, x: Any) -> bool:
    """Whether it is one number per channel of images or series, the last axis, and depends on no input."""
    return (
        x.shape.rank in (3, 4)
        and x.shape.is_fully_defined()
        and tensor.shape.num_elements() == x.shape[-1] == tensor.shape[-1]
        and all(one.type != "Placeholder" or one.outputs[0].dtype.name == "resource" for one in _ancestors(tensor))
    )


def _ancestors(tensor: Any) -> Iterator[Any]:
    waiting, seen = [tensor.op], set()
    while waiting:
        operation = waiting.pop()
        if operation.name not in seen:
            seen.add(operation.name)
            yield operation
            waiting += [one.op for one in operation.inputs]


# REDUCE_PROD becomes so many multiplications at most.
MAX_FACTORS = 64


def _prod(context: FunctionContext) -> Callable[..., Any]:
    tf = context.tf

    def prod(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
        x = tf.convert_to_tensor(x)
        axes = [axis] if isinstance(axis, int) else list(range(x.shape.rank) if axis is None else axis)
        if not x.shape.is_fully_defined() or dtype is not None or not x.dtype.is_floating:
            return context.original(x, axis=axis, keepdims=keepdims, dtype=dtype)
        count = math.prod(x.shape[place] for place in axes)
        if count > MAX_FACTORS:
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
