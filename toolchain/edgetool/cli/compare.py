"""edgetool compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
from edgetool.cli.output import deliver, print_lines


@click.command(
    "compare",
    cls=Command,
    examples=(
        "edgetool compare old.tflite new.tflite --target nucleo-l4r5zi",
        "edgetool compare before.json after.json",
        "edgetool compare release.json model.tflite -t rpi-pico --json",
    ),
)
@click.argument("a", type=PATH)
@click.argument("b", type=PATH)
@target_options(required=False)
@custom_operators_option
@json_option
@report_option
@force_option
@quiet_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    a: Path,
    b: Path,
    target: str | None,
    custom_operators: Path | None,
    as_json: bool,
    output: Path | None,
    force: bool,
    quiet: bool,
    verbose: int,
    **overrides: Any,
) -> None:
    """Show how B differs from A: arena, flash, work, time, energy, accuracy, and which operators changed.

    A and B are .tflite files, or JSON documents written by convert, plan, estimate or check. A .tflite is
    evaluated unchanged on --target: with the memory plan in the file, or else with TFLM's own. Its accuracy comes from
    the report that convert wrote next to it. If a document contains several reports, --target chooses one of them.
    """
    from edgetool.cli.view_compare import compare_view
    from edgetool.pipeline.compare_models import compare_models
    from edgetool.report.comparison import comparison_document
    from edgetool.report.json import to_json

    # What edgetool.toml says of the target is for models: two reports need none.
    asked = {ctx.get_parameter_source(name) for name in ("target", "custom_operators", *overrides)}
    insist = ParameterSource.COMMANDLINE in asked
    report = compare_models(a, b, target, overrides=overrides, custom_operators=custom_operators, insist=insist)
    if as_json or output is not None:
        inputs = (a, b) if custom_operators is None else (a, b, custom_operators)
        deliver(to_json(comparison_document(report)), output, force=force, quiet=quiet, inputs=inputs)
    elif not quiet:
        print_lines(compare_view(report, everything=verbose > 0))
