"""Errors of many predictions, in the few numbers that a table shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which a share of them lies, interpolated between neighbours."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


@dataclass(frozen=True, slots=True)
class Spread:
    """Relative errors: how many, the median, the 90th percentile and the largest; all 0 where there are none."""

    n: int
    median: float
    p90: float
    largest: float


def spread(errors: Sequence[float]) -> Spread:
    """Of signed relative errors."""
    sizes = [abs(error) for error in errors]
    if not sizes:
        return Spread(0, 0.0, 0.0, 0.0)
    return Spread(len(sizes), median(sizes), quantile(sizes, 0.9), max(sizes))
