"""GELU in the form that the converter knows: with a rectifier behind it, it would not see it any more.

It merges a RELU into the multiplication before it, and only then looks for the multiplications of a GELU. What is left
of an exact one is an operation that TensorFlow Lite lacks (Erfc).
"""

from __future__ import annotations

from typing import Any

from edgetool.convert.lowering.own_scales import LEAST

# A clip to 0..6 and a maximum with 0 become rectifiers too.
RECTIFYING = frozenset(["ClipByValue", "Maximum", "Minimum", "Relu", "Relu6"])
SIGMOID_LIKE = frozenset(["Erf", "Tanh"])


def keep_gelu(tf: Any, graph: Any) -> None:
    """Put LEAKY_RELU, which changes no value by more than 1e-6 of it, between GELU and a rectifier that reads it."""
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
                shield = tf.nn.leaky_relu(tensor, 1 - LEAST, name="gelu")
            for place, given in enumerate(readers[0].inputs):
                if given is tensor:
                    readers[0]._update_input(place, shield)


def _is_gelu(operation: Any) -> bool:
    """Whether it is x / 2 times erfc, or times one more than erf or tanh."""
    if operation.type != "Mul":
        return False
    return any(_is_distribution(tensor.op) for tensor in operation.inputs)


def _is_distribution(operation: Any) -> bool:
    adds = operation.type in ("Add", "AddV2")
    return operation.type == "Erfc" or (adds and any(tensor.op.type in SIGMOID_LIKE for tensor in operation.inputs))
