"""The store of a sweep: one SQLite file with every result by its key, the sweep and its variants.

A result is recorded in one durable transaction: a process that is killed loses none that it recorded, and leaves no
half of one. Many may read while one sweep runs.

One running sweep per store: a lock that the system takes back when its process ends, however it ends.

The tables of a store, and the marks by which a SQLite file is known for one.

Whether a value from a store is what its type says: JSON gives any type anywhere.

What a store keeps of its sweep, beside the variants: what tables, judgements and plots need without a sweep.toml.

What SQLite says, in words that tell the user what happened to the sweep and what to do.

Opening a store's file: what is there is looked at before anything is written.

What jobs gave, as a store keeps it, back as types.

Keys that this version does not know are passed over; a field with a default may be absent. Anything else that is not as
the types say is refused with its place.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import TracebackType, UnionType
from typing import Any, Literal, Self, Union, get_args, get_origin, get_type_hints

from edgetool.errors import EdgetoolError, InternalError, OutputError, UsageError
from edgetool.gate.limits import MemoryBudget
from edgetool.report.document import Accuracy, Band, Histogram, LayerLoss, OutputInfo, OutputQuality, QuantizationInfo
from edgetool.report.json import plain
from edgetool.sweep.jobs import Job, Outcome
from edgetool.sweep.metrics import Cost, Quality, Variant
from edgetool.sweep.spec import Strategy, SweepLimits, SweepSpec, TargetSpec

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


# In the file's header, where `file` and SQLite find them: "EDGT", and the version of the tables below.
APPLICATION_ID = 0x45444754
VERSION = 1

# JSON is ASCII text, in which no surrogate of a file's name is lost. Blobs lie in a table of their own: reading ten
# thousand results touches none of their pages.
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


def require_types(made: object) -> None:
    """Raise TypeError unless every field of a dataclass, and of those within it, is of its type."""
    hints = get_type_hints(type(made))
    for item in fields(made):  # type: ignore[arg-type]  # a dataclass, as the caller says
        value = getattr(made, item.name)
        if not _fits(value, hints[item.name]):
            raise TypeError(f"{item.name} is {type(value).__name__}, not {item.type}")


def _fits(value: object, kind: Any) -> bool:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_fits(value, item) for item in arguments)
    if origin is Literal:
        return isinstance(value, str) and value in arguments
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        kinds = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        return len(kinds) == len(value) and all(map(_fits, value, kinds))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping)
    if is_dataclass(kind):
        if not isinstance(value, kind):  # type: ignore[arg-type]  # as just seen
            return False
        require_types(value)
        return True
    accepted = (int, float) if kind is float else kind
    return isinstance(value, accepted) and (kind is bool or not isinstance(value, bool))


@dataclass(frozen=True, slots=True)
class SweepRecord:
    """model: the name of the model's file, or "module:function" of a builder. options: JSON, all that was asked for,
    files by name without their directories, so that the record is the same on any machine."""

    name: str
    model: str
    parameter_names: tuple[str, ...]
    targets: tuple[TargetSpec, ...]
    limits: SweepLimits
    strategy: Strategy
    objectives: tuple[str, ...]
    options: Mapping[str, Any]


def record_of(spec: SweepSpec) -> SweepRecord:
    """The record of a sweep that is about to run."""
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
    """The record as a JSON value."""
    value: dict[str, Any] = plain(record)
    value["options"] = dict(record.options)
    return value


def record_from_json(value: Mapping[str, Any]) -> SweepRecord:
    """The record of what record_to_json gave. Raises KeyError, TypeError or ValueError for anything else."""
    limits = dict(value["limits"])
    active = limits["active_budget"]
    limits["budgets"] = tuple(MemoryBudget(**budget) for budget in limits["budgets"])
    limits["active_budget"] = None if active is None else MemoryBudget(**active)
    record = SweepRecord(
        name=value["name"],
        model=value["model"],
        parameter_names=tuple(value["parameter_names"]),
        targets=tuple(
            TargetSpec(**{**target, "overrides": tuple((name, given) for name, given in target["overrides"])})
            for target in value["targets"]
        ),
        limits=SweepLimits(**limits),
        strategy=value["strategy"],
        objectives=tuple(value["objectives"]),
        options=value["options"],
    )
    require_types(record)
    return record


def _model_name(spec: SweepSpec) -> str:
    if spec.builder is not None:
        return f"{spec.builder.module}:{spec.builder.function}"
    return "" if spec.model is None else spec.model.name


# Said elsewhere in the record, or not to be said: a directory of this machine.
_APART = {"name", "model", "builder", "targets", "limits", "strategy", "search", "pruning", "fine_tune"}
_FILES = ("calibration", "evaluate")


def _options(spec: SweepSpec) -> dict[str, Any]:
    flat = {item.name: getattr(spec, item.name) for item in fields(spec) if item.name not in _APART}
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


# From a JSON value to a field's; raises _RefusedError.
Reader = Callable[[Any], Any]


class _RefusedError(Exception):
    """What is wrong with a value, and the fields that lead to it."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.path: tuple[str, ...] = ()


