"""Plot a sweep: two metrics against each other, one panel per target.

`plot` draws the figure: in each panel the variants of a target, their Pareto front, the limits of the sweep as lines,
and labels of the lines and of the points on the front; beside the panels the legend.

Labels are placed by code of our own (_LabelWriter), because a label must not cover any point, line or other label.
A label without room is omitted, because shape and colour of its point identify the variant as well. Of the libraries
for this, adjustText moves labels onto points and lines if space is scarce, and textalloc omits more labels, or connects
them to distant points by lines that cross the front. Neither places the label of a line along it.
"""

from __future__ import annotations

import io
import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from edgetool.convert.request import BuilderArgument
from edgetool.errors import InternalError, MissingExtraError, UsageError
from edgetool.gate.limits import BudgetedMemory
from edgetool.report.document import Band
from edgetool.sweep.front import AXES, axis, front
from edgetool.sweep.metrics import Cause, Quality, Row
from edgetool.sweep.spec import SweepLimits
from edgetool.sweep.store import SweepRecord
from edgetool.target.quantity import format_size

# Okabe and Ito, Color Universal Design (2008): distinct for any colour vision, and in grey by their lightness.
COLOURS: Mapping[str, str] = {
    "float32": "#0072B2",
    "float16": "#56B4E9",
    "int16x8": "#009E73",
    "int8": "#D55E00",
    "int8-dense-per-tensor": "#CC79A7",
}
MARKERS = "osD^vP<>hXp8"  # of pruning levels, in ascending order; with more levels than these, all have the first

# The marks of rejected points: the first one that applies.
REASONS: Mapping[str, tuple[str, tuple[Cause, ...]]] = {
    "does not run": ("x", ("runtime",)),
    "memory": ("+", ("memory", "flash", "budget", "arena unknown")),
    "time or energy": ("_", ("latency", "energy")),
    "accuracy": ("|", ("accuracy",)),
}

LIMIT, MEMORY, TRACKED, INFINITE = "limit", "memory", "tracked", "infinite"
# The text of a line in the legend, and its dashes.
LINES: Mapping[str, tuple[str, str]] = {
    LIMIT: ("limit or active budget", "--"),
    MEMORY: ("target's memory minus reserve", "-"),
    TRACKED: ("tracked budget", ":"),
    INFINITE: ("", ":"),  # it has a label of its own
}
GREY, DARK = "#8c8c8c", "#333333"

# For each unit in front.AXES: names and sizes of larger and smaller units, in ascending order.
UNITS: Mapping[str, tuple[tuple[str, float], ...]] = {
    "B": (("B", 1), ("KiB", 2**10), ("MiB", 2**20)),
    "ms": (("µs", 1e-3), ("ms", 1), ("s", 1e3)),
    "uJ": (("nJ", 1e-3), ("µJ", 1), ("mJ", 1e3), ("J", 1e6)),
    "dB": (("dB", 1),),
}
COUNTS: tuple[tuple[str, float], ...] = (("", 1), ("thousands", 1e3), ("millions", 1e6))
PERCENT = ("%", 0.01)

# An SVG contains labels as text, with the names of fonts. Matplotlib contains DejaVu Sans, and measures with it;
# Verdana is about as wide.
STYLE: Mapping[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana"],
    "font.size": 8.5,
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "edgetool",
    "svg.id": None,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.8,
    "axes.titlesize": 10,
    "axes.grid": True,
    "grid.color": "#ececec",
    "grid.linewidth": 0.6,
    "xtick.color": DARK,
    "ytick.color": DARK,
    "legend.frameon": False,
    "figure.dpi": 100,
    "savefig.dpi": 150,
}

MAX_NAME_LENGTH = 40


def clean_text(text: str, max_length: int = MAX_NAME_LENGTH) -> str:
    """Return the text as one line of printable characters, truncated to a maximum length."""
    clean = "".join(char if char.isprintable() else " " for char in text).strip()
    return clean if len(clean) <= max_length else f"{clean[: max_length - 1]}…"


def unit_for(axis_name: str, axis_unit: str, values: Sequence[float]) -> tuple[str, float]:
    """Return name and size of the largest unit in which the median of the values is at least 1."""
    if axis_name == "accuracy":
        return PERCENT
    choices = UNITS.get(axis_unit, COUNTS)
    middle = median(values) if values else 0.0
    return next((choice for choice in reversed(choices) if middle >= choice[1]), choices[0])


def level_text(level: float) -> str:
    """Return a pruning level as text: "25 %"."""
    return f"{100 * level:.4g} %"


LOG_RANGE = 30.0  # an axis is logarithmic if the values of a target differ by a larger factor
NEAR_RANGES = 1.0  # a line is shown if its distance from the values is at most this many times their range
NEAR_FACTOR = 4.0  # or, on a logarithmic axis, at most this factor
# Metrics that depend on the target: each panel has its own range. For all others, the panels share one.
PER_TARGET = frozenset({"latency_ms", "energy_uj", "arena_bytes"})


