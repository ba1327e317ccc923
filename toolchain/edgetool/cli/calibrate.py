"""edgetool calibrate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from edgetool.cli.command import Command, option
from edgetool.cli.options import PATH, force_option, json_option, quiet_options, target_options
from edgetool.cli.output import deliver, notice, print_lines
from edgetool.cli.text import printable
from edgetool.errors import EdgetoolError, UsageError


class Measurement(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """A model and its time, as in kws.tflite=12.3ms; the path may hold an "=" of its own."""

    name = "model=time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Path, float]:
        """The path and the milliseconds, or a usage error that says what was expected."""
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
        """Files, for the shell."""
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
    type=Measurement(),
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

    A log identifies its models by their hashes: give their files, or keep each as NAME.tflite beside the log, in the
    current directory, or in NAME-firmware.
    """
    if not measured and not logs:
        raise UsageError("no measurement was specified", fix="add --measured MODEL=TIME or --log FILE")
    if models and not logs:
        raise UsageError("models were specified without a log", fix="add --log FILE, or use --measured MODEL=TIME")
    from edgetool.cli.view_calibrate import calibrate_view
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
