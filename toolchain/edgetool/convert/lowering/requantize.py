"""A scale of its own for a tensor that a minimum, maximum, choice or clip reads, and something else too.

TensorFlow's quantizer gives the inputs of these operators the scale of their output. The range of that is all they
need of an input, but another reader of it would find it clipped to that range.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# The first input that is data, not a condition.
TYING = {"ClipByValue": 0, "MaxPool": 0, "Maximum": 0, "Minimum": 0, "Select": 1, "SelectV2": 1}
JOINING = {*TYING, "ConcatV2", "Pack"}
# These pass on the scale as well; their first input is the data.
MOVING = frozenset(
    ["ExpandDims", "GatherV2", "Identity", "Pad", "PadV2", "Reshape", "Slice", "Squeeze", "StridedSlice", "Transpose"]
)
# The quantizer knows their scale, and gives it to whatever is joined with them.
FIXED = frozenset(["LogSoftmax", "Sigmoid", "Softmax", "Tanh"])
# Their largest value of several has the range of all: from 0, which every range holds, to the largest.
NEVER_NEGATIVE = frozenset(["Relu", "Relu6", "Sigmoid", "Softmax"])
CONSTANT = frozenset(["Const", "ReadVariableOp"])
# The least below 1 in float32. The converter takes out a slope of 1, and joins what has the same input and slope.
LEAST = 2.0**-24


def give_own_scales(tf: Any, graph: Any) -> None:
    """Put LEAKY_RELU, which changes no value by more than 1e-6 of it, where a tensor of the graph needs two scales."""
    made: dict[Any, dict[Any, Any]] = {}
    for operation in graph.get_operations():
        for position in _tied_inputs(operation):
            reader, place = _fork(operation, position)
            if reader is None:
                continue
            tensor, end = reader.inputs[place], _end(operation)
            own = made.setdefault(tensor.ref(), {})
            if end not in own:
                with tf.name_scope(f"{operation.name.rpartition('/')[0]}/"):
                    own[end] = tf.nn.leaky_relu(tensor, 1 - (len(own) + 1) * LEAST, name="own_scale")
            reader._update_input(place, own[end])


def _tied_inputs(operation: Any) -> Iterator[int]:
    """Which inputs have another range than the quantizer would give them here."""
    if operation.type not in JOINING or not operation.outputs[0].dtype.is_floating:
        return
    last = len(operation.inputs) - (operation.type == "ConcatV2")
    for position in range(TYING.get(operation.type, 0), last):
        source = _source(operation.inputs[position])
        if source.type in CONSTANT:
            continue
        if operation.type not in TYING and source.type not in FIXED:
            continue
        if operation.type != "MaxPool" or source.type not in NEVER_NEGATIVE:
            yield position


def _fork(operation: Any, position: int) -> tuple[Any, int]:
    """The operation at or above this one that shares its input with a reader that leads elsewhere, and which input."""
    reader, place, end = operation, position, _end(operation)
    while True:
        tensor = reader.inputs[place]
        if any(_end(other) is not end for other in tensor.consumers()):
            return reader, place
        if tensor.op.type not in MOVING:
            return None, 0
        reader, place = tensor.op, 0


def _end(operation: Any) -> Any:
    """The last operation that has this one's scale, as far as there is one way."""
    while operation.type in MOVING or operation.type in JOINING:
        readers = operation.outputs[0].consumers()
        if len(readers) != 1 or not (readers[0].type in MOVING or readers[0].type in JOINING):
            break
        operation = readers[0]
    return operation


def _source(tensor: Any) -> Any:
    while tensor.op.type in MOVING:
        tensor = tensor.op.inputs[0]
    return tensor.op
