"""The child of `edgetool convert` is killed at some moment: the old files are whole, and nothing else is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("tensorflow", reason="needs the convert extra")
pytestmark = pytest.mark.skipif(
    not Path(f"/proc/self/task/{os.getpid()}/children").exists(),  # kernels may be built without it
    reason="reads the process tree from /proc",
)

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "keyword_spotting" / "keyword_spotting.h5"


def child_of(process: subprocess.Popen[str]) -> int:
    """The process that converts, as soon as there is one."""
    task = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None:
        if children := task.read_text(encoding="utf-8").split():
            return int(children[0])
        time.sleep(0.01)
    raise AssertionError(process.communicate()[1])


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 0.2, 1.5])
def test_a_killed_child_leaves_the_old_files_and_no_others(tmp_path: Path, seconds: float) -> None:
    out, temporary = tmp_path / "out", tmp_path / "temporary"
    out.mkdir()
    temporary.mkdir()
    old = {
        name: f"old {name}" for name in ("keyword_spotting.tflite", "keyword_spotting_model.h", "keyword_spotting.json")
    }
    for name, text in old.items():
        (out / name).write_text(text)
    process = subprocess.Popen(
        [sys.executable, "-m", "edgetool", "convert", str(EXAMPLE), "-t", "cortex-m4", "-o", str(out), "--force"],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    pid = child_of(process)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    output, reported = process.communicate(timeout=120)
    assert process.returncode in (3, 4), reported  # 3 where it was killed while it read the file
    assert output == ""
    assert "crashed with SIGKILL" in reported or "reading it crashed" in reported
    assert {path.name: path.read_text() for path in out.iterdir()} == old
    assert list(temporary.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "temporary"]
