"""The order of least peak of one segment: beams first, then everything, from both ends in turn.

Some networks are far easier from their end: where much is made from little, there is less to choose from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgetool.memory.order.beam import beam_search
from edgetool.memory.order.best_first import BestFirst
from edgetool.memory.order.moves import Budget
from edgetool.memory.order.network import Network, profile
from edgetool.memory.order.steps import Steps, backward, forward

# In turn: sets of one size that the beams follow, in how many directions, how often they halve the span between what
# is proven and what is found, and sets that the exact search then follows. Then it goes on, with more each time.
PHASES = ((20, 2, 0, 1_000), (20, 2, 6, 10_000), (200, 1, 2, 100_000), (2_000, 1, 1, 100_000))
GROWTH = 4
# The part of them that the less promising direction gets.
LESSER = 10


@dataclass(frozen=True, slots=True)
class Found:
    """An order of a segment, the most bytes alive in it, and what no order of it can beat."""

    order: tuple[int, ...]
    peak: int
    at_least: int


def search_segment(network: Network, limit: int, known: Sequence[int], budget: Budget) -> Found:
    """An order whose peak is at most the limit, if there is one; else one of least peak, as far as the budget goes.

    limit: a bound below which no peak matters. known: an order that is known already.
    """
    best = Found(tuple(known), max(profile(network, known)), limit)
    exact = [BestFirst(steps, limit) for steps in (backward(network), forward(network))]
    phases = list(PHASES)
    nodes = 0
    while best.peak > best.at_least and not budget.spent:
        if phases:
            width, directions, halvings, nodes = phases.pop(0)
            best = _beamed([search.steps for search in exact[:directions]], best, width, halvings, budget)
        else:
            nodes *= GROWTH
        for search, share in zip(exact, (nodes, max(PHASES[0][-1], nodes // LESSER)), strict=True):
            if best.peak > best.at_least:
                order = search.go_on(best.peak, share, budget)
                best = _better(network, best, order, max(best.at_least, search.limit))
        exact.sort(key=lambda search: search.promise, reverse=True)
    return Found(best.order, best.peak, min(best.at_least, best.peak))


def _beamed(directions: Sequence[Steps], best: Found, width: int, halvings: int, budget: Budget) -> Found:
    """The best order that beams find at what is proven, and between that and the best peak."""
    low = best.at_least
    aim = low
    for _ in range(1 + halvings):
        for steps in directions:
            order = beam_search(steps, aim, width, budget)
            if order is not None:
                best = _better(steps.network, best, order, best.at_least)
                break
        else:
            low = aim
        aim = (low + best.peak) // 2
        if aim <= low:
            break
    return best


def _better(network: Network, best: Found, order: tuple[int, ...] | None, at_least: int) -> Found:
    peak = best.peak if order is None else max(profile(network, order))
    if order is None or peak >= best.peak:
        return Found(best.order, best.peak, at_least)
    return Found(order, peak, at_least)
