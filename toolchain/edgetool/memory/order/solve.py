"""The operator order that needs the least memory, with proof; and orders to choose from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from edgetool.memory.effort import Effort
from edgetool.memory.order.baselines import breadth_first, greedy, longest_path
from edgetool.memory.order.beam import beam_search
from edgetool.memory.order.closest import closer, settled
from edgetool.memory.order.moves import Budget
from edgetool.memory.order.network import Network, network_of
from edgetool.memory.order.search import Searched, Segment, bounded, searched
from edgetool.memory.order.segment_search import search_segment
from edgetool.memory.order.steps import Steps, backward, forward
from edgetool.memory.order.types import OrderProblem, OrderResult

Strategy = Literal["original", "breadth-first", "longest-path", "optimal"]

BASELINES: dict[str, Callable[[Network], tuple[int, ...]]] = {
    "original": lambda network: tuple(range(network.count)),
    "breadth-first": breadth_first,
    "longest-path": longest_path,
}
# Downsets of one size that are followed for orders to choose from, and the part of the nodes that each may take.
CANDIDATE_WIDTH = 200
CANDIDATE_SHARE = 30


def solve_order(problem: OrderProblem, effort: Effort, *, strategy: Strategy = "optimal") -> OrderResult:
    """The order that a strategy gives, its peak, and what is known of its optimality.

    "optimal" returns the original order if no other is better, and otherwise one close to it. When it is stopped or
    its nodes run out, it returns the best order found. Raises UsageError for rows that do not fit each other, and
    InvalidModelError for a cycle.
    """
    network = network_of(problem)
    if strategy == "optimal":
        budget = Budget(effort)
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
    budget = Budget(effort)
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


def _closest(found: Searched, budget: Budget) -> tuple[int, ...]:
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


def _share(effort: Effort) -> Budget:
    limit = None if effort.node_limit is None else effort.node_limit // CANDIDATE_SHARE
    return Budget(Effort(effort.seed, limit, effort.stop))
