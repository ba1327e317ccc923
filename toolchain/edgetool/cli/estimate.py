"""edgetool estimate."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from edgetool.cli.command import Command, option
from edgetool.cli.options import (
    PATH,
    POSITIVE,
    Positive,
    custom_operators_option,
    force_option,
    json_option,
    quiet_options,
    report_option,
    stacked,
    target_options,
)
from edgetool.cli.output import ProgressLine, deliver, notice, print_lines
from edgetool.cli.text import printable


class Folder(click.Path):
    """The path of a directory; an empty one, as of a variable that is not set, is not the current directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, or a usage error for an empty one."""
        if not str(value).strip():
            self.fail("the name of the directory is empty ('.' is the current one)", param, ctx)
        return super().convert(value, param, ctx)


given = partial(option, group="Other")
request_options = stacked(
    given(
        "--interval-ms",
        type=POSITIVE,
        metavar="MS",
        help="Interval between inferences, to compute how busy the core is.",
    ),
    given("--measured-ms", type=POSITIVE, metavar="MS", help="Time that you measured on the board, for comparison."),
    given(
        "--benchmark",
        type=click.IntRange(1, 100_000),
        metavar="N",
        help="Run the model N times with LiteRT on this machine, and show its bandwidth and GMAC/s.",
    ),
    given(
        "--power-mw",
        type=POSITIVE,
        metavar="MW",
        help="Power that your board draws during inference, to estimate energy.",
    ),
    given(
        "--clock-scale",
        type=Positive(1e-3, 10.0),
        metavar="FACTOR",
        help="Multiply the clock by this factor, e.g. 0.5 for a board throttled to half its clock.",
    ),
)


@click.command(
    "estimate",
    cls=Command,
    examples=(
        "edgetool estimate model.tflite --target nucleo-l4r5zi",
        "edgetool estimate model.tflite -t rpi-pico -t esp32-s3 -t teensy41",
        "edgetool estimate model.tflite -t rpi-pico --interval-ms 500 --csv tables/",
    ),
)
@click.argument("model", type=PATH)
@target_options(required=True, multiple=True)
@request_options
@option(
    "--by",
    group="Output",
    type=click.Choice(["time", "order"]),
    default="time",
    show_default=True,
    help="List the operators slowest first, or in execution order.",
)
@option(
    "--csv", group="Output", type=Folder(path_type=Path), metavar="DIR", help="Write the tables as CSV files into DIR."
)
@option(
    "--time-limit",
    group="Memory plan",
    type=click.FloatRange(0.01),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for the search for a plan.",
)
@custom_operators_option
@json_option
@report_option
@force_option
@quiet_options
def command(
    model: Path,
    target: tuple[str, ...],
    interval_ms: float | None,
    measured_ms: float | None,
    benchmark: int | None,
    power_mw: float | None,
    clock_scale: float | None,
    by: str,
    csv: Path | None,
    time_limit: float,
    custom_operators: Path | None,
    as_json: bool,
    output: Path | None,
    force: bool,
    quiet: bool,
    verbose: int,
    **overrides: Any,
) -> None:
    """Estimate how long one inference of MODEL, a .tflite file, takes on each target, and what limits it.

    Times and energy are printed with a band and their basis. Several targets are shown side by side. --csv writes
    operator_profile.csv, hardware_totals.csv and hardware_summary.csv, in a folder per target if there are several.
    """
    from edgetool.cli.view_comparison import comparison_view
    from edgetool.cli.view_estimate import estimate_view
    from edgetool.cli.view_verdict import closing, joint_verdict
    from edgetool.pipeline.estimate import estimate_file
    from edgetool.pipeline.estimate_request import EstimateRequest
    from edgetool.pipeline.targets import resolve_named
    from edgetool.report.json import documents, to_json

    targets = [found for found in (resolve_named(name, **overrides) for name in target) if found is not None]
    request = EstimateRequest(
        measured_ms=measured_ms,
        benchmark_runs=benchmark,
        interval_ms=interval_ms,
        power_mw=power_mw,
        clock_scale=clock_scale,
        time_limit=time_limit,
    )
    inputs = (model,) if custom_operators is None else (model, custom_operators)
    with ProgressLine(quiet=quiet or as_json) as progress:
        reports = estimate_file(model, targets, custom_operators=custom_operators, request=request, progress=progress)
    if csv is not None:
        from edgetool.pipeline.estimate_tables import write_tables

        written = write_tables(reports, csv, force=force, inputs=inputs)
        if not quiet:
            notice(f"wrote {len(written)} tables to {printable(str(csv), 400)}")
    verdict = joint_verdict(reports)
    if as_json or output is not None:
        deliver(to_json(documents(reports)), output, force=force, quiet=quiet, inputs=inputs)
        if output is not None and not quiet and verdict.negative:
            notice(printable(verdict.text, 400))
    elif not quiet:
        everything = verbose > 0
        if len(reports) == 1:
            lines = estimate_view(reports[0], by=by, everything=everything)
        else:
            lines = comparison_view(reports, by=by, everything=everything)
        print_lines([*lines, *closing(verdict, lines)])
