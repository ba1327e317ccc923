"""How the parent runs one of this room's children on a model file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgetool import child
from edgetool.convert import files
from edgetool.errors import InvalidModelError, UsageError

# A crash is a signal: what has a status was ended by a call.
_EXITED = re.compile(r"died of exit status \d+")


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

    Raises what child.run does, which names code that was trusted where that ended the process, and InvalidModelError
    when the child dies while it reads the file.
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
        if _EXITED.search(error.what) and message.get("trust_model_code"):
            code = message.get("custom_objects")
            raise child.ChildDiedError(
                f"code of the model ended the process {doing}" + (f" while {step}" if step else ""),
                where=code or str(path),
                fix="take out what exits Python (os._exit), or run that code by itself to find it",
                details=error.details,
            ) from error
        if step != files.READING:
            raise
        raise InvalidModelError(
            "the file is so damaged that reading it crashed or did not end",
            where=str(path),
            fix="copy or save it again",
            details=error.details,
        ) from error
