"""Every activation of keras.activations and every activation layer; each is an output of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.zoo.entry import collection

ENTRIES, zoo = collection("activations")


def _fan(keras: Any, heads: Mapping[str, Callable[[Any], Any]]) -> Any:
    """Twelve features into a dense layer of eight per head, and that through the head."""
    source = keras.Input((12,), name="features")
    return keras.Model(source, {name: head(keras.layers.Dense(8)(source)) for name, head in heads.items()})


def _named(keras: Any, *names: str) -> dict[str, Any]:
    return {name: keras.layers.Activation(name, name=f"as_{name}") for name in names}


@zoo("act-saturating")
def saturating(keras: Any) -> Any:
    """Saturating activations."""
    return _fan(keras, _named(keras, "sigmoid", "tanh", "hard_sigmoid", "hard_tanh", "softsign", "relu6"))


@zoo("act-relu")
def rectified(keras: Any) -> Any:
    """Rectifiers with different slopes and limits."""
    layers = keras.layers
    return _fan(
        keras,
        {
            **_named(keras, "relu", "leaky_relu", "linear"),
            "leaky_layer": layers.LeakyReLU(negative_slope=0.2),
            "limited": layers.ReLU(max_value=1.5, negative_slope=0.1, threshold=0.2),
            "per_channel": layers.PReLU(),
        },
    )


@zoo("act-threshold")
def thresholded(keras: Any) -> Any:
    """keras.activations.threshold, applied as an operation."""
    return _fan(keras, {"thresholded": lambda x: keras.ops.threshold(x, 0.1, 0.0)})


@zoo("act-exponential")
def exponential(keras: Any) -> Any:
    """Activations based on an exponential."""
    return _fan(
        keras, {**_named(keras, "elu", "selu", "celu", "exponential"), "elu_layer": keras.layers.ELU(alpha=0.7)}
    )


@zoo("act-smooth")
def smooth(keras: Any) -> Any:
    """Smooth rectifiers."""
    return _fan(
        keras,
        {
            **_named(keras, "gelu", "silu", "mish", "softplus", "squareplus", "hard_silu"),
            "gelu_tanh": lambda x: keras.ops.gelu(x, approximate=True),
        },
    )


@zoo("act-shrink")
def shrinking(keras: Any) -> Any:
    """Shrinkage activations."""
    return _fan(keras, _named(keras, "hard_shrink", "soft_shrink", "tanh_shrink"))


@zoo("act-log")
def logarithmic(keras: Any) -> Any:
    """Softmax and log-softmax."""
    return _fan(
        keras, {**_named(keras, "log_sigmoid", "log_softmax", "softmax"), "softmax_layer": keras.layers.Softmax()}
    )


@zoo("act-sparse")
def sparse(keras: Any) -> Any:
    """Sparse variants of softplus and sigmoid."""
    return _fan(keras, _named(keras, "sparse_plus", "sparse_sigmoid"))


@zoo("act-sparsemax")
def sparsemax(keras: Any) -> Any:
    """Sparsemax, which sorts its scores."""
    return _fan(keras, _named(keras, "sparsemax"))


@zoo("act-gated")
def gated(keras: Any) -> Any:
    """Gated linear unit: one half of the features gates the other half."""
    return _fan(keras, _named(keras, "glu"))
