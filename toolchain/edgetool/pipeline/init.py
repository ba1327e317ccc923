"""Set up a project for `edgetool check`: write settings, a CI workflow and a pre-commit hook.

The models and the board are found in the files of the project, unless the user specifies them. The hook is written to a
new .pre-commit-config.yaml or added to an existing one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from configparser import ConfigParser
from configparser import Error as IniError
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from edgetool import __version__
from edgetool.errors import EdgetoolError, ModelError, OutputError, SettingsError, TargetError, UsageError
from edgetool.pipeline.output import check_writable, read_file, write_file, write_files
from edgetool.pipeline.report_file import read_reports
from edgetool.pipeline.source import open_tflite
from edgetool.pipeline.targets import is_path, resolve_target
from edgetool.target.toml import MAX_FILE_BYTES, toml_table, toml_text

MAX_ENTRIES = 100_000  # files and folders that a search examines
MAX_DEPTH = 10
MAX_MODELS = 50
KERAS = (".h5", ".keras")
SKIPPED = frozenset(
    ("node_modules", "build", "dist", "venv", "env", "__pycache__", "site-packages", "out", "target", "libdeps")
)
# Profiles by the identifiers of boards in PlatformIO, Zephyr and the Pico SDK, if they differ from the profile's name.
BOARD_IDS = {
    "adafruit-feather-nrf52840": "feather-nrf52840",
    "arduino-nano-33-ble": "arduino-nano33ble",
    "disco-f407vg": "stm32f407-disco",
    "disco-f769ni": "stm32f769i-disco",
    "disco-l475vg-iot01a": "b-l475e-iot01a",
    "giga-r1-m7": "arduino-giga-r1",
    "nano33ble": "arduino-nano33ble",
    "nanorp2040connect": "arduino-rp2040-connect",
    "pico": "rpi-pico",
    "pico-w": "rpi-pico",
    "pico2": "rpi-pico2",
    "portenta-h7-m7": "arduino-portenta-h7",
    "rpipico": "rpi-pico",
    "rpipicow": "rpi-pico",
    "rpipico2": "rpi-pico2",
    "stm32f4-disco": "stm32f407-disco",
}
CMAKE_BOARD = re.compile(r"^[ \t]*set\([ \t]*(?:PICO_)?BOARD[ \t]+\"?([A-Za-z0-9_.-]+)[\"/ \t)]", re.MULTILINE)


def find_models(directory: Path, specified: Sequence[Path]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Find the models of a project, or check those that the user specifies.

    Returns:
        The .tflite files and the Keras models, relative to the directory, and notices about files that are skipped.

    Raises:
        UsageError: There is no .tflite, or there are more than MAX_MODELS.
        EdgetoolError: A specified model is not valid.
    """
    notices: list[str] = []
    paths = (
        [_relative_to(directory, path) for path in dict.fromkeys(specified)]
        if specified
        else _search(directory, notices)
    )
    models, keras_models = [], []
    for relative in paths:
        path = directory / relative
        if path.suffix in KERAS or path.is_dir():
            keras_models.append(relative)
            continue
        try:
            relative.encode("utf-8")
            open_tflite(path)
        except UnicodeEncodeError:
            what = "has a name that is not UTF-8, which a TOML file cannot contain"
            if specified:
                raise UsageError(what, where=str(path), fix="rename it") from None
            notices.append(f"skipped {relative}: its name {what.removeprefix('has a name that ')}")
        except EdgetoolError as error:
            if specified:
                raise
            reason = error.what if isinstance(error, ModelError) else str(error)
            notices.append(f"skipped {relative}: {reason}")
        else:
            models.append(relative)
    if not models:
        if keras_models:
            raise UsageError(
                f"found no .tflite model, only {len(keras_models)} Keras model{'s' * (len(keras_models) > 1)}",
                where=str(directory / keras_models[0]),
                fix="convert it with 'edgetool convert MODEL --target NAME', and run init again",
            )
        raise UsageError(
            "found no .tflite model",
            where=str(directory.resolve()),
            fix="specify the models, or run this command in the directory that contains them",
            details=tuple(notices),
        )
    if len(models) > MAX_MODELS:
        raise UsageError(
            f"found {len(models)} models, more than {MAX_MODELS}", where=str(directory), fix="specify those to check"
        )
    return tuple(models), tuple(name for name in keras_models if _is_text(name)), tuple(notices)


