"""Requantize a tensor that is read both by a minimum, maximum, choice or clip and by another operation.

TensorFlow's quantizer gives the inputs of these operators the scale of their output. Its range is all that they need of
an input, but any other reader of the input would find it clipped to that range.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# The first input that is data, not a condition.
SHARED_SCALE_INPUT = {"ClipByValue": 0, "MaxPool": 0, "Maximum": 0, "Minimum": 0, "Select": 1, "SelectV2": 1}
SHARED_SCALE = {*SHARED_SCALE_INPUT, "ConcatV2", "Pack"}
# These preserve the scale too; their first input is the data.
SCALE_PRESERVING = frozenset(
    ["ExpandDims", "GatherV2", "Identity", "Pad", "PadV2", "Reshape", "Slice", "Squeeze", "StridedSlice", "Transpose"]
)
# The quantizer fixes their scale, and gives it to every tensor that shares it.
FIXED_SCALE = frozenset(["LogSoftmax", "Sigmoid", "Softmax", "Tanh"])
# The maximum of their values has the range of all: from 0, which is in every range, to the largest.
NEVER_NEGATIVE = frozenset(["Relu", "Relu6", "Sigmoid", "Softmax"])
CONSTANT_OPERATIONS = frozenset(["Const", "ReadVariableOp"])
# The step below 1 in float32. The converter removes a slope of 1, and merges operators of the same input and slope.
SLOPE_STEP = 2.0**-24


def requantize_shared_tensors(tf: Any, graph: Any) -> None:
    """Insert LEAKY_RELU, which changes values by at most 1e-6 of them, for each tensor that needs two scales."""
    requantized: dict[Any, dict[Any, Any]] = {}
    for operation in graph.get_operations():
        for position in _inputs_to_requantize(operation):
            reader, place = _fork(operation, position)
            if reader is None:
                continue
            tensor, end = reader.inputs[place], _last_of_scale(operation)
            by_end = requantized.setdefault(tensor.ref(), {})
            if end not in by_end:
                with tf.name_scope(f"{operation.name.rpartition('/')[0]}/"):
                    by_end[end] = tf.nn.leaky_relu(tensor, 1 - (len(by_end) + 1) * SLOPE_STEP, name="own_scale")
            reader._update_input(place, by_end[end])


def _inputs_to_requantize(operation: Any) -> Iterator[int]:
    """Yield the inputs whose range differs from the one that the quantizer would give them here."""
    if operation.type not in SHARED_SCALE or not operation.outputs[0].dtype.is_floating:
        return
    last = len(operation.inputs) - (operation.type == "ConcatV2")
    for position in range(SHARED_SCALE_INPUT.get(operation.type, 0), last):
        source = _data_source(operation.inputs[position])
        if source.type in CONSTANT_OPERATIONS:
            continue
        if operation.type not in SHARED_SCALE_INPUT and source.type not in FIXED_SCALE:
            continue
        if operation.type != "MaxPool" or source.type not in NEVER_NEGATIVE:
            yield position


def _fork(operation: Any, position: int) -> tuple[Any, int]:
    """Return the operation at or above this one whose input another branch reads too, and the input's position."""
    reader, place, end = operation, position, _last_of_scale(operation)
    while True:
        tensor = reader.inputs[place]
        if any(_last_of_scale(other) is not end for other in tensor.consumers()):
            return reader, place
        if tensor.op.type not in SCALE_PRESERVING:
            return None, 0
        reader, place = tensor.op, 0


def _last_of_scale(operation: Any) -> Any:
    """Return the last operation with this one's scale, as long as there is a single reader."""
    while operation.type in SCALE_PRESERVING or operation.type in SHARED_SCALE:
        readers = operation.outputs[0].consumers()
        if len(readers) != 1 or not (readers[0].type in SCALE_PRESERVING or readers[0].type in SHARED_SCALE):
            break
        operation = readers[0]
    return operation


def _data_source(tensor: Any) -> Any:
    """Return the operation that computes the values of a tensor, before any that preserve the scale."""
    while tensor.op.type in SCALE_PRESERVING:
        tensor = tensor.op.inputs[0]
    return tensor.op
