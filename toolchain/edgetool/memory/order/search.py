"""The search over a whole network: bounds for all of its segments, then orders for those that need another one.

Where an order has no choice: an operator that is comparable with every other always runs at the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from edgetool.memory.order.baselines import greedy, longest_path
from edgetool.memory.order.bound import lower_bound
from edgetool.memory.order.moves import Budget
from edgetool.memory.order.network import Network, ancestors_of, descendants_of, live_after, part_of, profile
from edgetool.memory.order.segment_search import search_segment
from edgetool.memory.order.types import OrderResult
from edgetool.memory.types import Proof


def segments(network: Network) -> tuple[tuple[int, int], ...]:
    """Runs of operators, each from a number to below another, that any order runs one after the other.

    An operator that is comparable with every other is a segment of its own.
    """
    found = []
    start = 0
    for operator, (ancestors, descendants) in enumerate(
        zip(ancestors_of(network), descendants_of(network), strict=True)
    ):
        if ancestors.bit_count() + descendants.bit_count() + 1 == network.count:
            if start < operator:
                found.append((start, operator))
            found.append((operator, operator + 1))
            start = operator + 1
    if start < network.count:
        found.append((start, network.count))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of operators, `low` to below `high`, with a choice: its network, the best order known in it, and a bound.

    bound: bytes that every order of the whole network reaches, here or elsewhere.
    """

    low: int
    high: int
    part: Network
    order: tuple[int, ...]
    bound: int


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search found: the least peak that it reached, the bound by minimum cut, and what is proven in all.

    flat: bytes alive at each operator of the original order. segments: those where the original order exceeds the
    peak, or might.
    """

    network: Network
    flat: tuple[int, ...]
    segments: tuple[Segment, ...]
    peak: int
    bound: int
    lower: int

    def order(self, choose: Callable[[Segment], Sequence[int]]) -> tuple[int, ...]:
        """The original order, but in the segments that exceed the peak what is chosen for them."""
        found = list(range(self.network.count))
        for segment in self.segments:
            if max(self.flat[segment.low : segment.high]) > self.peak:
                found[segment.low : segment.high] = [segment.low + operator for operator in choose(segment)]
        return tuple(found)

    def result(self, order: Sequence[int]) -> OrderResult:
        """An order of the network's operators as one of the problem's, with its peak and what is proven of it."""
        peak = max([self.network.before_start, *profile(self.network, order)])
        proof: Proof = "bound met" if peak <= self.bound else "search exhausted" if peak <= self.lower else "none"
        return OrderResult(tuple(self.network.operators[each] for each in order), peak, self.lower, proof)


def bounded(network: Network, stop: Callable[[], bool], *, everywhere: bool = False) -> Searched:
    """The lower bound, and the segments in which the original order exceeds it, the worst first, with quick orders.

    everywhere: all segments, each with a bound of its own.
    """
    flat = profile(network, range(network.count))
    runs = segments(network)
    at_end = live_after(network, (1 << network.count) - 1)
    bound = max([network.before_start, at_end, *(flat[low] for low, high in runs if high - low == 1)])
    found = []
    # The worst first: what it cannot avoid, the others may use.
    for low, high in sorted(runs, key=lambda run: -max(flat[slice(*run)])):
        if high - low == 1 or (max(flat[low:high]) <= bound and not everywhere):
            continue
        segment = _segment(network, low, high, flat[low] - network.during[low], 0 if everywhere else bound, stop)
        bound = max(bound, segment.bound)
        found.append(segment)
    peak = max([network.before_start, *flat])
    return Searched(network, tuple(flat), tuple(found), peak, bound, bound)


def _segment(network: Network, low: int, high: int, live: int, floor: int, stop: Callable[[], bool]) -> Segment:
    part = part_of(network, low, high, live)
    orders = (tuple(range(part.count)), greedy(part), longest_path(part))
    flats = [profile(part, order) for order in orders]
    seen = list(flats[0])
    for order, flat in zip(orders[1:], flats[1:], strict=True):
        for operator, alive in zip(order, flat, strict=True):
            seen[operator] = min(seen[operator], alive)
    bound = lower_bound(part, floor, min(map(max, flats)), seen, stop)
    best = min(range(len(orders)), key=lambda at: max(flats[at]))
    return Segment(low, high, part, orders[best], bound)


def searched(network: Network, budget: Budget) -> Searched:
    """The least peak, as far as the budget goes."""
    start = bounded(network, budget.effort.stop)
    lower = peak = start.bound
    found = []
    for segment in start.segments:
        if max(start.flat[segment.low : segment.high]) > lower:
            best = search_segment(segment.part, lower, segment.order, budget)
            lower, peak = max(lower, best.at_least), max(peak, best.peak)
            segment = replace(segment, order=best.order)
        found.append(segment)
    return Searched(network, start.flat, tuple(found), peak, start.bound, min(lower, peak))
