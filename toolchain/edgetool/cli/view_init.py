"""The view of `edgetool init`: what was found, what was written, and the next steps."""

from __future__ import annotations

from collections.abc import Sequence

import click

from edgetool.cli.text import fact, printable, wrapped
from edgetool.pipeline.init import HOOKS, SETTINGS, WORKFLOW, InitPlan, PlannedFile

SHOWN = 5  # models by name
LONGEST = 400
ACTIONS = {"new": "Wrote", "replaced": "Replaced", "extended": "Added to"}
PLANNED = {"new": "would be written", "replaced": "would be replaced", "extended": "would be extended with the hook"}


def init_view(plan: InitPlan) -> list[str]:
    """The summary after the files are written."""
    lines = _basis(plan)
    for file in plan.files:
        lines += fact(ACTIONS[file.action], _described(file))
    lines += _by_hand(plan)
    lines += ["", click.style("Next steps", bold=True)]
    for number, step in enumerate(_steps(plan), 1):
        lines += wrapped(step, "     ", f"  {number}. ")
    return lines


def dry_run_view(plan: InitPlan) -> list[str]:
    """The files that would be written, in full."""
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
    purpose = {
        SETTINGS: "target and models; limits as comments",
        WORKFLOW: "runs 'edgetool check' in GitHub Actions",
        HOOKS: "runs 'edgetool check' before a commit",
    }
    return f"{file.path}: {purpose[file.path]}"


def _by_hand(plan: InitPlan) -> list[str]:
    if plan.by_hand is None:
        return []
    text = f"{HOOKS} is not in a form that init can extend. Add this to its list 'repos':"
    return ["", *wrapped(text, ""), "", *plan.by_hand.splitlines()]


def _steps(plan: InitPlan) -> list[str]:
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
