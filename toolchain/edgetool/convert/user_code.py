"""Import and call the user's Python code so that an error in it names its file and line. In the child process only."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from edgetool.errors import UnsupportedModelError

FRAMES_SHOWN = 5
MESSAGE_LENGTH = 300
NAME_FILES = "run it on its own; files that it imports or reads must be listed too"


@dataclass(frozen=True, slots=True)
class UserFiles:
    """The folder in which the user's module is imported and its function runs.

    source: the module's file as the user specified it. originals: the same for every name in the folder, for messages.
    """

    folder: Path
    source: Path
    originals: Mapping[str, Path]


@contextmanager
def name_lines_in_errors(user_files: UserFiles, doing: str, *, missing: str = NAME_FILES) -> Iterator[None]:
    """Turn every error of the user's code, exits and interrupts included, into one that names its file and line.

    missing: what to do about a module or a file that was not found.
    """
    process = os.getpid()
    try:
        yield
    except MemoryError:
        raise
    except BaseException as error:
        if os.getpid() != process:
            os._exit(1)
        lines = traceback_lines(error, user_files)
        raise UnsupportedModelError(
            f"{doing} failed: {type(error).__name__}: {first_line_of(error)}",
            where=lines[-1].partition(" in ")[0] if lines else str(user_files.source),
            fix=missing if isinstance(error, ImportError | FileNotFoundError) else "run it on its own to find out why",
            details=lines[-FRAMES_SHOWN:],
        ) from error
    if os.getpid() != process:  # the code forked, and this is the copy, which must not answer
        os._exit(0)


def traceback_lines(error: BaseException, user_files: UserFiles) -> tuple[str, ...]:
    """Return "model.py:12 in build: x = 1 / 0" for every frame in the user's files, outermost first."""
    lines = [
        f"{place}:{frame.lineno} in {frame.name}: {frame.line}"
        for frame in traceback.extract_tb(error.__traceback__)
        if (place := _original(Path(frame.filename), user_files)) is not None
    ]
    if isinstance(error, SyntaxError) and error.filename:
        place = _original(Path(error.filename), user_files)
        if place is not None:
            lines.append(f"{place}:{error.lineno} in the source: {(error.text or '').strip()}")
    return tuple(lines)


def first_line_of(error: BaseException) -> str:
    """Return the first line of an error's message."""
    try:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    except Exception as failure:  # the user's own class, whose __str__ fails
        return f"its message is not available ({type(failure).__name__})"
    return lines[0][:MESSAGE_LENGTH].rstrip(".") if lines else "no message"


def _original(path: Path, user_files: UserFiles) -> Path | None:
    """Return the user's path of this file in the folder; None for other files."""
    if not path.is_relative_to(user_files.folder):
        return None
    name, *rest = path.relative_to(user_files.folder).parts
    return user_files.originals.get(name, Path(name)).joinpath(*rest)


def import_file(path: Path, name: str) -> ModuleType:
    """Import the file as the module `name`."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
