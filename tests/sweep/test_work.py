from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from edgetool import errors
from edgetool.errors import CalibrationError, EdgetoolError, MissingExtraError, OutputError, UsageError
from edgetool.pipeline.versions import installed_versions
from edgetool.sweep import executor
from edgetool.sweep.executor import run_job
from edgetool.sweep.jobs import Content, Job, Kind, Outcome, PreparedJob
from edgetool.sweep.worker import KINDS, check_versions

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits and signals are POSIX's")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker, which does as it is told."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr(executor, "WORKER", "tests.sweep.work_child")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary directories are made; nothing is left in it afterwards."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    return place


def task(
    asked: Mapping[str, Any], contents: Mapping[str, Content] | None = None, *, seconds: float = 60
) -> PreparedJob:
    return PreparedJob(Job("0" * 64, "convert", asked, {}), contents or {}, seconds)


def test_every_kind_of_job_can_be_done_and_told() -> None:
    assert set(KINDS) == set(executor.DOING) == set(get_args(Kind))


def test_inputs_arrive_by_path_or_bytes_and_blobs_come_back(fake: None, folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "mine.npz"
    own.write_bytes(b"of a file")
    steps: list[str] = []
    contents = {
        "calibration": Content("yours.npz", "", path=own),
        "model": Content("m.h5", "", data=b"bytes"),
        "evaluate": Content("e.npz", "", path=tmp_path / "on another machine", data=b"sent"),
    }
    outcome = run_job(task({"do": "answer"}, contents), progress=steps.append)
    assert outcome.reason is None
    assert outcome.value["names"] == {"calibration": "yours.npz", "model": "m.h5", "evaluate": "e.npz"}
    assert outcome.blobs == {"calibration.txt": b"of a file", "model.txt": b"bytes", "evaluate.txt": b"sent"}
    assert outcome.seconds > 0
    assert steps == ["answering"]
    assert not Path(outcome.value["workdir"]).exists()
    assert list(folder.iterdir()) == []
    assert own.read_bytes() == b"of a file"


def test_a_builders_files_lie_side_by_side(fake: None) -> None:
    contents = {
        "builder": Content("model.py", "", data=b""),
        "builder_file:blocks.py": Content("blocks.py", "", data=b""),
    }
    assert run_job(task({"do": "siblings"}, contents)).value == {"names": ["blocks.py", "model.py"]}


def test_a_content_that_is_not_there_is_the_users_to_know(fake: None, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"c\.npz: is not available"):
        run_job(task({"do": "answer"}, {"calibration": Content("c.npz", "", path=tmp_path / "c.npz")}))


@pytest.mark.parametrize(("what", "cause"), [("crash", "crashed with SIGSEGV"), ("exit", "crashed with exit status 7")])
def test_a_process_that_dies_is_an_outcome(fake: None, folder: Path, what: str, cause: str) -> None:
    outcome = run_job(task({"do": what}))
    assert outcome.reason is not None
    assert cause in outcome.reason
    assert (outcome.value, outcome.blobs) == ({}, {})
    assert list(folder.iterdir()) == []


def test_a_job_that_takes_too_long_is_an_outcome(fake: None) -> None:
    outcome = run_job(task({"do": "sleep"}, seconds=1))
    assert outcome.reason is not None
    assert "took more than 1 s and was stopped while sleeping" in outcome.reason


def test_what_runs_can_be_ended_from_elsewhere(fake: None, folder: Path) -> None:
    stops: list[Callable[[], None]] = []

    def begun(step: str) -> None:
        threading.Thread(target=stops[0]).start()

    started = time.monotonic()
    outcome = run_job(task({"do": "sleep"}), progress=begun, on_start=stops.append)
    assert outcome.reason is not None
    assert "crashed with SIGKILL" in outcome.reason
    assert time.monotonic() - started < 30
    assert list(folder.iterdir()) == []
    stops[0]()  # nothing is left to end


CONTENT = {"calibration": Content("mine.npz", "", data=b"")}


ERRORS = [name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, EdgetoolError)]


@pytest.mark.slow
@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize("error", ERRORS)
def test_what_is_nobodys_variant_is_raised_and_the_rest_is_an_outcome(
    fake: None, folder: Path, error: str, built: bool
) -> None:
    kind = getattr(errors, error)
    asked = task({"do": "raise", "error": error, "built": built}, CONTENT)
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


def test_a_failure_on_a_full_disk_is_the_disks(fake: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=4096))
    with pytest.raises(OutputError, match="no space is left"):
        run_job(task({"do": "crash"}))
    assert run_job(task({"do": "answer"})).reason is None


def test_no_place_to_work_in_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(OutputError, match="none: cannot create a directory"):
        run_job(task({"do": "answer"}))


def test_what_a_killed_process_left_is_removed_by_the_next(
    fake: None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Path(run_job(task({"do": "answer"})).value["workdir"])
    left.mkdir(parents=True)  # as a SIGKILL leaves it
    assert run_job(task({"do": "answer"})).reason is None
    assert left.exists()  # so new a folder may lack its lock yet
    monkeypatch.setattr("edgetool.child.folder.NEW_SECONDS", -1.0)
    assert run_job(task({"do": "answer"})).reason is None
    assert list(folder.iterdir()) == []


def test_several_threads_do_not_disturb_each_other(fake: None, folder: Path) -> None:
    outcomes: dict[int, Outcome] = {}

    def one(number: int) -> None:
        content = Content("m.h5", "", data=str(number).encode())
        outcomes[number] = run_job(task({"do": "answer"}, {"model": content}))

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


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_survives_the_way_between_processes(name: str) -> None:
    kind: type[EdgetoolError] = getattr(errors, name)
    error = kind("is wrong", where="here", fix="do that", details=("one", "two"))
    again = there_and_back(error)
    assert type(again) is kind
    assert (again.what, again.where, again.fix, again.details) == ("is wrong", "here", "do that", ("one", "two"))
    assert str(again) == str(error)
    assert there_and_back(kind("alone")).where is None


def test_a_task_and_its_outcome_survive_it_too() -> None:
    sent = task({"do": "answer"}, CONTENT)
    assert there_and_back(sent) == sent
    outcome = Outcome({"a": 1}, {"b": b"c"}, None, 1.0)
    assert there_and_back(outcome) == outcome


def test_a_worker_with_other_packages_refuses() -> None:
    wanted = {"edgetool": "1", "numpy": "2"}
    check_versions("analyse", wanted, {**wanted, "keras": "3"})  # which analyses do not use
    check_versions("analyse", {**wanted, "ortools": "9"}, {**wanted, "ortools": "9"})
    with pytest.raises(UsageError, match=r"numpy 3 instead of 2, ortools \(not installed\) instead of 9;"):
        check_versions("analyse", {**wanted, "ortools": "9"}, {**wanted, "numpy": "3"})
    with pytest.raises(UsageError, match="ortools 9 instead of none;"):
        check_versions("analyse", wanted, {**wanted, "ortools": "9"})


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
