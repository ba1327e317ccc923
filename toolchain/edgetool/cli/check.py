"""edgetool check."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgetool.cli.check_options import limit_options, lock_options
from edgetool.cli.command import Command, option
from edgetool.cli.options import PATH, custom_operators_option, force_option, json_option, quiet_options, target_options
from edgetool.cli.output import deliver, notice, print_lines
from edgetool.cli.settings import read_by_name
from edgetool.cli.text import printable
from edgetool.errors import FailedCheckError, UsageError

if TYPE_CHECKING:
    from edgetool.gate.limits import Allowance, Budget
    from edgetool.report.document import Report

JUDGED_AND_FAILED = 1
# Forms for other programs: the module whose text() makes them.
FORMS = {
    "github": "edgetool.gate.github",
    "junit": "edgetool.gate.junit",
    "sarif": "edgetool.gate.sarif",
    "markdown": "edgetool.gate.markdown",
}


@click.command(
    "check",
    cls=Command,
    examples=(
        "edgetool check model.tflite --target nucleo-l4r5zi --max-latency 50ms",
        "edgetool check models/*.tflite -t rpi-pico -t esp32-s3 --reserve 32KiB",
        "edgetool check model.tflite -t rpi-pico --update",
    ),
)
@click.argument("paths", type=PATH, nargs=-1, metavar="[MODEL]...")
@option("--models", type=PATH, multiple=True, hidden=True, help="The models to check if no MODEL is given.")
@target_options(required=True, multiple=True)
@limit_options
@lock_options
@custom_operators_option
@option(
    "--format",
    group="Output",
    type=click.Choice(["text", "json", *FORMS]),
    default="text",
    show_default=True,
    help="Format of the result: text, the JSON document, or a format for CI services.",
)
@json_option
@option(
    "--output",
    "-o",
    group="Output",
    type=PATH,
    metavar="FILE",
    help="Write the result in that format to FILE, and the text to stdout.",
)
@force_option
@quiet_options
def command(
    paths: tuple[Path, ...],
    models: tuple[Path, ...],
    target: tuple[str, ...],
    reserve: int,
    reserve_flash: int,
    max_arena: int | None,
    max_latency: float | None,
    max_accuracy_loss: float | None,
    report: tuple[Path, ...],
    memory_budgets: tuple[Budget, ...],
    active_memory_budget: Budget | None,
    lock: Path,
    update: bool,
    locked: bool,
    allow_growth: tuple[Allowance, ...],
    custom_operators: Path | None,
    format: str,  # as the key in edgetool.toml is called
    as_json: bool,
    output: Path | None,
    force: bool,
    quiet: bool,
    verbose: int,
    **overrides: Any,
) -> None:
    """Check whether each MODEL, a .tflite file, fits each target, is fast enough and has not grown.

    Arena, model size and latency are compared with the target's memory, with the limits given as options, and with
    edgetool.lock, which --update writes; commit that file. Each model is checked unchanged, with the memory plan in
    the file if there is one. Without MODEL, the models are taken from the key "models" in the table [check] of
    edgetool.toml. Exits with 1 if a model fails.
    """
    from edgetool.cli.view_check import check_view
    from edgetool.gate.limits import Allowance, Limits
    from edgetool.pipeline.check import check_models
    from edgetool.pipeline.check_request import CheckRequest
    from edgetool.pipeline.files import check_writable
    from edgetool.pipeline.targets import resolve_named

    wanted = paths or tuple(found for path in models for found in _matching(path))
    if not wanted:
        raise UsageError(
            "no model is given", fix='name a .tflite file, or set models = ["..."] in [check] of edgetool.toml'
        )
    targets = [found for found in (resolve_named(name, **overrides) for name in target) if found is not None]
    request = CheckRequest(
        limits=Limits(
            reserve_bytes=reserve,
            reserve_flash_bytes=reserve_flash,
            max_latency_ms=max_latency,
            max_arena_bytes=max_arena,
            max_accuracy_loss=max_accuracy_loss,
            budgets=memory_budgets,
            active_budget=active_memory_budget,
        ),
        allowance=Allowance(
            max((item.percent for item in allow_growth), default=0.0),
            max((item.bytes for item in allow_growth), default=0),
        ),
        lock=lock,
        update=update,
        locked=locked,
        reports=report,
        custom_operators=custom_operators,
    )
    read = (*wanted, *report, lock, custom_operators, *read_by_name(*target))
    inputs = tuple(path for path in read if path is not None)
    if output is not None:
        check_writable(output.parent, (output.name,), force=force, inputs=inputs)
    checked = check_models(wanted, targets, request)
    form = "json" if as_json else format
    view = check_view(checked.reports, everything=verbose > 0)
    if output is not None:
        plain = "".join(f"{click.unstyle(line)}\n" for line in view)
        text = plain if form == "text" else _text(form, checked.reports)
        deliver(text, output, force=force, quiet=quiet, inputs=inputs)
    if form == "text" or output is not None:
        if not quiet:
            print_lines(view)
    else:
        deliver(_text(form, checked.reports), None)
    said = [*([] if checked.written is None else [f"wrote {checked.written}"]), *checked.notices]
    for text in [] if quiet else said:
        notice(printable(text, 400))
    if checked.passed:
        return
    if quiet:
        failed = [made.check for made in checked.reports if made.check is not None and not made.check.passed]
        rules = sorted({item.rule for gate in failed for item in gate.judgements if item.passed is False})
        paths_failed = dict.fromkeys(gate.path for gate in failed)
        raise FailedCheckError(f"fails: {', '.join(rules)}", where=", ".join(paths_failed))
    raise click.exceptions.Exit(JUDGED_AND_FAILED)


def _matching(path: Path) -> list[Path]:
    """The files of a pattern in the settings, where no shell has expanded it; a path without one is itself."""
    found = [] if path.exists() or path.is_absolute() else sorted(Path().glob(str(path)))
    return found or [path]


def _text(form: str, reports: Sequence[Report]) -> str:
    if form == "json":
        from edgetool.report.json import documents, to_json

        return to_json(documents(reports))
    shown = tuple(_in_checkout(report) for report in reports) if form in ("github", "sarif") else reports
    made: str = importlib.import_module(FORMS[form]).text(shown)
    return made


def _in_checkout(report: Report) -> Report:
    """With the path from the top of the checkout, where GitHub looks for it wherever edgetool runs."""
    root = os.environ.get("GITHUB_WORKSPACE")
    if not root or report.check is None:
        return report
    model, top = Path(os.path.abspath(report.check.path)), Path(os.path.abspath(root))
    if not model.is_relative_to(top):
        return report
    return replace(report, check=replace(report.check, path=model.relative_to(top).as_posix()))
