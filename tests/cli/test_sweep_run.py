"""`edgetool sweep run`: what it prints and how it ends, with jobs that a function stands for."""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgetool.cli.errors import Terminated
from edgetool.errors import ClusterError
from edgetool.report.document import QuantizationInfo
from edgetool.report.json import plain
from edgetool.sweep import run as library
from edgetool.sweep.executor import SweepProgress
from edgetool.sweep.jobs import Outcome, PreparedJob
from tests.cli.sweeps import cost, quality, sweep

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("tensorflow", "keras", "ai_edge_litert")),
    reason="needs the extra 'convert', whose versions are part of every key",
)

SWEEP = """
model = "model.keras"
precisions = ["float32", "int8"]
targets = ["cortex-m4", "rpi-pico"]
max_latency = "100ms"
"""


class Work:
    """Stands for edgetool.sweep.executor.run_job; fails what `fails` says, with that reason."""

    def __init__(self, fails: Callable[[PreparedJob], str | None] = lambda task: None) -> None:
        self.kinds: list[str] = []
        self.fails = fails

    def __call__(self, task: PreparedJob, **others: Any) -> Outcome:
        job = task.job
        self.kinds.append(job.kind)
        reason = self.fails(task)
        if reason is not None:
            return Outcome(reason=reason, seconds=1.0)
        if job.kind == "reference":
            return Outcome({"float_accuracy": 0.97}, {"reference.npz": b"x"}, seconds=1.0)
        if job.kind == "convert":
            scale = b"4" if job.request["quantize"] == "float32" else b"1"
            reported = {"quality": plain(quality()), "quantization": plain(QuantizationInfo("int8", True, 100))}
            return Outcome({**reported, "notes": [], "versions": {}}, {"model.tflite": scale}, seconds=1.0)
        data = task.contents["model"].data
        assert data is not None
        return Outcome({"cost": plain(cost(float(data)))}, seconds=1.0)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "sweep.toml").write_text(SWEEP)
    (tmp_path / "model.keras").write_bytes(b"a model")


def instead(monkeypatch: pytest.MonkeyPatch, work: Callable[..., Outcome]) -> None:
    """Do jobs by this function."""
    monkeypatch.setattr(library, "run_sweep", functools.partial(library.run_sweep, run=work))


def test_it_shows_table_and_summary_and_continues_an_interrupted_run(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work()
    instead(monkeypatch, work)
    done = sweep("run", "--jobs", "1")
    assert (done.code, done.err) == (0, "")
    assert "4 variants: 4 done, 2 accepted" in done.out
    assert "  SRAM, latency" in done.out
    assert "  7 jobs computed, 0 reused; " in done.out
    assert done.out.rstrip().endswith("saved in sweep.sqlite")
    assert sorted(work.kinds) == ["analyse"] * 4 + ["convert"] * 2 + ["reference"]

    Path("sweep.toml").write_text(SWEEP.replace('"rpi-pico"', '"rpi-pico", "cortex-m7"'))
    again = sweep("run", "--json")
    assert len(json.loads(again.out)["sweep"]["variants"]) == 6
    assert len(work.kinds) == 9
    assert "0 jobs computed, 9 reused" in sweep("run").out
    assert sweep("run", "-q").out == ""


def test_other_limits_compute_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work()
    instead(monkeypatch, work)
    sweep("run")
    Path("sweep.toml").write_text(SWEEP.replace("100ms", "10ms"))
    assert "4 variants: 4 done, 0 accepted" in sweep("run").out
    assert len(work.kinds) == 7


def test_a_failure_is_reported_and_does_not_affect_others(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(lambda task: "it refused" if task.job.request.get("quantize") == "int8" else None)
    instead(monkeypatch, work)
    done = sweep("run")
    assert done.code == 0
    assert "warning: variants 3-4 failed: converting: it refused" in done.out
    assert "1 failed (--retry-failed tries again)" in done.out
    work.fails = lambda task: None
    assert "1 failed" in sweep("run").out
    assert "4 variants: 4 done" in sweep("run", "--retry-failed").out


@pytest.mark.parametrize("form", [(), ("--json",), ("-q",)])
def test_it_exits_with_4_if_all_fail(monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]) -> None:
    instead(monkeypatch, Work(lambda task: "it is no model"))
    done = sweep("run", *form)
    assert done.code == 4
    assert "running the original float model: it is no model" in " ".join((done.out + done.err).split())
    if form:
        assert done.err.startswith("edgetool: error: sweep.toml: every variant failed; the first reason: running")


def test_it_exits_with_4_if_the_cluster_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(task: PreparedJob, **others: Any) -> Outcome:
        raise ClusterError("lost the connection to the scheduler", where="tcp://host:1")

    instead(monkeypatch, gone)
    done = sweep("run")
    assert (done.code, done.out) == (4, "")
    assert "tcp://host:1: lost the connection to the scheduler" in done.err


@pytest.mark.parametrize("signal", [KeyboardInterrupt, Terminated])
def test_an_interruption_says_that_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch, signal: type[BaseException]
) -> None:
    def stopped(task: PreparedJob, **others: Any) -> Outcome:
        if task.job.kind == "convert":
            raise signal
        return Work()(task)

    instead(monkeypatch, stopped)
    done = sweep("run")
    assert (done.code, done.out) == (130, "")
    assert "the results so far are saved in sweep.sqlite; the same command continues from there" in done.err
    work = Work()
    instead(monkeypatch, work)
    sweep("run")
    assert "reference" not in work.kinds


def test_progress_is_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr("edgetool.cli.output.ProgressLine.__call__", lambda self, text: shown.append(text))
    instead(monkeypatch, Work())
    assert "jobs," not in sweep("run").err
    assert shown[-1] == "7/7 jobs"
    assert all("/7 jobs" in text for text in shown)


def test_the_displayed_progress_is_that_of_the_library() -> None:
    spec = {"done", "total", "failed", "running", "seconds_left"}
    assert set(SweepProgress.__dataclass_fields__) == spec


def test_bad_files_are_one_line_and_leave_no_store(tmp_path: Path) -> None:
    Path("sweep.toml").write_text(SWEEP + 'speed = "fast"\n')
    done = sweep("run")
    assert (done.code, done.out) == (2, "")
    assert "sweep.toml: speed" in done.err
    Path("sweep.toml").write_text(SWEEP.replace('model = "model.keras"', 'builder = "model:build"'))
    Path("model.py").write_text("raise SystemExit('run')")
    done = sweep("run")
    assert done.code == 2
    assert "--trust-model-code" in done.err
    assert not (tmp_path / "sweep.sqlite").exists()
