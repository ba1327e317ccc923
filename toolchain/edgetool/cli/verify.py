"""edgetool verify."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from edgetool.cli.command import Command, option
from edgetool.cli.options import PATH, force_option, json_option, quiet_options, report_option, target_options
from edgetool.cli.output import ProgressLine, deliver, print_lines
from edgetool.errors import FailedCheckError


@click.command(
    "verify",
    cls=Command,
    examples=(
        "edgetool verify model.tflite",
        "edgetool verify model-firmware/model.tflite --original model.tflite",
        "edgetool verify model.tflite --inputs samples.npz --samples 32",
    ),
)
@click.argument("model", type=PATH)
@target_options(required=False)
@option(
    "--original",
    group="Model",
    type=PATH,
    metavar="FILE.tflite",
    help="Compare MODEL with this file; by default with itself without a plan.",
)
@option(
    "--inputs",
    group="Model",
    type=PATH,
    metavar="FILE",
    help="An .npz (or .npy for one input) with samples to run after the random ones.",
)
@option(
    "--samples",
    group="Model",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    metavar="N",
    help="Number of random samples.",
)
@option(
    "--seed",
    group="Model",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Seed for the random samples.",
)
@option(
    "--run-unsafe-plan",
    group="Memory plan",
    is_flag=True,
    help="Run a plan that fails the layout check, to see its effect on the outputs.",
)
@json_option
@report_option
@force_option
@quiet_options
def command(
    model: Path,
    target: str | None,
    original: Path | None,
    inputs: Path | None,
    samples: int,
    seed: int,
    run_unsafe_plan: bool,
    as_json: bool,
    output: Path | None,
    force: bool,
    quiet: bool,
    verbose: int,
    **overrides: Any,
) -> None:
    """Run MODEL, a .tflite file, with and without its memory plan on real TensorFlow Lite Micro.

    A model without a plan is planned first, for the target if one is given. All samples run in sequence, so that
    recurrent state is tested as well. The outputs must be equal bit for bit, and the arena exactly as large as
    predicted for this machine: the model must run in that size, and must fail with 16 bytes less. LiteRT's results are
    shown only for comparison. Exits with 1 if a check fails.
    """
    from edgetool.cli.view_verify import verify_view
    from edgetool.pipeline.targets import resolve_named
    from edgetool.pipeline.verify import verify_model
    from edgetool.report.json import document, to_json

    with ProgressLine(quiet=quiet or as_json) as progress:
        report = verify_model(
            model,
            resolve_named(target, **overrides),
            original=original,
            inputs=inputs,
            samples=samples,
            seed=seed,
            run_unsafe_plan=run_unsafe_plan,
            progress=progress,
        )
    read = tuple(path for path in (model, original, inputs) if path is not None)
    if as_json or output is not None:
        deliver(to_json(document(report)), output, force=force, quiet=quiet, inputs=read)
    elif not quiet:
        print_lines(verify_view(report))
    assert report.verify is not None
    failed = [f"{check.check}: {check.message}" for check in report.verify.checks if check.passed is False]
    if failed:
        raise FailedCheckError(failed[0], where=report.model.name, details=tuple(failed[1:]))
