"""The legend of a plot: what its colours, shapes and lines mean, of those that it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgetool.sweep.plot_style import COLOURS, DARK, GREY, LIMIT, LINES, MARKERS, MEMORY, REASONS, level_text
from edgetool.sweep.plot_view import Panel, View, bands, is_accepted, reason_of

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
