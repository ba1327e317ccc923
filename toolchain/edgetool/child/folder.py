"""Temporary folders to work in: removed at the end, and by the next run where a killed one left its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from edgetool.child.room import known, room_in
from edgetool.errors import OutputError

PREFIX = "edgetool-work-"
# Between being made and being locked a folder looks like one that was left.
NEW_SECONDS = 60.0


@contextlib.contextmanager
def work_folder(parent: Path | None = None) -> Iterator[Path]:
    """An empty folder in `parent`, by default the system's for temporary files; with all in it gone at the end.

    What killed processes of this user have left there is removed first. Raises OutputError where none can be made, and
    where the work in it ends for want of room.
    """
    place = temporary_place() if parent is None else parent
    remove_left(place)
    try:
        # What a process that is dying still writes is left to the next run.
        made = tempfile.TemporaryDirectory(prefix=PREFIX, dir=place, ignore_cleanup_errors=True)
    except OSError as error:
        raise OutputError(
            f"cannot create a directory: {error.strerror or error}",
            where=str(known(place)),
            fix="free space, or set TMPDIR to a directory on another disk",
        ) from error
    with made as name:
        lock = _locked(name)  # until this process ends, however it does
        try:
            with room_in(Path(name)):
                yield Path(name)
        finally:
            if lock is not None:
                os.close(lock)


def temporary_place() -> Path:
    """The system's directory for temporary files, or TMPDIR. Raises OutputError where nothing can be written."""
    try:
        return Path(tempfile.gettempdir())
    except OSError as error:  # it has tried to write a file in each
        raise OutputError(
            "no directory for temporary files is writable",
            where="TMPDIR",
            fix="free space, or set it to a directory on another disk",
        ) from error


def remove_left(place: Path) -> None:
    """Remove the folders in `place` whose processes are gone: those of this user that nobody holds the lock of."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and _is_own(entry) and (lock := _locked(entry.path)) is not None:
                shutil.rmtree(entry.path, ignore_errors=True)  # another run may be at it, too
                os.close(lock)


def _is_own(entry: os.DirEntry[str]) -> bool:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return False  # it is gone already
    age_seconds = time.time() - max(found.st_mtime, found.st_ctime)
    return entry.is_dir(follow_symlinks=False) and found.st_uid == os.geteuid() and age_seconds > NEW_SECONDS


def _locked(path: str) -> int | None:
    """A lock on the folder, which this process holds until it closes it or ends; None where another one has it, and
    where the file system has none."""
    if os.name != "posix":
        return None
    import fcntl

    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(folder)
        return None
    return folder
