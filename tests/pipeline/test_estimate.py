"""Estimates of files.

The CSV files of an estimate.

The benchmark of a file, and which targets it says something of.
"""

from __future__ import annotations

import csv
import io
import platform
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest

from edgetool.errors import InternalError, OutputError
from edgetool.execute.benchmark import Benchmark
from edgetool.model.types import DType, Model
from edgetool.model.writer import write_model
from edgetool.pipeline.estimate import (
    NAMES,
    SUMMARY_NAME,
    benchmark,
    benchmark_source,
    estimate_file,
    estimate_tables,
    is_this_machine,
    write_tables,
)
from edgetool.pipeline.estimate_report import EstimateRequest
from edgetool.pipeline.source import open_tflite
from edgetool.report.document import Report
from edgetool.target.load import load_target
from tests.cli.estimates import MEASURED, estimate, operator, report
from tests.memory.account_net import Net
from tests.model.builders import conv_model, conv_model_bytes
from tests.pipeline.order_models import tangle


def test_the_search_for_a_plan_ends_in_time_and_reports_it(tmp_path: Path) -> None:
    path = tmp_path / "tangle.tflite"
    path.write_bytes(write_model(tangle(60)))
    (report,) = estimate_file(path, [load_target("cortex-m7")], request=EstimateRequest(time_limit=1e-9))
    reported = {finding.rule: finding.message for finding in report.findings}
    assert "--time-limit" in reported["search-cut-short"]


@pytest.mark.parametrize(("target", "gives_up"), [("cortex-m55", True), ("cortex-m4", False)])
def test_a_kernel_that_leaves_its_output_unwritten_is_reported(tmp_path: Path, target: str, gives_up: bool) -> None:
    """Real TFLM for the Cortex-M55 gives what lay in the arena for this row of three windows that overlap the end."""
    net = Net(1)
    x = net.arena(1, 1, 15, 12)
    weights = net.filter(8, 1, 7, 12, like=x)
    y = net.op("CONV_2D", [x, weights, net.biases(8, like=x)], 1, 1, 3, 8, padding="VALID", stride_h=1, stride_w=3)
    path = tmp_path / "row.tflite"
    path.write_bytes(write_model(net.model([x], [y])))
    (report,) = estimate_file(path, [load_target(target)])
    found = {finding.rule: finding.level for finding in report.findings}
    assert (found.get("kernel-gives-up") == "error") == gives_up


@pytest.fixture(scope="module")
def tflite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "small.tflite"
    path.write_bytes(conv_model_bytes())
    return path


def with_request(tflite: Path, target: str, **asked: float) -> Report:
    (report,) = estimate_file(tflite, [load_target(target)], request=EstimateRequest(**asked))  # type: ignore[arg-type]
    return report


@pytest.mark.parametrize(
    ("target", "asked", "level"),
    [
        ("nucleo-l4r5zi", {}, None),
        ("nucleo-l4r5zi", {"clock_scale": 0.5}, "warning"),
        ("nucleo-l4r5zi", {"clock_scale": 0.5, "power_mw": 20.0}, "note"),
        ("rpi-pico", {"clock_scale": 2.0}, "note"),
        ("cortex-m7", {"clock_scale": 0.5}, None),
    ],
)
def test_another_clock_than_the_profiles_is_reported(
    tflite: Path, target: str, asked: dict[str, float], level: str | None
) -> None:
    """Power and wait states belong to a clock; a core of its own has none of either."""
    found = {finding.rule: finding for finding in with_request(tflite, target, **asked).findings}
    assert (found["clock-given"].level if "clock-given" in found else None) == level
    assert "--power-mw" in found["clock-given"].message if level == "warning" else True


def test_without_an_estimate_the_measured_time_determines_the_limit(tflite: Path) -> None:
    without = with_request(tflite, "raspberry-pi-4").estimate
    measured = with_request(tflite, "raspberry-pi-4", measured_ms=5.0).estimate
    assert without is not None
    assert measured is not None
    assert measured.measured is not None
    assert without.verdict.verdict == "unknown"
    assert measured.verdict == measured.measured.verdict
    assert not any("--measured-ms" in text for text in measured.verdict.advice)


