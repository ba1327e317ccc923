"""The view of `edgetool calibrate`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import click

from edgetool.cli.text import duration, fact, printable, table, width, wrapped
from edgetool.cli.view import finding_lines
from edgetool.figure import significant
from edgetool.pipeline.targets import is_path
from edgetool.report.calibration import (
    CalibratedTiming,
    CalibrationInfo,
    CalibrationReport,
    DeviceInfo,
    MeasuredModel,
)

HEADER = ("measured", "before", "now", "off by")
LEAST_NAME_COLUMNS = 20
OPERATORS = 5  # so many are shown without --verbose
COUNTERS = {"own": "a custom counter", "tflm": "TFLM's clock"}


def calibrate_view(report: CalibrationReport, written: Path, *, every_operator: bool = False) -> list[str]:
    """What changed, how well the measurements fit, what the devices said of operators, and how to use the profile."""
    found = report.calibration
    count = f"{len(found.models)} measurement{'' if len(found.models) == 1 else 's'}"
    title = f"{printable(found.profile)}: {report.target.name} calibrated on {count}"
    lines = [click.style(title, bold=True), ""]
    before, after = found.before, found.after
    low, high = found.cpi_limits
    lines += fact(
        "CPI", f"{_changed(before, after, _cpi)} cycles per instruction (possible range: {low:g} to {high:g})"
    )
    if found.region is not None and after.stall_cycles_per_byte is not None:
        region = printable(found.region)
        lines += fact("Stall", f"{_changed(before, after, _stall)} cycles per byte of constants in {region}")
    lines += fact("Band", f"{_changed(before, after, _band)} times the estimate for a model")
    lines += fact("", f"{_changed(before, after, _operator_band)} times the estimate for an operator")
    lines += fact("Basis", f"{after.status}: {printable(after.basis, 400)}")
    lines += ["", *_models(found)]
    for model in found.models:
        if model.device is not None:
            lines += ["", *_device(model, model.device, every_operator=every_operator)]
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


def _device(model: MeasuredModel, device: DeviceInfo, *, every_operator: bool) -> list[str]:
    """What the device said of a model: its arena, and the operators that the estimate is farthest from."""
    spread = f"{duration(device.min_ms, 4)} to {duration(device.max_ms, 4)}"
    counter = COUNTERS.get(device.counter, printable(device.counter))
    lines = wrapped(f"{printable(model.name)}: {device.runs} runs, {spread}, timed by {counter}", "    ", "  ")
    account = device.account_used_bytes
    if account is None:
        judged = "not compared: edgetool has no exact figure"
    elif account == device.arena_used_bytes:
        judged = "as edgetool predicts"
    else:
        judged = f"but edgetool predicts {account:,}"
    lines += fact("Arena", f"{device.arena_used_bytes:,} bytes used, {judged}")
    if not model.operators:
        return lines
    ordered = sorted(model.operators, key=lambda item: -abs(item.measured_ms - (item.estimated_ms or item.measured_ms)))
    shown = ordered if every_operator else ordered[:OPERATORS]
    rows = [
        (
            f"{item.index} {printable(item.operator, 30)}",
            duration(item.measured_ms, 3),
            "-" if item.estimated_ms is None else duration(item.estimated_ms, 3),
            "-" if item.ratio is None else f"{item.ratio:.2f}",
        )
        for item in shown
    ]
    lines += [f"  {line}" for line in table(("operator", "measured", "estimated", "ratio"), rows, "<>>>")]
    if len(shown) < len(ordered):
        lines.append(f"  and {len(ordered) - len(shown)} more with smaller deviations (-v shows all)")
    return lines


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
