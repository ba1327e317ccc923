"""Structured pruning: remove whole channels from a Keras model.

Groups of units that can replace each other are ranked, and the lowest-ranked units are removed. The model is then
rebuilt without them, with the remaining weights.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from edgetool.convert.float_model import explain_keras_error
from edgetool.convert.request import PRUNING_METHODS
from edgetool.errors import InternalError, UnsupportedModelError, UsageError
from edgetool.train.pruning.channels import LayerFacts, Symbols
from edgetool.train.pruning.trace import SEPARATOR, Trace, graph_of, input_key, is_model, layers_of, matches, trace


@dataclass(frozen=True, slots=True)
class ChannelGroup:
    """Units produced by the same layers. A unit is a symbol for channels that are removed together."""

    producers: tuple[LayerFacts, ...]
    units: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """The units to remove, by their symbols. notes: about the ranking, for the user."""

    removed: frozenset[int]
    notes: tuple[str, ...]


def producers(trace: Trace) -> tuple[LayerFacts, ...]:
    """Return the layers that produce channels, in order of their first calls."""
    return tuple(facts for facts in trace.facts.values() if facts.output_channels is not None)


def layer_units(trace: Trace, facts: LayerFacts) -> Symbols:
    """Return the unit of each of a layer's output channels."""
    return trace.channels.roots(facts.output_channels) if facts.output_channels is not None else np.zeros(0, np.int64)


def groups(trace: Trace) -> tuple[ChannelGroup, ...]:
    """Return the groups that can lose units."""
    by_unit: dict[int, list[int]] = {}
    layers = producers(trace)
    for number, facts in enumerate(layers):
        for unit in dict.fromkeys(layer_units(trace, facts).tolist()):
            if trace.channels.reason(unit) is None:
                by_unit.setdefault(unit, []).append(number)
    members: dict[tuple[int, ...], list[int]] = {}
    for unit, numbers in by_unit.items():
        members.setdefault(tuple(numbers), []).append(unit)
    return tuple(
        ChannelGroup(tuple(layers[number] for number in numbers), tuple(sorted(units)))
        for numbers, units in members.items()
    )


def count_to_remove(level: float, units: int) -> int:
    """Return how many units a fraction below 1 removes, using its exact decimal value; at least one unit stays."""
    return math.floor(Fraction(repr(float(level))) * units)


def choose(trace: Trace, level: float, method: str) -> Choice:
    """Choose the lowest-ranked units of every group; a higher level removes a superset.

    l1: the sum over the layers of a group of the L1 norm of the unit's part of the kernel, over the layer's mean for
    one channel (Li et al., Pruning Filters for Efficient ConvNets, 2017). batch-norm: the sum of |gamma| of the unit
    (Liu et al., Network Slimming, 2017), or l1 for a group in which a unit has none. Ties are broken by channel
    order.
    """
    norms = {id(facts): _norms(facts) for facts in producers(trace)}
    gammas = _gammas(trace) if method == "batch-norm" else {}
    removed: list[int] = []
    without: list[str] = []
    for group in groups(trace):
        scores = dict.fromkeys(group.units, 0.0)
        if gammas and all(unit in gammas for unit in group.units):
            scores = {unit: gammas[unit] for unit in group.units}
        else:
            without.extend(facts.label for facts in group.producers)
            for facts in group.producers:
                for unit, norm in zip(layer_units(trace, facts).tolist(), norms[id(facts)], strict=True):
                    if unit in scores:
                        scores[unit] += float(norm)
        ranked = sorted(group.units, key=lambda unit: (scores[unit], unit))
        removed.extend(ranked[: count_to_remove(level, len(ranked))])
    notes: tuple[str, ...] = ()
    if method == "batch-norm" and without:
        notes = (f"ranked by L1 norm because there is no batch normalization with a scale: {format_names(without)}",)
    return Choice(frozenset(removed), notes)


def _norms(facts: LayerFacts) -> Sequence[float]:
    """Return the L1 norm of each output channel's part of the kernel, relative to their mean."""
    position, axis = facts.kernel
    kernel = np.abs(np.asarray(facts.layer.weights[position], dtype=np.float64))
    sums = kernel.sum(axis=tuple(place for place in range(kernel.ndim) if place != axis))
    mean = sums.mean()
    result: list[float] = (sums / mean if mean > 0 else sums).tolist()
    return result


def _gammas(trace: Trace) -> dict[int, float]:
    result: dict[int, float] = {}
    for facts in trace.facts.values():
        if facts.scale is None:
            continue
        units = trace.channels.roots(facts.weights[facts.scale, 0])
        values = np.abs(np.asarray(facts.layer.weights[facts.scale], dtype=np.float64))
        for unit, value in zip(units.tolist(), values.tolist(), strict=True):
            result[unit] = result.get(unit, 0.0) + value
    return result


