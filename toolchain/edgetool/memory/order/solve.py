"""The operator order that needs the least memory, with proof; and orders to choose from.

Of the orders within a limit, one close to the original: that keeps its order wherever it can.

The original order is kept except in windows around the operators at which it exceeds the limit: the smallest found in
which another order leads from the operators before to those after. In the windows, operators move back before those
that they preceded in the original order, as far as the limit allows.

The search over a whole network: bounds for all of its segments, then orders for those that need another one.

Where an order has no choice: an operator that is comparable with every other always runs at the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from edgetool.memory.order.baselines import breadth_first, greedy, longest_path
from edgetool.memory.order.bound import lower_bound
from edgetool.memory.order.evaluate import moved_operators
from edgetool.memory.order.moves import Steps, backward, forward
from edgetool.memory.order.network import (
    Network,
    ancestors_of,
    descendants_of,
    live_after,
    network_of,
    part_of,
    profile,
)
from edgetool.memory.order.segment_search import beam_search, search_segment
from edgetool.memory.order.types import OrderProblem, OrderResult
from edgetool.memory.problem import Effort, NodeBudget, Proof


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


def searched(network: Network, budget: NodeBudget) -> Searched:
    """The least peak, as far as the budget goes."""
    start = bounded(network, budget.stop)
    lower = peak = start.bound
    found = []
    for segment in start.segments:
        if max(start.flat[segment.low : segment.high]) > lower:
            best = search_segment(segment.part, lower, segment.order, budget)
            lower, peak = max(lower, best.at_least), max(peak, best.peak)
            segment = replace(segment, order=best.order)
        found.append(segment)
    return Searched(network, start.flat, tuple(found), peak, start.bound, min(lower, peak))


# Downsets of one size that are followed in a window; and how often a side of a window is tried at half its reach.
WINDOW_WIDTH = 20
HALVINGS = 4


def closer(network: Network, order: Sequence[int], limit: int, budget: NodeBudget) -> tuple[int, ...]:
    """An order within the limit that moves as few operators as is easily found; `order` is one within the limit."""
    return min((_windowed(network, order, limit, budget), settled(network, order, limit)), key=moved_operators)


def _windowed(network: Network, order: Sequence[int], limit: int, budget: NodeBudget) -> tuple[int, ...]:
    flat = profile(network, range(network.count))
    found: list[int] = []
    at = 0
    windows: list[tuple[int, int, tuple[int, ...]]] = []
    while at < network.count:
        if flat[at] <= limit:
            at += 1
            continue
        low, high, inner = _window(network, flat, order, limit, at, budget)
        while windows and windows[-1][1] > low:
            low = min(low, windows.pop()[0])
            inner = ()
        if not inner:
            inner = _detour(network, flat, low, high, limit, budget)
        if not inner:
            low, high, inner, windows = 0, network.count, tuple(order), []
        windows.append((low, high, inner))
        at = high
    for low, _, inner in windows:
        found += [*range(len(found), low), *inner]
    found += range(len(found), network.count)
    return settled(network, found, limit)


def settled(network: Network, order: Sequence[int], limit: int) -> tuple[int, ...]:
    """The order after operators moved back before those that they preceded originally, where the limit allows."""
    found = list(order)
    while True:
        live, done = _states(network, found)
        moved = False
        for at in range(1, len(found)):
            to = _furthest_back(network, found, live, done, at, limit)
            if to < at:
                found.insert(to, found.pop(at))
                _restate(network, found, live, done, to, at + 1)
                moved = True
        if not moved:
            return tuple(found)


def _window(
    network: Network, flat: list[int], order: Sequence[int], limit: int, at: int, budget: NodeBudget
) -> tuple[int, int, tuple[int, ...]]:
    """A small window around an operator, and the order in it that leads through within the limit."""
    reach = 1
    while True:
        low, high = max(0, at - reach), min(network.count, at + reach + 1)
        if high - low == network.count:
            return low, high, tuple(order)
        inner = _detour(network, flat, low, high, limit, budget)
        if inner:
            break
        reach *= 2
    for _ in range(HALVINGS):
        middle = (low + at + 1) // 2
        shorter = _detour(network, flat, middle, high, limit, budget) if middle > low else ()
        low, inner = (middle, shorter) if shorter else (low, inner)
        middle = (high + at + 1) // 2
        shorter = _detour(network, flat, low, middle, limit, budget) if middle < high else ()
        high, inner = (middle, shorter) if shorter else (high, inner)
    return low, high, inner


def _detour(network: Network, flat: list[int], low: int, high: int, limit: int, budget: NodeBudget) -> tuple[int, ...]:
    """An order of operators low to high - 1 within the limit, when those before are done; empty if none is found."""
    if budget.over:
        return ()
    live = flat[low] - network.during[low]
    order = beam_search(forward(part_of(network, low, high, live)), limit, WINDOW_WIDTH, budget)
    return tuple(low + operator for operator in order) if order is not None else ()


def _furthest_back(network: Network, order: list[int], live: list[int], done: list[int], at: int, limit: int) -> int:
    """The earliest position to which an operator can move past operators that it preceded originally."""
    operator = order[at]
    needed, bit = network.needs[operator], 1 << operator
    best = to = at
    while to and order[to - 1] > operator and not needed >> order[to - 1] & 1:
        to -= 1
        # The passed operator now runs after this one.
        before = done[to] | bit
        alive = live[to] + network.adds[operator]
        for users, size in network.ends[operator]:
            if users & before == users:
                alive -= size
        if alive + network.during[order[to]] > limit:
            break
        if live[to] + network.during[operator] <= limit:
            best = to
    return best


def _states(network: Network, order: list[int]) -> tuple[list[int], list[int]]:
    """Bytes alive and the operators done before each position."""
    live, done = [network.at_start] * len(order), [0] * len(order)
    _restate(network, order, live, done, 0, len(order))
    return live, done


def _restate(network: Network, order: list[int], live: list[int], done: list[int], low: int, high: int) -> None:
    """Bring the states before positions low + 1 to high up to date; the one before low is."""
    for at in range(low, min(high, len(order) - 1)):
        operator = order[at]
        done[at + 1] = done[at] | 1 << operator
        live[at + 1] = live[at] + network.adds[operator]
        for users, size in network.ends[operator]:
            if users & done[at + 1] == users:
                live[at + 1] -= size


OrderStrategy = Literal["original", "breadth-first", "longest-path", "optimal"]

BASELINES: dict[str, Callable[[Network], tuple[int, ...]]] = {
    "original": lambda network: tuple(range(network.count)),
    "breadth-first": breadth_first,
    "longest-path": longest_path,
}
# Downsets of one size that are followed for orders to choose from, and the part of the nodes that each may take.
CANDIDATE_WIDTH = 200
CANDIDATE_SHARE = 30


def solve_order(problem: OrderProblem, effort: Effort, *, strategy: OrderStrategy = "optimal") -> OrderResult:
    """The order that a strategy gives, its peak, and what is known of its optimality.

    "optimal" returns the original order if no other is better, and otherwise one close to it. When it is stopped or
    its nodes run out, it returns the best order found. Raises UsageError for rows that do not fit each other, and
    InvalidModelError for a cycle.
    """
    network = network_of(problem)
    if strategy == "optimal":
        budget = NodeBudget(effort)
        found = searched(network, budget)
        return found.result(_closest(found, budget))
    return bounded(network, effort.stop).result(BASELINES[strategy](network))


def candidates(problem: OrderProblem, effort: Effort) -> Iterator[OrderResult]:
    """Different orders, those with the least peak first: which one needs the least arena, only a layout can tell.

    The first is solve_order's. Then follow others, made when they are asked for: within its peak as the searches from
    both ends find them, and one with little alive in every part of the network; then orders with higher peaks, the
    original among them. Raises as solve_order does.
    """
    network = network_of(problem)
    budget = NodeBudget(effort)
    found = searched(network, budget)
    first = _closest(found, budget)
    yield found.result(first)
    others = [
        found.order(lambda segment: segment.order),
        found.order(lambda segment: settled(segment.part, segment.order, found.peak)),
        found.order(lambda segment: _beamed(found, segment, forward, effort)),
        found.order(lambda segment: _beamed(found, segment, backward, effort)),
        _low_everywhere(network, effort),
        *(make(network) for make in BASELINES.values()),
        greedy(network),
    ]
    results = (found.result(order) for order in dict.fromkeys(others) if order != first)
    yield from sorted(results, key=lambda result: result.peak_bytes)


def _closest(found: Searched, budget: NodeBudget) -> tuple[int, ...]:
    return found.order(lambda segment: closer(segment.part, segment.order, found.peak, budget))


def _beamed(found: Searched, segment: Segment, direction: Callable[[Network], Steps], effort: Effort) -> Sequence[int]:
    order = beam_search(direction(segment.part), found.peak, CANDIDATE_WIDTH, _share(effort))
    return segment.order if order is None else order


def _low_everywhere(network: Network, effort: Effort) -> tuple[int, ...]:
    """Each segment in an order of its own least peak, though another segment's is higher."""
    order = list(range(network.count))
    found = bounded(network, effort.stop, everywhere=True)
    for segment in found.segments:
        best = search_segment(segment.part, segment.bound, segment.order, _share(effort))
        order[segment.low : segment.high] = [segment.low + operator for operator in best.order]
    return tuple(order)


def _share(effort: Effort) -> NodeBudget:
    limit = None if effort.node_limit is None else effort.node_limit // CANDIDATE_SHARE
    return NodeBudget(Effort(effort.seed, limit, effort.stop))
