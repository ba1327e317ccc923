"""How the parent runs one of this room's children on a model file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgetool import child
from edgetool.convert import files
from edgetool.errors import InvalidModelError, UsageError


def check_exists(path: Path, kind: type[UsageError], fix: str) -> None:
    """Raise `kind` where there is nothing at the path, or nothing that may be seen."""
    try:
        path.stat()
    except OSError as error:
        raise kind((error.strerror or "cannot be read").lower(), where=str(path), fix=fix) from error


def run_on_model(
    module: str,
    message: Mapping[str, Any],
    path: Path,
    *,
    workdir: Path,
    limits: child.Limits,
    doing: str,
    advice: str,
    progress: child.Progress | None,
) -> dict[str, Any]:
    """child.run on a request about the model at `path`.

    Raises what child.run does, and InvalidModelError when the child dies while it reads the file.
    """
    step = ""

    def follow(text: str) -> None:
        nonlocal step
        step = text
        if progress is not None:
            progress(text)

    try:
        return child.run(module, message, workdir=workdir, limits=limits, doing=doing, advice=advice, progress=follow)
    except child.ChildDiedError as error:
        if step != files.READING:
            raise
        raise InvalidModelError(
            "the file is so damaged that reading it crashed or did not end",
            where=str(path),
            fix="copy or save it again",
            details=error.details,
        ) from error
