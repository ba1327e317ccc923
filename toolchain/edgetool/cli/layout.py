"""edgetool layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from edgetool.cli.command import Command, option
from edgetool.cli.errors import INTERRUPTED
from edgetool.cli.options import PATH, SIZE, force_option, json_option, quiet_options
from edgetool.cli.output import ProgressLine, deliver, notice, print_lines
from edgetool.cli.text import printable
from edgetool.errors import FailedCheckError


@click.command(
    "layout",
    cls=Command,
    examples=(
        "edgetool layout buffers.csv",
        "edgetool layout buffers.csv --capacity 64KiB -o placed.csv",
        "edgetool layout graph.json --constants-in-ram",
    ),
)
@click.argument("instance", type=PATH)
@option(
    "--capacity",
    group="Limits",
    type=SIZE,
    metavar="SIZE",
    help="Size of the memory, e.g. 1MiB: accept the first layout that fits.",
)
@option("--output", "-o", group="Output", type=PATH, metavar="FILE", help="Write the instance with offsets to FILE.")
@option(
    "--strategy",
    group="Memory plan",
    type=click.Choice(["optimal", "greedy", "tflm", "cp-sat"]),
    help="Search algorithm; optimal by default. tflm is TFLM's own greedy planner.",
)
@option(
    "--sharing",
    group="Memory plan",
    type=click.Choice(["greedy", "dynamic-programming"]),
    help="Assign shared buffers instead of computing a layout.",
)
@option(
    "--time-limit",
    group="Limits",
    type=float,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for the search.",
)
@option(
    "--seed",
    group="Memory plan",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Seed for the search.",
)
@option(
    "--constants-in-ram",
    group="Memory plan",
    is_flag=True,
    help="Also place the graph's constants, each only for as long as an operator uses it.",
)
@json_option
@force_option
@quiet_options
def command(
    instance: Path, output: Path | None, as_json: bool, force: bool, quiet: bool, verbose: int, **options: Any
) -> None:
    """Find the smallest memory layout of the buffers in INSTANCE.

    INSTANCE is a CSV file with the columns id, lower, upper and size (as for MiniMalloc), or a graph as JSON. The
    result states whether the layout is proven optimal. Ctrl-C ends the search with the best layout so far. Exits with 1
    if the layout does not fit the capacity.
    """
    from edgetool.cli.view_layout import layout_view
    from edgetool.pipeline.layout import layout_instance
    from edgetool.report.json import to_json
    from edgetool.report.layout import layout_document

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
