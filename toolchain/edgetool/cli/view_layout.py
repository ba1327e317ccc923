"""The view of `edgetool layout`."""

from __future__ import annotations

import click

from edgetool.cli.text import fact, kib, printable, table, width
from edgetool.cli.view import PROOFS, finding_lines
from edgetool.cli.view_verdict import Verdict, closing
from edgetool.figure import significant
from edgetool.report.layout import LayoutInfo, LayoutReport, PlacedBuffer

SHOWN = 40
LEAST_NAME_COLUMNS = 12


def layout_view(report: LayoutReport, *, everything: bool) -> list[str]:
    """Height, what it saves, how good it is, and where each buffer lies."""
    layout = report.layout
    count = f"{len(layout.buffers):,} buffer{'' if len(layout.buffers) == 1 else 's'}"
    lines = [f"{click.style(printable(report.instance.name), bold=True)}: {count}", ""]
    if layout.fits is not None:
        yes = {"fg": "green" if layout.fits else "red", "bold": True}
        lines += fact("Fits", f"{'yes' if layout.fits else 'no'}, in {kib(layout.capacity)}", style=yes)
    lines += fact("Height", kib(layout.height))
    ratio = "" if layout.ratio is None else f", {significant(layout.ratio)} times the height"
    lines += fact("Naive sum", f"{kib(layout.naive_bytes)}{ratio}")
    lines += fact("Lower bound", kib(layout.lower_bound))
    lines += fact("Proof", _proof(layout))
    if layout.shared is None:
        lines += fact("Strategy", layout.strategy)
    else:
        lines += fact("Sharing", f"{layout.strategy}, {len(layout.shared):,} shared buffers")
    lines += ["", *_buffers(layout.buffers, len(layout.buffers) if everything else SHOWN)]
    lines += finding_lines(report.findings)
    return [*lines, *closing(_verdict(layout), lines)]


def _verdict(layout: LayoutInfo) -> Verdict:
    if layout.fits is None or layout.capacity is None:
        return Verdict(f"Height {kib(layout.height)}: {_proof(layout)}", negative=False)
    judged = "Fits" if layout.fits else "Does not fit"
    return Verdict(f"{judged}: height {layout.height:,} of {layout.capacity:,} B", negative=not layout.fits)


def _proof(layout: LayoutInfo) -> str:
    if layout.optimal:
        return f"optimal ({PROOFS[layout.proof]})"
    gap = layout.height - layout.lower_bound
    percent = f" ({significant(100 * gap / layout.lower_bound, 2)} %)" if layout.lower_bound else ""
    return f"none: {gap:,} B{percent} above the lower bound"


def _buffers(buffers: tuple[PlacedBuffer, ...], shown: int) -> list[str]:
    """The first so many buffers in the file's order: the bytes from start to before end, alive from lower to upper."""
    if not buffers:
        return ["  no buffer needs memory"]
    header = ("start", "end", "size", "lower", "upper")
    rows = [
        (f"{b.offset:,}", f"{b.offset + b.size:,}", f"{b.size:,}", str(b.lower), str(b.upper)) for b in buffers[:shown]
    ]
    used = sum(2 + max(len(row[column]) for row in (header, *rows)) for column in range(len(header)))
    room = max(LEAST_NAME_COLUMNS, width() - 2 - used)
    named = [(*row, printable(buffer.id, room)) for row, buffer in zip(rows, buffers, strict=False)]
    lines = [f"  {line}" for line in table((*header, "id"), named, ">>>>><")]
    if shown < len(buffers):
        lines.append(f"  ... and {len(buffers) - shown:,} more (-v shows all)")
    return lines
