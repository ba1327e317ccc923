"""Ejection chains: one piece is brought below a capacity, those in its way make room for it one after the other.

A piece that fits nowhere takes the place where the pieces in its way cost least; they are taken out and placed again
in the same manner. Whoever fits nowhere becomes dearer, so that the chain does not go in circles, and the hard pieces
keep their places in the end (guided ejection search of Nagata and Braysy, there for vehicle routing).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from edgetool.memory.layout.greedy import Near
from edgetool.memory.layout.instance import Instance

# A chain with more pieces out than this has lost its way.
MOST_OUT = 48
# Of the pieces out, the next one is chosen among so many that came out last.
LATEST = 6
# Steps between two looks at the clock.
SLICE = 4
# Neighbours that are remembered, in all, before they are found again.
MOST_REMEMBERED = 8_000_000


@dataclass(frozen=True, slots=True)
class Manner:
    """How a chain goes: what a piece costs at first, by size and duration; whether the largest of those out is next."""

    price: Callable[[int, int], float]
    largest: bool


class Memory:
    """The pieces alive with a piece where there are too many pairs to keep: the latest are remembered."""

    def __init__(self, instance: Instance) -> None:
        import numpy

        self._np: Any = numpy
        self._instance = instance
        self._first, self._last = numpy.array(instance.first), numpy.array(instance.last)
        self._rows: dict[int, list[int]] = {}
        self._remembered = 0

    def near(self, v: int) -> list[int]:
        """The pieces alive with a piece."""
        if v not in self._rows:
            first, last = self._instance.first[v], self._instance.last[v]
            row = self._np.flatnonzero((self._first <= last) & (self._last >= first)).tolist()
            self._remembered += len(row)
            if self._remembered > MOST_REMEMBERED:
                self._rows.clear()
                self._remembered = len(row)
            row.remove(v)
            self._rows[v] = row
        return self._rows[v]


class Chains:
    """A complete layout, changed by chains; a chain that fails leaves no trace.

    near: the pieces alive with each piece, where they are known.
    """

    def __init__(self, instance: Instance, offsets: Sequence[int], seed: int, near: Near | None = None) -> None:
        self.instance = instance
        self.offsets = list(offsets)
        self.steps = 0
        self.alive_with = Memory(instance).near if near is None else near.__getitem__
        # The first states of xorshift are poor when the seed is small: spread it.
        self.draw = (2 * seed + 1) * 0x9E3779B97F4A7C15 % 2**64

    def lower(self, piece: int, capacity: int, limit: int, manner: Manner, stop: Callable[[], bool]) -> bool:
        """Bring a piece to an end <= capacity within `limit` steps, and all that made room for it too; else False.

        Pinned pieces stay where they are. Raises no error: a chain that finds no place undoes itself.
        """
        sizes = self.instance.sizes
        before = {piece: self.offsets[piece]}
        costs: dict[int, float] = {}
        out = [piece]
        self.offsets[piece] = -1
        step = 0
        for step in range(1, limit + 1):
            begin = 0 if manner.largest else max(0, len(out) - LATEST)
            v = out.pop(max(range(begin, len(out)), key=lambda k: sizes[out[k]]))
            spans = self._spans(v)
            offset = self._tightest(v, spans, capacity)
            if offset < 0:
                price = self._price(v, manner)
                costs[v] = costs.get(v, price) + price
                offset = self._cheapest(v, spans, capacity, costs, manner)
                if offset < 0:
                    break
                for start, end, j in spans:
                    if start < offset + sizes[v] and offset < end:
                        before.setdefault(j, start)
                        self.offsets[j] = -1
                        out.append(j)
            self.offsets[v] = offset
            if not out:
                self.steps += step
                return True
            if len(out) > MOST_OUT or (step % SLICE == 0 and stop()):
                break
        self.steps += step
        for j, offset in before.items():
            self.offsets[j] = offset
        return False

    def _price(self, v: int, manner: Manner) -> float:
        return manner.price(self.instance.sizes[v], self.instance.last[v] - self.instance.first[v] + 1)

    def _spans(self, v: int) -> list[tuple[int, int, int]]:
        """Start, end and index of what lies there during the life of a piece, by start."""
        offsets, sizes = self.offsets, self.instance.sizes
        return sorted((offsets[j], offsets[j] + sizes[j], j) for j in self.alive_with(v) if offsets[j] >= 0)

    def _tightest(self, v: int, spans: Sequence[tuple[int, int, int]], capacity: int) -> int:
        """The offset in the smallest gap in which a piece fits, -1 when there is none."""
        size, alignment = self.instance.sizes[v], self.instance.alignments[v]
        offset = 0
        best, tightest = -1, capacity + 1
        for start, end, _ in spans:
            room = min(start, capacity) - offset
            if size <= room < tightest:
                best, tightest = offset, room
            if end > offset:
                offset = -(-end // alignment) * alignment
        # The room below the capacity is kept for last: what lies there is hard to move.
        return offset if best < 0 and capacity - offset >= size else best

    def _cheapest(
        self,
        v: int,
        spans: Sequence[tuple[int, int, int]],
        capacity: int,
        costs: dict[int, float],
        manner: Manner,
    ) -> int:
        """The offset where what is in the way costs least, -1 when pinned pieces leave none."""
        instance = self.instance
        size, alignment = instance.sizes[v], instance.alignments[v]
        top = (capacity - size) // alignment * alignment
        if top < 0:
            return -1
        # What lies across [x, x + size) is what starts below its end, without what ends at or below x. Pinned pieces
        # cost nothing and are never in the way.
        pinned = [(start, end) for start, end, j in spans if instance.pins[j] >= 0]
        prices = [0.0 if instance.pins[j] >= 0 else costs.get(j) or self._price(j, manner) for _, _, j in spans]
        starts = [start for start, _, _ in spans]
        by_end = sorted(zip((end for _, end, _ in spans), prices, strict=True))
        ends = [end for end, _ in by_end]
        below_start = list(accumulate(prices, initial=0.0))
        below_end = list(accumulate((price for _, price in by_end), initial=0.0))
        places = {0, top}
        places.update(x for end in ends if (x := -(-end // alignment) * alignment) <= top)
        places.update((start - size) // alignment * alignment for start in starts if size <= start <= capacity)
        best, least, ties = -1, 0.0, 0
        for x in sorted(places):
            cost = below_start[bisect_left(starts, x + size)] - below_end[bisect_right(ends, x)]
            if best >= 0 and cost > least * 1.000001:
                continue
            if any(start < x + size and x < end for start, end in pinned):
                continue
            # Of equal ones, each with the same chance.
            ties = ties + 1 if best >= 0 and cost >= least * 0.999999 else 1
            if ties == 1 or self._random() % ties == 0:
                best, least = x, cost
        return best

    def _random(self) -> int:
        """xorshift64."""
        x = self.draw
        x ^= x << 13 & 0xFFFFFFFFFFFFFFFF
        x ^= x >> 7
        x ^= x << 17 & 0xFFFFFFFFFFFFFFFF
        self.draw = x
        return x
