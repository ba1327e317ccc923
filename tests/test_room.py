"""What shows a disk without room, and where that is said to be."""

from __future__ import annotations

import errno
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgetool import child
from edgetool.child import folder
from edgetool.errors import ConversionError, InvalidModelError, OutputError
from tests.test_child import importable, run

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
CODES = [errno.ENOSPC, errno.EDQUOT, errno.EFBIG]
pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="children have limits of POSIX's"),
    pytest.mark.usefixtures(importable.__name__),
]


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def on_the_way(error: Exception, other: Exception) -> Exception:
    error.__context__ = other
    return error


@pytest.mark.parametrize("code", CODES)
def test_a_full_disk_is_recognized_in_every_form(code: int) -> None:
    said = os.strerror(code)
    for error in (
        OSError(code, said),
        RuntimeError(f"{{{{node SaveV2}}}} /tmp/part-0; {said} [Op:SaveV2]"),
        caused(InvalidModelError("cannot be loaded"), OSError(code, said)),
        on_the_way(ValueError("not saved"), OSError(code, said)),
    ):
        assert folder.disk_full_reason(error) == said


def test_numpy_reports_it_without_an_errno() -> None:
    assert folder.disk_full_reason(OSError("49000 requested and 16256 written")) is not None


def test_other_errors_are_not_disk_errors() -> None:
    hidden = on_the_way(ValueError("never mind"), OSError(errno.ENOSPC, "full"))
    hidden.__suppress_context__ = True
    for error in (
        OSError(errno.EACCES, "no"),
        ValueError("49000 requested and 16256 written"),
        InvalidModelError("a layer is called 'No space left on device'"),
        hidden,
    ):
        assert folder.disk_full_reason(error) is None


@pytest.mark.parametrize(
    ("worked_in", "place"),
    [
        ("/tmp/edgetool-work-abc_1234", "/tmp"),
        ("/tmp/edgetool-work-1234abcd/edgetool-work-abcd1234/job/work", "/tmp"),
        ("/home/me/edgetool-workers/edgetool-work-abcd1234", "/home/me/edgetool-workers"),
        ("/home/me/mine", "/home/me/mine"),
    ],
)
def test_the_error_names_the_directory_that_the_user_knows(worked_in: str, place: str) -> None:
    assert folder.temporary_parent(Path(worked_in)) == Path(place)


@pytest.mark.parametrize("code", CODES)
def test_a_child_on_a_full_disk_reports_it(tmp_path: Path, code: int) -> None:
    with child.work_folder(tmp_path) as folder, pytest.raises(OutputError) as caught:
        run(folder, do="fail", errno=code)
    assert (caught.value.where, caught.value.exit_code) == (str(tmp_path), 2)
    assert os.strerror(code) in caught.value.what
    assert "TMPDIR" in (caught.value.fix or "")


def test_a_child_whose_log_fills_the_disk_reports_it(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="File too large"):
        run(tmp_path, limits=child.ProcessLimits(file_bytes=1), do="raise")


@pytest.mark.parametrize("do", ["crash", "exit", "raise"])
def test_a_crash_on_a_full_disk_is_attributed_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, do: str
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=4096))
    with pytest.raises(OutputError, match="no space is left on the disk"):
        run(tmp_path, do=do)
    assert run(tmp_path, do="answer", value=1)["echo"] == 1


@pytest.mark.parametrize("code", CODES)
def test_a_parent_on_a_full_disk_reports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def write_text(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    with pytest.raises(OutputError, match="no space") as caught, child.work_folder(tmp_path):
        write_text()
    assert caught.value.where == str(tmp_path)
    for call in ("touch", "write_text"):  # of the log, of the request
        with monkeypatch.context() as patched:
            patched.setattr(Path, call, write_text)
            with pytest.raises(OutputError, match="no space"):
                run(tmp_path, do="answer", value=1)


def test_an_error_of_the_task_is_not_changed(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), child.work_folder(tmp_path):
        raise PermissionError(errno.EACCES, "no")
    with pytest.raises(ConversionError, match="RuntimeError"):
        run(tmp_path, do="raise")


def test_a_missing_temporary_directory_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def gettempdir() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", gettempdir)
    with pytest.raises(OutputError, match="TMPDIR: no directory for temporary files"), child.work_folder():
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "bytes_each"),
    [
        (["verify", "keyword_spotting.tflite"], 3000),  # the parent writes
        (["convert", "keyword_spotting.h5", "-t", "cortex-m4", "-o", "{out}"], 60_000),  # TensorFlow does
    ],
    ids=["verify", "convert"],
)
def test_the_command_names_the_directory(tmp_path: Path, command: list[str], bytes_each: int) -> None:
    for package in ("tensorflow", "ai_edge_litert", "tflite_micro"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    resource = pytest.importorskip("resource")
    (temporary := tmp_path / "temporary").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "edgetool", *(word.format(out=tmp_path / "out") for word in command)],
        cwd=EXAMPLES / "keyword_spotting",
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_each, resource.RLIM_INFINITY)),
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{temporary}: there is no space for temporary files: File too large; free space" in done.stderr
    assert "layer" not in done.stderr
    assert [path.name for path in tmp_path.rglob("*")] == ["temporary"]
