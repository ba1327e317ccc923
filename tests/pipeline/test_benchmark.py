"""The benchmark of a file, and which targets it says something of."""

from __future__ import annotations

import csv
import io
import platform
from pathlib import Path

import pytest

from edgetool.execute.benchmark import Benchmark
from edgetool.pipeline.estimate import (
    SUMMARY_NAME,
    benchmark,
    benchmark_source,
    estimate_file,
    estimate_tables,
    is_this_machine,
)
from edgetool.pipeline.reporting import EstimateRequest
from edgetool.pipeline.source import open_tflite
from edgetool.target.load import load_target
from tests.model.builders import conv_model_bytes


@pytest.fixture
def tflite(tmp_path: Path) -> Path:
    path = tmp_path / "m.tflite"
    path.write_bytes(conv_model_bytes())
    return path


def test_a_file_is_timed_on_random_input(tflite: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    steps: list[str] = []
    timed = benchmark(open_tflite(tflite), 3, progress=steps.append)
    assert timed.runs == 3
    assert 0 < timed.least_ms <= timed.median_ms <= timed.p90_ms
    assert steps


@pytest.mark.parametrize(("machine", "same"), [("x86_64", True), ("AMD64", True), ("arm64", False), ("", False)])
def test_only_a_target_of_this_kind_stands_for(machine: str, same: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert is_this_machine(load_target("desktop")) is same
    assert is_this_machine(load_target("x86-64")) is False  # an estimate of it is one of TFLM's kernels
    assert is_this_machine(load_target("cortex-m7")) is False


def test_an_arm_board_that_runs_this_stands_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert is_this_machine(load_target("raspberry-pi-4")) is True
    assert is_this_machine(load_target("desktop")) is False


def test_where_the_time_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    reported = "LiteRT on this machine, 50 runs, one thread: minimum 1.23 ms, 90th percentile 2 ms"
    timed = Benchmark(50, 1.5, 1.23456, 2.0)
    assert benchmark_source(timed, load_target("cortex-m7")) == reported
    assert (
        benchmark_source(timed, load_target("desktop"))
        == f"{reported}; assuming that this machine is the Desktop computer"
    )
    assert "1 run," in benchmark_source(Benchmark(1, 1.0, 1.0, 1.0), load_target("cortex-m7"))


def test_a_benchmark_is_compared_as_bandwidth_alone(tflite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ai_edge_litert")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    targets = [load_target(name) for name in ("cortex-m7", "x86-64", "desktop")]
    made = [item.estimate for item in estimate_file(tflite, targets, request=EstimateRequest(benchmark_runs=5))]
    times = set()
    for estimate in made:
        assert estimate is not None
        run = estimate.measured
        assert run is not None
        times.add(run.latency_ms)
        assert run.source.startswith("LiteRT on this machine, 5 runs")
        assert (run.ratio, run.within_band) == (None, None)
        assert run.gmacs_per_s == pytest.approx(estimate.macs / run.latency_ms / 1e6)
        assert run.bandwidth_gbps == pytest.approx(estimate.bytes_moved / run.latency_ms / 1e6)
    assert len(times) == 1  # timed once
    texts = [estimate.measured.text for estimate in made if estimate is not None and estimate.measured is not None]
    assert ["cannot be compared with the estimate" in text for text in texts] == [True, True, False]


def test_a_run_elsewhere_is_not_compared_with_the_targets_memory(tflite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ai_edge_litert")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr("edgetool.pipeline.estimate.benchmark", lambda *_, **__: Benchmark(5, 1e-6, 1e-6, 1e-6))
    targets = [load_target("nucleo-l4r5zi"), load_target("desktop")]
    reports = estimate_file(tflite, targets, request=EstimateRequest(benchmark_runs=5))
    (board, desktop) = [report.estimate for report in reports]
    assert board is not None
    assert desktop is not None
    here, there = desktop.measured, board.measured
    assert here is not None
    assert there is not None
    assert here.bandwidth_utilization == pytest.approx(here.bandwidth_gbps / desktop.configured_bandwidth_gbps)
    assert here.verdict.verdict == "memory-bound"
    assert (there.bandwidth_utilization, there.verdict.verdict, there.verdict.advice) == (None, "unknown", ())
    assert "another machine" in there.verdict.text
    assert there.bandwidth_gbps == pytest.approx(here.bandwidth_gbps)
    rules = [{finding.rule for finding in report.findings} for report in reports]
    assert ["bandwidth-above-configured" in found for found in rules] == [False, True]
    (row,) = csv.DictReader(io.StringIO(estimate_tables(reports[0])[SUMMARY_NAME].decode()))
    assert row["bandwidth_utilization"] == ""
    assert float(row["achieved_bandwidth_gbps"]) == there.bandwidth_gbps
