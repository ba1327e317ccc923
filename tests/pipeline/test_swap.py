from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from edgetool.errors import OutputError
from edgetool.pipeline import swap
from edgetool.pipeline.check import LockStore, write_lock
from edgetool.pipeline.output import directory_lock, write_file, write_files
from tests.pipeline.killed_writer import MINE, NEW, OLD, contents, filled, staged

ROOT = Path(__file__).resolve().parents[2]
posix = pytest.mark.skipif(os.name != "posix", reason="needs processes that can be killed")


@pytest.mark.slow
@posix
def test_a_kill_at_any_step_leaves_the_old_or_the_new_files(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.killed_writer", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    states = {kind: found for kind, *found in map(str.split, done.stdout.splitlines())}
    # Each kind was killed before it had decided and after.
    for kind, least in (
        ("kill_writers", 15),
        ("kill_new", 12),
        ("kill_committers", 15),
        ("kill_while_taking_back", 20),
    ):
        assert len(states[kind]) >= least
        assert set(states[kind]) == {"old", "new"}
    assert states["kill_waiting"] == ["new"]


def made_as(staging: Path) -> Path:
    """A directory of that name, as mkdtemp would make it."""
    staging.mkdir(swap.STAGING_MODE)
    return staging


@pytest.mark.parametrize("failing", list(NEW))
def test_a_failing_rename_leaves_the_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    directory = filled(tmp_path / "out", {**MINE, **OLD})
    staging = staged(directory)
    real = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if self.parent.name == swap.READY and self.name == failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(OSError, match="No space left"):
        swap.commit(staging)
    assert contents(directory) == {**MINE, **OLD}
    assert not staging.exists()


def test_a_commit_that_cannot_be_flushed_is_rolled_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was reported as an error, the next run would do all the same."""
    directory = filled(tmp_path / "out", {**MINE, **OLD})
    staging = staged(directory)
    real = swap.sync

    def sync(path: Path) -> None:
        if path == staging:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(path)

    monkeypatch.setattr(swap, "sync", sync)
    with pytest.raises(OSError, match="Input/output error"):
        swap.commit(staging)
    write_file(directory / "next", b"")
    assert contents(directory) == {**MINE, **OLD, "next": b""}
    assert not staging.exists()


def test_a_failed_commit_and_rollback_keeps_the_files_and_reports_it(tmp_path: Path) -> None:
    directory = filled(tmp_path / "out", OLD)
    staging = staged(directory)
    (directory / "c.json").unlink()
    (directory / "c.json" / "in the way").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        swap.commit(staging)
    assert contents(staging / swap.OLD) == {"c.json": OLD["c.json"]}
    assert contents(directory) == {"a.h": OLD["a.h"]}
    with pytest.raises(OutputError, match=r"interrupted run.*copy") as caught:
        write_file(directory / "next", b"")
    assert caught.value.where == str(staging)
    (directory / "c.json" / "in the way").rmdir()
    (directory / "c.json").rmdir()
    write_file(directory / "next", b"")
    assert contents(directory) == {**OLD, "next": b""}
    assert not staging.exists()


@posix
def test_the_error_of_the_renaming_process_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgetool.pipeline.output.back_up", _put_in_the_way)
    filled(tmp_path, OLD)
    with pytest.raises(OutputError, match=r"cannot be written: Is a directory") as caught:
        write_files(tmp_path, NEW, force=True)
    assert caught.value.where == str(tmp_path)
    assert contents(tmp_path) == OLD


def _put_in_the_way(staging: Path, names: dict[str, bytes]) -> None:
    """A directory that appears where one of the new files shall be, just after all was looked at."""
    swap.back_up(staging, names)
    (staging.parent / "b.c" / "in the way").mkdir(parents=True)
    (staging / swap.ABSENT / "b.c").unlink()


@posix
@pytest.mark.parametrize("before", [True, False], ids=["before its work", "after its work"])
def test_if_the_renaming_process_dies_its_parent_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    real = subprocess.Popen

    script = (
        "import os, runpy, signal, sys\n"
        "works, path, staging = sys.argv[1:]\n"
        "sys.argv[1:] = [staging]\n"
        "works and runpy.run_path(path, run_name='__main__')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )

    def dying(command: list[str], **rest: object) -> subprocess.Popen[bytes]:
        started = [sys.executable, "-c", script, "" if before else "1", *command[3:]]
        return real(started, **rest)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(subprocess, "Popen", dying)
    filled(tmp_path, {**MINE, **OLD})
    write_files(tmp_path, NEW, force=True)
    assert contents(tmp_path) == {**MINE, **NEW}
    assert not list(tmp_path.glob(".*"))


@posix
def test_an_interrupt_received_by_another_thread_leaves_a_complete_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a thread, as numerical libraries have them, takes what the writer holds back."""
    started, start = threading.Event(), subprocess.Popen
    processes: list[subprocess.Popen[bytes]] = []

    def interrupt() -> None:
        started.wait()
        os.kill(os.getpid(), signal.SIGINT)

    def interrupted(command: list[str], **rest: object) -> subprocess.Popen[bytes]:
        slow = [
            sys.executable,
            "-c",
            f"import os, time; time.sleep(0.3); os.execv({sys.executable!r}, {[str(word) for word in command]!r})",
        ]
        processes.append(start(slow, **rest))  # type: ignore[call-overload]
        started.set()
        taker.join()
        return processes[0]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    filled(tmp_path, {**MINE, **OLD})
    taker = threading.Thread(target=interrupt)
    taker.start()
    with pytest.raises(KeyboardInterrupt):
        write_files(tmp_path, NEW, force=True)
    with directory_lock(tmp_path):  # whoever renames has ended
        assert contents(tmp_path) == {**MINE, **NEW}
    with processes[0]:
        pass


def test_the_writer_renames_if_no_process_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    filled(tmp_path, {**MINE, **OLD})
    write_files(tmp_path, NEW, force=True)
    assert contents(tmp_path) == {**MINE, **NEW}
    assert not list(tmp_path.glob(".*"))


def test_an_interrupted_rollback_is_not_a_success(tmp_path: Path) -> None:
    filled(tmp_path, OLD)
    staging = staged(tmp_path)
    (staging / swap.NEW / "a.h").replace(tmp_path / "a.h")
    (staging / swap.NEW).rename(staging / swap.UNDO)
    with pytest.raises(OSError, match="cannot be replaced"):
        swap.resume(staging)
    assert contents(tmp_path) == OLD
    assert not staging.exists()


def test_only_own_staging_directories_are_removed(tmp_path: Path) -> None:
    kept = (".edgetool-notes", ".edgetool-abcdefgh", ".edgetool-settings")
    for name in kept:
        filled(tmp_path / name, {"a.txt": b"mine"})
    (tmp_path / ".edgetool-12345678").symlink_to(tmp_path / ".edgetool-notes")
    (tmp_path / ".edgetool-file_____").write_bytes(b"")
    filled(made_as(tmp_path / ".edgetool-87654321") / swap.NEW, {})
    assert swap.abandoned_stagings(tmp_path) == [tmp_path / ".edgetool-87654321"]
    write_file(tmp_path / "next", b"")
    assert {path.name for path in tmp_path.iterdir()} == {*kept, ".edgetool-12345678", ".edgetool-file_____", "next"}


@posix
def test_staging_directories_in_a_cloned_repository_are_ignored(tmp_path: Path) -> None:
    """Whoever made a repository could else write and delete beside their directory, as if it were a killed run's."""
    filled(tmp_path, {"Makefile": b"mine", "precious": b"mine"})
    decided, failed = (filled(tmp_path / name, {}) for name in (".edgetool-aaaaaaaa", ".edgetool-bbbbbbbb"))
    filled(decided / swap.READY, {"Makefile": b"theirs"})
    filled(failed / swap.UNDO, {})
    filled(failed / swap.OLD, {"Makefile": b"theirs"})
    filled(failed / swap.ABSENT, {"precious": b""})
    for brought in (decided, failed):
        brought.chmod(0o755)
    write_file(tmp_path / "next", b"")
    assert contents(tmp_path) == {"Makefile": b"mine", "precious": b"mine", "next": b""}
    assert decided.exists()
    assert failed.exists()


@posix
def test_a_directory_with_an_inherited_group_is_cleaned_up_too(tmp_path: Path) -> None:
    """What is made in such a directory has its bit."""
    tmp_path.chmod(0o2755)
    left = staged(tmp_path)
    assert swap.abandoned_stagings(tmp_path) == [left]


def test_an_update_of_the_lock_file_removes_the_remains_of_a_killed_one(tmp_path: Path) -> None:
    filled(made_as(tmp_path / ".edgetool-12345678") / swap.NEW, {"edgetool.lock": b"half"})
    write_lock(LockStore(tmp_path / "edgetool.lock", None, None), {}, inputs=())
    assert [path.name for path in tmp_path.iterdir()] == ["edgetool.lock"]


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    filled(tmp_path, OLD)
    (tmp_path / "b.c").symlink_to("nowhere")
    staging = staged(tmp_path)
    assert contents(staging / swap.OLD) == OLD
    assert (staging / swap.OLD / "b.c").is_symlink()
    swap.commit(staging)
    assert contents(tmp_path) == NEW


@posix
def test_staging_directories_of_other_users_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = made_as(tmp_path / ".edgetool-12345678")
    filled(tmp_path, OLD)
    filled(theirs / swap.READY, NEW)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    write_file(tmp_path / "next", b"")
    assert contents(tmp_path) == {**OLD, "next": b""}
    assert contents(theirs / swap.READY) == NEW