@dataclass(frozen=True, slots=True)
class Scale:
    """unit_size: the size of the displayed unit in the axis's own unit. infinity: where an infinite value is drawn."""

    name: str
    label: str
    unit_size: float
    is_log: bool
    infinity: float | None

    def to_unit(self, value: float) -> float:
        """Return the value in the displayed unit."""
        if math.isinf(value):
            return self.infinity or 0.0
        return value / self.unit_size

    def limits(self, values: Sequence[float], lines: Sequence[float]) -> tuple[float, float]:
        """Return the range of the axis for these values and the lines near them; all in the displayed unit."""
        low, high = min(values), max(values)
        near = [line for line in lines if self._is_near(line, low, high)]
        low, high = min([low, *near]), max([high, *near])
        if self.is_log:
            pad = max((high / low) ** 0.08, 1.15)
            return low / pad, high * pad
        pad = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
        # No metric is negative: the margin ends at 0.
        return 0.0 if low - pad < 0 < low else low - pad, high + pad

    def _is_near(self, line: float, low: float, high: float) -> bool:
        if self.is_log:
            return low / NEAR_FACTOR <= line <= high * NEAR_FACTOR
        span = (high - low) or 0.2 * abs(high)
        return low - NEAR_RANGES * span <= line <= high + NEAR_RANGES * span


def scale_of(name: str, groups: Sequence[Sequence[Row]]) -> Scale:
    """Return the scale of an axis for the rows of each target, all of which have a value."""
    axis = AXES[name]
    per_target = [[value for row in rows if (value := axis.value(row)) is not None] for rows in groups]
    finite = [[value for value in values if math.isfinite(value)] for values in per_target]
    all_values = [value for values in finite for value in values]
    unit, unit_size = unit_for(name, axis.unit, all_values)
    is_log = all(value > 0 for value in all_values) and any(
        max(values) > LOG_RANGE * min(values) for values in finite if values
    )
    high, low = max(all_values, default=0.0), min(all_values, default=0.0)
    has_infinite = any(math.isinf(value) for values in per_target for value in values)
    infinity = (high + max(0.15 * (high - low), 3.0)) / unit_size if has_infinite else None
    label = axis.label
    if name == "accuracy" and all(
        row.metrics is None or row.metrics.quality.accuracy is None for rows in groups for row in rows
    ):
        label = "Agreement with the original float model"
    return Scale(name, f"{label}, {unit}" if unit else label, unit_size, is_log, infinity)


def band_of(name: str, row: Row) -> Band | None:
    """Return the error band of the row's value; None for an axis without bands."""
    if row.metrics is None:
        return None
    bands: Mapping[str, Band | None] = {
        "latency_ms": row.metrics.cost.latency_ms,
        "energy_uj": row.metrics.cost.energy_uj,
    }
    return bands.get(name)


TextWidth = Callable[[str], float]  # the width of a text in inches

MAX_CHARACTERS = 300


def text_width(figure: Any, **style: Any) -> TextWidth:
    """Return a function for the width of a text of that style in the figure."""
    from matplotlib.text import Text

    renderer = figure.canvas.get_renderer()

    def width(text: str) -> float:
        artist = Text(0, 0, text, figure=figure, **style)
        return float(artist.get_window_extent(renderer).width) / float(figure.dpi)

    return width


def wrapped(text: str, width: float, width_of: TextWidth, *, max_lines: int = 1) -> list[str]:
    """Return the text wrapped at spaces into lines of at most that width in inches; an ellipsis replaces the rest."""
    words = text[:MAX_CHARACTERS].split()
    lines: list[str] = []
    while words and len(lines) < max_lines:
        fitting = 1
        while fitting < len(words) and width_of(" ".join(words[: fitting + 1])) <= width:
            fitting += 1
        is_last = len(lines) + 1 == max_lines
        lines.append(_truncated(" ".join(words if is_last else words[:fitting]), width, width_of))
        words = words[fitting:]
    return lines


def _truncated(text: str, width: float, width_of: TextWidth) -> str:
    if width_of(text) <= width:
        return text
    length = next((length for length in range(len(text) - 1, 0, -1) if width_of(f"{text[:length]}…") <= width), 0)
    return f"{text[:length].rstrip(' ,;')}…"


@dataclass(frozen=True, slots=True)
class ReferenceLine:
    """value: in the axis's own unit. kind: a key of LINES."""

    value: float
    label: str
    kind: str


def reference_lines(axis_name: str, limits: SweepLimits, rows: Sequence[Row]) -> tuple[ReferenceLine, ...]:
    """Return the lines on this axis for the rows of one target, in ascending order.

    Of lines with the same value, only the first of limit, memory and tracked budget is returned.
    """
    priority = [LIMIT, MEMORY, TRACKED]
    distinct: dict[float, ReferenceLine] = {}
    for line in sorted(_all_lines(axis_name, limits, rows), key=lambda line: priority.index(line.kind)):
        if line.value > 0:  # the reserve may leave nothing
            distinct.setdefault(line.value, line)
    return tuple(sorted(distinct.values(), key=lambda line: line.value))


