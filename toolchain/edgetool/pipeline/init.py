"""What a project needs for `edgetool check`: settings, a CI workflow and a pre-commit hook for its models."""

from __future__ import annotations

import contextlib
import json
import os
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edgetool import __version__
from edgetool.errors import OutputError, SettingsError, UsageError
from edgetool.pipeline.files import check_writable, write_file, write_files
from edgetool.pipeline.hook_config import HOOK_ID, hook_entry, hooks_text, with_hook
from edgetool.pipeline.project import find_models, find_targets, repository_top, text_of, uses_lfs
from edgetool.target.toml_text import toml_table

Part = Literal["settings", "ci", "pre-commit"]
PARTS: tuple[Part, ...] = ("settings", "ci", "pre-commit")
SETTINGS = "edgetool.toml"
WORKFLOW = ".github/workflows/edgetool.yml"
HOOKS = ".pre-commit-config.yaml"


@dataclass(frozen=True, slots=True)
class InitRequest:
    """Models and targets by name; without any, they are searched for. target_source: who names the targets."""

    models: tuple[Path, ...] = ()
    targets: tuple[str, ...] = ()
    target_source: str = "given with --target"
    parts: tuple[Part, ...] = PARTS
    force: bool = False


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file to write, by its path from the project's top; action says what becomes of the one that is there."""

    path: str
    text: str
    action: Literal["new", "replaced", "extended"]


@dataclass(frozen=True, slots=True)
class InitPlan:
    """What init would write, and on what that rests.

    models and keras_models are relative to the directory. by_hand: the entry to add to .pre-commit-config.yaml by hand,
    None unless that file is such that init cannot add it. notices: what was left out, and why.
    """

    models: tuple[str, ...]
    keras_models: tuple[str, ...]
    targets: tuple[str, ...]
    target_source: str
    files: tuple[PlannedFile, ...]
    by_hand: str | None
    notices: tuple[str, ...]


def plan_init(directory: Path, request: InitRequest | None = None) -> InitPlan:
    """Read the project and return what to write into it; nothing is written.

    Raises UsageError if no model or no target can be found, or a file already exists; ModelError for a named model that
    is none.
    """
    asked = request or InitRequest()
    top = repository_top(directory)
    if top is not None and top != directory.resolve() and {"ci", "pre-commit"} & set(asked.parts):
        raise UsageError(
            "is not the root of the repository, where CI and pre-commit expect their files",
            where=str(directory),
            fix=f"run this command in {top}, or with --only settings",
        )
    models, keras_models, notices = find_models(directory, asked.models)
    targets, source, unknown = find_targets(directory, models, asked.targets, asked.target_source)
    notices = (*notices, *unknown)
    files, by_hand = [], None
    if "settings" in asked.parts:
        _refuse_hidden_settings(directory)
        text = settings_text(models, keras_models, targets, source)
        files.append(PlannedFile(SETTINGS, text, _action(directory, SETTINGS, asked.force)))
    if "ci" in asked.parts:
        text = workflow_text(lfs=uses_lfs(directory))
        files.append(PlannedFile(WORKFLOW, text, _action(directory, WORKFLOW, asked.force)))
    if "pre-commit" in asked.parts:
        before = text_of(directory / HOOKS)
        if before is None:
            files.append(PlannedFile(HOOKS, hooks_text(), "new"))
        elif re.search(rf"\bid:\s*[\"']?{HOOK_ID}\b", before):
            notices = (*notices, f"{HOOKS} already contains the hook")
        else:
            after = with_hook(before)
            if after is None:
                by_hand = hook_entry("  ")
            else:
                files.append(PlannedFile(HOOKS, after, "extended"))
    return InitPlan(models, keras_models, targets, source, tuple(files), by_hand, notices)


def write_init(directory: Path, plan: InitPlan) -> tuple[Path, ...]:
    """Write the planned files, all of them or none, and return their paths. Raises OutputError."""
    by_folder: dict[Path, dict[str, bytes]] = {}
    for file in plan.files:
        path = directory / file.path
        by_folder.setdefault(path.parent, {})[path.name] = file.text.encode("utf-8")
    may_replace = {directory / file.path for file in plan.files if file.action != "new"}
    for folder, contents in by_folder.items():
        for name in contents:
            check_writable(folder, (name,), force=folder / name in may_replace, inputs=(), option="directory")
    written: list[Path] = []
    with contextlib.ExitStack() as undo:
        for folder in sorted(by_folder, key=lambda folder: len(folder.parts), reverse=True):
            undo.callback(_restore, folder, {name: _bytes(folder / name) for name in by_folder[folder]}, _made(folder))
            force = all(folder / name in may_replace or not (folder / name).exists() for name in by_folder[folder])
            written += write_files(folder, by_folder[folder], force=force, option="directory")
        undo.pop_all()
    return tuple(sorted(written))


