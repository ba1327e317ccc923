"""Rewrite a model's JSON configuration so that Keras 3 can rebuild it for one sample at a time. This module is pure.

The weights stay in place. Keys that only affect training, or state Keras 3's defaults in Keras 2's form, are dropped; a
value that Keras 3 does not support is an error. Each step changes one node {"class_name", "config", ...} of a
configuration in place, after the nodes inside it.

Keras 2 lists per call of a layer [[name, call, output, keywords], ...], or a dictionary of those. Keras 3 uses
{"args", "kwargs"} with tensors as {"class_name": "__keras_tensor__", ...}. It can read the old form, but loses tensors
among the keywords, states of recurrent layers and how calls of nested models are counted; so calls are rewritten too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from edgetool.convert.keras_names import LAYERS
from edgetool.convert.tf_keras_layers import TRAINED_FOR_INTEGERS, ConfigNode, objects
from edgetool.errors import UnsupportedModelError


class _Any:
    """Represents any value."""


ANY: Final = _Any()
Droppable = dict[str, tuple[Any, ...] | _Any]  # key -> the values with which it may be dropped
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

# Class -> keys that Keras 2 wrote and Keras 3 rejects.
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


def droppable(node: ConfigNode) -> list[str]:
    """Return the keys of this layer's configuration that do not affect what it computes."""
    config = node["config"]
    return [key for key in _dropped_keys(node) if key in config and not _affects_result(node, key)]


def meaningful(node: ConfigNode) -> dict[str, Any]:
    """Return keys that Keras 3 rejects, with values that affect what the layer computes."""
    config = node["config"]
    return {key: config[key] for key in _dropped_keys(node) if key in config and _affects_result(node, key)}


def _dropped_keys(node: ConfigNode) -> Droppable:
    return DROPPED_KEYS.get(node["class_name"], {})


def _affects_result(node: ConfigNode, key: str) -> bool:
    harmless = _dropped_keys(node)[key]
    return not isinstance(harmless, _Any) and node["config"][key] not in harmless


# A separate function, because hard_sigmoid is clip(0.2 x + 0.5) in Keras 2 and clip(x / 6 + 0.5) in Keras 3.
HARD_SIGMOID = "keras_2_hard_sigmoid"
FUNCTIONAL_MODULE = "keras.src.models.functional"
_MODULES = {"Functional": FUNCTIONAL_MODULE, "Model": "keras", "Sequential": "keras"}
_SINGLE_AXIS = frozenset(["BatchNormalization", "LayerNormalization"])
MODELS = frozenset(["Functional", "Model", "Network", "Sequential"])
PRUNING_WRAPPER = "PruneLowMagnitude"
CLUSTERING_WRAPPER = "ClusterWeights"
# Wrappers that are used only in training.
TRAINING_WRAPPERS = frozenset([CLUSTERING_WRAPPER, PRUNING_WRAPPER])
_FUNCTION_KEYS = ("activation", "recurrent_activation")
_OLD_NAMES = {
    "BatchNormalizationV1": "BatchNormalization",
    "BatchNormalizationV2": "BatchNormalization",
    "UnifiedLSTM": "LSTM",
    "UnifiedGRU": "GRU",
    "LSTMV1": "LSTM",
    "GRUV1": "GRU",
    "Network": "Model",
}


def unwrap_training(node: ConfigNode) -> None:
    """Replace a wrapper that is used only in training by the layer inside."""
    config = node["config"]
    inner = config.get("layer") if isinstance(config, dict) and not config.get("cluster_per_channel") else None
    if node["class_name"] in TRAINING_WRAPPERS and isinstance(inner, dict) and "class_name" in inner:
        connections = {key: node[key] for key in ("name", "inbound_nodes") if key in node}
        shape = config.get("batch_input_shape")
        node.clear()
        node.update(inner | connections)
        if shape is not None and isinstance(node["config"], dict):
            node["config"].setdefault("batch_input_shape", shape)


def use_config_object(node: ConfigNode) -> None:
    """Replace the list of layers that the first Keras 2 releases wrote for a Sequential by an object."""
    if node["class_name"] == "Sequential" and isinstance(node["config"], list):
        node["config"] = {"name": "sequential", "layers": node["config"]}


def use_new_class(node: ConfigNode) -> None:
    """Replace layers that have another name in Keras 3."""
    node["class_name"] = _OLD_NAMES.get(node["class_name"], node["class_name"])
    replace = _REPLACED.get(node["class_name"])
    if replace is not None:
        node["class_name"], config = replace(node["config"])
        common = {key: node["config"][key] for key in ("name", "dtype", "batch_input_shape") if key in node["config"]}
        node["config"] = common | config
        if "module" in node:
            node["module"] = "keras.layers"


