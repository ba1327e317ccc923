"""Refuses a model configuration that carries code or that Keras 3 cannot rebuild, before anything is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgetool.convert.stock_names import ACTIVATIONS, LAYERS, OPERATIONS, PARTS
from edgetool.errors import UnsupportedModelError

TRUST = "use --trust-model-code if you trust whoever made the file"
DEFINE = "write a SavedModel with model.export() where it is defined"
EXPORT = "replace it with a Keras layer, or write a SavedModel with model.export() from the Keras that made it"

# Class -> why a file with it runs code that the file or its author brings.
CARRIES_CODE = {
    "Lambda": "it holds Python code",
    "__lambda__": "it holds Python code",
    "TFSMLayer": "it loads another SavedModel",
    "TorchModuleWrapper": "it holds pickled Python objects",
    "JaxLayer": "it holds Python functions",
    "FlaxLayer": "it holds Python functions",
    "Map": "it takes a function",
    "Scan": "it takes a function",
    "AssociativeScan": "it takes a function",
    "VectorizedMap": "it takes a function",
    "WhileLoop": "it takes functions",
    "ForiLoop": "it takes a function",
    "Cond": "it takes functions",
    "Switch": "it takes functions",
}
# Class -> why no flag helps.
UNSUPPORTED = {
    "TFOpLambda": "it is a raw TensorFlow call, which Keras 3 cannot rebuild",
    "SlicingOpLambda": "it is a raw TensorFlow slice, which Keras 3 cannot rebuild",
    "TensorFlowOpLayer": "it is a raw TensorFlow operation, which Keras 3 cannot rebuild",
    "ClassMethod": "it is a raw TensorFlow call, which Keras 3 cannot rebuild",
    "InstanceMethod": "it is a raw TensorFlow call, which Keras 3 cannot rebuild",
    "InstanceProperty": "it is a raw TensorFlow call, which Keras 3 cannot rebuild",
    "ThresholdedReLU": "Keras 3 has no such layer",
    "LocallyConnected1D": "Keras 3 has no such layer",
    "LocallyConnected2D": "Keras 3 has no such layer",
    "RandomHeight": "Keras 3 has no such layer",
    "RandomWidth": "Keras 3 has no such layer",
    "DenseFeatures": "Keras 3 has no such layer",
    "CuDNNLSTM": "Keras 3 has no such layer",
    "CuDNNGRU": "Keras 3 has no such layer",
    "StringLookup": "it works on strings, which TensorFlow Lite Micro does not have",
    "IntegerLookup": "it needs a hash table, which TensorFlow Lite Micro does not have",
    "TextVectorization": "it works on strings, which TensorFlow Lite Micro does not have",
    "Hashing": "it works on strings, which TensorFlow Lite Micro does not have",
    "HashedCrossing": "it works on strings, which TensorFlow Lite Micro does not have",
}
# What Keras writes for plain values.
VALUES = frozenset(
    """
    __tuple__ __tensor__ __keras_tensor__ __numpy__ __bytes__ __ellipsis__ __slice__ __complex__ TensorShape
    """.split()
)
# Recurrent layers: a WHILE loop in the graph unless they are unrolled.
RECURRENT = frozenset(["LSTM", "GRU", "SimpleRNN", "RNN", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"])
FUNCTION_KEYS = ("activation", "recurrent_activation")
# The whole model's optimizer, loss and metrics: never loaded.
NOT_LOADED = frozenset(["compile_config", "training_config"])
DEPTH_LIMIT = 200


def check_config(config: dict[str, Any], kind: str, *, trust_model_code: bool = False) -> tuple[str, ...]:
    """Check a model's JSON configuration; kind is "h5" or "keras".

    Returns what only trust_model_code let pass, one sentence each. Raises UnsupportedModelError that names
    layer and reason.
    """
    trusted: dict[str | None, str] = {}
    for layer, node in _objects(config, None, 0):
        name = str(node["class_name"])
        where = _where(layer, name)
        if name in UNSUPPORTED:
            raise UnsupportedModelError(f"{where} cannot be converted: {_reason(name, node)}", fix=EXPORT)
        if name in OPERATIONS - LAYERS and kind == "h5" and name not in PARTS:
            raise UnsupportedModelError(
                f"{where} is an operation outside a layer, which Keras cannot load from .h5",
                fix="save the model as .keras",
            )
        code = _code(name, node)
        if code is None:
            continue
        if not trust_model_code:
            raise UnsupportedModelError(f"{where} is refused: {code}", fix=TRUST if name in CARRIES_CODE else DEFINE)
        trusted.setdefault(layer, f"{where} was loaded with --trust-model-code: {code}")
    return tuple(trusted.values())


def check_unrolled(config: dict[str, Any]) -> None:
    """Refuse recurrent layers that loop: TensorFlow 2.21 dies of a segmentation fault when it calibrates one."""
    for layer, node in _objects(config, None, 0):
        name = str(node["class_name"])
        inner = node.get("config")
        if name in RECURRENT and isinstance(inner, dict) and not inner.get("unroll"):
            raise UnsupportedModelError(
                f"{_where(layer, name)} runs in a loop, at which TensorFlow's integer calibration crashes",
                fix="build the layer with unroll=True and save the model again, or use --quantize float32",
            )


def _objects(value: Any, layer: str | None, depth: int) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """Every serialized object in a configuration, with the name of the layer around it."""
    if depth > DEPTH_LIMIT:
        raise UnsupportedModelError(f"the configuration is nested more than {DEPTH_LIMIT} deep")
    if isinstance(value, list):
        for item in value:
            yield from _objects(item, layer, depth + 1)
    elif isinstance(value, dict):
        name = value.get("class_name")
        if isinstance(name, str):
            layer = _layer_name(name, value) or layer
            yield layer, value
        elif name is not None:
            raise UnsupportedModelError(f"a class_name that is no string in {_where(layer, 'the model')}")
        for key in FUNCTION_KEYS:
            if isinstance(value.get(key), str) and value[key] not in ACTIVATIONS:
                yield layer, {"class_name": "function", "config": value[key], "module": "builtins"}
        for key, item in value.items():
            if not (key in NOT_LOADED and depth == 0):
                yield from _objects(item, layer, depth + 1)


def _layer_name(class_name: str, node: dict[str, Any]) -> str | None:
    """The object's own name where it is a layer, and not an initializer or the like."""
    config = node.get("config")
    if class_name in PARTS or class_name in VALUES or not isinstance(config, dict):
        return None
    name = config.get("name", node.get("name"))
    return name if isinstance(name, str) else None


def _code(name: str, node: dict[str, Any]) -> str | None:
    """Why loading this object would run code from outside stock Keras, or None."""
    if name in CARRIES_CODE:
        return CARRIES_CODE[name]
    if name in VALUES:
        return None
    module = node.get("module")
    if name == "function":
        function = node.get("config")
        stock = function in ACTIVATIONS and _is_keras(module)
        return None if stock else f"its function {function!r} is not part of Keras"
    if name in LAYERS or name in PARTS or name in OPERATIONS:
        return None if _is_keras(module) else f"its class comes from {module}, which is not Keras"
    return "its class is not part of Keras"


def _is_keras(module: Any) -> bool:
    return module in (None, "builtins", "keras") or (isinstance(module, str) and module.startswith("keras."))


def _reason(name: str, node: dict[str, Any]) -> str:
    config = node.get("config")
    call = config.get("function") if isinstance(config, dict) else None
    return f"{UNSUPPORTED[name]} (tf.{call})" if name == "TFOpLambda" and isinstance(call, str) else UNSUPPORTED[name]


def _where(layer: str | None, name: str) -> str:
    if name in ("function", "__lambda__"):
        return f"layer {layer!r}" if layer else "the model"
    return f"layer {layer!r} ({name})" if layer else name