def _all_lines(axis_name: str, limits: SweepLimits, rows: Sequence[Row]) -> Iterator[ReferenceLine]:
    if axis_name == "arena_bytes":
        yield from _memory_lines(("arena", "ram"), limits, limits.reserve_bytes, _sizes(rows, "RAM"))
    elif axis_name == "model_bytes":
        yield from _memory_lines(("flash",), limits, limits.reserve_flash_bytes, _sizes(rows, "flash"))
    elif axis_name == "latency_ms" and limits.max_latency_ms is not None:
        yield ReferenceLine(limits.max_latency_ms, f"at most {limits.max_latency_ms:g} ms", LIMIT)
    elif axis_name == "energy_uj" and limits.max_energy_uj is not None:
        yield ReferenceLine(limits.max_energy_uj, f"at most {limits.max_energy_uj:g} µJ", LIMIT)
    elif axis_name == "accuracy":
        yield from _accuracy_lines(limits, rows)


def _memory_lines(
    of: Sequence[BudgetedMemory], limits: SweepLimits, reserve_bytes: int, sizes: dict[str, int]
) -> Iterator[ReferenceLine]:
    """Return the limits of the arena or of the model; a tracked budget of the arena alone includes no reserve."""
    less = f" less {format_size(reserve_bytes)}" if reserve_bytes else ""
    for name, size_bytes in sizes.items():
        yield ReferenceLine(size_bytes - reserve_bytes, f"{name} {format_size(size_bytes)}{less}", MEMORY)
    active = limits.active_budget
    if active is not None and active.of in of:
        yield ReferenceLine(active.bytes - reserve_bytes, f"active budget {active.text}{less}", LIMIT)
    for budget in limits.budgets:
        if budget.of == "arena":
            yield from [ReferenceLine(budget.bytes, f"budget {budget.text}", TRACKED)] if "arena" in of else []
        elif budget.of in of:
            yield ReferenceLine(budget.bytes - reserve_bytes, f"budget {budget.text}{less}", TRACKED)


def _sizes(rows: Sequence[Row], memory: str) -> dict[str, int]:
    """Return the size of the target's memory by its name, which is the same in all rows."""
    costs = [row.metrics.cost for row in rows if row.metrics is not None]
    if memory == "flash":
        return dict([(memory, cost.flash_bytes) for cost in costs if cost.flash_bytes is not None][:1])
    return dict([(cost.region or memory, cost.sram_bytes) for cost in costs if cost.sram_bytes is not None][:1])


def _accuracy_lines(limits: SweepLimits, rows: Sequence[Row]) -> Iterator[ReferenceLine]:
    if limits.min_accuracy is not None:
        yield ReferenceLine(limits.min_accuracy, f"at least {100 * limits.min_accuracy:g} %", LIMIT)
    # If the originals differ (as a builder's do), each variant has its own limit, and there is no line.
    originals = {_original_accuracy(row.metrics.quality) for row in rows if row.metrics is not None}
    if limits.max_accuracy_loss is not None and len(originals) == 1 and (original := originals.pop()) is not None:
        label = f"at most {limits.max_accuracy_loss:g} points below {100 * original:.4g} %"
        yield ReferenceLine(original - limits.max_accuracy_loss / 100, label, LIMIT)


def _original_accuracy(quality: Quality) -> float | None:
    return quality.float_accuracy if quality.accuracy is not None else 1.0


Direction = Literal["x", "y"]

MANY_POINTS = 400  # of a target; with more of them, bands are omitted, because they would hide everything else


@dataclass(frozen=True)
class Panel:
    """The rows of a target, and the names of the axes."""

    target: str
    rows: tuple[Row, ...]
    x: str
    y: str

    @cached_property
    def drawn(self) -> tuple[Row, ...]:
        """The rows that have both values."""
        axes = (AXES[self.x], AXES[self.y])
        return tuple(row for row in self.rows if all(item.value(row) is not None for item in axes))

    @cached_property
    def on_front(self) -> tuple[Row, ...]:
        """The Pareto front of the two axes, from left to right."""
        numbers = front(self.drawn, (self.x, self.y))
        return tuple(sorted((row for row in self.drawn if row.number in numbers), key=self._x_of))

    def _x_of(self, row: Row) -> float:
        return AXES[self.x].value(row) or 0.0


@dataclass(frozen=True, slots=True)
class View:
    """What all panels share.

    markers: by pruning level. varied: the parts of a variant that differ between variants. shared: values that an axis
    includes in each panel.
    """

    limits: SweepLimits
    x: Scale
    y: Scale
    markers: Mapping[float, str]
    varied: frozenset[str]
    shared: Mapping[Direction, tuple[float, ...]]

    @property
    def scales(self) -> Mapping[Direction, Scale]:
        """By axis."""
        return {"x": self.x, "y": self.y}

    def position(self, row: Row) -> tuple[float, float]:
        """Return the coordinates of a drawn row."""
        x, y = AXES[self.x.name].value(row), AXES[self.y.name].value(row)
        if x is None or y is None:
            raise InternalError("a variant without a value is drawn", where=str(row.number))
        return self.x.to_unit(x), self.y.to_unit(y)


def is_accepted(row: Row) -> bool:
    """Return whether the row was judged and accepted."""
    return row.judged is not None and row.judged.accepted


def reason_of(row: Row) -> str:
    """Return the first of REASONS for which a row was rejected; "" for another reason."""
    rejected = row.judged.causes if row.judged is not None else ()
    return next((name for name, (_, causes) in REASONS.items() if any(item in rejected for item in causes)), "")


