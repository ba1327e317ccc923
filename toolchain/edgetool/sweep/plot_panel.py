"""One panel of a plot: the variants of a target, its front and its limits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from edgetool.sweep.plot_lines import Line
from edgetool.sweep.plot_scale import Scale
from edgetool.sweep.plot_style import COLOURS, DARK, GREY, LIMIT, LINES, MEMORY, REASONS, shown
from edgetool.sweep.plot_text import broken, measure
from edgetool.sweep.plot_view import (
    MANY_POINTS,
    Panel,
    View,
    Way,
    bands,
    extent,
    is_accepted,
    lines_of,
    reason_of,
    step_of,
)

SIZE, FRONT_SIZE = 36.0, 60.0  # of markers, in square points
SMALLER = 0.4  # the size where there are many points
NOTE: Mapping[str, Any] = {"fontsize": 6.5, "color": GREY}
TITLE: Mapping[str, Any] = {"fontsize": 10, "fontweight": "bold", "color": DARK}
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
    title = broken(shown(panel.target), TEXT_INCHES, measure(axes.figure, **TITLE))
    axes.set_title("".join(title), loc="left", pad=7 + LINE_POINTS * max(len(lines), 1), **TITLE)
    text = axes.text(0, 1.02, "\n".join(lines), transform=axes.transAxes, va="bottom", **NOTE)
    text.set_in_layout(False)  # the title above it makes its room
