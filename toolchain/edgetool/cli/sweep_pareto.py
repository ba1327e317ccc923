"""edgetool sweep pareto."""

from __future__ import annotations

from pathlib import Path

import click

from edgetool.cli.command import Command, option
from edgetool.cli.options import PATH, force_option, quiet_options
from edgetool.cli.output import deliver, notice, print_lines
from edgetool.cli.sweep_options import AXIS, axes_help, csv_option, json_option, one_form, picture_format
from edgetool.cli.sweep_source import find_store, of_targets, read_rows, source_options
from edgetool.cli.text import printable
from edgetool.errors import UsageError


@click.command(
    "pareto",
    cls=Command,
    examples=(
        "edgetool sweep pareto sweep.toml --plot front.svg",
        "edgetool sweep pareto sweep.toml --x arena_bytes --y accuracy",
        "edgetool sweep pareto sweep.toml --axis energy_uj --target rpi-pico",
    ),
)
@source_options
@option(
    "--x",
    group="Model",
    type=AXIS,
    default="latency_ms",
    show_default=True,
    metavar="FIGURE",
    help=f"First axis: {axes_help}.",
)
@option("--y", group="Model", type=AXIS, default="accuracy", show_default=True, metavar="FIGURE", help="Second axis.")
@option("--axis", "more", group="Model", type=AXIS, multiple=True, metavar="FIGURE", help="A further axis; repeatable.")
@option(
    "--target", "-t", group="Target", multiple=True, metavar="LABEL", help="Only this target of the sweep; repeatable."
)
@option(
    "--plot",
    group="Output",
    type=PATH,
    metavar="FILE.svg|FILE.png",
    help="Plot the front, the other variants, budgets and limits, one panel per target.",
)
@json_option
@csv_option
@force_option
@quiet_options
def command(
    source: Path | None,
    store: Path | None,
    x: str,
    y: str,
    more: tuple[str, ...],
    target: tuple[str, ...],
    plot: Path | None,
    as_json: bool,
    as_csv: bool,
    force: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Show the Pareto front of a sweep.

    Give the sweep.toml (./sweep.toml by default) or the store. For each target, the front contains the accepted
    variants that are not dominated: no other accepted variant is at least as good on every axis and better on at least
    one. They are sorted by x, and the table shows what each step costs and gains.
    """
    from edgetool.pipeline.files import check_writable, write_file

    one_form(as_json, as_csv)
    axes = tuple(dict.fromkeys((x, y, *more)))
    if x == y:
        raise UsageError(f"--x and --y are the same axis, {x}", fix="choose two different axes")
    path = find_store(source, store)
    form = picture_format(plot)
    if plot is not None:
        check_writable(plot.parent, (plot.name,), force=force, inputs=(path,), option="--plot")
    record, every = read_rows(path, axes)
    rows = of_targets(record, every, target)
    front = tuple(row for row in rows if row.on_front)
    if plot is not None:
        from edgetool.sweep.plot import plot as drawn

        picture = drawn(record, rows, x, y, format=form)
        write_file(plot, picture, force=force, inputs=(path,), option="--plot")
    if as_json:
        from edgetool.report.json import to_json
        from edgetool.sweep.table import rows_json

        document = rows_json(record, front)
        deliver(to_json({**document, "sweep": {**document["sweep"], "axes": list(axes)}}), None)
    elif as_csv:
        from edgetool.sweep.table import rows_csv

        deliver(rows_csv(record, front), None)
    elif not quiet:
        from edgetool.cli.view_sweep_pareto import pareto_view

        print_lines(pareto_view(record, rows, axes))
    if plot is not None and not quiet:
        notice(f"wrote {printable(str(plot), 400)}")