def find_targets(
    directory: Path, models: Sequence[str], specified: Sequence[str], specified_by: str
) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """Find the targets of a project.

    Args:
        directory: The directory of the project.
        models: Its models, relative to the directory.
        specified: The targets that the user specifies; may be empty.
        specified_by: How the user specifies them.

    Returns:
        The targets, their source, and notices about boards without a profile and targets without memory regions.

    Raises:
        UsageError: No file of the project names a target.
        TargetError: A specified target is unknown.
    """
    if specified:
        names = dict.fromkeys(
            _relative_to(directory, Path(name)) if is_path(name) else resolve_target(name).name for name in specified
        )
        targets = [resolve_target(str(directory / name) if is_path(name) else name) for name in names]
        without_memory = [target.name for target in targets if target.arena_region is None]
        text = "the memory size of {} is unknown: limit the arena with max-arena, or name a board"
        return tuple(names), specified_by, tuple(text.format(name) for name in without_memory)
    unknown: list[str] = []
    for source, boards in _named_boards(directory, models):
        packaged = dict.fromkeys(name for name in map(_packaged_target, boards) if name is not None)
        without_profile = [board for board in boards if _packaged_target(board) is None]
        unknown += [f"{source} specifies {board}, which has no profile" for board in without_profile]
        if packaged:
            return tuple(packaged), f"taken from {source}", tuple(unknown)
    raise UsageError(
        "no target is specified, and the project contains no board name that edgetool knows",
        where=str(directory.resolve()),
        fix="specify the board with --target; 'edgetool fit MODEL' shows which boards the model fits",
        details=tuple(unknown),
    )


def repository_top(directory: Path) -> Path | None:
    """Return the root of the Git repository that contains the directory; None if there is no repository."""
    resolved = directory.resolve()
    return next((folder for folder in (resolved, *resolved.parents) if (folder / ".git").exists()), None)


def uses_lfs(directory: Path) -> bool:
    """Return whether files are stored in Git LFS, which a checkout in CI does not download by default."""
    return "filter=lfs" in (text_of(directory / ".gitattributes") or "")


def text_of(path: Path) -> str | None:
    """Return the text of a small file; None if it does not exist. Raises UsageError if it cannot be read."""
    if not os.path.lexists(path):
        return None
    blob = read_file(path, what="a text file", max_bytes=MAX_FILE_BYTES)
    return toml_text(
        blob, where=str(path), fix="correct it, or use --only to write only the other files", error=UsageError
    )


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _relative_to(directory: Path, path: Path) -> str:
    """Return the path relative to the directory, with slashes. Raises UsageError if it is not a file below it."""
    absolute, top = Path(os.path.abspath(path)), Path(os.path.abspath(directory))
    if not absolute.is_relative_to(top):
        raise UsageError("is outside the project", where=str(path), fix=f"specify a model in {top}")
    if not absolute.exists():
        raise UsageError("does not exist", where=str(path), fix="specify a .tflite file")
    if absolute.is_dir() and not (absolute / "saved_model.pb").exists():
        raise UsageError("is a directory, not a model", where=str(path), fix="specify the .tflite files in it")
    return PurePosixPath(absolute.relative_to(top)).as_posix()


def _search(directory: Path, notices: list[str]) -> list[str]:
    """Return the models below the directory, sorted by path.

    Hidden folders, virtual environments, build folders and links to folders are not searched.
    """
    paths, entries = [], 0
    for folder, folders, files in os.walk(directory):
        here = PurePosixPath(Path(folder).relative_to(directory).as_posix())
        entries += len(folders) + len(files)
        if "saved_model.pb" in files and here.parts:
            paths.append(here.as_posix())
            folders.clear()
            continue
        paths += [(here / name).as_posix() for name in files if name.endswith((".tflite", *KERAS))]
        is_deepest = len(here.parts) >= MAX_DEPTH
        folders[:] = [] if is_deepest else sorted(name for name in folders if _is_searched(Path(folder), name))
        if entries > MAX_ENTRIES:
            notices.append(f"the search ended after {MAX_ENTRIES:,} files: specify the models if one is missing")
            break
    return sorted(path for path in paths if (directory / path).is_file() or (directory / path).is_dir())


def _is_searched(folder: Path, name: str) -> bool:
    if name.startswith((".", "cmake-build", "bazel-")) or name.lower() in SKIPPED:
        return False
    return not (folder / name / "pyvenv.cfg").exists()


