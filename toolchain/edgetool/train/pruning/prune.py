"""Structured pruning: removes whole channels from a Keras model."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgetool.convert.request import METHODS
from edgetool.errors import InternalError, UsageError
from edgetool.train.pruning.choose import choose, count_to_remove, groups, made_units, makers
from edgetool.train.pruning.rebuild import rebuild
from edgetool.train.pruning.trace import SEPARATOR, Trace, layers_of, matches, trace


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A layer that keeps all channels or some that others lose, and why."""

    layer: str
    reason: str


@dataclass(frozen=True, slots=True)
class Pruned:
    """A pruned model.

    model: a new Keras model. removed: by the name of the layer that made them, the indices of the channels in its
    output that are gone, ascending. left_alone: layers that keep channels in spite of the level. parameters: of the
    new model, those that are not trained included; original_parameters: likewise. notes: what the user should know.
    """

    model: Any
    removed: dict[str, tuple[int, ...]]
    left_alone: tuple[LeftAlone, ...]
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
    may_lack: bool = False,
) -> Pruned:
    """Remove floor(level * n) of the n channels of every group of layers that must keep the same ones.

    The model computes what it did with all parameters of the removed channels set to zero, kernels, biases and batch
    normalization alike; level 0 is the identity. level: a share from 0, below 1. method: l1 or batch-norm.
    exclude: names of layers that keep their channels, or patterns with * and ?. may_lack: a pattern that no layer
    matches is noted, not refused.

    Raises UsageError for an impossible level, an unknown method or a pattern that no layer matches,
    UnsupportedModelError for a model without a graph of layers.
    """
    if not 0 <= level < 1:  # refuses NaN, too
        raise UsageError(
            f"{level} is not a valid pruning level", fix="use the fraction of channels to remove: 0 to less than 1"
        )
    if method not in METHODS:
        raise UsageError(f"unknown pruning method {method!r}", fix=f"use {' or '.join(METHODS)}")
    paths = [path for path, _ in layers_of(keras, model)]
    lacking = [pattern for pattern in exclude if not any(matches(pattern, path) for path in paths)]
    if lacking and not may_lack:
        raise _no_layer(lacking[0], paths)
    found = trace(keras, model, exclude)
    choice = choose(found, level, method)
    result = rebuild(keras, model, found, choice.removed)
    shapes, before = ([tuple(tensor.shape) for tensor in each.outputs] for each in (result, model))
    if shapes != before:
        raise InternalError(f"pruning changed the outputs of model {model.name!r} from {before} to {shapes}")
    removed = _removed(found, choice.removed)
    notes = (*choice.notes, *(f"exclude: there is no layer named {pattern!r}" for pattern in lacking))
    if level > 0 and not removed:
        notes = (*notes, "no channel can be removed at this level, so no layer was pruned")
    return Pruned(
        model=result,
        removed=removed,
        left_alone=_left_alone(found, level) if level > 0 else (),
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


def _removed(found: Trace, units: frozenset[int]) -> dict[str, tuple[int, ...]]:
    gone = np.array(sorted(units), dtype=np.int64)
    indices = {
        facts.label: tuple(np.flatnonzero(np.isin(made_units(found, facts), gone)).tolist()) for facts in makers(found)
    }
    return {label: channels for label, channels in indices.items() if channels}


def _left_alone(found: Trace, level: float) -> tuple[LeftAlone, ...]:
    """In order of the layers' first calls."""
    few = {
        unit: len(group.units)
        for group in groups(found)
        if not count_to_remove(level, len(group.units))
        for unit in group.units
    }
    result: list[LeftAlone] = []
    for facts in found.facts.values():
        if facts.whole:
            result.append(LeftAlone(facts.label, facts.whole))
        if facts.made is None:
            continue
        reasons: dict[str, int] = {}
        for unit in made_units(found, facts).tolist():
            reason = found.channels.reason(unit)
            if reason is None and unit in few:
                reason = f"{level:.12g} of {few[unit]} channels rounds down to zero"
            if reason is not None:
                reasons[reason] = reasons.get(reason, 0) + 1
        for reason, count in reasons.items():
            share = "" if count == len(facts.made) else f"{count} of {len(facts.made)} channels: "
            result.append(LeftAlone(facts.label, share + reason))
    return tuple(result)
