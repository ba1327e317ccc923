"""An axis of a plot: its unit, whether it is logarithmic, and from where to where it goes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgetool.report.document import Band
from edgetool.sweep.front import AXES
from edgetool.sweep.metrics import Row
from edgetool.sweep.plot_style import unit_for

LOG_RANGE = 30.0  # of the largest to the smallest value of a target
BEYOND = 1.0  # a line is shown that is no further from the values than this many times their range
BEYOND_FACTOR = 4.0  # or, on a logarithmic axis, than this factor
# What depends on the target: each panel has its own range. All others share one, to be compared.
PER_TARGET = frozenset({"latency_ms", "energy_uj", "arena_bytes"})


@dataclass(frozen=True, slots=True)
class Scale:
    """unit_size: how much of the axis's own unit is one that is shown. infinity: where an infinite value is drawn."""

    name: str
    label: str
    unit_size: float
    is_log: bool
    infinity: float | None

    def of(self, value: float) -> float:
        """The value in the unit that is shown."""
        if math.isinf(value):
            return self.infinity or 0.0
        return value / self.unit_size

    def limits(self, values: Sequence[float], lines: Sequence[float]) -> tuple[float, float]:
        """From where to where the axis goes for these values and the lines that are near; all as shown."""
        low, high = min(values), max(values)
        near = [line for line in lines if self._is_near(line, low, high)]
        low, high = min([low, *near]), max([high, *near])
        if self.is_log:
            pad = max((high / low) ** 0.08, 1.15)
            return low / pad, high * pad
        pad = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
        # Nothing is below 0: where the room left of the values reaches it, it ends there.
        return 0.0 if low - pad < 0 < low else low - pad, high + pad

    def _is_near(self, line: float, low: float, high: float) -> bool:
        if self.is_log:
            return low / BEYOND_FACTOR <= line <= high * BEYOND_FACTOR
        span = (high - low) or 0.2 * abs(high)
        return low - BEYOND * span <= line <= high + BEYOND * span


def scale_of(name: str, groups: Sequence[Sequence[Row]]) -> Scale:
    """The scale of an axis for the rows of each target, all with a value."""
    axis = AXES[name]
    per_target = [[value for row in rows if (value := axis.value(row)) is not None] for rows in groups]
    finite = [[value for value in values if math.isfinite(value)] for values in per_target]
    everything = [value for values in finite for value in values]
    unit, unit_size = unit_for(name, axis.unit, everything)
    is_log = all(value > 0 for value in everything) and any(
        max(values) > LOG_RANGE * min(values) for values in finite if values
    )
    high, low = max(everything, default=0.0), min(everything, default=0.0)
    has_infinite = any(math.isinf(value) for values in per_target for value in values)
    infinity = (high + max(0.15 * (high - low), 3.0)) / unit_size if has_infinite else None
    label = axis.label
    if name == "accuracy" and all(
        row.metrics is None or row.metrics.quality.accuracy is None for rows in groups for row in rows
    ):
        label = "Agreement with the original float model"
    return Scale(name, f"{label}, {unit}" if unit else label, unit_size, is_log, infinity)


def band_of(name: str, row: Row) -> Band | None:
    """The band of the row's value, for the axes that have one."""
    if row.metrics is None:
        return None
    bands: Mapping[str, Band | None] = {
        "latency_ms": row.metrics.cost.latency_ms,
        "energy_uj": row.metrics.cost.energy_uj,
    }
    return bands.get(name)
