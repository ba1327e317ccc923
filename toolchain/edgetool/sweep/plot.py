"""A picture of a sweep: two figures against each other, a panel per target.

How the plots of a sweep look: colours, shapes, units, and texts that no name can break.

An axis of a plot: its unit, whether it is logarithmic, and from where to where it goes.

Texts of a picture that have only so much room: broken into lines, and cut where that is not enough.

The lines of a plot: what a sweep's limits, its budgets and its target's memory mean on an axis.

What a plot shows, before anything is drawn: the rows of each target, their places, and the words for them.

Where the labels of points go so that they cover nothing.

One panel of a plot: the variants of a target, its front and its limits.

The texts inside a panel: names of its lines and of the points on its front.

The legend of a plot: what its colours, shapes and lines mean, of those that it shows.
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
from edgetool.gate.limits import Of
from edgetool.report.document import Band
from edgetool.sweep.front import AXES, axis, front
from edgetool.sweep.metrics import Cause, Quality, Row
from edgetool.sweep.spec import SweepLimits
from edgetool.sweep.store import SweepRecord
from edgetool.target.quantity import format_size

# Okabe and Ito, Color Universal Design (2008): told apart with any colour vision, and in grey by their lightness.
COLOURS: Mapping[str, str] = {
    "float32": "#0072B2",
    "float16": "#56B4E9",
    "int16x8": "#009E73",
    "int8": "#D55E00",
    "int8-dense-per-tensor": "#CC79A7",
}
MARKERS = "osD^vP<>hXp8"  # of pruning levels, in ascending order; with more levels than these, all have the first

# What a rejected point is marked by: the first of these that holds.
REASONS: Mapping[str, tuple[str, tuple[Cause, ...]]] = {
    "does not run": ("x", ("runtime",)),
    "memory": ("+", ("memory", "flash", "budget", "arena unknown")),
    "time or energy": ("_", ("latency", "energy")),
    "accuracy": ("|", ("accuracy",)),
}

LIMIT, MEMORY, TRACKED, INFINITE = "limit", "memory", "tracked", "infinite"
# What the legend says of a line, and its dashes.
LINES: Mapping[str, tuple[str, str]] = {
    LIMIT: ("limit or active budget", "--"),
    MEMORY: ("target's memory minus reserve", "-"),
    TRACKED: ("tracked budget", ":"),
    INFINITE: ("", ":"),  # its own label says all
}
GREY, DARK = "#8c8c8c", "#333333"

# Of each axis's unit in front.AXES: names of larger and smaller ones, and how much of it they are; ascending.
UNITS: Mapping[str, tuple[tuple[str, float], ...]] = {
    "B": (("B", 1), ("KiB", 2**10), ("MiB", 2**20)),
    "ms": (("µs", 1e-3), ("ms", 1), ("s", 1e3)),
    "uJ": (("nJ", 1e-3), ("µJ", 1), ("mJ", 1e3), ("J", 1e6)),
    "dB": (("dB", 1),),
}
COUNTS: tuple[tuple[str, float], ...] = (("", 1), ("thousands", 1e3), ("millions", 1e6))
PERCENT = ("%", 0.01)

# An SVG names its fonts and keeps texts as texts. DejaVu Sans comes with matplotlib, which measures by it; Verdana is
# about as wide.
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

MAX_NAME = 40


def shown(text: str, most: int = MAX_NAME) -> str:
    """The text in one line of at most so many characters, without any that a picture cannot hold."""
    clean = "".join(char if char.isprintable() else " " for char in text).strip()
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"


def unit_for(axis_name: str, axis_unit: str, values: Sequence[float]) -> tuple[str, float]:
    """The name and the size of the unit in which the middle one of the values is at least 1."""
    if axis_name == "accuracy":
        return PERCENT
    choices = UNITS.get(axis_unit, COUNTS)
    middle = median(values) if values else 0.0
    return next((choice for choice in reversed(choices) if middle >= choice[1]), choices[0])


def level_text(level: float) -> str:
    """ "25 %"."""
    return f"{100 * level:.4g} %"


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


Measure = Callable[[str], float]  # how wide a text is

MOST_CHARACTERS = 300


def measure(figure: Any, **style: Any) -> Measure:
    """How wide a text of that style is in the figure, in inches."""
    from matplotlib.text import Text

    renderer = figure.canvas.get_renderer()

    def width(text: str) -> float:
        artist = Text(0, 0, text, figure=figure, **style)
        return float(artist.get_window_extent(renderer).width) / float(figure.dpi)

    return width


def broken(text: str, width: float, measured: Measure, *, most_lines: int = 1) -> list[str]:
    """The text in so many lines at most, broken at spaces, each no wider than that; what is too much is cut off, and
    an ellipsis says so."""
    words = text[:MOST_CHARACTERS].split()
    lines: list[str] = []
    while words and len(lines) < most_lines:
        fitting = 1
        while fitting < len(words) and measured(" ".join(words[: fitting + 1])) <= width:
            fitting += 1
        is_last = len(lines) + 1 == most_lines
        lines.append(_cut(" ".join(words if is_last else words[:fitting]), width, measured))
        words = words[fitting:]
    return lines


def _cut(text: str, width: float, measured: Measure) -> str:
    if measured(text) <= width:
        return text
    length = next((length for length in range(len(text) - 1, 0, -1) if measured(f"{text[:length]}…") <= width), 0)
    return f"{text[:length].rstrip(' ,;')}…"


@dataclass(frozen=True, slots=True)
class Line:
    """value is in the axis's own unit; kind is one of plot_style.LINES."""

    value: float
    label: str
    kind: str


