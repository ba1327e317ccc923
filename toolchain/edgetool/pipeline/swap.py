"""Puts a staged set of files into its directory: all of it or nothing, whatever is killed meanwhile.

The staging directory lies in the one that the files are for. `new` has the files, `old` what they replace, `absent` an
empty file for each name that is new there. Renaming `new` to `ready` decides: from then on whoever finds it goes on to
the end. Run as a program, in a session of its own, this outlives the process that started it; what it does not outlive
either (a power cut, the end of a container) the next writer in that directory settles. It imports nothing of ours.
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
MADE_NAME = re.compile(re.escape(PREFIX) + r"[a-z0-9_]{8}")  # as tempfile.mkdtemp makes them
MADE_MODE = 0o700


def keep_aside(staging: Path, names: Iterable[str]) -> None:
    """Note what each name is now, so that it can be put back. Raises OSError."""
    for part in (OLD, ABSENT):
        (staging / part).mkdir()
    for name in names:
        present = staging.parent / name
        if os.path.lexists(present):
            _linked(present, staging / OLD / name)
        else:
            (staging / ABSENT / name).touch()


def commit(staging: Path) -> None:
    """Put the files of `new` in place, and remove the staging directory.

    Raises the OSError of a step that failed, after all the others are taken back.
    """
    (staging / NEW).rename(staging / READY)
    try:
        sync(staging)
    except OSError:  # what is told as an error must not be done by the next run
        _give_up(staging)
        raise
    settle(staging)


def settle(staging: Path) -> None:
    """Bring to its end what was begun: forward once it was decided, back where a rename fails or was failing.

    Can be killed and called again at any point. Raises OSError; the staging directory stays where the way back is
    barred too, and nothing is lost.
    """
    ready = staging / READY
    if ready.exists():
        try:
            for path in sorted(ready.iterdir()):
                path.replace(staging.parent / path.name)
        except OSError:
            _give_up(staging)
            raise
    elif (staging / UNDO).exists():
        _take_back(staging)
    sync(staging.parent)
    shutil.rmtree(staging, ignore_errors=True)


def resume(staging: Path) -> None:
    """The same where the process that should have committed was killed at any point.

    Raises OSError as settle does, and where that process was on its way back.
    """
    if (staging / NEW).exists():
        commit(staging)
    elif staging.exists():
        failed = (staging / UNDO).exists()
        settle(staging)
        if failed:
            raise OSError(errno.EIO, "a file cannot be replaced")


def left_behind(directory: Path) -> list[Path]:
    """Staging directories of this user's in the directory. While it is locked, all of them are of killed runs."""
    with os.scandir(directory) as entries:
        found = [Path(entry.path) for entry in entries if MADE_NAME.fullmatch(entry.name)]
    return [path for path in sorted(found) if _is_ours(path)]


def sync(directory: Path) -> None:
    """Have the directory's names on the disk, where the system can: renames hold without it until the power fails."""
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF):  # a file system that knows no such thing
            raise
    finally:
        os.close(descriptor)


def _give_up(staging: Path) -> None:
    (staging / READY).rename(staging / UNDO)
    _take_back(staging)


def _take_back(staging: Path) -> None:
    """Every old file to its place, and what was not there away; the staging directory goes only if all of it worked."""
    directory, failed = staging.parent, None
    for path in list((staging / OLD).iterdir()):
        try:
            path.replace(directory / path.name)
        except OSError as error:
            failed = error
    for path in list((staging / ABSENT).iterdir()):
        try:
            if not os.path.lexists(staging / UNDO / path.name):  # it was put in place
                (directory / path.name).unlink(missing_ok=True)
            path.unlink()
        except OSError as error:
            failed = error
    if failed is not None:
        raise failed
    sync(directory)
    shutil.rmtree(staging, ignore_errors=True)


def _linked(path: Path, copy: Path) -> None:
    try:
        os.link(path, copy, follow_symlinks=False)
    except (OSError, NotImplementedError):  # a file system or a system without such links
        shutil.copy2(path, copy, follow_symlinks=False)


def _is_ours(path: Path) -> bool:
    with contextlib.suppress(OSError):
        found = path.lstat()
        # A directory of a clone, which is not ours to settle, has the modes that others may read by.
        own = os.name != "posix" or (found.st_uid == os.geteuid() and found.st_mode & 0o777 == MADE_MODE)
        return own and stat.S_ISDIR(found.st_mode) and PARTS.issuperset(part.name for part in path.iterdir())
    return False


def main() -> None:
    """Commit the staging directory that is named, in the current directory; print the number of the error, if any."""
    try:
        commit(Path(sys.argv[1]))
    except OSError as error:
        print(error.errno or errno.EIO)


if __name__ == "__main__":
    main()
