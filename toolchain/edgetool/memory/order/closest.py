"""Of the orders within a limit, one close to the original: that keeps its order wherever it can.

The original order is kept except in windows around the operators at which it exceeds the limit: the smallest found in
which another order leads from the operators before to those after. In the windows, operators move back before those
that they preceded in the original order, as far as the limit allows.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgetool.memory.order.beam import beam_search
from edgetool.memory.order.evaluate import moved_operators
from edgetool.memory.order.moves import Budget
from edgetool.memory.order.network import Network, part_of, profile
from edgetool.memory.order.steps import forward

# Downsets of one size that are followed in a window; and how often a side of a window is tried at half its reach.
WINDOW_WIDTH = 20
HALVINGS = 4


def closer(network: Network, order: Sequence[int], limit: int, budget: Budget) -> tuple[int, ...]:
    """An order within the limit that moves as few operators as is easily found; `order` is one within the limit."""
    return min((_windowed(network, order, limit, budget), settled(network, order, limit)), key=moved_operators)


def _windowed(network: Network, order: Sequence[int], limit: int, budget: Budget) -> tuple[int, ...]:
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
    network: Network, flat: list[int], order: Sequence[int], limit: int, at: int, budget: Budget
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


def _detour(network: Network, flat: list[int], low: int, high: int, limit: int, budget: Budget) -> tuple[int, ...]:
    """An order of operators low to high - 1 within the limit, when those before are done; empty if none is found."""
    if budget.spent:
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
