from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edgetool import child
from edgetool.child import confinement, process
from edgetool.child import folder as folder_module
from edgetool.child.process import environment
from edgetool.errors import CalibrationError, ConversionError, OutputError
from tests.child_work import ATTEMPTS

ROOT = Path(__file__).resolve().parents[1]
MODULE = "tests.child_work"
pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits and signals are POSIX's")


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "toolchain")]))


def run(
    workdir: Path, *, limits: child.ProcessLimits | None = None, steps: list[str] | None = None, **request: object
) -> dict[str, object]:
    return child.run(
        MODULE,
        request,
        workdir=workdir,
        limits=limits or child.ProcessLimits(),
        doing="testing",
        progress=steps.append if steps is not None else None,
    )


def gone(pid: int) -> bool:
    for _ in range(100):
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except ProcessLookupError:
            return True
        except FileNotFoundError:  # it has just gone, or this system has no such files
            pass
        time.sleep(0.05)
    return False


def test_the_result_is_returned_without_other_output(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
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


def test_any_other_exception_becomes_a_conversion_error_with_the_log(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="RuntimeError: first line") as caught:
        run(tmp_path, do="raise")
    assert "last words" in caught.value.details


@pytest.mark.parametrize(("do", "cause"), [("crash", "SIGSEGV"), ("exit", "exit status 7")])
def test_a_dead_child_is_reported_with_its_cause_step_and_log(tmp_path: Path, do: str, cause: str) -> None:
    with pytest.raises(ConversionError, match=f"{cause} while starting") as caught:
        run(tmp_path, do=do)
    assert "last words" in caught.value.details


def test_a_slow_child_is_stopped(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(ConversionError, match="more than 1 s"):
        run(tmp_path, limits=child.ProcessLimits(seconds=1), do="sleep", seconds=60)
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
    note = tmp_path / "another" / "started"

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
            limits=child.ProcessLimits(),
            doing="testing",
            on_start=stop_when_started,
        )
    assert gone(int(note.read_text()))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "waitid"), reason="looks whether a process was waited for")
@pytest.mark.parametrize(
    "request_", [{"do": "answer", "value": 0}, {"do": "exit"}, {"do": "sleep", "seconds": 60}], ids=str
)
def test_a_reused_process_id_is_not_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: dict[str, object]
) -> None:
    """As soon as a process was waited for, its number can be another's, even a group's."""
    children: list[subprocess.Popen[bytes]] = []
    stops: list[Callable[[], None]] = []
    killed: list[int | None] = []
    real = os.killpg
    start = subprocess.Popen

    def popen(*given: object, **rest: object) -> subprocess.Popen[bytes]:
        children.append(start(*given, **rest))  # type: ignore[call-overload]
        return children[-1]

    def killpg(group: int, number: int) -> None:
        killed.append(children[0].returncode)
        real(group, number)

    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setattr(os, "killpg", killpg)
    with contextlib.suppress(ConversionError):
        child.run(
            MODULE,
            request_,
            workdir=tmp_path,
            limits=child.ProcessLimits(seconds=2),
            doing="testing",
            on_start=stops.append,
        )
    stops[0]()
    assert killed
    assert set(killed) == {None}
    assert children[0].returncode is not None
    assert children[0].stdout is not None
    assert children[0].stdout.closed


def test_a_child_that_allocates_too_much_reaches_its_limit(tmp_path: Path) -> None:
    limits = child.ProcessLimits(memory_bytes=300 * 2**20)
    with pytest.raises(ConversionError, match="memory limit"):
        run(tmp_path, limits=limits, do="allocate", bytes=2**30)


def parent_of_a_sleeper(folder: Path) -> subprocess.Popen[str]:
    """Return a process that waits for a child, which has started: signals must not hit the process of the tests."""
    code = (
        "import signal, sys; from pathlib import Path; from edgetool import child\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"child.run({MODULE!r}, {{'do': 'sleep', 'seconds': 60}}, workdir=Path(sys.argv[1]), "
        "limits=child.ProcessLimits(), doing='testing')"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(folder)], stderr=subprocess.PIPE, text=True)
    while not (folder / "pid").exists() or not (folder / "pid").read_text():
        time.sleep(0.02)
    return parent