def lines(axis_name: str, limits: SweepLimits, rows: Sequence[Row]) -> tuple[Line, ...]:
    """The lines on this axis for the rows of one target, in ascending order; of those that coincide, the first of
    limit, memory and tracked budget."""
    strict = [LIMIT, MEMORY, TRACKED]
    distinct: dict[float, Line] = {}
    for line in sorted(_all(axis_name, limits, rows), key=lambda line: strict.index(line.kind)):
        if line.value > 0:  # what a reserve uses up leaves no line to draw
            distinct.setdefault(line.value, line)
    return tuple(sorted(distinct.values(), key=lambda line: line.value))


def _all(axis_name: str, limits: SweepLimits, rows: Sequence[Row]) -> Iterator[Line]:
    if axis_name == "arena_bytes":
        yield from _memory(("arena", "ram"), limits, limits.reserve_bytes, _sizes(rows, "RAM"))
    elif axis_name == "model_bytes":
        yield from _memory(("flash",), limits, limits.reserve_flash_bytes, _sizes(rows, "flash"))
    elif axis_name == "latency_ms" and limits.max_latency_ms is not None:
        yield Line(limits.max_latency_ms, f"at most {limits.max_latency_ms:g} ms", LIMIT)
    elif axis_name == "energy_uj" and limits.max_energy_uj is not None:
        yield Line(limits.max_energy_uj, f"at most {limits.max_energy_uj:g} µJ", LIMIT)
    elif axis_name == "accuracy":
        yield from _accuracy(limits, rows)


def _memory(of: Sequence[Of], limits: SweepLimits, reserve_bytes: int, sizes: dict[str, int]) -> Iterator[Line]:
    """What an arena or a model may have; a tracked budget of the arena alone knows no reserve."""
    less = f" less {format_size(reserve_bytes)}" if reserve_bytes else ""
    for name, size_bytes in sizes.items():
        yield Line(size_bytes - reserve_bytes, f"{name} {format_size(size_bytes)}{less}", MEMORY)
    active = limits.active_budget
    if active is not None and active.of in of:
        yield Line(active.bytes - reserve_bytes, f"active budget {active.text}{less}", LIMIT)
    for budget in limits.budgets:
        if budget.of == "arena":
            yield from [Line(budget.bytes, f"budget {budget.text}", TRACKED)] if "arena" in of else []
        elif budget.of in of:
            yield Line(budget.bytes - reserve_bytes, f"budget {budget.text}{less}", TRACKED)


def _sizes(rows: Sequence[Row], memory: str) -> dict[str, int]:
    """The memory of the rows' target by its name: all rows have the same."""
    costs = [row.metrics.cost for row in rows if row.metrics is not None]
    if memory == "flash":
        return dict([(memory, cost.flash_bytes) for cost in costs if cost.flash_bytes is not None][:1])
    return dict([(cost.region or memory, cost.sram_bytes) for cost in costs if cost.sram_bytes is not None][:1])