def as_float(model: Model) -> Model:
    """The model with 32-bit zeros in place of its integers."""
    (graph,) = model.subgraphs
    tensors = tuple(
        replace(item, dtype=DType.FLOAT32, quantization=None, data=item.data and bytes(4 * prod(item.shape)))
        for item in graph.tensors
    )
    data = {item.buffer: item.data for item in tensors if item.data is not None}
    payloads = tuple(data.get(number, old) for number, old in enumerate(model.data))
    return replace(model, subgraphs=(replace(graph, tensors=tensors),), data=payloads)


def test_factors_of_other_runtimes_hold_for_the_kernels_and_types_that_they_were_found_with(
    tflite: Path, tmp_path: Path
) -> None:
    floats = tmp_path / "float.tflite"
    floats.write_bytes(write_model(as_float(conv_model())))
    target = load_target("nucleo-l4r5zi")
    reference = target.with_overrides(kernels="reference")
    for path, device, reported in ((tflite, target, True), (tflite, reference, False), (floats, target, False)):
        (report,) = estimate_file(path, [device])
        assert report.estimate is not None
        assert bool(report.estimate.factors) == reported


def test_a_run_as_fast_as_estimated_is_within_the_band(tflite: Path) -> None:
    estimate = with_request(tflite, "nucleo-l4r5zi").estimate
    assert estimate is not None
    assert estimate.latency_ms is not None
    again = with_request(tflite, "nucleo-l4r5zi", measured_ms=estimate.latency_ms.value * (1 - 1e-9)).estimate
    assert again is not None
    assert again.measured is not None
    assert again.measured.text.startswith("+0.0 % relative to the estimate, within its band")


def rows_of(report: Report, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(estimate_tables(report)[name].decode())))


def test_the_profile_has_a_row_per_operator_in_order() -> None:
    rows = rows_of(report(), "operator_profile.csv")
    assert list(rows[0]) == ["operator", "latency_ms", "memory_kb", "macs", "parameter_bytes", "activation_bytes"]
    assert len(rows) == 31
    assert rows[15] == {
        "operator": "CONV_2D",
        "latency_ms": "20",
        "memory_kb": "35.0",
        "macs": "1500000",
        "parameter_bytes": "15000",
        "activation_bytes": "20000",
    }


def test_totals_and_summary() -> None:
    (totals,) = rows_of(report(), "hardware_totals.csv")
    assert int(totals["estimated_total_macs"]) == 100_000 * sum(range(31))
    assert int(totals["estimated_total_bytes"]) == 31 * 20_000 + 1000 * sum(range(31))
    (summary,) = rows_of(report(), "hardware_summary.csv")
    assert {key: float(value) for key, value in summary.items()} == {
        "estimated_total_bytes": 1_430_136,
        "estimated_total_macs": 7_489_664,
        "achieved_bandwidth_gbps": 0.004767,
        "configured_memory_bandwidth_gbps": 0.48,
        "bandwidth_utilization": 0.00993,
        "achieved_gmacs": 0.02497,
    }


def test_a_measured_run_takes_the_place_of_the_estimate_in_the_summary() -> None:
    (summary,) = rows_of(report(estimate(measured=MEASURED)), "hardware_summary.csv")
    assert float(summary["achieved_bandwidth_gbps"]) == MEASURED.bandwidth_gbps
    assert float(summary["bandwidth_utilization"]) == MEASURED.bandwidth_utilization
    assert float(summary["achieved_gmacs"]) == MEASURED.gmacs_per_s


def test_names_with_commas_and_lines_stay_one_cell() -> None:
    odd = 'my "op",\nand more'
    (row,) = rows_of(report(estimate(operators=(operator(0, 1.0, operator=odd),))), "operator_profile.csv")
    assert row["operator"] == odd


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\n=1"])
def test_a_name_that_a_spreadsheet_would_calculate_is_text(name: str) -> None:
    (row,) = rows_of(report(estimate(operators=(operator(0, 1.0, operator=name),))), "operator_profile.csv")
    assert row["operator"] == "'" + name


