"""What `edgetool plan --front` prints: plans with smaller and smaller arenas, and what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetool.cli.output import durations, short_size, table, wrapped
from edgetool.cli.view import finding_lines, heading

if TYPE_CHECKING:
    from edgetool.report.document import FrontPoint, Report

STEPS = {
    "layout": "order and layout",
    "overlap": "order, layout and overlap",
    "pixel-order": "1x1 convolutions in pixel order",
}
VERIFIED = {None: "", True: "equal", False: "DIFFER"}


def front_view(report: Report, *, everything: bool) -> list[str]:
    """Show a line for each plan, the largest arena first, and mark the first one that fits the target."""
    points = report.front
    sram = None if report.memory is None else report.memory.sram_bytes
    fitting = next((point for point in points if sram is not None and point.arena_bytes <= sram), None)
    times = durations([None if point.latency_ms is None else point.latency_ms.value for point in points], 3)
    rows = [
        (
            "*" if point is fitting else "",
            f"{point.arena_bytes:,}",
            f"{point.extra_macs_percent:.1f} %",
            time,
            short_size(point.model_bytes),
            str(point.operators),
            VERIFIED[point.verified],
            _how(point),
        )
        for point, time in zip(points, times, strict=True)
    ]
    header = ("", "arena B", "extra MACs", "latency", "model", "operators", "outputs", "operators in stripes")
    shown = [
        place for place in range(len(header)) if place in (0, 7) or any(row[place] not in ("", "-") for row in rows)
    ]
    cells = [tuple(row[place] for place in shown) for row in (header, *rows)]
    align = "".join("<>>>>><<"[place] for place in shown)
    lines = [heading(report), "", *(line.rstrip() for line in table(cells[0], cells[1:], align))]
    if sram is not None:
        text = f"* fits the {sram:,} B of the target's memory" if fitting else f"none fits the {sram:,} B of the target"
        lines += ["", *wrapped(text, "    ", "  ")]
    if len(points) == 1:
        lines += ["", *wrapped("no stripes make the arena smaller", "  ")]
    return lines + finding_lines(report.findings, everything=everything)


def _how(point: FrontPoint) -> str:
    regions = (f"{item.first}-{item.last} in {item.stripes}" for item in point.regions)
    return ", ".join(regions) or f"none: {STEPS[point.step]}"
