"""The local pool, the estimate of the time that is left, and the work of one job in its process."""

from __future__ import annotations

import os
import pickle
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool import child, errors
from edgetool.errors import CalibrationError, EdgetoolError, MissingExtraError, OutputError, UsageError
from edgetool.pipeline.versions import installed_versions
from edgetool.sweep import executor
from edgetool.sweep.executor import RELATIVE_SECONDS, LocalPool, run_job, seconds_by_kind, seconds_left, usable_cpus
from edgetool.sweep.jobs import Content, Job, Kind, Outcome, PreparedJob
from edgetool.sweep.worker import KINDS, check_versions
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


KINDS_OF_JOBS = st.sampled_from(sorted(RELATIVE_SECONDS))
SECONDS = st.floats(0.01, 1e5)
EACH = st.fixed_dictionaries(dict.fromkeys(RELATIVE_SECONDS, SECONDS))
WAITING = st.dictionaries(KINDS_OF_JOBS, st.integers(0, 1000))
RUNNING = st.lists(st.tuples(KINDS_OF_JOBS, SECONDS), max_size=8)
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


@given(EACH, WAITING, RUNNING, WIDTHS, KINDS_OF_JOBS)
def test_more_jobs_never_take_less_time_and_more_workers_never_more(
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


@given(st.dictionaries(KINDS_OF_JOBS, st.tuples(st.integers(1, 9), SECONDS), min_size=1))
def test_estimates_are_scaled_to_known_durations(ended: dict[str, tuple[int, float]]) -> None:
    each = seconds_by_kind(ended)
    assert each is not None
    assert set(each) == set(RELATIVE_SECONDS)
    ratios = [each[kind] / RELATIVE_SECONDS[kind] for kind in ended]
    for kind in RELATIVE_SECONDS:
        assert min(ratios) * (1 - 1e-9) <= each[kind] / RELATIVE_SECONDS[kind] <= max(ratios) * (1 + 1e-9)


posix = pytest.mark.skipif(os.name != "posix", reason="limits and signals are POSIX's")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker, which obeys the test's commands."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr(executor, "WORKER", "tests.sweep.work_child")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary directories are made; nothing is left in it afterwards."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    return place


def asked_task(
    asked: Mapping[str, Any], contents: Mapping[str, Content] | None = None, *, seconds: float = 60
) -> PreparedJob:
    return PreparedJob(Job("0" * 64, "convert", asked, {}), contents or {}, seconds)


@posix
def test_every_kind_of_job_can_be_run_and_described() -> None:
    assert set(KINDS) == set(executor.DOING) == set(get_args(Kind))


@posix
def test_inputs_arrive_by_path_or_bytes_and_blobs_come_back(fake: None, folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "mine.npz"
    own.write_bytes(b"of a file")
    steps: list[str] = []
    contents = {
        "calibration": Content("yours.npz", "", path=own),
        "model": Content("m.h5", "", data=b"bytes"),
        "evaluate": Content("e.npz", "", path=tmp_path / "on another machine", data=b"sent"),
    }
    outcome = run_job(asked_task({"do": "answer"}, contents), progress=steps.append)
    assert outcome.reason is None
    assert outcome.value["names"] == {"calibration": "yours.npz", "model": "m.h5", "evaluate": "e.npz"}
    assert outcome.blobs == {"calibration.txt": b"of a file", "model.txt": b"bytes", "evaluate.txt": b"sent"}
    assert outcome.seconds > 0
    assert steps == ["answering"]
    assert not Path(outcome.value["workdir"]).exists()
    assert list(folder.iterdir()) == []
    assert own.read_bytes() == b"of a file"


@posix
def test_a_builders_files_lie_side_by_side(fake: None) -> None:
    contents = {
        "builder": Content("model.py", "", data=b""),
        "builder_file:blocks.py": Content("blocks.py", "", data=b""),
    }
    assert run_job(asked_task({"do": "siblings"}, contents)).value == {"names": ["blocks.py", "model.py"]}


@posix
def test_a_missing_input_is_reported_to_the_user(fake: None, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"c\.npz: is not available"):
        run_job(asked_task({"do": "answer"}, {"calibration": Content("c.npz", "", path=tmp_path / "c.npz")}))


@posix
@pytest.mark.parametrize(("what", "cause"), [("crash", "crashed with SIGSEGV"), ("exit", "crashed with exit status 7")])
def test_a_process_that_dies_is_an_outcome(fake: None, folder: Path, what: str, cause: str) -> None:
    outcome = run_job(asked_task({"do": what}))
    assert outcome.reason is not None
    assert cause in outcome.reason
    assert (outcome.value, outcome.blobs) == ({}, {})
    assert list(folder.iterdir()) == []


@posix
def test_a_job_that_takes_too_long_is_an_outcome(fake: None) -> None:
    outcome = run_job(asked_task({"do": "sleep"}, seconds=1))
    assert outcome.reason is not None
    assert "took more than 1 s and was stopped while sleeping" in outcome.reason


@posix
def test_what_runs_can_be_ended_from_elsewhere(fake: None, folder: Path) -> None:
    stops: list[Callable[[], None]] = []

    def begun(step: str) -> None:
        threading.Thread(target=stops[0]).start()

    started = time.monotonic()
    outcome = run_job(asked_task({"do": "sleep"}), progress=begun, on_start=stops.append)
    assert outcome.reason is not None
    assert "crashed with SIGKILL" in outcome.reason
    assert time.monotonic() - started < 30
    assert list(folder.iterdir()) == []
    stops[0]()  # nothing is left to end


CONTENT = {"calibration": Content("mine.npz", "", data=b"")}


ERRORS = [name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, EdgetoolError)]


@posix
@pytest.mark.slow
@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize("error", ERRORS)
def test_errors_that_no_variant_causes_are_raised_and_others_are_outcomes(
    fake: None, folder: Path, error: str, built: bool
) -> None:
    kind = getattr(errors, error)
    asked = asked_task({"do": "raise", "error": error, "built": built}, CONTENT)
    reported = "mine.npz sample 3: does not fit; see job/more"
    # Data may fit the next model that the user's builder makes.
    if not issubclass(kind, UsageError) or (built and kind is CalibrationError):
        assert run_job(asked).reason == reported
    else:
        with pytest.raises(kind) as caught:
            run_job(asked)
        assert str(caught.value) == reported
        assert type(caught.value) is kind
    assert list(folder.iterdir()) == []


@posix
def test_a_failure_on_a_full_disk_is_the_disks(fake: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=4096))
    with pytest.raises(OutputError, match="no space is left"):
        run_job(asked_task({"do": "crash"}))
    assert run_job(asked_task({"do": "answer"})).reason is None


