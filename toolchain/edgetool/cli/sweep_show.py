"""edgetool sweep show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetool.cli.options import PATH, force_option, quiet_options
from edgetool.cli.output import deliver, print_lines
from edgetool.cli.sweep_options import csv_option, json_option, one_form
from edgetool.cli.sweep_source import find_store, of_targets, read_rows, source_options
from edgetool.errors import UsageError

if TYPE_CHECKING:
    from edgetool.sweep.metrics import Row
    from edgetool.sweep.record import SweepRecord


@click.command("show")
@source_options
@click.option("--target", "-t", multiple=True, metavar="LABEL", help="Only this target of the sweep; repeatable.")
@click.option("--accepted", is_flag=True, help="Only accepted variants.")
@click.option("--front", is_flag=True, help="Only variants on the front.")
@click.option(
    "--sort",
    metavar="COLUMN",
    help="Sort by a column of --csv (number, level, precision, param_NAME, latency_ms, ...): "
    "figures with the best first, others ascending.",
)
@json_option
@csv_option
@click.option("--output", "-o", type=PATH, metavar="FILE", help="Write it to FILE instead.")
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
    force: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Show the variants of a sweep, its sweep.toml (./sweep.toml when not given) or its store.

    A table per target, by the budgets and limits of the last run. What is not yet computed is pending. Nothing is
    computed, and a sweep may run meanwhile.
    """
    one_form(as_json, as_csv)
    path = find_store(source, store)
    record, every = read_rows(path)
    rows = of_targets(record, every, target)
    rows = tuple(row for row in rows if not accepted or (row.judged is not None and row.judged.accepted))
    rows = tuple(row for row in rows if not front or row.on_front)
    if sort is not None:
        rows = by_column(record, rows, sort)
    if as_json:
        from edgetool.report.serialize import to_json
        from edgetool.sweep.table import rows_json

        text = to_json(rows_json(record, rows))
    elif as_csv:
        from edgetool.sweep.table import rows_csv

        text = rows_csv(record, rows)
    else:
        from edgetool.cli.view_sweep import sweep_view

        view = sweep_view(record, rows, every=every, everything=verbose > 0)
        if output is None:
            if not quiet:
                print_lines(view)
            return
        text = "".join(f"{click.unstyle(line)}\n" for line in view)
    deliver(text, output, force=force, quiet=quiet, inputs=(path,))


def by_column(record: SweepRecord, rows: tuple[Row, ...], column: str) -> tuple[Row, ...]:
    """The rows by that column, unknown values last. Raises UsageError for a column that cannot be sorted by."""
    from edgetool.sweep.front import AXES

    order = ("number", "level", "precision", "target", "status")

    def value(row: Row) -> tuple[bool, bool, object]:
        found: object
        if column in AXES:
            found = AXES[column].value(row)
            found = found if found is None else AXES[column].sign * found
        elif column in ("number", "status"):
            found = getattr(row, column)
        elif column in order:
            found = getattr(row.variant, column)
        else:
            found = dict(row.variant.parameters).get(column.removeprefix("param_"))
        return found is None, isinstance(found, str), 0 if found is None else found

    names = (*order, *(f"param_{name}" for name in record.parameter_names), *AXES)
    if column not in names:
        raise UsageError(f"there is no column {column!r} to sort by", fix=f"use one of {', '.join(names)}")
    return tuple(sorted(rows, key=value))
