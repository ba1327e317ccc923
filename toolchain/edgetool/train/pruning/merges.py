"""Rules for layers and operations that join tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgetool.train.pruning.call import Call
from edgetool.train.pruning.channels import Residue, Signal, both, either

MergeRule = Callable[[Call, Sequence[Signal]], list[Signal]]


def _summed(call: Call, signals: Sequence[Signal]) -> list[Signal]:
    """Any function of two tensors that maps zeros to zero."""
    return _elementwise(call, signals, either)


def _multiplied(call: Call, signals: Sequence[Signal]) -> list[Signal]:
    return _elementwise(call, signals, both)


def _elementwise(call: Call, signals: Sequence[Signal], rest: Callable[[Sequence[Residue]], Residue]) -> list[Signal]:
    """Ties the channels that meet. Tensors of fewer axes or of size 1 are broadcast, counted from the last axis."""
    shape = tuple(call.specs[0].shape[1:])
    places = [(signal.axis - len(signal.shape), signal) for signal in signals if signal.axis is not None]
    axes = {axis for axis, signal in places if signal.shape[axis] != 1} or {axis for axis, _ in places}
    if not axes:
        return call.unknown(signals)
    if len(axes) != 1 or shape[max(axes)] is None:
        return call.give_up(signals, "which combines channels along different axes")
    axis = axes.pop()
    size = shape[axis]
    full = [signal for signal in signals if len(signal.shape) >= -axis and signal.shape[axis] == size]
    broadcast = [signal for signal in signals if not any(signal is other for other in full)]
    for signal in broadcast:
        call.channels.freeze(signal.symbols, f"{call.facts} broadcasts it over all channels")
    along = [call.along(signal, len(signal.shape) + axis) for signal in full]
    for symbols in along[1:]:
        call.channels.tie(along[0], symbols)
    residue = rest([signal.residue if signal.axis is not None else _unknown(len(along[0])) for signal in full])
    if broadcast and rest is either:
        residue[residue == None] = f"{call.facts} adds a value to every channel"  # noqa: E711
    return call.output(len(shape) + axis, along[0], residue)


def _unknown(count: int) -> Residue:
    """Of a tensor that is frozen anyway."""
    return np.full(count, "it is merged with a tensor that is not pruned", dtype=object)


def _concatenated(call: Call, signals: Sequence[Signal]) -> list[Signal]:
    """Joins channels along their own axis, and ties them along any other."""
    rank = len(signals[0].shape)
    joined = call.layer.axis - 1 if call.layer.axis > 0 else rank + call.layer.axis
    axes = {signal.axis for signal in signals if signal.axis is not None}
    if not axes:
        return call.unknown(signals)
    axis = max(axes)
    if len(axes) != 1 or joined < 0 or any(signal.shape[axis] is None for signal in signals):
        return call.give_up(signals, "which combines channels along different axes")
    along = [call.along(signal, axis) for signal in signals]
    residues = [
        signal.residue if signal.axis is not None else _unknown(len(symbols))
        for signal, symbols in zip(signals, along, strict=True)
    ]
    if joined == axis:
        return call.output(axis, np.concatenate(along), np.concatenate(residues))
    for symbols in along[1:]:
        call.channels.tie(along[0], symbols)
    return call.output(axis, along[0], either(residues))


# Class of keras.layers -> its rule.
MERGES: dict[str, MergeRule] = {
    **dict.fromkeys(("Add", "Subtract", "Average", "Maximum", "Minimum"), _summed),
    "Multiply": _multiplied,
    "Concatenate": _concatenated,
}
