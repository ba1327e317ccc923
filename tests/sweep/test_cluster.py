"""Sweeps on a cluster, and a cluster's worker without a cluster."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import operator
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgetool.child import OnStart
from edgetool.errors import CalibrationError, ClusterError, InternalError, OutputError, UsageError
from edgetool.pipeline.convert import hash_of_path
from edgetool.sweep.executor import KEPT_CONTENTS, ClusterPool, JobPool, packed, run_remotely, to_message
from edgetool.sweep.jobs import Content, Job, Outcome, PreparedJob
from edgetool.sweep.run import run_sweep
from edgetool.sweep.store import open_store
from edgetool.sweep.table import rows
from tests.sweep import fake_work
from tests.sweep.fake_work import lines, spec_of, until

distributed = pytest.importorskip("distributed")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two workers, each a process with one thread, that are started again when they die."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as running:
        yield running


@pytest.fixture
def address(cluster: Any) -> str:
    until(lambda: len(cluster.scheduler.workers) == 2)
    return str(cluster.scheduler_address)


@pytest.fixture
def lonely(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A scheduler without workers, in a process of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with started(tmp_path / "scheduler.log", "scheduler", "--dashboard-address=:0", f"--port={port}") as process:
        yield f"tcp://127.0.0.1:{port}", process


@contextlib.contextmanager
def started(log: Path, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command of Dask's in a process of its own, killed at the end."""
    command = [sys.executable, "-m", "dask", *arguments, "--no-dashboard"]
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **environment}, cwd=ROOT) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def task(key: str, kind: str = "analyse", **contents: Content) -> PreparedJob:
    return PreparedJob(Job(key, kind, {"name": [1, None]}, {}), contents, 60.0)  # type: ignore[arg-type]


def ended_of(pool: JobPool, count: int) -> dict[str, Outcome]:
    """The outcomes of so many tasks."""
    deadline, ended = time.monotonic() + 60, {}
    while len(ended) < count:
        assert time.monotonic() < deadline, "it never came"
        ended.update(filter(None, [pool.wait(1.0)]))
    return ended