def _accuracy(limits: SweepLimits, rows: Sequence[Row]) -> Iterator[Line]:
    if limits.min_accuracy is not None:
        yield Line(limits.min_accuracy, f"at least {100 * limits.min_accuracy:g} %", LIMIT)
    # Where the originals differ (a builder's), each variant has a limit of its own, and there is no line.
    originals = {_original_accuracy(row.metrics.quality) for row in rows if row.metrics is not None}
    if limits.max_accuracy_loss is not None and len(originals) == 1 and (original := originals.pop()) is not None:
        label = f"at most {limits.max_accuracy_loss:g} points below {100 * original:.4g} %"
        yield Line(original - limits.max_accuracy_loss / 100, label, LIMIT)


def _original_accuracy(quality: Quality) -> float | None:
    return quality.float_accuracy if quality.accuracy is not None else 1.0


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


Box = tuple[float, float, float, float]  # left, bottom, right, top

GAPS = (1.0, 2.2, 4.0)  # how far from the point, in marker radii beyond its own


def place(
    point: tuple[float, float],
    size: tuple[float, float],
    radius: float,
    toward: tuple[int, int],
    inside: Box,
    obstacles: npt.NDArray[np.float64],
) -> Box | None:
    """A box of that size near the point that lies inside and covers no obstacle; None where there is no room.

    toward: the corner tried first, (-1, 1) is up left. obstacles: (N, 4), boxes. All in the same units.
    """
    for left, bottom in _candidates(point, size, radius, toward):
        box = (left, bottom, left + size[0], bottom + size[1])
        if _is_free(box, inside, obstacles):
            return box
    return None


def beside(
    start: tuple[float, float],
    size: tuple[float, float],
    inside: Box,
    obstacles: npt.NDArray[np.float64],
    *,
    upright: bool,
) -> Box:
    """A box along a line that is upright from its start, or goes left from it: the first free one on either side; where
    there is none, at the start."""
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
    """(N, 4): a square box around each of the points."""
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
    point: tuple[float, float], size: tuple[float, float], radius: float, toward: tuple[int, int]
) -> Iterator[tuple[float, float]]:
    """Lower left corners: nearest first, and in each round first toward the corner wished for."""
    across, up = toward
    ways = ((across, up), (across, 0), (0, up), (across, -up), (-across, up), (-across, 0), (0, -up), (-across, -up))
    for gap in GAPS:
        for horizontal, vertical in ways:
            reach = radius * (1 + gap) * (0.7 if horizontal and vertical else 1.0)
            x, y = point[0] + horizontal * reach, point[1] + vertical * reach
            yield x - size[0] * (1 - horizontal) / 2, y - size[1] * (1 - vertical) / 2


SIZE, FRONT_SIZE = 36.0, 60.0  # of markers, in square points
SMALLER = 0.4  # the size where there are many points
NOTE: Mapping[str, Any] = {"fontsize": 6.5, "color": GREY}
PANEL_TITLE: Mapping[str, Any] = {"fontsize": 10, "fontweight": "bold", "color": DARK}
NOTE_LINES = 2
LINE_POINTS = 8.5  # the height of one
TEXT_INCHES = 3.55  # of a panel's width, less what stands left of its axes


def draw_panel(axes: Any, panel: Panel, view: View) -> frozenset[str]:
    """Everything but the labels, which need to know where all else lies; the kinds of lines that it shows."""
    axes.set(xlabel=view.x.label, ylabel=view.y.label)
    if not panel.drawn:
        axes.set(xticks=(), yticks=())
        axes.text(0.5, 0.5, "no variant has both values", transform=axes.transAxes, ha="center", color=GREY)
        _head(axes, panel, _missing(panel))
        return frozenset()
    for way, scale in view.scales.items():
        values = [*extent(panel, scale, way), *view.shared[way]]
        _set_scale(
            axes, way, scale, scale.limits(values, [scale.of(line.value) for line in lines_of(scale, panel, view)])
        )
    seen, unseen = lines_in(axes, panel, view)
    for way, value, line in seen:
        draw = axes.axvline if way == "x" else axes.axhline
        colour = DARK if line.kind in (LIMIT, MEMORY) else GREY
        draw(value, color=colour, linestyle=LINES[line.kind][1], linewidth=1.0, zorder=1)
    for xs, ys, row in bands(panel, view):
        colour, alpha = COLOURS[row.variant.precision], 0.55 if is_accepted(row) else 0.25
        axes.plot(xs, ys, color=colour, linewidth=0.8, alpha=alpha, zorder=1.5)
    _draw_points(axes, panel, view)
    out = [f"outside the plot: {', '.join(line.label for line in unseen)}"] if unseen else []
    _head(axes, panel, [*_missing(panel), *out])
    return frozenset(line.kind for _, _, line in seen)


