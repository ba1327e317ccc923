"""The view of `edgetool estimate` for several targets: side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from edgetool.cli.text import (
    ENERGY_UNITS,
    TIME_UNITS,
    duration,
    in_common_unit,
    printable,
    table,
    width,
    wrapped,
)
from edgetool.cli.view import finding_lines, without_shared
from edgetool.cli.view_estimate import estimate_view
from edgetool.cli.view_latency import percent, status
from edgetool.figure import significant
from edgetool.report.document import Band, MemoryInfo, Report

Format = Callable[[float], str]
LEAST_NAME_COLUMNS = 12
BANDWIDTH = "BW: the share of the memory bandwidth that is used."


def comparison_view(reports: Sequence[Report], *, by: str, everything: bool) -> list[str]:
    """A line per target, and its problems; everything: the view of each target too."""
    interval = next((r.estimate.interval_ms for r in reports if r.estimate is not None), None)
    load = "BW" if interval is None else "busy"
    estimates = [report.estimate for report in reports if report.estimate is not None]
    time = in_common_unit([item.latency_ms.value for item in estimates if item.latency_ms is not None], TIME_UNITS)
    power = in_common_unit([item.energy_uj.value for item in estimates if item.energy_uj is not None], ENERGY_UNITS)
    rows = [_row(report, load, time, power) for report in reports]
    header = ("MHz", "time", "band", "fits", "energy", load, "validation")
    used = sum(2 + max(len(row[column]) for row in (header, *rows)) for column in range(len(header)))
    room = max(LEAST_NAME_COLUMNS, width() - 2 - used)
    named = [(printable(_name(report), room), *row) for report, row in zip(reports, rows, strict=True)]
    lines = [click.style(printable(reports[0].model.name), bold=True), ""]
    lines += [f"  {line}" for line in table(("target", *header), named, "<>>><>><")]
    told = BANDWIDTH if interval is None else f"busy: the share of each {duration(interval)} spent on inference."
    lines += ["", *wrapped(told, "  "), *_measured(reports)]
    own, shared = without_shared(reports)
    for report in own:
        if everything:
            lines += ["", *estimate_view(report, by=by, everything=True)]
        elif grave := tuple(finding for finding in report.findings if finding.level != "note"):
            lines += ["", f"  {printable(_name(report))}", *finding_lines(grave)[1:]]
    lines += finding_lines([item for item in shared if everything or item.level != "note"], everything=everything)
    return lines if everything else [*lines, "", "  -v shows each target with its operators."]


def _row(report: Report, load: str, time: Format, power: Format) -> tuple[str, ...]:
    estimate = report.estimate
    assert estimate is not None
    clock = report.provenance.options.get("clock_hz")
    return (
        f"{clock / 1e6:g}" if isinstance(clock, int | float) else "?",
        "-" if estimate.latency_ms is None else time(estimate.latency_ms.value),
        "-" if estimate.latency_ms is None else _range(estimate.latency_ms, time),
        _fits(report.memory),
        "-" if estimate.energy_uj is None else power(estimate.energy_uj.value),
        _share(estimate.bandwidth_utilization if load == "BW" else estimate.stream_utilization),
        status(estimate),
    )


def _name(report: Report) -> str:
    return report.target.name if report.target is not None else "?"


def _range(band: Band, time: Format) -> str:
    """As in "22-28 ms"."""
    return f"{time(band.low).partition(' ')[0]}-{time(band.high)}"


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
