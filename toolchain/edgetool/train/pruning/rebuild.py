"""Builds a model again without the removed channels, with what is left of its weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgetool.convert.float_model import explain
from edgetool.errors import InternalError, UnsupportedModelError
from edgetool.train.pruning.call import LayerFacts
from edgetool.train.pruning.channels import Symbols
from edgetool.train.pruning.trace import Trace, graph_of, input_key, is_model


def rebuild(keras: Any, model: Any, trace: Trace, removed: frozenset[int]) -> Any:
    """A new model of the same structure and names; the given one stays as it is.

    Raises UnsupportedModelError naming a layer that its own configuration does not build.
    """
    return _Builder(keras, trace, removed).run(model)


class _Builder:
    def __init__(self, keras: Any, trace: Trace, removed: frozenset[int]) -> None:
        self._keras = keras
        self._trace = trace
        self._removed = np.array(sorted(removed), dtype=np.int64)
        self._made: dict[int, Any] = {}

    def run(self, model: Any) -> Any:
        """The new model, with its weights and with what can be trained as it was."""
        result = self._model(model)
        pairs = [(self._trace.facts[key], new) for key, new in self._made.items() if key in self._trace.facts]
        result.trainable = model.trainable
        # A model sets the flag of all that is in it: models first, the outer ones before the inner.
        for facts, new in sorted(pairs, key=lambda pair: not is_model(self._keras, pair[0].layer)):
            if hasattr(new, "trainable"):
                new.trainable = facts.layer.trainable
        for facts, new in pairs:
            if hasattr(facts.layer, "weights") and not is_model(self._keras, facts.layer):
                self._fill(facts, new)
        return result

    def _kept(self, symbols: Symbols) -> Any:
        """Indices of the channels that stay."""
        return np.flatnonzero(~np.isin(self._trace.channels.roots(symbols), self._removed))

    def _model(self, model: Any, facts: LayerFacts | None = None) -> Any:
        keras, graph = self._keras, graph_of(self._keras, model)
        shapes = [self._input_shape(tensor, number, facts) for number, tensor in enumerate(graph.inputs)]
        tensors = [
            keras.Input(
                batch_shape=shape,
                dtype=tensor.dtype,
                name=tensor._keras_history.operation.name,
                sparse=tensor.sparse,
                optional=getattr(tensor._keras_history.operation, "optional", False),
            )
            for shape, tensor in zip(shapes, graph.inputs, strict=True)
        ]
        if isinstance(model, keras.Sequential):
            return keras.Sequential([*tensors, *map(self._layer, model.layers)], name=model.name)
        inputs = keras.tree.pack_sequence_as(graph._inputs_struct, tensors)
        return keras.Model(inputs, graph._run_through_graph(tensors, operation_fn=self._layer), name=model.name)

    def _input_shape(self, tensor: Any, number: int, facts: LayerFacts | None) -> list[int | None]:
        shape = list(tensor.shape)
        known = facts.sizes.get(input_key(number)) if facts is not None else None
        if known is not None and known[0] is not None:
            shape[known[0] + 1] = len(self._kept(known[1]))
        return shape

    def _layer(self, layer: Any) -> Any:
        if id(layer) not in self._made:
            facts = self._trace.facts.get(id(layer))
            if is_model(self._keras, layer):
                self._made[id(layer)] = None  # before what is in it
                self._made[id(layer)] = self._model(layer, facts)
            else:
                self._made[id(layer)] = self._again(layer, facts)
        return self._made[id(layer)]

    def _again(self, layer: Any, facts: LayerFacts | None) -> Any:
        config = _unbuilt(layer.get_config())
        if facts is not None and self._loses(facts):
            for key, (position, symbols) in facts.sizes.items():
                if position is None and len(symbols):
                    config[key] = len(self._kept(symbols))
                elif position is not None:
                    sizes = list(config[key])
                    sizes[position] = len(self._kept(symbols))
                    config[key] = tuple(sizes)
            # Their values are overwritten; one made for the old shape would not fit.
            config |= {key: "zeros" for key in config if key.endswith("_initializer")}
        own: dict[str, Any] = {type(layer).__name__: type(layer)}
        activation: Any = getattr(layer, "activation", None)
        if hasattr(activation, "__name__"):
            own[activation.__name__] = activation
        safe_mode = self._keras.src.saving.serialization_lib.SafeModeScope
        try:
            # The layer is here already: whatever code it carries was loaded with the model.
            with safe_mode(False), self._keras.saving.custom_object_scope(own):
                return type(layer).from_config(config)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise UnsupportedModelError(
                f"cannot be rebuilt from its configuration: {explain(error)[0]}",
                where=f"layer {layer.name!r} ({type(layer).__name__})",
                fix="define get_config in its class so that it returns the arguments of the constructor",
            ) from error

    def _loses(self, facts: LayerFacts) -> bool:
        known = (*facts.weights.values(), *(symbols for _, symbols in facts.sizes.values()))
        return any(len(self._kept(symbols)) < len(symbols) for symbols in known)

    def _fill(self, facts: LayerFacts, new: Any) -> None:
        old = [np.asarray(weight) for weight in facts.layer.weights]
        values = []
        for position, value in enumerate(old):
            kept = [np.arange(size) for size in value.shape]
            for axis in range(value.ndim):
                symbols = facts.weights.get((position, axis))
                if symbols is not None:
                    kept[axis] = self._kept(symbols)
            values.append(value[np.ix_(*kept)] if kept else value)
        shapes = [tuple(weight.shape) for weight in new.weights]
        if shapes != [value.shape for value in values]:
            raise InternalError(
                f"after pruning, the weights of {facts} have the shapes {[value.shape for value in values]} "
                f"instead of {shapes}"
            )
        new.set_weights(values)
        if values and hasattr(new, "finalize_state"):
            new.finalize_state()


def _unbuilt(value: Any) -> Any:
    """A configuration without the shapes that wrapped layers were built for."""
    if isinstance(value, dict):
        return {key: _unbuilt(item) for key, item in value.items() if key != "build_config"}
    return [_unbuilt(item) for item in value] if isinstance(value, list) else value
