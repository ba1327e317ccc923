"""One running sweep for a store, and what a killed one leaves in it."""

from __future__ import annotations

import contextlib
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgetool.errors import OutputError, UsageError
from edgetool.sweep.jobs import Outcome
from edgetool.sweep.store import open_store
from tests.sweep.stores import job, write

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
