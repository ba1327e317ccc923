"""Follows the channels of a model through its layers, nested models and shared layers included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from edgetool.errors import UnsupportedModelError
from edgetool.train.pruning.channels import Call, Channels, LayerFacts, Signal, opaque
from edgetool.train.pruning.rules import MERGES, RULES, operation

SEPARATOR = "/"


@dataclass(slots=True)
class Trace:
    """The channels of a model, and what every layer and nested model has to do with them, by id, in order of calls."""

    channels: Channels
    facts: dict[int, LayerFacts] = field(default_factory=dict)


def graph_of(keras: Any, model: Any) -> Any:
    """The functional graph of a functional or sequential model.

    Raises UnsupportedModelError for a model without one.
    """
    graph = getattr(model, "_functional", None) if isinstance(model, keras.Sequential) else model
    if graph is None or not is_model(keras, model):
        raise UnsupportedModelError(
            f"model {model.name!r} ({type(model).__name__}) has no layer graph that pruning can trace",
            where=f"model {model.name!r}",
            fix="build it as a Sequential model with an Input, or as a functional model: keras.Model(inputs, outputs)",
        )
    return graph


def is_model(keras: Any, layer: Any) -> bool:
    """Whether a layer is a model with a graph, which is all that it computes."""
    if not isinstance(layer, keras.Model):
        return False
    caller = next(base for base in type(layer).__mro__ if "call" in vars(base))
    has_graph = hasattr(layer, "_run_through_graph") or getattr(layer, "_functional", None) is not None
    return has_graph and is_own(caller)


def is_own(kind: type) -> bool:
    """Whether a class is Keras's own."""
    return kind.__module__.startswith("keras.")


def layers_of(keras: Any, model: Any, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every operation of the graph with the names on the way to it; nested models before what is in them."""
    for layer in graph_of(keras, model).operations:
        path = (*prefix, layer.name)
        yield path, layer
        if is_model(keras, layer):
            yield from layers_of(keras, layer, path)


def trace(keras: Any, model: Any, exclude: Sequence[str]) -> Trace:
    """Follow the channels from the model's inputs to its outputs, which stay.

    exclude: patterns of the names of layers that keep their channels.
    """
    return _Tracer(keras, model, exclude).run(model)


class _Tracer:
    def __init__(self, keras: Any, model: Any, exclude: Sequence[str]) -> None:
        self._keras = keras
        self._result = Trace(Channels())
        self._excluded: dict[int, str] = {}
        paths: dict[int, tuple[str, ...]] = {}
        names: dict[str, set[int]] = {}
        for path, layer in layers_of(keras, model):
            paths.setdefault(id(layer), path)
            names.setdefault(layer.name, set()).add(id(layer))
            for pattern in exclude:
                if any(matches(pattern, path[:length]) for length in range(1, len(path) + 1)):
                    self._excluded.setdefault(id(layer), pattern)
        self._labels = {
            key: path[-1] if len(names[path[-1]]) == 1 else SEPARATOR.join(path) for key, path in paths.items()
        }

    def run(self, model: Any) -> Trace:
        channels = self._result.channels
        inputs = [
            opaque(tensor, f"the model's input {tensor.name!r}") for tensor in graph_of(self._keras, model).inputs
        ]
        for signal in self._through(model, inputs):
            channels.freeze(signal.symbols, "its output is the model's output", foremost=True)
        for facts in self._result.facts.values():
            if facts.given_up:
                known = (*facts.weights.values(), *(symbols for _, symbols in facts.sizes.values()))
                for symbols in known:
                    channels.freeze(symbols, f"one of the calls of {facts} cannot be tracked")
        return self._result

    def _through(self, model: Any, signals: Sequence[Signal]) -> list[Signal]:
        graph = graph_of(self._keras, model)
        outputs = graph._run_through_graph(list(signals), call_fn=self._called)
        return [item for item in self._keras.tree.flatten(outputs) if isinstance(item, Signal)]

    def _called(self, layer: Any, *arguments: Any, **named: Any) -> list[Signal]:
        keras = self._keras
        facts = self._result.facts.setdefault(id(layer), LayerFacts(layer, self._labels[id(layer)]))
        signals = [item for item in keras.tree.flatten((arguments, named)) if isinstance(item, Signal)]
        if is_model(keras, layer) and len(signals) == len(layer.inputs):
            return self._nested(facts, signals)
        symbolic = keras.tree.map_structure(lambda item: item.spec if isinstance(item, Signal) else item, arguments)
        options = keras.tree.map_structure(lambda item: item.spec if isinstance(item, Signal) else item, named)
        specs = keras.tree.flatten(layer.compute_output_spec(*symbolic, **options))
        call = Call(keras, facts, self._result.channels, arguments, tuple(specs))
        outputs = _apply(call, signals)
        if id(layer) in self._excluded:
            self._keep(facts, outputs)
        return outputs

    def _nested(self, facts: LayerFacts, signals: Sequence[Signal]) -> list[Signal]:
        """Inlined; its own inputs must have the same channels in every call."""
        call = Call(self._keras, facts, self._result.channels, (), ())
        for number, signal in enumerate(signals):
            call.size(input_key(number), signal.axis, signal.symbols)
        return self._through(facts.layer, signals)

    def _keep(self, facts: LayerFacts, outputs: Sequence[Signal]) -> None:
        reason = f"{facts} is excluded by {self._excluded[id(facts.layer)]!r}"
        if facts.made is not None:
            self._result.channels.freeze(facts.made, f"excluded by {self._excluded[id(facts.layer)]!r}", foremost=True)
        for signal in outputs:
            self._result.channels.freeze(signal.symbols, reason)


def input_key(number: int) -> str:
    """Under which size the channels of a nested model's input are noted."""
    return f"input {number}"


def matches(pattern: str, path: Sequence[str]) -> bool:
    """Whether a pattern means the layer at the end of the path: by name, or by the whole path."""
    return fnmatchcase(path[-1], pattern) or fnmatchcase(SEPARATOR.join(path), pattern)


def _apply(call: Call, signals: list[Signal]) -> list[Signal]:
    layer, kind = call.layer, call.facts.kind
    if not isinstance(layer, call.keras.layers.Layer):
        return operation(call, signals) if is_own(type(layer)) else call.give_up(signals)
    known = type(layer) is getattr(call.keras.layers, kind, None) and not _is_altered(layer)
    if known and kind in RULES and len(signals) == 1:
        return RULES[kind](call, signals[0])
    if known and kind in MERGES and signals:
        return MERGES[kind](call, signals)
    if kind != "Normalization" and any(len(weight.shape) > 1 for weight in layer.weights):
        call.facts.whole = f"{kind} layers are not pruned"
    return call.give_up(signals)


def _is_altered(layer: Any) -> bool:
    """Whether the layer's weights are not those that its class makes: quantized, or with low-rank additions."""
    return bool(getattr(layer, "lora_enabled", False) or getattr(layer, "quantization_mode", None))
