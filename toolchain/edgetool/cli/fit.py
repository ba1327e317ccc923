"""edgetool fit."""

from __future__ import annotations

import math
import textwrap
from functools import partial
from typing import TYPE_CHECKING

import click

from edgetool.cli.check import size_limits
from edgetool.cli.command import Command, option
from edgetool.cli.options import (
    PATH,
    custom_operators_option,
    force_option,
    json_option,
    quiet_options,
    row_options,
)
from edgetool.cli.output import deliver, print_lines, printable, short_size, width, wrapped
from edgetool.cli.settings import implicit_inputs
from edgetool.cli.sweep import one_form
from edgetool.errors import FailedCheckError
from edgetool.figure import significant
from edgetool.pipeline.output import check_writable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgetool.report.fit import BoardFit, FitReport

GAP = "  "
PERCENT_COLUMNS = 5
BAR_COLUMNS = (4, 12)
MIN_REASON = 20
NEARLY_FULL = 0.9
KIB = 2**10


def fit_view(report: FitReport) -> list[str]:
    """Show the boards in lines of at most `width()` columns."""
    fit = report.fit
    fitting = [row for row in fit.boards if row.fits]
    others = [row for row in fit.boards if not row.fits]
    names = max((len(_name(row)) for row in fit.boards), default=5)
    count = f"{fit.judged} board{'s' * (fit.judged != 1)}"
    title = printable(report.model.name, max(20, width() - len(count) - 4))
    lines = [f"{click.style(title, bold=True)} on {count}"]
    if fitting:
        lines += ["", *_fitting(fitting, max(names, len("fits")))]
    if others:
        lines += ["", *_others(others, max(names, len("does not fit")))]
    notes = _notes(report)
    return [*lines, "", *notes, *([""] if notes else []), *_verdict(report)]


def _fitting(rows: Sequence[BoardFit], names: int) -> list[str]:
    arenas = [_arena(row) for row in rows]
    latencies = [_latency(row) for row in rows]
    arena_columns = max(len(text) for text in ("arena KiB", *arenas))
    latency_columns = max(len(text) for text in ("latency ms", *latencies))
    bar = _bar_columns(names + arena_columns + latency_columns + 4 * len(GAP))
    memory = bar + PERCENT_COLUMNS
    header = GAP.join(
        (f"{'fits':<{names}}", f"{'arena KiB':>{arena_columns}}", f"{'SRAM':<{memory}}", f"{'flash':<{memory}}")
    )
    lines = [click.style(f"{header}{GAP}latency ms", bold=True)]
    for row, arena, latency in zip(rows, arenas, latencies, strict=True):
        cells = (f"{_name(row):<{names}}", f"{arena:>{arena_columns}}", *_bars(row, bar), latency)
        lines.append(GAP.join(cells).rstrip())
    return lines


def _others(rows: Sequence[BoardFit], names: int) -> list[str]:
    bar = _bar_columns(names + MIN_REASON + 10 + 3 * len(GAP))
    memory = bar + PERCENT_COLUMNS
    start = names + 2 * memory + 3 * len(GAP)
    header = GAP.join((f"{'does not fit':<{names}}", f"{'SRAM':<{memory}}", f"{'flash':<{memory}}", "reason"))
    columns = max(MIN_REASON, width() - start)
    lines = [click.style(header, bold=True)]
    for row in rows:
        reasons = [
            part
            for reason in row.reasons
            for part in textwrap.wrap(printable(reason, 200), columns, break_on_hyphens=False)
        ]
        lines.append(GAP.join((f"{_name(row):<{names}}", *_bars(row, bar), *reasons[:1])))
        lines += [f"{'':<{start}}{reason}" for reason in reasons[1:]]
    return lines