def _restore(folder: Path, before: dict[str, bytes | None], made: tuple[Path, ...]) -> None:
    """Put a folder's files back as they were, and remove the folders that were made for them."""
    for name, content in before.items():
        if content is not None:
            if _bytes(folder / name) != content:
                write_file(folder / name, content, force=True)
        else:
            (folder / name).unlink(missing_ok=True)
    for path in made:
        with contextlib.suppress(OSError):
            path.rmdir()


def _made(folder: Path) -> tuple[Path, ...]:
    """The folders that writing into this one makes, the innermost first."""
    return tuple(path for path in (folder, *folder.parents) if not path.exists())


def settings_text(
    models: Sequence[str], keras_models: Sequence[str], targets: Sequence[str], target_source: str
) -> str:
    """Return edgetool.toml: targets, models, and the other settings of `check` and `convert` as comments."""
    several = len(targets) > 1
    target = f"[{', '.join(map(quoted, targets))}]" if several else quoted(targets[0])
    lines = [
        "# Settings for edgetool, read from the current directory. Command-line options take precedence.",
        "",
        f"# The board{'s' * several} for which models are checked, planned and estimated ({target_source}).",
        "# 'edgetool targets list' lists all boards; 'edgetool fit MODEL' shows which boards a model fits.",
        f"target = {target}",
        "",
        "[check]",
        "# The models that 'edgetool check' checks; patterns such as \"models/*.tflite\" are allowed.",
        "models = [",
        *(f"  {quoted(model)}," for model in models),
        "]",
        "# RAM to reserve for the stack and the application, and flash to reserve for code:",
        '# reserve = "32KiB"',
        '# reserve-flash = "256KiB"',
        "# Limits on arena size and inference time that are stricter than the board's:",
        '# max-arena = "64KiB"',
        '# max-latency = "50ms"',
        "# Allowed growth over the figures in edgetool.lock, which 'edgetool check --update' writes:",
        '# allow-growth = "2%"',
    ]
    if keras_models:
        lines += [
            "",
            "# Keras models in this project; 'edgetool convert MODEL' converts them to .tflite and firmware files:",
            *(f"#   {quoted(model)}" for model in keras_models),
            "# [convert]",
            "# Representative inputs, which determine the accuracy of the int8 model:",
            '# calibration = "samples.npz"',
        ]
    return "\n".join([*lines, ""])


def workflow_text(*, lfs: bool) -> str:
    """Return the GitHub workflow; lfs: the models lie in Git LFS."""
    checkout = ["        with:", "          lfs: true"] if lfs else []
    return "\n".join(
        [
            "# Checks the models in edgetool.toml on every push and pull request. Written by 'edgetool init'.",
            "name: edgetool",
            "on: [push, pull_request]",
            "permissions:",
            "  contents: read",
            "jobs:",
            "  check:",
            "    runs-on: ubuntu-latest",
            "    timeout-minutes: 10",
            "    steps:",
            "      - uses: actions/checkout@v5",
            *checkout,
            "      - uses: actions/setup-python@v6",
            "        with:",
            '          python-version: "3.12"',
            "      # Replace this line to install edgetool from another source, such as a wheel in this repository.",
            f"      - run: python -m pip install edgetool=={__version__}",
            "      - name: Check the models",
            "        run: edgetool check --format github",
            "      - name: Add the table to the job summary",
            "        if: ${{ !cancelled() }}",
            '        run: edgetool check --format markdown >> "$GITHUB_STEP_SUMMARY"',
            "",
        ]
    )


def quoted(text: str) -> str:
    """Return a TOML basic string on one line, in which every character that does not show is escaped."""
    return "".join(
        _escaped(character) if unicodedata.category(character)[0] in "CZ" and character != " " else character
        for character in json.dumps(text, ensure_ascii=False)
    ).replace("##", "#\\u0023")  # with which CI runners begin a command


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04X}" if code < 2**16 else f"\\U{code:08X}"


def _action(directory: Path, name: str, force: bool) -> Literal["new", "replaced"]:
    """What becomes of the file. Raises OutputError if one is there and may not be replaced."""
    path = directory / name
    if not os.path.lexists(path):
        return "new"
    if not force:
        raise OutputError(
            "already exists", where=name, fix="use --force to replace it, or --only to write only the other files"
        )
    return "replaced"


def _refuse_hidden_settings(directory: Path) -> None:
    """Settings in pyproject.toml would no longer be read. Raises SettingsError."""
    text = text_of(directory / "pyproject.toml")
    if text is None or "edgetool" not in text:
        return
    with contextlib.suppress(SettingsError):
        tool = toml_table(text, where="pyproject.toml", fix="correct it", error=SettingsError).get("tool")
        if not isinstance(tool, dict) or "edgetool" not in tool:
            return
        raise UsageError(
            "contains edgetool settings, which an edgetool.toml would override",
            where="pyproject.toml [tool.edgetool]",
            fix="add target and models there, and run init with --only ci --only pre-commit",
        )


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
