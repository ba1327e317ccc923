"""What Keras 2 wrote about a layer and Keras 3 does not take: which keys go, and with which values. Pure."""

from __future__ import annotations

from typing import Any, Final

Node = dict[str, Any]


class _Any:
    """Stands for every value."""


ANY: Final = _Any()
Droppable = dict[str, tuple[Any, ...] | _Any]  # key -> the values that may be dropped with it
_NO_GROUPS: Droppable = {"groups": (1, None)}
_RECURRENT: Droppable = {"time_major": (False, None), "implementation": ANY}
_SAMPLING: Droppable = {"rng_type": ANY, "force_generator": ANY}
_SPATIAL_DROPOUT: Droppable = {"noise_shape": ANY, "trainable": ANY}
_DEPTHWISE: Droppable = {
    **_NO_GROUPS,
    "kernel_initializer": ANY,
    "kernel_regularizer": ANY,
    "kernel_constraint": ANY,
}

# Class -> keys that Keras 2 wrote and Keras 3 does not take.
# Source: get_config of every tf_keras 2.21 layer against the constructors of Keras 3.15, and older files.
DROPPED_KEYS: dict[str, Droppable] = {
    "DepthwiseConv1D": _DEPTHWISE,
    "DepthwiseConv2D": _DEPTHWISE,
    "SeparableConv1D": _DEPTHWISE,
    "SeparableConv2D": _DEPTHWISE,
    "Conv1DTranspose": _NO_GROUPS,
    "Conv2DTranspose": _NO_GROUPS,
    "Conv3DTranspose": _NO_GROUPS,
    "LSTM": _RECURRENT,
    "GRU": _RECURRENT,
    "SimpleRNN": _RECURRENT,
    "RNN": _RECURRENT,
    "Bidirectional": _RECURRENT,
    "ConvLSTM1D": _RECURRENT,
    "ConvLSTM2D": _RECURRENT,
    "ConvLSTM3D": _RECURRENT,
    "LSTMCell": {"implementation": ANY},
    "GRUCell": {"implementation": ANY},
    "BatchNormalization": {
        "fused": ANY,
        "renorm": (False, None),
        "virtual_batch_size": (None,),
        "renorm_clipping": ANY,
        "renorm_momentum": ANY,
        "adjustment": (None,),
        "beta_renorm": ANY,
    },
    "Embedding": {"input_length": ANY},
    "Attention": {"causal": (False,)},
    "AdditiveAttention": {"causal": (False,)},
    "MultiHeadAttention": {"softmax_robust_masking": ANY, "query_shape": ANY, "key_shape": ANY, "value_shape": ANY},
    "SpatialDropout1D": _SPATIAL_DROPOUT,
    "SpatialDropout2D": _SPATIAL_DROPOUT,
    "SpatialDropout3D": _SPATIAL_DROPOUT,
    "Discretization": {"trainable": ANY},
    "RandomBrightness": _SAMPLING,
    "RandomContrast": _SAMPLING,
    "RandomFlip": _SAMPLING,
    "RandomRotation": _SAMPLING,
    "RandomTranslation": _SAMPLING,
    "RandomZoom": _SAMPLING,
}


def droppable(node: Node) -> list[str]:
    """The keys of this layer's configuration that mean nothing to what it computes."""
    config = node["config"]
    return [key for key in _known(node) if key in config and not _matters(node, key)]


def meaningful(node: Node) -> dict[str, Any]:
    """Keys that Keras 3 does not take, with values that change what the layer computes."""
    config = node["config"]
    return {key: config[key] for key in _known(node) if key in config and _matters(node, key)}


def _known(node: Node) -> Droppable:
    return DROPPED_KEYS.get(node["class_name"], {})


def _matters(node: Node, key: str) -> bool:
    harmless = _known(node)[key]
    return not isinstance(harmless, _Any) and node["config"][key] not in harmless