def test_ctrl_c_leaves_no_child(tmp_path: Path) -> None:
    parent = parent_of_a_sleeper(tmp_path)
    parent.send_signal(signal.SIGINT)
    _, reported = parent.communicate(timeout=60)
    assert "KeyboardInterrupt" in reported
    assert gone(int((tmp_path / "pid").read_text()))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux's")
def test_a_killed_parent_also_ends_its_child(tmp_path: Path) -> None:
    parent = parent_of_a_sleeper(tmp_path)
    parent.kill()
    parent.communicate(timeout=60)
    assert gone(int((tmp_path / "pid").read_text()))


# ---- what an untrusted child is denied


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of the user's beside the child's folder."""
    folder = tmp_path / "user"
    folder.mkdir()
    (folder / "precious").write_text("precious")
    return folder / "precious"


def place(tmp_path: Path) -> Path:
    folder = tmp_path / "child"
    folder.mkdir()
    return folder


def _filters() -> bool:
    """Whether the kernel has seccomp's filters: it looks for one where none is, and says so by EFAULT."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return bool(
        prctl(confinement.PR_SET_SECCOMP, confinement.SECCOMP_MODE_FILTER, None) and ctypes.get_errno() == errno.EFAULT
    )


def test_this_system_denies_all_that_can_be_denied(tmp_path: Path) -> None:
    """Where it fails the tests below are skipped, and users are told in each report."""
    reported = run(tmp_path, do="answer", value=0).get(child.UNCONFINED, [])
    if sys.platform != "linux":
        assert reported == ["the network", "files outside its folder"]
    elif platform.machine() not in confinement.MACHINES or not _filters():
        pytest.skip("this kernel has no filters of system calls, or we do not know its numbers")
    else:
        assert reported in ([], ["files outside its folder"])  # a kernel before 5.19, or one without Landlock


@pytest.mark.parametrize("what", sorted(ATTEMPTS))
def test_an_untrusted_child_reaches_nothing_outside_its_folder(tmp_path: Path, secret: Path, what: str) -> None:
    answer = run(place(tmp_path), do="try", what=what, outside=str(secret))
    network = what in ("internet", "internet 6", "a local service")
    if ("the network" if network else "files outside its folder") in answer.get(child.UNCONFINED, ()):  # type: ignore[operator]
        pytest.skip("this system cannot deny it")
    assert answer["refused"] in ("EACCES", "EPERM", "EXDEV")
    assert [path.name for path in secret.parent.iterdir()] == ["precious"]
    assert secret.read_text() == "precious"


def test_a_trusted_child_reaches_what_the_user_does(tmp_path: Path, secret: Path) -> None:
    for what in ("internet", "writing"):
        (tmp_path / what).mkdir()
        answer = child.run(
            MODULE,
            {"do": "try", "what": what, "outside": str(secret)},
            workdir=tmp_path / what,
            limits=child.ProcessLimits(),
            doing="testing",
            trusted=True,
        )
        assert answer == {"refused": ""}
    assert secret.read_text() == "mine now"


def test_only_variables_that_python_needs_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("LC_TIME", "C")
    given = run(tmp_path, do="read environment")["environment"]
    assert isinstance(given, dict)
    assert "AWS_SECRET_ACCESS_KEY" not in given
    assert (given["HOME"], given["TMPDIR"], given["LC_TIME"]) == (str(tmp_path), str(tmp_path), "C")
    assert given["PATH"] == os.environ["PATH"]
    trusted = environment(os.environ, tmp_path, trusted=True)
    assert (trusted["AWS_SECRET_ACCESS_KEY"], trusted["HOME"]) == ("hush", os.environ.get("HOME"))


