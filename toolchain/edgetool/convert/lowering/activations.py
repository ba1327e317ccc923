"""Lower activations so that they do not select between two tensors, and GELU to the form that the converter recognizes.

SELECT_V2 requires one scale for its inputs and output, and a tensor has only one: an input that is also used elsewhere
would be clipped to the range of the output.

The converter merges a RELU into the multiplication before it, and only then looks for the multiplications of a GELU. An
exact GELU before a rectifier would leave an operation that TensorFlow Lite does not have (Erfc).

A tensor that is read both by a minimum, maximum, choice or clip and by another operation is requantized. TensorFlow's
quantizer gives the inputs of these operators the scale of their output. These operators need no wider range of an
input, but any other reader of the input would receive values that are clipped to that range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from edgetool.convert.lowering.context import FunctionContext, Lower, LowerContext, LowerFunction

# The first input that is data, not a condition.
SHARED_SCALE_INPUT = {"ClipByValue": 0, "MaxPool": 0, "Maximum": 0, "Minimum": 0, "Select": 1, "SelectV2": 1}
SHARED_SCALE = {*SHARED_SCALE_INPUT, "ConcatV2", "Pack"}
# These preserve the scale too; their first input is the data.
SCALE_PRESERVING = frozenset(
    ["ExpandDims", "GatherV2", "Identity", "Pad", "PadV2", "Reshape", "Slice", "Squeeze", "StridedSlice", "Transpose"]
)
# The quantizer fixes their scale, and gives it to every tensor that shares it.
FIXED_SCALE = frozenset(["LogSoftmax", "Sigmoid", "Softmax", "Tanh"])
# The maximum of their values has the widest range: from 0, which is in every range, to the largest value.
NEVER_NEGATIVE = frozenset(["Relu", "Relu6", "Sigmoid", "Softmax"])
CONSTANT_OPERATIONS = frozenset(["Const", "ReadVariableOp"])
# The step below 1 in float32. The converter removes a slope of 1, and merges operators of the same input and slope.
SLOPE_STEP = 2.0**-24


def requantize_shared_tensors(tf: Any, graph: Any) -> None:
    """Insert LEAKY_RELU for each tensor that needs two scales; it changes values by at most one part in a million."""
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


def _relu(context: LowerContext, layer: Any) -> Callable[..., Any] | None:
    """Lower a slope with a limit or a threshold, for which Keras adds two rectified halves with different scales."""
    tf, slope, limit, threshold = context.tf, layer.negative_slope, layer.max_value, layer.threshold
    if threshold and context.options.quantize == "int16x8":
        # Measured: GREATER in 16 bits leaves an SQNR of 10 dB, on LiteRT too.
        context.refuse("has a threshold, which int16x8 does not support", "use threshold=0, or --quantize int8")
    if not slope or (limit is None and not threshold):
        return None

    def call(inputs: Any) -> Any:
        outputs = tf.nn.leaky_relu(inputs - threshold if threshold else inputs, slope)
        if threshold:
            outputs += tf.cast(inputs > threshold, inputs.dtype) * threshold
        return outputs if limit is None else tf.minimum(outputs, limit)

    return call


def _sparse_plus(context: FunctionContext) -> Callable[..., Any]:
    """Compute sparse_plus (0 below -1, x above 1, otherwise (x + 1)**2 / 4) as w * w / 4 - w + relu(x + 1).

    w is x + 1 clipped to 0..2, computed by RELU6. No term is constant on inputs from one branch only, as its scale
    would be 0.
    """
    tf = context.tf

    def sparse_plus(x: Any) -> Any:
        x = tf.convert_to_tensor(x)
        threefold = tf.nn.relu6(x * 3.0 + 3.0)
        return threefold * (threefold / 36.0 - 1 / 3) + tf.nn.relu(x + 1.0)

    return sparse_plus


def approximate_erf(tf: Any, x: Any) -> Any:
    """Return erf, which TensorFlow Lite lacks, to 1.5e-7 by formula 7.1.26 of Abramowitz and Stegun."""
    distance = tf.abs(x)
    t = 1.0 / (1.0 + 0.3275911 * distance)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return tf.sign(x) * (1.0 - series * tf.exp(-distance * distance))


def _erf(context: FunctionContext) -> Callable[..., Any]:
    return lambda x: approximate_erf(context.tf, context.tf.convert_to_tensor(x))


def _erfc(context: FunctionContext) -> Callable[..., Any]:
    erf = _erf(context)
    return lambda x: 1.0 - erf(x)


FUNCTIONS: dict[str, LowerFunction] = {"math.erf": _erf, "math.erfc": _erfc, "nn.sparse_plus": _sparse_plus}
RULES: dict[str, Lower] = {"ReLU": _relu}


# The converter also turns a clip to 0..6 and a maximum with 0 into rectifiers.
RECTIFYING = frozenset(["ClipByValue", "Maximum", "Minimum", "Relu", "Relu6"])
SIGMOID_LIKE = frozenset(["Erf", "Tanh"])


def keep_gelu(tf: Any, graph: Any) -> None:
    """Insert LEAKY_RELU between GELU and a rectifier that reads it.

    LEAKY_RELU changes each value by at most one part in a million.
    """
    for operation in graph.get_operations():
        if not _is_gelu(operation):
            continue
        tensor = operation.outputs[0]
        readers = tensor.consumers()
        while len(readers) == 1 and readers[0].type == "Identity":
            tensor = readers[0].outputs[0]
            readers = tensor.consumers()
        if len(readers) == 1 and readers[0].type in RECTIFYING:
            with tf.name_scope(f"{operation.name.rpartition('/')[0]}/"):
                shield = tf.nn.leaky_relu(tensor, 1 - SLOPE_STEP, name="gelu")
            for index, read in enumerate(readers[0].inputs):
                if read is tensor:
                    readers[0]._update_input(index, shield)


def _is_gelu(operation: Any) -> bool:
    """Return whether the operation multiplies x / 2 by erfc, or by 1 plus erf or tanh."""
    if operation.type != "Mul":
        return False
    return any(_is_gelu_factor(tensor.op) for tensor in operation.inputs)


def _is_gelu_factor(operation: Any) -> bool:
    adds = operation.type in ("Add", "AddV2")
    return operation.type == "Erfc" or (adds and any(tensor.op.type in SIGMOID_LIKE for tensor in operation.inputs))
