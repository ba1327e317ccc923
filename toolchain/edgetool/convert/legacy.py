"""Rewrites a model's JSON configuration so that Keras 3 can rebuild it for one sample at a time. Pure.

The weights stay where they are. What only shaped training, or says in Keras 2 words what is the case anyway, is
dropped; a value that means something Keras 3 cannot do is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from edgetool.convert.legacy_keys import droppable, meaningful
from edgetool.convert.legacy_layers import (
    CLUSTERING_WRAPPER,
    PRUNING_WRAPPER,
    STEPS,
    TRAINING_WRAPPERS,
    WRAPPING_STEPS,
)
from edgetool.convert.legacy_nodes import connect
from edgetool.convert.tf_keras_needs import TRAINED_FOR_INTEGERS, objects
from edgetool.errors import UnsupportedModelError

Node = dict[str, Any]

MIXED_POLICIES = frozenset(["mixed_float16", "mixed_bfloat16"])
# What Keras 2.12 wrapped numbers in, where Keras 3 takes numbers.
PLAIN_VALUES = frozenset(["__numpy__", "__tensor__"])
NAMES_SHOWN = 4
WRAPPED_FOR = {CLUSTERING_WRAPPER: "clustering", PRUNING_WRAPPER: "pruning"}


@dataclass(slots=True)
class _Changes:
    """What was changed: class -> dropped keys and the layers that had them; wrapper -> layers; and sentences."""

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
            f"removed the {WRAPPED_FOR[kind]} wrappers from {_listed(list(names))}"
            for kind, names in self.unwrapped.items()
        )
        return (*dropped, *wrappers, *self.notes)


def modernise(config: Node, *, legacy: bool) -> tuple[Node, tuple[str, ...]]:
    """The configuration that Keras 3 loads with batch size 1 or unknown, and a sentence per change worth telling.

    legacy says that Keras 2 wrote it. Raises UnsupportedModelError naming the layer where a dropped key would
    change what the model computes.
    """
    changes = _Changes()
    batch = _fixed_batch(config)
    if batch is not None:
        changes.notes[f"the batch size was changed from {batch} to 1"] = None
    result = _rewritten(config, legacy, batch, changes)
    result.pop("compile_config", None)
    return result, changes.sentences()


def for_tf_keras(config: Node) -> Node:
    """The same for tf_keras, which takes what Keras 2 wrote; Keras 2.12 to 2.15 named modules of their own."""
    result, _ = modernise(config, legacy=False)
    for node in objects(result):
        if node["class_name"] in TRAINED_FOR_INTEGERS:
            node.pop("build_config", None)  # built twice, it would have its variables twice
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


def _translate(node: Node, changes: _Changes) -> None:
    """Say a node of Keras 2 in the words of Keras 3."""
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


def _use_float32(config: Node, changes: _Changes) -> None:
    """Mixed precision is for training; a converted half would keep casts that no quantizer removes."""
    policy = config.get("dtype")
    name = policy
    if isinstance(policy, dict) and isinstance(policy.get("config"), dict):
        name = policy["config"].get("name")
    if isinstance(name, str) and name in MIXED_POLICIES:
        config["dtype"] = "float32"
        changes.notes[f"layers with dtype policy {name} were changed to float32"] = None


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