def lines_in(axes: Any, panel: Panel, view: View) -> tuple[list[tuple[Way, float, Line]], list[Line]]:
    """The lines that are within the axes, with their axis and place there, and those that are not."""
    seen: list[tuple[Way, float, Line]] = []
    unseen: list[Line] = []
    for way, scale in view.scales.items():
        low, high = axes.get_xlim() if way == "x" else axes.get_ylim()
        for line in lines_of(scale, panel, view):
            if low <= scale.of(line.value) <= high:
                seen.append((way, scale.of(line.value), line))
            else:
                unseen.append(line)
    return seen, unseen


def _set_scale(axes: Any, way: Way, scale: Scale, limits: tuple[float, float]) -> None:
    from matplotlib import ticker

    own = axes.xaxis if way == "x" else axes.yaxis
    if scale.is_log:
        axes.set(**{f"{way}scale": "log"})
        wide = limits[1] / limits[0] > 100
        own.set_major_locator(ticker.LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=12))
        own.set_minor_locator(ticker.LogLocator(subs=range(2, 10), numticks=12) if wide else ticker.NullLocator())
        own.set_minor_formatter(ticker.NullFormatter())
    else:
        own.set_major_locator(ticker.MaxNLocator(nbins=6, steps=(1, 2, 2.5, 5, 10)))
    own.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:.6g}"))
    axes.set(**{f"{way}lim": limits})


def _draw_points(axes: Any, panel: Panel, view: View) -> None:
    numbers = {row.number for row in panel.on_front}
    groups: defaultdict[tuple[str, str, str | None, bool], list[tuple[float, float]]] = defaultdict(list)
    for row in panel.drawn:
        reason = None if is_accepted(row) else reason_of(row)
        marker = view.markers[row.variant.level]
        groups[row.variant.precision, marker, reason, row.number in numbers].append(view.at(row))
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
        xs, ys = zip(*map(view.at, panel.on_front), strict=True)
        axes.step(xs, ys, where=step_of(panel), color=DARK, linewidth=1.1, alpha=0.7, zorder=2.5)


def _missing(panel: Panel) -> list[str]:
    """What the picture does not show."""
    status = Counter(row.status for row in panel.rows)
    without = len(panel.rows) - len(panel.drawn) - status["failed"] - status["pending"]
    counts = (
        (status["failed"], "failed"),
        (status["pending"], "not run yet"),
        (without, "missing one or both values"),
    )
    none = ["none is accepted"] if panel.drawn and not any(map(is_accepted, panel.drawn)) else []
    return [*none, *(f"{count} {text}" for count, text in counts if count)]


def _head(axes: Any, panel: Panel, notes: Sequence[str]) -> None:
    """The target's name and what is to be known, above the axes and no wider than the panel."""
    lines = broken("; ".join(notes), TEXT_INCHES, measure(axes.figure, **NOTE), most_lines=NOTE_LINES)
    title = broken(shown(panel.target), TEXT_INCHES, measure(axes.figure, **PANEL_TITLE))
    axes.set_title("".join(title), loc="left", pad=7 + LINE_POINTS * max(len(lines), 1), **PANEL_TITLE)
    text = axes.text(0, 1.02, "\n".join(lines), transform=axes.transAxes, va="bottom", **NOTE)
    text.set_in_layout(False)  # the title above it makes its room


MAX_LABELS = 30


def draw_labels(axes: Any, panel: Panel, view: View) -> None:
    """The names of the lines and of the front's points, where there is room for them."""
    if not panel.drawn:
        return
    writer = _Writer(axes, panel, view)
    for way, value, line in lines_in(axes, panel, view)[0]:
        writer.write_line(way, value, shown(line.label))
    toward = _better(panel.x), _better(panel.y)
    for row in panel.on_front[:MAX_LABELS]:
        if label := label_of(row, view.varied):
            writer.write_point(view.at(row), label, toward)


def _better(name: str) -> int:
    return -AXES[name].sign


