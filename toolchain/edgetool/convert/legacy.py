"""Rewrites a model's JSON configuration so that Keras 3 can rebuild it for one sample at a time. Pure.

The weights stay where they are. What only shaped training, or says in Keras 2 words what is the case anyway, is
dropped; a value that means something Keras 3 cannot do is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from edgetool.errors import UnsupportedModelError

Node = dict[str, Any]


class _Any:
    """Stands for every value."""


ANY = _Any()
Droppable = dict[str, tuple[Any, ...] | _Any]  # key -> the values that may be dropped with it
_NO_GROUPS: Droppable = {"groups": (1, None)}
_BATCH_MAJOR: Droppable = {"time_major": (False, None)}
_SAMPLING: Droppable = {"rng_type": ANY, "force_generator": ANY}
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
    "LSTM": {**_BATCH_MAJOR, "implementation": ANY},
    "GRU": {**_BATCH_MAJOR, "implementation": ANY},
    "SimpleRNN": {**_BATCH_MAJOR, "implementation": ANY},
    "RNN": _BATCH_MAJOR,
    "Bidirectional": _BATCH_MAJOR,
    "ConvLSTM1D": _BATCH_MAJOR,
    "ConvLSTM2D": _BATCH_MAJOR,
    "ConvLSTM3D": _BATCH_MAJOR,
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
    "MultiHeadAttention": {"softmax_robust_masking": ANY},
    "SpatialDropout1D": {"noise_shape": ANY},
    "SpatialDropout2D": {"noise_shape": ANY},
    "SpatialDropout3D": {"noise_shape": ANY},
    "Discretization": {"trainable": ANY},
    "RandomBrightness": _SAMPLING,
    "RandomContrast": _SAMPLING,
    "RandomCrop": _SAMPLING,
    "RandomFlip": _SAMPLING,
    "RandomRotation": _SAMPLING,
    "RandomTranslation": _SAMPLING,
    "RandomZoom": _SAMPLING,
}
SINGLE_AXIS = frozenset(["BatchNormalization", "LayerNormalization"])
MIXED_POLICIES = frozenset(["mixed_float16", "mixed_bfloat16"])
FUNCTIONAL_MODULE = "keras.src.models.functional"
NAMES_SHOWN = 4


@dataclass(slots=True)
class _Changes:
    """What was changed: class -> dropped keys and the layers that had them, and sentences about the rest."""

    keys: dict[str, dict[str, None]] = field(default_factory=dict)
    layers: dict[str, dict[str, None]] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def drop(self, class_name: str, key: str, layer: str) -> None:
        self.keys.setdefault(class_name, {})[key] = None
        self.layers.setdefault(class_name, {})[layer] = None

    def sentences(self) -> tuple[str, ...]:
        dropped = tuple(
            f"dropped what only Keras 2 knows ({', '.join(keys)}) from {name}: {_listed(list(self.layers[name]))}"
            for name, keys in self.keys.items()
        )
        return (*dropped, *self.notes)


def modernise(config: Node, *, legacy: bool) -> tuple[Node, tuple[str, ...]]:
    """The configuration that Keras 3 loads with batch size 1 or unknown, and a sentence per change worth telling.

    legacy says that Keras 2 wrote it. Raises UnsupportedModelError naming the layer where a dropped key would
    change what the model computes.
    """
    changes = _Changes()
    batch = _fixed_batch(config)
    if batch is not None:
        changes.notes[f"the batch size of {batch} became 1"] = None
    result = _rewritten(config, legacy, batch, changes)
    result.pop("compile_config", None)
    return result, changes.sentences()


def _rewritten(value: Any, legacy: bool, batch: int | None, changes: _Changes) -> Any:
    if isinstance(value, list):
        return [_rewritten(item, legacy, batch, changes) for item in value]
    if not isinstance(value, dict):
        return value
    node = {key: _rewritten(item, legacy, batch, changes) for key, item in value.items() if key != "compile_config"}
    if isinstance(node.get("class_name"), str) and isinstance(node.get("config"), dict | list):
        for step in _LEGACY_STEPS if legacy else ():
            step(node, changes)
        if isinstance(node["config"], dict):
            _use_float32(node["config"], changes)
            if batch is not None:
                _use_batch_of_one(node, batch)
    return node


def _use_config_object(node: Node, _: _Changes) -> None:
    """The first Keras 2 releases wrote a Sequential as a bare list of layers."""
    if node["class_name"] == "Sequential" and isinstance(node["config"], list):
        node["config"] = {"name": "sequential", "layers": node["config"]}


def _drop_keys(node: Node, changes: _Changes) -> None:
    name, config = node["class_name"], node["config"]
    for key, harmless in DROPPED_KEYS.get(name, {}).items():
        if key not in config:
            continue
        layer = str(config.get("name", name))
        if not isinstance(harmless, _Any) and config[key] not in harmless:
            raise UnsupportedModelError(
                f"layer {layer!r} ({name}) cannot be converted: Keras 3 has no {key}={config[key]!r}",
                fix="replace the layer, or write a SavedModel from the Keras that made it",
            )
        del config[key]
        changes.drop(name, key, layer)


def _rename_shape(node: Node, _: _Changes) -> None:
    """Keras 2 says batch_input_shape where Keras 3 says batch_shape."""
    config = node["config"]
    if "batch_input_shape" in config:
        shape = config.pop("batch_input_shape")
        config.setdefault("batch_shape" if node["class_name"] == "InputLayer" else "batch_input_shape", shape)


def _unwrap_axis(node: Node, _: _Changes) -> None:
    axis = node["config"].get("axis")
    if node["class_name"] in SINGLE_AXIS and isinstance(axis, list) and len(axis) == 1:
        node["config"]["axis"] = axis[0]


def _unwrap_policy(node: Node, _: _Changes) -> None:
    """Old dtype policies become their name."""
    policy = node["config"].get("dtype")
    if isinstance(policy, dict) and policy.get("class_name") in ("Policy", "PolicyV1"):
        node["config"]["dtype"] = (policy.get("config") or {}).get("name", "float32")


def _use_module(node: Node, _: _Changes) -> None:
    """Keras 2 kept its classes in modules that Keras 3 does not have."""
    module = node.get("module")
    if node["class_name"] == "Functional" and module is not None:
        node["module"] = FUNCTIONAL_MODULE
    elif isinstance(module, str) and module.startswith("tf_keras."):
        node["module"] = module.removeprefix("tf_")


_LEGACY_STEPS: tuple[Callable[[Node, _Changes], None], ...] = (
    _use_config_object,
    _drop_keys,
    _rename_shape,
    _unwrap_axis,
    _unwrap_policy,
    _use_module,
)


def _use_float32(config: Node, changes: _Changes) -> None:
    """Mixed precision is for training; a converted half would keep casts that no quantizer removes."""
    policy = config.get("dtype")
    name = policy
    if isinstance(policy, dict) and isinstance(policy.get("config"), dict):
        name = policy["config"].get("name")
    if isinstance(name, str) and name in MIXED_POLICIES:
        config["dtype"] = "float32"
        changes.notes[f"layers of dtype policy {name} became float32"] = None


def _fixed_batch(config: Node) -> int | None:
    """The batch size above 1 that the model was built for, or None."""
    inner = config.get("config")
    layers = inner.get("layers") if isinstance(inner, dict) else inner
    shapes = [inner.get("build_input_shape")] if isinstance(inner, dict) else []
    for layer in layers if isinstance(layers, list) else ():
        own = layer.get("config") if isinstance(layer, dict) else None
        if isinstance(own, dict):
            shapes += [own.get("batch_shape"), own.get("batch_input_shape")]
    sizes = [shape[0] for shape in shapes if isinstance(shape, list) and shape and type(shape[0]) is int]
    return next((size for size in sizes if size > 1), None)


def _use_batch_of_one(node: Node, batch: int) -> None:
    config = node["config"]
    for key in ("batch_shape", "batch_input_shape", "build_input_shape"):
        if key in config:
            config[key] = _with_batch_of_one(config[key], batch)
    if "build_config" in node:
        node["build_config"] = _with_batch_of_one(node["build_config"], batch)


def _with_batch_of_one(value: Any, batch: int) -> Any:
    """Every shape in `value` that starts with `batch` starts with 1."""
    if isinstance(value, dict):
        return {key: _with_batch_of_one(item, batch) for key, item in value.items()}
    if isinstance(value, list):
        if value and value[0] == batch and all(item is None or isinstance(item, int) for item in value):
            return [1, *value[1:]]
        return [_with_batch_of_one(item, batch) for item in value]
    return value


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN])
    return shown if len(names) <= NAMES_SHOWN else f"{shown} and {len(names) - NAMES_SHOWN} more"
