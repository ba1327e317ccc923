"""edgetool sweep show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgetool.cli.command import Command, option
from edgetool.cli.options import PATH, force_option, quiet_options
from edgetool.cli.output import deliver, print_lines
from edgetool.cli.page import check_page, command_line, html_option, write_page
from edgetool.cli.sweep import csv_option, find_store, json_option, of_targets, one_form, read_rows, source_options
from edgetool.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from edgetool.sweep.metrics import Row
    from edgetool.sweep.store import SweepRecord


@click.command(
    "show",
    cls=Command,
    examples=(
        "edgetool sweep show sweep.toml",
        "edgetool sweep show sweep.toml --accepted --sort latency_ms",
        "edgetool sweep show sweep.sqlite --target rpi-pico --csv -o variants.csv",
    ),
)
@source_options
@option(
    "--target", "-t", group="Target", multiple=True, metavar="LABEL", help="Only this target of the sweep; repeatable."
)
@option("--accepted", group="Model", is_flag=True, help="Only accepted variants.")
@option("--front", group="Model", is_flag=True, help="Only variants on the Pareto front.")
@option(
    "--sort",
    group="Output",
    metavar="COLUMN",
    help="Sort by a column of --csv (number, level, precision, param_NAME, latency_ms, ...): figures with the best "
    "first, others ascending.",
)
@json_option
@csv_option
@option("--output", "-o", group="Output", type=PATH, metavar="FILE", help="Write the result to FILE.")
@html_option
@force_option
@quiet_options
def command(
    source: Path | None,
    store: Path | None,
    target: tuple[str, ...],
    accepted: bool,
    front: bool,
    sort: str | None,
    as_json: bool,
    as_csv: bool,
    output: Path | None,
    html: Path | None,
    force: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Show the variants of a sweep, one table per target.

    Give the sweep.toml (./sweep.toml by default) or the store. The variants are checked against the budgets and limits
    of the last run; those not yet computed are pending. The command computes nothing and can be used while the sweep
    runs.
    """
    one_form(as_json, as_csv)
    path = find_store(source, store)
    check_page(html, force=force, inputs=(path,), outputs={"--output": output})
    record, all_rows = read_rows(path)
    rows = of_targets(record, all_rows, target)
    rows = tuple(row for row in rows if not accepted or (row.judged is not None and row.judged.accepted))
    rows = tuple(row for row in rows if not front or row.on_front)
    if sort is not None:
        rows = by_column(record, rows, sort)
    if html is not None:
        from edgetool.report.html import sweep_data
        from edgetool.sweep.table import rows_json

        data = sweep_data(rows_json(record, rows), command_line(click.get_current_context()))
        write_page(html, data, force=force, quiet=quiet, inputs=(path,))
    if as_json:
        from edgetool.report.json import to_json
        from edgetool.sweep.table import rows_json

        text = to_json(rows_json(record, rows))
    elif as_csv:
        from edgetool.sweep.table import rows_csv

        text = rows_csv(record, rows)
    else:
        from edgetool.cli.view_sweep import sweep_view

        view = sweep_view(record, rows, all_rows=all_rows, everything=verbose > 0)
        if output is None:
            if not quiet:
                print_lines(view)
            return
        text = "".join(f"{click.unstyle(line)}\n" for line in view)
    deliver(text, output, force=force, quiet=quiet, inputs=(path,))


def by_column(record: SweepRecord, rows: tuple[Row, ...], column: str) -> tuple[Row, ...]:
    """Return the rows sorted by the column, unknown values last. Raises UsageError for an unsortable column."""
    from edgetool.sweep.front import AXES

    order = ("number", "level", "precision", "target", "status")

    def value(row: Row) -> tuple[bool, bool, object]:
        cell: object
        if column in AXES:
            cell = AXES[column].value(row)
            cell = cell if cell is None else AXES[column].sign * cell
        elif column in ("number", "status"):
            cell = getattr(row, column)
        elif column in order:
            cell = getattr(row.variant, column)
        else:
            cell = dict(row.variant.parameters).get(column.removeprefix("param_"))
        return cell is None, isinstance(cell, str), 0 if cell is None else cell

    names = (*order, *(f"param_{name}" for name in record.parameter_names), *AXES)
    if column not in names:
        raise UsageError(f"unknown column {column!r}", fix=f"use one of {', '.join(names)}")
    return tuple(sorted(rows, key=value))
