"""Timing LiteRT: the figures of a list of times, real runs, and refusals."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool import child, errors
from edgetool.execute.benchmark import MAX_RUNS, benchmark_litert, summarize
from tests.execute import tiny_models
from tests.model.builders import conv_model_bytes


def test_the_figures_of_a_list_of_times() -> None:
    timed = summarize([5.0, 1.0, 4.0, 2.0, 3.0, 10.0, 9.0, 8.0, 7.0, 6.0])
    assert (timed.runs, timed.median_ms, timed.minimum_ms, timed.p90_ms) == (10, 5.5, 1.0, 9.0)
    alone = summarize([2.5])
    assert (alone.runs, alone.median_ms, alone.minimum_ms, alone.p90_ms) == (1, 2.5, 2.5, 2.5)


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=50))
def test_nine_of_ten_runs_stay_within_p90(times: list[float]) -> None:
    timed = summarize(times)
    assert timed.minimum_ms == min(times) <= timed.median_ms <= timed.p90_ms <= max(times)
    assert timed.p90_ms in times
    assert sum(ms <= timed.p90_ms for ms in times) >= 0.9 * len(times) > sum(ms < timed.p90_ms for ms in times)
    assert timed.median_ms == pytest.approx(np.median(times))


@pytest.mark.parametrize("runs", [0, -1, MAX_RUNS + 1])
def test_an_impossible_number_of_runs_is_rejected(runs: int) -> None:
    with pytest.raises(errors.UsageError, match="cannot time"):
        benchmark_litert(b"", [], runs)


def test_a_real_model_takes_time(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    steps: list[str] = []
    wide = np.ones((1, 2_000_000), np.float32)
    timed = benchmark_litert(tiny_models.wide(2_000_000), [wide], 5, workdir=tmp_path, progress=steps.append)
    assert timed.runs == 5
    assert 0.05 < timed.minimum_ms <= timed.median_ms <= timed.p90_ms < 60_000  # 16 MB are moved
    assert any("5 times" in step for step in steps)
    assert list(tmp_path.iterdir()) == []


def test_what_litert_does_not_run_is_refused() -> None:
    pytest.importorskip("ai_edge_litert")
    with pytest.raises(errors.UnsupportedModelError, match="LiteRT cannot run the model"):
        benchmark_litert(conv_model_bytes(), [np.zeros((1, 1), np.int8)], 1)


@pytest.mark.slow
def test_too_many_runs_for_the_time_limit() -> None:
    pytest.importorskip("ai_edge_litert")
    wide = np.ones((1, 2_000_000), np.float32)
    limits = child.ProcessLimits(seconds=3.0)
    with pytest.raises(errors.ConversionError, match="took more than 3 s") as caught:
        benchmark_litert(tiny_models.wide(2_000_000), [wide], MAX_RUNS, limits=limits)
    assert caught.value.fix == "use fewer runs"


def test_without_litert_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for package in ("ai_edge_litert", "tflite_runtime"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise ImportError('no LiteRT here')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    with pytest.raises(errors.MissingExtraError, match="ai_edge_litert") as caught:
        benchmark_litert(conv_model_bytes(), [], 1)
    assert "edgetool[verify]" in str(caught.value)
