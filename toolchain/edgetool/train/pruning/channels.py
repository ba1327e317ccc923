"""Channels that can only be removed together, and a call of a layer as the rules of pruning see it.

A rule receives a LayerCall, and records facts about the channels in the layer's LayerFacts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Symbols = npt.NDArray[np.int64]
# For each channel, the reason why its value is not zero when all its parameters are zero; None if it is zero then.
NonzeroReasons = npt.NDArray[np.object_]


class Channels:
    """The channels of a model as symbols: which can only be removed together, and why some must stay."""

    def __init__(self) -> None:
        self._parents: list[int] = []
        self._reasons: dict[int, str] = {}

    def new(self, count: int) -> Symbols:
        """Return new symbols."""
        first = len(self._parents)
        self._parents.extend(range(first, first + count))
        return np.arange(first, first + count, dtype=np.int64)

    def frozen(self, count: int, reason: str) -> Symbols:
        """Return new symbols that must stay."""
        symbols = self.new(count)
        self.freeze(symbols, reason)
        return symbols

    def root(self, symbol: int) -> int:
        """Return the representative of the symbols tied to this one: the oldest."""
        parents = self._parents
        while parents[symbol] != symbol:
            parents[symbol] = parents[parents[symbol]]
            symbol = parents[symbol]
        return symbol

    def roots(self, symbols: Symbols) -> Symbols:
        """Return the root of each symbol."""
        return np.fromiter((self.root(int(symbol)) for symbol in symbols), dtype=np.int64, count=len(symbols))

    def tie(self, left: Symbols, right: Symbols) -> None:
        """Tie the channels of two equally long axes, so that they are removed in pairs."""
        for a, b in set(zip(left.tolist(), right.tolist(), strict=True)):
            first, second = sorted((self.root(a), self.root(b)))
            if first == second:
                continue
            self._parents[second] = first
            reason = self._reasons.pop(second, None)
            if reason is not None:
                self._reasons.setdefault(first, reason)

    def freeze(self, symbols: Symbols, reason: str, *, overrides: bool = False) -> None:
        """Keep these channels. The first reason is reported, unless a later one `overrides` it."""
        for symbol in set(symbols.tolist()):
            root = self.root(symbol)
            if overrides or root not in self._reasons:
                self._reasons[root] = reason

    def reason(self, symbol: int) -> str | None:
        """Return why this channel stays; None if it can be removed."""
        return self._reasons.get(self.root(symbol))


@dataclass(frozen=True, slots=True)
class Signal:
    """A tensor with the axis of its channels.

    spec: the symbolic tensor, with the batch. axis: the axis of the channels, without the batch; None if no channel
    can be removed, and origin then describes where the tensor comes from. symbols: one per index of that axis.
    nonzero_reasons: for each of them None, or the reason why its value is not zero when all parameters of that
    channel are zero.
    """

    spec: Any
    axis: int | None
    symbols: Symbols
    nonzero_reasons: NonzeroReasons
    origin: str = ""

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The shape without the batch."""
        return tuple(self.spec.shape[1:])


def opaque(spec: Any, origin: str) -> Signal:
    """Return a tensor whose channels cannot be removed."""
    return Signal(spec, None, np.zeros(0, np.int64), no_nonzero_reasons(0), origin)


def no_nonzero_reasons(count: int) -> NonzeroReasons:
    """Return None for each of these channels: they are zero when all their parameters are zero."""
    return np.full(count, None, dtype=object)


def sum_nonzero_reasons(operands: Sequence[NonzeroReasons]) -> NonzeroReasons:
    """Return the reasons for a sum: per channel, that of the first term that has one."""
    result = operands[0].copy()
    for reasons in operands[1:]:
        for index in np.flatnonzero(reasons != None):  # noqa: E711
            if result[index] is None:
                result[index] = reasons[index]
    return result


def product_nonzero_reasons(operands: Sequence[NonzeroReasons]) -> NonzeroReasons:
    """Return the reasons for a product: None for a channel if any factor is zero."""
    result = operands[0].copy()
    for reasons in operands[1:]:
        result[reasons == None] = None  # noqa: E711
    return result


