"""How the parent runs one of this room's children on a model file."""

from __future__ import annotations

import platform
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgetool import child
from edgetool.convert import files
from edgetool.errors import InvalidModelError, UsageError

# A crash is a signal: what has a status was ended by a call.
_EXITED = re.compile(r"crashed with exit status \d+")


def check_exists(path: Path, kind: type[UsageError], fix: str) -> None:
    """Raise `kind` where there is no file or directory at the path, or none that may be seen."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise kind((error.strerror or "cannot be read").lower(), where=str(path), fix=fix) from error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # reading a pipe or a device may never end
        raise kind("is neither a file nor a directory", where=str(path), fix=fix)


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
    """child.run on a request about the model at `path`, confined unless its code is trusted; what the system could not
    deny the child is added to the result's notes.

    Raises what child.run does, which names code that was trusted where that ended the process, and InvalidModelError
    when the child dies while it reads the file.
    """
    step = ""

    def follow(text: str) -> None:
        nonlocal step
        step = text
        if progress is not None:
            progress(text)

    trusted = bool(message.get("trust_model_code"))
    try:
        result = child.run(
            module,
            message,
            workdir=workdir,
            limits=limits,
            doing=doing,
            advice=advice,
            progress=follow,
            trusted=trusted,
        )
    except child.ChildDiedError as error:
        if _EXITED.search(error.what) and message.get("trust_model_code"):
            code = message.get("custom_objects")
            raise child.ChildDiedError(
                f"code in the model terminated the process {doing}" + (f" while {step}" if step else ""),
                where=code or str(path),
                fix="remove the code that exits Python (os._exit), or run that code separately to find it",
                details=error.details,
            ) from error
        if step != files.READING:
            raise
        raise InvalidModelError(
            "the file is so badly damaged that reading it crashed or never finished",
            where=str(path),
            fix="copy or save it again",
            details=error.details,
        ) from error
    return {**result, "notes": [*result["notes"], *_unconfined(result.get(child.UNCONFINED, ()))]}


def _unconfined(missing: Sequence[str]) -> tuple[str, ...]:
    """What to tell where the system has no means to deny a child something."""
    if not missing:
        return ()
    return (
        f"the model was read in a process with access to {' and '.join(missing)}, because "
        f"this system ({platform.system()}, {platform.machine()}) cannot block it",
    )
