"""edgetool estimate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from edgetool.cli.options import PATH, custom_operators_option, force_option, json_option, quiet_options, target_options
from edgetool.cli.output import deliver, print_lines


@click.command("estimate")
@click.argument("model", type=PATH)
@target_options(required=True, multiple=True)
@custom_operators_option
@json_option
@click.option("--output", "-o", type=PATH, help="Write the JSON document to this file.")
@force_option
@quiet_options
def command(
    model: Path,
    target: tuple[str, ...],
    custom_operators: Path | None,
    as_json: bool,
    output: Path | None,
    force: bool,
    quiet: bool,
    verbose: int,
    **overrides: Any,
) -> None:
    """Estimate how long one inference of MODEL, a .tflite file, takes on each target."""
    from edgetool.cli.view_estimate import estimate_view
    from edgetool.pipeline.estimate import estimate_file
    from edgetool.pipeline.targets import resolve_named
    from edgetool.report.serialize import documents, to_json

    targets = [found for found in (resolve_named(name, **overrides) for name in target) if found is not None]
    reports = estimate_file(model, targets, custom_operators=custom_operators)
    if as_json or output is not None:
        inputs = (model,) if custom_operators is None else (model, custom_operators)
        deliver(to_json(documents(reports)), output, force=force, quiet=quiet, inputs=inputs)
    elif not quiet:
        for number, report in enumerate(reports):
            print_lines([*([""] if number else []), *estimate_view(report, everything=verbose > 0)])
