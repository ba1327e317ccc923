"""The view of `edgetool calibrate`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import click

from edgetool.cli.text import duration, fact, printable, significant, table, width
from edgetool.cli.view import finding_lines
from edgetool.pipeline.targets import is_path
from edgetool.report.calibration import CalibratedTiming, CalibrationInfo, CalibrationReport

HEADER = ("measured", "before", "now", "off by")
LEAST_NAME_COLUMNS = 20


def calibrate_view(report: CalibrationReport, written: Path) -> list[str]:
    """What changed, how well the measurements fit, and how to use the profile."""
    found = report.calibration
    count = f"{len(found.models)} measurement{'' if len(found.models) == 1 else 's'}"
    title = f"{printable(found.profile)}: {report.target.name} calibrated on {count}"
    lines = [click.style(title, bold=True), ""]
    before, after = found.before, found.after
    low, high = found.cpi_limits
    lines += fact("CPI", f"{_changed(before, after, _cpi)} cycles per instruction ({low:g} to {high:g} is possible)")
    if found.region is not None and after.stall_cycles_per_byte is not None:
        region = printable(found.region)
        lines += fact("Stall", f"{_changed(before, after, _stall)} cycles per byte of constants in {region}")
    lines += fact("Band", f"{_changed(before, after, _band)} times the estimate of a model")
    lines += fact("", f"{_changed(before, after, _operator_band)} times that of an operator")
    lines += fact("Basis", f"{after.status}: {printable(after.basis, 400)}")
    lines += ["", *_models(found)]
    lines += ["", f"  Use it: edgetool estimate MODEL --target {_argument(written)}"]
    return lines + finding_lines(report.findings)


def _models(found: CalibrationInfo) -> list[str]:
    rows = [
        (
            duration(model.measured_ms, 4),
            "-" if model.before_ms is None else duration(model.before_ms, 4),
            duration(model.after_ms, 4),
            f"{round(100 * model.residual, 1) + 0.0:+.1f} %",  # -0.0 is no deviation
        )
        for model in found.models
    ]
    used = sum(2 + max(len(row[column]) for row in (HEADER, *rows)) for column in range(len(HEADER)))
    room = max(LEAST_NAME_COLUMNS, width() - 2 - used)
    named = [(printable(model.name, room), *row) for model, row in zip(found.models, rows, strict=True)]
    return [f"  {line}" for line in table(("model", *HEADER), named, "<>>>>")]


def _argument(written: Path) -> str:
    """The profile's path as a shell takes it, and as --target tells it from a name."""
    name = str(written)
    return printable(shlex.quote(name if is_path(name) else f"./{name}"), 400)


def _changed(before: CalibratedTiming | None, after: CalibratedTiming, show: Callable[[CalibratedTiming], str]) -> str:
    """As in "0.99 (was 1.54)"."""
    now = show(after)
    return now if before is None or show(before) == now else f"{now} (was {show(before)})"


def _cpi(timing: CalibratedTiming) -> str:
    return significant(timing.cpi)


def _stall(timing: CalibratedTiming) -> str:
    stall = timing.stall_cycles_per_byte
    return "unknown" if stall is None else significant(stall)


def _band(timing: CalibratedTiming) -> str:
    return "{:.3g} to {:.3g}".format(*timing.band)


def _operator_band(timing: CalibratedTiming) -> str:
    return "{:.3g} to {:.3g}".format(*timing.operator_band)
