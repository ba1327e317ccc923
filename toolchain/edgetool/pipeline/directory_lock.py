"""One writer per directory: a lock that the system takes back when its last holder ends, however it ends."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

from edgetool.errors import OutputError

try:
    import fcntl
except ImportError:  # a system without it
    fcntl = None  # type: ignore[assignment]

WAIT_SECONDS = 60.0
PAUSE_SECONDS = 0.02
# What file systems answer that know no locks, or none of directories: NFS, FUSE, network shares.
NO_LOCKS = frozenset({errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


@contextlib.contextmanager
def held(directory: Path) -> Iterator[int | None]:
    """Hold the directory until the block ends, so that no other run of edgetool writes there meanwhile.

    The directory itself is locked, so no file is left behind. Yields the descriptor, by which a child keeps the lock
    when this process is killed; None where the system or the file system knows no such locks. Raises OSError where the
    directory cannot be opened, OutputError where another holds it for longer than WAIT_SECONDS.
    """
    if fcntl is None:
        yield None
        return
    latest = time.monotonic() + WAIT_SECONDS
    while True:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            locks = _lock(descriptor, directory, latest)
            if _is_still(descriptor, directory):
                yield descriptor if locks else None
                return
        finally:
            os.close(descriptor)


def _lock(descriptor: int, directory: Path, latest: float) -> bool:
    """Wait for the lock; False where the file system has none."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > latest:
                raise OutputError(
                    f"another process has been writing to this directory for {WAIT_SECONDS:g} s",
                    where=str(directory),
                    fix="terminate it, or choose another directory",
                ) from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            return False
        time.sleep(PAUSE_SECONDS)


def _is_still(descriptor: int, directory: Path) -> bool:
    """Whether the path leads to what is locked: it may have been replaced while we waited."""
    try:
        return os.path.samestat(os.fstat(descriptor), directory.stat())
    except FileNotFoundError:
        return False