def _subset(config: ConfigNode, *names: str) -> ConfigNode:
    return {name: config[name] for name in names if name in config}


def _thresholded_relu(config: ConfigNode) -> tuple[str, ConfigNode]:
    return "ReLU", {"threshold": config.get("theta", 1.0)}


def _identity(_: ConfigNode) -> tuple[str, ConfigNode]:
    return "Identity", {}


def _random_crop(config: ConfigNode) -> tuple[str, ConfigNode]:
    """Return the equivalent at inference: Keras 2 crops to the aspect ratio of the size, and then resizes to it."""
    sizes = _subset(config, "height", "width")
    return "Resizing", {**sizes, "interpolation": "bilinear", "crop_to_aspect_ratio": True}


_RNN = ("units", "return_sequences", "return_state", "go_backwards", "stateful", "trainable")


def _cudnn_lstm(config: ConfigNode) -> tuple[str, ConfigNode]:
    return "LSTM", _subset(config, *_RNN, "unit_forget_bias") | {
        "activation": "tanh",
        "recurrent_activation": "sigmoid",
    }


def _cudnn_gru(config: ConfigNode) -> tuple[str, ConfigNode]:
    functions = {"activation": "tanh", "recurrent_activation": "sigmoid"}
    return "GRU", _subset(config, *_RNN) | functions | {"reset_after": True}


_REPLACED: dict[str, Callable[[ConfigNode], tuple[str, ConfigNode]]] = {
    "ThresholdedReLU": _thresholded_relu,
    "RandomHeight": _identity,
    "RandomWidth": _identity,
    "RandomCrop": _random_crop,
    "CuDNNLSTM": _cudnn_lstm,
    "CuDNNGRU": _cudnn_gru,
}


def use_keras_2_functions(node: ConfigNode) -> None:
    """Replace functions that differ from those with the same name in Keras 3."""
    config = node["config"]
    for key in _FUNCTION_KEYS:
        value = config.get(key)
        is_object = isinstance(value, dict) and value.get("config") == "hard_sigmoid" and _is_keras(value.get("module"))
        if value == "hard_sigmoid" or is_object:
            config[key] = _function(HARD_SIGMOID)


def _is_keras(module: Any) -> bool:
    """Return whether a module is part of Keras; check_config handles all others."""
    return module in (None, "builtins") or str(module).partition(".")[0] in ("keras", "tf_keras")


def _function(name: str) -> ConfigNode:
    return {"module": "builtins", "class_name": "function", "config": name, "registered_name": name}


def add_changed_defaults(node: ConfigNode) -> None:
    """Add defaults that changed: a GRU without reset_after had it off, but Keras 3 assumes that it is on."""
    if node["class_name"] in ("GRU", "GRUCell"):
        node["config"].setdefault("reset_after", False)


def use_plain_initializers(node: ConfigNode) -> None:
    """Rewrite initializers of TensorFlow 1, which have a dtype and call the truncated normal distribution normal."""
    for key, value in node["config"].items():
        inner = value.get("config") if key.endswith("_initializer") and isinstance(value, dict) else None
        if isinstance(inner, dict):
            inner.pop("dtype", None)
            if inner.get("distribution") == "normal":
                inner["distribution"] = "truncated_normal"


def use_batch_shape(node: ConfigNode) -> None:
    """Leave input shapes only in InputLayers, and insert an InputLayer into a Sequential that has none."""
    config = node["config"]
    if node["class_name"] == "InputLayer":
        if "batch_input_shape" in config:
            config.setdefault("batch_shape", config.pop("batch_input_shape"))
        return
    layers = config.get("layers")
    if node["class_name"] not in MODELS or not isinstance(layers, list):
        return
    first = next(iter(layers), None)
    if node["class_name"] == "Sequential" and isinstance(first, dict) and first.get("class_name") != "InputLayer":
        inner = first.get("config")
        shape = inner.get("batch_input_shape") if isinstance(inner, dict) else None
        if shape is not None:
            layers.insert(0, _input_layer(first, shape))
    for layer in layers:
        inner = layer.get("config") if isinstance(layer, dict) else None
        if isinstance(inner, dict) and layer.get("class_name") != "InputLayer":
            inner.pop("batch_input_shape", None)


