"""The lock of a store: one at a time, gone at the end, and none where the system has none."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from edgetool.errors import OutputError, UsageError
from edgetool.sweep.store import SUFFIX, exclusive

fcntl = pytest.importorskip("fcntl")


def test_only_one_process_holds_the_lock_although_each_removes_the_file(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    inside, most, held, refused = 0, 0, [], []
    counting = threading.Lock()

    def work() -> None:
        nonlocal inside, most
        for _ in range(300):
            try:
                with exclusive(store):
                    with counting:
                        inside += 1
                        most = max(most, inside)
                    held.append(1)
                    with counting:
                        inside -= 1
            except UsageError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert len(held) + len(refused) == 1200
    assert all("another sweep is running" in text for text in refused)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_removed_meanwhile_is_not_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, path = tmp_path / "s.sqlite", tmp_path / f"s.sqlite{SUFFIX}"
    real, removed = fcntl.flock, []

    def flock(descriptor: int, operation: int) -> None:
        if not removed:  # the one who holds it ends between our opening the file and our locking it
            path.unlink()
            removed.append(path)
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with exclusive(store):
        assert removed
        with pytest.raises(UsageError, match="another sweep"), exclusive(store):
            pass


def test_a_file_that_a_killed_run_left_is_taken_over(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    (tmp_path / f"s.sqlite{SUFFIX}").touch()
    with exclusive(store), pytest.raises(UsageError, match="another sweep"), exclusive(store):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_failure_inside_releases_the_lock(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    with pytest.raises(KeyboardInterrupt), exclusive(store):
        raise KeyboardInterrupt
    with exclusive(store):
        pass


def test_a_lock_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / f"s.sqlite{SUFFIX}").mkdir()
    with pytest.raises(OutputError, match="cannot be locked"), exclusive(tmp_path / "s.sqlite"):
        pass
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / f"t.sqlite{SUFFIX}").symlink_to(victim)
    with pytest.raises(OutputError, match="cannot be locked"), exclusive(tmp_path / "t.sqlite"):
        pass
    assert victim.read_text() == "kept"


def test_without_flock_there_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with exclusive(tmp_path / "s.sqlite"), exclusive(tmp_path / "s.sqlite"):
        assert list(tmp_path.iterdir()) == []
