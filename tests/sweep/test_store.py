"""The store: what is recorded comes back exactly and survives being killed; what is no store is told and left alone."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgetool.errors import InternalError, OutputError, UsageError
from edgetool.sweep import store
from edgetool.sweep.jobs import Outcome
from edgetool.sweep.metrics import Variant
from edgetool.sweep.store import Entry, Store, SweepRecord, open_store
from tests.sweep.stores import RECORD, job, write

ODD_NAMES = ["a b.sqlite", "what?.sqlite", "50%41.sqlite", "a#b.sqlite", "Grüße.sqlite", "a&mode=memory", "'\";--"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
# Any text at all, surrogates of a file's name and null characters among them.
REASONS = st.none() | st.text(st.characters(codec=None, exclude_categories=()))


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    outcomes=st.lists(
        st.tuples(
            st.dictionaries(st.text(), JSON, max_size=4),
            st.dictionaries(st.sampled_from(["model.tflite", "model.keras", "b"]), st.binary(max_size=200)),
            REASONS,
            st.floats(0, 1e6),
        ),
        max_size=4,
    )
)
def test_outcomes_round_trip(outcomes: list[tuple[Any, ...]], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("store") / "s.sqlite"
    given_outcomes = {
        f"k{i}": Outcome(value, blobs, reason, seconds) for i, (value, blobs, reason, seconds) in enumerate(outcomes)
    }
    with open_store(path, create=True) as store:
        for key, outcome in given_outcomes.items():
            store.record(job(key), outcome)
    with open_store(path) as store:
        read = store.outcomes()
        assert list(read) == list(given_outcomes)
        for key, outcome in given_outcomes.items():
            assert read[key] == Outcome(outcome.value, {}, outcome.reason, outcome.seconds)
            assert store.outcome(key) == read[key]
            assert {name: store.blob(key, name) for name in outcome.blobs} == outcome.blobs


VALUES = st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text() | st.booleans()
VARIANTS = st.builds(
    Variant,
    parameters=st.lists(st.tuples(st.text(), VALUES), max_size=3).map(tuple),
    level=st.floats(0, 0.99),
    precision=st.sampled_from(["int8", "float32"]),
    target=st.text(),
)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(variants=st.lists(VARIANTS, max_size=4))
def test_entries_round_trip(variants: list[Variant], tmp_path_factory: pytest.TempPathFactory) -> None:
    entries = [Entry(i, variant, (("prune", "a"), ("convert", "b"))) for i, variant in enumerate(variants, 1)]
    with open_store(tmp_path_factory.mktemp("store") / "s.sqlite", create=True) as store:
        store.begin(RECORD)
        store.add(entries[::-1])
        read = store.entries()
    assert read == tuple(entries)
    for entry, given_entry in zip(read, entries, strict=True):  # 1, 1.0 and True are equal, and three parameters
        assert [type(value) for _, value in entry.variant.parameters] == [
            type(value) for _, value in given_entry.variant.parameters
        ]


def test_a_new_sweep_replaces_the_old_one_and_keeps_results(store: Store) -> None:
    store.begin(RECORD)
    store.record(job("k"), Outcome({"a": 1}))
    store.add([Entry(1, Variant((), 0.0, "int8", "m4"), ())])
    other = SweepRecord(**{**{name: getattr(RECORD, name) for name in RECORD.__slots__}, "name": "other"})
    store.begin(other)
    assert (store.sweep(), store.entries(), store.outcome("k")) == (other, (), Outcome({"a": 1}))


def test_failures_are_forgotten_and_nothing_else(store: Store) -> None:
    store.record(job("good"), Outcome({"a": 1}, {"b": b"1"}))
    store.record(job("bad"), Outcome(reason="the worker was killed"))
    store.record(job("empty reason"), Outcome(reason=""))
    assert store.forget_failed() == 2
    assert store.outcomes() == {"good": Outcome({"a": 1})}
    assert store.forget_failed() == 0
    store.record(job("bad"), Outcome({"now": "good"}))
    assert store.blob("good", "b") == b"1"


def test_what_is_recorded_survives_a_loss_of_power(path: Path) -> None:
    """FULL: SQLite waits until a transaction is on the disk."""
    connection = store.connect(path, create=True)
    try:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    finally:
        connection.close()


def test_a_key_is_recorded_once(store: Store) -> None:
    store.record(job("k"), Outcome({"first": 1}, {"b": b"1"}))
    with pytest.raises(InternalError, match="twice: k"):
        store.record(job("k"), Outcome({"second": 2}, {"c": b"2"}))
    assert store.outcome("k") == Outcome({"first": 1})
    with pytest.raises(InternalError, match="no 'c'"):
        store.blob("k", "c")
    store.begin(RECORD)
    entry = Entry(1, Variant((), 0.0, "int8", "m4"), ())
    with pytest.raises(InternalError, match="twice"):
        store.add([entry, entry])
    assert store.entries() == ()


def test_nothing_lies_beside_the_store(path: Path) -> None:
    write(path)
    with open_store(path) as store:
        store.outcomes()
        assert [item.name for item in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_path_will_do(tmp_path: Path, name: str) -> None:
    directory = tmp_path / name
    directory.mkdir()
    path = directory / name
    write(path)
    with open_store(path) as store:
        assert len(store.outcomes()) == 3
    assert [item.name for item in directory.iterdir()] == [name]
    assert [item.name for item in tmp_path.iterdir()] == [name]


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store(Path("s.sqlite"), create=True) as store:
        store.record(job("k"), Outcome())
    assert open_store(tmp_path / "s.sqlite").outcome("k") == Outcome()


def test_it_may_be_opened_in_one_thread_and_used_in_another(store: Store) -> None:
    thread = threading.Thread(target=store.record, args=(job("k"), Outcome({"a": 1})))
    thread.start()
    thread.join()
    assert store.outcome("k") == Outcome({"a": 1})


def test_a_reader_changes_nothing(path: Path) -> None:
    before = write(path)
    path.chmod(0o444)
    with open_store(path) as store:
        assert len(store.outcomes()) == 3
        with pytest.raises(OutputError, match="read-only"):
            store.record(job("new"), Outcome())
    assert path.read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize("read_only", ["file", "directory"])
def test_what_is_read_only_is_told_at_once(path: Path, read_only: str) -> None:
    write(path)
    place = path if read_only == "file" else path.parent
    mode = stat.S_IMODE(place.stat().st_mode)
    place.chmod(mode & ~0o222)
    try:
        with pytest.raises(OutputError, match="cannot be"):
            open_store(path, create=True)
        with open_store(path) as store:
            assert len(store.outcomes()) == 3
    finally:
        place.chmod(mode)


def test_a_full_disk_loses_nothing_that_was_recorded(store: Store) -> None:
    store.record(job("small"), Outcome({"a": 1}, {"b": b"1"}))
    connection = store._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(OutputError, match=r"disk is full.*kept"):
        store.record(job("large"), Outcome({"a": 2}, {"b": bytes(10**6)}))
    connection.execute("PRAGMA max_page_count = 1000000")
    assert store.outcomes() == {"small": Outcome({"a": 1})}
    store.record(job("large"), Outcome({"a": 2}, {"b": bytes(10**6)}))
    assert len(store.blob("large", "b")) == 10**6


def test_a_removed_store_is_told(store: Store) -> None:
    store.record(job("a"), Outcome())
    moved = store.path.with_name("moved")
    store.path.rename(moved)
    with pytest.raises(OutputError, match="was removed"):
        store.record(job("b"), Outcome())
    write(store.path)
    with pytest.raises(OutputError, match="was removed or replaced"):
        store.record(job("b"), Outcome())
    moved.replace(store.path)
    store.record(job("b"), Outcome())
    assert list(store.outcomes()) == ["a", "b"]


def test_a_locked_store_is_told_after_a_while(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgetool.sweep.store.BUSY_SECONDS", 0.05)
    store.record(job("a"), Outcome())
    with contextlib.closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UsageError, match="locked by another process"):
            open_store(store.path)
        other.execute("ROLLBACK")
    with open_store(store.path, create=True) as second, store.at_once():
        store.outcomes()
        with pytest.raises(UsageError, match="locked by another process"):
            second.record(job("b"), Outcome())
    with open_store(store.path, create=True) as second:
        second.record(job("b"), Outcome())
    assert list(store.outcomes()) == ["a", "b"]


def test_what_is_read_at_once_is_of_one_moment(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgetool.sweep.store.BUSY_SECONDS", 0.05)
    store.begin(RECORD)
    with open_store(store.path) as reader, reader.at_once():
        assert reader.entries() == ()
        with pytest.raises(UsageError, match="locked"), open_store(store.path, create=True) as writer:
            writer.add([Entry(1, Variant((), 0.0, "int8", "m4"), ())])
        assert reader.entries() == ()
