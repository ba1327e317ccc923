"""What stands for sweep.executor.run_job where tests ask how jobs are run, not what they do."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from edgetool.errors import CalibrationError, InternalError
from edgetool.pipeline.convert import hash_of_path
from edgetool.report.json import plain
from edgetool.sweep.jobs import Content, Outcome, PreparedJob
from edgetool.sweep.run import run_sweep
from edgetool.sweep.spec import Pruning, SweepSpec, TargetSpec
from tests.sweep.made_rows import QUANTIZATION, metrics

BLOBS = {"build": "model.keras", "prune": "model.keras", "reference": "reference.npz", "convert": "model.tflite"}


def spec_of(folder: Path, **changes: object) -> SweepSpec:
    """36 variants of a model that nobody reads: 3 prunings, a reference, 12 conversions and 36 analyses, 52 jobs."""
    model = folder / "model.h5"
    if not model.exists():
        model.write_bytes(b"not a model")
    settings: dict[str, object] = {
        "name": "fake",
        "model": model,
        "builder": None,
        "precisions": ("float32", "int16x8", "int8"),
        "targets": tuple(TargetSpec(name, name) for name in ("cortex-m0plus", "cortex-m4", "cortex-m7")),
        "pruning": Pruning(levels=(0.0, 0.25, 0.5, 0.75)),
        **changes,
    }
    return SweepSpec(**settings)  # type: ignore[arg-type]


def do(
    task: PreparedJob,
    *,
    on_start: Callable[[Callable[[], None]], None] | None = None,
    log: Path | None = None,
    seconds: float = 0.0,
    failing: str = "",
    refusing: str = "",
    deadly: str = "",
) -> Outcome:
    """An outcome that follows from the key. log: gets a line with the key and this process's number when it begins.

    failing, refusing, deadly: kinds that fail, raise, and kill their process.
    """
    job = task.job
    if log is not None:
        note(log, f"{job.key} {job.kind} {os.getpid()}")
    for content in task.contents.values():
        if found(content) != content.sha256:
            raise InternalError(f"{content.name} is not what was sent")
    ended = threading.Event()
    if on_start is not None:
        on_start(ended.set)
    if ended.wait(seconds):
        if log is not None:
            note(log, f"{job.key} stopped {os.getpid()}")
        return Outcome(reason="stopped")
    if job.kind == deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    if job.kind == refusing:
        raise CalibrationError("has no samples", where="calibration.npz", fix="add some", details=("a line",))
    if job.kind == failing:
        return Outcome(reason="it failed", seconds=seconds)
    number = int(job.key[:6], 16)
    made = metrics(quality={"accuracy": number % 1000 / 1000}, arena_bytes=number % 100_000)
    value = {
        "reference": {"float_accuracy": 0.9},
        "convert": {"quality": plain(made.quality), "quantization": plain(QUANTIZATION), "notes": []},
        "analyse": {"cost": plain(made.cost)},
    }.get(job.kind, {"parameters": 1, "original_parameters": 2, "removed": {}, "left_alone": [], "notes": []})
    blobs = {BLOBS[job.kind]: job.key.encode() * 1000} if job.kind in BLOBS else {}
    return Outcome(value, blobs, seconds=seconds)


def found(content: Content) -> str:
    """The hash of what came."""
    if content.path is not None:
        return hash_of_path(content.path)[0]
    return hashlib.sha256(content.data or b"").hexdigest()


def note(log: Path, line: str) -> None:
    """Add a line, whole, whoever else does."""
    with log.open("ab", buffering=0) as stream:
        stream.write(f"{line}\n".encode())


def lines(log: Path) -> list[list[str]]:
    """The whole lines of the log, as words."""
    return [line.split() for line in log.read_text().splitlines()] if log.exists() else []


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for it; fail where it does not come."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)


if __name__ == "__main__":
    run_sweep(
        spec_of(Path(sys.argv[1])),
        Path(sys.argv[1]) / sys.argv[2],
        jobs=2,
        run=partial(do, log=Path(sys.argv[1]) / "log", seconds=0.01),
    )
