"""The store of a sweep: one SQLite file with every result by its key, the sweep and its variants.

A result is recorded in one durable transaction: a process that is killed loses none that it recorded, and leaves no
half of one. Many may read while one sweep runs.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from edgetool.errors import InternalError, OutputError, UsageError
from edgetool.sweep.job import Job, Outcome
from edgetool.sweep.lock import Lock, exclusive
from edgetool.sweep.record import SweepRecord, record_from_json, record_to_json
from edgetool.sweep.store_errors import damaged, telling
from edgetool.sweep.store_file import connect
from edgetool.sweep.variant import Variant


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