def _bar_columns(others: int) -> int:
    minimum, maximum = BAR_COLUMNS
    return max(minimum, min(maximum, (width() - others - 2 * PERCENT_COLUMNS) // 2))


def _bars(row: BoardFit, columns: int) -> tuple[str, str]:
    return _bar(row.sram_share, columns), _bar(row.flash_share, columns)


def _bar(share: float | None, columns: int) -> str:
    """Return a bar and its percentage, rounded up: 100 % still fits."""
    if share is None:
        return f"{'-':>{columns + PERCENT_COLUMNS}}"
    full = min(columns, math.ceil(share * columns))
    percent = math.ceil(share * 100 - 1e-9)
    text = f"{percent}%" if percent < 1000 else ">9x" if percent < 10_000 else ">99x"
    color = "red" if share > 1 else "yellow" if share > NEARLY_FULL else "green"
    bar = click.style("#" * full, fg=color) + "." * (columns - full)
    return f"{bar}{text:>{PERCENT_COLUMNS}}"


def _name(row: BoardFit) -> str:
    return printable(row.target.name) + ("*" if row.usual_kernels else "")


def _arena(row: BoardFit) -> str:
    return "-" if row.arena_bytes is None else f"{row.arena_bytes / KIB:,.1f}"


def _latency(row: BoardFit) -> str:
    band = row.latency_ms
    if band is None:
        return "not known"
    return f"{_ms(band.value)} ({_ms(band.low)}-{_ms(band.high)})"


def _ms(value: float) -> str:
    """Return milliseconds to two digits: 1,200, 59, 0.35."""
    return significant(float(f"{value:.2g}"), 2) if value >= 1e-3 else "<0.001"


def _notes(report: FitReport) -> list[str]:
    fit, lines = report.fit, list[str]()
    usual = sorted({row.usual_kernels for row in fit.boards if row.usual_kernels})
    if usual:
        kernels = f"{', '.join(usual)}, which these boards usually use"
        text = f"* figures are for the reference kernels: the runtime does not contain {kernels}"
        lines += wrapped(text, "  ", "")
    if fit.left_out:
        devices = "device is" if len(fit.left_out) == 1 else "devices are"
        names = ", ".join(fit.left_out)
        text = f"{len(fit.left_out)} {devices} not listed, because only the memory bandwidth is known: {names}"
        lines += wrapped(text, "  ", "")
    hidden = _hidden(report)
    if hidden:
        lines += wrapped(hidden, "  ", "")
    return lines


def _hidden(report: FitReport) -> str:
    fit = report.fit
    options = [
        name
        for name, given in (
            ("--fits-only", report.provenance.options.get("fits_only")),
            ("--limit", report.provenance.options.get("limit")),
        )
        if given
    ]
    missing = fit.judged - len(fit.boards)
    if not missing:
        return ""
    return f"{missing} more board{'s' * (missing != 1)} not shown ({' and '.join(options)})"


def _verdict(report: FitReport) -> list[str]:
    fit = report.fit
    boards = f"{fit.judged} board{'s' * (fit.judged != 1)}"
    if not fit.fitting:
        nowhere = f"Fits none of the {boards}" if fit.judged != 1 else "Does not fit the only board"
        return [click.style(line, fg="red", bold=True) for line in wrapped(nowhere, "")]
    text = f"Fits {fit.fitting} of {boards}; the smallest is {fit.smallest}"
    smallest = next((row for row in fit.boards if row.target.name == fit.smallest), None)
    if smallest is not None and smallest.sram_bytes is not None and smallest.flash_bytes is not None:
        text += f" ({short_size(smallest.sram_bytes)} SRAM, {short_size(smallest.flash_bytes)} flash)"
    return [click.style(line, fg="green", bold=True) for line in wrapped(text, "")]


FITS_NOWHERE = 1
target = partial(option, group="Target")
output_option = partial(option, group="Output")


@click.command(
    "fit",
    cls=Command,
    examples=(
        "edgetool fit model.tflite",
        "edgetool fit model.tflite --core cortex-m4 --reserve 32KiB --fits-only",
        "edgetool fit model.tflite --vendor nordic --max-latency 50ms --csv",
    ),
)
@click.argument("path", type=PATH, metavar="MODEL")
@target("--core", multiple=True, metavar="NAME", help="Only boards with this core; repeatable.")
@target("--vendor", multiple=True, metavar="TEXT", help="Only boards from this vendor; repeatable.")
@target("--board", multiple=True, metavar="TEXT", help="Only boards whose name or MCU contains TEXT; repeatable.")
@target(
    "--kernels", type=click.Choice(["reference", "cmsis-nn", "esp-nn"]), help="Kernel set to assume for every board."
)
@target(
    "--runtime",
    metavar="NAME",
    help="TFLM version that the firmware links, or native for generated C without a runtime.",
)
@row_options
@size_limits
@custom_operators_option
@output_option("--fits-only", is_flag=True, help="List only the boards that the model fits.")
@output_option(
    "--sort",
    type=click.Choice(["memory", "latency", "name"]),
    default="memory",
    show_default=True,
    help="Order of the boards; by memory, the smallest board that fits comes first.",
)
@output_option("--limit", type=click.IntRange(min=1), metavar="N", help="List only the first N boards.")
@json_option
@output_option("--csv", "as_csv", is_flag=True, help="Print CSV and nothing else, one line for each board.")
@output_option(
    "--output", "-o", type=PATH, metavar="FILE", help="Write the table, JSON or CSV to FILE; stdout gets the table."
)
@force_option
@quiet_options
def command(
    path: Path,
    core: tuple[str, ...],
    vendor: tuple[str, ...],
    board: tuple[str, ...],
    reserve: int,
    reserve_flash: int,
    max_arena: int | None,
    max_latency: float | None,
    kernels: str | None,
    runtime: str | None,
    row_input: bool | None,
    row_output: bool | None,
    max_extra_macs: float | None,
    max_weights_per_row: int | None,
    incremental: int | None,
    custom_operators: Path | None,
    fits_only: bool,
    sort: str,
    limit: int | None,
    as_json: bool,
    as_csv: bool,
    output: Path | None,
    force: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Show which boards can run MODEL, a .tflite file.

    A model fits a board if 'edgetool check' passes with the same limits. The file is checked unchanged, with the memory
    plan that it contains or without one. Boards that fit are listed first, sorted by SRAM size. Exits with 1 if the
    model fits no board.
    """
    from edgetool.gate.limits import ModelLimits
    from edgetool.pipeline.fit import SORTS, FitRequest, fit_model
    from edgetool.report.fit import fit_csv, fit_document
    from edgetool.report.json import to_json

    one_form(as_json, as_csv)
    request = FitRequest(
        limits=ModelLimits(
            reserve_bytes=reserve,
            reserve_flash_bytes=reserve_flash,
            max_latency_ms=max_latency,
            max_arena_bytes=max_arena,
        ),
        cores=core,
        vendors=vendor,
        boards=board,
        kernels=kernels,
        runtime=runtime,
        row_input=bool(row_input),
        row_output=bool(row_output),
        max_extra_macs=max_extra_macs,
        max_weights_per_row=max_weights_per_row,
        incremental=incremental,
        custom_operators=custom_operators,
        fits_only=fits_only,
        sort=next(name for name in SORTS if name == sort),
        max_rows=limit,
    )
    inputs = tuple(item for item in (path, custom_operators, *implicit_inputs()) if item is not None)
    if output is not None:
        check_writable(output.parent, (output.name,), force=force, inputs=inputs)
    report = fit_model(path, request)
    form = "json" if as_json else "csv" if as_csv else "table"
    lines = fit_view(report)
    texts = {
        "table": lambda: "".join(f"{click.unstyle(line)}\n" for line in lines),
        "json": lambda: to_json(fit_document(report)),
        "csv": lambda: fit_csv(report),
    }
    if output is not None:
        deliver(texts[form](), output, force=force, quiet=quiet, inputs=inputs)
    elif form != "table":
        deliver(texts[form](), None)
    if (form == "table" or output is not None) and not quiet:
        print_lines(lines)
    if report.fit.fitting:
        return
    if quiet:
        raise FailedCheckError(f"fits none of {report.fit.judged} boards", where=str(path))
    raise click.exceptions.Exit(FITS_NOWHERE)
