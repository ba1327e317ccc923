"""Lower activations: without a choice between two tensors, and GELU in the form that the converter recognizes.

SELECT_V2 requires one scale for its inputs and output, and a tensor has only one: an input that is also used elsewhere
would be clipped to the range of the output.

The converter merges a RELU into the multiplication before it, and only then looks for the multiplications of a GELU. An
exact GELU before a rectifier would leave an operation that TensorFlow Lite does not have (Erfc).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgetool.convert.lowering.context import FunctionContext, Lower, LowerContext, LowerFunction
from edgetool.convert.lowering.requantize import SLOPE_STEP


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


def _erf(context: FunctionContext) -> Callable[..., Any]:
    """Approximate erf, which TensorFlow Lite lacks, to 1.5e-7 by formula 7.1.26 of Abramowitz and Stegun."""
    tf = context.tf

    def erf(x: Any) -> Any:
        x = tf.convert_to_tensor(x)
        distance = tf.abs(x)
        t = 1.0 / (1.0 + 0.3275911 * distance)
        series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
        return tf.sign(x) * (1.0 - series * tf.exp(-distance * distance))

    return erf


def _erfc(context: FunctionContext) -> Callable[..., Any]:
    erf = _erf(context)
    return lambda x: 1.0 - erf(x)


FUNCTIONS: dict[str, LowerFunction] = {"math.erf": _erf, "math.erfc": _erfc, "nn.sparse_plus": _sparse_plus}
RULES: dict[str, Lower] = {"ReLU": _relu}


# The converter also turns a clip to 0..6 and a maximum with 0 into rectifiers.
RECTIFYING = frozenset(["ClipByValue", "Maximum", "Minimum", "Relu", "Relu6"])
SIGMOID_LIKE = frozenset(["Erf", "Tanh"])


def keep_gelu(tf: Any, graph: Any) -> None:
    """Insert LEAKY_RELU, which changes values by at most 1e-6 of them, between GELU and a rectifier that reads it."""
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
