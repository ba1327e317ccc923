"""The local pool, and the estimate of the time that is left."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool import child
from edgetool.errors import CalibrationError, UsageError
from edgetool.sweep.executor import RELATIVE_SECONDS, LocalPool, seconds_by_kind, seconds_left, usable_cpus
from edgetool.sweep.jobs import Job, Outcome, PreparedJob
from tests.sweep import fake_work
from tests.sweep.fake_work import until

ROOT = Path(__file__).resolve().parents[2]


def task(key: str, kind: str = "analyse") -> PreparedJob:
    return PreparedJob(Job(key, kind, {}, {}), {}, 60.0)  # type: ignore[arg-type]


def sleeping(task: PreparedJob, *, on_start: child.OnStart, pids: Path) -> Outcome:
    """A real child that sleeps, as run_job starts one."""
    with tempfile.TemporaryDirectory() as name:
        (pids / task.job.key).symlink_to(Path(name) / "pid")
        child.run(
            "tests.child_work",
            {"do": "sleep", "seconds": 600},
            workdir=Path(name),
            limits=child.ProcessLimits(seconds=600),
            doing="sleeping",
            on_start=on_start,
        )
    return Outcome()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_every_task_ends_with_its_own_outcome() -> None:
    keys = [f"{number:06x}" for number in range(20)]
    with LocalPool(3, run=fake_work.do) as pool:
        for key in keys:
            pool.submit(task(key))
        ended = dict(filter(None, (pool.wait(10) for _ in keys)))
        assert pool.wait(0) is None
        assert pool.wait(0.01) is None
    assert ended == {key: fake_work.do(task(key)) for key in keys}


def test_as_many_run_side_by_side_as_there_are_jobs() -> None:
    together = threading.Barrier(4)

    def do(task: PreparedJob, **_: object) -> Outcome:
        together.wait(30)  # passes when four are here at the same time
        return Outcome()

    with LocalPool(4, run=do) as pool:
        assert pool.capacity == 4
        for number in range(8):
            pool.submit(task(str(number)))
        assert all(pool.wait(30) is not None for _ in range(8))


def test_jobs_are_as_many_as_the_cpus_that_may_be_used() -> None:
    with LocalPool(run=fake_work.do) as pool:
        assert pool.capacity == usable_cpus() >= 1
    with pytest.raises(UsageError, match="0 is not a valid number of jobs"):
        LocalPool(0, run=fake_work.do)


def test_what_a_task_raises_is_raised_where_it_is_awaited() -> None:
    with LocalPool(1, run=partial(fake_work.do, refusing="prune")) as pool:
        pool.submit(task("00000a", "prune"))
        pool.submit(task("00000b"))
        with pytest.raises(CalibrationError, match="has no samples") as raised:
            pool.wait(10)
        assert raised.value.details == ("a line",)
        ended = pool.wait(10)  # the others go on
        assert ended is not None
        assert ended[0] == "00000b"


@pytest.mark.skipif(os.name != "posix", reason="needs process groups")
def test_closing_kills_the_children_at_once_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids, temporary = tmp_path / "pids", tmp_path / "tmp"
    pids.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    with LocalPool(2, run=partial(sleeping, pids=pids)) as pool:
        for key in ("a", "b", "waits"):
            pool.submit(task(key))
        until(lambda: all((pids / key).exists() and (pids / key).read_text() for key in ("a", "b")))
        running = [int((pids / key).read_text()) for key in ("a", "b")]
    until(lambda: all(map(gone, running)), 5)
    assert list(temporary.iterdir()) == []
    assert not (pids / "waits").is_symlink()


def test_a_child_that_starts_while_the_pool_closes_is_ended() -> None:
    begun, closing, stopped = threading.Event(), threading.Event(), threading.Event()

    def do(task: PreparedJob, *, on_start: Callable[[Callable[[], None]], None]) -> Outcome:
        begun.set()
        closing.wait(30)
        on_start(stopped.set)
        stopped.wait(30)
        return Outcome()

    pool = LocalPool(1, run=do)
    pool.submit(task("late"))
    assert begun.wait(30)
    release = threading.Timer(0.1, closing.set)
    release.start()
    pool.close()
    assert stopped.is_set()
    pool.close()  # does nothing


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_waiting_can_be_interrupted() -> None:
    with LocalPool(1, run=partial(fake_work.do, seconds=600.0)) as pool:
        pool.submit(task("00000a"))
        begun = time.monotonic()
        alarm = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        alarm.start()
        with pytest.raises(KeyboardInterrupt):
            pool.wait(300)
    assert time.monotonic() - begun < 200


KINDS = st.sampled_from(sorted(RELATIVE_SECONDS))
SECONDS = st.floats(0.01, 1e5)
EACH = st.fixed_dictionaries(dict.fromkeys(RELATIVE_SECONDS, SECONDS))
WAITING = st.dictionaries(KINDS, st.integers(0, 1000))
RUNNING = st.lists(st.tuples(KINDS, SECONDS), max_size=8)
WIDTHS = st.integers(1, 64)


def test_nothing_is_known_before_the_first_job_has_ended() -> None:
    assert seconds_by_kind({}) is None
    assert seconds_by_kind({"convert": (0, 0.0)}, [("convert", 3.0)]) is None


def test_a_kind_takes_the_mean_of_those_that_ended_and_others_their_share() -> None:
    each = seconds_by_kind({"convert": (4, 80.0)})
    assert each is not None
    assert each["convert"] == 20.0
    assert each["analyse"] == pytest.approx(20.0 * RELATIVE_SECONDS["analyse"] / RELATIVE_SECONDS["convert"])


def test_a_kind_of_which_none_has_ended_takes_no_less_than_one_that_runs() -> None:
    each = seconds_by_kind({"analyse": (1, 1.0)}, [("prune", 500.0), ("prune", 300.0), ("analyse", 99.0)])
    assert each is not None
    assert each["prune"] == 500.0
    assert each["analyse"] == 1.0


def test_work_is_shared_by_those_side_by_side() -> None:
    each = dict.fromkeys(RELATIVE_SECONDS, 10.0)
    assert seconds_left(each, {"convert": 4, "analyse": 2}, [], 2) == 30.0
    assert seconds_left(each, {"convert": 3}, [("convert", 4.0)], 2) == 18.0
    assert seconds_left(each, {"convert": 1}, [], 8) == 10.0  # one job is not shared
    assert seconds_left(each, {}, [("convert", 99.0)], 8) == 1.0
    assert seconds_left(each, {}, [], 8) == 0.0


@given(EACH, WAITING, RUNNING, WIDTHS, KINDS)
def test_more_to_do_takes_no_less_and_more_hands_no_more(
    each: dict[str, float], waiting: dict[str, int], running: list[tuple[str, float]], width: int, kind: str
) -> None:
    left = seconds_left(each, waiting, running, width)
    assert left >= 0
    assert seconds_left(each, {**waiting, kind: waiting.get(kind, 0) + 1}, running, width) >= left
    assert seconds_left(each, waiting, [*running, (kind, 0.5)], width) >= left
    assert seconds_left(each, waiting, running, width + 1) <= left
    later = [(name, elapsed + 1) for name, elapsed in running]
    assert seconds_left(each, waiting, later, width) <= left
    # No schedule is quicker than all hands on it, and none that is never idle slower than all of it and the longest.
    rests = [max(each[name] - elapsed, 0) for name, elapsed in running]
    assert left * width >= sum(each[name] * count for name, count in waiting.items()) + sum(rests) - 1e-6 * left


@given(st.dictionaries(KINDS, st.tuples(st.integers(1, 9), SECONDS), min_size=1))
def test_shares_keep_to_the_scale_of_what_is_known(ended: dict[str, tuple[int, float]]) -> None:
    each = seconds_by_kind(ended)
    assert each is not None
    assert set(each) == set(RELATIVE_SECONDS)
    ratios = [each[kind] / RELATIVE_SECONDS[kind] for kind in ended]
    for kind in RELATIVE_SECONDS:
        assert min(ratios) * (1 - 1e-9) <= each[kind] / RELATIVE_SECONDS[kind] <= max(ratios) * (1 + 1e-9)