def test_variables_that_some_systems_need_are_passed_on(tmp_path: Path) -> None:
    """Path.home() is USERPROFILE on Windows; on ARM64 TensorFlow may need its libraries loaded before others."""
    given = {"LD_PRELOAD": "libgomp.so.1", "USERPROFILE": "C:\\Users\\me", "APPDATA": "C:\\Users\\me\\AppData"}
    kept = environment(given, tmp_path, trusted=False)
    assert (kept["LD_PRELOAD"], kept["USERPROFILE"], kept["APPDATA"]) == ("libgomp.so.1", str(tmp_path), str(tmp_path))


def test_the_working_directory_is_not_passed_on_as_a_place_of_packages(tmp_path: Path) -> None:
    path = os.pathsep.join(["", "/opt/tools", ".", "packages", "./", ""])
    kept = environment({"PYTHONPATH": path}, tmp_path, trusted=False)
    assert kept["PYTHONPATH"] == os.pathsep.join(["/opt/tools", "packages"])


def test_limits_hold_in_the_child(tmp_path: Path) -> None:
    """The soft ones, and the hard ones to which native code could raise them."""
    names = {"RLIMIT_DATA": 2**30, "RLIMIT_FSIZE": 2**20, "RLIMIT_CORE": 0}
    limits = child.ProcessLimits(memory_bytes=2**30, seconds=6.5, file_bytes=2**20)
    given = run(tmp_path, limits=limits, do="read limits", names=[*names, "RLIMIT_CPU"])["limits"]
    seconds = 7 * (os.cpu_count() or 1)
    assert given == {name: [size, size] for name, size in names.items()} | {"RLIMIT_CPU": [seconds, seconds + 1]}


def test_a_lower_limit_of_the_users_stays(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, before[1]))
    try:
        answer = run(tmp_path, do="read limits", names=["RLIMIT_FSIZE"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert answer["limits"] == {"RLIMIT_FSIZE": [2**20, 2**20]}


def test_a_file_that_grows_beyond_its_limit_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="no space for temporary files: File too large"):
        run(tmp_path, limits=child.ProcessLimits(file_bytes=2**20), do="fill", bytes=2**21)


def test_output_of_a_child_that_is_not_a_message_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MAX_MESSAGE_BYTES", 10_000)
    for word in ("[", "x"):  # too deep for a parser, and too long
        assert run(tmp_path, do="babble", text=word * 20_000)["echo"] == "said"


def test_of_a_long_log_only_the_end_is_read(tmp_path: Path) -> None:
    with (tmp_path / child.LOG_NAME).open("wb") as stream:
        stream.truncate(2**34)  # nothing of it is there
        stream.seek(0, os.SEEK_END)
        stream.write(b"\nlast words\n")
    assert child.log_tail(tmp_path)[-1] == "last words"


# ---- folders to work in


def test_a_work_folder_is_removed_at_the_end(tmp_path: Path) -> None:
    with child.work_folder(tmp_path) as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "file").touch()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RuntimeError), child.work_folder(tmp_path):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys, time; from pathlib import Path; from edgetool import child\n"
        "with child.work_folder(Path(sys.argv[1])) as folder:\n"
        "    (folder / 'file').touch(); print(folder, flush=True); time.sleep(60)\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    left = Path(owner.stdout.readline().strip())
    (tmp_path / f"{folder_module.PREFIX}file").touch()
    (tmp_path / "edgetool-other").mkdir()
    (tmp_path / f"{folder_module.PREFIX}link").symlink_to(tmp_path / "edgetool-other")
    others = sorted(path.name for path in tmp_path.iterdir() if path != left)
    monkeypatch.setattr(folder_module, "NEW_SECONDS", -1.0)
    with child.work_folder(tmp_path):
        assert (left / "file").exists()  # its process lives
    owner.kill()
    owner.communicate()
    monkeypatch.setattr(folder_module, "NEW_SECONDS", 60.0)
    with child.work_folder(tmp_path):
        assert left.exists()  # so new a folder may lack its lock yet
    monkeypatch.setattr(folder_module, "NEW_SECONDS", -1.0)
    with child.work_folder(tmp_path):
        assert not left.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == others


def test_a_work_folder_that_cannot_be_created_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot create a directory"), child.work_folder(tmp_path / "none"):
        pass
