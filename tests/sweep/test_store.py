"""The store: what is recorded comes back exactly and survives being killed; anything else is reported and left alone.

What is no store, or a damaged one: reported, and left alone.

A store from somebody else: any value in any place of its JSON is either read or reported as wrong.

One running sweep for a store, and what a killed one leaves in it.

What a store knows of its sweep: whole, the same on any machine, and back from JSON as it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgetool.convert.request import BuilderArgument
from edgetool.errors import InternalError, OutputError, UsageError
from edgetool.gate.limits import MemoryBudget
from edgetool.sweep import store
from edgetool.sweep.jobs import Outcome
from edgetool.sweep.metrics import Variant
from edgetool.sweep.spec import Builder, FineTune, Pruning, Search, SweepLimits, SweepSpec, TargetSpec
from edgetool.sweep.store import (
    APPLICATION_ID,
    TABLES,
    VERSION,
    Entry,
    Store,
    SweepRecord,
    open_store,
    record_from_json,
    record_of,
    record_to_json,
)
from tests.cli import sweeps
from tests.sweep.stores import RECORD, job, read_all, write

ODD_NAMES = ["a b.sqlite", "what?.sqlite", "50%41.sqlite", "a#b.sqlite", "Grüße.sqlite", "a&mode=memory", "'\";--"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
# Any text at all, surrogates of a file's name and null characters among them.
REASONS = st.none() | st.text(st.characters(codec=None, exclude_categories=()))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
def test_what_is_read_only_is_reported_immediately(path: Path, read_only: str) -> None:
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


def test_a_removed_store_is_reported(store: Store) -> None:
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


def test_a_locked_store_is_reported_after_a_while(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgetool.sweep.store.BUSY_SECONDS", 0.05)
    store.record(job("a"), Outcome())
    with contextlib.closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UsageError, match="locked by another process"):
            open_store(store.path)
        other.execute("ROLLBACK")
    with open_store(store.path, create=True) as second, store.read_transaction():
        store.outcomes()
        with pytest.raises(UsageError, match="locked by another process"):
            second.record(job("b"), Outcome())
    with open_store(store.path, create=True) as second:
        second.record(job("b"), Outcome())
    assert list(store.outcomes()) == ["a", "b"]


def test_a_read_transaction_sees_one_consistent_state(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgetool.sweep.store.BUSY_SECONDS", 0.05)
    store.begin(RECORD)
    with open_store(store.path) as reader, reader.read_transaction():
        assert reader.entries() == ()
        with pytest.raises(UsageError, match="locked"), open_store(store.path, create=True) as writer:
            writer.add([Entry(1, Variant((), 0.0, "int8", "m4"), ())])
        assert reader.entries() == ()


def broken(whole: bytes) -> dict[str, tuple[bytes, str]]:
    return {
        "half": (whole[: len(whole) // 2], "is damaged"),
        "first pages": (whole[:5000], "is damaged"),
        "overwritten": (whole[:100] + bytes(len(whole) - 100), "is damaged"),
        "header": (whole[:50], "is not a sweep store|is damaged"),
        "text": (b"level,precision\n" * 100, "is not a sweep store"),
        "short text": (b"hello\n", "is not a sweep store"),
        "foreign mark": (whole[:68] + b"GPKG" + whole[72:], "is not a sweep store"),
        "newer": (whole[:60] + (VERSION + 1).to_bytes(4, "big") + whole[64:], "newer edgetool"),
    }


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("case", broken(bytes(200)))
def test_a_file_that_is_not_a_store_is_reported_and_left_alone(path: Path, case: str, create: bool) -> None:
    content, said = broken(write(path))[case]
    path.write_bytes(content)
    with pytest.raises(UsageError, match=said) as caught:
        read_all(path, create=create)
    assert caught.value.where == str(path)
    assert caught.value.fix
    assert path.read_bytes() == content


@pytest.mark.parametrize("create", [False, True])
def test_another_programs_database_is_left_alone(path: Path, create: bool) -> None:
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE results (key, value)")
    before = path.read_bytes()
    with pytest.raises(UsageError, match="is not a sweep store"):
        open_store(path, create=create)
    assert path.read_bytes() == before


@pytest.mark.parametrize("table", TABLES)
def test_a_missing_table_is_damage(path: Path, table: str) -> None:
    write(path)
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute(f"DROP TABLE {table}")
    with pytest.raises(UsageError, match="is damaged") as caught:
        open_store(path)
    assert table in caught.value.details[0]


@pytest.mark.parametrize("column", ["results.value", "results.reason", "sweep.record", "variants.variant"])
@pytest.mark.parametrize("content", ["{", "[1]", "null", "{}", "{}, {}"])
def test_a_record_that_cannot_be_read_is_damage(path: Path, column: str, content: str) -> None:
    write(path)
    table, _, name = column.partition(".")
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute(f"UPDATE {table} SET {name} = ?", (content,))
        other.commit()
    acceptable = {("results.value", "{}"), ("results.reason", "null")}
    reported = pytest.raises(UsageError, match="damage")
    expected = contextlib.nullcontext() if (column, content) in acceptable else reported
    with open_store(path) as store, expected:
        store.outcomes()
        store.sweep()
        store.entries()


def test_a_fuzzed_store_is_read_or_reported(path: Path) -> None:
    whole = write(path)
    seeded = random.Random(7)
    refused = 0
    for _ in range(60):
        content = bytearray(whole)
        for _ in range(seeded.choice([1, 20, 2000])):
            content[seeded.randrange(len(content))] = seeded.randrange(256)
        path.write_bytes(content)
        try:
            read_all(path)
        except (UsageError, InternalError):  # an InternalError: a key has changed, and its blob is not found
            refused += 1
    assert 0 < refused < 60


def test_there_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the store does not exist.*sweep run"):
        open_store(tmp_path / "none.sqlite")
    with pytest.raises(OutputError, match="directory does not exist"):
        open_store(tmp_path / "none" / "s.sqlite", create=True)
    with pytest.raises(UsageError, match="is a directory"):
        open_store(tmp_path, create=True)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(UsageError, match="is a pipe"):
            open_store(tmp_path / "pipe", create=True)
    assert not (tmp_path / "none.sqlite").exists()


def test_an_empty_file_becomes_a_store_by_writing_alone(path: Path) -> None:
    path.touch()
    with pytest.raises(UsageError, match=r"is empty.*sweep run"):
        open_store(path)
    assert path.read_bytes() == b""
    with open_store(path, create=True) as store, pytest.raises(UsageError, match="contains no sweep"):
        store.sweep()


def test_the_mark_is_in_the_header(path: Path) -> None:
    whole = write(path)
    assert int.from_bytes(whole[68:72], "big") == APPLICATION_ID
    assert whole[18:20] == b"\x01\x01"  # a rollback journal


ODD = (None, True, -1, 0, 0.5, 1e308, 2**70, "x", "", "int8", "\ud800", [], {}, [1], {"a": 1}, [["convert", "a"]])
COLUMNS = ("results.value", "results.reason", "sweep.record", "variants.variant", "variants.keys")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value within a value."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from places(item, (*path, key))


def put(value: Any, path: tuple[Any, ...], new: object) -> Any:
    if not path:
        return new
    if isinstance(value, dict):
        return {key: put(item, path[1:], new) if key == path[0] else item for key, item in value.items()}
    return [put(item, path[1:], new) if index == path[0] else item for index, item in enumerate(value)]


@pytest.mark.slow
@pytest.mark.parametrize("column", COLUMNS)
def test_any_value_anywhere_is_shown_or_refused(tmp_path: Path, column: str) -> None:
    whole = sweeps.stored(tmp_path / "whole.sqlite", sweeps.sweep_rows()).read_bytes()
    path = tmp_path / "s.sqlite"
    table, _, name = column.partition(".")
    chance = random.Random(column)
    codes = set()
    for _ in range(40):
        path.write_bytes(whole)
        with contextlib.closing(sqlite3.connect(path)) as store:
            row, text = chance.choice(store.execute(f"SELECT rowid, {name} FROM {table}").fetchall())
            value = json.loads(text or "null")
            odd = put(value, chance.choice(list(places(value))), chance.choice(ODD))
            store.execute(f"UPDATE {table} SET {name} = ? WHERE rowid = ?", (json.dumps(odd), row))
            store.commit()
        done = sweeps.sweep("show", path)
        assert done.code in (0, 2), (odd, done.err)
        codes.add(done.code)
    assert 2 in codes


def test_types_are_those_of_the_fields() -> None:
    whole = record_to_json(sweeps.record())
    assert record_from_json(whole) == sweeps.record()
    for changes in (
        {"name": None},
        {"targets": ["x"]},
        {"strategy": "none"},
        {"parameter_names": ["a", 1]},
        {"options": []},
    ):
        with pytest.raises(ValueError, match=next(iter(changes))):
            record_from_json({**whole, **changes})
    for limits in ({"reserve_bytes": True}, {"max_latency_ms": "1"}, {"active_budget": 1}):
        with pytest.raises(ValueError, match=next(iter(limits))):
            record_from_json({**whole, "limits": {**whole["limits"], **limits}})


PROGRAM = """
import sys
from pathlib import Path
from edgetool.sweep.jobs import Job, Outcome
from edgetool.sweep.store import open_store
what, path = sys.argv[1], Path(sys.argv[2])
with open_store(path, create=True) as store, store.exclusive():
    done = len(store.outcomes())
    print("holding", flush=True)
    if what == "hold":
        sys.stdin.read()
    for i in range(done, done + 10**6):
        blob = i.to_bytes(4, "big") * (i * 577 % 50000)
        store.record(Job(f"k{i}", "convert", {}, {}), Outcome({"i": i}, {"m": blob}))
        print(i, flush=True)
