"""edgetool fit."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from edgetool.cli.check_options import size_limits
from edgetool.cli.command import Command, option
from edgetool.cli.options import PATH, custom_operators_option, force_option, json_option, quiet_options
from edgetool.cli.output import deliver, print_lines
from edgetool.cli.settings import read_by_name
from edgetool.cli.sweep_options import one_form
from edgetool.errors import FailedCheckError
from edgetool.pipeline.files import check_writable

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
@target("--kernels", type=click.Choice(["reference", "cmsis-nn"]), help="Kernel set to assume for every board.")
@target("--runtime", metavar="NAME", help="Profile of the TFLM version that the firmware links.")
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
    from edgetool.cli.view_fit import fit_view
    from edgetool.gate.limits import Limits
    from edgetool.pipeline.fit import SORTS, FitRequest, fit_model
    from edgetool.report.fit import fit_csv, fit_document
    from edgetool.report.json import to_json

    one_form(as_json, as_csv)
    request = FitRequest(
        limits=Limits(
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
        custom_operators=custom_operators,
        fits_only=fits_only,
        sort=next(name for name in SORTS if name == sort),
        most_rows=limit,
    )
    inputs = tuple(item for item in (path, custom_operators, *read_by_name()) if item is not None)
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