class _Writer:
    """Puts texts into the axes, in pixels of the finished layout, so that they cover nothing and not each other."""

    def __init__(self, axes: Any, panel: Panel, view: View) -> None:
        self._axes = axes
        self._renderer = axes.figure.canvas.get_renderer()
        self._inside: Box = tuple(axes.get_window_extent(self._renderer).extents)
        self._radius = math.sqrt(FRONT_SIZE) / 2 * axes.figure.dpi / 72
        points = axes.transData.transform([view.at(row) for row in panel.drawn])
        self._obstacles = np.concatenate((boxes_around(points, 0.8 * self._radius), self._strokes(panel, view)))

    def _strokes(self, panel: Panel, view: View) -> npt.NDArray[np.float64]:
        """(N, 4): the lines, the bands and the front's steps, as boxes without width."""
        (low_x, high_x), (low_y, high_y) = self._axes.get_xlim(), self._axes.get_ylim()
        ends = [
            ((value, low_y), (value, high_y)) if way == "x" else ((low_x, value), (high_x, value))
            for way, value, _ in lines_in(self._axes, panel, view)[0]
        ]
        ends += [((xs[0], ys[0]), (xs[1], ys[1])) for xs, ys, _ in bands(panel, view)]
        for first, second in pairwise(map(view.at, panel.on_front)):
            corner = (second[0], first[1]) if step_of(panel) == "post" else (first[0], second[1])
            ends += [(first, corner), (corner, second)]
        pixels = self._axes.transData.transform(np.array(ends).reshape(-1, 2)).reshape(-1, 2, 2)
        return np.concatenate((pixels.min(axis=1), pixels.max(axis=1)), axis=1)

    def write_line(self, way: Way, value: float, label: str) -> None:
        """Along a line, which is always named."""
        upright = way == "x"
        start = (value, self._axes.get_ylim()[0]) if upright else (self._axes.get_xlim()[1], value)
        text, size = self._measured(label, fontsize=6.5, color=DARK, rotation=90 if upright else 0)
        at = tuple(self._axes.transData.transform(start))
        self._put(text, beside(at, size, self._inside, self._obstacles, upright=upright))

    def write_point(self, point: tuple[float, float], label: str, toward: tuple[int, int]) -> None:
        """Near a point, or nowhere: its shape and colour say the same."""
        text, size = self._measured(label, fontsize=7, color=DARK)
        at = tuple(self._axes.transData.transform(point))
        box = place(at, size, self._radius, toward, self._inside, self._obstacles)
        if box is None:
            text.remove()
        else:
            self._put(text, box)

    def _measured(self, label: str, **style: Any) -> tuple[Any, tuple[float, float]]:
        axes = self._axes
        text = axes.text(0, 0, label, transform=axes.transAxes, ha="left", va="bottom", zorder=5, **style)
        extent = text.get_window_extent(self._renderer)
        return text, (extent.width, extent.height)

    def _put(self, text: Any, box: Box) -> None:
        text.set_position(self._axes.transAxes.inverted().transform(box[:2]))
        self._obstacles = np.concatenate((self._obstacles, [box]))


Entry = tuple[Any, str]  # a handle, None for a heading, and its text

GAP_INCHES = 0.1


def draw_legend(
    figure: Any, panels: Sequence[Panel], view: View, kinds: frozenset[str], *, two_columns: bool
) -> tuple[Any, ...]:
    """The figure's legends, to be put somewhere: variants and marks, each of its own or both in one.

    kinds: of the lines that the panels show.
    """
    variants, marks = _variants(panels, view), _marks(panels, view, kinds)
    groups = (variants, marks) if two_columns else ((*variants, *marks),)
    return tuple(_legend(figure, entries) for entries in groups)


def size_of(legend: Any) -> tuple[float, float]:
    """Its width and height in inches."""
    extent = legend.get_window_extent(legend.figure.canvas.get_renderer())
    return extent.width / legend.figure.dpi, extent.height / legend.figure.dpi


def put(legends: Sequence[Any], left: float, top: float) -> None:
    """Beside each other, from that place, a share of the figure."""
    for legend in legends:
        legend.set_bbox_to_anchor((left, top), legend.figure.transFigure)
        left += (size_of(legend)[0] + GAP_INCHES) / legend.figure.get_figwidth()


