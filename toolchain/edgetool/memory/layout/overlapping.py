"""Layouts of parts in which buffers may overlap: first fit over orders of the buffers, and local changes to an order.

Two buffers that are live at the same time are disjoint if offset(a) - offset(b) >= size(b) or the other way round. An
overlap replaces one of the two distances by a smaller one, so that a pair requires a distance in each direction instead
of sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgetool.memory.layout.greedy import ORDERS, neighbours, orders
from edgetool.memory.layout.instance import Instance, layout_peak
from edgetool.memory.problem import NodeBudget

# Local search ends after this number of orders without a lower peak, per buffer.
ORDERS_PER_BUFFER = 40

# For each buffer, the buffers that constrain it, each with the distance that it requires if it is above the other, and
# the distance if it is below.
Requirements = Sequence[Sequence[tuple[int, int, int]]]


def requirements(instance: Instance, limit: int) -> Requirements | None:
    """Return what the pairs of live buffers require, or None if there are more than `limit` pairs."""
    near = neighbours(instance, limit)
    if near is None:
        return None
    sizes, distances = instance.sizes, instance.distances
    result = []
    for i, row in enumerate(near):
        pairs = ((j, distances.get((i, j), sizes[j]), distances.get((j, i), sizes[i])) for j in row)
        # If the sum is at most 1, every pair of offsets is valid.
        result.append([(j, above, below) for j, above, below in pairs if above + below > 1])
    return result


def first_fit(instance: Instance, required: Requirements, order: Sequence[int]) -> list[int]:
    """Return the offsets if each buffer in turn gets the lowest offset that the pins and those before it allow."""
    offsets = list(instance.pins)
    alignments = instance.alignments
    for i in order:
        # Offsets strictly between two ends are forbidden.
        forbidden = sorted(
            [(offsets[j] - below, offsets[j] + above) for j, above, below in required[i] if offsets[j] >= 0]
        )
        offset = 0
        for low, high in forbidden:
            if low < offset < high:
                offset = -(-high // alignments[i]) * alignments[i]
        offsets[i] = offset
    return offsets


class OrderSearch:
    """The best order so far, from which local search continues, and its layout."""

    def __init__(self, instance: Instance, required: Requirements, seed: int) -> None:
        self.instance = instance
        self.required = required
        self.offsets: list[int] = []
        self.peak = 0
        self._order: list[int] = []
        # The first states of xorshift are poor when the seed is small: spread it.
        self._state = (2 * seed + 1) * 0x9E3779B97F4A7C15 % 2**64

    def greedy(self, goal: int, budget: NodeBudget) -> None:
        """Try the greedy orders until a peak is at most the goal; the first is tried whatever the budget."""
        for order in orders(self.instance, list(ORDERS)):
            if not self._order or (self.peak > goal and not budget.over):
                self._try(order, budget)

    def improve(self, goal: int, nodes: int | None, budget: NodeBudget, improved: Callable[[list[int]], None]) -> None:
        """Move single buffers forward in the best order, until the goal, the node limit, or a local minimum."""
        count = len(self._order)
        stale = 0
        limit = None if nodes is None else budget.spent + nodes
        while self.peak > goal and stale < ORDERS_PER_BUFFER * count and not budget.over:
            if limit is not None and budget.spent >= limit:
                break
            peak = self.peak
            self._try(self._changed(), budget)
            stale += 1
            if self.peak < peak:
                stale = 0
                improved(self.offsets)

    def _try(self, order: list[int], budget: NodeBudget) -> None:
        offsets = first_fit(self.instance, self.required, order)
        budget.spend(len(order))
        peak = layout_peak(self.instance, offsets)
        if not self.offsets or peak <= self.peak:
            self._order, self.offsets, self.peak = order, offsets, peak

    def _changed(self) -> list[int]:
        """Return the order with a buffer at the top, or any, moved forward."""
        sizes, order = self.instance.sizes, self._order
        top = [i for i in order if self.offsets[i] + sizes[i] == self.peak]
        candidates = top if top and self._below(2) else order
        moved = candidates[self._below(len(candidates))]
        result = [i for i in order if i != moved]
        result.insert(self._below(order.index(moved) + 1), moved)
        return result

    def _below(self, count: int) -> int:
        """Return a random number from 0 to count - 1, the same on every machine."""
        x = self._state
        x ^= x << 13 & 0xFFFFFFFFFFFFFFFF
        x ^= x >> 7
        x ^= x << 17 & 0xFFFFFFFFFFFFFFFF
        self._state = x
        return (x >> 8) % count