def label_of(row: Row, varied: frozenset[str]) -> str:
    """Return the label of a row: "width 0.5, 25 %, int8", without the parts that do not vary in the sweep."""
    variant = row.variant
    parts = [f"{name} {value}" for name, value in variant.parameters if f"parameter {name}" in varied]
    parts += [level_text(variant.level)] if "level" in varied else []
    parts += [variant.precision] if "precision" in varied else []
    parts += variant.planning if "planning" in varied else []
    return clean_text(", ".join(parts))


def axis_values(panel: Panel, scale: Scale, direction: Direction) -> list[float]:
    """Return the values on an axis, including their bands, in the displayed unit."""
    name = panel.x if direction == "x" else panel.y
    values: list[float] = []
    for row in panel.drawn:
        value, band = AXES[name].value(row), band_of(name, row)
        ends = (band.low, band.high) if band else ()
        values += [scale.to_unit(item) for item in (value, *ends) if item is not None]
    return values


def lines_on_axis(scale: Scale, panel: Panel, view: View) -> tuple[ReferenceLine, ...]:
    """Return the lines on an axis of this panel, including one at infinity if there are infinite values."""
    lines = reference_lines(scale.name, view.limits, panel.drawn)
    if any(math.isinf(AXES[scale.name].value(row) or 0.0) for row in panel.drawn):
        lines += (ReferenceLine(math.inf, "infinite: outputs are equal", INFINITE),)
    return lines


def bands(panel: Panel, view: View) -> Iterator[tuple[tuple[float, float], tuple[float, float], Row]]:
    """Yield for each error band its ends in x and in y, and its row."""
    if len(panel.drawn) > MANY_POINTS:
        return
    for row in panel.drawn:
        x, y = view.position(row)
        if band := band_of(panel.x, row):
            yield (view.x.to_unit(band.low), view.x.to_unit(band.high)), (y, y), row
        if band := band_of(panel.y, row):
            yield (x, x), (view.y.to_unit(band.low), view.y.to_unit(band.high)), row


def step_of(panel: Panel) -> str:
    """Return how the front's outline is drawn: each variant's value holds until the next variant."""
    return "post" if AXES[panel.x].better == "lower" else "pre"


Box = tuple[float, float, float, float]  # left, bottom, right, top

GAPS = (1.0, 2.2, 4.0)  # distances of a label from its marker, in marker radii


def place_near(
    point: tuple[float, float],
    size: tuple[float, float],
    radius: float,
    preferred: tuple[int, int],
    inside: Box,
    obstacles: npt.NDArray[np.float64],
) -> Box | None:
    """Return a box of that size near the point that is inside and covers no obstacle; None if there is no room.

    Args:
        preferred: the direction that is tried first; (-1, 1) is up left.
        obstacles: (N, 4), boxes. All lengths are in the same unit.
    """
    for left, bottom in _candidates(point, size, radius, preferred):
        box = (left, bottom, left + size[0], bottom + size[1])
        if _is_free(box, inside, obstacles):
            return box
    return None


def place_along(
    start: tuple[float, float],
    size: tuple[float, float],
    inside: Box,
    obstacles: npt.NDArray[np.float64],
    *,
    upright: bool,
) -> Box:
    """Return the first free box on either side of a line that goes up from its start if `upright`, and left from it
    otherwise; if none is free, the box at the start."""
    steps, margin = 12, 2.0
    width, height = size
    options = []
    for step in range(steps):
        along = step / steps
        if upright:
            bottom = start[1] + margin + along * (inside[3] - start[1] - height)
            options += [(start[0] + margin, bottom), (start[0] - margin - width, bottom)]
        else:
            left = start[0] - margin - width - along * (start[0] - inside[0] - width)
            options += [(left, start[1] + margin), (left, start[1] - margin - height)]
    boxes = [(left, bottom, left + width, bottom + height) for left, bottom in options]
    return next((box for box in boxes if _is_free(box, inside, obstacles)), boxes[0])


def boxes_around(points: Sequence[tuple[float, float]], radius: float) -> npt.NDArray[np.float64]:
    """Return a square box around each of the points, (N, 4)."""
    centres = np.array(points, dtype=np.float64).reshape(-1, 2)
    return np.concatenate((centres - radius, centres + radius), axis=1)


def _is_free(box: Box, inside: Box, obstacles: npt.NDArray[np.float64]) -> bool:
    if box[0] < inside[0] or box[1] < inside[1] or box[2] > inside[2] or box[3] > inside[3]:
        return False
    return not np.any(
        (obstacles[:, 0] < box[2])
        & (obstacles[:, 2] > box[0])
        & (obstacles[:, 1] < box[3])
        & (obstacles[:, 3] > box[1])
    )


def _candidates(
    point: tuple[float, float], size: tuple[float, float], radius: float, preferred: tuple[int, int]
) -> Iterator[tuple[float, float]]:
    """Yield lower left corners: nearest first, and for each distance the preferred direction first."""
    dx, dy = preferred
    directions = ((dx, dy), (dx, 0), (0, dy), (dx, -dy), (-dx, dy), (-dx, 0), (0, -dy), (-dx, -dy))
    for gap in GAPS:
        for horizontal, vertical in directions:
            reach = radius * (1 + gap) * (0.7 if horizontal and vertical else 1.0)
            x, y = point[0] + horizontal * reach, point[1] + vertical * reach
            yield x - size[0] * (1 - horizontal) / 2, y - size[1] * (1 - vertical) / 2


