"""Where work is done without room on the disk: how that shows, and what is told of it."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from edgetool.errors import EdgetoolError, OutputError

# What a full disk, a used up quota and a limit on the size of files say.
FULL = {
    code: os.strerror(code)
    for name in ("ENOSPC", "EDQUOT", "EFBIG")
    if (code := getattr(errno, name, None)) is not None
}
# TensorFlow and its converter say it in errors of their own, and NumPy in one without a number.
SAID = re.compile("|".join(map(re.escape, FULL.values())))
SHORT = re.compile(r"\d+ requested and \d+ written")
# With less than this left, a process that died is taken for the disk's: native code dies in many ways when it is full.
FULL_BYTES = 2**20
# Folders that nobody knows afterwards, as tempfile names them.
OURS = re.compile(r"edgetool-work-[a-z0-9_]{8}")


def lack_of_room(error: BaseException) -> str | None:
    """What the system said, where this error, or one that led to it, comes of a disk without room; else None."""
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, OSError) and at.errno in FULL:
            return FULL[at.errno]
        if not isinstance(at, EdgetoolError) and (found := SAID.search(str(at))):  # ours may hold names from a file
            return found[0]
        if isinstance(at, OSError) and SHORT.search(str(at)):
            return "a file could only be partially written"
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    return None


def is_full(folder: Path) -> bool:
    """Whether next to nothing can be written in it any more."""
    try:
        return shutil.disk_usage(folder).free < FULL_BYTES
    except OSError:  # it is gone, and with it what could be known
        return False


def known(folder: Path) -> Path:
    """The directory for temporary files that the folder lies in; the folder itself where it is none of ours."""
    return next((path.parent for path in reversed((folder, *folder.parents)) if OURS.fullmatch(path.name)), folder)


def no_room(folder: Path, why: str) -> OutputError:
    """The error about work in the folder."""
    return OutputError(
        f"there is no space for temporary files: {why}",
        where=str(known(folder)),
        fix="free space or raise the limit, or set TMPDIR to a directory on another disk",
    )


@contextlib.contextmanager
def room_in(folder: Path) -> Iterator[None]:
    """Raise OutputError where there is no room to write in the folder."""
    try:
        yield
    except OSError as error:
        if (why := lack_of_room(error)) is None:
            raise
        raise no_room(folder, why) from error
