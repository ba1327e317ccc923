"""Temporary work folders, and errors caused by a full disk.

A work folder is removed at the end. Folders of killed processes are removed by the next run: the owner of a folder
holds a lock on it until it ends.
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

# The messages for a full disk, an exceeded quota and a limit on the size of files.
DISK_FULL_ERRORS = {
    code: os.strerror(code)
    for name in ("ENOSPC", "EDQUOT", "EFBIG")
    if (code := getattr(errno, name, None)) is not None
}
# TensorFlow and its converter raise these in errors of their own, and NumPy in one without an errno.
FULL_MESSAGE = re.compile("|".join(map(re.escape, DISK_FULL_ERRORS.values())))
SHORT_WRITE_MESSAGE = re.compile(r"\d+ requested and \d+ written")
# With less than this free, a crash is attributed to the disk: native code fails in many ways when it is full.
FULL_BYTES = 2**20
# The names of work folders, which messages do not mention because the folders are removed.
FOLDER_NAME = re.compile(r"edgetool-work-[a-z0-9_]{8}")


def disk_full_reason(error: BaseException) -> str | None:
    """Return the system's message if this error, or one that caused it, is due to a full disk; otherwise None."""
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, OSError) and at.errno in DISK_FULL_ERRORS:
            return DISK_FULL_ERRORS[at.errno]
        if not isinstance(at, EdgetoolError) and (match := FULL_MESSAGE.search(str(at))):  # ours may quote a file
            return match[0]
        if isinstance(at, OSError) and SHORT_WRITE_MESSAGE.search(str(at)):
            return "a file could only be partially written"
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    return None


def is_full(folder: Path) -> bool:
    """Return whether almost nothing can be written in the folder any more."""
    try:
        return shutil.disk_usage(folder).free < FULL_BYTES
    except OSError:  # it has been removed
        return False


def temporary_parent(folder: Path) -> Path:
    """Return the directory that contains a work folder; any other folder is returned unchanged."""
    return next(
        (path.parent for path in reversed((folder, *folder.parents)) if FOLDER_NAME.fullmatch(path.name)), folder
    )


def disk_full_error(folder: Path, why: str) -> OutputError:
    """Return the error for a full disk under the folder."""
    return OutputError(
        f"there is no space for temporary files: {why}",
        where=str(temporary_parent(folder)),
        fix="free space or raise the limit, or set TMPDIR to a directory on another disk",
    )


@contextlib.contextmanager
def report_disk_full(folder: Path) -> Iterator[None]:
    """Raise OutputError if the block fails because the folder's disk is full."""
    try:
        yield
    except OSError as error:
        if (why := disk_full_reason(error)) is None:
            raise
        raise disk_full_error(folder, why) from error


PREFIX = "edgetool-work-"
# Between its creation and its lock, a folder looks abandoned.
NEW_SECONDS = 60.0


@contextlib.contextmanager
def work_folder(parent: Path | None = None) -> Iterator[Path]:
    """Provide an empty folder in `parent`, by default the system's temporary directory, and remove it at the end.

    Folders that killed processes of this user left there are removed first. Raises OutputError if the folder cannot be
    created, or if the block fails because its disk is full.
    """
    place = temporary_place() if parent is None else parent
    remove_abandoned(place)
    try:
        # Files that a dying process still writes are removed by the next run.
        directory = tempfile.TemporaryDirectory(prefix=PREFIX, dir=place, ignore_cleanup_errors=True)
    except OSError as error:
        raise OutputError(
            f"cannot create a directory: {error.strerror or error}",
            where=str(temporary_parent(place)),
            fix="free space, or set TMPDIR to a directory on another disk",
        ) from error
    with directory as name:
        lock = _try_lock(name)  # until this process ends, however it does
        try:
            with report_disk_full(Path(name)):
                yield Path(name)
        finally:
            if lock is not None:
                os.close(lock)


def temporary_place() -> Path:
    """Return the system's temporary directory, or TMPDIR. Raises OutputError if it is not writable."""
    try:
        return Path(tempfile.gettempdir())
    except OSError as error:  # it has tried to write a file in each
        raise OutputError(
            "no directory for temporary files is writable",
            where="TMPDIR",
            fix="free space, or set it to a directory on another disk",
        ) from error


def remove_abandoned(place: Path) -> None:
    """Remove this user's work folders in `place` whose lock no process holds."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and _is_abandoned(entry) and (lock := _try_lock(entry.path)) is not None:
                shutil.rmtree(entry.path, ignore_errors=True)  # another run may remove it at the same time
                os.close(lock)


def _is_abandoned(entry: os.DirEntry[str]) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return False  # it has already been removed
    age_seconds = time.time() - max(status.st_mtime, status.st_ctime)
    return entry.is_dir(follow_symlinks=False) and status.st_uid == os.geteuid() and age_seconds > NEW_SECONDS


def _try_lock(path: str) -> int | None:
    """Lock the folder until the descriptor is closed or this process ends.

    Returns None if another process holds the lock, or if the file system has no locks.
    """
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
