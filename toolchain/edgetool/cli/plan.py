"""edgetool plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

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

SHARING_HELP = "Whole buffers that tensors share, one after another, instead of a layout."


@click.command("plan")
@click.argument("model", type=PATH)
@target_options(required=False)
@click.option("--output", "-o", type=PATH, help="Write the model with the plan in it to this .tflite.")
@click.option("--explain", is_flag=True, help="Show every byte of the arena, and what sets its size.")
@click.option("--replan", is_flag=True, help="Ignore the memory plan in the file and make a new one.")
@plan_options
@click.option("--sharing", type=click.Choice(["greedy", "dynamic-programming"]), help=SHARING_HELP)
@click.option("--constants-in-ram", is_flag=True, help="Lay out constants too, each while an operator uses it.")
@click.option("--time-limit", type=click.FloatRange(0.01), default=10, show_default=True, help="Seconds to search.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the search.")
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
    """Plan the arena of MODEL, a .tflite file: when tensors live, where they lie, and what bounds the size."""
    from edgetool.cli.view_explain import explain_view
    from edgetool.cli.view_plan import plan_view
    from edgetool.cli.view_verdict import closing, verdict_of
    from edgetool.pipeline.effort import watched
    from edgetool.pipeline.plan import plan_model
    from edgetool.pipeline.plan_request import PlanRequest
    from edgetool.pipeline.targets import resolve_named
    from edgetool.report.serialize import document, to_json

    if explain and constants_in_ram:
        raise UsageError(
            "--explain tells of the arena of stock TFLM, in which no constants lie",
            fix="leave out --explain, or --constants-in-ram",
        )
    with watched(time_limit, seed=seed) as watch:
        report = plan_model(
            model,
            resolve_named(target, **overrides),
            request=PlanRequest(order, strategy, sharing, constants_in_ram, time_limit, seed),
            watch=watch,
            output=output,
            replan=replan,
            custom_operators=custom_operators,
            force=force,
        )
    if as_json:
        deliver(to_json(document(report)), None)
    elif not quiet:
        everything = verbose > 0
        lines = explain_view(report, everything=everything) if explain else plan_view(report, everything=everything)
        print_lines(lines)
    if output is not None and not quiet:
        notice(f"wrote {printable(str(output), 400)}")
    if not as_json and not quiet:
        print_lines(closing(verdict_of(report), lines))
    if watch.interrupted:
        notice("interrupted: this is the best plan until then")
        raise click.exceptions.Exit(INTERRUPTED)
