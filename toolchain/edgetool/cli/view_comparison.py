"""The view of `edgetool estimate` for several targets: side by side."""

from __future__ import annotations

from collections.abc import Sequence

import click

from edgetool.cli.text import duration, energy, printable, significant, table, width, wrapped
from edgetool.cli.view import finding_lines
from edgetool.cli.view_estimate import estimate_view
from edgetool.cli.view_latency import percent, status
from edgetool.report.document import MemoryInfo, Report
from edgetool.report.estimate import Band

LEAST_NAME_COLUMNS = 12
BANDWIDTH = "BW: the share of the memory's bandwidth that is used."


def comparison_view(reports: Sequence[Report], *, by: str, everything: bool) -> list[str]:
    """A line per target, and what is wrong with any; each target's own view where everything is wanted."""
    interval = next((r.estimate.interval_ms for r in reports if r.estimate is not None), None)
    load = "BW" if interval is None else "busy"
    rows = [_row(report, load) for report in reports]
    header = ("MHz", "time", "band", "fits", "energy", load, "validation")
    used = sum(2 + max(len(row[column]) for row in (header, *rows)) for column in range(len(header)))
    room = max(LEAST_NAME_COLUMNS, width() - 2 - used)
    named = [(printable(_name(report), room), *row) for report, row in zip(reports, rows, strict=True)]
    lines = [click.style(printable(reports[0].model.name), bold=True), ""]
    lines += [f"  {line}" for line in table(("target", *header), named, "<>>><>><")]
    told = BANDWIDTH if interval is None else f"busy: the share of every {duration(interval)} in which it infers."
    lines += ["", *wrapped(told, "  "), *_measured(reports)]
    for report in reports:
        if everything:
            lines += ["", *estimate_view(report, by=by, everything=True)]
        elif grave := tuple(finding for finding in report.findings if finding.level != "note"):
            lines += ["", f"  {printable(_name(report))}", *finding_lines(grave)[1:]]
    return lines if everything else [*lines, "", "  -v shows each target with its operators."]


def _row(report: Report, load: str) -> tuple[str, ...]:
    estimate = report.estimate
    assert estimate is not None
    clock = report.provenance.options.get("clock_hz")
    return (
        f"{clock / 1e6:g}" if isinstance(clock, int | float) else "?",
        "-" if estimate.latency_ms is None else duration(estimate.latency_ms.value),
        "-" if estimate.latency_ms is None else _range(estimate.latency_ms),
        _fits(report.memory),
        "-" if estimate.energy_uj is None else energy(estimate.energy_uj.value),
        _share(estimate.bandwidth_utilization if load == "BW" else estimate.stream_utilization),
        status(estimate),
    )


def _name(report: Report) -> str:
    return report.target.name if report.target is not None else "?"


def _range(band: Band) -> str:
    """As in "22-28 ms"; both ends in the unit of the upper one, which is told once."""
    high = duration(band.high)
    number, _, unit = high.rpartition(" ")
    factor = {"s": 1e-3, "ms": 1.0, "us": 1e3}[unit]
    return f"{significant(band.low * factor, 2)}-{number} {unit}" if high[0].isdigit() else high


def _fits(memory: MemoryInfo | None) -> str:
    judged = (None, None) if memory is None else (memory.arena_fits, memory.model_fits)
    if False in judged:
        return "no"
    return "?" if None in judged else "yes"


def _share(share: float | None) -> str:
    return "-" if share is None else percent(share)


def _measured(reports: Sequence[Report]) -> list[str]:
    """The run that each target's own view compares with."""
    run = next((r.estimate.measured for r in reports if r.estimate is not None and r.estimate.measured), None)
    if run is None:
        return []
    return wrapped(f"Measured: {significant(run.latency_ms)} ms, {printable(run.source, 200)}.", "  ")