def _legend(figure: Any, entries: Sequence[Entry]) -> Any:
    legend = figure.legend(
        [_symbol() if handle is None else handle for handle, _ in entries],
        [text for _, text in entries],
        loc="upper left",
        bbox_to_anchor=(0.0, 1.0),
        fontsize=7.5,
        borderaxespad=0,
    )
    legend.set_in_layout(False)  # the panels' room does not depend on it
    for text, (handle, _) in zip(legend.get_texts(), entries, strict=True):
        text.set(color=DARK, fontweight="bold" if handle is None else "normal")
    return legend


def _variants(panels: Sequence[Panel], view: View) -> tuple[Entry, ...]:
    present = {row.variant.precision for panel in panels for row in panel.drawn}
    return (
        (None, "Precision"),
        *((_symbol("o", colour), name) for name, colour in COLOURS.items() if name in present),
        (None, "Channels removed"),
        *_levels(view),
    )


def _levels(view: View) -> list[Entry]:
    if len(view.markers) <= len(MARKERS):
        return [(_symbol(marker, GREY), level_text(level)) for level, marker in view.markers.items()]
    return [(_symbol(MARKERS[0], GREY), f"{level_text(min(view.markers))} to {level_text(max(view.markers))}")]


def _marks(panels: Sequence[Panel], view: View, kinds: frozenset[str]) -> tuple[Entry, ...]:
    rows = [row for panel in panels for row in panel.drawn]
    entries: list[Entry] = [(None, "Variants")]
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
    """The rows that have both figures (names of front.AXES), accepted and rejected, with the front of these two axes,
    budgets and limits; "svg" or "png". The same input gives the same bytes.

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
    # The user's own matplotlibrc has no say: the same sweep looks the same anywhere.
    with style.context(["default", dict(STYLE)]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # a box is drawn, an SVG keeps the text
        return _drawn(record, panels, x, y, format)


def _panels(record: SweepRecord, rows: Sequence[Row], x: str, y: str) -> tuple[Panel, ...]:
    """A panel per target of which there are rows, in the order of the sweep. Raises UsageError."""
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

    columns, rows, own_column = _grid(len(panels))
    size = PANEL_INCHES[0] * columns, PANEL_INCHES[1] * rows + TITLE_INCHES
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(rows, columns)
    places = [figure.add_subplot(grid[place // columns, place % columns]) for place in range(len(panels))]
    view = _view(record, panels, x, y)
    kinds = frozenset().union(*(draw_panel(axes, panel, view) for axes, panel in zip(places, panels, strict=True)))
    legends = draw_legend(figure, panels, view, kinds, two_columns=not own_column)
    if own_column:  # beside the panels, as wide as it must be
        width, height = size_of(legends[0])
        size = size[0] + width + MARGIN_INCHES, max(size[1], height + HEAD_INCHES)
        figure.set_size_inches(*size)
        figure.set_layout_engine("constrained", rect=(0, 0, PANEL_INCHES[0] * columns / size[0], 1))
    title = broken(shown(record.name), size[0] - 2 * MARGIN_INCHES, measure(figure, **TITLE))
    figure.suptitle("".join(title), x=0.01, ha="left", **TITLE)
    figure.draw_without_rendering()  # lays everything out; what follows takes the room that is left
    figure.set_layout_engine("none")
    if own_column:
        put(legends, PANEL_INCHES[0] * columns / size[0], places[0].get_position().y1)
    else:  # in the place of the panel that is not there
        put(legends, places[len(panels) % columns].get_position().x0, places[-1].get_position().y1)
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
    ways: dict[Way, Scale] = {"x": scale_x, "y": scale_y}
    variants = [row.variant for group in groups for row in group]
    parts: defaultdict[str, set[BuilderArgument]] = defaultdict(set)
    for variant in variants:
        parts["level"].add(variant.level)
        parts["precision"].add(variant.precision)
        for name, value in variant.parameters:
            parts[f"parameter {name}"].add(value)
    levels = sorted({variant.level for variant in variants})
    shared: dict[Way, tuple[float, ...]] = {
        way: () if scale.name in PER_TARGET else tuple(value for panel in panels for value in extent(panel, scale, way))
        for way, scale in ways.items()
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
    """Columns and rows for that many panels, and whether the legend needs a column of its own."""
    columns = 1 if panels == 1 else 2 if panels <= 4 else 3
    rows = math.ceil(panels / columns)
    return columns, rows, panels == rows * columns
