from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edgetool import child
from edgetool.errors import CalibrationError, ConversionError

ROOT = Path(__file__).resolve().parents[1]
MODULE = "tests.child_work"
pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits and signals are POSIX's")


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def run(
    workdir: Path, *, limits: child.Limits | None = None, steps: list[str] | None = None, **request: object
) -> dict[str, object]:
    return child.run(
        MODULE,
        request,
        workdir=workdir,
        limits=limits or child.Limits(),
        doing="testing",
        progress=steps.append if steps is not None else None,
    )


def gone(pid: int) -> bool:
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if Path(f"/proc/{pid}/stat").is_file() and Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            return True
        time.sleep(0.05)
    return False


def test_the_answer_comes_back_and_chatter_does_not(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    steps: list[str] = []
    result = run(tmp_path, steps=steps, do="answer", value={"a": [1, "ü"]})
    assert result["echo"] == {"a": [1, "ü"]}
    assert result["pid"] != os.getpid()
    assert steps == ["starting"]
    assert capfd.readouterr() == ("", "")
    assert "last words" in child.log_tail(tmp_path)


def test_our_errors_arrive_as_they_were_raised(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError) as caught:
        run(tmp_path, do="refuse")
    assert str(caught.value) == "sample 3: is NaN; remove it"
    assert caught.value.details == ("one", "two")


def test_a_foreign_exception_is_a_conversion_error_with_the_log(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="RuntimeError: first line") as caught:
        run(tmp_path, do="raise")
    assert "last words" in caught.value.details


@pytest.mark.parametrize(("do", "cause"), [("crash", "SIGSEGV"), ("exit", "exit status 7")])
def test_a_dead_child_is_told_with_its_cause_step_and_log(tmp_path: Path, do: str, cause: str) -> None:
    with pytest.raises(ConversionError, match=f"{cause} while starting") as caught:
        run(tmp_path, do=do)
    assert "last words" in caught.value.details


def test_a_slow_child_is_stopped(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(ConversionError, match="more than 1 s"):
        run(tmp_path, limits=child.Limits(seconds=1), do="sleep", seconds=60)
    assert time.monotonic() - started < 15
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_process_that_a_child_leaves_behind_keeps_nobody_waiting(tmp_path: Path) -> None:
    begun = time.monotonic()
    result = run(tmp_path, do="leave a process", seconds=300)
    assert time.monotonic() - begun < 60  # not the time that it would have slept
    pid = result["left"]
    assert isinstance(pid, int)
    assert gone(pid)


def test_what_a_child_of_a_child_starts_ends_with_the_outer_one(tmp_path: Path) -> None:
    note = tmp_path / "started"

    def stop_when_started(stop: Callable[[], None]) -> None:
        def wait() -> None:
            while not note.exists() or not note.read_text():
                time.sleep(0.02)
            stop()

        threading.Thread(target=wait, daemon=True).start()

    inner = {"do": "start another and sleep", "note": str(note)}
    with pytest.raises(child.ChildDiedError):
        child.run(
            MODULE,
            {"do": "ask another", "inner": inner},
            workdir=tmp_path,
            limits=child.Limits(),
            doing="testing",
            on_start=stop_when_started,
        )
    assert gone(int(note.read_text()))


def test_a_greedy_child_reaches_its_limit(tmp_path: Path) -> None:
    limits = child.Limits(memory_bytes=300 * 2**20)
    with pytest.raises(ConversionError, match="memory limit"):
        run(tmp_path, limits=limits, do="allocate", bytes=2**30)


def test_ctrl_c_leaves_no_child(tmp_path: Path) -> None:
    def interrupt() -> None:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, do="sleep", seconds=60)
    thread.join()
    assert gone(int((tmp_path / "pid").read_text()))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_a_killed_parent_takes_its_child_along(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from edgetool import child\n"
        f"child.run({MODULE!r}, {{'do': 'sleep', 'seconds': 60}}, workdir=Path(sys.argv[1]), limits=child.Limits(), "
        "doing='testing')"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    assert gone(int((tmp_path / "pid").read_text()))
