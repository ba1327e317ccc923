"""edgetool init."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from edgetool.cli.command import Command, option
from edgetool.cli.options import PATH, complete_target, force_option, quiet_options
from edgetool.cli.output import fact, notice, print_lines, printable, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgetool.pipeline.init import InitPlan, PlannedFile

SHOWN = 5  # number of models listed by name
LONGEST = 400
ACTIONS = {"new": "Wrote", "replaced": "Replaced", "extended": "Added to"}
PLANNED = {"new": "would be written", "replaced": "would be replaced", "extended": "would be extended with the hook"}


def init_view(plan: InitPlan) -> list[str]:
    """Show the summary after the files are written."""
    lines = _basis(plan)
    for file in plan.files:
        lines += fact(ACTIONS[file.action], _described(file))
    lines += _by_hand(plan)
    lines += ["", click.style("Next steps", bold=True)]
    for number, step in enumerate(_steps(plan), 1):
        lines += wrapped(step, "     ", f"  {number}. ")
    return lines


def dry_run_view(plan: InitPlan) -> list[str]:
    """Show the files that would be written, in full."""
    lines = _basis(plan)
    for file in plan.files:
        lines += ["", click.style(f"{file.path} {PLANNED[file.action]}:", bold=True)]
        lines += [f"  {line}".rstrip() for line in file.text.splitlines()]
    return [*lines, *_by_hand(plan), "", "Nothing was written."]


def _basis(plan: InitPlan) -> list[str]:
    lines = fact("Models", _listed(plan.models))
    if plan.keras_models:
        lines += fact("Keras", f"{_listed(plan.keras_models)}: convert with 'edgetool convert'")
    lines += fact("Target", f"{', '.join(map(printable, plan.targets))}, {plan.target_source}")
    for text in plan.notices:
        lines += fact("Note", printable(text, LONGEST))
    return lines


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(printable(name) for name in names[:SHOWN]) + more


def _described(file: PlannedFile) -> str:
    from edgetool.pipeline.init import HOOKS, SETTINGS, WORKFLOW

    purpose = {
        SETTINGS: "target and models; limits as comments",
        WORKFLOW: "runs 'edgetool check' in GitHub Actions",
        HOOKS: "runs 'edgetool check' before a commit",
    }
    return f"{file.path}: {purpose[file.path]}"


def _by_hand(plan: InitPlan) -> list[str]:
    from edgetool.pipeline.init import HOOKS

    if plan.by_hand is None:
        return []
    text = f"{HOOKS} is not in a form that init can extend. Add this to its list 'repos':"
    return ["", *wrapped(text, ""), "", *plan.by_hand.splitlines()]


def _steps(plan: InitPlan) -> list[str]:
    from edgetool.pipeline.init import HOOKS, SETTINGS, WORKFLOW

    paths = {file.path for file in plan.files}
    steps = [
        "Run 'edgetool check --update': it checks the models and writes edgetool.lock, the reference for later checks."
    ]
    if SETTINGS in paths:
        steps.append("Set reserve, max-latency and other limits in edgetool.toml.")
    if WORKFLOW in paths:
        steps.append(f"Review the line that installs edgetool in {WORKFLOW}.")
    if HOOKS in paths or plan.by_hand is not None:
        steps.append("Run 'pre-commit install' once per clone.")
    return [*steps, "Commit these files, edgetool.lock and the models."]


@click.command(
    "init",
    cls=Command,
    examples=(
        "edgetool init --target nucleo-l4r5zi",
        "edgetool init models/kws.tflite -t rpi-pico -t rpi-pico2 --only settings",
        "edgetool init --dry-run",
    ),
)
@click.argument("models", type=PATH, nargs=-1, metavar="[MODEL]...")
@option(
    "--target",
    "-t",
    group="Target",
    multiple=True,
    metavar="NAME|FILE.toml",
    shell_complete=complete_target,
    help="Board against which the models are checked; repeatable. By default, the board named by the models' reports, "
    "platformio.ini or CMakeLists.txt.",
)
@option(
    "--only",
    group="Output",
    type=click.Choice(["settings", "ci", "pre-commit"]),
    multiple=True,
    help="Write only this file; repeatable.",
)
@option("--dry-run", "-n", group="Output", is_flag=True, help="Print what would be written, but write nothing.")
@force_option
@quiet_options
@click.pass_context
def command(
    ctx: click.Context,
    models: tuple[Path, ...],
    target: tuple[str, ...],
    only: tuple[str, ...],
    dry_run: bool,
    force: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Set up 'edgetool check' for the models of this project: settings, a CI workflow and a pre-commit hook.

    Writes edgetool.toml, .github/workflows/edgetool.yml and .pre-commit-config.yaml to the current directory, for
    each MODEL or for all .tflite files below it. The hook is added to an existing .pre-commit-config.yaml; other files
    are replaced only with --force.
    """
    from edgetool.pipeline.init import PARTS, InitRequest, plan_init, write_init

    given = ctx.get_parameter_source("target") is ParameterSource.COMMANDLINE
    request = InitRequest(
        models=models,
        targets=target,
        target_source="specified with --target" if given else "kept from the earlier settings",
        parts=tuple(part for part in PARTS if not only or part in only),
        force=force,
    )
    directory = Path()
    plan = plan_init(directory, request)
    if dry_run:
        print_lines(dry_run_view(plan))
        return
    write_init(directory, plan)
    if quiet:
        if plan.by_hand is not None:
            notice("the hook was not added to .pre-commit-config.yaml: run without --quiet to see the entry")
        return
    print_lines(init_view(plan))
