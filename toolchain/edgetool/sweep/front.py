"""The Pareto front: the accepted variants of a target that no other accepted one of it beats."""

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
    """A figure that variants are compared by; value is None where it is not known of a row."""

    label: str
    unit: str
    better: Literal["lower", "higher"]
    value: Callable[[Row], float | None]

    @property
    def sign(self) -> int:
        """What makes lower of better."""
        return 1 if self.better == "lower" else -1


def accuracy_of(quality: Quality) -> float | None:
    """The share of right answers; without evaluation data, that of answers that the float original gives as well."""
    return quality.agreement if quality.accuracy is None else quality.accuracy


def sqnr_of(quality: Quality) -> float | None:
    """Infinite where the outputs are equal; None where nothing is known."""
    return math.inf if quality.equal else quality.sqnr_db


def _of_quality(value: Callable[[Quality], float | None]) -> Callable[[Row], float | None]:
    return lambda row: None if row.metrics is None else value(row.metrics.quality)


def _of_cost(value: Callable[[Cost], float | None]) -> Callable[[Row], float | None]:
    return lambda row: None if row.metrics is None else value(row.metrics.cost)


def _middle(band: Band | None) -> float | None:
    return None if band is None else band.value


AXES: Mapping[str, Axis] = {
    "accuracy": Axis("Accuracy", "", "higher", _of_quality(accuracy_of)),
    "sqnr_db": Axis("SQNR", "dB", "higher", _of_quality(sqnr_of)),
    "latency_ms": Axis("Latency", "ms", "lower", _of_cost(lambda cost: _middle(cost.latency_ms))),
    "energy_uj": Axis("Energy", "uJ", "lower", _of_cost(lambda cost: _middle(cost.energy_uj))),
    "arena_bytes": Axis("Arena", "B", "lower", _of_cost(lambda cost: cost.arena_bytes)),
    "model_bytes": Axis("Model", "B", "lower", _of_cost(lambda cost: cost.model_bytes)),
    "macs": Axis("MACs", "", "lower", _of_cost(lambda cost: cost.macs)),
    "model_parameters": Axis("Parameters", "", "lower", _of_cost(lambda cost: cost.parameters)),
}

# What a product pays with and what it gets: an answer, its time, RAM and flash. Energy goes with the time, MACs and
# parameters with time and flash.
DEFAULT_AXES = ("accuracy", "latency_ms", "arena_bytes", "model_bytes")
# What stands for a default axis of which nothing is known on a target; where it has none it is left out.
INSTEAD = {"accuracy": "sqnr_db"}

_CHUNK = 256
_MAX_INT16 = 2**15 - 1


def axis(name: str) -> Axis:
    """The axis of that name. Raises UsageError."""
    if name not in AXES:
        raise UsageError(f"there is no axis {name[:40]!r}", fix=f"use one of {', '.join(AXES)}")
    return AXES[name]


def default_axes(rows: Sequence[Row]) -> tuple[str, ...]:
    """The default axes that something is known in: SQNR where no accuracy is, no time where the core has no model."""
    chosen = []
    for name in DEFAULT_AXES:
        candidates = (name, INSTEAD[name]) if name in INSTEAD else (name,)
        chosen += [item for item in candidates if any(AXES[item].value(row) is not None for row in rows)][:1]
    return tuple(chosen)


def front(rows: Sequence[Row], axes: Sequence[str] | None = None) -> frozenset[int]:
    """The numbers of the rows that are accepted, and that no accepted row of the same target beats.

    A row beats another where it is at least as good in every axis and better in one; rows that are equal in all stay
    together. A row that lacks a value in an axis is not on the front. axes: names of AXES, by default those of
    default_axes for each target. Raises UsageError for an unknown axis, or none.
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
        known = tuple(item.sign * value for item, value in zip(chosen, values, strict=True) if value is not None)
        if len(known) == len(chosen):
            points.append(known)
            numbers.append(row.number)
    return [number for number, kept in zip(numbers, unbeaten(points), strict=True) if kept]


def unbeaten(points: Sequence[tuple[float, ...]]) -> list[bool]:
    """Of points, lower is better, which no other beats. Points that are equal stay together.

    O(N log N) in up to two axes; in more, O(N times the size of the front).
    """
    # In lexicographic order only an earlier point can beat a later one, and in the first axis it does no worse.
    distinct = sorted(set(points))
    if not distinct or not distinct[0]:
        return [False] * len(points)
    kept = _lower_than_all_before(distinct) if len(distinct[0]) <= 2 else _beaten_by_none_before(distinct)
    return [point in kept for point in points]


def _lower_than_all_before(points: Sequence[tuple[float, ...]]) -> set[tuple[float, ...]]:
    kept = {points[0]}
    least = points[0][-1]
    for point in points:
        if point[-1] < least:
            kept.add(point)
            least = point[-1]
    return kept


def _beaten_by_none_before(points: Sequence[tuple[float, ...]]) -> set[tuple[float, ...]]:
    # Imported where it is needed: the commonest front has two axes, and the import takes longer than that.
    import numpy as np

    rest = np.array(points)[:, 1:]
    # Each column's order as small integers, which compare fast.
    kind = np.int16 if len(points) <= _MAX_INT16 else np.int32
    columns = np.stack([np.unique(column, return_inverse=True)[1].reshape(-1).astype(kind) for column in rest.T])
    kept: set[tuple[float, ...]] = set()
    front = columns[:, :0]
    for start in range(0, len(points), _CHUNK):
        chunk = columns[:, start : start + _CHUNK]
        alive = ~_no_worse(front, chunk).any(axis=0)
        alive &= ~np.triu(_no_worse(chunk, chunk), 1).any(axis=0)
        front = np.concatenate((front, chunk[:, alive]), axis=1)
        kept.update(points[start + int(place)] for place in np.flatnonzero(alive))
    return kept


def _no_worse(first: NDArray[np.signedinteger[Any]], second: NDArray[np.signedinteger[Any]]) -> NDArray[np.bool_]:
    """(N, M): whether point n of the first (axes, N) is no worse than point m of the second in every axis."""
    result: NDArray[np.bool_] = first[0][:, None] <= second[0][None, :]
    for one, other in zip(first[1:], second[1:], strict=True):
        result &= one[:, None] <= other[None, :]
    return result
