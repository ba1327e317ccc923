"""Layouts of parts in which buffers may overlap: first fit over orders of the buffers, and changes to an order.

Two buffers that are live at the same time are disjoint if offset(a) - offset(b) >= size(b) or the other way round. An
overlap replaces one of the two distances by a smaller one, so that a pair requires a distance in each direction instead
of sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from edgetool.memory.layout.greedy import ORDERS, neighbours, orders
from edgetool.memory.layout.instance import Instance, layout_peak
from edgetool.memory.problem import NodeBudget

# The share of the nodes in which the highest buffers move forward again and again, and the most such orders per buffer
# without a lower peak.
PROMOTED_SHARE, PROMOTED_PER_BUFFER = 0.4, 40
# Local search ends after this number of orders without a lower peak, per buffer.
ORDERS_PER_BUFFER = 80
# After this number of orders, the search starts again.
ORDERS_PER_START = 5
# Which buffer moves, each as often: one at the top, one that constrains such a buffer, or any.
MOVED = ("top", "constrains", "any")

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
    place(instance, required, order, offsets)
    return offsets


def place(
    instance: Instance, required: Requirements, order: Sequence[int], offsets: list[int], limit: int | None = None
) -> bool:
    """Set the offset of each buffer in turn, as first_fit does, and return whether all end at the limit or below it;
    the first that does not is the last that is placed.

    offsets: those of the pins and of the buffers that are placed already, and -1 for all others.
    """
    sizes, alignments = instance.sizes, instance.alignments
    for i in order:
        # Offsets strictly between two ends are forbidden.
        forbidden = [(at - below, at + above) for j, above, below in required[i] if (at := offsets[j]) >= 0]
        forbidden.sort()
        offset = 0
        for low, high in forbidden:
            if low >= offset:
                break  # all others begin above it
            if offset < high:
                offset = -(-high // alignments[i]) * alignments[i]
        offsets[i] = offset
        if limit is not None and offset + sizes[i] > limit:
            return False
    return True


class OrderSearch:
    """The best layout so far, and an order with its layout from which local search continues."""

    def __init__(self, instance: Instance, required: Requirements, seed: int) -> None:
        self.instance = instance
        self.required = required
        self.offsets: list[int] = []
        self.peak = 0
        self._order: list[int] = []
        self._offsets: list[int] = []
        self._peak = 0
        # The first states of xorshift are poor when the seed is small: spread it.
        self._state = (2 * seed + 1) * 0x9E3779B97F4A7C15 % 2**64

    def greedy(self, goal: int, budget: NodeBudget) -> None:
        """Try the greedy orders until a peak is at most the goal; the first is tried whatever the budget."""
        for order in orders(self.instance, list(ORDERS)):
            if not self._order or (self.peak > goal and not budget.over):
                self._try(order, 0, budget)

    def improve(self, goal: int, nodes: int | None, budget: NodeBudget, improved: Callable[[list[int]], None]) -> None:
        """Move buffers in the best order, until the goal, the node limit, or many orders without a lower peak, of which
        the last ones start from orders at random.
        """
        count = len(self._order)
        stale = 0
        limit = None if nodes is None else budget.spent + nodes
        allowed = budget.left if nodes is None else nodes
        self._promote(goal, None if allowed is None else budget.spent + int(PROMOTED_SHARE * allowed), budget, improved)
        while self.peak > goal and stale < ORDERS_PER_BUFFER * count and not budget.over:
            if limit is not None and budget.spent >= limit:
                break
            peak = self.peak
            stale += 1
            if stale % (ORDERS_PER_START * count):
                self._try(*self._changed(), budget)
            else:
                self._offsets = []
                self._try(self._shuffled(), 0, budget)
            if self.peak < peak:
                stale = 0
                improved(self.offsets)

    def _promote(self, goal: int, limit: int | None, budget: NodeBudget, improved: Callable[[list[int]], None]) -> None:
        """Place the buffers again and again, whatever the peak, each time with those at the best peak or above it
        further in front, and sometimes another one elsewhere: squeaky wheel optimization. The best order remains.

        limit: the nodes of the budget that may be spent at the end.
        """
        sizes, order, best = self.instance.sizes, list(self._order), list(self._order)
        placed, offsets = order, self._offsets
        stale = 0
        while self.peak > goal and stale < PROMOTED_PER_BUFFER * len(order) and not budget.over:
            if limit is not None and budget.spent >= limit:
                break
            budget.spend(len(order))
            stale += 1
            # Buffers in front of the first that moved remain where they are.
            same = list(takewhile(lambda pair: pair[0] == pair[1], zip(order, placed, strict=True)))
            before, offsets = offsets, list(self.instance.pins)
            for i, _ in same:
                offsets[i] = before[i]
            place(self.instance, self.required, order[len(same) :], offsets)
            placed = order
            peak = layout_peak(self.instance, offsets)
            if peak < self.peak:
                stale = 0
                improved(offsets)
            if peak <= self.peak:
                self.offsets, self.peak, best = offsets, peak, order
            places = {i: place for place, i in enumerate(order)}
            for i in order:
                if offsets[i] + sizes[i] >= self.peak:
                    places[i] -= 1 + self._below(len(order) // 2 + 1)
            if not self._below(4):
                places[order[self._below(len(order))]] = self._below(len(order))
            order = sorted(order, key=places.__getitem__)
        self._order, self._offsets, self._peak = best, self.offsets, self.peak

    def _try(self, order: list[int], unchanged: int, budget: NodeBudget) -> None:
        """Place the buffers in an order whose first `unchanged` ones are those of the present order."""
        budget.spend(len(order))
        offsets = list(self.instance.pins)
        for i in order[:unchanged]:
            offsets[i] = self._offsets[i]
        if place(self.instance, self.required, order[unchanged:], offsets, self._peak if self._offsets else None):
            self._order, self._offsets, self._peak = order, offsets, layout_peak(self.instance, offsets)
            if not self.offsets or self._peak <= self.peak:
                self.offsets, self.peak = offsets, self._peak

    def _shuffled(self) -> list[int]:
        """Return the buffers in an order at random, but large ones mostly first."""
        sizes = self.instance.sizes
        return sorted(self._order, key=lambda i: -sizes[i] * (1 + self._below(8)))

    def _changed(self) -> tuple[list[int], int]:
        """Return the order with some buffers elsewhere, and how many in front of them are where they were.

        Mostly, a buffer at the top moves, or one that constrains it: other buffers rarely matter for the peak. One time
        in three, all buffers of its size move together: they are often stripes of one tensor. Four times in five, they
        move forward.
        """
        sizes, order = self.instance.sizes, self._order
        top = [i for i in order if self._offsets[i] + sizes[i] == self._peak]
        kind = MOVED[self._below(len(MOVED))]
        candidates = order if kind == "any" or not top else top
        moved = candidates[self._below(len(candidates))]
        if kind == "constrains" and self.required[moved]:
            moved = self.required[moved][self._below(len(self.required[moved]))][0]
        together = [i for i in order if sizes[i] == sizes[moved]] if not self._below(3) else [moved]
        others = [i for i in order if i not in together]
        if len(others) == len(order):
            return order, len(order)
        place = min(order.index(together[0]), len(others))
        to = self._below(place + 1) if self._below(5) else self._below(len(others) + 1)
        return [*others[:to], *together, *others[to:]], min(to, place)

    def _below(self, count: int) -> int:
        """Return a random number from 0 to count - 1, the same on every machine."""
        x = self._state
        x ^= x << 13 & 0xFFFFFFFFFFFFFFFF
        x ^= x >> 7
        x ^= x << 17 & 0xFFFFFFFFFFFFFFFF
        self._state = x
        return (x >> 8) % count