def read_cost(value: Mapping[str, Any], where: str) -> Cost:
    """The Cost of an analysis. Raises UsageError naming `where`."""
    cost: Cost = _read(value, "cost", _record(Cost), where)
    return cost


def read_quality(value: Mapping[str, Any], where: str) -> Quality:
    """The Quality of a conversion. Raises UsageError."""
    quality: Quality = _read(value, "quality", _record(Quality), where)
    return quality


def read_quantization(value: Mapping[str, Any], where: str) -> QuantizationInfo:
    """The report's part of a conversion. Raises UsageError."""
    info: QuantizationInfo = _read(value, "quantization", _record(QuantizationInfo), where)
    return info


def read_notes(value: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """What is to be said of a job. Raises UsageError."""
    notes: tuple[str, ...] = _read(value, "notes", _texts, where) if "notes" in value else ()
    return notes


def read_left_alone(value: Mapping[str, Any], where: str) -> tuple[tuple[str, str], ...]:
    """The layers that were not pruned, each with the reason. Raises UsageError."""
    layers: tuple[tuple[str, str], ...] = _read(value, "left_alone", _pairs, where) if "left_alone" in value else ()
    return layers


def read_versions(value: Mapping[str, Any], where: str) -> dict[str, str]:
    """The versions of the packages that did a job. Raises UsageError."""
    versions: dict[str, str] = _read(value, "versions", _versions, where) if "versions" in value else {}
    return versions


def read_original(value: Mapping[str, Any], where: str) -> OutputInfo | None:
    """Hash and bytes of the file that was converted, None where nothing is said. Raises UsageError."""
    told: OutputInfo | None = _read(value, "original", _record(OutputInfo), where) if "original" in value else None
    return told


def _read(value: Mapping[str, Any], key: str, reader: Reader, where: str) -> Any:
    try:
        if key not in value:
            raise _RefusedError("is missing")
        return reader(value[key])
    except _RefusedError as refused:
        raise UsageError(
            f"{'.'.join((key, *refused.path))} {refused.what}",
            where=where,
            fix="run the sweep again with a new store (--store)",
        ) from None


@cache
def _record(kind: type) -> Reader:
    """What reads a dataclass."""
    hints = get_type_hints(kind)
    known = [
        (item.name, SCALARS.get(hints[item.name], _NONE), READERS.get(hints[item.name]) or _no(hints[item.name]), item)
        for item in fields(kind)
    ]

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise _unlike(value, "an object")
        found = {}
        for name, types, reader, item in known:
            given = value.get(name, MISSING)
            # A store has tens of thousands of these: what is as it should be is not looked at twice.
            found[name] = given if type(given) in types else _field(given, item, reader)
        return kind(**found)

    return read


def _field(given: Any, item: Field[Any], reader: Reader) -> Any:
    """A field that is no scalar of its type: another value, its default, or refused."""
    try:
        if given is not MISSING:
            return reader(given)
        if item.default is not MISSING:
            return item.default
        raise _RefusedError("is missing")
    except _RefusedError as refused:
        refused.path = (item.name, *refused.path)
        raise


def _no(hint: Any) -> Reader:
    """For a value that is none of a scalar type's."""

    def refuse(value: Any) -> Any:
        raise _unlike(value, CALLED[hint])

    return refuse


def _or_null(reader: Reader) -> Reader:
    return lambda value: None if value is None else reader(value)


def _list(reader: Reader) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not list:
            raise _unlike(value, "a list")
        return tuple(map(reader, value))

    return read


def _band(value: Any) -> Band:
    band: Band = _record(Band)(value)
    if not band.low <= band.value <= band.high:
        raise _unlike(value, "a value within its band")
    return band


def _pair(value: Any) -> tuple[str, str]:
    if type(value) is not list or len(value) != 2:
        raise _unlike(value, "a list of two items")
    return _text(value[0]), _text(value[1])


def _versions(value: Any) -> dict[str, str]:
    if type(value) is not dict:
        raise _unlike(value, "an object")
    return {key: _text(item) for key, item in value.items()}


def _unlike(value: Any, expected: str) -> _RefusedError:
    text = repr(value)
    return _RefusedError(f"is {text if len(text) <= 40 else f'{text[:37]}...'}, not {expected}")


def _text(value: Any) -> str:
    if type(value) is not str:
        raise _unlike(value, CALLED[str])
    return value


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise _unlike(value, CALLED[int])
    return value


_texts = _list(_text)
_pairs = _list(_pair)

# Every type that a field of the records above has: what a JSON value of it may be, or what reads it.
_NONE: frozenset[type] = frozenset()
SCALARS: Mapping[Any, frozenset[type]] = {
    int: frozenset([int]),
    int | None: frozenset([int, type(None)]),
    float: frozenset([int, float]),
    float | None: frozenset([int, float, type(None)]),
    str: frozenset([str]),
    str | None: frozenset([str, type(None)]),
    bool: frozenset([bool]),
}
CALLED: Mapping[Any, str] = {
    int: "an integer",
    int | None: "an integer or null",
    float: "a number",
    float | None: "a number or null",
    str: "a string",
    str | None: "a string or null",
    bool: "true or false",
}
READERS: Mapping[Any, Reader] = {
    tuple[str, ...]: _texts,
    Band | None: _or_null(_band),
    Accuracy | None: _or_null(lambda value: _record(Accuracy)(value)),
    tuple[OutputQuality, ...]: _list(lambda value: _record(OutputQuality)(value)),
    tuple[LayerLoss, ...]: _list(lambda value: _record(LayerLoss)(value)),
    Histogram: lambda value: _record(Histogram)(value),
    tuple[int, ...]: _list(_whole),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A variant of the sweep. number: its place, from 1. keys: kind and key of each of its jobs, each after those that
    it needs: build and prune where there are any, reference, convert, analyse."""

    number: int
    variant: Variant
    keys: tuple[tuple[str, str], ...]


def open_store(path: Path, *, create: bool = False) -> Store:
    """The store of that path, as a context manager.

    create: to write to it, made where there is none. Otherwise it is read only, and the file is never made nor changed
    (but for what a killed process left half written, which is taken back). Raises UsageError for what is not a store
    of this version, is damaged, or stays locked for ten seconds; OutputError for one that cannot be written.
    """
    return Store(path, connect(path, create=create))


class Store:
    """Threads: any may use it, one at a time. Every method raises EdgetoolError as open_store does."""

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
        """Close the file; again does nothing."""
        self._connection.close()

    def exclusive(self) -> AbstractContextManager[Lock]:
        """One running sweep per store. Raises UsageError where another holds it."""
        return exclusive(self.path)

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Everything read in the block is of one moment; a sweep that runs waits to record until its end."""
        with telling(self.path):
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            if self._connection.in_transaction:  # an error has ended it
                with telling(self.path):
                    self._connection.execute("COMMIT")

    # Results.

    def outcome(self, key: str) -> Outcome | None:
        """The outcome of that key without its blobs; None where there is none."""
        rows = self._rows("SELECT key, value, reason, seconds FROM results WHERE key = ?", (key,))
        return self._outcomes(rows).get(key)

    def outcomes(self) -> dict[str, Outcome]:
        """All outcomes by key, without their blobs."""
        return self._outcomes(self._rows("SELECT key, value, reason, seconds FROM results ORDER BY rowid"))

    def blob(self, key: str, name: str) -> bytes:
        """The bytes of that name that the job gave. Raises InternalError where there are none."""
        rows = self._rows("SELECT data FROM blobs WHERE key = ? AND name = ?", (key, name))
        if not rows:
            raise InternalError(f"job {key} has no {name!r}", where=str(self.path))
        return bytes(rows[0][0])

    def record(self, job: Job, outcome: Outcome) -> None:
        """Keep the outcome for good, once. Raises OutputError where it cannot be: all before it is kept, and nothing of
        this one; InternalError for a key that has an outcome."""
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
        """Forget the outcomes that failed, so that their jobs run again; how many there were."""
        with self._writing():
            return self._connection.execute("DELETE FROM results WHERE failed").rowcount

    # The sweep and its variants.

    def begin(self, record: SweepRecord) -> None:
        """Put this sweep in the place of the one before, without variants yet; results stay."""
        with self._writing():
            self._connection.execute("DELETE FROM variants")
            self._connection.execute(
                "INSERT OR REPLACE INTO sweep (id, record) VALUES (1, ?)", (json.dumps(record_to_json(record)),)
            )

    def add(self, entries: Sequence[Entry]) -> None:
        """Add variants. Raises InternalError for a number that is taken."""
        rows = [(entry.number, _variant_text(entry.variant), json.dumps(entry.keys)) for entry in entries]
        with self._writing():
            self._insert("INSERT INTO variants (number, variant, keys) VALUES (?, ?, ?)", rows)

    def sweep(self) -> SweepRecord:
        """The sweep. Raises UsageError before the first has begun."""
        rows = self._rows("SELECT record FROM sweep")
        if not rows:
            raise UsageError("contains no sweep", where=str(self.path), fix="use 'edgetool sweep run'")
        with self._understanding():
            return record_from_json(json.loads(rows[0][0]))

    def entries(self) -> tuple[Entry, ...]:
        """The variants by number."""
        rows = self._rows("SELECT number, variant, keys FROM variants ORDER BY number")
        with self._understanding():
            variants, keys = _parsed([row[1] for row in rows]), _parsed([row[2] for row in rows])
            return tuple(
                Entry(row[0], _variant(value), _keys(pairs))
                for row, value, pairs in zip(rows, variants, keys, strict=True)
            )

    # What the above is made of.

    def _rows(self, sql: str, values: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
        with telling(self.path):
            return self._connection.execute(sql, values).fetchall()

    def _outcomes(self, rows: list[tuple[Any, ...]]) -> dict[str, Outcome]:
        with self._understanding():
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
    def _understanding(self) -> Iterator[None]:
        """Content that edgetool did not write is damage."""
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
        """One transaction, whole or not at all."""
        self._still_there()
        with telling(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # SQLite takes it back by itself where the disk is full
                    self._connection.execute("ROLLBACK")
                raise

    def _still_there(self) -> None:
        """An open file that was removed takes records, and loses them all at the end."""
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
    """The JSON values of the texts; ten thousand are read faster as one. Raises ValueError or TypeError."""
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
        }
    )


def _variant(value: dict[str, Any]) -> Variant:
    parameters = tuple((name, given) for name, given in value["parameters"])
    level, precision, target = value["level"], value["precision"], value["target"]
    if not isinstance(level, int | float) or not isinstance(precision, str) or not isinstance(target, str):
        raise TypeError("an entry is not a variant")
    if not all(isinstance(name, str) and isinstance(given, int | float | str) for name, given in parameters):
        raise TypeError("an entry is not a parameter")
    return Variant(parameters, level, precision, target)


def _keys(pairs: list[list[str]]) -> tuple[tuple[str, str], ...]:
    keys = tuple((kind, key) for kind, key in pairs)
    if not all(isinstance(kind, str) and isinstance(key, str) for kind, key in keys):
        raise TypeError("an entry is not a job")
    return keys
