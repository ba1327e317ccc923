"""Where an order has no choice: an operator that is comparable with every other always runs at the same place."""

from __future__ import annotations

from edgetool.memory.order.network import Network, ancestors_of, descendants_of


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
