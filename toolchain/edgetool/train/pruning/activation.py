"""What activation functions do to a channel of zeros."""

from __future__ import annotations

from typing import Any

# Functions of keras.activations that work on every element alone.
ELEMENTWISE = frozenset(
    "linear relu relu6 leaky_relu elu selu celu gelu silu hard_silu tanh hard_tanh tanh_shrink hard_shrink soft_shrink "
    "softsign soft_sign squareplus sparse_plus sparse_sigmoid mish softplus sigmoid hard_sigmoid log_sigmoid "
    "exponential".split()
)
# Layers that do, without weights.
ELEMENTWISE_LAYERS = frozenset(["ReLU", "LeakyReLU", "ELU", "Activation"])


def name_of(function: Any) -> str:
    """What to call an activation in a message."""
    return str(getattr(function, "__name__", None) or getattr(function, "name", type(function).__name__))


def is_elementwise(keras: Any, function: Any) -> bool:
    """Whether it is one of Keras's own functions or layers that treat every element alike."""
    kind = type(function).__name__
    if kind in ELEMENTWISE_LAYERS and type(function) is getattr(keras.layers, kind):
        return kind != "Activation" or is_elementwise(keras, function.activation)
    name = getattr(function, "__name__", "")
    return name in ELEMENTWISE and function is getattr(keras.activations, name, None)


def keeps_zero(keras: Any, function: Any) -> bool:
    """Whether it maps 0 to 0: by trying."""
    return not keras.ops.convert_to_numpy(function(keras.ops.zeros((1, 1)))).any()