"""


def child(what: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, what, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no flock")
def test_one_sweep_runs_and_its_lock_dies_with_it(path: Path) -> None:
    write(path)
    other = child("hold", path)
    assert other.stdout is not None
    assert other.stdout.readline() == "holding\n"
    with open_store(path, create=True) as store:
        with pytest.raises(UsageError, match="another sweep is running") as caught, store.exclusive():
            pass
        assert caught.value.where == str(path)
        alias = path.with_name("alias")
        alias.symlink_to(path)
        with open_store(alias, create=True) as second, pytest.raises(UsageError, match="another"), second.exclusive():
            pass
        with open_store(path) as reader:
            assert len(reader.outcomes()) == 3
        other.kill()
        other.communicate()
        with store.exclusive(), open_store(path) as same_process:  # noqa: SIM117
            with pytest.raises(UsageError, match="another"), same_process.exclusive():
                pass
        with store.exclusive():  # it has been given back
            store.record(job("new"), Outcome())


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
def test_a_killed_sweep_leaves_whole_outcomes(path: Path) -> None:
    seeded = random.Random(3)
    recorded = 0
    for _ in range(5):
        process = child("record", path)
        assert process.stdout is not None
        assert process.stdout.readline() == "holding\n"
        time.sleep(seeded.uniform(0.01, 0.12))
        process.kill()
        said = process.communicate()[0].split()
        with open_store(path) as store:
            outcomes = store.outcomes()
            assert list(outcomes) == [f"k{i}" for i in range(len(outcomes))]
            # All that it knew to be recorded, and at most the one that was being recorded besides.
            known = recorded + len(said)
            assert known <= len(outcomes) <= known + 1
            for i, outcome in enumerate(outcomes.values()):
                assert outcome == Outcome({"i": i})
            for i in range(recorded, len(outcomes)):
                assert store.blob(f"k{i}", "m") == i.to_bytes(4, "big") * (i * 577 % 50000)
        recorded = len(outcomes)
    assert recorded > 5
    with open_store(path, create=True) as store, store.exclusive():
        store.record(job("last"), Outcome())
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_a_hot_journal_is_rolled_back_by_a_reader(path: Path) -> None:
    write(path)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA cache_size = 1")  # so that pages are written before the transaction ends
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE blobs SET data = zeroblob(9000)")
        writer.execute("INSERT INTO blobs VALUES ('x', 'y', zeroblob(1000000))")
        journal = path.with_name(path.name + "-journal")
        copy = path.with_name("copy.sqlite")
        copy.write_bytes(path.read_bytes())
        copy.with_name("copy.sqlite-journal").write_bytes(journal.read_bytes())
        assert copy.stat().st_size > 10**6
    with open_store(copy) as store:
        assert [store.blob(f"k{i}", "model.tflite") for i in range(3)] == [bytes([i]) * 9000 for i in range(3)]
        with pytest.raises(OutputError, match="read-only"):
            store.record(job("new"), Outcome())


SPEC = SweepSpec(
    name="keywords",
    model=Path("/home/somebody/models/keywords.h5"),
    builder=None,
    precisions=("int8", "float32"),
    targets=(TargetSpec("m4", "cortex-m4"), TargetSpec("mine", "b/mine.toml", "name = 1", (("clock_hz", 80),))),
    pruning=Pruning((0.0, 0.5), "l1", ("head_*",)),
    fine_tune=FineTune(Path("/home/somebody/training.npz"), epochs=3, learning_rate=0.01),
    calibration=Path("/home/somebody/c.npz"),
    mean=(1.0, 2.0),
    limits=SweepLimits((MemoryBudget("64KiB", 65536),), MemoryBudget("1MB", 10**6, "flash"), 1, 2, 3.0, 4.0, 0.9, 2.0),
)
BUILT = replace(
    SPEC,
    model=None,
    builder=Builder(
        Path("/home/somebody/net.py"),
        "net",
        "make",
        (Path("/home/somebody/blocks.py"),),
        (("width", (0.5, 1.0)), ("name", ("a",))),
    ),
    strategy="search",
    search=Search(12, 3, ("sqnr_db",)),
)


def test_a_record_contains_the_request() -> None:
    assert record_of(SPEC) == SweepRecord(
        name="keywords",
        model="keywords.h5",
        parameter_names=(),
        targets=SPEC.targets,
        limits=SPEC.limits,
        strategy="grid",
        objectives=("accuracy", "latency_ms"),
        options={
            "precisions": ["int8", "float32"],
            "calibration": "c.npz",
            "evaluate": None,
            "mean": [1.0, 2.0],
            "std": None,
            "scale": None,
            "offset": None,
            "samples": 100,
            "seed": 0,
            "trust_model_code": False,
            "job_seconds": 3600.0,
            "optimize": [True],
            "max_extra_macs": [None],
            "pruning": {"levels": [0.0, 0.5], "method": "l1", "exclude": ["head_*"]},
            "fine_tune": {
                "epochs": 3,
                "learning_rate": 0.01,
                "batch_size": 32,
                "loss": None,
                "data": "training.npz",
            },
            "builder": None,
            "search": None,
        },
    )


def test_a_builder_and_a_search_are_named() -> None:
    record = record_of(BUILT)
    assert (record.model, record.parameter_names, record.objectives) == ("net:make", ("width", "name"), ("sqnr_db",))
    assert record.options["builder"] == {
        "builder": "net:make",
        "files": ["blocks.py"],
        "parameters": {"width": [0.5, 1.0], "name": ["a"]},
    }
    assert record.options["search"] == {"trials": 12, "batch": 3, "objectives": ["sqnr_db"]}


@pytest.mark.parametrize("spec", [SPEC, BUILT], ids=["model", "builder"])
def test_no_directory_of_the_machine_is_kept(spec: SweepSpec) -> None:
    assert "somebody" not in json.dumps(record_to_json(record_of(spec)))


@pytest.mark.parametrize("spec", [SPEC, BUILT, replace(SPEC, limits=SweepLimits())], ids=["model", "builder", "free"])
def test_a_record_round_trips(spec: SweepSpec) -> None:
    record = record_of(spec)
    assert record_from_json(json.loads(json.dumps(record_to_json(record)))) == record


ARGUMENTS: st.SearchStrategy[BuilderArgument] = st.integers() | st.floats(allow_nan=False) | st.text() | st.booleans()
FIGURES = st.none() | st.floats(allow_nan=False)
BUDGETS = st.builds(MemoryBudget, st.text(), st.integers(0), st.sampled_from(["arena", "ram", "flash"]))


@settings(max_examples=40)
@given(
    st.builds(
        SweepRecord,
        name=st.text(),
        model=st.text(),
        parameter_names=st.lists(st.text()).map(tuple),
        targets=st.lists(
            st.builds(
                TargetSpec,
                st.text(),
                st.text(),
                st.none() | st.text(),
                st.lists(st.tuples(st.text(), st.integers(-(2**53), 2**53) | st.text())).map(tuple),
            ),
            max_size=3,
        ).map(tuple),
        limits=st.builds(
            SweepLimits,
            budgets=st.lists(BUDGETS, max_size=3).map(tuple),
            active_budget=st.none() | BUDGETS,
            max_latency_ms=FIGURES,
            min_accuracy=FIGURES,
        ),
        strategy=st.sampled_from(["grid", "search"]),
        objectives=st.lists(st.text()).map(tuple),
        options=st.dictionaries(st.text(), ARGUMENTS, max_size=3),
    )
)
def test_any_record_round_trips(record: SweepRecord) -> None:
    assert record_from_json(json.loads(json.dumps(record_to_json(record)))) == record


@pytest.mark.parametrize("change", [{"limits": 1}, {"targets": [1]}, {"targets": [{"label": "a"}]}, {"name": None}])
def test_invalid_records_are_rejected(change: dict[str, Any]) -> None:
    value = {**record_to_json(record_of(SPEC)), **change}
    if change == {"name": None}:
        del value["name"]
    with pytest.raises((KeyError, TypeError, ValueError)):
        record_from_json(value)
