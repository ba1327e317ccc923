"""What is known of the orders of a segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgetool.memory.order.network import Network, profile


@dataclass(frozen=True, slots=True)
class Found:
    """An order of a segment, the most bytes alive in it, and what no order of it can beat."""

    order: tuple[int, ...]
    peak: int
    at_least: int

    @property
    def open(self) -> bool:
        """Whether there may be a better order."""
        return self.peak > self.at_least


def better(network: Network, best: Found, order: Sequence[int] | None, at_least: int) -> Found:
    """What is known with another order, if there is one, and with what is proven now."""
    at_least = max(best.at_least, at_least)
    peak = best.peak if order is None else max(profile(network, order))
    if order is None or peak >= best.peak:
        return Found(best.order, best.peak, at_least)
    return Found(tuple(order), peak, at_least)
