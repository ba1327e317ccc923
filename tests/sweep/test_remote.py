"""A cluster's worker, without a cluster."""

from __future__ import annotations

import errno
import os
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgetool.child import OnStart
from edgetool.errors import OutputError
from edgetool.sweep.executor import packed, run_remotely, to_message
from edgetool.sweep.jobs import Content, Job, Outcome, PreparedJob

distributed = pytest.importorskip("distributed")


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_worker_without_room_for_the_contents_says_so(
    place: Path, contents: dict[str, Content], monkeypatch: pytest.MonkeyPatch
) -> None:
    def extractall(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(zipfile.ZipFile, "extractall", extractall)
    with pytest.raises(OutputError, match="temporary: there is no space for temporary files: No space left"):
        done(contents)
    assert list(place.iterdir()) == []
