"""A batch normalization that no convolution before it takes in, as a depthwise convolution of size 1.

As a product and a sum its factors have one scale for all channels, and the values are rounded twice; a convolution
has a scale for each channel, rounds once, and takes in an activation that follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# What tf.nn.batch_normalization calls its last operation: x * factor + shift.
LAST = "batchnorm/add_1"
# The converter takes a normalization into what made its input, but not into what reads its output.
MATRIX = frozenset(["Conv2D", "Conv2DBackpropInput", "Conv3D", "DepthwiseConv2dNative", "MatMul"])
PASSED = frozenset(["BiasAdd", "ExpandDims", "Identity", "Reshape", "Squeeze", "BatchToSpaceND"])
# TFLM keeps a multiplier and a shift of each channel of a convolution in the arena. All of them may take this part of
# the largest tensor among those normalized: DenseNet121 would take more for them than for all else.
BYTES_PER_CHANNEL = 8
SHARE = 8


def normalize_by_channel(tf: Any, graph: Any) -> None:
    """Let the readers of such normalizations of images or series read convolutions, the first ones as memory allows."""
    found = [last for last in graph.get_operations() if _is_alone(last)]
    left = max((last.outputs[0].shape.num_elements() for last in found), default=0) // SHARE
    for last in found:
        left -= BYTES_PER_CHANNEL * last.outputs[0].shape[-1]
        if left >= 0:
            _replace(tf, last)


def _is_alone(last: Any) -> bool:
    if last.type != "AddV2" or not last.name.endswith(LAST) or last.inputs[0].op.type != "Mul":
        return False
    x, factor = last.inputs[0].op.inputs
    read = bool(last.outputs[0].consumers())  # not by the caller alone
    return read and not _taken_in(x) and _per_channel(factor, x) and _per_channel(last.inputs[1], x)


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


def _taken_in(x: Any) -> bool:
    maker = x.op
    while maker.type in PASSED:
        maker = maker.inputs[0].op
    return maker.type in MATRIX


def _per_channel(tensor: Any, x: Any) -> bool:
    """Whether it is one number per channel of images or series, the last axis, and depends on no input."""
    return (
        x.shape.rank in (3, 4)
        and x.shape.is_fully_defined()
        and tensor.shape.num_elements() == x.shape[-1] == tensor.shape[-1]
        and all(one.type != "Placeholder" or one.outputs[0].dtype.name == "resource" for one in _above(tensor))
    )


def _above(tensor: Any) -> Iterator[Any]:
    waiting, seen = [tensor.op], set()
    while waiting:
        operation = waiting.pop()
        if operation.name not in seen:
            seen.add(operation.name)
            yield operation
            waiting += [one.op for one in operation.inputs]
