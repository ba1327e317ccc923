"""Ejection chains, which lower the peak of large layouts by placing only the surroundings of the highest buffers again.

A chain moves one buffer below a capacity, and the buffers in its way are moved one after another. A buffer that does
not fit anywhere takes the place where the buffers in its way cost least; these are ejected and placed again in the same
way. Every ejection that a buffer causes raises its own cost, so that the chain does not go in circles, and the buffers
that are hard to place keep their places in the end (guided ejection search by Nagata and Braysy, where it is used for
vehicle routing).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from edgetool.memory.layout.greedy import Neighbours, choose_first_fit, neighbours, orders
from edgetool.memory.layout.instance import Instance, layout_peak
from edgetool.memory.problem import Effort, NodeBudget

# A chain with more ejected buffers than this is unlikely to succeed.
MAX_EJECTED = 48
# The next buffer is chosen among this number of those ejected last.
RECENTLY_EJECTED = 6
# Steps between two calls of stop.
STEPS_PER_STOP_CHECK = 4
# Maximum number of cached neighbours, in total.
MAX_CACHED = 8_000_000


@dataclass(frozen=True, slots=True)
class ChainPolicy:
    """The rules of a chain: the initial cost of a buffer by size and duration, and whether the largest ejected one is
    next.
    """

    price: Callable[[int, int], float]
    largest: bool


class NeighbourCache:
    """The buffers that are live together with a buffer, if there are too many pairs to store all: the latest are
    cached.
    """

    def __init__(self, instance: Instance) -> None:
        import numpy

        self._np: Any = numpy
        self._instance = instance
        self._first, self._last = numpy.array(instance.first), numpy.array(instance.last)
        self._rows: dict[int, list[int]] = {}
        self._cached = 0

    def near(self, v: int) -> list[int]:
        """Return the buffers that are live together with a buffer."""
        if v not in self._rows:
            first, last = self._instance.first[v], self._instance.last[v]
            row = self._np.flatnonzero((self._first <= last) & (self._last >= first)).tolist()
            self._cached += len(row)
            if self._cached > MAX_CACHED:
                self._rows.clear()
                self._cached = len(row)
            row.remove(v)
            self._rows[v] = row
        return self._rows[v]


class EjectionChains:
    """A complete layout, changed by chains; a chain that fails changes nothing.

    near: the buffers that are live together with each buffer, if they are already available.
    """

    def __init__(self, instance: Instance, offsets: Sequence[int], seed: int, near: Neighbours | None = None) -> None:
        self.instance = instance
        self.offsets = list(offsets)
        self.steps = 0
        self.alive_with = NeighbourCache(instance).near if near is None else near.__getitem__
        # The first states of xorshift are poor when the seed is small: spread it.
        self.draw = (2 * seed + 1) * 0x9E3779B97F4A7C15 % 2**64

    def lower(self, buffer: int, capacity: int, limit: int, policy: ChainPolicy, stop: Callable[[], bool]) -> bool:
        """Move a buffer, and all buffers in its way, to ends <= capacity within `limit` steps; return whether it
        succeeded.

        Pinned buffers stay where they are. A chain that does not find a place undoes its moves.
        """
        sizes = self.instance.sizes
        before = {buffer: self.offsets[buffer]}
        costs: dict[int, float] = {}
        ejected = [buffer]
        self.offsets[buffer] = -1
        step = 0
        for step in range(1, limit + 1):
            begin = 0 if policy.largest else max(0, len(ejected) - RECENTLY_EJECTED)
            v = ejected.pop(max(range(begin, len(ejected)), key=lambda k: sizes[ejected[k]]))
            spans = self._spans(v)
            offset = self._best_fit_offset(v, spans, capacity)
            if offset < 0:
                price = self._price(v, policy)
                costs[v] = costs.get(v, price) + price
                offset = self._cheapest_offset(v, spans, capacity, costs, policy)
                if offset < 0:
                    break
                for start, end, j in spans:
                    if start < offset + sizes[v] and offset < end:
                        before.setdefault(j, start)
                        self.offsets[j] = -1
                        ejected.append(j)
            self.offsets[v] = offset
            if not ejected:
                self.steps += step
                return True
            if len(ejected) > MAX_EJECTED or (step % STEPS_PER_STOP_CHECK == 0 and stop()):
                break
        self.steps += step
        for j, offset in before.items():
            self.offsets[j] = offset
        return False

    def _price(self, v: int, policy: ChainPolicy) -> float:
        return policy.price(self.instance.sizes[v], self.instance.last[v] - self.instance.first[v] + 1)

    def _spans(self, v: int) -> list[tuple[int, int, int]]:
        """Return start, end and index of the placed buffers that are live together with a buffer, by start."""
        offsets, sizes = self.offsets, self.instance.sizes
        return sorted((offsets[j], offsets[j] + sizes[j], j) for j in self.alive_with(v) if offsets[j] >= 0)

    def _best_fit_offset(self, v: int, spans: Sequence[tuple[int, int, int]], capacity: int) -> int:
        """Return the offset of the smallest gap in which a buffer fits, -1 if there is none."""
        size, alignment = self.instance.sizes[v], self.instance.alignments[v]
        offset = 0
        best, smallest = -1, capacity + 1
        for start, end, _ in spans:
            room = min(start, capacity) - offset
            if size <= room < smallest:
                best, smallest = offset, room
            if end > offset:
                offset = -(-end // alignment) * alignment
        # The gap below the capacity comes last, because a buffer there is hard to move.
        return offset if best < 0 and capacity - offset >= size else best

    def _cheapest_offset(
        self,
        v: int,
        spans: Sequence[tuple[int, int, int]],
        capacity: int,
        costs: dict[int, float],
        policy: ChainPolicy,
    ) -> int:
        """Return the offset where the buffers in the way cost least, -1 if the pinned buffers do not leave any."""
        instance = self.instance
        size, alignment = instance.sizes[v], instance.alignments[v]
        top = (capacity - size) // alignment * alignment
        if top < 0:
            return -1
        # The buffers across [x, x + size) are those that start below its end, without those that end at or below x.
        # Pinned buffers cost nothing here, because they are excluded separately.
        pinned = [(start, end) for start, end, j in spans if instance.pins[j] >= 0]
        prices = [0.0 if instance.pins[j] >= 0 else costs.get(j) or self._price(j, policy) for _, _, j in spans]
        starts = [start for start, _, _ in spans]
        by_end = sorted(zip((end for _, end, _ in spans), prices, strict=True))
        ends = [end for end, _ in by_end]
        below_start = list(accumulate(prices, initial=0.0))
        below_end = list(accumulate((price for _, price in by_end), initial=0.0))
        places = {0, top}
        places.update(x for end in ends if (x := -(-end // alignment) * alignment) <= top)
        places.update((start - size) // alignment * alignment for start in starts if size <= start <= capacity)
        best, lowest_cost, ties = -1, 0.0, 0
        for x in sorted(places):
            cost = below_start[bisect_left(starts, x + size)] - below_end[bisect_right(ends, x)]
            if best >= 0 and cost > lowest_cost * 1.000001:
                continue
            if any(start < x + size and x < end for start, end in pinned):
                continue
            # Each place of equal cost has the same probability.
            ties = ties + 1 if best >= 0 and cost >= lowest_cost * 0.999999 else 1
            if ties == 1 or self._random() % ties == 0:
                best, lowest_cost = x, cost
        return best

    def _random(self) -> int:
        """Return the next number of xorshift64."""
        x = self.draw
        x ^= x << 13 & 0xFFFFFFFFFFFFFFFF
        x ^= x >> 7
        x ^= x << 17 & 0xFFFFFFFFFFFFFFFF
        self.draw = x
        return x


# Steps of the first chains; the number doubles after each round through POLICIES.
MIN_STEPS = 250
# A round ends if the last capacity that failed is within 1/CLOSE_DIVISOR of the peak.
CLOSE_DIVISOR = 1000

# Tried in turn: the cost reflects how hard a buffer is to place again, by its area or its duration.
POLICIES = (
    ChainPolicy(lambda size, duration: float(size * duration), True),
    ChainPolicy(lambda size, duration: (size * duration) ** 0.5, False),
    ChainPolicy(lambda size, duration: duration**0.5, True),
    ChainPolicy(lambda size, duration: (size * duration) ** 0.5, True),
)
# The order of a second start: full cliques first, and within each the buffers that live long, so that these are
# adjacent. Often higher than the best greedy layout, but easier to repair.
START = "load, duration"
# Higher than any layout.
ANY_PEAK = 1 << 62
# Reporting a layout takes about one step for every BUFFERS_PER_STEP buffers; reports are rare enough to be a small
# part of the time.
BUFFERS_PER_STEP = 16


def improve(
    instance: Instance,
    offsets: Sequence[int],
    effort: Effort,
    target: int,
    improved: Callable[[list[int]], None] | None = None,
    near: Neighbours | None = None,
) -> list[int]:
    """Lower the peak until it is <= target, in units, or the effort ends; the result is never higher.

    Each placement counts as a node. Without a node limit, the search continues until it is stopped or reaches the
    target. `improved` receives lower layouts on the way. near: the neighbours, if they are already available.
    """
    pinned = (pin + size for pin, size in zip(instance.pins, instance.sizes, strict=True) if pin >= 0)
    target = max(target, *pinned, 0)
    budget = NodeBudget(effort)
    best = list(offsets)
    if layout_peak(instance, best) <= target or budget.over:
        return best
    near = near or neighbours(instance)
    starts = [EjectionChains(instance, best, effort.seed, near)]
    reporter = _ProgressReporter(improved, layout_peak(instance, best), len(best))
    (order,) = orders(instance, [START])
    if not budget.over and (other := choose_first_fit(instance, near)(order, ANY_PEAK, effort)) is not None:
        starts.append(EjectionChains(instance, other, effort.seed, near))
        reporter.report(other, layout_peak(instance, other), budget.spent)
    budget.spend(len(best))
    limit = MIN_STEPS
    while not budget.over:
        for policy in POLICIES:
            for chains in starts:
                if _round(chains, target, limit, policy, budget, reporter) <= target:
                    return chains.offsets
        # After every policy has been tried, only the lower layout is continued.
        starts = [min(starts, key=lambda chains: layout_peak(instance, chains.offsets))]
        limit *= 2
    return min(best, *(chains.offsets for chains in starts), key=lambda offsets: layout_peak(instance, offsets))


class _ProgressReporter:
    """Reports lower layouts, but not so often that reporting takes much of the time."""

    def __init__(self, improved: Callable[[list[int]], None] | None, top: int, count: int) -> None:
        self._improved = improved
        self._top = top
        self._pause = count // BUFFERS_PER_STEP
        self._next = 0

    def report(self, offsets: list[int], top: int, steps: int) -> None:
        """Report the offsets if the peak `top` is lower than the last one. steps: the total number of steps so far."""
        if self._improved is not None and top < self._top and steps >= self._next:
            self._improved(offsets)
            self._top, self._next = top, steps + self._pause


def _round(
    chains: EjectionChains,
    target: int,
    limit: int,
    policy: ChainPolicy,
    budget: NodeBudget,
    reporter: _ProgressReporter,
) -> int:
    """Lower the layout to the target, or to capacities half-way to it after a failure; return its peak."""
    top = layout_peak(chains.instance, chains.offsets)
    capacity = tried = target
    while top > target and not budget.over:
        if not _below(chains, capacity, limit, policy, budget):
            tried = capacity
        top = layout_peak(chains.instance, chains.offsets)
        reporter.report(chains.offsets, top, budget.spent)
        if top - tried <= max(1, top // CLOSE_DIVISOR):
            break
        capacity = (tried + top) // 2
    return top


def _below(chains: EjectionChains, capacity: int, limit: int, policy: ChainPolicy, budget: NodeBudget) -> bool:
    """Move every buffer below the capacity, the highest first; stop and return False at the first failure."""
    ends = list(map(int.__add__, chains.offsets, chains.instance.sizes))
    for buffer in sorted((i for i, end in enumerate(ends) if end > capacity), key=lambda i: (-ends[i], i)):
        if chains.offsets[buffer] + chains.instance.sizes[buffer] <= capacity:
            continue
        if budget.over:
            return False
        before = chains.steps
        done = chains.lower(buffer, capacity, budget.allowed(limit), policy, budget.stop)
        budget.spend(chains.steps - before)
        if not done:
            return False
    return True
