"""The Pareto front: the accepted variants of a target that no other accepted variant of the target dominates."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from edgetool.errors import UsageError
from edgetool.report.document import Band
from edgetool.sweep.metrics import Cost, Quality, Row

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Axis:
    """A metric by which variants are compared; `value` returns None for a row whose metric is unknown."""

    label: str
    unit: str
    better: Literal["lower", "higher"]
    value: Callable[[Row], float | None]

    @property
    def sign(self) -> int:
        """The factor that makes lower values better."""
        return 1 if self.better == "lower" else -1


def accuracy_of(quality: Quality) -> float | None:
    """Return the fraction of correct classes; without evaluation data, the agreement with the float original."""
    return quality.agreement if quality.accuracy is None else quality.accuracy


def sqnr_of(quality: Quality) -> float | None:
    """Return the SQNR in dB: infinity if the outputs are equal, None if it is unknown."""
    return math.inf if quality.equal else quality.sqnr_db


def _of_quality(value: Callable[[Quality], float | None]) -> Callable[[Row], float | None]:
    return lambda row: None if row.metrics is None else value(row.metrics.quality)


def _of_cost(value: Callable[[Cost], float | None]) -> Callable[[Row], float | None]:
    return lambda row: None if row.metrics is None else value(row.metrics.cost)


def _central_value(band: Band | None) -> float | None:
    return None if band is None else band.value


AXES: Mapping[str, Axis] = {
    "accuracy": Axis("Accuracy", "", "higher", _of_quality(accuracy_of)),
    "sqnr_db": Axis("SQNR", "dB", "higher", _of_quality(sqnr_of)),
    "latency_ms": Axis("Latency", "ms", "lower", _of_cost(lambda cost: _central_value(cost.latency_ms))),
    "energy_uj": Axis("Energy", "uJ", "lower", _of_cost(lambda cost: _central_value(cost.energy_uj))),
    "arena_bytes": Axis("Arena", "B", "lower", _of_cost(lambda cost: cost.arena_bytes)),
    "model_bytes": Axis("Model", "B", "lower", _of_cost(lambda cost: cost.model_bytes)),
    "macs": Axis("MACs", "", "lower", _of_cost(lambda cost: cost.macs)),
    "model_parameters": Axis("Parameters", "", "lower", _of_cost(lambda cost: cost.parameters)),
}

# Quality, time, RAM and flash. The other metrics follow from these: energy from time, MACs and parameters from time and
# flash.
DEFAULT_AXES = ("accuracy", "latency_ms", "arena_bytes", "model_bytes")
# Replaces a default axis on which no row of a target has a value; an axis without a replacement is omitted.
FALLBACK_AXES = {"accuracy": "sqnr_db"}

_CHUNK = 256
_MAX_INT16 = 2**15 - 1


def axis(name: str) -> Axis:
    """Return the axis with that name. Raises UsageError for an unknown name."""
    if name not in AXES:
        raise UsageError(f"there is no axis {name[:40]!r}", fix=f"use one of {', '.join(AXES)}")
    return AXES[name]


def default_axes(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the default axes on which a row has a value: SQNR if no accuracy is known, no latency if it is unknown."""
    chosen = []
    for name in DEFAULT_AXES:
        candidates = (name, FALLBACK_AXES[name]) if name in FALLBACK_AXES else (name,)
        chosen += [item for item in candidates if any(AXES[item].value(row) is not None for row in rows)][:1]
    return tuple(chosen)


def front(rows: Sequence[Row], axes: Sequence[str] | None = None) -> frozenset[int]:
    """Return the numbers of the accepted rows that no accepted row of the same target dominates.

    A row dominates another if it is at least as good on every axis and better on one, so rows that are equal on all
    axes are on the front together, or not at all. A row without a value on one of the axes is not on the front.

    Args:
        axes: keys of AXES, by default those of default_axes for each target.

    Raises UsageError for an unknown axis, or if `axes` is empty.
    """
    if axes is not None and not axes:
        raise UsageError("a front requires at least one axis", fix=f"use one or more of {', '.join(AXES)}")
    for name in axes or ():
        axis(name)
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.judged is not None and row.judged.accepted:
            groups[row.variant.target].append(row)
    return frozenset(
        number for group in groups.values() for number in _front_of(group, tuple(axes or default_axes(group)))
    )


def _front_of(rows: Sequence[Row], axes: Sequence[str]) -> list[int]:
    chosen = [AXES[name] for name in axes]
    points, numbers = [], []
    for row in rows:
        values = [item.value(row) for item in chosen]
        point = tuple(item.sign * value for item, value in zip(chosen, values, strict=True) if value is not None)
        if len(point) == len(chosen):
            points.append(point)
            numbers.append(row.number)
    return [number for number, is_optimal in zip(numbers, pareto_optimal(points), strict=True) if is_optimal]


def pareto_optimal(points: Sequence[tuple[float, ...]]) -> list[bool]:
    """Return for each point whether no other point dominates it; lower is better, and equal points are all optimal.

    Takes O(N log N) for up to two axes, and O(N times the size of the front) for more.
    """
    # In lexicographic order, only an earlier point can dominate a later one, and it is never worse on the first axis.
    distinct = sorted(set(points))
    if not distinct or not distinct[0]:
        return [False] * len(points)
    optimal = _running_minima(distinct) if len(distinct[0]) <= 2 else _not_dominated_by_earlier(distinct)
    return [point in optimal for point in points]


def _running_minima(points: Sequence[tuple[float, ...]]) -> set[tuple[float, ...]]:
    """Return the first point, and each whose last coordinate is lower than those of all points before it."""
    minima = {points[0]}
    minimum = points[0][-1]
    for point in points:
        if point[-1] < minimum:
            minima.add(point)
            minimum = point[-1]
    return minima


def _not_dominated_by_earlier(points: Sequence[tuple[float, ...]]) -> set[tuple[float, ...]]:
    """Return the points that no earlier point dominates."""
    # Imported here because the most common front has two axes, and is computed faster than numpy is imported.
    import numpy as np

    rest = np.array(points)[:, 1:]
    # Replace values by their ranks: small integers compare faster.
    kind = np.int16 if len(points) <= _MAX_INT16 else np.int32
    columns = np.stack([np.unique(column, return_inverse=True)[1].reshape(-1).astype(kind) for column in rest.T])
    optimal: set[tuple[float, ...]] = set()
    front = columns[:, :0]
    for start in range(0, len(points), _CHUNK):
        chunk = columns[:, start : start + _CHUNK]
        is_optimal = ~_is_no_worse(front, chunk).any(axis=0)
        is_optimal &= ~np.triu(_is_no_worse(chunk, chunk), 1).any(axis=0)
        front = np.concatenate((front, chunk[:, is_optimal]), axis=1)
        optimal.update(points[start + int(index)] for index in np.flatnonzero(is_optimal))
    return optimal


def _is_no_worse(first: NDArray[np.signedinteger[Any]], second: NDArray[np.signedinteger[Any]]) -> NDArray[np.bool_]:
    """Return (N, M) whether point n of `first` (axes, N) is no worse on any axis than point m of `second` (axes, M)."""
    result: NDArray[np.bool_] = first[0][:, None] <= second[0][None, :]
    for one, other in zip(first[1:], second[1:], strict=True):
        result &= one[:, None] <= other[None, :]
    return result