@posix
def test_a_missing_working_directory_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(OutputError, match="none: cannot create a directory"):
        run_job(asked_task({"do": "answer"}))


@posix
def test_what_a_killed_process_left_is_removed_by_the_next(
    fake: None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Path(run_job(asked_task({"do": "answer"})).value["workdir"])
    left.mkdir(parents=True)  # as a SIGKILL leaves it
    assert run_job(asked_task({"do": "answer"})).reason is None
    assert left.exists()  # so new a folder may lack its lock yet
    monkeypatch.setattr("edgetool.child.folder.NEW_SECONDS", -1.0)
    assert run_job(asked_task({"do": "answer"})).reason is None
    assert list(folder.iterdir()) == []


@posix
def test_several_threads_do_not_disturb_each_other(fake: None, folder: Path) -> None:
    outcomes: dict[int, Outcome] = {}

    def one(number: int) -> None:
        content = Content("m.h5", "", data=str(number).encode())
        outcomes[number] = run_job(asked_task({"do": "answer"}, {"model": content}))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {number: outcome.blobs["model.txt"] for number, outcome in outcomes.items()} == {
        number: str(number).encode() for number in range(4)
    }
    assert list(folder.iterdir()) == []


def there_and_back(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - it is our own


@posix
@pytest.mark.parametrize("name", ERRORS)
def test_an_error_survives_the_way_between_processes(name: str) -> None:
    kind: type[EdgetoolError] = getattr(errors, name)
    error = kind("is wrong", where="here", fix="do that", details=("one", "two"))
    again = there_and_back(error)
    assert type(again) is kind
    assert (again.what, again.where, again.fix, again.details) == ("is wrong", "here", "do that", ("one", "two"))
    assert str(again) == str(error)
    assert there_and_back(kind("alone")).where is None


@posix
def test_a_task_and_its_outcome_survive_it_too() -> None:
    sent = asked_task({"do": "answer"}, CONTENT)
    assert there_and_back(sent) == sent
    outcome = Outcome({"a": 1}, {"b": b"c"}, None, 1.0)
    assert there_and_back(outcome) == outcome


@posix
def test_a_worker_with_other_packages_refuses() -> None:
    wanted = {"edgetool": "1", "numpy": "2"}
    check_versions("analyse", wanted, {**wanted, "keras": "3"})  # which analyses do not use
    check_versions("analyse", {**wanted, "ortools": "9"}, {**wanted, "ortools": "9"})
    with pytest.raises(UsageError, match=r"numpy 3 instead of 2, ortools \(not installed\) instead of 9;"):
        check_versions("analyse", {**wanted, "ortools": "9"}, {**wanted, "numpy": "3"})
    with pytest.raises(UsageError, match="ortools 9 instead of none;"):
        check_versions("analyse", wanted, {**wanted, "ortools": "9"})


@posix
def test_versions_are_those_that_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import PackageNotFoundError

    from edgetool import __version__

    known = {"tensorflow": "2.21", "keras": "3.15", "ai-edge-litert": "2.1", "numpy": "2.4"}

    def version(name: str) -> str:
        if name not in known:
            raise PackageNotFoundError(name)
        return known[name]

    monkeypatch.setattr("edgetool.pipeline.versions.version", version)
    assert installed_versions() == {"edgetool": __version__, **known}
    known.update({"tensorflow-cpu": "2.22", "ortools": "9"})
    assert (installed_versions()["tensorflow"], installed_versions()["ortools"]) == ("2.22", "9")
    del known["keras"]
    with pytest.raises(MissingExtraError, match="a sweep requires keras, which is not installed"):
        installed_versions()
