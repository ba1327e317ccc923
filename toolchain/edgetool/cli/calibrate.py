"""edgetool calibrate."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from edgetool.cli.command import Command, option
from edgetool.cli.options import PATH, force_option, json_option, quiet_options, target_options
from edgetool.cli.output import deliver, duration, fact, notice, print_lines, printable, table, width, wrapped
from edgetool.cli.view import finding_lines
from edgetool.errors import EdgetoolError, UsageError
from edgetool.figure import significant

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgetool.report.calibration import (
        CalibratedTiming,
        CalibrationInfo,
        CalibrationReport,
        DeviceInfo,
        MeasuredModel,
    )

HEADER = ("measured", "before", "now", "off by")
MIN_NAME_COLUMNS = 20
OPERATORS = 5  # number shown without --verbose
COUNTERS = {"own": "a custom counter", "tflm": "TFLM's clock"}


def calibrate_view(report: CalibrationReport, written: Path, *, every_operator: bool = False) -> list[str]:
    """Show what changed, how well the measurements fit, what the devices reported, and how to use the profile."""
    calibration = report.calibration
    count = f"{len(calibration.models)} measurement{'' if len(calibration.models) == 1 else 's'}"
    title = f"{printable(calibration.profile)}: {report.target.name} calibrated on {count}"
    lines = [click.style(title, bold=True), ""]
    before, after = calibration.before, calibration.after
    low, high = calibration.cpi_limits
    lines += fact(
        "CPI", f"{_changed(before, after, _cpi)} cycles per instruction (possible range: {low:g} to {high:g})"
    )
    if calibration.region is not None and after.stall_cycles_per_byte is not None:
        region = printable(calibration.region)
        lines += fact("Stall", f"{_changed(before, after, _stall)} cycles per byte of constants in {region}")
    lines += fact("Band", f"{_changed(before, after, _band)} times the estimate for a model")
    lines += fact("", f"{_changed(before, after, _operator_band)} times the estimate for an operator")
    lines += fact("Basis", f"{after.status}: {printable(after.basis, 400)}")
    lines += ["", *_models(calibration)]
    for model in calibration.models:
        if model.device is not None:
            lines += ["", *_device(model, model.device, every_operator=every_operator)]
    runtime = " --runtime native" if calibration.kernels == "native" else ""
    lines += ["", f"  Use it: edgetool estimate MODEL --target {_argument(written)}{runtime}"]
    return lines + finding_lines(report.findings)


def _models(calibration: CalibrationInfo) -> list[str]:
    rows = [
        (
            duration(model.measured_ms, 4),
            "-" if model.before_ms is None else duration(model.before_ms, 4),
            duration(model.after_ms, 4),
            f"{round(100 * model.residual, 1) + 0.0:+.1f} %",  # -0.0 is no deviation
        )
        for model in calibration.models
    ]
    used = sum(2 + max(len(row[column]) for row in (HEADER, *rows)) for column in range(len(HEADER)))
    columns = max(MIN_NAME_COLUMNS, width() - 2 - used)
    named = [(printable(model.name, columns), *row) for model, row in zip(calibration.models, rows, strict=True)]
    return [f"  {line}" for line in table(("model", *HEADER), named, "<>>>>")]


def _device(model: MeasuredModel, device: DeviceInfo, *, every_operator: bool) -> list[str]:
    """Show what the device reported about a model: its arena, and the operators with the least accurate estimates."""
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
    """Return the profile's path, quoted for a shell, and with ./ in front if --target would read it as a name."""
    from edgetool.pipeline.targets import is_path

    name = str(written)
    return printable(shlex.quote(name if is_path(name) else f"./{name}"), 400)


def _changed(before: CalibratedTiming | None, after: CalibratedTiming, show: Callable[[CalibratedTiming], str]) -> str:
    """Return a value and its previous one: "0.99 (was 1.54)"."""
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


class MeasurementType(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """A model and its time: kws.tflite=12.3ms. The path may contain "="."""

    name = "model=time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Path, float]:
        """Return the path and the time in milliseconds, or fail with a usage error that states the expected form."""
        if isinstance(value, tuple):
            return value
        from edgetool.target.quantity import parse_time

        path, equals, time = str(value).rpartition("=")
        if not equals or not path:
            self.fail(f"{value!r} is not of the form MODEL=TIME, for example kws.tflite=12.3ms", param, ctx)
        try:
            return Path(path), parse_time(time)
        except EdgetoolError as error:
            self.fail(error.what, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Let the shell complete file names."""
        return [CompletionItem(incomplete, type="file")]


@click.command(
    "calibrate",
    cls=Command,
    examples=(
        "edgetool calibrate -t nucleo-l476rg --measured kws.tflite=84.6ms -o mine.toml",
        "edgetool calibrate -t rpi-pico --log uart.txt -o mine.toml",
        "edgetool calibrate -t rpi-pico --log uart.txt kws.tflite -o mine.toml",
    ),
)
@click.argument("models", nargs=-1, type=PATH, metavar="[MODEL.tflite]...")
@target_options(required=True)
@option(
    "--measured",
    group="Model",
    type=MeasurementType(),
    multiple=True,
    metavar="MODEL=TIME",
    help="A .tflite and its time on the board, e.g. kws.tflite=12.3ms; repeatable.",
)
@option(
    "--log",
    "logs",
    group="Model",
    type=PATH,
    multiple=True,
    metavar="FILE",
    help="Output of profiling firmware ('edgetool emit --profile'); repeatable.",
)
@option(
    "--output", "-o", group="Output", type=PATH, required=True, metavar="FILE.toml", help="Write the profile to FILE."
)
@option("--name", group="Output", metavar="NAME", help="Name of the profile; by default the name of its file.")
@json_option
@force_option
@quiet_options
def command(
    models: tuple[Path, ...],
    target: str,
    measured: tuple[tuple[Path, float], ...],
    logs: tuple[Path, ...],
    output: Path,
    name: str | None,
    as_json: bool,
    force: bool,
    quiet: bool,
    verbose: int,
    **overrides: Any,
) -> None:
    """Make a profile of your own board from times that you measured on it.

    One model is enough to find the cycles per instruction. Several models, one of them small and one with many
    weights, also show how long the core waits for constants. Build the firmware as it will ship (-O2 or -O3), with the
    kernels and the clock given here. The profile extends the target and records what it was calibrated on.

    With --runtime native, the times are those of native code, and the profile keeps those of TFLM.

    A log identifies its models by their hashes: give their files, or keep each as NAME.tflite beside the log, in the
    current directory, or in NAME-firmware.
    """
    if not measured and not logs:
        raise UsageError("no measurement was specified", fix="add --measured MODEL=TIME or --log FILE")
    if models and not logs:
        raise UsageError("models were specified without a log", fix="add --log FILE, or use --measured MODEL=TIME")
    from edgetool.pipeline.calibrate import calibrate_target
    from edgetool.report.calibration import calibration_document
    from edgetool.report.json import to_json

    report = calibrate_target(
        target, measured, output=output, name=name, overrides=overrides, force=force, logs=logs, models=models
    )
    if as_json:
        deliver(to_json(calibration_document(report)), None)
    elif not quiet:
        print_lines(calibrate_view(report, output, every_operator=verbose > 0))
    if not quiet:
        notice(f"wrote {printable(str(output), 400)}")
