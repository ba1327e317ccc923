"""edgetool plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from edgetool.cli.options import PATH, custom_operators_option, force_option, json_option, quiet_options, target_options
from edgetool.cli.output import deliver, notice, print_lines
from edgetool.cli.text import printable


@click.command("plan")
@click.argument("model", type=PATH)
@target_options(required=False)
@click.option("--output", "-o", type=PATH, help="Write the model with the plan in it to this .tflite.")
@click.option("--explain", is_flag=True, help="Show every byte of the arena, and what sets its size.")
@click.option("--replan", is_flag=True, help="Ignore the memory plan in the file and make a new one.")
@custom_operators_option
@json_option
@force_option
@quiet_options
def command(
    model: Path,
    target: str | None,
    output: Path | None,
    explain: bool,
    replan: bool,
    custom_operators: Path | None,
    as_json: bool,
    force: bool,
    quiet: bool,
    verbose: int,
    **overrides: Any,
) -> None:
    """Plan the arena of MODEL, a .tflite file: when tensors live, where they lie, and what bounds the size."""
    from edgetool.cli.view_explain import explain_view
    from edgetool.cli.view_plan import plan_view
    from edgetool.pipeline.plan import plan_model
    from edgetool.pipeline.targets import resolve_named
    from edgetool.report.serialize import document, to_json

    report = plan_model(
        model,
        resolve_named(target, **overrides),
        output=output,
        replan=replan,
        custom_operators=custom_operators,
        force=force,
    )
    if as_json:
        deliver(to_json(document(report)), None)
    elif not quiet:
        print_lines(explain_view(report) if explain else plan_view(report, everything=verbose > 0))
    if output is not None and not quiet:
        notice(f"wrote {printable(str(output), 400)}")
