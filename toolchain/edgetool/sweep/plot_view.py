"""What a plot shows, before anything is drawn: the rows of each target, their places, and the words for them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from edgetool.errors import InternalError
from edgetool.sweep.front import AXES, front
from edgetool.sweep.metrics import Row
from edgetool.sweep.plot_lines import Line, lines
from edgetool.sweep.plot_scale import Scale, band_of
from edgetool.sweep.plot_style import INFINITE, REASONS, level_text, shown
from edgetool.sweep.spec import SweepLimits

Way = Literal["x", "y"]

MANY_POINTS = 400  # of a target, beyond which their bands would be all there is to see


@dataclass(frozen=True)
class Panel:
    """The rows of a target, on the axes of these names."""

    target: str
    rows: tuple[Row, ...]
    x: str
    y: str

    @cached_property
    def drawn(self) -> tuple[Row, ...]:
        """The rows that have both figures."""
        axes = (AXES[self.x], AXES[self.y])
        return tuple(row for row in self.rows if all(item.value(row) is not None for item in axes))

    @cached_property
    def on_front(self) -> tuple[Row, ...]:
        """The front of the two axes, from left to right."""
        numbers = front(self.drawn, (self.x, self.y))
        return tuple(sorted((row for row in self.drawn if row.number in numbers), key=self._x_of))

    def _x_of(self, row: Row) -> float:
        return AXES[self.x].value(row) or 0.0


@dataclass(frozen=True, slots=True)
class View:
    """What all panels share. markers: by pruning level. varied: the parts of a variant that tell one from another.
    shared: the values that a panel's own are joined by to find an axis's range."""

    limits: SweepLimits
    x: Scale
    y: Scale
    markers: Mapping[float, str]
    varied: frozenset[str]
    shared: Mapping[Way, tuple[float, ...]]

    @property
    def scales(self) -> Mapping[Way, Scale]:
        """By axis."""
        return {"x": self.x, "y": self.y}

    def at(self, row: Row) -> tuple[float, float]:
        """Where a drawn row lies."""
        x, y = AXES[self.x.name].value(row), AXES[self.y.name].value(row)
        if x is None or y is None:
            raise InternalError("a variant without a value is drawn", where=str(row.number))
        return self.x.of(x), self.y.of(y)


def is_accepted(row: Row) -> bool:
    """Whether the row was judged and accepted."""
    return row.judged is not None and row.judged.accepted


def reason_of(row: Row) -> str:
    """The first of REASONS for which a row was rejected; "" for another one."""
    found = row.judged.causes if row.judged is not None else ()
    return next((name for name, (_, causes) in REASONS.items() if any(item in found for item in causes)), "")


def label_of(row: Row, varied: frozenset[str]) -> str:
    """ "width 0.5, 25 %, int8": of these what varies in the sweep."""
    variant = row.variant
    parts = [f"{name} {value}" for name, value in variant.parameters if f"parameter {name}" in varied]
    parts += [level_text(variant.level)] if "level" in varied else []
    parts += [variant.precision] if "precision" in varied else []
    return shown(", ".join(parts))


def extent(panel: Panel, scale: Scale, way: Way) -> list[float]:
    """The values on an axis, their bands included, as shown."""
    name = panel.x if way == "x" else panel.y
    found = []
    for row in panel.drawn:
        value, band = AXES[name].value(row), band_of(name, row)
        found += [scale.of(item) for item in (value, *((band.low, band.high) if band else ())) if item is not None]
    return found


def lines_of(scale: Scale, panel: Panel, view: View) -> tuple[Line, ...]:
    """The lines on an axis of this panel, with one where infinite values lie."""
    found = lines(scale.name, view.limits, panel.drawn)
    if any(math.isinf(AXES[scale.name].value(row) or 0.0) for row in panel.drawn):
        found += (Line(math.inf, "infinite: outputs are equal", INFINITE),)
    return found


def bands(panel: Panel, view: View) -> Iterator[tuple[tuple[float, float], tuple[float, float], Row]]:
    """Each band's ends in x and in y."""
    if len(panel.drawn) > MANY_POINTS:
        return
    for row in panel.drawn:
        x, y = view.at(row)
        if band := band_of(panel.x, row):
            yield (view.x.of(band.low), view.x.of(band.high)), (y, y), row
        if band := band_of(panel.y, row):
            yield (x, x), (view.y.of(band.low), view.y.of(band.high)), row


def step_of(panel: Panel) -> str:
    """The front's outline is what its variants reach: until the next one begins, the last one holds."""
    return "post" if AXES[panel.x].better == "lower" else "pre"