@dataclass(slots=True)
class LayerFacts:
    """What pruning needs to rebuild a layer, from all its calls.

    label: its name, with the names of the models around it if it is not unique. weights: (position in
    layer.weights, axis) -> the channels along that axis. sizes: key of its configuration -> the position in that
    entry, None for the entry itself, and the channels that it counts. output_channels: the channels that the layer
    produces, if it can lose outputs. kernel: position and axis of the weight that produces them. scale: position of
    a batch normalization's gamma. kept_reason: why a layer with parameters keeps its size. untracked: whether the
    channels of some call could not be tracked.
    """

    layer: Any
    label: str
    weights: dict[tuple[int, int], Symbols] = field(default_factory=dict)
    sizes: dict[str, tuple[int | None, Symbols]] = field(default_factory=dict)
    output_channels: Symbols | None = None
    kernel: tuple[int, int] = (0, 0)
    scale: int | None = None
    kept_reason: str = ""
    untracked: bool = False

    @property
    def kind(self) -> str:
        """The name of the layer's class."""
        return type(self.layer).__name__

    def __str__(self) -> str:
        return f"{self.label!r} ({self.kind})"


@dataclass(frozen=True, slots=True)
class LayerCall:
    """A call of a layer. arguments: positional ones, tensors as Signals. specs: the symbolic tensors of its outputs."""

    keras: Any
    facts: LayerFacts
    channels: Channels
    arguments: tuple[Any, ...]
    specs: tuple[Any, ...]

    @property
    def layer(self) -> Any:
        """The layer that is called."""
        return self.facts.layer

    def along(self, signal: Signal, axis: int) -> Symbols:
        """Return the channels of a tensor along an axis; frozen ones if it has none there."""
        if signal.axis == axis:
            return signal.symbols
        reason = f"linked by {self.facts} to {signal.origin}, whose channels cannot be removed"
        if signal.axis is not None:
            reason = f"{self.facts} operates along an axis other than the channel axis"
            self.channels.freeze(signal.symbols, reason)
        return self.channels.frozen(signal.shape[axis] or 0, reason)

    def consumed(self, signal: Signal, axis: int) -> Symbols:
        """Return the channels along an axis for a kernel that sums over them.

        A channel stays if it would still add a constant to the sum with all its parameters at zero.
        """
        symbols = self.along(signal, axis)
        if signal.axis == axis:
            reasons = signal.nonzero_reasons
            for index in np.flatnonzero(reasons != None):  # noqa: E711
                reason = f"{reasons[index]}, so a removed channel would still contribute a constant to {self.facts}"
                self.channels.freeze(symbols[index : index + 1], reason)
        return symbols

    def index(self, weight: Any, axis: int, symbols: Symbols) -> tuple[int, int]:
        """Record that an axis of a weight (from the front) is indexed by these channels; return position and axis."""
        position = next(index for index, other in enumerate(self.layer.weights) if other is weight)
        known = self.facts.weights.setdefault((position, axis), symbols)
        self.channels.tie(known, symbols)
        return position, axis

    def size(self, key: str, position: int | None, symbols: Symbols) -> None:
        """Record that an entry of the configuration counts these channels. Calls that disagree freeze theirs."""
        before, known = self.facts.sizes.setdefault(key, (position, symbols))
        if before == position and len(known) == len(symbols):
            self.channels.tie(known, symbols)
            return
        for channels in (known, symbols):
            self.channels.freeze(channels, f"{self.facts} is shared by calls with different channels")

    def make(self, count: int) -> Symbols:
        """Return the channels that this layer produces: the same in every call."""
        if self.facts.output_channels is None:
            self.facts.output_channels = self.channels.new(count)
        return self.facts.output_channels

    def output(self, axis: int, symbols: Symbols, reasons: NonzeroReasons | None = None) -> list[Signal]:
        """Return the only output of the layer."""
        reasons = no_nonzero_reasons(len(symbols)) if reasons is None else reasons
        return [Signal(self.specs[0], axis, symbols, reasons)]

    def untrack(self, signals: Sequence[Signal], why: str = "through which channels cannot be tracked") -> list[Signal]:
        """Freeze the inputs, and return outputs without removable channels."""
        self.facts.untracked = True
        for signal in signals:
            self.channels.freeze(signal.symbols, f"feeds {self.facts}, {why}")
        return self.unknown(signals)

    def unknown(self, signals: Sequence[Signal] = ()) -> list[Signal]:
        """Return outputs without removable channels; the origin of a layer without weights is its first input."""
        origin = f"the output of {self.facts}"
        if signals and signals[0].axis is None and not getattr(self.layer, "weights", ()):
            origin = signals[0].origin
        return [opaque(spec, origin) for spec in self.specs]
