"""edgetool report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from edgetool.cli.command import Command, option
from edgetool.cli.errors import INTERRUPTED
from edgetool.cli.options import (
    PATH,
    custom_operators_option,
    force_option,
    plan_options,
    quiet_options,
    shrink_option,
    target_options,
)
from edgetool.cli.output import notice, printable
from edgetool.cli.page import write_reports

if TYPE_CHECKING:
    from edgetool.memory.layout.solve import LayoutStrategy
    from edgetool.memory.order.solve import OrderStrategy
    from edgetool.pipeline.reporting import Described
    from edgetool.target.types import Target


@click.command(
    "report",
    cls=Command,
    examples=(
        "edgetool report model.tflite --target nucleo-l4r5zi",
        "edgetool report model.tflite -t rpi-pico --runtime native -o native.html",
    ),
)
@click.argument("model", type=PATH)
@target_options(required=False, multiple=True)
@option("--replan", group="Memory plan", is_flag=True, help="Ignore the memory plan in the file and make a new one.")
@plan_options
@option(
    "--time-limit",
    group="Memory plan",
    type=click.FloatRange(0.01),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for the search for a plan.",
)
@shrink_option
@custom_operators_option
@option(
    "--output",
    "-o",
    group="Output",
    type=PATH,
    default=Path("report.html"),
    show_default=True,
    metavar="FILE.html",
    help="Write the page to FILE.html.",
)
@force_option
@quiet_options
def command(
    model: Path,
    target: tuple[str, ...],
    replan: bool,
    order: OrderStrategy | None,
    strategy: LayoutStrategy | None,
    time_limit: float,
    shrink: bool,
    custom_operators: Path | None,
    output: Path,
    force: bool,
    quiet: bool,
    verbose: int,
    **overrides: Any,
) -> None:
    """Write one HTML page that shows where every byte and millisecond of MODEL, a .tflite file, goes.

    The page contains everything that it needs, loads nothing, and can be printed.
    """
    from edgetool.cli.view import joint_verdict
    from edgetool.memory.planner import PlanRequest
    from edgetool.pipeline.output import check_writable
    from edgetool.pipeline.planning import interruptible
    from edgetool.pipeline.report import describe

    inputs = (model,) if custom_operators is None else (model, custom_operators)
    check_writable(output.parent, (output.name,), force=force, inputs=inputs)
    file_plan: Literal["use", "replace"] = "replace" if replan else "use"
    request = PlanRequest(order, strategy, time_limit=time_limit, file_plan=file_plan, shrink=shrink)
    targets: list[tuple[Target | None, bool]] = [(None, False)]
    if target or any(value is not None for value in overrides.values()):
        from edgetool.pipeline.targets import resolve_with_native

        targets = [resolve_with_native(name, **overrides) for name in target or (None,)]
    described: list[Described] = []
    for device, native in targets:
        with interruptible(time_limit) as deadline:
            described += describe(
                model, [device], request=request, native=native, deadline=deadline, custom_operators=custom_operators
            )
        if deadline.interrupted:
            break
    write_reports(output, described, force=force, quiet=quiet, inputs=inputs)
    verdict = joint_verdict([item.report for item in described])
    if verdict.negative and not quiet:
        notice(printable(verdict.text, 400))
    if deadline.interrupted:
        notice("interrupted: this is the best plan so far")
        raise click.exceptions.Exit(INTERRUPTED)
