"""edgetool layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from edgetool.cli.errors import INTERRUPTED
from edgetool.cli.options import PATH, SIZE, force_option, json_option, quiet_options
from edgetool.cli.output import ProgressLine, deliver, notice, print_lines
from edgetool.cli.text import printable
from edgetool.errors import FailedCheckError


@click.command("layout")
@click.argument("instance", type=PATH)
@click.option("--capacity", type=SIZE, metavar="SIZE", help="Memory to fit, e.g. 1MiB: any layout that fits will do.")
@click.option("--output", "-o", type=PATH, help="Write the instance with its offsets to this file.")
@click.option(
    "--strategy",
    type=click.Choice(["optimal", "greedy", "tflm", "cp-sat"]),
    help="How to search; optimal when not given, tflm is TFLM's own greedy planner.",
)
@click.option(
    "--sharing",
    type=click.Choice(["greedy", "dynamic-programming"]),
    help="Whole buffers that several share, one after another, instead of a layout.",
)
@click.option("--time-limit", type=float, default=60.0, show_default=True, help="Seconds to search.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the search.")
@click.option("--constants-in-ram", is_flag=True, help="Place the constants of a graph too, each use on its own.")
@json_option
@force_option
@quiet_options
def command(
    instance: Path, output: Path | None, as_json: bool, force: bool, quiet: bool, verbose: int, **options: Any
) -> None:
    """Find the lowest layout of the buffers in INSTANCE.

    INSTANCE is a CSV with the columns id, lower, upper and size (as for MiniMalloc), or a graph as JSON. The search
    says whether its layout is the lowest there is. Ctrl-C ends it with the best layout so far. Exit code 1 when the
    layout does not fit the capacity.
    """
    from edgetool.cli.view_layout import layout_view
    from edgetool.pipeline.layout import layout_instance
    from edgetool.report.layout import layout_document
    from edgetool.report.serialize import to_json

    with ProgressLine(quiet=quiet or as_json) as progress:
        report = layout_instance(instance, output=output, force=force, progress=progress, **options)
    if as_json:
        deliver(to_json(layout_document(report)), None)
    elif not quiet:
        print_lines(layout_view(report, everything=verbose > 0))
    if output is not None and not quiet:
        notice(f"wrote {printable(str(output), 400)}")
    if report.interrupted:
        notice("interrupted: the best layout so far")
        click.get_current_context().exit(INTERRUPTED)
    failed = [finding.message for finding in report.findings if finding.level == "error"]
    if failed:
        raise FailedCheckError(failed[0], where=report.instance.name)