def _input_layer(first: ConfigNode, shape: Any) -> ConfigNode:
    config = first["config"]
    dtype = config.get("dtype")
    input_layer: ConfigNode = {
        "class_name": "InputLayer",
        "config": {
            "batch_shape": shape,
            "dtype": dtype if isinstance(dtype, str) else "float32",
            "name": f"{config.get('name', 'first')}_input",
        },
    }
    return input_layer | ({"module": "keras.layers"} if "module" in first else {})


def use_axis(node: ConfigNode) -> None:
    """Replace a list of one axis by a number."""
    axis = node["config"].get("axis")
    if isinstance(axis, list) and len(axis) == 1 and node["class_name"] in _SINGLE_AXIS:
        node["config"]["axis"] = axis[0]


def use_policy_name(node: ConfigNode) -> None:
    """Replace old dtype policies by their names."""
    policy = node["config"].get("dtype")
    if isinstance(policy, dict) and policy.get("class_name") in ("Policy", "PolicyV1"):
        node["config"]["dtype"] = (policy.get("config") or {}).get("name", "float32")


def use_module(node: ConfigNode) -> None:
    """Set the modules of classes, which are missing in files of Keras 2, or do not exist in Keras 3."""
    node.pop("build_config", None)  # layers build themselves when they are called
    name, module = node["class_name"], node.get("module")
    if (
        name in LAYERS
        and "name" in node["config"]
        and (module is None or str(module).startswith(("keras.", "tf_keras.")))
    ):
        node["module"] = _MODULES.get(name, "keras.layers")
        node.setdefault("registered_name", None)
    elif isinstance(module, str) and module.startswith("tf_keras."):
        node["module"] = module.removeprefix("tf_")


# In this order; the first steps also accept a node whose configuration is still a list, the others only an object.
WRAPPING_STEPS: tuple[Callable[[ConfigNode], None], ...] = (unwrap_training, use_config_object)
STEPS: tuple[Callable[[ConfigNode], None], ...] = (
    use_new_class,
    use_keras_2_functions,
    add_changed_defaults,
    use_plain_initializers,
    use_batch_shape,
    use_axis,
    use_policy_name,
    use_module,
)


