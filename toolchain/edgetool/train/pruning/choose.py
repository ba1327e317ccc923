"""Which channels to remove: groups of units that can stand in for each other, ranked. Pure but for reading weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from edgetool.train.pruning.call import LayerFacts
from edgetool.train.pruning.channels import Symbols
from edgetool.train.pruning.trace import Trace


@dataclass(frozen=True, slots=True)
class Group:
    """Units made by the same layers. A unit is a symbol that stands for channels which go together."""

    makers: tuple[LayerFacts, ...]
    units: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """removed: the units that go, by their symbol. notes: what the user should know of the ranking."""

    removed: frozenset[int]
    notes: tuple[str, ...]


def makers(trace: Trace) -> tuple[LayerFacts, ...]:
    """The layers that make channels, in order of their first calls."""
    return tuple(facts for facts in trace.facts.values() if facts.made is not None)


def made_units(trace: Trace, facts: LayerFacts) -> Symbols:
    """The unit of each of a layer's output channels."""
    return trace.channels.roots(facts.made) if facts.made is not None else np.zeros(0, np.int64)


def groups(trace: Trace) -> tuple[Group, ...]:
    """The groups that can lose units."""
    by_unit: dict[int, list[int]] = {}
    layers = makers(trace)
    for number, facts in enumerate(layers):
        for unit in dict.fromkeys(made_units(trace, facts).tolist()):
            if trace.channels.reason(unit) is None:
                by_unit.setdefault(unit, []).append(number)
    members: dict[tuple[int, ...], list[int]] = {}
    for unit, numbers in by_unit.items():
        members.setdefault(tuple(numbers), []).append(unit)
    return tuple(
        Group(tuple(layers[number] for number in numbers), tuple(sorted(units))) for numbers, units in members.items()
    )


def count_to_remove(level: float, units: int) -> int:
    """The whole number of units in a share below 1, which is meant as it is written in decimal: one at least stays."""
    return math.floor(Fraction(repr(float(level))) * units)


def choose(trace: Trace, level: float, method: str) -> Choice:
    """The lowest-ranked units of every group; those of a level are among those of any higher one.

    l1: the sum over the layers of a group of the L1 norm of the unit's part of the kernel, over the layer's mean for
    one channel (Li et al., Pruning Filters for Efficient ConvNets, 2017). batch-norm: the sum of |gamma| on the unit
    (Liu et al., Network Slimming, 2017), or l1 for a group in which a unit has none. Equal ones go in the order of
    channels.
    """
    norms = {id(facts): _norms(facts) for facts in makers(trace)}
    gammas = _gammas(trace) if method == "batch-norm" else {}
    removed: list[int] = []
    without: list[str] = []
    for group in groups(trace):
        scores = dict.fromkeys(group.units, 0.0)
        if gammas and all(unit in gammas for unit in group.units):
            scores = {unit: gammas[unit] for unit in group.units}
        else:
            without.extend(facts.label for facts in group.makers)
            for facts in group.makers:
                for unit, norm in zip(made_units(trace, facts).tolist(), norms[id(facts)], strict=True):
                    if unit in scores:
                        scores[unit] += float(norm)
        ranked = sorted(group.units, key=lambda unit: (scores[unit], unit))
        removed.extend(ranked[: count_to_remove(level, len(ranked))])
    notes: tuple[str, ...] = ()
    if method == "batch-norm" and without:
        notes = (f"ranked by L1 norm because there is no batch normalization with a scale: {listed(without)}",)
    return Choice(frozenset(removed), notes)


def _norms(facts: LayerFacts) -> Sequence[float]:
    """L1 norm of each output channel's part of the kernel, relative to their mean."""
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


def listed(names: Sequence[str], shown: int = 6) -> str:
    """Some of the names, and how many more there are."""
    unique = list(dict.fromkeys(names))
    text = ", ".join(repr(name) for name in unique[:shown])
    return text if len(unique) <= shown else f"{text} and {len(unique) - shown} more"
