"""The store of a sweep: one SQLite file with every outcome by the key of its job, the sweep and its variants.

An outcome is recorded in one durable transaction, so a process that is killed loses none that it recorded, and leaves
no partial one. Any number of processes can read while one sweep runs; only one can run, which holds a lock (exclusive)
that the system releases when its process ends, however it ends.

An existing file is checked before anything is written (connect), and SQLite's errors are replaced by errors that
explain what happened to the sweep and what to do (translated_errors). SweepRecord contains what tables, judgements and
plots need besides the variants, so that they do not read the sweep.toml.

The read_* functions convert the stored results of jobs to types. They ignore unknown keys, and a field with a default
can be absent; anything else that does not match the types is an error that names the key.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from edgetool.errors import EdgetoolError, InternalError, OutputError, Problem, UsageError
from edgetool.report.document import OutputInfo, QuantizationInfo
from edgetool.report.json import plain
from edgetool.structure import StructureError, structured
from edgetool.sweep.jobs import Job, Outcome
from edgetool.sweep.metrics import Cost, Quality, Variant
from edgetool.sweep.spec import Strategy, SweepLimits, SweepSpec, TargetSpec

T = TypeVar("T")

SUFFIX = ".lock"
MAX_NOTE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock that is held on a store. previous_note: the note of the last run that held it, if that run was killed."""

    store: Path
    previous_note: str
    descriptor: int | None

    def note(self, text: str) -> None:
        """Write a note for the next run, in case this one is killed. Raises OutputError if the disk is full."""
        if self.descriptor is None:
            return
        try:
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, text.encode("utf-8", "surrogateescape"), 0)
        except OSError as error:
            raise _lock_error(
                self.store, error, fix="free some disk space, or use a --store on another disk"
            ) from error


@contextlib.contextmanager
def exclusive(store: Path) -> Iterator[Lock]:
    """Hold the store's lock within the block; do nothing on a system without flock.

    The lock is on a separate file beside the store, STORE.lock, which is removed at the end: on macOS, a flock on the
    store itself would lock SQLite out, and closing its descriptor would drop SQLite's locks.

    Raises UsageError if another run holds the lock, OutputError if the file cannot be created.
    """
    try:
        import fcntl
    except ImportError:
        yield Lock(store, "", None)
        return
    real = store.resolve()  # so that all names of a store have the same lock
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
                raise _lock_error(store, error) from error
            raise UsageError(
                "another sweep is running on this store",
                where=str(store),
                fix="wait until it has finished, or use another --store; 'edgetool sweep show' works in the meantime",
            ) from None
        os.close(descriptor)  # its holder has just removed the file: lock the new one
    try:
        yield Lock(store, os.pread(descriptor, MAX_NOTE_BYTES, 0).decode("utf-8", "surrogateescape"), descriptor)
    finally:
        with contextlib.suppress(OSError):  # a file that remains does no harm
            path.unlink()
        os.close(descriptor)


