"""Estimates of files."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path

import pytest

from edgetool.model.types import DType, Model
from edgetool.model.writer import write_model
from edgetool.pipeline.estimate import estimate_file
from edgetool.pipeline.reporting import EstimateRequest
from edgetool.report.document import Report
from edgetool.target.load import load_target
from tests.memory.account_net import Net
from tests.model.builders import conv_model, conv_model_bytes
from tests.pipeline.order_models import tangle


def test_the_search_for_a_plan_ends_in_time_and_tells(tmp_path: Path) -> None:
    path = tmp_path / "tangle.tflite"
    path.write_bytes(write_model(tangle(60)))
    (report,) = estimate_file(path, [load_target("cortex-m7")], request=EstimateRequest(time_limit=1e-9))
    told = {finding.rule: finding.message for finding in report.findings}
    assert "--time-limit" in told["search-cut-short"]


@pytest.mark.parametrize(("target", "gives_up"), [("cortex-m55", True), ("cortex-m4", False)])
def test_a_kernel_that_leaves_its_output_unwritten_is_told(tmp_path: Path, target: str, gives_up: bool) -> None:
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
def test_another_clock_than_the_profiles_is_told(
    tflite: Path, target: str, asked: dict[str, float], level: str | None
) -> None:
    """Power and wait states belong to a clock; a core of its own has none of either."""
    found = {finding.rule: finding for finding in with_request(tflite, target, **asked).findings}
    assert (found["clock-given"].level if "clock-given" in found else None) == level
    assert "--power-mw" in found["clock-given"].message if level == "warning" else True


def test_where_no_time_is_estimated_the_measured_one_tells_the_limit(tflite: Path) -> None:
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
    for path, device, told in ((tflite, target, True), (tflite, reference, False), (floats, target, False)):
        (report,) = estimate_file(path, [device])
        assert report.estimate is not None
        assert bool(report.estimate.factors) == told


def test_a_run_that_takes_what_was_estimated_is_no_less(tflite: Path) -> None:
    estimate = with_request(tflite, "nucleo-l4r5zi").estimate
    assert estimate is not None
    assert estimate.latency_ms is not None
    again = with_request(tflite, "nucleo-l4r5zi", measured_ms=estimate.latency_ms.value * (1 - 1e-9)).estimate
    assert again is not None
    assert again.measured is not None
    assert again.measured.text.startswith("+0.0 % relative to the estimate, within its band")
