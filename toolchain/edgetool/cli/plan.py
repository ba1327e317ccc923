"""edgetool plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgetool.cli.command import Command, option
from edgetool.cli.errors import INTERRUPTED
from edgetool.cli.options import (
    PATH,
    custom_operators_option,
    force_option,
    json_option,
    plan_options,
    quiet_options,
    target_options,
)
from edgetool.cli.output import deliver, notice, print_lines
from edgetool.cli.text import printable
from edgetool.errors import UsageError

if TYPE_CHECKING:
    from edgetool.memory.layout.solve import Strategy
    from edgetool.memory.plan_options import OrderStrategy
    from edgetool.memory.sharing.types import Algorithm
    from edgetool.report.document import Report


@click.command(
    "plan",
    cls=Command,
    examples=(
        "edgetool plan model.tflite --target nucleo-l4r5zi",
        "edgetool plan model.tflite -t rpi-pico -t esp32-s3 --explain",
        "edgetool plan model.tflite -t cortex-m4 -o planned.tflite",
    ),
)
@click.argument("model", type=PATH)
@target_options(required=False, multiple=True)
@option("--explain", group="Output", is_flag=True, help="Show every byte of the arena, and what determines its size.")
@option("--replan", group="Memory plan", is_flag=True, help="Ignore the memory plan in the file and make a new one.")
@plan_options
@option(
    "--sharing",
    group="Memory plan",
    type=click.Choice(["greedy", "dynamic-programming"]),
    help="Assign tensors to shared buffers instead of offsets in one arena.",
)
@option(
    "--constants-in-ram",
    group="Memory plan",
    is_flag=True,
    help="Also place constants in RAM, each only for as long as an operator uses it.",
)
@option(
    "--time-limit",
    group="Memory plan",
    type=click.FloatRange(0.01),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for the search.",
)
@option(
    "--seed",
    group="Memory plan",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Seed for the search.",
)
@custom_operators_option
@option("--output", "-o", group="Output", type=PATH, metavar="FILE.tflite", help="Write the model with the plan in it.")
@json_option
@force_option
@quiet_options
def command(
    model: Path,
    target: tuple[str, ...],
    output: Path | None,
    explain: bool,
    replan: bool,
    order: OrderStrategy | None,
    strategy: Strategy | None,
    sharing: Algorithm | None,
    constants_in_ram: bool,
    time_limit: float,
    seed: int,
    custom_operators: Path | None,
    as_json: bool,
    force: bool,
    quiet: bool,
    verbose: int,
    **overrides: Any,
) -> None:
    """Plan the tensor arena of MODEL, a .tflite file.

    Shows the exact size of the arena, when each tensor is live, its offset, and what bounds the size.
    """
    from edgetool.cli.view import finding_lines, without_shared
    from edgetool.cli.view_explain import explain_view
    from edgetool.cli.view_plan import plan_view
    from edgetool.cli.view_verdict import closing, joint_verdict
    from edgetool.pipeline.effort import watched
    from edgetool.pipeline.plan import plan_model
    from edgetool.pipeline.plan_request import PlanRequest
    from edgetool.pipeline.targets import resolve_named
    from edgetool.report.json import documents, to_json

    if explain and constants_in_ram:
        raise UsageError(
            "--explain shows the arena of stock TFLM, which holds no constants",
            fix="omit --explain or --constants-in-ram",
        )
    if output is not None and len(target) > 1:
        raise UsageError(
            f"--output writes the plan for one target, but {len(target)} were specified",
            fix="specify one --target, or run plan once for each",
        )
    targets = [resolve_named(name, **overrides) for name in target or (None,)]
    reports: list[Report] = []
    interrupted = False
    for device in targets:
        with watched(time_limit, seed=seed) as watch:
            report = plan_model(
                model,
                device,
                request=PlanRequest(order, strategy, sharing, constants_in_ram, time_limit, seed),
                watch=watch,
                output=output,
                replan=replan,
                custom_operators=custom_operators,
                force=force,
            )
        reports.append(report)
        interrupted = watch.interrupted
        if interrupted:
            break
    if as_json:
        deliver(to_json(documents(reports)), None)
    elif not quiet:
        everything = verbose > 0
        own, shared = without_shared(reports)
        views = [
            explain_view(item, everything=everything) if explain else plan_view(item, everything=everything)
            for item in own
        ]
        lines = [line for view in views for line in ("", *view)][1:] + finding_lines(shared, everything=everything)
        end = closing(joint_verdict(reports), lines)
        print_lines([*lines, *end] if output is None else lines)
    if output is not None and not quiet:
        notice(f"wrote {printable(str(output), 400)}")
        if not as_json:
            print_lines(end)
    if interrupted:
        left = len(targets) - len(reports)
        rest = f"; {left} more target{'s' if left > 1 else ''} not planned" if left else ""
        notice(f"interrupted: this is the best plan so far{rest}")
        raise click.exceptions.Exit(INTERRUPTED)
