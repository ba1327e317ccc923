"""edgetool sweep pareto."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import click

from edgetool.cli.command import Command, option
from edgetool.cli.options import PATH, force_option, quiet_options
from edgetool.cli.output import (
    COUNT_UNITS,
    ENERGY_UNITS,
    SIZE_UNITS,
    TIME_UNITS,
    deliver,
    in_common_unit,
    notice,
    print_lines,
    printable,
    table,
    width,
    wrapped,
)
from edgetool.cli.sweep import (
    AXIS,
    axes_help,
    csv_option,
    find_store,
    json_option,
    of_targets,
    one_form,
    picture_format,
    read_rows,
    source_options,
)
from edgetool.cli.view_sweep import (
    AXIS_WORDS,
    UNKNOWN,
    accuracy_word,
    by_target,
    cut,
    state,
    target_heading,
    variant_text,
)
from edgetool.errors import UsageError
from edgetool.sweep.front import AXES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from edgetool.sweep.metrics import Row
    from edgetool.sweep.store import SweepRecord

GAP = 2
MIN_VARIANT = 20
# Axes whose figures share a unit in a table; accuracy's differences are in points.
UNITS: Mapping[str, tuple[Sequence[tuple[float, str]], int]] = {
    "latency_ms": (TIME_UNITS, 2),
    "energy_uj": (ENERGY_UNITS, 2),
    "arena_bytes": (SIZE_UNITS, 3),
    "model_bytes": (SIZE_UNITS, 3),
    "macs": (COUNT_UNITS, 3),
    "model_parameters": (COUNT_UNITS, 3),
}
TEXTS: Mapping[str, Callable[[float], str]] = {
    "accuracy": lambda value: f"{100 * value:.1f} %",
    "sqnr_db": lambda value: "equal" if math.isinf(value) else f"{value:.1f} dB",
}


def pareto_view(record: SweepRecord, rows: Sequence[Row], axes: Sequence[str]) -> list[str]:
    """Show the front of the targets in `rows`, sorted by the first axis."""
    word = accuracy_word(rows)
    headers = [word if name == "accuracy" else AXIS_WORDS[name] for name in axes]
    name = click.style(printable(record.name), bold=True)
    lines = [f"{name}: Pareto front for {', '.join(headers[:-1])} and {headers[-1]}"]
    for label, group in by_target(record, rows):
        lines += ["", target_heading(label, _counts(group))]
        front = sorted((row for row in group if row.on_front), key=lambda row: (_value(row, axes[0]), row.number))
        if front:
            lines += _table(front, axes, headers)
        else:
            lines += wrapped(_why_empty(group, axes, headers), "  ")
    if not rows:
        lines += ["", "no variants yet"]
    return lines


def _table(front: Sequence[Row], axes: Sequence[str], headers: Sequence[str]) -> list[str]:
    texts = {
        name: in_common_unit([_value(row, name) for row in front], *UNITS[name]) if name in UNITS else TEXTS[name]
        for name in axes
    }
    steps = ["", *(_step(before, after, texts) for before, after in pairwise(front))]
    cells = [
        [str(row.number), *(text(_value(row, name)) for name, text in texts.items()), step]
        for row, step in zip(front, steps, strict=True)
    ]
    header = ["no", *headers, "vs. previous"]
    used = sum(max(len(cell) for cell in column) + GAP for column in zip(header, *cells, strict=True))
    columns = max(width() - used - GAP, MIN_VARIANT)
    full = [[*line, cut(variant_text(row.variant), columns)] for line, row in zip(cells, front, strict=True)]
    return [f"  {line}" for line in table([*header, "variant"], full, ">" * (1 + len(axes)) + "<<")]


def _step(before: Row, after: Row, texts: Mapping[str, Callable[[float], str]]) -> str:
    return ", ".join(_change(name, text, _value(before, name), _value(after, name)) for name, text in texts.items())


def _change(name: str, text: Callable[[float], str], before: float, after: float) -> str:
    if before == after:
        return "same"
    if math.isinf(before) or math.isinf(after):
        return UNKNOWN
    sign = "+" if after > before else "-"
    if name == "accuracy":
        points = 100 * abs(after - before)
        return f"{sign}{points:.{1 if points >= 0.05 else 3}f} points"
    return f"{sign}{text(abs(after - before))}"


def _value(row: Row, name: str) -> float:
    value = AXES[name].value(row)
    assert value is not None, "every variant on the front has a value for each axis"
    return value


def _counts(rows: Sequence[Row]) -> str:
    count = Counter(state(row) for row in rows)
    accepted = count["front"] + count["accepted"]
    others = [f"{count[kind]} {kind}" for kind in ("rejected", "failed", "pending") if count[kind]]
    return ", ".join([f"{count['front']} of {accepted} accepted variants on the front", *others])


def _why_empty(rows: Sequence[Row], axes: Sequence[str], headers: Sequence[str]) -> str:
    accepted = [row for row in rows if state(row) in ("front", "accepted")]
    if not accepted:
        return "no variant is accepted: run 'edgetool sweep show -v' to see why"
    unknown = [
        header
        for name, header in zip(axes, headers, strict=True)
        if all(AXES[name].value(row) is None for row in accepted)
    ]
    return f"none of the accepted variants ({len(accepted)}) has a known value for {' and '.join(unknown or headers)}"


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
    from edgetool.pipeline.output import check_writable, write_file

    one_form(as_json, as_csv)
    axes = tuple(dict.fromkeys((x, y, *more)))
    if x == y:
        raise UsageError(f"--x and --y are the same axis, {x}", fix="choose two different axes")
    path = find_store(source, store)
    form = picture_format(plot)
    if plot is not None:
        check_writable(plot.parent, (plot.name,), force=force, inputs=(path,), option="--plot")
    record, all_rows = read_rows(path, axes)
    rows = of_targets(record, all_rows, target)
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
        print_lines(pareto_view(record, rows, axes))
    if plot is not None and not quiet:
        notice(f"wrote {printable(str(plot), 400)}")
