"""edgetool compare."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from edgetool.cli.command import Command
from edgetool.cli.options import (
    PATH,
    custom_operators_option,
    force_option,
    json_option,
    quiet_options,
    report_option,
    target_options,
)
from edgetool.cli.output import (
    ENERGY_UNITS,
    RATE_UNITS,
    TIME_UNITS,
    deliver,
    in_common_unit,
    print_lines,
    printable,
    table,
    wrapped,
)
from edgetool.cli.page import check_page, command_line, html_option, page_reports, write_page
from edgetool.cli.view import drift_lines, finding_lines
from edgetool.errors import UsageError
from edgetool.figure import significant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from edgetool.pipeline.reporting import Described
    from edgetool.report.comparison import (
        CompareInfo,
        CompareReport,
        FigureChange,
        KindChange,
        OperatorChange,
        SideInfo,
    )
    from edgetool.report.document import Report

NAME_COLUMNS = 48
OPERATOR_COLUMNS = 24
SHOWN = 8
# Rows that show whether B is better.
BOLD = ("arena_bytes", "model_bytes", "latency_ms", "accuracy")
# Shown for a change too small for the displayed digits.
ABOUT_ZERO = "about 0"
# Above this, only the order of magnitude is shown.
LARGE = 10**12
LABELS = {
    "arena_bytes": "arena",
    "head_bytes": "  head",
    "tail_bytes": "  tail",
    "layout_bytes": "layout",
    "stock_arena_bytes": "arena, stock plan",
    "model_bytes": "flash (model)",
    "code_bytes": "  code",
    "parameters": "parameters",
    "operators": "operators",
    "macs": "MACs",
    "bytes_moved": "bytes moved",
    "bandwidth_gbps": "bandwidth",
    "bandwidth_utilization": "  share used",
    "latency_ms": "latency",
    "stream_utilization": "busy",
    "energy_uj": "energy",
    "accuracy": "accuracy",
    "float_accuracy": "  float accuracy",
    "sqnr_db": "SQNR",
    "cosine": "cosine",
    "top1_agreement": "same top-1",
}
UNITS = {"ms": (TIME_UNITS, 2), "uJ": (ENERGY_UNITS, 2), "GB/s": (RATE_UNITS, 3)}
FORMATS: dict[str, Callable[[float], str]] = {
    "B": lambda value: f"{_count(value)} B",
    "share": lambda value: f"{_points(value)} %",
    "dB": lambda value: f"{value:.1f} dB",
    "": lambda value: _count(value),
}


def compare_view(report: CompareReport, *, everything: bool) -> list[str]:
    """Show what is compared, other differences in the input, the figures, and where time or bytes changed."""
    compared = report.compare
    lines = [*_side("A", compared.a), *_side("B", compared.b), *finding_lines(report.findings), ""]
    lines += _figures(compared, everything=everything)
    if compared.operator_kinds is not None:
        lines += _kinds(compared.operator_kinds, everything=everything)
    if compared.drift is not None:
        lines += drift_lines(compared.drift, everything=everything)
    if compared.operators is not None:
        lines += ["", *_operators(compared.operators, everything=everything)]
    return lines


def _side(letter: str, side: SideInfo) -> list[str]:
    """Show the model, the target, and the origin of the figures."""
    from edgetool.pipeline.targets import NATIVE

    native = side.target is not None and side.target.runtime == NATIVE
    build = "" if side.target is None else "native code" if native else f"{side.target.kernels} kernels"
    target = "no target" if side.target is None else f"{side.target.name}, {build}"
    name = click.style(printable(side.name, NAME_COLUMNS), bold=True)
    if side.kind == "report":
        command = "edgetool" if side.command is None else f"'edgetool {printable(side.command, 20)}'"
        basis = f"as reported by {command}"
    elif side.planner == "file":
        basis = "the arena with the plan in the file"
    elif native:
        basis = "the arena that edgetool plans"
    else:
        basis = "no plan in the file: TFLM plans the arena"
    return [f"  {letter}  {name}", *wrapped(f"{printable(target, 60)}; {basis}", "     ")]


def _figures(compared: CompareInfo, *, everything: bool) -> list[str]:
    """Show a line for each figure that either side has, and one for its band; list the figures that both lack."""
    rows, bold = [], set[int]()
    for change in compared.figures:
        if (change.a is None and change.b is None) or (not everything and _is_redundant(change, compared)):
            continue
        rows.append((LABELS[change.figure], *_values(change), *_changes(change)))
        bold |= {len(rows)} if change.figure in BOLD else set()
        if change.figure in ("latency_ms", "energy_uj"):
            rows.append(_band_row(change))
    names = [[printable(side.target.name if side.target else "no target", 16)] for side in (compared.a, compared.b)]
    differ = names[0] != names[1]
    if differ:
        rows.insert(0, ("", names[0][0], names[1][0], "", ""))
    lines = [f"  {line}" for line in table(("", "A", "B", "change", ""), rows, "<>>>>")]
    lines = [click.style(line, bold=True) if i - differ in bold else line for i, line in enumerate(lines)]
    if differ:
        lines[1] = click.style(lines[1], bold=True)
    if any(_has_lower_bound_only(change) for change in compared.figures):
        lines += ["", *wrapped(">=: a lower bound only, so the change is uncertain.", "  ")]
    missing = [LABELS[item.figure].strip() for item in compared.figures if item.a is None and item.b is None]
    return [*lines, "", *wrapped(f"Not available for either: {', '.join(missing)}.", "  ")] if missing else lines


def _is_redundant(change: FigureChange, compared: CompareInfo) -> bool:
    """Return whether the figure repeats another: the arena with TFLM's own planner, if that planner is used."""
    arena = next(item for item in compared.figures if item.figure == "arena_bytes")
    return change.figure == "stock_arena_bytes" and (change.a, change.b) == (arena.a, arena.b)


