"""Where a run keeps its copies and its jobs work; what a killed run left behind is removed by the next, by that of the
same store without delay and where the file system has no locks, too."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgetool.child import work_folder
from edgetool.child.folder import PREFIX
from edgetool.sweep.lock import Lock


@contextmanager
def workplace(lock: Lock) -> Iterator[Path]:
    """An empty directory among the system's temporary ones, noted in the store's lock; gone at the end.

    Raises as work_folder does.
    """
    _remove(lock.left)
    with work_folder() as folder:
        lock.note(str(folder))
        yield folder


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