SIZE, FRONT_SIZE = 36.0, 60.0  # of markers, in square points
SMALLER = 0.4  # factor applied to the size if there are many points
NOTE: Mapping[str, Any] = {"fontsize": 6.5, "color": GREY}
PANEL_TITLE: Mapping[str, Any] = {"fontsize": 10, "fontweight": "bold", "color": DARK}
NOTE_LINES = 2
LINE_POINTS = 8.5  # height of a line
TEXT_INCHES = 3.55  # of a panel's width, without the space left of its axes


def draw_panel(axes: Any, panel: Panel, view: View) -> frozenset[str]:
    """Draw everything but the labels, which depend on the final layout; return the kinds of lines in the panel."""
    axes.set(xlabel=view.x.label, ylabel=view.y.label)
    if not panel.drawn:
        axes.set(xticks=(), yticks=())
        axes.text(0.5, 0.5, "no variant has both values", transform=axes.transAxes, ha="center", color=GREY)
        _draw_title(axes, panel, _notes(panel))
        return frozenset()
    for direction, scale in view.scales.items():
        values = [*axis_values(panel, scale, direction), *view.shared[direction]]
        at_lines = [scale.to_unit(line.value) for line in lines_on_axis(scale, panel, view)]
        _set_scale(axes, direction, scale, scale.limits(values, at_lines))
    visible, hidden = divided_lines(axes, panel, view)
    for direction, value, line in visible:
        draw = axes.axvline if direction == "x" else axes.axhline
        colour = DARK if line.kind in (LIMIT, MEMORY) else GREY
        draw(value, color=colour, linestyle=LINES[line.kind][1], linewidth=1.0, zorder=1)
    for xs, ys, row in bands(panel, view):
        colour, alpha = COLOURS[row.variant.precision], 0.55 if is_accepted(row) else 0.25
        axes.plot(xs, ys, color=colour, linewidth=0.8, alpha=alpha, zorder=1.5)
    _draw_points(axes, panel, view)
    outside = [f"outside the plot: {', '.join(line.label for line in hidden)}"] if hidden else []
    _draw_title(axes, panel, [*_notes(panel), *outside])
    return frozenset(line.kind for _, _, line in visible)


def divided_lines(
    axes: Any, panel: Panel, view: View
) -> tuple[list[tuple[Direction, float, ReferenceLine]], list[ReferenceLine]]:
    """Return the lines that are within the axes, with their direction and coordinate, and those that are not."""
    visible: list[tuple[Direction, float, ReferenceLine]] = []
    hidden: list[ReferenceLine] = []
    for direction, scale in view.scales.items():
        low, high = axes.get_xlim() if direction == "x" else axes.get_ylim()
        for line in lines_on_axis(scale, panel, view):
            if low <= scale.to_unit(line.value) <= high:
                visible.append((direction, scale.to_unit(line.value), line))
            else:
                hidden.append(line)
    return visible, hidden


def _set_scale(axes: Any, direction: Direction, scale: Scale, limits: tuple[float, float]) -> None:
    from matplotlib import ticker

    ticks = axes.xaxis if direction == "x" else axes.yaxis
    if scale.is_log:
        axes.set(**{f"{direction}scale": "log"})
        wide = limits[1] / limits[0] > 100
        ticks.set_major_locator(ticker.LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=12))
        ticks.set_minor_locator(ticker.LogLocator(subs=range(2, 10), numticks=12) if wide else ticker.NullLocator())
        ticks.set_minor_formatter(ticker.NullFormatter())
    else:
        ticks.set_major_locator(ticker.MaxNLocator(nbins=6, steps=(1, 2, 2.5, 5, 10)))
    ticks.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:.6g}"))
    axes.set(**{f"{direction}lim": limits})


def _draw_points(axes: Any, panel: Panel, view: View) -> None:
    numbers = {row.number for row in panel.on_front}
    groups: defaultdict[tuple[str, str, str | None, bool], list[tuple[float, float]]] = defaultdict(list)
    for row in panel.drawn:
        reason = None if is_accepted(row) else reason_of(row)
        marker = view.markers[row.variant.level]
        groups[row.variant.precision, marker, reason, row.number in numbers].append(view.position(row))
    many = len(panel.drawn) > MANY_POINTS
    small = SIZE * SMALLER if many else SIZE
    for (precision, marker, reason, on_front), points in groups.items():
        colour, (xs, ys) = COLOURS[precision], zip(*points, strict=True)
        if reason is not None:
            axes.scatter(xs, ys, small, "none", marker=marker, edgecolors=colour, linewidths=0.9, alpha=0.6, zorder=2)
        elif on_front:
            size = FRONT_SIZE * SMALLER if many else FRONT_SIZE
            axes.scatter(xs, ys, size, colour, marker=marker, edgecolors=DARK, linewidths=0.9, zorder=4)
        else:
            axes.scatter(xs, ys, small, colour, marker=marker, edgecolors="white", linewidths=0.4, zorder=3)
        if reason:
            axes.scatter(xs, ys, small / 4, DARK, marker=REASONS[reason][0], linewidths=0.8, alpha=0.8, zorder=2.1)
    if len(panel.on_front) > 1:
        xs, ys = zip(*map(view.position, panel.on_front), strict=True)
        axes.step(xs, ys, where=step_of(panel), color=DARK, linewidth=1.1, alpha=0.7, zorder=2.5)


