"""Large layouts made lower where they are highest: only the surroundings of the highest pieces are placed again.

Ejection chains: one piece is brought below a capacity, those in its way make room for it one after the other.

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

from edgetool.memory.layout.greedy import Near, fitter, neighbours, orders
from edgetool.memory.layout.instance import Instance, height
from edgetool.memory.problem import Effort, NodeBudget

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


# Steps of the first chains; each round through MANNERS allows twice as many.
FEWEST_STEPS = 250
# A round ends where the height is this close to what was tried in vain, as a part of it.
CLOSE = 1000

# Tried in turn: the prices say what is hard to place again, by its area or its duration.
MANNERS = (
    Manner(lambda size, duration: float(size * duration), True),
    Manner(lambda size, duration: (size * duration) ** 0.5, False),
    Manner(lambda size, duration: duration**0.5, True),
    Manner(lambda size, duration: (size * duration) ** 0.5, True),
)
# A second start: full sections first, and in each what lives long, so that it lies together. Often higher than the
# best greedy layout, and easier to repair.
START = "load, duration"
# No layout is as high as this.
ANY_HEIGHT = 1 << 62
# To tell of a layout takes as long as one step for so many pieces of it: it is told after so many steps that this is
# a small part of them.
PIECES_PER_STEP = 16


def improve(
    instance: Instance,
    offsets: Sequence[int],
    effort: Effort,
    target: int,
    improved: Callable[[list[int]], None] | None = None,
    near: Near | None = None,
) -> list[int]:
    """The offsets made lower until the height is <= target, in units, or the effort ends; never higher.

    Each placement counts as a node. Without a node limit it goes on until told to stop, or until it is at the target.
    improved is told of lower layouts on the way. near: the neighbours, where they are known already.
    """
    pinned = (pin + size for pin, size in zip(instance.pins, instance.sizes, strict=True) if pin >= 0)
    target = max(target, *pinned, 0)
    budget = NodeBudget(effort)
    best = list(offsets)
    if height(instance, best) <= target or budget.over:
        return best
    near = near or neighbours(instance)
    starts = [Chains(instance, best, effort.seed, near)]
    teller = _Teller(improved, height(instance, best), len(best))
    (order,) = orders(instance, [START])
    if not budget.over and (other := fitter(instance, near)(order, ANY_HEIGHT, effort)) is not None:
        starts.append(Chains(instance, other, effort.seed, near))
        teller.tell(other, height(instance, other), budget.spent)
    budget.spend(len(best))
    limit = FEWEST_STEPS
    while not budget.over:
        for manner in MANNERS:
            for chains in starts:
                if _round(chains, target, limit, manner, budget, teller) <= target:
                    return chains.offsets
        # After every manner has had its turn, the lower one goes on alone.
        starts = [min(starts, key=lambda chains: height(instance, chains.offsets))]
        limit *= 2
    return min(best, *(chains.offsets for chains in starts), key=lambda offsets: height(instance, offsets))


class _Teller:
    """Tells of lower layouts, but not more often than its cost allows."""

    def __init__(self, improved: Callable[[list[int]], None] | None, top: int, pieces: int) -> None:
        self._improved = improved
        self._top = top
        self._pause = pieces // PIECES_PER_STEP
        self._next = 0

    def tell(self, offsets: list[int], top: int, steps: int) -> None:
        """steps: how many were taken so far, in all."""
        if self._improved is not None and top < self._top and steps >= self._next:
            self._improved(offsets)
            self._top, self._next = top, steps + self._pause


def _round(chains: Chains, target: int, limit: int, manner: Manner, budget: NodeBudget, teller: _Teller) -> int:
    """Lower the layout to the target, or by halves of the way there where that fails; its height then."""
    top = height(chains.instance, chains.offsets)
    capacity = tried = target
    while top > target and not budget.over:
        if not _below(chains, capacity, limit, manner, budget):
            tried = capacity
        top = height(chains.instance, chains.offsets)
        teller.tell(chains.offsets, top, budget.spent)
        if top - tried <= max(1, top // CLOSE):
            break
        capacity = (tried + top) // 2
    return top


def _below(chains: Chains, capacity: int, limit: int, manner: Manner, budget: NodeBudget) -> bool:
    """Bring every piece below the capacity, the highest first; False at the first that stays above it."""
    ends = list(map(int.__add__, chains.offsets, chains.instance.sizes))
    for piece in sorted((i for i, end in enumerate(ends) if end > capacity), key=lambda i: (-ends[i], i)):
        if chains.offsets[piece] + chains.instance.sizes[piece] <= capacity:
            continue
        if budget.over:
            return False
        before = chains.steps
        done = chains.lower(piece, capacity, budget.allowed(limit), manner, budget.stop)
        budget.spend(chains.steps - before)
        if not done:
            return False
    return True
