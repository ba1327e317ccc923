"""A picture of a sweep: two figures against each other, a panel per target."""

from __future__ import annotations

import io
import math
import warnings
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal, get_args

from edgetool.errors import MissingExtraError, UsageError
from edgetool.sweep.front import AXES, axis
from edgetool.sweep.metrics import Row
from edgetool.sweep.plot_legend import draw_legend
from edgetool.sweep.plot_panel import draw_panel
from edgetool.sweep.plot_scale import PER_TARGET, Scale, scale_of
from edgetool.sweep.plot_style import DARK, MARKERS, STYLE, shown
from edgetool.sweep.plot_view import Panel, View, Way, extent
from edgetool.sweep.plot_writer import draw_labels
from edgetool.sweep.record import SweepRecord
from edgetool.sweep.variant import Value

Format = Literal["svg", "png"]

MAX_PANELS = 12
PANEL_INCHES = (4.4, 3.5)
LEGEND_SHARE = 0.62  # of a panel's width, where no panel's place is free for it


def plot(record: SweepRecord, rows: Sequence[Row], x: str, y: str, *, format: str) -> bytes:
    """The rows that have both figures (names of front.AXES), accepted and rejected, with the front of these two axes,
    budgets and limits; "svg" or "png". The same input gives the same bytes.

    Raises UsageError for an unknown axis or format, the same axis twice, nothing to show or more than MAX_PANELS
    targets; MissingExtraError without matplotlib.
    """
    panels = _panels(record, rows, x, y)
    if format not in get_args(Format):
        raise UsageError(f"a plot is {' or '.join(get_args(Format))}, not {format[:40]!r}")
    try:
        from matplotlib import style
    except ImportError as error:
        raise MissingExtraError(
            "a plot needs matplotlib, which is not installed", fix="pip install 'edgetool[sweep]'"
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
        raise UsageError(f"both axes are {x}", fix=f"use another of {', '.join(AXES)} for one of them")
    present = {row.variant.target for row in rows}
    panels = tuple(
        Panel(target.label, tuple(row for row in rows if row.variant.target == target.label), x, y)
        for target in record.targets
        if target.label in present
    )
    if not any(panel.drawn for panel in panels):
        raise UsageError(
            f"there is nothing to plot: no variant has both {x} and {y}",
            fix="see `edgetool sweep show` for what is known",
        )
    if len(panels) > MAX_PANELS:
        raise UsageError(
            f"{len(panels)} targets are too many for one picture: it has {MAX_PANELS} panels at most",
            fix="choose one with --target",
        )
    return panels


def _drawn(record: SweepRecord, panels: Sequence[Panel], x: str, y: str, format: str) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns, rows, own_column = _grid(len(panels))
    widths = [1.0] * columns + ([LEGEND_SHARE] if own_column else [])
    figure = Figure(figsize=(PANEL_INCHES[0] * sum(widths), PANEL_INCHES[1] * rows + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(rows, len(widths), width_ratios=widths)
    places = [figure.add_subplot(grid[place // columns, place % columns]) for place in range(len(panels))]
    view = _view(record, panels, x, y)
    kinds = frozenset().union(*(draw_panel(axes, panel, view) for axes, panel in zip(places, panels, strict=True)))
    legend_place = grid[:, columns] if own_column else grid[len(panels) // columns, len(panels) % columns]
    draw_legend(figure.add_subplot(legend_place), panels, view, kinds, two_columns=not own_column)
    figure.suptitle(shown(record.name), x=0.01, ha="left", fontsize=12, color=DARK)
    figure.draw_without_rendering()  # lays everything out; what follows takes the room that is left
    figure.set_layout_engine("none")
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
