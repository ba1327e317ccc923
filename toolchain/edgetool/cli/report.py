"""edgetool report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from edgetool.cli.command import Command, option
from edgetool.cli.errors import INTERRUPTED
from edgetool.cli.options import (
    PATH,
    custom_operators_option,
    force_option,
    keep_inputs_option,
    plan_options,
    quiet_options,
    refuse_for_native,
    shrink_option,
    target_options,
)
from edgetool.cli.output import deliver, notice, printable
from edgetool.cli.page import write_reports
from edgetool.errors import UsageError

if TYPE_CHECKING:
    from edgetool.memory.layout.solve import LayoutStrategy
    from edgetool.memory.order.solve import OrderStrategy
    from edgetool.pipeline.reporting import Described
    from edgetool.pipeline.viewers import Viewer
    from edgetool.target.types import Target

HTML: Final = "html"
NODE_DATA: Final = "model-explorer"
TRACE: Final = "perfetto"
Format = Literal["html", "model-explorer", "perfetto"]
# By format; a trace without a file goes to stdout.
DEFAULT_OUTPUTS = {HTML: Path("report.html"), NODE_DATA: Path("model-explorer")}


@click.command(
    "report",
    cls=Command,
    examples=(
        "edgetool report model.tflite --target nucleo-l4r5zi",
        "edgetool report model.tflite -t rpi-pico --runtime native -o native.html",
        "edgetool report model.tflite -t rpi-pico --format perfetto -o trace.json",
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
@keep_inputs_option
@shrink_option
@custom_operators_option
@option(
    "--format",
    group="Output",
    type=click.Choice([HTML, NODE_DATA, TRACE]),
    default=HTML,
    show_default=True,
    help="Write a page, node data for Google's Model Explorer, or a trace for Perfetto.",
)
@option(
    "--output",
    "-o",
    group="Output",
    type=PATH,
    metavar="FILE|FOLDER",
    help="Write the page or trace to FILE, or node data to FOLDER; by default report.html, stdout or model-explorer.",
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
    keep_inputs: bool,
    shrink: bool,
    custom_operators: Path | None,
    format: Format,  # named like the key in edgetool.toml
    output: Path | None,
    force: bool,
    quiet: bool,
    verbose: int,
    **overrides: Any,
) -> None:
    """Write one HTML page that shows where every byte and millisecond of MODEL, a .tflite file, goes.

    The page contains everything that it needs, loads nothing, and can be printed. --format writes files for other
    viewers instead.
    """
    from edgetool.cli.verdict import joint_verdict
    from edgetool.memory.planner import PlanRequest
    from edgetool.pipeline.planning import interruptible
    from edgetool.pipeline.report import describe

    inputs = (model,) if custom_operators is None else (model, custom_operators)
    output = DEFAULT_OUTPUTS.get(format) if output is None else output
    _check_output(format, output, target, force=force, inputs=inputs)
    file_plan: Literal["use", "replace"] = "replace" if replan else "use"
    request = PlanRequest(
        order, strategy, time_limit=time_limit, file_plan=file_plan, shrink=shrink, keep_inputs=keep_inputs
    )
    targets: list[tuple[Target | None, bool, float | None]] = [(None, False, None)]
    if target or any(value is not None for value in overrides.values()):
        from edgetool.pipeline.targets import resolve_for_plan

        targets = [resolve_for_plan(name, **overrides) for name in target or (None,)]
    if any(native for _, native, _ in targets):
        refuse_for_native(custom_operators=custom_operators)
    described: list[Described] = []
    for device, native, extra_macs in targets:
        with interruptible(time_limit) as deadline:
            described += describe(
                model,
                [device],
                request=request if extra_macs is None else replace(request, max_extra_macs=extra_macs),
                native=native,
                deadline=deadline,
                custom_operators=custom_operators,
            )
        if deadline.interrupted:
            break
    if format == HTML:
        assert output is not None
        write_reports(output, described, force=force, quiet=quiet, inputs=inputs)
    else:
        _export(described[0], format, output, force=force, quiet=quiet, inputs=inputs)
    verdict = joint_verdict([item.report for item in described])
    if verdict.negative and not quiet:
        notice(printable(verdict.text, 400))
    if deadline.interrupted:
        left = len(targets) - len(described)
        rest = f"; {left} more target{'s' if left > 1 else ''} not planned" if left else ""
        notice(f"interrupted: this is the best plan so far{rest}")
        raise click.exceptions.Exit(INTERRUPTED)


def _check_output(
    form: Format, output: Path | None, target: tuple[str, ...], *, force: bool, inputs: tuple[Path, ...]
) -> None:
    """Raise the error of a file that cannot be written, or would be for several targets, before any long work."""
    if form != HTML and len(target) > 1:
        raise UsageError(
            f"--format {form} shows one target, but {len(target)} were specified",
            fix="specify one --target, or run report once for each",
        )
    if output is None:
        return
    from edgetool.pipeline.output import check_writable

    if form == NODE_DATA:
        from edgetool.pipeline.viewers import FILES

        check_writable(output, FILES[NODE_DATA], force=force, inputs=inputs)
    else:
        check_writable(output.parent, (output.name,), force=force, inputs=inputs)


def _export(
    described: Described, viewer: Viewer, output: Path | None, *, force: bool, quiet: bool, inputs: tuple[Path, ...]
) -> None:
    """Write node data to a folder, or a trace to a file or stdout."""
    from edgetool.pipeline.output import write_files
    from edgetool.pipeline.viewers import FILES, viewer_files

    result = viewer_files(described, viewer)
    notices = [f"note: {note}" for note in result.notes]
    if viewer == NODE_DATA and output is not None:
        contents = {name: text.encode("utf-8") for name, text in result.files.items()}
        written = write_files(output, contents, force=force, inputs=inputs)
        # What an earlier run knew would be shown beside the new figures; only --force gets here with such files.
        old = [path for path in (output / name for name in FILES[NODE_DATA]) if path not in written and path.exists()]
        for path in old:
            path.unlink()
        done = [*(("wrote", path) for path in written), *(("removed", path) for path in old)]
        notices = [*(f"{what} {printable(str(path), 400)}" for what, path in done), *notices]
    else:
        for text in result.files.values():
            deliver(text, output, force=force, quiet=quiet, inputs=inputs)
    if not quiet:
        for line in notices:
            notice(line)
