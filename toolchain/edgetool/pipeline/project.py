"""What a project tells about itself: its models, the board that it is for, and where its repository begins."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from configparser import ConfigParser
from configparser import Error as IniError
from pathlib import Path, PurePosixPath

from edgetool.errors import EdgetoolError, ModelError, TargetError, UsageError
from edgetool.pipeline.files import read_file
from edgetool.pipeline.report_file import read_reports
from edgetool.pipeline.source import open_tflite
from edgetool.pipeline.targets import is_path, resolve_target
from edgetool.target.toml_text import MAX_FILE_BYTES, toml_text

MAX_ENTRIES = 100_000  # files and folders that a search looks at
MAX_DEPTH = 10
MAX_MODELS = 50
KERAS = (".h5", ".keras")
SKIPPED = frozenset(
    ("node_modules", "build", "dist", "venv", "env", "__pycache__", "site-packages", "out", "target", "libdeps")
)
# Boards by the identifiers of PlatformIO, Zephyr and the Pico SDK, if they are not the profile's name.
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


def find_models(directory: Path, named: Sequence[Path]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The .tflite files, the Keras models, and what was left out."""
    notices: list[str] = []
    paths = [_below(directory, path) for path in dict.fromkeys(named)] if named else _search(directory, notices)
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
            if named:
                raise UsageError(what, where=str(path), fix="rename it") from None
            notices.append(f"skipped {relative}: its name {what.removeprefix('has a name that ')}")
        except EdgetoolError as error:
            if named:
                raise
            kind = error.what if isinstance(error, ModelError) else str(error)
            notices.append(f"skipped {relative}: {kind}")
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
    directory: Path, models: Sequence[str], given: Sequence[str], given_by: str
) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """The targets, where they come from, and notices: boards without a profile, targets without memory.

    given: the user's, or none, and given_by where those come from. Raises UsageError if nothing in the project names a
    target, TargetError for an unknown one that is given.
    """
    if given:
        names = dict.fromkeys(
            _below(directory, Path(name)) if is_path(name) else resolve_target(name).name for name in given
        )
        targets = [resolve_target(str(directory / name) if is_path(name) else name) for name in names]
        cores = [target.name for target in targets if target.arena_region is None]
        text = "the memory size of {} is unknown: limit the arena with max-arena, or name a board"
        return tuple(names), given_by, tuple(text.format(name) for name in cores)
    unknown: list[str] = []
    for source, boards in _hints(directory, models):
        known = dict.fromkeys(name for name in map(_packaged, boards) if name is not None)
        unknown += [f"{source} specifies {board}, which has no profile" for board in boards if _packaged(board) is None]
        if known:
            return tuple(known), f"taken from {source}", tuple(unknown)
    raise UsageError(
        "no target is specified, and the project contains no board name that edgetool knows",
        where=str(directory.resolve()),
        fix="specify the board with --target; 'edgetool fit MODEL' shows which boards the model fits",
        details=tuple(unknown),
    )


def repository_top(directory: Path) -> Path | None:
    """The top of the repository that the directory lies in; None outside of one."""
    here = directory.resolve()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), None)


def uses_lfs(directory: Path) -> bool:
    """Whether any files lie in Git LFS, which a checkout of CI leaves out by default."""
    return "filter=lfs" in (text_of(directory / ".gitattributes") or "")


def text_of(path: Path) -> str | None:
    """The text of a small file; None where there is none. Raises UsageError for one that cannot be read."""
    if not os.path.lexists(path):
        return None
    blob = read_file(path, what="a text file", most_bytes=MAX_FILE_BYTES)
    return toml_text(
        blob, where=str(path), fix="correct it, or use --only to write only the other files", error=UsageError
    )


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _below(directory: Path, path: Path) -> str:
    absolute, top = Path(os.path.abspath(path)), Path(os.path.abspath(directory))
    if not absolute.is_relative_to(top):
        raise UsageError("is outside the project", where=str(path), fix=f"specify a model in {top}")
    if not absolute.exists():
        raise UsageError("does not exist", where=str(path), fix="specify a .tflite file")
    if absolute.is_dir() and not (absolute / "saved_model.pb").exists():
        raise UsageError("is a directory, not a model", where=str(path), fix="specify the .tflite files in it")
    return PurePosixPath(absolute.relative_to(top)).as_posix()


def _search(directory: Path, notices: list[str]) -> list[str]:
    """Models below the directory, by path; hidden folders, environments, builds and links are not entered."""
    paths, entries = [], 0
    for folder, folders, files in os.walk(directory):
        here = PurePosixPath(Path(folder).relative_to(directory).as_posix())
        entries += len(folders) + len(files)
        if "saved_model.pb" in files and here.parts:
            paths.append(here.as_posix())
            folders.clear()
            continue
        paths += [(here / name).as_posix() for name in files if name.endswith((".tflite", *KERAS))]
        deep = len(here.parts) >= MAX_DEPTH
        folders[:] = [] if deep else sorted(name for name in folders if _is_entered(Path(folder), name))
        if entries > MAX_ENTRIES:
            notices.append(f"the search ended after {MAX_ENTRIES:,} files: specify the models if one is missing")
            break
    return sorted(path for path in paths if (directory / path).is_file() or (directory / path).is_dir())


def _is_entered(folder: Path, name: str) -> bool:
    if name.startswith((".", "cmake-build", "bazel-")) or name.lower() in SKIPPED:
        return False
    return not (folder / name / "pyvenv.cfg").exists()


def _hints(directory: Path, models: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Files that name boards, the surest first, and the boards."""
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


def _packaged(board: str) -> str | None:
    """The packaged target of a board's identifier; None unless it is certain."""
    lower = board.lower().replace("_", "-")
    if is_path(board):
        return None
    try:
        return resolve_target(BOARD_IDS.get(lower, lower)).name
    except TargetError:
        return None
