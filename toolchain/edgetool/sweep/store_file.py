"""Opening a store's file: what is there is looked at before anything is written."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

from edgetool.errors import OutputError, UsageError
from edgetool.sweep.schema import APPLICATION_ID, TABLES, VERSION
from edgetool.sweep.store_errors import ANOTHER_STORE, NOT_A_STORE, telling

BUSY_SECONDS = 10.0


def connect(path: Path, *, create: bool) -> sqlite3.Connection:
    """A connection to the store of that path; see store.open_store."""
    _refuse(path, create=create)
    with telling(path):
        connection = _connected(path, "rwc" if create else "ro")
        try:
            if create:
                _prepare(path, connection)
            else:
                connection = _recovered(path, connection)
                _check(path, connection)
        except BaseException:
            connection.close()
            raise
    return connection


def _refuse(path: Path, *, create: bool) -> None:
    """What SQLite would wait for without end, or report without its reason."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        if not create:
            raise UsageError(
                "the store does not exist",
                where=str(path),
                fix="create it with 'edgetool sweep run', or specify --store",
            ) from None
        if not path.parent.is_dir():
            raise OutputError(
                "the directory does not exist", where=str(path.parent), fix="create it, or use another one"
            ) from None
        return
    except OSError as error:
        raise UsageError(f"cannot be opened: {error.strerror}", where=str(path), fix=ANOTHER_STORE) from error
    if not stat.S_ISREG(mode):
        kind = "a directory" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise UsageError(f"is {kind}, not a sweep store", where=str(path), fix=ANOTHER_STORE)


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    # As a URI, in which a "?", "%" or "#" of the path is quoted. Transactions are begun by hand.
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def _recovered(path: Path, connection: sqlite3.Connection) -> sqlite3.Connection:
    """The connection, once what a killed process left half written is taken back; a reader must not do that."""
    try:
        connection.execute("PRAGMA user_version").fetchone()
        return connection
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
            raise
    connection.close()
    writer = _connected(path, "rw")
    try:
        writer.execute("PRAGMA user_version").fetchone()
    finally:
        writer.close()
    return _connected(path, "ro")


def _prepare(path: Path, connection: sqlite3.Connection) -> None:
    """Make the tables in an empty file. Writing at once tells here, not after an hour, what cannot be written."""
    if path.stat().st_size:
        _check(path, connection)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if path.stat().st_size == 0:  # and nobody else makes it now
            for name, columns in TABLES.items():
                connection.execute(f"CREATE TABLE {name} {columns}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        else:
            _check(path, connection)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check(path: Path, connection: sqlite3.Connection) -> None:
    """Raise UsageError unless the file is a store of this version, with its tables."""
    if path.stat().st_size == 0:
        raise UsageError("is empty: it contains no sweep", where=str(path), fix="use 'edgetool sweep run'")
    application, version = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    if application != APPLICATION_ID:
        raise UsageError(NOT_A_STORE, where=str(path), fix=ANOTHER_STORE)
    if version > VERSION:
        raise UsageError(
            f"was created by a newer edgetool: it has version {version}, and this edgetool supports {VERSION}",
            where=str(path),
            fix="update edgetool, or use another --store",
        )
    for name in TABLES:
        connection.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchone()
