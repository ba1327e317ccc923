"""Where a run keeps its copies and its jobs work; what a killed run left behind is removed by the next."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgetool.child import temporary_place
from edgetool.errors import OutputError
from edgetool.sweep.lock import Lock

PREFIX = "edgetool-sweep-"


@contextmanager
def workplace(lock: Lock) -> Iterator[Path]:
    """An empty directory among the system's temporary ones, noted in the store's lock; gone at the end.

    Raises OutputError where none can be made.
    """
    _remove(lock.left)
    place = temporary_place()
    try:
        made = tempfile.TemporaryDirectory(prefix=PREFIX, dir=place, ignore_cleanup_errors=True)
    except OSError as error:
        raise OutputError(
            f"no directory can be made: {error.strerror or error}",
            where=str(place),
            fix="free space, or set TMPDIR to another disk",
        ) from error
    with made as name:
        lock.note(name)
        yield Path(name)


def _remove(left: str) -> None:
    """Remove what was noted, if it is a directory of this user's that has our name: anybody may write into a file."""
    path = Path(left)
    if not path.is_absolute() or not path.name.startswith(PREFIX):
        return
    try:
        found = path.lstat()
    except OSError:
        return  # it is gone already
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
        shutil.rmtree(path, ignore_errors=True)
