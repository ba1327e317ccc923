"""A picture of a sweep: two figures against each other, a panel per target."""

from __future__ import annotations

import io
import math
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from edgetool.convert.request import Value
from edgetool.errors import MissingExtraError, UsageError
from edgetool.sweep.front import AXES, axis
from edgetool.sweep.metrics import Row
from edgetool.sweep.plot_legend import draw_legend, put, size_of
from edgetool.sweep.plot_panel import draw_panel
from edgetool.sweep.plot_scale import PER_TARGET, Scale, scale_of
from edgetool.sweep.plot_style import DARK, MARKERS, STYLE, shown
from edgetool.sweep.plot_text import broken, measure
from edgetool.sweep.plot_view import Panel, View, Way, extent
from edgetool.sweep.plot_writer import draw_labels
from edgetool.sweep.record import SweepRecord

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
    parts: defaultdict[str, set[Value]] = defaultdict(set)
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