def _values(change: FigureChange) -> tuple[str, str]:
    shown = _format(change)
    cells = []
    for value, band in ((change.a, change.a_band), (change.b, change.b_band)):
        below = ">= " if band is not None and band[1] is None else ""
        cells.append("-" if value is None else f"{below}{shown(value)}")
    return cells[0], cells[1]


def _changes(change: FigureChange) -> tuple[str, str]:
    """Return the change in its unit and in percent."""
    if change.change is None:
        return "-", ""
    if change.change == 0:
        return "=", ""
    sign = "+" if change.change > 0 else "-"
    first, second = _values(change)
    if first == second:
        return ABOUT_ZERO, _percent(change.change_percent)
    if change.unit == "share":
        return f"{sign}{_points(abs(change.change))} points", _percent(change.change_percent)
    return f"{sign}{_format(change)(abs(change.change))}", _percent(change.change_percent)


def _percent(percent: float | None) -> str:
    if percent is None:
        return "new"
    if abs(percent) < 0.05:
        return "<0.1 %"
    if abs(percent) >= 1e6:
        return ">999,999 %"
    return f"{percent:+.1f} %" if abs(percent) < 1000 else f"{'+' if percent > 0 else '-'}{significant(abs(percent))} %"


def _band_row(change: FigureChange) -> tuple[str, str, str, str, str]:
    """Return the range of both values, and whether the difference exceeds the uncertainty."""
    shown = _format(change)
    cells = [
        "-" if band is None or band[1] is None else f"{shown(band[0]).partition(' ')[0]} to {shown(band[1])}"
        for band in (change.a_band, change.b_band)
    ]
    judged = {True: ("certain", ""), False: ("uncertain", ""), None: ("", "")}[change.certain]
    return ("  band", cells[0], cells[1], *judged)


def _has_lower_bound_only(change: FigureChange) -> bool:
    return any(band is not None and band[1] is None for band in (change.a_band, change.b_band))


def _format(change: FigureChange) -> Callable[[float], str]:
    """Return the formatter for the figures of a row, all in one unit."""
    if change.figure == "cosine":
        return _cosine
    if change.unit in UNITS:
        units, digits = UNITS[change.unit]
        return in_common_unit([change.a, change.b], units, digits)
    return FORMATS[change.unit]


def _cosine(value: float) -> str:
    """Return a cosine with four decimals, never rounded up: 1.0000 means equal."""
    return f"{floor(value * 1e4) / 1e4:.4f}"


def _points(share: float) -> str:
    """Return a share in percent, with two decimals if the value is small."""
    return f"{100 * share:.1f}" if share >= 0.0995 or not share else f"{100 * share:.2f}"


def _count(value: float) -> str:
    return f"{value:,}" if abs(value) < LARGE else significant(value)


def _kinds(kinds: Sequence[KindChange], *, everything: bool) -> list[str]:
    """Show the kinds of operators whose counts differ; all kinds if everything is shown."""
    chosen = [kind for kind in kinds if everything or kind.a != kind.b]
    if not chosen:
        return []
    rows = [
        (printable(kind.operator, 40), str(kind.a), str(kind.b), f"{kind.b - kind.a:+,}" if kind.a != kind.b else "=")
        for kind in chosen
    ]
    return ["", *(f"  {line}" for line in table(("operators by type", "A", "B", "change"), rows, "<>>>"))]


