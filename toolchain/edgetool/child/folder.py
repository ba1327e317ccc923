"""Temporary folders to work in, and what shows that their disk is full.

Where work is done without room on the disk: how that shows, and what is told of it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import tempfile
import time
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
