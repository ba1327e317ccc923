"""Move a staged set of files into its directory: all of them or none, even if a process is killed meanwhile.

The staging directory is inside the files' destination directory. Its `new` has the files, `old` those that they
replace, and `absent` an empty file for each name that does not exist yet. Renaming `new` to `ready` is the commit: from
then on, any process that finds the staging directory completes it. Run as a program in its own session, this module
outlives the process that started it; after a power cut or the end of a container, the next writer in the directory
completes it or rolls it back. It imports nothing else from edgetool.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

PREFIX = ".edgetool-"
NEW, READY, UNDO, OLD, ABSENT = "new", "ready", "undo", "old", "absent"
PARTS = frozenset({NEW, READY, UNDO, OLD, ABSENT})
STAGING_NAME = re.compile(re.escape(PREFIX) + r"[a-z0-9_]{8}")  # as tempfile.mkdtemp names them
STAGING_MODE = 0o700


def back_up(staging: Path, names: Iterable[str]) -> None:
    """Keep the current file of each name, or note that there is none, so that it can be restored. Raises OSError."""
    for part in (OLD, ABSENT):
        (staging / part).mkdir()
    for name in names:
        present = staging.parent / name
        if os.path.lexists(present):
            _link_or_copy(present, staging / OLD / name)
        else:
            (staging / ABSENT / name).touch()


def commit(staging: Path) -> None:
    """Move the files of `new` to their places, and remove the staging directory.

    Raises the OSError of the step that failed, after all other steps are rolled back.
    """
    (staging / NEW).rename(staging / READY)
    try:
        sync(staging)
    except OSError:  # the next run must not complete what this one reports as an error
        _abort(staging)
        raise
    settle(staging)


def settle(staging: Path) -> None:
    """Complete the staging directory if it was committed; roll it back if a rename fails, or failed before.

    This can be killed at any point and called again. Raises OSError; if rolling back fails, too, the staging directory
    remains, and no file is lost.
    """
    ready = staging / READY
    if ready.exists():
        try:
            for path in sorted(ready.iterdir()):
                path.replace(staging.parent / path.name)
        except OSError:
            _abort(staging)
            raise
    elif (staging / UNDO).exists():
        _roll_back(staging)
    sync(staging.parent)
    shutil.rmtree(staging, ignore_errors=True)


def resume(staging: Path) -> None:
    """Commit or settle the staging directory after the process that should have committed it was killed.

    Raises OSError as `settle` does, and if that process was rolling back.
    """
    if (staging / NEW).exists():
        commit(staging)
    elif staging.exists():
        was_rolling_back = (staging / UNDO).exists()
        settle(staging)
        if was_rolling_back:
            raise OSError(errno.EIO, "a file cannot be replaced")


def abandoned_stagings(directory: Path) -> list[Path]:
    """Return this user's staging directories in the directory. While it is locked, killed runs left all of them."""
    with os.scandir(directory) as entries:
        candidates = [Path(entry.path) for entry in entries if STAGING_NAME.fullmatch(entry.name)]
    return [path for path in sorted(candidates) if _is_ours(path)]


def sync(directory: Path) -> None:
    """Flush the names in the directory to disk, if the system can: otherwise, a power cut may undo renames."""
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF):  # a file system without this operation
            raise
    finally:
        os.close(descriptor)


def _abort(staging: Path) -> None:
    (staging / READY).rename(staging / UNDO)
    _roll_back(staging)


def _roll_back(staging: Path) -> None:
    """Restore all old files, and remove new ones; the staging directory is removed only if all of that succeeds."""
    directory, last_error = staging.parent, None
    for path in list((staging / OLD).iterdir()):
        try:
            path.replace(directory / path.name)
        except OSError as error:
            last_error = error
    for path in list((staging / ABSENT).iterdir()):
        try:
            if not os.path.lexists(staging / UNDO / path.name):  # it was moved to its place
                (directory / path.name).unlink(missing_ok=True)
            path.unlink()
        except OSError as error:
            last_error = error
    if last_error is not None:
        raise last_error
    sync(directory)
    shutil.rmtree(staging, ignore_errors=True)


def _link_or_copy(path: Path, copy: Path) -> None:
    try:
        os.link(path, copy, follow_symlinks=False)
    except (OSError, NotImplementedError):  # a file system or a system without hard links
        shutil.copy2(path, copy, follow_symlinks=False)


def _is_ours(path: Path) -> bool:
    with contextlib.suppress(OSError):
        status = path.lstat()
        # A staging directory in a clone of a repository is readable by others; it must not be settled.
        by_this_user = os.name != "posix" or (status.st_uid == os.geteuid() and status.st_mode & 0o777 == STAGING_MODE)
        return by_this_user and stat.S_ISDIR(status.st_mode) and PARTS.issuperset(part.name for part in path.iterdir())
    return False


def main() -> None:
    """Commit the staging directory that the argument names; print the number of the error, if any."""
    try:
        commit(Path(sys.argv[1]))
    except OSError as error:
        print(error.errno or errno.EIO)


if __name__ == "__main__":
    main()