def _operators(operators: Sequence[OperatorChange], *, everything: bool) -> list[str]:
    """Show the operators whose time changed most, or, if one side has no times, whose bytes changed most."""
    timed = all(
        (item.a is None or item.a_ms is not None) and (item.b is None or item.b_ms is not None) for item in operators
    )
    what = "time" if timed else "bytes"
    rows = []
    for item in operators:
        was, now = (item.a_ms, item.b_ms) if timed else (item.a_memory_bytes, item.b_memory_bytes)
        rows.append((abs((now or 0) - (was or 0)), item, was, now))
    changed = sorted((row for row in rows if row[0] or None in row[2:]), key=lambda row: -row[0])
    if not changed:
        return wrapped(f"No operator differs in {what}.", "  ")
    times = [time for row in changed for time in row[2:]]
    shown: Callable[[float], str] = in_common_unit(times, TIME_UNITS) if timed else _count
    cells = [_operator_row(item, was, now, shown) for _, item, was, now in (changed if everything else changed[:SHOWN])]
    header = ("A", "B", "operator", f"{what} A", f"{what} B", "change", "")
    lines = [f"  {line}" for line in table(header, cells, ">><>>>>")]
    left = len(changed) - len(cells)
    return [*lines, f"  ... and {left:,} more with smaller changes (-v shows all)"] if left else lines


def _operator_row(
    item: OperatorChange, was: float | None, now: float | None, shown: Callable[[float], str]
) -> tuple[str, ...]:
    name = printable(item.operator, OPERATOR_COLUMNS)
    places = [("-" if place is None else place.removeprefix("0:")) for place in (item.a, item.b)]
    cells = ["-" if value is None else shown(value) for value in (was, now)]
    if was is None or now is None:
        return (*places, name, *cells, "gone" if now is None else "new", "")
    difference = now - was
    percent = "new" if not was else _percent(100 * difference / was)
    change = ABOUT_ZERO if cells[0] == cells[1] else f"{'+' if difference > 0 else '-'}{shown(abs(difference))}"
    return (*places, name, *cells, change, percent)


@click.command(
    "compare",
    cls=Command,
    examples=(
        "edgetool compare old.tflite new.tflite --target nucleo-l4r5zi",
        "edgetool compare release.json model.tflite -t rpi-pico --json",
        "edgetool compare m.tflite -t m4 --runtime tflm-2025-06 --runtime tflm-2026-08",
    ),
)
@click.argument("a", type=PATH)
@click.argument("b", type=PATH, required=False)
@target_options(required=False, runtimes=True)
@custom_operators_option
@json_option
@report_option
@html_option
@force_option
@quiet_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    a: Path,
    b: Path | None,
    target: str | None,
    runtime: tuple[str, ...],
    custom_operators: Path | None,
    as_json: bool,
    output: Path | None,
    html: Path | None,
    force: bool,
    quiet: bool,
    verbose: int,
    **overrides: Any,
) -> None:
    """Show how B differs from A: arena, flash, work, time, energy, accuracy, and which operators changed.

    With --runtime given twice, the first is A's and the second B's, and B can be omitted: A is then compared with
    itself, to see what an update of the runtime changes.

    A and B are .tflite files, or JSON documents written by convert, plan, estimate or check. A .tflite is
    evaluated unchanged on --target: with the memory plan in the file, or else with TFLM's own; with --runtime native,
    as native code. Its accuracy comes from the report that convert wrote next to it. If a document contains several
    reports, --target chooses one of them.
    """
    from edgetool.pipeline.compare import compare_models
    from edgetool.report.comparison import comparison_document
    from edgetool.report.json import to_json

    if b is None:
        if len(set(runtime)) < 2:
            raise UsageError("there is nothing to compare with", fix="name B, or specify --runtime twice")
        b = a
    # The target in edgetool.toml applies to models; two reports need none.
    sources = {ctx.get_parameter_source(name) for name in ("target", "runtime", "custom_operators", *overrides)}
    reject_unused = ParameterSource.COMMANDLINE in sources
    inputs = (a, b) if custom_operators is None else (a, b, custom_operators)
    check_page(html, force=force, inputs=inputs, outputs={"--output": output})
    sides: list[Described | Report] = []
    report = compare_models(
        a,
        b,
        target,
        overrides=overrides,
        custom_operators=custom_operators,
        reject_unused=reject_unused,
        sides=sides,
        runtimes=runtime,
    )
    if html is not None:
        from edgetool.report.html import comparison_data

        first, second = page_reports(sides)
        data = comparison_data(first, second, comparison_document(report), command_line(ctx))
        write_page(html, data, force=force, quiet=quiet, inputs=inputs)
    if as_json or output is not None:
        deliver(to_json(comparison_document(report)), output, force=force, quiet=quiet, inputs=inputs)
    elif not quiet:
        print_lines(compare_view(report, everything=verbose > 0))
