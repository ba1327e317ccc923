"""Says a Keras 2 layer in the words of Keras 3: other classes, other functions, other shapes. Pure.

Each step changes one node {"class_name", "config", ...} of a configuration in place; its children are done already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgetool.convert.stock_names import LAYERS

Node = dict[str, Any]
# Our own function, since hard_sigmoid of Keras 2 is clip(0.2 x + 0.5) and that of Keras 3 is clip(x / 6 + 0.5).
HARD_SIGMOID = "keras_2_hard_sigmoid"
FUNCTIONAL_MODULE = "keras.src.models.functional"
_MODULES = {"Functional": FUNCTIONAL_MODULE, "Model": "keras", "Sequential": "keras"}
_SINGLE_AXIS = frozenset(["BatchNormalization", "LayerNormalization"])
MODELS = frozenset(["Functional", "Model", "Network", "Sequential"])
PRUNING_WRAPPER = "PruneLowMagnitude"
CLUSTERING_WRAPPER = "ClusterWeights"
# Wrappers that only hold a layer while it is trained.
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


def unwrap_training(node: Node) -> None:
    """The layer inside a wrapper that only training needs takes the wrapper's place."""
    config = node["config"]
    inner = config.get("layer") if isinstance(config, dict) and not config.get("cluster_per_channel") else None
    if node["class_name"] in TRAINING_WRAPPERS and isinstance(inner, dict) and "class_name" in inner:
        place = {key: node[key] for key in ("name", "inbound_nodes") if key in node}
        shape = config.get("batch_input_shape")
        node.clear()
        node.update(inner | place)
        if shape is not None and isinstance(node["config"], dict):
            node["config"].setdefault("batch_input_shape", shape)


def use_config_object(node: Node) -> None:
    """The first Keras 2 releases wrote a Sequential as a bare list of layers."""
    if node["class_name"] == "Sequential" and isinstance(node["config"], list):
        node["config"] = {"name": "sequential", "layers": node["config"]}


def use_new_class(node: Node) -> None:
    """Layers that Keras 3 has under another name."""
    node["class_name"] = _OLD_NAMES.get(node["class_name"], node["class_name"])
    replace = _REPLACED.get(node["class_name"])
    if replace is not None:
        node["class_name"], config = replace(node["config"])
        common = {key: node["config"][key] for key in ("name", "dtype", "batch_input_shape") if key in node["config"]}
        node["config"] = common | config
        if "module" in node:
            node["module"] = "keras.layers"


def _kept(config: Node, *names: str) -> Node:
    return {name: config[name] for name in names if name in config}


def _thresholded_relu(config: Node) -> tuple[str, Node]:
    return "ReLU", {"threshold": config.get("theta", 1.0)}


def _identity(_: Node) -> tuple[str, Node]:
    return "Identity", {}


def _random_crop(config: Node) -> tuple[str, Node]:
    """Outside training, Keras 2 resizes to the wanted size after cutting what exceeds its aspect ratio."""
    sizes = _kept(config, "height", "width")
    return "Resizing", {**sizes, "interpolation": "bilinear", "crop_to_aspect_ratio": True}


_RNN = ("units", "return_sequences", "return_state", "go_backwards", "stateful", "trainable")


def _cudnn_lstm(config: Node) -> tuple[str, Node]:
    return "LSTM", _kept(config, *_RNN, "unit_forget_bias") | {"activation": "tanh", "recurrent_activation": "sigmoid"}


def _cudnn_gru(config: Node) -> tuple[str, Node]:
    functions = {"activation": "tanh", "recurrent_activation": "sigmoid"}
    return "GRU", _kept(config, *_RNN) | functions | {"reset_after": True}


_REPLACED: dict[str, Callable[[Node], tuple[str, Node]]] = {
    "ThresholdedReLU": _thresholded_relu,
    "RandomHeight": _identity,
    "RandomWidth": _identity,
    "RandomCrop": _random_crop,
    "CuDNNLSTM": _cudnn_lstm,
    "CuDNNGRU": _cudnn_gru,
}


def use_own_functions(node: Node) -> None:
    """Functions that share a name with one of Keras 3 and differ from it."""
    config = node["config"]
    for key in _FUNCTION_KEYS:
        value = config.get(key)
        own = isinstance(value, dict) and value.get("config") == "hard_sigmoid" and _is_keras(value.get("module"))
        if value == "hard_sigmoid" or own:
            config[key] = _function(HARD_SIGMOID)


def _is_keras(module: Any) -> bool:
    """Whether an object of that module is one of Keras; anything else is left for the check of the configuration."""
    return module in (None, "builtins") or str(module).partition(".")[0] in ("keras", "tf_keras")


def _function(name: str) -> Node:
    return {"module": "builtins", "class_name": "function", "config": name, "registered_name": name}


def name_defaults(node: Node) -> None:
    """A GRU from before reset_after was written had it off; Keras 3 takes it as on."""
    if node["class_name"] in ("GRU", "GRUCell"):
        node["config"].setdefault("reset_after", False)


def use_plain_initializers(node: Node) -> None:
    """TensorFlow 1 wrote a dtype into initializers, and called the truncated normal distribution normal."""
    for key, value in node["config"].items():
        inner = value.get("config") if key.endswith("_initializer") and isinstance(value, dict) else None
        if isinstance(inner, dict):
            inner.pop("dtype", None)
            if inner.get("distribution") == "normal":
                inner["distribution"] = "truncated_normal"


def use_batch_shape(node: Node) -> None:
    """Only an InputLayer says the shape of its input: one is put before a Sequential that has none."""
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


def _input_layer(first: Node, shape: Any) -> Node:
    config = first["config"]
    dtype = config.get("dtype")
    made: Node = {
        "class_name": "InputLayer",
        "config": {
            "batch_shape": shape,
            "dtype": dtype if isinstance(dtype, str) else "float32",
            "name": f"{config.get('name', 'first')}_input",
        },
    }
    return made | ({"module": "keras.layers"} if "module" in first else {})


def use_axis(node: Node) -> None:
    """One axis as a number."""
    axis = node["config"].get("axis")
    if isinstance(axis, list) and len(axis) == 1 and node["class_name"] in _SINGLE_AXIS:
        node["config"]["axis"] = axis[0]


def use_policy_name(node: Node) -> None:
    """Old dtype policies become their name."""
    policy = node["config"].get("dtype")
    if isinstance(policy, dict) and policy.get("class_name") in ("Policy", "PolicyV1"):
        node["config"]["dtype"] = (policy.get("config") or {}).get("name", "float32")


def use_module(node: Node) -> None:
    """Keras 2 kept its classes in modules that Keras 3 does not have, or did not name them."""
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


# In this order, on a node whose configuration may still be a list, and on those whose configuration is an object.
WRAPPING_STEPS: tuple[Callable[[Node], None], ...] = (unwrap_training, use_config_object)
STEPS: tuple[Callable[[Node], None], ...] = (
    use_new_class,
    use_own_functions,
    name_defaults,
    use_plain_initializers,
    use_batch_shape,
    use_axis,
    use_policy_name,
    use_module,
)
