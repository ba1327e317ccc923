"""What each level of pruning saves, on the converted models: a level that saves nothing is told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from edgetool.sweep.front import AXES, Axis
from edgetool.sweep.metrics import Row

# What a level must not raise and, somewhere, must lower; and what else is worth telling of it.
CHECKED = ("model_parameters", "macs", "model_bytes", "arena_bytes")
TOLD = (*CHECKED, "latency_ms", "energy_uj")

_SUBJECT = {
    "model_parameters": "the parameters",
    "macs": "the MACs",
    "model_bytes": "the model",
    "arena_bytes": "the arena",
}


def savings_notes(rows: Sequence[Row]) -> dict[int, tuple[str, ...]]:
    """By number, what a level does not save against the next lower one of the same model, precision and target.

    Rows of which all is well, and those that are not done, have no entry.
    """
    notes = {}
    for group in _by_level(rows):
        for lower, row in pairwise(group):
            found = _notes(row, lower)
            if found:
                notes[row.number] = found
    return notes


def saved(rows: Sequence[Row]) -> dict[int, dict[str, float]]:
    """By number, of the rows above level 0, the share that is saved of each axis of TOLD against level 0 of the same
    model, precision and target: 0.25 is a quarter less, below 0 is more. What is not known of either is left out."""
    shares: dict[int, dict[str, float]] = {}
    for group in _by_level(rows):
        first = group[0]
        if first.variant.level != 0:
            continue
        for row in group[1:]:
            shares[row.number] = _shares(row, first)
    return shares


def _by_level(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows that are done and differ in level alone, ascending."""
    groups: defaultdict[object, list[Row]] = defaultdict(list)
    for row in rows:
        if row.metrics is not None:
            variant = row.variant
            groups[variant.parameters, variant.precision, variant.target].append(row)
    return [sorted(group, key=lambda row: row.variant.level) for group in groups.values()]


def _notes(row: Row, lower: Row) -> tuple[str, ...]:
    against = f"compared to level {lower.variant.level:g}"
    changed, grown = False, []
    for name in CHECKED:
        axis = AXES[name]
        before, after = axis.value(lower), axis.value(row)
        if before is None or after is None or before == after:
            continue
        changed = True
        if after > before:
            grown.append(f"{_SUBJECT[name]} grew from {_shown(before, axis)} to {_shown(after, axis)} {against}")
    return tuple(grown) if changed else (f"no figure is smaller than at level {lower.variant.level:g}",)


def _shares(row: Row, first: Row) -> dict[str, float]:
    shares = {}
    for name in TOLD:
        before, after = AXES[name].value(first), AXES[name].value(row)
        if before and after is not None:
            shares[name] = 1 - after / before
    return shares


def _shown(value: float, axis: Axis) -> str:
    return f"{value:,} {axis.unit}" if axis.unit else f"{value:,}"
