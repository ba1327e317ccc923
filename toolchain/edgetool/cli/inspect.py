"""edgetool inspect."""

from __future__ import annotations

from pathlib import Path

import click

from edgetool.cli.command import Command, option
from edgetool.cli.options import PATH, force_option, json_option, quiet_options, report_option
from edgetool.cli.output import deliver, print_lines


@click.command(
    "inspect",
    cls=Command,
    examples=(
        "edgetool inspect model.tflite",
        "edgetool inspect model.tflite --tensors",
        "edgetool inspect model.tflite --json | jq .totals",
    ),
)
@click.argument("model", type=PATH)
@json_option
@report_option
@force_option
@option("--tensors", group="Output", is_flag=True, help="List every tensor, including constants.")
@quiet_options
def command(
    model: Path, as_json: bool, output: Path | None, force: bool, tensors: bool, quiet: bool, verbose: int
) -> None:
    """Show the operators, tensors, quantization and totals of MODEL, a .tflite file."""
    from edgetool.cli.view_inspect import inspection
    from edgetool.pipeline.inspect import inspect_model
    from edgetool.report.json import to_json

    inspected = inspect_model(model)
    if as_json or output is not None:
        deliver(to_json(inspected), output, force=force, quiet=quiet, inputs=(model,))
    elif not quiet:
        print_lines(inspection(inspected, tensors=tensors or verbose > 0))
