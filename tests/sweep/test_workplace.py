"""The directory of a run: made, noted, gone; and that of a killed run removed by the next."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from edgetool.child.folder import PREFIX
from edgetool.errors import OutputError
from edgetool.sweep.run import working_directory
from edgetool.sweep.store import SUFFIX, Lock, exclusive

pytest.importorskip("fcntl", reason="the system has no flock")

HOLD = """
import sys, time
from pathlib import Path
from edgetool.sweep.store import exclusive
from edgetool.sweep.run import working_directory
with exclusive(Path(sys.argv[1])) as lock, working_directory(lock) as folder:
    (folder / "data.npz").write_bytes(b"the user's")
    Path(sys.argv[2]).write_text(str(folder))
    time.sleep(300)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_it_is_removed_at_the_end_and_after_an_error(tmp_path: Path, temporary: Path) -> None:
    with exclusive(tmp_path / "s.sqlite") as lock, working_directory(lock) as folder:
        assert folder.parent == temporary
        (folder / "file").write_bytes(b"x")
        assert (tmp_path / f"s.sqlite{SUFFIX}").read_text() == str(folder)
    with pytest.raises(KeyboardInterrupt), exclusive(tmp_path / "s.sqlite") as lock, working_directory(lock):
        raise KeyboardInterrupt
    assert list(temporary.iterdir()) == []
    assert not (tmp_path / f"s.sqlite{SUFFIX}").exists()


def test_the_next_run_removes_what_a_killed_one_left(tmp_path: Path, temporary: Path) -> None:
    reported = tmp_path / "told"
    environment = dict(os.environ, TMPDIR=str(temporary))
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "s.sqlite"), str(reported)], env=environment)
    while not reported.exists() or not reported.read_text():
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    left = Path(reported.read_text())
    assert (left / "data.npz").exists()
    with exclusive(tmp_path / "s.sqlite") as lock:
        assert lock.previous_note == str(left)
        with working_directory(lock) as folder:
            assert folder != left
            assert not left.exists()


def test_so_does_the_next_run_of_another_store(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (left := temporary / "edgetool-work-abcd1234").mkdir()
    with exclusive(tmp_path / "one.sqlite") as one, working_directory(one) as living:
        assert living.name.startswith(PREFIX)
        assert left.exists()  # so new a folder may lack its lock yet
        monkeypatch.setattr("edgetool.child.folder.NEW_SECONDS", -1.0)
        with exclusive(tmp_path / "two.sqlite") as two, working_directory(two):
            assert not left.exists()
            assert living.exists()


@pytest.mark.parametrize("name", ["mine", f"{PREFIX}file", f"{PREFIX}link", "relative"])
def test_nothing_else_is_removed_whatever_is_noted(name: str, tmp_path: Path) -> None:
    kept = tmp_path / "mine"
    kept.mkdir()
    (kept / "file").write_bytes(b"x")
    (tmp_path / f"{PREFIX}file").write_bytes(b"x")
    (tmp_path / f"{PREFIX}link").symlink_to(kept)
    noted = f"{PREFIX}relative" if name == "relative" else str(tmp_path / name)
    before = sorted(tmp_path.rglob("*"))
    with working_directory(Lock(Path("s.sqlite"), noted, None)) as folder:
        assert folder.is_dir()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_directory_that_cannot_be_created_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with (
        pytest.raises(OutputError, match="cannot create a directory"),
        working_directory(Lock(Path("s.sqlite"), "", None)),
    ):
        pass


def test_a_full_disk_is_reported_and_nothing_remains(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OutputError, match=r"s\.sqlite: cannot be locked: No space left.*free some disk space"):
        _work_in(tmp_path / "s.sqlite")
    assert [*temporary.iterdir(), *tmp_path.glob("s.*")] == []


def _work_in(store: Path) -> None:
    with exclusive(store) as lock, working_directory(lock):
        raise AssertionError("there is no room")