def _notes(panel: Panel) -> list[str]:
    """Return notes on what the plot does not show."""
    status = Counter(row.status for row in panel.rows)
    without = len(panel.rows) - len(panel.drawn) - status["failed"] - status["pending"]
    counts = (
        (status["failed"], "failed"),
        (status["pending"], "not run yet"),
        (without, "missing one or both values"),
    )
    none = ["none is accepted"] if panel.drawn and not any(map(is_accepted, panel.drawn)) else []
    return [*none, *(f"{count} {text}" for count, text in counts if count)]


def _draw_title(axes: Any, panel: Panel, notes: Sequence[str]) -> None:
    """Draw the target's name and the notes above the axes, at most as wide as the panel."""
    lines = wrapped("; ".join(notes), TEXT_INCHES, text_width(axes.figure, **NOTE), max_lines=NOTE_LINES)
    title = wrapped(clean_text(panel.target), TEXT_INCHES, text_width(axes.figure, **PANEL_TITLE))
    axes.set_title("".join(title), loc="left", pad=7 + LINE_POINTS * max(len(lines), 1), **PANEL_TITLE)
    text = axes.text(0, 1.02, "\n".join(lines), transform=axes.transAxes, va="bottom", **NOTE)
    text.set_in_layout(False)  # the padding of the title above makes room for it


MAX_LABELS = 30


def draw_labels(axes: Any, panel: Panel, view: View) -> None:
    """Draw the labels of the lines and of the front's points if there is room for them."""
    if not panel.drawn:
        return
    writer = _LabelWriter(axes, panel, view)
    for direction, value, line in divided_lines(axes, panel, view)[0]:
        writer.write_line(direction, value, clean_text(line.label))
    preferred = _better_direction(panel.x), _better_direction(panel.y)
    for row in panel.on_front[:MAX_LABELS]:
        if label := label_of(row, view.varied):
            writer.write_point(view.position(row), label, preferred)


def _better_direction(name: str) -> int:
    return -AXES[name].sign


class _LabelWriter:
    """Writes labels that cover neither points, lines nor each other into the axes; it works in pixels of the layout."""

    def __init__(self, axes: Any, panel: Panel, view: View) -> None:
        self._axes = axes
        self._renderer = axes.figure.canvas.get_renderer()
        self._inside: Box = tuple(axes.get_window_extent(self._renderer).extents)
        self._radius = math.sqrt(FRONT_SIZE) / 2 * axes.figure.dpi / 72
        points = axes.transData.transform([view.position(row) for row in panel.drawn])
        self._obstacles = np.concatenate((boxes_around(points, 0.8 * self._radius), self._strokes(panel, view)))

    def _strokes(self, panel: Panel, view: View) -> npt.NDArray[np.float64]:
        """Return the lines, the bands and the front's steps as boxes without width, (N, 4)."""
        (low_x, high_x), (low_y, high_y) = self._axes.get_xlim(), self._axes.get_ylim()
        ends = [
            ((value, low_y), (value, high_y)) if direction == "x" else ((low_x, value), (high_x, value))
            for direction, value, _ in divided_lines(self._axes, panel, view)[0]
        ]
        ends += [((xs[0], ys[0]), (xs[1], ys[1])) for xs, ys, _ in bands(panel, view)]
        for first, second in pairwise(map(view.position, panel.on_front)):
            corner = (second[0], first[1]) if step_of(panel) == "post" else (first[0], second[1])
            ends += [(first, corner), (corner, second)]
        pixels = self._axes.transData.transform(np.array(ends).reshape(-1, 2)).reshape(-1, 2, 2)
        return np.concatenate((pixels.min(axis=1), pixels.max(axis=1)), axis=1)

    def write_line(self, direction: Direction, value: float, label: str) -> None:
        """Write the label of a line along it; it is always written."""
        upright = direction == "x"
        start = (value, self._axes.get_ylim()[0]) if upright else (self._axes.get_xlim()[1], value)
        text, size = self._text(label, fontsize=6.5, color=DARK, rotation=90 if upright else 0)
        at = tuple(self._axes.transData.transform(start))
        self._put(text, place_along(at, size, self._inside, self._obstacles, upright=upright))

    def write_point(self, point: tuple[float, float], label: str, preferred: tuple[int, int]) -> None:
        """Write the label of a point near it, unless there is no room."""
        text, size = self._text(label, fontsize=7, color=DARK)
        at = tuple(self._axes.transData.transform(point))
        box = place_near(at, size, self._radius, preferred, self._inside, self._obstacles)
        if box is None:
            text.remove()
        else:
            self._put(text, box)

    def _text(self, label: str, **style: Any) -> tuple[Any, tuple[float, float]]:
        axes = self._axes
        text = axes.text(0, 0, label, transform=axes.transAxes, ha="left", va="bottom", zorder=5, **style)
        extent = text.get_window_extent(self._renderer)
        return text, (extent.width, extent.height)

    def _put(self, text: Any, box: Box) -> None:
        text.set_position(self._axes.transAxes.inverted().transform(box[:2]))
        self._obstacles = np.concatenate((self._obstacles, [box]))


