"""Which channels of a network can only be removed together: symbols, one per channel, in a union-find. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Symbols = npt.NDArray[np.int64]
Residue = npt.NDArray[np.object_]


class Channels:
    """Symbols, those that stand and fall together, and why some must stay."""

    def __init__(self) -> None:
        self._parents: list[int] = []
        self._reasons: dict[int, str] = {}

    def new(self, count: int) -> Symbols:
        """Symbols that nothing else knows yet."""
        first = len(self._parents)
        self._parents.extend(range(first, first + count))
        return np.arange(first, first + count, dtype=np.int64)

    def frozen(self, count: int, reason: str) -> Symbols:
        """New symbols that stay."""
        symbols = self.new(count)
        self.freeze(symbols, reason)
        return symbols

    def root(self, symbol: int) -> int:
        """The symbol that stands for all those tied to this one: the first that was made."""
        parents = self._parents
        while parents[symbol] != symbol:
            parents[symbol] = parents[parents[symbol]]
            symbol = parents[symbol]
        return symbol

    def roots(self, symbols: Symbols) -> Symbols:
        """The root of each."""
        return np.fromiter((self.root(int(symbol)) for symbol in symbols), dtype=np.int64, count=len(symbols))

    def tie(self, left: Symbols, right: Symbols) -> None:
        """Let the channels of two equally long axes be removed in pairs."""
        for a, b in set(zip(left.tolist(), right.tolist(), strict=True)):
            first, second = sorted((self.root(a), self.root(b)))
            if first == second:
                continue
            self._parents[second] = first
            reason = self._reasons.pop(second, None)
            if reason is not None:
                self._reasons.setdefault(first, reason)

    def freeze(self, symbols: Symbols, reason: str, *, foremost: bool = False) -> None:
        """Let these stay. The first reason given is the one told, unless another is foremost."""
        for symbol in set(symbols.tolist()):
            root = self.root(symbol)
            if foremost or root not in self._reasons:
                self._reasons[root] = reason

    def reason(self, symbol: int) -> str | None:
        """Why this one stays; None when it can be removed."""
        return self._reasons.get(self.root(symbol))


@dataclass(frozen=True, slots=True)
class Signal:
    """What is known of a tensor: along which axis its channels lie, and which they are.

    spec: the symbolic tensor, with the batch. axis: of the channels, the batch not counted; None when nothing of the
    tensor can be removed, and origin then says where it comes from. symbols: one per index of that axis. residue: for
    each of them None, or what makes its value other than zero once all parameters of that channel are zero.
    """

    spec: Any
    axis: int | None
    symbols: Symbols
    residue: Residue
    origin: str = ""

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Its shape without the batch."""
        return tuple(self.spec.shape[1:])


def opaque(spec: Any, origin: str) -> Signal:
    """A tensor that stays as it is."""
    return Signal(spec, None, np.zeros(0, np.int64), no_residue(0), origin)


def no_residue(count: int) -> Residue:
    """Channels that are zero once removed."""
    return np.full(count, None, dtype=object)


def either(residues: Sequence[Residue]) -> Residue:
    """What is left of a sum: of the first term that leaves something."""
    result = residues[0].copy()
    for residue in residues[1:]:
        for index in np.flatnonzero(residue != None):  # noqa: E711
            if result[index] is None:
                result[index] = residue[index]
    return result


def both(residues: Sequence[Residue]) -> Residue:
    """What is left of a product: nothing where any factor is zero."""
    result = residues[0].copy()
    for residue in residues[1:]:
        result[residue == None] = None  # noqa: E711
    return result