@pytest.mark.slow
def test_tasks_are_transferred_completely_and_end_as_they_do_locally(address: str, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    (folder / "cat").mkdir(parents=True)
    for number in range(3):
        (folder / "cat" / f"{number}.png").write_bytes(bytes([number]) * 100)
    (folder / "labels.txt").write_text("cat")
    file = tmp_path / "model.h5"
    file.write_bytes(b"h5")
    contents = {
        "folder": Content("images", hash_of_path(folder)[0], path=folder),
        "file": Content("model.h5", hash_of_path(file)[0], path=file),
        "blob": Content("model.tflite", hashlib.sha256(b"").hexdigest(), data=b""),
        "large": Content("large", hashlib.sha256(bytes(20_000_000)).hexdigest(), data=bytes(20_000_000)),
    }
    tasks = [task(f"{number:06x}", "convert", **contents) for number in range(5)]
    with ClusterPool(address, run=fake_work.do) as pool:
        assert pool.capacity >= 2
        for item in tasks:
            pool.submit(item)
        ended = ended_of(pool, len(tasks))
        assert pool.wait(0) is None
    assert ended == {item.job.key: fake_work.do(item) for item in tasks}


@pytest.mark.slow
def test_a_content_is_sent_once_and_released_later(cluster: Any, address: str) -> None:
    def content(text: str) -> Content:
        return Content("blob", hashlib.sha256(text.encode()).hexdigest(), data=text.encode())

    with ClusterPool(address, run=fake_work.do) as pool:
        for number in range(KEPT_CONTENTS + 8):
            pool.submit(task(f"{number:06x}", shared=content("shared"), own=content(str(number))))
        ended_of(pool, KEPT_CONTENTS + 8)
        names = [name for name in cluster.scheduler.tasks if content("shared").sha256 in str(name)]
        assert len(names) == 1
        until(lambda: len(cluster.scheduler.tasks) <= KEPT_CONTENTS)
    until(lambda: len(cluster.scheduler.tasks) == 0)


@pytest.mark.slow
def test_a_sweep_on_a_cluster_gives_the_table_of_a_local_one(
    address: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = spec_of(tmp_path)
    result = run_sweep(spec, tmp_path / "cluster.sqlite", scheduler=address, run=partial(fake_work.do))
    assert (result.computed, result.failed) == (52, 0)
    run_sweep(spec, tmp_path / "local.sqlite", jobs=2, run=fake_work.do)
    assert_same(tmp_path / "cluster.sqlite", tmp_path / "local.sqlite")
    assert capfd.readouterr() == ("", "")


def assert_same(one: Path, other: Path) -> None:
    """The same table and the same results, to the byte."""
    with open_store(one) as first, open_store(other) as second:
        assert rows(first) == rows(second)
        assert first.outcomes().keys() == second.outcomes().keys()
        for key, outcome in first.outcomes().items():
            assert (outcome.value, outcome.reason) == (second.outcomes()[key].value, second.outcomes()[key].reason)
        for entry in first.entries():
            key = dict(entry.keys)["convert"]
            assert first.blob(key, "model.tflite") == second.blob(key, "model.tflite")


@pytest.mark.slow
def test_a_worker_that_is_killed_in_the_middle_is_survived(cluster: Any, address: str, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def kill_one() -> None:
        until(lambda: len(lines(log)) >= 15)
        os.kill(int(lines(log)[-1][2]), signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    spec = spec_of(tmp_path)
    do = partial(fake_work.do, log=log, seconds=0.05)
    result = run_sweep(spec, tmp_path / "cluster.sqlite", scheduler=address, run=do)
    killer.join()
    assert (result.computed, result.failed) == (52, 0)
    begun = Counter(key for key, _, _ in lines(log))
    assert len(begun) == 52
    assert 1 <= sum(begun.values()) - 52 <= 3  # what ran there, or was there and not yet fetched
    assert len({pid for _, _, pid in lines(log)}) >= 2
    run_sweep(spec, tmp_path / "local.sqlite", jobs=2, run=fake_work.do)
    assert_same(tmp_path / "cluster.sqlite", tmp_path / "local.sqlite")


@pytest.mark.slow
def test_a_job_that_kills_its_workers_has_failed(cluster: Any, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)
    with ClusterPool(address, run=partial(fake_work.do, deadly="prune")) as pool:
        pool.submit(task("00000a", "prune"))
        assert ended_of(pool, 1)["00000a"].reason == "1 cluster worker crashed while running it"
        pool.submit(task("00000b"))
        assert ended_of(pool, 1)["00000b"].reason is None


@pytest.mark.slow
def test_what_a_task_raises_is_raised_where_it_is_awaited(address: str) -> None:
    with ClusterPool(address, run=partial(fake_work.do, refusing="prune")) as pool:
        pool.submit(task("00000a", "prune"))
        with pytest.raises(CalibrationError, match="has no samples") as raised:
            pool.wait(30)
        assert (raised.value.where, raised.value.fix) == ("calibration.npz", "add some")
        assert raised.value.details == ("a line",)
        pool.submit(task("00000b", wrong=Content("wrong", "0" * 64, data=b"")))
        with pytest.raises(InternalError, match="not what was sent"):
            pool.wait(30)
        pool.submit(task("not hexadecimal"))
        with pytest.raises(InternalError, match="ValueError"):
            pool.wait(30)


class Foreign:
    """An outcome of another version of edgetool: what it is made of is not here."""

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.attrgetter("of_another_version"), (None,)


def foreign(task: PreparedJob, **_: object) -> Any:
    return Foreign()


def test_an_outcome_that_is_not_known_here_is_reported(address: str) -> None:
    with ClusterPool(address, run=foreign) as pool:
        pool.submit(task("00000a"))
        with pytest.raises(UsageError, match="has a different version"):
            ended_of(pool, 1)


def test_closing_ends_what_runs_in_the_workers(address: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with ClusterPool(address, run=partial(fake_work.do, log=log, seconds=600.0)) as pool:
        for number in range(pool.capacity):
            pool.submit(task(f"{number:06x}"))
        until(lambda: len(lines(log)) == 2)
    until(lambda: [kind for _, kind, _ in lines(log)][2:] == ["stopped"] * 2)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense://x", "tcp://", ""])
def test_an_address_without_a_scheduler_is_refused(address: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no scheduler answers at"):
        ClusterPool(address, run=fake_work.do, connect_seconds=0.5)


@pytest.mark.slow
def test_a_cluster_without_workers_and_then_without_a_scheduler(
    lonely: tuple[str, subprocess.Popen[bytes]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    address, process = lonely
    with ClusterPool(address, run=fake_work.do, connect_seconds=30, worker_seconds=0.5) as pool:
        pool.submit(task("00000a"))
        with pytest.raises(ClusterError, match=r"had no workers for 0\.5 s"):
            ended_of(pool, 1)
    # Some work is done, then the scheduler dies: what was done is kept.
    spec, store, log = spec_of(tmp_path), tmp_path / "sweep.sqlite", tmp_path / "log"

    def kill() -> None:
        until(lambda: len(lines(log)) >= 10)
        process.kill()

    with started(tmp_path / "worker.log", "worker", address, "--nthreads=1", "--no-nanny"):
        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(ClusterError, match="lost the connection to the scheduler"):
            run_sweep(spec, store, scheduler=address, run=partial(fake_work.do, log=log, seconds=0.02))
        killer.join()
    with open_store(store) as opened:
        done = len(opened.outcomes())
    assert 7 <= done < 52
    assert run_sweep(spec, store, jobs=2, run=fake_work.do).computed == 52 - done
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_worker_without_edgetool_is_reported(lonely: tuple[str, subprocess.Popen[bytes]], tmp_path: Path) -> None:
    package = tmp_path / "other" / "edgetool"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ModuleNotFoundError('No module named edgetool')\n")
    path = os.pathsep.join([str(package.parent), str(ROOT)])
    with (
        started(tmp_path / "worker.log", "worker", lonely[0], "--no-nanny", PYTHONPATH=path),
        ClusterPool(lonely[0], run=fake_work.do, connect_seconds=30) as pool,
    ):
        pool.submit(task("00000a"))
        with pytest.raises(UsageError, match="does not have edgetool, or has a different version"):
            ended_of(pool, 1)


@pytest.fixture
def running_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    one = SimpleNamespace(address="tcp://here:1", state=SimpleNamespace(tasks={}), get_current_task=lambda: "a task")
    monkeypatch.setattr(distributed, "get_worker", lambda: one)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The worker's directory for temporary files."""
    (made := tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(made))
    return made


@pytest.fixture
def contents(tmp_path: Path) -> dict[str, Content]:
    (images := tmp_path / "images").mkdir()
    (images / "labels.txt").write_text("cat")
    return {"images": Content("images", "", path=images)}


def where_it_lies(task: PreparedJob, on_start: OnStart) -> Outcome:
    path = task.contents["images"].path
    assert path is not None
    assert (path / "labels.txt").read_text() == "cat"
    return Outcome({"path": str(path)})


def done(contents: dict[str, Content]) -> Outcome:
    task = PreparedJob(Job("0" * 64, "convert", {}, {}), contents, 60.0)
    return run_remotely(where_it_lies, to_message(task), *map(packed, contents.values()))  # type: ignore[arg-type]


@pytest.mark.usefixtures("running_worker")
@pytest.mark.skipif(os.name != "posix", reason="locks on folders are POSIX's")
def test_what_a_killed_worker_left_is_removed_by_the_next(
    place: Path, contents: dict[str, Content], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Path(done(contents).value["path"])
    assert list(place.iterdir()) == []
    left.mkdir(parents=True)  # as a SIGKILL leaves it
    done(contents)
    assert left.exists()  # so new a folder may lack its lock yet
    monkeypatch.setattr("edgetool.child.folder.NEW_SECONDS", -1.0)
    done(contents)
    assert list(place.iterdir()) == []


@pytest.mark.slow
@pytest.mark.usefixtures("running_worker")
def test_a_worker_without_room_for_the_contents_says_so(
    place: Path, contents: dict[str, Content], monkeypatch: pytest.MonkeyPatch
) -> None:
    def extractall(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(zipfile.ZipFile, "extractall", extractall)
    with pytest.raises(OutputError, match="temporary: there is no space for temporary files: No space left"):
        done(contents)
    assert list(place.iterdir()) == []
