"""One running sweep per store: a lock that the system takes back when its process ends, however it ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgetool.errors import OutputError, UsageError

SUFFIX = ".lock"
LONGEST_NOTE = 4096


@dataclass(frozen=True, slots=True)
class Lock:
    """A store's lock that is held. left: what the run that held it last had noted, where that was killed."""

    store: Path
    left: str
    descriptor: int | None

    def note(self, text: str) -> None:
        """For the next run, if this one is killed. Raises OutputError where there is no room for it."""
        if self.descriptor is None:
            return
        try:
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, text.encode("utf-8", "surrogateescape"), 0)
        except OSError as error:
            raise _cannot(self.store, error, fix="free some disk space, or use a --store on another disk") from error


@contextlib.contextmanager
def exclusive(store: Path) -> Iterator[Lock]:
    """Hold the store's lock; where the system has no flock, hold none.

    It lies in a file of its own beside the store, STORE.lock, removed at the end: on macOS a flock of the store itself
    would keep SQLite out, and closing our descriptor of it would drop SQLite's own locks. Raises UsageError where
    another run holds it, OutputError where the file cannot be made.
    """
    try:
        import fcntl
    except ImportError:
        yield Lock(store, "", None)
        return
    real = store.resolve()  # one lock, by whatever name the store is called
    path = real.with_name(real.name + SUFFIX)
    while True:
        descriptor = _opened(path, store)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same(descriptor, path):
                break
        except OSError as error:
            os.close(descriptor)
            if not isinstance(error, BlockingIOError):
                raise _cannot(store, error) from error
            raise UsageError(
                "another sweep is running on this store",
                where=str(store),
                fix="wait until it has finished, or use another --store; 'edgetool sweep show' works in the meantime",
            ) from None
        os.close(descriptor)  # the one who held it has just removed the file: lock the new one
    try:
        yield Lock(store, os.pread(descriptor, LONGEST_NOTE, 0).decode("utf-8", "surrogateescape"), descriptor)
    finally:
        with contextlib.suppress(OSError):  # an empty file that stays does no harm
            path.unlink()
        os.close(descriptor)


def _opened(path: Path, store: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        raise _cannot(store, error) from error


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _cannot(
    store: Path, error: OSError, *, fix: str = "make its directory writable, or use another --store"
) -> OutputError:
    return OutputError(f"cannot be locked: {error.strerror or error}", where=str(store), fix=fix)
