"""Which layers of a Keras 2 file only tf_keras can load, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgetool.convert.tensorflow_calls import FUNCTIONS, OPERATIONS

Node = dict[str, Any]
TF_KERAS = "pip install --no-deps tf-keras"
TFMOT = "pip install --no-deps tensorflow-model-optimization tf-keras"
# Class -> what it is.
CALLS = {
    "TFOpLambda": "it is a raw TensorFlow call",
    "SlicingOpLambda": "it is a raw TensorFlow slice",
    "TensorFlowOpLayer": "it is a raw TensorFlow operation",
}
LOCAL = {
    "LocallyConnected1D": "this layer does not exist in Keras 3",
    "LocallyConnected2D": "this layer does not exist in Keras 3",
}
# What tensorflow-model-optimization puts around layers that are trained for quantization.
TRAINED_FOR_INTEGERS = frozenset(["QuantizeAnnotate", "QuantizeLayer", "QuantizeWrapper", "QuantizeWrapperV2"])
# ... and what those hold.
TFMOT_PARTS = frozenset(
    """
    AllValuesQuantizer Default8BitActivationQuantizeConfig Default8BitConvQuantizeConfig
    Default8BitConvTransposeQuantizeConfig Default8BitConvTransposeWeightsQuantizer Default8BitConvWeightsQuantizer
    Default8BitOutputQuantizeConfig Default8BitQuantizeConfig Default8BitQuantizeConfigRNN FixedQuantizeConfig
    FixedQuantizer LastValueQuantizer MovingAverageQuantizer NoOpActivation NoOpQuantizeConfig NoQuantizer
    OutputOnlyConfig QuantizeAwareActivation
    """.split()
)
TFMOT_MODULE = "tensorflow_model_optimization."
# What Keras 3 gets in another form, and tf_keras still has.
REWRITTEN = frozenset(["ThresholdedReLU"])
# Classes that check_config lets pass where tf_keras is to load the file.
ALLOWED = frozenset(CALLS) | frozenset(LOCAL) | REWRITTEN | TRAINED_FOR_INTEGERS | TFMOT_PARTS


def needs_tf_keras(config: Any) -> Iterator[tuple[str, str, str]]:
    """Each layer that Keras 3 cannot rebuild: its name, its class and the reason."""
    for node in objects(config):
        name = node["class_name"]
        inner = node.get("config")
        if not isinstance(inner, dict):
            continue
        layer = str(inner.get("name", name))
        if name in CALLS:
            yield layer, name, f"{CALLS[name]}{_called(node)}, which Keras 3 cannot rebuild"
        elif name in LOCAL:
            yield layer, name, LOCAL[name]
        elif name in TRAINED_FOR_INTEGERS:
            yield layer, name, "it comes from quantization-aware training with tensorflow-model-optimization"
        elif name == "BatchNormalization" and (inner.get("renorm") or inner.get("virtual_batch_size")):
            yield layer, name, "it keeps statistics that Keras 3 does not support"


def needs_tfmot(config: Any) -> bool:
    """Whether the model was trained for quantization."""
    return any(node["class_name"] in TRAINED_FOR_INTEGERS for node in objects(config))


def forbidden_call(node: Node) -> str | None:
    """The TensorFlow function of a raw call that is none of those allowed."""
    name = node.get("class_name")
    inner = node.get("config")
    config = inner if isinstance(inner, dict) else {}
    if name in ("TFOpLambda", "SlicingOpLambda"):
        function = config.get("function")
        return None if isinstance(function, str) and function in FUNCTIONS else f"tf.{function}"
    if name == "TensorFlowOpLayer":
        definition = config.get("node_def")
        operation = definition.get("op") if isinstance(definition, dict) else None
        return None if isinstance(operation, str) and operation in OPERATIONS else str(operation)
    return None


def objects(value: Any) -> Iterator[Node]:
    """Every serialized object in a configuration, however deep."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            if isinstance(item.get("class_name"), str):
                yield item
            pending += reversed(list(item.values()))
        elif isinstance(item, list):
            pending += reversed(item)


def _called(node: Node) -> str:
    config = node["config"]
    if isinstance(config.get("function"), str):
        return f" (tf.{config['function']})"
    definition = config.get("node_def")
    return f" ({definition.get('op')})" if isinstance(definition, dict) else ""
