"""What SQLite says, in words that tell the user what happened to the sweep and what to do."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

from edgetool.errors import EdgetoolError, OutputError, UsageError

KEPT = "everything recorded so far is kept: "
NOT_A_STORE = "is not a sweep store"
ANOTHER_STORE = "use another --store"

# By SQLite's primary result code; an extended code carries it in its low byte.
_SAID: Mapping[int, tuple[type[EdgetoolError], str, str]] = {
    sqlite3.SQLITE_NOTADB: (UsageError, NOT_A_STORE, ANOTHER_STORE),
    sqlite3.SQLITE_CORRUPT: (
        UsageError,
        "is damaged: SQLite reports missing or overwritten parts",
        "restore a backup, or move the damaged store elsewhere and run the sweep again",
    ),
    sqlite3.SQLITE_FULL: (
        OutputError,
        "cannot be written: the disk is full",
        KEPT + "free some disk space and run the sweep again",
    ),
    sqlite3.SQLITE_IOERR: (
        OutputError,
        "cannot be read or written: the disk reports an error or is full",
        KEPT + "check the disk and run the sweep again",
    ),
    sqlite3.SQLITE_BUSY: (
        UsageError,
        "is locked by another process",
        "wait until that process has finished, and try again",
    ),
    sqlite3.SQLITE_READONLY: (
        OutputError,
        "cannot be written: the file or its directory is read-only",
        "make both writable, or use another --store",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        OutputError,
        "cannot be opened: permission denied for the file or its directory",
        "make both readable and writable, or use another --store",
    ),
    sqlite3.SQLITE_TOOBIG: (
        OutputError,
        "cannot store a model this large: SQLite stores at most 1 GB per value",
        "sweep a smaller model",
    ),
}
_SAME_AS = {
    sqlite3.SQLITE_PERM: sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_AUTH: sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_LOCKED: sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_PROTOCOL: sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_NOLFS: sqlite3.SQLITE_FULL,
    # A table or a column that is not there: the header says that it is ours, and the content that it is not.
    sqlite3.SQLITE_ERROR: sqlite3.SQLITE_CORRUPT,
}


@contextlib.contextmanager
def telling(path: Path) -> Iterator[None]:
    """Turn an error of SQLite's about this file into an EdgetoolError; one of our use of it passes as it is."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        code = _primary_code(error)
        said = None if code is None else _SAID.get(_SAME_AS.get(code, code))
        if said is None:
            raise
        kind, what, fix = said
        raise kind(what, where=str(path), fix=fix, details=(f"SQLite: {error}",)) from error


def _primary_code(error: Exception) -> int | None:
    """SQLite's result code without its extension; None for an error of our use of Python's module."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is None and isinstance(error, sqlite3.OperationalError | UnicodeDecodeError):
        return sqlite3.SQLITE_CORRUPT  # text that is not UTF-8, which the module finds without SQLite
    return None if code is None else code & 0xFF


def damaged(path: Path, error: object) -> UsageError:
    """The error for content that edgetool did not write."""
    fix = _SAID[sqlite3.SQLITE_CORRUPT][2]
    return UsageError("is damaged: a record in it cannot be read", where=str(path), fix=fix, details=(f"{error!r}",))
