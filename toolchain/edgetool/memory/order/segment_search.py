"""The order of least peak of one segment: beams first, then everything, from both ends in turn.

Some networks are far easier from their end: where much is made from little, there is less to choose from there.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgetool.memory.order.beam import beam_search
from edgetool.memory.order.best_first import BestFirst
from edgetool.memory.order.found import Found, better
from edgetool.memory.order.moves import Budget
from edgetool.memory.order.network import Network, profile
from edgetool.memory.order.squeeze import squeeze
from edgetool.memory.order.steps import Steps, backward, forward

# In turn: sets of one size that the beams follow, in how many directions, how often they halve the span between what
# is proven and what is found, and sets that the exact search then follows.
PHASES = ((4, 2, 0, 0), (20, 2, 0, 1_000), (20, 2, 6, 10_000), (200, 1, 2, 10_000))
# The part of them that the less promising direction gets, and the fewest that are worth following.
LESSER, FEWEST = 10, 1_000


def search_segment(network: Network, limit: int, known: Sequence[int], budget: Budget) -> Found:
    """An order whose peak is at most the limit, if there is one; else one of least peak, as far as the budget goes.

    limit: a bound below which no peak matters. known: an order that is known already.
    """
    best = Found(tuple(known), max(profile(network, known)), limit)
    exact = [BestFirst(steps, limit) for steps in (backward(network), forward(network))]
    for width, directions, halvings, nodes in PHASES:
        if not best.open or budget.spent:
            break
        best = _beamed([search.steps for search in exact[:directions]], best, width, halvings, budget)
        for search, share in zip(exact, (nodes, min(nodes, max(FEWEST, nodes // LESSER))), strict=True):
            if best.open and share:
                order = search.go_on(best.peak, share, budget)
                best = better(network, best, order, search.limit)
        exact.sort(key=lambda search: search.promise, reverse=True)
    best = squeeze(network, best, budget)
    return Found(best.order, best.peak, min(best.at_least, best.peak))


def _beamed(directions: Sequence[Steps], best: Found, width: int, halvings: int, budget: Budget) -> Found:
    """The best order that beams find at what is proven, and between that and the best peak."""
    low = best.at_least
    aim = low
    for _ in range(1 + halvings):
        for steps in directions:
            order = beam_search(steps, aim, width, budget)
            if order is not None:
                best = better(steps.network, best, order, best.at_least)
                break
        else:
            low = aim
        aim = (low + best.peak) // 2
        if aim <= low:
            break
    return best