LegendEntry = tuple[Any, str]  # a handle, or None for a heading, and its text

GAP_INCHES = 0.1


def draw_legend(
    figure: Any, panels: Sequence[Panel], view: View, kinds: frozenset[str], *, two_columns: bool
) -> tuple[Any, ...]:
    """Draw the legends of variants and marks, in two columns or as one; `place_legends` positions them.

    Args:
        kinds: the kinds of lines in the panels.
    """
    variants, marks = _variants(panels, view), _marks(panels, view, kinds)
    groups = (variants, marks) if two_columns else ((*variants, *marks),)
    return tuple(_legend(figure, entries) for entries in groups)


def legend_size(legend: Any) -> tuple[float, float]:
    """Return width and height of a legend in inches."""
    extent = legend.get_window_extent(legend.figure.canvas.get_renderer())
    return extent.width / legend.figure.dpi, extent.height / legend.figure.dpi


def place_legends(legends: Sequence[Any], left: float, top: float) -> None:
    """Place the legends beside each other, from a position as a fraction of the figure."""
    for legend in legends:
        legend.set_bbox_to_anchor((left, top), legend.figure.transFigure)
        left += (legend_size(legend)[0] + GAP_INCHES) / legend.figure.get_figwidth()


def _legend(figure: Any, entries: Sequence[LegendEntry]) -> Any:
    legend = figure.legend(
        [_symbol() if handle is None else handle for handle, _ in entries],
        [text for _, text in entries],
        loc="upper left",
        bbox_to_anchor=(0.0, 1.0),
        fontsize=7.5,
        borderaxespad=0,
    )
    legend.set_in_layout(False)  # the size of the panels does not depend on it
    for text, (handle, _) in zip(legend.get_texts(), entries, strict=True):
        text.set(color=DARK, fontweight="bold" if handle is None else "normal")
    return legend


def _variants(panels: Sequence[Panel], view: View) -> tuple[LegendEntry, ...]:
    present = {row.variant.precision for panel in panels for row in panel.drawn}
    return (
        (None, "Precision"),
        *((_symbol("o", colour), name) for name, colour in COLOURS.items() if name in present),
        (None, "Channels removed"),
        *_levels(view),
    )


def _levels(view: View) -> list[LegendEntry]:
    if len(view.markers) <= len(MARKERS):
        return [(_symbol(marker, GREY), level_text(level)) for level, marker in view.markers.items()]
    return [(_symbol(MARKERS[0], GREY), f"{level_text(min(view.markers))} to {level_text(max(view.markers))}")]


def _marks(panels: Sequence[Panel], view: View, kinds: frozenset[str]) -> tuple[LegendEntry, ...]:
    rows = [row for panel in panels for row in panel.drawn]
    entries: list[LegendEntry] = [(None, "Variants")]
    if any(is_accepted(row) for row in rows):
        entries += [
            (_symbol("o", GREY, edge=DARK, size=7.5, line="-"), "accepted, on the front"),
            (_symbol("o", GREY, edge="white"), "accepted"),
        ]
    reasons = {reason_of(row) for row in rows if not is_accepted(row)}
    for name in (*REASONS, ""):
        if name in reasons:
            glyph = _symbol(REASONS[name][0], DARK, edge=DARK, size=3.5) if name else _symbol()
            entries.append(((_symbol("o", "none", edge=GREY), glyph), f"rejected: {name}" if name else "rejected"))
    if any(True for panel in panels for _ in bands(panel, view)):
        entries.append((_symbol(line="-", colour=GREY, width=0.8), "band of the estimate"))
    if any(LINES[kind][0] for kind in kinds):
        entries.append((None, "Limits"))
    for kind, (text, dashes) in LINES.items():
        if kind in kinds and text:
            entries.append((_symbol(line=dashes, colour=DARK if kind in (LIMIT, MEMORY) else GREY, width=1.0), text))
    return tuple(entries)


def _symbol(
    marker: str = "",
    colour: str = "none",
    *,
    edge: str | None = None,
    size: float = 6.0,
    line: Any = "",
    width: float = 1.1,
) -> Any:
    from matplotlib.lines import Line2D

    return Line2D(
        (),
        (),
        marker=marker,
        markersize=size,
        markerfacecolor=colour,
        markeredgecolor=edge or colour,
        linestyle=line,
        color=DARK if marker else colour,
        linewidth=width,
    )


Format = Literal["svg", "png"]

MAX_PANELS = 12
PANEL_INCHES = (4.4, 3.5)
TITLE: Mapping[str, Any] = {"fontsize": 12, "color": DARK}
TITLE_INCHES = 0.4
MARGIN_INCHES = 0.15
HEAD_INCHES = 1.1  # the figure's and a panel's title, above the legend, and a margin below it