TensorReference = list[Any]  # [name, call, output]
RECURRENT_LAYERS = frozenset(
    ["LSTM", "GRU", "SimpleRNN", "RNN", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", "Bidirectional"]
)
CONSTANT_MARKER = "_CONSTANT_VALUE"


def connect(node: ConfigNode) -> None:
    """Rewrite the calls in the configuration of a functional model, in place.

    Raises UnsupportedModelError naming a layer whose inputs are not all tensors.
    """
    config = node["config"]
    layers = config.get("layers")
    if node["class_name"] not in MODELS or not isinstance(layers, list) or "output_layers" not in config:
        return
    named = {entry["name"]: entry for entry in layers if isinstance(entry, dict) and isinstance(entry.get("name"), str)}
    old = {name: calls for name, entry in named.items() if isinstance(calls := entry.get("inbound_nodes"), list)}
    # Files of Keras 2.13 that were read with safe_mode already have the form of Keras 3.
    old = {name: calls for name, calls in old.items() if all(isinstance(call, list | dict) for call in calls)}
    first = {name: _first_call(name, calls, old, config["output_layers"]) for name, calls in old.items()}
    for name, calls in old.items():
        entry = named[name]
        entry["inbound_nodes"] = [_call(entry, call, first) for call in calls]
    config["output_layers"] = _renumbered(config["output_layers"], first, named)


def _first_call(name: str, calls: list[Any], all_calls: dict[str, list[Any]], outputs: Any) -> int:
    """Return the number of a layer's first call in Keras 2, which is 1 for a nested model that was built separately."""
    numbers = (
        reference[1]
        for source in (*all_calls.values(), outputs)
        for reference in _references(source)
        if reference[0] == name
    )
    return max(0, max(numbers, default=0) - (len(calls) - 1)) if calls else 0


def _references(value: Any) -> Iterator[TensorReference]:
    if is_reference(value):
        yield value[:3]
        value = value[3:]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _references(item)


def is_reference(value: Any) -> bool:
    """Return whether this is [name, call, output], possibly followed by keywords."""
    return (
        isinstance(value, list)
        and len(value) in (3, 4)
        and isinstance(value[0], str)
        and value[0] != CONSTANT_MARKER
        and all(type(number) is int and number >= 0 for number in value[1:3])
        and (len(value) == 3 or isinstance(value[3], dict))
    )


def _call(entry: ConfigNode, call: Any, first: dict[str, int]) -> Any:
    if isinstance(call, dict) and set(call) == {"args", "kwargs"}:
        return call
    keywords: ConfigNode = {}
    inputs = _tensors(entry, call, first, keywords)
    keywords = _with_tensors(keywords, first)
    if isinstance(inputs, list) and len(inputs) == 1 and not isinstance(inputs[0], list):
        inputs = inputs[0]
    if isinstance(inputs, list) and entry.get("class_name") in RECURRENT_LAYERS:
        inputs, *states = inputs
        keywords["initial_state"] = states
    return {"args": [inputs], "kwargs": keywords}


def _tensors(entry: ConfigNode, value: Any, first: dict[str, int], keywords: ConfigNode) -> Any:
    """Return the first argument of a call, in its structure, and add the keywords beside its tensors to `keywords`."""
    if is_reference(value):
        keywords.update(value[3] if len(value) == 4 else {})
        return _tensor(value, first)
    if isinstance(value, dict):
        return {key: _tensors(entry, item, first, keywords) for key, item in value.items()}
    if isinstance(value, list) and (not value or not isinstance(value[0], str)):
        return [_tensors(entry, item, first, keywords) for item in value]
    raise UnsupportedModelError(
        f"layer {entry['name']!r} ({entry.get('class_name')}) cannot be converted: one of its inputs is a constant",
        fix="put the constant into a layer, or export a SavedModel using the Keras version that created it",
    )


def _with_tensors(value: Any, first: dict[str, int]) -> Any:
    """Return keyword arguments with references replaced by tensors."""
    if is_reference(value) and len(value) == 3 and value[0] in first:
        return _tensor(value, first)
    if isinstance(value, dict):
        return {key: _with_tensors(item, first) for key, item in value.items()}
    return [_with_tensors(item, first) for item in value] if isinstance(value, list) else value


def _tensor(reference: TensorReference, first: dict[str, int]) -> ConfigNode:
    """Return a tensor, which Keras finds by its history; shape and type are required but not used."""
    name, call, output = reference[:3]
    history = [name, call - first.get(name, 0), output]
    return {"class_name": "__keras_tensor__", "config": {"shape": [], "dtype": "float32", "keras_history": history}}


def _renumbered(value: Any, first: dict[str, int], named: dict[str, ConfigNode]) -> Any:
    """Renumber references to outputs, in which Keras 3 still counts from 1, but only for nested functional models."""
    if is_reference(value):
        name, call, output = value[:3]
        nested = named.get(name, {}).get("class_name") in MODELS - {"Sequential"}
        return [name, call - first.get(name, 0) + nested, output]
    if isinstance(value, dict):
        return {key: _renumbered(item, first, named) for key, item in value.items()}
    return [_renumbered(item, first, named) for item in value] if isinstance(value, list) else value


MIXED_POLICIES = frozenset(["mixed_float16", "mixed_bfloat16"])
# Keras 2.12 wraps numbers in these; Keras 3 expects plain numbers.
PLAIN_VALUES = frozenset(["__numpy__", "__tensor__"])
NAMES_SHOWN = 4
WRAPPER_PURPOSES = {CLUSTERING_WRAPPER: "clustering", PRUNING_WRAPPER: "pruning"}


@dataclass(slots=True)
class _Changes:
    """Changes of a configuration.

    keys, layers: dropped keys by class, and the layers that had them. unwrapped: layers by wrapper. notes: sentences.
    """

    keys: dict[str, dict[str, None]] = field(default_factory=dict)
    layers: dict[str, dict[str, None]] = field(default_factory=dict)
    unwrapped: dict[str, dict[str, None]] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def drop(self, class_name: str, key: str, layer: str) -> None:
        self.keys.setdefault(class_name, {})[key] = None
        self.layers.setdefault(class_name, {})[layer] = None

    def sentences(self) -> tuple[str, ...]:
        dropped = tuple(
            f"dropped Keras 2-only keys ({', '.join(keys)}) from {name}: {_listed(list(self.layers[name]))}"
            for name, keys in self.keys.items()
        )
        wrappers = tuple(
            f"removed the {WRAPPER_PURPOSES[kind]} wrappers from {_listed(list(names))}"
            for kind, names in self.unwrapped.items()
        )
        return (*dropped, *wrappers, *self.notes)


def modernise(config: ConfigNode, *, legacy: bool) -> tuple[ConfigNode, tuple[str, ...]]:
    """Return a configuration that Keras 3 can load, with a batch size of 1 or unknown, and notes on relevant changes.

    Args:
        legacy: whether Keras 2 wrote the configuration.

    Raises UnsupportedModelError naming a layer with a key that Keras 3 rejects and that affects what it computes.
    """
    changes = _Changes()
    batch = _fixed_batch(config)
    if batch is not None:
        changes.notes[f"the batch size was changed from {batch} to 1"] = None
    result = _rewritten(config, legacy, batch, changes)
    result.pop("compile_config", None)
    return result, changes.sentences()


def for_tf_keras(config: ConfigNode) -> ConfigNode:
    """Return the configuration for tf_keras, which reads that of Keras 2, but not the modules of Keras 2.12 to 2.15."""
    result, _ = modernise(config, legacy=False)
    for node in objects(result):
        if node["class_name"] in TRAINED_FOR_INTEGERS:
            node.pop("build_config", None)  # if it were built twice, it would have its variables twice
        module = node.get("module")
        if isinstance(module, str) and module.startswith(("keras.src.", "keras.engine.")):
            node["module"] = f"tf_keras.src.{module.removeprefix('keras.').removeprefix('src.')}"
    return result


def _rewritten(value: Any, legacy: bool, batch: int | None, changes: _Changes) -> Any:
    if isinstance(value, list):
        return [_rewritten(item, legacy, batch, changes) for item in value]
    if not isinstance(value, dict):
        return value
    node = {key: _rewritten(item, legacy, batch, changes) for key, item in value.items() if key != "compile_config"}
    if legacy and node.get("class_name") in PLAIN_VALUES and isinstance(node.get("config"), dict):
        return node["config"].get("value")
    if isinstance(node.get("class_name"), str) and isinstance(node.get("config"), dict | list):
        if legacy:
            _translate(node, changes)
        if isinstance(node["config"], dict):
            _use_float32(node["config"], changes)
            if batch is not None:
                _use_batch_of_one(node, batch)
    return node


def _translate(node: ConfigNode, changes: _Changes) -> None:
    """Translate a node of Keras 2 to Keras 3."""
    before = node["class_name"]
    for wrapping in WRAPPING_STEPS:
        wrapping(node)
    if not isinstance(node["config"], dict):
        return
    name = str(node["config"].get("name", node["class_name"]))
    if before in TRAINING_WRAPPERS and node["class_name"] != before:
        changes.unwrapped.setdefault(before, {})[name] = None
    for key, value in meaningful(node).items():
        raise UnsupportedModelError(
            f"layer {name!r} ({node['class_name']}) cannot be converted: Keras 3 does not support {key}={value!r}",
            fix="replace the layer, or export a SavedModel using the Keras version that created it",
        )
    for key in droppable(node):
        del node["config"][key]
        changes.drop(node["class_name"], key, name)
    old = node["class_name"]
    for step in STEPS:
        step(node)
    connect(node)
    if node["class_name"] != old:
        changes.notes[f"{old} {name!r} was loaded as {node['class_name']}, which behaves identically at inference"] = (
            None
        )


def _use_float32(config: ConfigNode, changes: _Changes) -> None:
    """Replace mixed precision, which serves training only: it would leave casts that no quantizer removes."""
    policy = config.get("dtype")
    name = policy
    if isinstance(policy, dict) and isinstance(policy.get("config"), dict):
        name = policy["config"].get("name")
    if isinstance(name, str) and name in MIXED_POLICIES:
        config["dtype"] = "float32"
        changes.notes[f"layers with dtype policy {name} were changed to float32"] = None


def _fixed_batch(config: ConfigNode) -> int | None:
    """Return the batch size that the model was built for if it is above 1, otherwise None."""
    inner = config.get("config")
    layers = inner.get("layers") if isinstance(inner, dict) else inner
    shapes = [inner.get("build_input_shape")] if isinstance(inner, dict) else []
    for layer in layers if isinstance(layers, list) else ():
        layer_config = layer.get("config") if isinstance(layer, dict) else None
        if isinstance(layer_config, dict):
            shapes += [layer_config.get("batch_shape"), layer_config.get("batch_input_shape")]
    sizes = [shape[0] for shape in shapes if isinstance(shape, list) and shape and type(shape[0]) is int]
    return next((size for size in sizes if size > 1), None)


def _use_batch_of_one(node: ConfigNode, batch: int) -> None:
    config = node["config"]
    for key in ("batch_shape", "batch_input_shape", "build_input_shape"):
        if key in config:
            config[key] = _with_batch_of_one(config[key], batch)
    if "build_config" in node:
        node["build_config"] = _with_batch_of_one(node["build_config"], batch)


def _with_batch_of_one(value: Any, batch: int) -> Any:
    """Return `value` with 1 instead of `batch` at the start of every shape in it."""
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
