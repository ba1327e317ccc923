"""Rewrites how the layers of a Keras 2 functional model are connected into the form of Keras 3. Pure.

Keras 2 lists per call of a layer [[name, call, output, keywords], ...], or a dictionary of those. Keras 3 takes
{"args", "kwargs"} with tensors as {"class_name": "__keras_tensor__", ...}; it can read the old form, but loses tensors
among the keywords, states of recurrent layers and how calls of nested models are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgetool.convert.legacy_layers import MODELS
from edgetool.errors import UnsupportedModelError

Node = dict[str, Any]
Reference = list[Any]  # [name, call, output]
STATEFUL = frozenset(["LSTM", "GRU", "SimpleRNN", "RNN", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", "Bidirectional"])
CONSTANT = "_CONSTANT_VALUE"


def connect(node: Node) -> None:
    """Rewrite the calls in the configuration of a functional model; in place.

    Raises UnsupportedModelError naming the layer whose inputs cannot be told.
    """
    config = node["config"]
    layers = config.get("layers")
    if node["class_name"] not in MODELS or not isinstance(layers, list) or "output_layers" not in config:
        return
    named = {entry["name"]: entry for entry in layers if isinstance(entry, dict) and isinstance(entry.get("name"), str)}
    old = {name: calls for name, entry in named.items() if isinstance(calls := entry.get("inbound_nodes"), list)}
    # Files of Keras 2.13 that were read with safe_mode hold Keras 3's form already.
    old = {name: calls for name, calls in old.items() if all(isinstance(call, list | dict) for call in calls)}
    first = {name: _first_call(name, calls, old, config["output_layers"]) for name, calls in old.items()}
    for name, calls in old.items():
        entry = named[name]
        entry["inbound_nodes"] = [_call(entry, call, first) for call in calls]
    config["output_layers"] = _renumbered(config["output_layers"], first, named)


def _first_call(name: str, calls: list[Any], all_calls: dict[str, list[Any]], outputs: Any) -> int:
    """The number that Keras 2 gave to a layer's first call: a nested model that was built by itself starts at 1."""
    found = (
        reference[1]
        for source in (*all_calls.values(), outputs)
        for reference in _references(source)
        if reference[0] == name
    )
    return max(0, max(found, default=0) - (len(calls) - 1)) if calls else 0


def _references(value: Any) -> Iterator[Reference]:
    if is_reference(value):
        yield value[:3]
        value = value[3:]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _references(item)


def is_reference(value: Any) -> bool:
    """Whether this is [name, call, output] or the same with keywords."""
    return (
        isinstance(value, list)
        and len(value) in (3, 4)
        and isinstance(value[0], str)
        and value[0] != CONSTANT
        and all(type(number) is int and number >= 0 for number in value[1:3])
        and (len(value) == 3 or isinstance(value[3], dict))
    )


def _call(entry: Node, call: Any, first: dict[str, int]) -> Any:
    if isinstance(call, dict) and set(call) == {"args", "kwargs"}:
        return call
    keywords: Node = {}
    given = _tensors(entry, call, first, keywords)
    keywords = _revived(keywords, first)
    if isinstance(given, list) and len(given) == 1 and not isinstance(given[0], list):
        given = given[0]
    if isinstance(given, list) and entry.get("class_name") in STATEFUL:
        given, *states = given
        keywords["initial_state"] = states
    return {"args": [given], "kwargs": keywords}


def _tensors(entry: Node, value: Any, first: dict[str, int], keywords: Node) -> Any:
    """The first argument of a call, in its structure; the keywords, which Keras 2 put beside each tensor, apart."""
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


def _revived(value: Any, first: dict[str, int]) -> Any:
    """Keyword arguments with their tensors."""
    if is_reference(value) and len(value) == 3 and value[0] in first:
        return _tensor(value, first)
    if isinstance(value, dict):
        return {key: _revived(item, first) for key, item in value.items()}
    return [_revived(item, first) for item in value] if isinstance(value, list) else value


def _tensor(reference: Reference, first: dict[str, int]) -> Node:
    """Keras looks the tensor up by its history; shape and type only have to be there."""
    name, call, output = reference[:3]
    history = [name, call - first.get(name, 0), output]
    return {"class_name": "__keras_tensor__", "config": {"shape": [], "dtype": "float32", "keras_history": history}}


def _renumbered(value: Any, first: dict[str, int], named: dict[str, Node]) -> Any:
    """References to outputs; Keras 3 still counts from 1 there, for a nested functional model only."""
    if is_reference(value):
        name, call, output = value[:3]
        nested = named.get(name, {}).get("class_name") in MODELS - {"Sequential"}
        return [name, call - first.get(name, 0) + nested, output]
    if isinstance(value, dict):
        return {key: _renumbered(item, first, named) for key, item in value.items()}
    return [_renumbered(item, first, named) for item in value] if isinstance(value, list) else value
