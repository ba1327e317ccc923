"""The front of plans as a picture: the arena to the right, and what a smaller one costs upwards."""

from __future__ import annotations

from collections.abc import Sequence

from edgetool.figure import in_text
from edgetool.report.document import FrontPoint
from edgetool.report.rows_picture import page_rules, text_of, ticks, title_of

WIDTH, HEIGHT = 640, 360  # of the area of the points, in pixels
LEFT, TOP, RIGHT, BOTTOM = 84, 48, 120, 64  # of its margins
RADIUS = 5
LABEL_HEIGHT = 15
MARGIN = 0.08  # of the range of an axis, beside its outermost points
COLOURS = ("#4e79a7", "#7ba7d7"), ("#c62828", "#f58a8b")  # of the points and of the limit, light and dark


def front_svg(points: Sequence[FrontPoint], *, title: str, limit: int | None = None) -> str:
    """Return a picture as SVG: a point for each plan, and steps between them, because no plan lies below them.

    The vertical axis is the time of an inference, or if that is not known, the extra multiply-accumulates in percent.
    Colours follow the reader's preference for light or dark.

    Args:
        points: The plans.
        title: The heading.
        limit: The bytes of the target's memory, drawn as a line if it is among the points.
    """
    times = [None if point.latency_ms is None else point.latency_ms.value for point in points]
    timed = [time for time in times if time is not None]
    costs = timed if len(timed) == len(points) else [point.extra_macs_percent for point in points]
    axis = "ms per inference" if costs is timed else "extra multiply-accumulates, %"
    sizes = [point.arena_bytes for point in points]
    x = _scale(sizes, LEFT, LEFT + WIDTH)
    y = _scale(costs, TOP + HEIGHT, TOP)
    right, bottom = LEFT + WIDTH, TOP + HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right + RIGHT} {bottom + BOTTOM}" '
        f'font-family="sans-serif" font-size="13">',
        f"<style>{_style()}</style>",
        '<rect class="page" width="100%" height="100%"/>',
        f'<text x="{LEFT}" y="26" font-weight="bold">{text_of(title)}</text>',
        f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>',
    ]
    for value in ticks(max(sizes), min(sizes)):
        lines.append(f'<path class="grid" d="M{x(value):.1f} {TOP}V{bottom}"/>')
        lines.append(f'<text x="{x(value):.1f}" y="{bottom + 20}" text-anchor="middle">{value:,}</text>')
    lines.append(f'<text x="{right}" y="{bottom + 44}" text-anchor="end">arena in bytes</text>')
    lines.append(f'<text x="{LEFT}" y="{bottom + 44}">{axis}, upwards</text>')
    if limit is not None and LEFT <= x(limit) <= right:
        path = f'<path class="limit" d="M{x(limit):.1f} {TOP}V{bottom}">'
        lines.append(f"{path}{title_of(f'the memory of the target: {limit:,} B')}</path>")
    places = [(x(point.arena_bytes), y(cost)) for point, cost in zip(points, costs, strict=True)]
    steps = "".join(f"H{across:.1f}V{up:.1f}" for across, up in places[1:])
    lines.append(f'<path class="line" d="M{places[0][0]:.1f} {places[0][1]:.1f}{steps}"/>')
    labelled = float(bottom + LABEL_HEIGHT)
    for point, cost, (across, up) in zip(points, costs, places, strict=True):
        name = f"{point.arena_bytes:,} B, {in_text(cost)} {axis}: {_regions(point)}"
        circle = f'<circle class="point" cx="{across:.1f}" cy="{up:.1f}" r="{RADIUS}">'
        lines.append(f"{circle}{title_of(name)}</circle>")
        if labelled - up >= LABEL_HEIGHT:  # no label covers another one
            labelled = up
            lines.append(f'<text x="{across + 8:.1f}" y="{up - 6:.1f}">{point.arena_bytes:,}</text>')
            lines.append(f'<text x="{LEFT - 8}" y="{up:.1f}" dy="4" text-anchor="end">{in_text(cost)}</text>')
    lines.append("</svg>\n")
    return "\n".join(lines)


class _Scale:
    """A linear scale from values to pixels."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low, self._start = low, start
        self._factor = (end - start) / (high - low)

    def __call__(self, value: float) -> float:
        return self._start + (value - self._low) * self._factor


def _scale(values: Sequence[float], start: float, end: float) -> _Scale:
    low, high = min(values), max(values)
    margin = MARGIN * (high - low) or 1.0
    return _Scale(low - margin, high + margin, start, end)


def _regions(point: FrontPoint) -> str:
    regions = (f"operators {item.first} to {item.last} in {item.stripes} stripes" for item in point.regions)
    return ", ".join(regions) or "no stripes"


def _style() -> str:
    fixed = ".line{fill:none;stroke-width:1.5}.limit{stroke-width:1.5;stroke-dasharray:6 4}.grid{stroke-width:.5}"
    light, dark = (page_rules(theme) + _rules(theme) for theme in (0, 1))
    return f"{fixed}{light}@media(prefers-color-scheme:dark){{{dark}}}"


def _rules(theme: int) -> str:
    point, limit = (pair[theme] for pair in COLOURS)
    return f".point{{fill:{point}}}.line{{stroke:{point}}}.limit{{stroke:{limit}}}"