def _opened(path: Path, store: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        raise _lock_error(store, error) from error


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _lock_error(
    store: Path, error: OSError, *, fix: str = "make its directory writable, or use another --store"
) -> OutputError:
    return OutputError(f"cannot be locked: {error.strerror or error}", where=str(store), fix=fix)


# In the file's header, where `file` and SQLite find them: "EDGT", and the version of the tables below.
APPLICATION_ID = 0x45444754
VERSION = 1

# JSON is ASCII text, which preserves surrogates in file names. Blobs are in a separate table, so that reading ten
# thousand results reads none of their pages.
TABLES: Mapping[str, str] = {
    "results": """(
        key TEXT PRIMARY KEY NOT NULL,
        kind TEXT NOT NULL,
        failed INTEGER NOT NULL,
        seconds REAL NOT NULL,
        reason TEXT NOT NULL,
        value TEXT NOT NULL
    )""",
    "blobs": """(
        key TEXT NOT NULL REFERENCES results(key),
        name TEXT NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (key, name)
    )""",
    "sweep": "(id INTEGER PRIMARY KEY CHECK (id = 1), record TEXT NOT NULL)",
    "variants": "(number INTEGER PRIMARY KEY, variant TEXT NOT NULL, keys TEXT NOT NULL)",
}


@dataclass(frozen=True, slots=True)
class SweepRecord:
    """A sweep without its variants.

    model: the name of the model's file, or "module:function" of a builder. options: the requested options as JSON, with
    files by name without their directories, so that the record is the same on any machine.
    """

    name: str
    model: str
    parameter_names: tuple[str, ...]
    targets: tuple[TargetSpec, ...]
    limits: SweepLimits
    strategy: Strategy
    objectives: tuple[str, ...]
    options: Mapping[str, Any]


def record_of(spec: SweepSpec) -> SweepRecord:
    """Return the record of a sweep that is about to run."""
    builder = spec.builder
    return SweepRecord(
        name=spec.name,
        model=_model_name(spec),
        parameter_names=() if builder is None else tuple(name for name, _ in builder.parameters),
        targets=spec.targets,
        limits=spec.limits,
        strategy=spec.strategy,
        objectives=spec.search.objectives,
        options=_options(spec),
    )


def record_to_json(record: SweepRecord) -> dict[str, Any]:
    """Return the record as a JSON value."""
    value: dict[str, Any] = plain(record)
    value["options"] = dict(record.options)
    return value


def record_from_json(value: Mapping[str, Any]) -> SweepRecord:
    """Return the record of a value from record_to_json. Raises StructureError for anything else."""
    return structured(value, SweepRecord)


def _model_name(spec: SweepSpec) -> str:
    if spec.builder is not None:
        return f"{spec.builder.module}:{spec.builder.function}"
    return "" if spec.model is None else spec.model.name


# Fields of SweepSpec that are elsewhere in the record, or contain directories of this machine.
_NOT_COPIED = {"name", "model", "builder", "targets", "limits", "strategy", "search", "pruning", "fine_tune"}
_FILES = ("calibration", "evaluate")


def _options(spec: SweepSpec) -> dict[str, Any]:
    flat = {item.name: getattr(spec, item.name) for item in fields(spec) if item.name not in _NOT_COPIED}
    files = {name: None if flat[name] is None else flat[name].name for name in _FILES}
    tune, builder = spec.fine_tune, spec.builder
    options: dict[str, Any] = plain(
        {
            **flat,
            **files,
            "pruning": spec.pruning,
            "fine_tune": None
            if tune is None
            else {
                **{name: getattr(tune, name) for name in ("epochs", "learning_rate", "batch_size", "loss")},
                "data": tune.data.name,
            },
            "builder": None
            if builder is None
            else {
                "builder": _model_name(spec),
                "files": [path.name for path in builder.files],
                "parameters": dict(builder.parameters),
            },
            "search": spec.search if spec.strategy == "search" else None,
        }
    )
    return options


RESULTS_KEPT = "everything recorded so far is kept: "
NOT_A_STORE = "is not a sweep store"
ANOTHER_STORE = "use another --store"

# By SQLite's primary result code; an extended code carries it in its low byte.
_ERRORS: Mapping[int, tuple[type[EdgetoolError], str, str]] = {
    sqlite3.SQLITE_NOTADB: (UsageError, NOT_A_STORE, ANOTHER_STORE),
    sqlite3.SQLITE_CORRUPT: (
        UsageError,
        "is damaged: SQLite reports missing or overwritten parts",
        "restore a backup, or move the damaged store elsewhere and run the sweep again",
    ),
    sqlite3.SQLITE_FULL: (
        OutputError,
        "cannot be written: the disk is full",
        RESULTS_KEPT + "free some disk space and run the sweep again",
    ),
    sqlite3.SQLITE_IOERR: (
        OutputError,
        "cannot be read or written: the disk reports an error or is full",
        RESULTS_KEPT + "check the disk and run the sweep again",
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
_EQUIVALENT_CODES = {
    sqlite3.SQLITE_PERM: sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_AUTH: sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_LOCKED: sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_PROTOCOL: sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_NOLFS: sqlite3.SQLITE_FULL,
    # A table or a column is missing: the header is that of a store, but the content is not.
    sqlite3.SQLITE_ERROR: sqlite3.SQLITE_CORRUPT,
}


@contextlib.contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Replace SQLite's errors about this file by EdgetoolErrors; errors in the use of SQLite are not replaced."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        code = _primary_code(error)
        translation = None if code is None else _ERRORS.get(_EQUIVALENT_CODES.get(code, code))
        if translation is None:
            raise
        kind, what, fix = translation
        raise kind(what, where=str(path), fix=fix, details=(f"SQLite: {error}",)) from error


def _primary_code(error: Exception) -> int | None:
    """Return SQLite's primary result code; None for an error in the use of Python's module."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is None and isinstance(error, sqlite3.OperationalError | UnicodeDecodeError):
        return sqlite3.SQLITE_CORRUPT  # text that is not UTF-8: an error of the module, without a code
    return None if code is None else code & 0xFF


def damaged(path: Path, error: object) -> UsageError:
    """Return the error for content that edgetool did not write."""
    fix = _ERRORS[sqlite3.SQLITE_CORRUPT][2]
    return UsageError("is damaged: a record in it cannot be read", where=str(path), fix=fix, details=(f"{error!r}",))


BUSY_SECONDS = 10.0


def connect(path: Path, *, create: bool) -> sqlite3.Connection:
    """Return a connection to the store at that path; see open_store."""
    _check_path(path, create=create)
    with translated_errors(path):
        connection = _connection(path, "rwc" if create else "ro")
        try:
            if create:
                _prepare(path, connection)
            else:
                connection = _rolled_back(path, connection)
                _check(path, connection)
        except BaseException:
            connection.close()
            raise
    return connection


def _check_path(path: Path, *, create: bool) -> None:
    """Raise an error for paths on which SQLite would wait forever, or whose error it would not explain."""
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


def _connection(path: Path, mode: str) -> sqlite3.Connection:
    # as_uri quotes "?", "%" and "#" in the path. With isolation_level None, transactions begin explicitly.
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def _rolled_back(path: Path, connection: sqlite3.Connection) -> sqlite3.Connection:
    """Roll back what a killed process left half written, and return a connection; a read-only one cannot do that."""
    try:
        connection.execute("PRAGMA user_version").fetchone()
        return connection
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
            raise
    connection.close()
    writer = _connection(path, "rw")
    try:
        writer.execute("PRAGMA user_version").fetchone()
    finally:
        writer.close()
    return _connection(path, "ro")


def _prepare(path: Path, connection: sqlite3.Connection) -> None:
    """Create the tables in an empty file. It always writes, so that a write error occurs now and not after an hour."""
    if path.stat().st_size:
        _check(path, connection)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if path.stat().st_size == 0:  # no other process has created them meanwhile
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


def read_cost(value: Mapping[str, Any], where: str) -> Cost:
    """Return the Cost in the result of an analysis. Raises UsageError naming `where`."""
    cost = _read(value, "cost", Cost, where)
    for name, band in (("latency_ms", cost.latency_ms), ("energy_uj", cost.energy_uj)):
        if band is not None and not band.low <= band.value <= band.high:
            raise _unreadable(Problem(f"cost.{name}", "has a value outside its band"), where)
    return cost


def read_quality(value: Mapping[str, Any], where: str) -> Quality:
    """Return the Quality in the result of a conversion. Raises UsageError."""
    return _read(value, "quality", Quality, where)


def read_quantization(value: Mapping[str, Any], where: str) -> QuantizationInfo:
    """Return the QuantizationInfo in the result of a conversion. Raises UsageError."""
    return _read(value, "quantization", QuantizationInfo, where)


def read_notes(value: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Return the notes in the result of a job. Raises UsageError."""
    return _read(value, "notes", tuple[str, ...], where) if "notes" in value else ()


def read_left_alone(value: Mapping[str, Any], where: str) -> tuple[tuple[str, str], ...]:
    """Return the layers that were not pruned, each with the reason. Raises UsageError."""
    return _read(value, "left_alone", tuple[tuple[str, str], ...], where) if "left_alone" in value else ()


def read_versions(value: Mapping[str, Any], where: str) -> dict[str, str]:
    """Return the versions of the packages with which a job ran. Raises UsageError."""
    return _read(value, "versions", dict[str, str], where) if "versions" in value else {}


def read_original(value: Mapping[str, Any], where: str) -> OutputInfo | None:
    """Return hash and size of the file that was converted, None if they are absent. Raises UsageError."""
    return _read(value, "original", OutputInfo, where) if "original" in value else None


def _read(value: Mapping[str, Any], key: str, kind: type[T], where: str) -> T:
    if key not in value:
        raise _unreadable(Problem(key, "is missing"), where)
    try:
        return structured(value[key], kind, key)
    except StructureError as error:
        raise _unreadable(error.problems[0], where) from None


def _unreadable(problem: Problem, where: str) -> UsageError:
    return UsageError(str(problem), where=where, fix="run the sweep again with a new store (--store)")


@dataclass(frozen=True, slots=True)
class Entry:
    """A variant of the sweep.

    number: its position, from 1. keys: kind and key of each of its jobs, each after those that it needs: build and
    prune if there are any, reference, convert, analyse.
    """

    number: int
    variant: Variant
    keys: tuple[tuple[str, str], ...]


def open_store(path: Path, *, create: bool = False) -> Store:
    """Return the store at that path, which is a context manager.

    Args:
        create: open it for writing, and create it if it does not exist. Otherwise it is opened read-only, and the file
            is neither created nor changed (except to roll back what a killed process left half written).

    Raises UsageError if the file is not a store of this version, is damaged, or stays locked for ten seconds;
    OutputError if it cannot be written.
    """
    return Store(path, connect(path, create=create))


class Store:
    """An open store, for one thread at a time. Every method raises the same errors as open_store."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._file = path.stat()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; closing it twice does nothing."""
        self._connection.close()

    def exclusive(self) -> AbstractContextManager[Lock]:
        """Return the lock of the one sweep that can run on the store. Raises UsageError if another one holds it."""
        return exclusive(self.path)

    @contextlib.contextmanager
    def read_transaction(self) -> Iterator[None]:
        """Read a consistent state within the block; a running sweep waits for its end before it records."""
        with translated_errors(self.path):
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            if self._connection.in_transaction:  # unless an error has ended it
                with translated_errors(self.path):
                    self._connection.execute("COMMIT")

    # Results.

    def outcome(self, key: str) -> Outcome | None:
        """Return the outcome with that key without its blobs; None if there is none."""
        rows = self._rows("SELECT key, value, reason, seconds FROM results WHERE key = ?", (key,))
        return self._outcomes(rows).get(key)

    def outcomes(self) -> dict[str, Outcome]:
        """Return all outcomes by key, without their blobs."""
        return self._outcomes(self._rows("SELECT key, value, reason, seconds FROM results ORDER BY rowid"))

    def blob(self, key: str, name: str) -> bytes:
        """Return the job's blob with that name. Raises InternalError if there is none."""
        rows = self._rows("SELECT data FROM blobs WHERE key = ? AND name = ?", (key, name))
        if not rows:
            raise InternalError(f"job {key} has no {name!r}", where=str(self.path))
        return bytes(rows[0][0])

    def record(self, job: Job, outcome: Outcome) -> None:
        """Record the outcome permanently.

        Raises OutputError if it cannot be written: earlier outcomes are kept, and nothing of this one is recorded.
        Raises InternalError if the key already has an outcome.
        """
        row = (
            job.key,
            job.kind,
            outcome.reason is not None,
            outcome.seconds,
            json.dumps(outcome.reason),
            json.dumps(dict(outcome.value)),
        )
        blobs = [(job.key, name, data) for name, data in outcome.blobs.items()]
        with self._writing():
            self._insert(
                "INSERT INTO results (key, kind, failed, seconds, reason, value) VALUES (?, ?, ?, ?, ?, ?)", [row]
            )
            self._insert("INSERT INTO blobs (key, name, data) VALUES (?, ?, ?)", blobs)

    def forget_failed(self) -> int:
        """Delete the outcomes of failed jobs, so that these run again, and return their number."""
        with self._writing():
            return self._connection.execute("DELETE FROM results WHERE failed").rowcount

    # The sweep and its variants.

    def begin(self, record: SweepRecord) -> None:
        """Replace the sweep by this one, without variants; outcomes are kept."""
        with self._writing():
            self._connection.execute("DELETE FROM variants")
            self._connection.execute(
                "INSERT OR REPLACE INTO sweep (id, record) VALUES (1, ?)", (json.dumps(record_to_json(record)),)
            )

    def add(self, entries: Sequence[Entry]) -> None:
        """Add variants. Raises InternalError for a number that exists already."""
        rows = [(entry.number, _variant_text(entry.variant), json.dumps(entry.keys)) for entry in entries]
        with self._writing():
            self._insert("INSERT INTO variants (number, variant, keys) VALUES (?, ?, ?)", rows)

    def sweep(self) -> SweepRecord:
        """Return the sweep. Raises UsageError if none has begun yet."""
        rows = self._rows("SELECT record FROM sweep")
        if not rows:
            raise UsageError("contains no sweep", where=str(self.path), fix="use 'edgetool sweep run'")
        with self._damage_reported():
            return record_from_json(json.loads(rows[0][0]))

    def entries(self) -> tuple[Entry, ...]:
        """Return the variants in ascending order of number."""
        rows = self._rows("SELECT number, variant, keys FROM variants ORDER BY number")
        with self._damage_reported():
            variants = structured(_parsed([row[1] for row in rows]), tuple[Variant, ...])
            keys = structured(_parsed([row[2] for row in rows]), tuple[tuple[tuple[str, str], ...], ...])
            return tuple(
                Entry(row[0], variant, pairs) for row, variant, pairs in zip(rows, variants, keys, strict=True)
            )

    # Helpers.

    def _rows(self, sql: str, values: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
        with translated_errors(self.path):
            return self._connection.execute(sql, values).fetchall()

    def _outcomes(self, rows: list[tuple[Any, ...]]) -> dict[str, Outcome]:
        with self._damage_reported():
            values, reasons = _parsed([row[1] for row in rows]), _parsed([row[2] for row in rows])
            if not all(isinstance(value, dict) for value in values):
                raise TypeError("a value is not an object")
            if not all(reason is None or isinstance(reason, str) for reason in reasons):
                raise TypeError("a reason is not a string")
            return {
                row[0]: Outcome(value, {}, reason, row[3])
                for row, value, reason in zip(rows, values, reasons, strict=True)
            }

    @contextlib.contextmanager
    def _damage_reported(self) -> Iterator[None]:
        """Report a store as damaged if its content cannot be read."""
        try:
            yield
        except (ValueError, KeyError, TypeError) as error:
            raise damaged(self.path, error) from error

    def _insert(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        try:
            self._connection.executemany(sql, rows)
        except sqlite3.IntegrityError as error:
            raise InternalError(f"recorded twice: {rows[0][0]}", where=str(self.path)) from error

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Run the block as one transaction, which is committed or rolled back as a whole."""
        self._check_not_replaced()
        with translated_errors(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # SQLite itself rolls back if the disk is full
                    self._connection.execute("ROLLBACK")
                raise

    def _check_not_replaced(self) -> None:
        """Raise OutputError if the file was removed: it still accepts records, but they are lost when it is closed."""
        try:
            now = self.path.stat()
        except OSError as error:
            raise self._gone() from error
        if (now.st_dev, now.st_ino) != (self._file.st_dev, self._file.st_ino):
            raise self._gone()

    def _gone(self) -> OutputError:
        return OutputError(
            "was removed or replaced during the sweep",
            where=str(self.path),
            fix="run the sweep again, and do not modify the store",
        )


def _parsed(texts: Sequence[str]) -> list[Any]:
    """Parse the JSON texts, which is faster as one array than one by one. Raises ValueError or TypeError."""
    values: list[Any] = json.loads(f"[{','.join(texts)}]")
    if len(values) != len(texts):
        raise ValueError("a string is not a JSON value")
    return values


def _variant_text(variant: Variant) -> str:
    return json.dumps(
        {
            "parameters": variant.parameters,
            "level": variant.level,
            "precision": variant.precision,
            "target": variant.target,
            "optimize": variant.optimize,
            "max_extra_macs": variant.max_extra_macs,
        }
    )