def test_a_carriage_return_does_not_end_the_row() -> None:
    (row,) = rows_of(report(estimate(operators=(operator(0, 1.0, operator="a\r=1"),))), "operator_profile.csv")
    assert row["operator"] == "a\\r=1"


def test_one_target_is_written_into_the_folder_and_several_into_folders(tmp_path: Path) -> None:
    written = write_tables([report()], tmp_path / "one")
    assert written == tuple(tmp_path / "one" / name for name in NAMES)
    reports = [report(), report(name="mine"), report(), report(name="nucleo-l4r5zi-2")]
    write_tables(reports, tmp_path / "several")
    folders = sorted(path.name for path in (tmp_path / "several").iterdir())
    assert folders == ["mine", "nucleo-l4r5zi", "nucleo-l4r5zi-2", "nucleo-l4r5zi-2-2"]
    for folder in folders:
        assert sorted(path.name for path in (tmp_path / "several" / folder).iterdir()) == sorted(NAMES)


def test_nothing_is_written_where_one_file_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / NAMES[2]).write_text("precious")
    with pytest.raises(OutputError, match="--force to replace it, or choose another --csv"):
        write_tables([report(), report(name="mine")], tmp_path)
    assert [path.name for path in tmp_path.rglob("*.csv")] == [NAMES[2]]
    write_tables([report(), report(name="mine")], tmp_path, force=True)
    assert len(list(tmp_path.rglob("*.csv"))) == 6
    assert (tmp_path / "mine" / NAMES[2]).read_text() != "precious"


def test_a_report_without_an_estimate_has_no_tables() -> None:
    with pytest.raises(InternalError, match="no tables"):
        estimate_tables(replace(report(), estimate=None))


@pytest.fixture
def timed_tflite(tmp_path: Path) -> Path:
    path = tmp_path / "m.tflite"
    path.write_bytes(conv_model_bytes())
    return path


def test_a_file_is_timed_on_random_input(timed_tflite: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    steps: list[str] = []
    timed = benchmark(open_tflite(timed_tflite), 3, progress=steps.append)
    assert timed.runs == 3
    assert 0 < timed.minimum_ms <= timed.median_ms <= timed.p90_ms
    assert steps


@pytest.mark.parametrize(("machine", "same"), [("x86_64", True), ("AMD64", True), ("arm64", False), ("", False)])
def test_only_a_target_of_the_same_kind_counts_as_this_machine(
    machine: str, same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert is_this_machine(load_target("desktop")) is same
    assert is_this_machine(load_target("x86-64")) is False  # an estimate of it is one of TFLM's kernels
    assert is_this_machine(load_target("cortex-m7")) is False


def test_an_arm_board_that_runs_the_benchmark_counts_as_itself(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_benchmark_is_compared_as_bandwidth_alone(timed_tflite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ai_edge_litert")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    targets = [load_target(name) for name in ("cortex-m7", "x86-64", "desktop")]
    made = [item.estimate for item in estimate_file(timed_tflite, targets, request=EstimateRequest(benchmark_runs=5))]
    times = set()
    for one in made:
        assert one is not None
        run = one.measured
        assert run is not None
        times.add(run.latency_ms)
        assert run.source.startswith("LiteRT on this machine, 5 runs")
        assert (run.ratio, run.within_band) == (None, None)
        assert run.gmacs_per_s == pytest.approx(one.macs / run.latency_ms / 1e6)
        assert run.bandwidth_gbps == pytest.approx(one.bytes_moved / run.latency_ms / 1e6)
    assert len(times) == 1  # timed once
    texts = [estimate.measured.text for estimate in made if estimate is not None and estimate.measured is not None]
    assert ["cannot be compared with the estimate" in text for text in texts] == [True, True, False]


def test_a_run_elsewhere_is_not_compared_with_the_targets_memory(
    timed_tflite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ai_edge_litert")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr("edgetool.pipeline.estimate.benchmark", lambda *_, **__: Benchmark(5, 1e-6, 1e-6, 1e-6))
    targets = [load_target("nucleo-l4r5zi"), load_target("desktop")]
    reports = estimate_file(timed_tflite, targets, request=EstimateRequest(benchmark_runs=5))
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