def plot(record: SweepRecord, rows: Sequence[Row], x: str, y: str, *, format: str) -> bytes:
    """Return the plot of the rows that have both values, with the front of these two axes, budgets and limits.

    The same input gives the same bytes.

    Args:
        x, y: names from front.AXES.
        format: "svg" or "png".

    Raises UsageError for an unknown axis or format, the same axis twice, nothing to show or more than MAX_PANELS
    targets; MissingExtraError without matplotlib.
    """
    panels = _panels(record, rows, x, y)
    if format not in get_args(Format):
        raise UsageError(f"unknown plot format {format[:40]!r}: use {' or '.join(get_args(Format))}")
    try:
        from matplotlib import style
    except ImportError as error:
        raise MissingExtraError(
            "a plot requires matplotlib, which is not installed", fix="pip install 'edgetool[sweep]'"
        ) from error
    # The user's matplotlibrc is ignored, so that a sweep looks the same on every machine.
    with style.context(["default", dict(STYLE)]), warnings.catch_warnings():
        # A PNG shows a box instead of such a character, an SVG contains it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        return _drawn(record, panels, x, y, format)


def _panels(record: SweepRecord, rows: Sequence[Row], x: str, y: str) -> tuple[Panel, ...]:
    """Return a panel for each target that has rows, in the order of the sweep. Raises UsageError."""
    for name in (x, y):
        axis(name)
    if x == y:
        raise UsageError(f"both axes are {x}", fix=f"choose another of {', '.join(AXES)} for one of them")
    present = {row.variant.target for row in rows}
    panels = tuple(
        Panel(target.label, tuple(row for row in rows if row.variant.target == target.label), x, y)
        for target in record.targets
        if target.label in present
    )
    if not any(panel.drawn for panel in panels):
        raise UsageError(
            f"there is nothing to plot: no variant has both {x} and {y}",
            fix="run 'edgetool sweep show' to see the available figures",
        )
    if len(panels) > MAX_PANELS:
        raise UsageError(
            f"{len(panels)} targets are too many for one plot, which has at most {MAX_PANELS} panels",
            fix="choose one with --target",
        )
    return panels


def _drawn(record: SweepRecord, panels: Sequence[Panel], x: str, y: str, format: str) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns, rows, has_own_column = _grid(len(panels))
    size = PANEL_INCHES[0] * columns, PANEL_INCHES[1] * rows + TITLE_INCHES
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(rows, columns)
    places = [figure.add_subplot(grid[place // columns, place % columns]) for place in range(len(panels))]
    view = _view(record, panels, x, y)
    kinds = frozenset().union(*(draw_panel(axes, panel, view) for axes, panel in zip(places, panels, strict=True)))
    legends = draw_legend(figure, panels, view, kinds, two_columns=not has_own_column)
    if has_own_column:  # beside the panels, as wide as it needs to be
        width, height = legend_size(legends[0])
        size = size[0] + width + MARGIN_INCHES, max(size[1], height + HEAD_INCHES)
        figure.set_size_inches(*size)
        figure.set_layout_engine("constrained", rect=(0, 0, PANEL_INCHES[0] * columns / size[0], 1))
    title = wrapped(clean_text(record.name), size[0] - 2 * MARGIN_INCHES, text_width(figure, **TITLE))
    figure.suptitle("".join(title), x=0.01, ha="left", **TITLE)
    figure.draw_without_rendering()  # computes the layout; legends and labels use the free space
    figure.set_layout_engine("none")
    if has_own_column:
        place_legends(legends, PANEL_INCHES[0] * columns / size[0], places[0].get_position().y1)
    else:  # in the free place of the grid
        place_legends(legends, places[len(panels) % columns].get_position().x0, places[-1].get_position().y1)
    for panel, axes in zip(panels, places, strict=True):
        draw_labels(axes, panel, view)
    stream = io.BytesIO()
    figure.savefig(
        stream, format=format, metadata={"Date": None, "Creator": None} if format == "svg" else {"Software": None}
    )
    return stream.getvalue()


def _view(record: SweepRecord, panels: Sequence[Panel], x: str, y: str) -> View:
    groups = [panel.drawn for panel in panels]
    scale_x, scale_y = scale_of(x, groups), scale_of(y, groups)
    scales: dict[Direction, Scale] = {"x": scale_x, "y": scale_y}
    variants = [row.variant for group in groups for row in group]
    parts: defaultdict[str, set[BuilderArgument]] = defaultdict(set)
    for variant in variants:
        parts["level"].add(variant.level)
        parts["precision"].add(variant.precision)
        parts["planning"].add(", ".join(variant.planning))
        for name, value in variant.parameters:
            parts[f"parameter {name}"].add(value)
    levels = sorted({variant.level for variant in variants})
    shared: dict[Direction, tuple[float, ...]] = {
        direction: ()
        if scale.name in PER_TARGET
        else tuple(value for panel in panels for value in axis_values(panel, scale, direction))
        for direction, scale in scales.items()
    }
    return View(
        limits=record.limits,
        x=scale_x,
        y=scale_y,
        markers=dict(zip(levels, MARKERS if len(levels) <= len(MARKERS) else MARKERS[0] * len(levels), strict=False)),
        varied=frozenset(name for name, values in parts.items() if len(values) > 1),
        shared=shared,
    )


def _grid(panels: int) -> tuple[int, int, bool]:
    """Return columns and rows for that many panels, and whether the legend needs its own column."""
    columns = 1 if panels == 1 else 2 if panels <= 4 else 3
    rows = math.ceil(panels / columns)
    return columns, rows, panels == rows * columns