def _named_boards(directory: Path, models: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the files that name boards, the most reliable first, each with its boards."""
    reports = []
    for model in models:
        path = (directory / model).with_suffix(".json")
        with contextlib.suppress(EdgetoolError):
            if path.is_file():
                reports += [report.target.name for report in read_reports(path) if report.target is not None]
    yield "the models' reports", tuple(dict.fromkeys(reports))
    text = text_of(directory / "platformio.ini")
    if text is not None:
        ini = ConfigParser(interpolation=None, strict=False)
        with contextlib.suppress(IniError):
            ini.read_string(text)
        yield (
            "platformio.ini",
            tuple(dict.fromkeys(ini[name]["board"].strip() for name in ini.sections() if ini[name].get("board"))),
        )
    text = text_of(directory / "CMakeLists.txt")
    if text is not None:
        yield "CMakeLists.txt", tuple(dict.fromkeys(CMAKE_BOARD.findall(text)))


def _packaged_target(board: str) -> str | None:
    """Return the packaged target of a board's identifier; None unless it is certain."""
    lower = board.lower().replace("_", "-")
    if is_path(board):
        return None
    try:
        return resolve_target(BOARD_IDS.get(lower, lower)).name
    except TargetError:
        return None


HOOK_ID = "edgetool-check"
QUOTED = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:''|[^'])*'")  # a quoted YAML scalar on one line


def hooks_text() -> str:
    """Return a .pre-commit-config.yaml with only this hook."""
    return f"repos:\n{hook_entry('  ')}"


def with_hook(text: str) -> str | None:
    """Return a .pre-commit-config.yaml with the hook added to the end of `repos`; everything else stays unchanged.

    Returns None unless the file has the plain block style, in which the indentation shows where `repos` ends.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.replace("\r\n", "\n").split("\n")
    content = _content_lines(lines)
    starts = [at for at, line in enumerate(lines) if re.fullmatch(r"repos:[ ]*(#.*)?", line)]
    if content is None or len(starts) != 1 or not content[starts[0]]:
        return None
    first = next((at for at in range(starts[0] + 1, len(lines)) if content[at]), None)
    item = None if first is None else re.match(r"( *)- ", lines[first])
    if first is None or item is None:
        return None
    indent, last = item[1], first
    for at in range(first, len(lines)):
        line = lines[at]
        depth = _depth(line)
        if content[at] and (depth < len(indent) or (depth == len(indent) and not line.startswith(f"{indent}- "))):
            if depth:  # neither in the list nor a key of the file
                return None
            break
        if content[at]:
            last = at
    entry = hook_entry(indent).rstrip("\n").split("\n")
    return newline.join([*lines[: last + 1], *entry, *(lines[last + 1 :] or [""])])


def hook_entry(indent: str) -> str:
    """Return the entry for .pre-commit-config.yaml, indented as an item of `repos`."""
    lines = [
        "# Checks the models in edgetool.toml when a model, the settings or the lock file changes.",
        "- repo: local",
        "  hooks:",
        f"    - id: {HOOK_ID}",
        "      name: edgetool check",
        "      entry: edgetool check",
        "      language: system # uses the edgetool installed in your environment",
        "      files: (\\.tflite|(^|/)edgetool\\.(toml|lock))$",
        "      pass_filenames: false",
        "      require_serial: true",
    ]
    return "".join(f"{indent}{line}\n" for line in lines)


def _content_lines(lines: Sequence[str]) -> list[bool] | None:
    """Return for each line whether it has content; None if the indentation of a line does not show its place."""
    content: list[bool] = []
    block: int | None = None  # the column of the key whose block scalar the lines belong to
    for line in lines:
        text, depth = line.strip(" "), _depth(line)
        if block is not None and (not text or depth > block):
            content.append(bool(text))
            continue
        block = None
        if not text or text.startswith("#") or line.rstrip() == "---":
            content.append(False)
            continue
        value = QUOTED.sub("q", line).split(" #")[0].rstrip()
        if _is_complex(line, value):
            return None
        if re.search(r"[:-] [|>][-+0-9]*$", value):
            start = re.match(r" *(?:- +)*", line)
            block = depth if start is None else start.end()
        content.append(True)
    return content


def _is_complex(line: str, value: str) -> bool:
    """Return whether a line has more than keys, items and scalars: tabs, further documents, values over several lines.

    value: the line without its comment, with each quoted scalar replaced by a letter.
    """
    if not line.isprintable() or line.startswith(("...", "---", "%", "\ufeff")):
        return True
    return any(mark in value for mark in "\"'") or any(
        value.count(opening) != value.count(closing) for opening, closing in ("[]", "{}", "()")
    )


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


Part = Literal["settings", "ci", "pre-commit"]
PARTS: tuple[Part, ...] = ("settings", "ci", "pre-commit")
SETTINGS = "edgetool.toml"
WORKFLOW = ".github/workflows/edgetool.yml"
HOOKS = ".pre-commit-config.yaml"


@dataclass(frozen=True, slots=True)
class InitRequest:
    """The models and targets that the user specifies; if there are none, init searches for them.

    target_source: how the user specifies the targets.
    """

    models: tuple[Path, ...] = ()
    targets: tuple[str, ...] = ()
    target_source: str = "given with --target"
    parts: tuple[Part, ...] = PARTS
    force: bool = False


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file to write, relative to the project's directory; action states what happens to an existing file."""

    path: str
    text: str
    action: Literal["new", "replaced", "extended"]


@dataclass(frozen=True, slots=True)
class InitPlan:
    """The files that init would write, and what it found in the project.

    Attributes:
        models: The .tflite files, relative to the directory.
        keras_models: The Keras models, relative to the directory.
        targets: The targets.
        target_source: The source of the targets.
        files: The files to write.
        by_hand: The entry that the user must add to .pre-commit-config.yaml; None unless init cannot add it.
        notices: What was skipped, and why.
    """

    models: tuple[str, ...]
    keras_models: tuple[str, ...]
    targets: tuple[str, ...]
    target_source: str
    files: tuple[PlannedFile, ...]
    by_hand: str | None
    notices: tuple[str, ...]


def plan_init(directory: Path, request: InitRequest | None = None) -> InitPlan:
    """Read the project, and return what to write into it; nothing is written.

    Raises:
        UsageError: There is no model or no target, or init would write outside the root of the repository.
        OutputError: A file already exists.
        ModelError: A specified model is not a valid model.
    """
    request = request or InitRequest()
    top = repository_top(directory)
    if top is not None and top != directory.resolve() and {"ci", "pre-commit"} & set(request.parts):
        raise UsageError(
            "is not the root of the repository, where CI and pre-commit expect their files",
            where=str(directory),
            fix=f"run this command in {top}, or with --only settings",
        )
    models, keras_models, notices = find_models(directory, request.models)
    targets, source, unknown = find_targets(directory, models, request.targets, request.target_source)
    notices = (*notices, *unknown)
    files, by_hand = [], None
    if "settings" in request.parts:
        _refuse_hidden_settings(directory)
        text = settings_text(models, keras_models, targets, source)
        files.append(PlannedFile(SETTINGS, text, _action(directory, SETTINGS, request.force)))
    if "ci" in request.parts:
        text = workflow_text(lfs=uses_lfs(directory))
        files.append(PlannedFile(WORKFLOW, text, _action(directory, WORKFLOW, request.force)))
    if "pre-commit" in request.parts:
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
            before = {name: _bytes_of(folder / name) for name in by_folder[folder]}
            undo.callback(_restore, folder, before, _missing_folders(folder))
            force = all(folder / name in may_replace or not (folder / name).exists() for name in by_folder[folder])
            written += write_files(folder, by_folder[folder], force=force, option="directory")
        undo.pop_all()
    return tuple(sorted(written))


def _restore(folder: Path, before: dict[str, bytes | None], created: tuple[Path, ...]) -> None:
    """Restore the files of a folder, and remove the folders that were created for them."""
    for name, content in before.items():
        if content is not None:
            if _bytes_of(folder / name) != content:
                write_file(folder / name, content, force=True)
        else:
            (folder / name).unlink(missing_ok=True)
    for path in created:
        with contextlib.suppress(OSError):
            path.rmdir()


def _missing_folders(folder: Path) -> tuple[Path, ...]:
    """Return the folders that writing into this one creates, the innermost first."""
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
    """Return the GitHub workflow; with lfs, it also downloads files from Git LFS."""
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
    """Return a TOML basic string on one line, with invisible characters escaped."""
    return "".join(
        _escaped(character) if unicodedata.category(character)[0] in "CZ" and character != " " else character
        for character in json.dumps(text, ensure_ascii=False)
    ).replace("##", "#\\u0023")  # CI runners interpret ## as the beginning of a command


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04X}" if code < 2**16 else f"\\U{code:08X}"


def _action(directory: Path, name: str, force: bool) -> Literal["new", "replaced"]:
    """Return what happens to the file. Raises OutputError if it exists and must not be replaced."""
    path = directory / name
    if not os.path.lexists(path):
        return "new"
    if not force:
        raise OutputError(
            "already exists", where=name, fix="use --force to replace it, or --only to write only the other files"
        )
    return "replaced"


def _refuse_hidden_settings(directory: Path) -> None:
    """Raise UsageError for settings in pyproject.toml, which would no longer be read with an edgetool.toml."""
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


def _bytes_of(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
