"""edgetool sweep run."""

from __future__ import annotations

from pathlib import Path

import click

from edgetool.cli.command import Command, option
from edgetool.cli.errors import Terminated
from edgetool.cli.options import PATH, quiet_options
from edgetool.cli.output import ProgressLine, deliver, notice, print_lines
from edgetool.cli.sweep_options import json_option
from edgetool.cli.sweep_source import read_rows, spec_path, store_option, store_path
from edgetool.cli.text import printable
from edgetool.errors import ConversionError, UsageError


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
    wanted = read_spec(path, trust_model_code=trust_model_code)
    try:
        with ProgressLine(quiet=quiet or as_json) as line:
            from edgetool.cli.view_sweep_progress import progress_text

            result = run_sweep(
                wanted,
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
        from edgetool.cli.view_sweep_run import run_summary

        print_lines([*sweep_view(record, rows, everything=verbose > 0), "", *run_summary(result, kept)])
    failed = [row for row in rows if row.status == "failed"]
    if rows and len(failed) == len(rows):
        if quiet or as_json:
            raise ConversionError(f"every variant failed; the first reason: {failed[0].reason}", where=str(path))
        raise click.exceptions.Exit(ConversionError.exit_code)
