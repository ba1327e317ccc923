"""edgetool sweep run: the command, its progress line and its summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgetool.cli.command import Command, option
from edgetool.cli.errors import Terminated
from edgetool.cli.options import PATH, quiet_options
from edgetool.cli.output import ProgressLine, deliver, notice, print_lines, printable, width, wrapped
from edgetool.cli.sweep import json_option, read_rows, spec_path, store_option, store_path
from edgetool.errors import ConversionError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from edgetool.sweep.executor import SweepProgress
    from edgetool.sweep.run import RunResult

MINUTE, HOUR, DAY = 60, 3600, 86400
CLOCK_COLUMNS = 10  # what output.ProgressLine writes before it


def progress_text(advance: SweepProgress) -> str:
    """Return the progress: "12/36 jobs, 1 failed, about 3 min left: convert level 0.25 int8", cut to the line."""
    columns = max(width() - CLOCK_COLUMNS, 1)
    count = f"{advance.done}/{advance.total}"
    failed = [f"{advance.failed} failed"] if advance.failed else []
    is_timed = advance.seconds_left is not None and advance.done < advance.total
    left = [time_text(advance.seconds_left or 0.0)] if is_timed else []
    long = ", ".join([f"{count} jobs", *failed, *(f"about {text} left" for text in left)])
    short = ", ".join([count, *failed, *left])
    running = [printable(name, 400) for name in advance.running]
    some = [
        f"{', '.join(running[:shown])}{f', +{len(running) - shown}' if shown < len(running) else ''}"
        for shown in range(len(running), 0, -1)
    ]
    choices = [*(f"{long}: {names}" for names in some), *(f"{short}: {names}" for names in some[-1:]), long, short]
    return next((text for text in choices if len(text) <= columns), short[:columns])


def time_text(seconds: float) -> str:
    """Return a duration in at most two units: 45 s, 3 min, 1 h 20 min, 2 d 3 h."""
    whole = max(round(seconds), 1)
    if whole < MINUTE:
        return f"{whole} s"
    minutes = round(whole / MINUTE)
    if minutes < 60:
        return f"{minutes} min"
    if whole < DAY:
        return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")
    hours = round(whole / HOUR)
    return f"{hours // 24} d" + (f" {hours % 24} h" if hours % 24 else "")


def run_summary(result: RunResult, store: Path) -> list[str]:
    """Summarize the jobs computed, reused and failed, the time, and the location of the store."""
    parts = [f"{result.computed} jobs computed", f"{result.reused} reused"]
    if result.failed:
        parts.append(f"{result.failed} failed (--retry-failed tries again)")
    return wrapped(f"{', '.join(parts)}; {time_text(result.seconds)}; saved in {printable(str(store), 400)}", "  ")


@click.command(
    "run",
    cls=Command,
    examples=(
        "edgetool sweep run sweep.toml",
        "edgetool sweep run sweep.toml --jobs 4 --retry-failed",
        "edgetool sweep run sweep.toml --scheduler tcp://10.0.0.5:8786",
    ),
)
@click.argument("spec", type=PATH, required=False, metavar="[SWEEP.toml]")
@store_option
@option("--jobs", "-j", type=click.IntRange(1), metavar="N", help="Number of parallel jobs; by default one per CPU.")
@option("--scheduler", metavar="ADDRESS", help="Run on the workers of this Dask scheduler, tcp://HOST:PORT.")
@option(
    "--trust-model-code",
    group="Model",
    is_flag=True,
    help="Run the sweep's model builder, and load layers that contain Python code.",
)
@option("--retry-failed", is_flag=True, help="Rerun the variants that failed in an earlier run.")
@json_option
@quiet_options
def command(
    spec: Path | None,
    store: Path | None,
    jobs: int | None,
    scheduler: str | None,
    trust_model_code: bool,
    retry_failed: bool,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Run the sweep in SWEEP.toml (./sweep.toml by default) and show its variants, with the Pareto front marked.

    Each result is saved in the store as soon as it is computed. If a run was interrupted, or sweep.toml now contains
    more variants, the next run computes only what is missing. Changed budgets and limits require no recomputation. If a
    variant fails, the others still run. Exits with 4 if all fail.
    """
    from edgetool.sweep.run import run_sweep
    from edgetool.sweep.spec import read_spec

    path = spec_path(spec)
    if jobs is not None and scheduler is not None:
        raise UsageError("--jobs and --scheduler are mutually exclusive", fix="specify only one of them")
    kept = store_path(path, store)
    sweep_spec = read_spec(path, trust_model_code=trust_model_code)
    try:
        with ProgressLine(quiet=quiet or as_json) as line:
            result = run_sweep(
                sweep_spec,
                kept,
                jobs=jobs,
                scheduler=scheduler,
                retry_failed=retry_failed,
                progress=lambda advance: line(progress_text(advance)),
            )
    except (KeyboardInterrupt, Terminated):
        if kept.exists():
            notice(
                f"the results so far are saved in {printable(str(kept), 400)}; the same command continues from there"
            )
        raise
    record, rows = read_rows(kept)
    if as_json:
        from edgetool.report.json import to_json
        from edgetool.sweep.table import rows_json

        deliver(to_json(rows_json(record, rows)), None)
    elif not quiet:
        from edgetool.cli.view_sweep import sweep_view

        print_lines([*sweep_view(record, rows, everything=verbose > 0), "", *run_summary(result, kept)])
    failed = [row for row in rows if row.status == "failed"]
    if rows and len(failed) == len(rows):
        if quiet or as_json:
            raise ConversionError(f"every variant failed; the first reason: {failed[0].reason}", where=str(path))
        raise click.exceptions.Exit(ConversionError.exit_code)
