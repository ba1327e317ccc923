"""The search where it is hard: limits are refuted by what they force, and the others searched with what they force.

What is true of a limit is true of those below. So bisection finds the least limit that is not refuted, which is a
bound; there, and above it, so much is forced that beams and the exact search have little left to choose from.
"""

from __future__ import annotations

from edgetool.memory.order.beam import beam_search
from edgetool.memory.order.best_first import BestFirst
from edgetool.memory.order.forced import Forced, Forcing
from edgetool.memory.order.found import Found, better
from edgetool.memory.order.moves import Budget
from edgetool.memory.order.network import Network
from edgetool.memory.order.steps import backward, forward

# Sets of one size that beams follow at a limit that is not refuted, and between such limits and the best order.
WIDTH = 20
WIDER = 200
# Sets that the exact search follows in one direction before it looks to the other, which gets that part of them.
TURN = 10_000
LESSER = 10


def squeeze(network: Network, best: Found, budget: Budget) -> Found:
    """An order of least peak, as far as the budget goes."""
    forcing = Forcing(network, budget)
    while best.open and not budget.spent:
        best, forced = _refuted(network, forcing, best, budget)
        best = _between(network, forcing, best, budget)
        if forced is not None and forced.network is not None:
            best = _exact(network, forced.network, forced.beyond, best, budget)
    return best


def _refuted(network: Network, forcing: Forcing, best: Found, budget: Budget) -> tuple[Found, Forced | None]:
    """The bound raised to the least limit that is not refuted, and what that forces."""
    top, at_top = best.peak, None
    while best.at_least < top and not budget.spent:
        limit = (best.at_least + top) // 2
        forced = forcing.within(limit)
        if forced.network is None:
            best = better(network, best, None, min(forced.beyond, best.peak))
        else:
            best = _beamed(network, forced, best, limit, WIDTH, budget)
            top, at_top = min(forced.least, best.peak), forced
    return best, at_top


def _between(network: Network, forcing: Forcing, best: Found, budget: Budget) -> Found:
    """The best order that beams find within limits between the bound and the best peak."""
    found = True
    while found and best.open and not budget.spent:
        peak = best.peak
        best = _beamed(network, forcing.within(peak - 1), best, peak - 1, WIDER, budget)
        found = best.peak < peak
    return best


def _beamed(network: Network, forced: Forced, best: Found, limit: int, width: int, budget: Budget) -> Found:
    part = forced.network
    if part is None:
        return best
    for direction in (backward, forward):
        order = beam_search(direction(part), limit, width, budget)
        if order is not None:
            return better(network, best, [part.operators[each] for each in order], best.at_least)
    return best


def _exact(network: Network, part: Network, beyond: int, best: Found, budget: Budget) -> Found:
    """An order of least peak, or a bound raised to `beyond`: below it, all that is forced in the part holds."""
    ceiling = min(best.peak, beyond)
    searches = [BestFirst(direction(part), best.at_least) for direction in (backward, forward)]
    while best.at_least < ceiling and best.open and not budget.spent:
        for search, share in zip(searches, (TURN, TURN // LESSER), strict=True):
            if best.at_least < ceiling and best.open:
                order = search.go_on(ceiling, share, budget)
                numbered = None if order is None else [part.operators[each] for each in order]
                best = better(network, best, numbered, search.limit)
        searches.sort(key=lambda search: search.promise, reverse=True)
    return best