def format_names(names: Sequence[str], shown: int = 6) -> str:
    """Return some of the names, and the number of the others."""
    unique = list(dict.fromkeys(names))
    text = ", ".join(repr(name) for name in unique[:shown])
    return text if len(unique) <= shown else f"{text} and {len(unique) - shown} more"


def rebuild(keras: Any, model: Any, trace: Trace, removed: frozenset[int]) -> Any:
    """Build a new model of the same structure and names; the given one stays as it is.

    Raises UnsupportedModelError naming a layer that cannot be rebuilt from its configuration.
    """
    return _Rebuilder(keras, trace, removed).run(model)


class _Rebuilder:
    def __init__(self, keras: Any, trace: Trace, removed: frozenset[int]) -> None:
        self._keras = keras
        self._trace = trace
        self._removed = np.array(sorted(removed), dtype=np.int64)
        self._rebuilt: dict[int, Any] = {}

    def run(self, model: Any) -> Any:
        """Return the new model, with its weights and the same trainable flags."""
        result = self._model(model)
        pairs = [(self._trace.facts[key], new) for key, new in self._rebuilt.items() if key in self._trace.facts]
        result.trainable = model.trainable
        # Setting the flag of a model sets it for all its layers: models first, outer ones before inner ones.
        for facts, new in sorted(pairs, key=lambda pair: not is_model(self._keras, pair[0].layer)):
            if hasattr(new, "trainable"):
                new.trainable = facts.layer.trainable
        for facts, new in pairs:
            if hasattr(facts.layer, "weights") and not is_model(self._keras, facts.layer):
                self._copy_weights(facts, new)
        return result

    def _kept_indices(self, symbols: Symbols) -> Any:
        """Return the indices of the channels that stay."""
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
            shape[known[0] + 1] = len(self._kept_indices(known[1]))
        return shape

    def _layer(self, layer: Any) -> Any:
        if id(layer) not in self._rebuilt:
            facts = self._trace.facts.get(id(layer))
            if is_model(self._keras, layer):
                self._rebuilt[id(layer)] = None  # before its layers
                self._rebuilt[id(layer)] = self._model(layer, facts)
            else:
                self._rebuilt[id(layer)] = self._rebuild_layer(layer, facts)
        return self._rebuilt[id(layer)]

    def _rebuild_layer(self, layer: Any, facts: LayerFacts | None) -> Any:
        config = _unbuilt(layer.get_config())
        if facts is not None and self._loses_channels(facts):
            for key, (position, symbols) in facts.sizes.items():
                if position is None and len(symbols):
                    config[key] = len(self._kept_indices(symbols))
                elif position is not None:
                    sizes = list(config[key])
                    sizes[position] = len(self._kept_indices(symbols))
                    config[key] = tuple(sizes)
            # Their values are overwritten; a constant of the old shape would not fit.
            config |= {key: "zeros" for key in config if key.endswith("_initializer")}
        custom_objects: dict[str, Any] = {type(layer).__name__: type(layer)}
        activation: Any = getattr(layer, "activation", None)
        if hasattr(activation, "__name__"):
            custom_objects[activation.__name__] = activation
        safe_mode = self._keras.src.saving.serialization_lib.SafeModeScope
        try:
            # Safe mode has no purpose here: the code of the layer was loaded with the model.
            with safe_mode(False), self._keras.saving.custom_object_scope(custom_objects):
                return type(layer).from_config(config)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise UnsupportedModelError(
                f"cannot be rebuilt from its configuration: {explain_keras_error(error)[0]}",
                where=f"layer {layer.name!r} ({type(layer).__name__})",
                fix="define get_config in its class so that it returns the arguments of the constructor",
            ) from error

    def _loses_channels(self, facts: LayerFacts) -> bool:
        known = (*facts.weights.values(), *(symbols for _, symbols in facts.sizes.values()))
        return any(len(self._kept_indices(symbols)) < len(symbols) for symbols in known)

    def _copy_weights(self, facts: LayerFacts, new: Any) -> None:
        old = [np.asarray(weight) for weight in facts.layer.weights]
        values = []
        for position, value in enumerate(old):
            kept = [np.arange(size) for size in value.shape]
            for axis in range(value.ndim):
                symbols = facts.weights.get((position, axis))
                if symbols is not None:
                    kept[axis] = self._kept_indices(symbols)
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
    """Return a configuration without the shapes that wrapped layers were built for."""
    if isinstance(value, dict):
        return {key: _unbuilt(item) for key, item in value.items() if key != "build_config"}
    return [_unbuilt(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class UnprunedLayer:
    """A layer that keeps all channels, or some that the level would remove, and why."""

    layer: str
    reason: str


@dataclass(frozen=True, slots=True)
class Pruned:
    """A pruned model.

    model: a new Keras model. removed: the indices of removed output channels, ascending, by the name of the layer that
    produced them. left_alone: layers that keep channels in spite of the level. parameters: the number in the new model,
    including those that are not trained; original_parameters: in the original. notes: for the user.
    """

    model: Any
    removed: dict[str, tuple[int, ...]]
    left_alone: tuple[UnprunedLayer, ...]
    parameters: int
    original_parameters: int
    notes: tuple[str, ...]


def prune(
    keras: Any,
    model: Any,
    level: float,
    *,
    method: str = "l1",
    exclude: Sequence[str] = (),
    allow_missing: bool = False,
) -> Pruned:
    """Remove floor(level * n) of the n channels of every group of layers that must keep the same channels.

    The result equals the original with all parameters of the removed channels (kernels, biases and batch normalization)
    set to zero; level 0 is the identity.

    Args:
        level: a fraction from 0 to less than 1.
        method: l1 or batch-norm.
        exclude: names of layers that keep their channels, or patterns with * and ?.
        allow_missing: add a note for a pattern that no layer matches, instead of an error.

    Raises UsageError for an invalid level, an unknown method or a pattern that no layer matches,
    UnsupportedModelError for a model without a graph of layers.
    """
    if not 0 <= level < 1:  # also rejects NaN
        raise UsageError(
            f"{level} is not a valid pruning level", fix="use the fraction of channels to remove: 0 to less than 1"
        )
    if method not in PRUNING_METHODS:
        raise UsageError(f"unknown pruning method {method!r}", fix=f"use {' or '.join(PRUNING_METHODS)}")
    paths = [path for path, _ in layers_of(keras, model)]
    lacking = [pattern for pattern in exclude if not any(matches(pattern, path) for path in paths)]
    if lacking and not allow_missing:
        raise _no_layer(lacking[0], paths)
    traced = trace(keras, model, exclude)
    choice = choose(traced, level, method)
    result = rebuild(keras, model, traced, choice.removed)
    shapes, before = ([tuple(tensor.shape) for tensor in each.outputs] for each in (result, model))
    if shapes != before:
        raise InternalError(f"pruning changed the outputs of model {model.name!r} from {before} to {shapes}")
    removed = _removed(traced, choice.removed)
    notes = (*choice.notes, *(f"exclude: there is no layer named {pattern!r}" for pattern in lacking))
    if level > 0 and not removed:
        notes = (*notes, "no channel can be removed at this level, so no layer was pruned")
    return Pruned(
        model=result,
        removed=removed,
        left_alone=_left_alone(traced, level) if level > 0 else (),
        parameters=int(result.count_params()),
        original_parameters=int(model.count_params()),
        notes=notes,
    )


def _no_layer(pattern: str, paths: Sequence[tuple[str, ...]]) -> UsageError:
    names = sorted({path[-1] for path in paths} | {SEPARATOR.join(path) for path in paths})
    near = difflib.get_close_matches(pattern, names, 3)
    return UsageError(
        f"there is no layer named {pattern!r}",
        where="exclude",
        fix=f"did you mean {' or '.join(map(repr, near))}?" if near else f"the layers are {', '.join(names[:8])}",
    )


def _removed(traced: Trace, units: frozenset[int]) -> dict[str, tuple[int, ...]]:
    gone = np.array(sorted(units), dtype=np.int64)
    indices = {
        facts.label: tuple(np.flatnonzero(np.isin(layer_units(traced, facts), gone)).tolist())
        for facts in producers(traced)
    }
    return {label: channels for label, channels in indices.items() if channels}


def _left_alone(traced: Trace, level: float) -> tuple[UnprunedLayer, ...]:
    """Return the layers that keep channels, in order of their first calls."""
    few = {
        unit: len(group.units)
        for group in groups(traced)
        if not count_to_remove(level, len(group.units))
        for unit in group.units
    }
    result: list[UnprunedLayer] = []
    for facts in traced.facts.values():
        if facts.kept_reason:
            result.append(UnprunedLayer(facts.label, facts.kept_reason))
        if facts.output_channels is None:
            continue
        reasons: dict[str, int] = {}
        for unit in layer_units(traced, facts).tolist():
            reason = traced.channels.reason(unit)
            if reason is None and unit in few:
                reason = f"{level:.12g} of {few[unit]} channels rounds down to zero"
            if reason is not None:
                reasons[reason] = reasons.get(reason, 0) + 1
        for reason, count in reasons.items():
            share = "" if count == len(facts.output_channels) else f"{count} of {len(facts.output_channels)} channels: "
            result.append(UnprunedLayer(facts.label, share + reason))
    return tuple(result)
