"""A planted bad layer is named first, and what is advised helps on real TFLM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetool.convert.debug import _TensorStatistics
from edgetool.execute.quantize import dequantize, quantize
from edgetool.execute.run import run_model
from edgetool.model.reader import read_model
from edgetool.model.types import Operator
from edgetool.pipeline.quality import layer_losses, loss_findings
from edgetool.report.document import OutputQuality, QuantizationInfo
from tests.convert.left_by_child import leave, reported

BAD = ("channel", "depthwise", "joined")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the child left what it made."""
    return leave("tests.convert.debug_child", tmp_path_factory.mktemp("debug"))


def test_channels_with_tiny_ranges_do_not_cause_huge_ratios() -> None:
    """The other channels are what float32 leaves of a saturated function: their reach is no measure."""
    operator = Operator(0, "ADD", 1, (0, 1), (2,), None)
    seen = _TensorStatistics(operator, "bad", False, 1 / 127, 0)
    values = np.array([[1.0, 6.3e-20, 5.0e-38, -6.3e-20], [0.5, 0.0, 0.0, 0.0]])
    seen.add(values, np.round(values * 127).astype(np.int8))
    assert seen.widest_channel == (0, 2.0**23)
    seen = _TensorStatistics(operator, "bad", False, 1.0, 0)
    seen.add(np.array([[1.0, 64.0, 2.0, 1.0]]), np.array([[1, 64, 2, 1]], np.int8))
    assert seen.widest_channel == (1, 64.0 / 1.5)


def sqnr_db(expected: Any, actual: Any) -> float:
    return float(10 * np.log10(np.square(expected).sum() / np.square(expected - actual).sum()))


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD)
def test_the_bad_layer_comes_first(made: Path, name: str) -> None:
    found = reported(made, name)
    worst = found["layers"][0]
    assert worst["name"] == "bad"
    assert worst["layer_class"] == ("DepthwiseConv2D" if name == "depthwise" else "Conv2D")
    assert worst["sqnr_db"] < 10
    assert found["sqnr_db"] < 10
    assert worst["kept_float"][0] == "bad"
    assert worst["kept_float_sqnr_db"] > 30


@pytest.mark.slow
def test_a_sound_model_has_no_bad_layer(made: Path) -> None:
    found = reported(made, "sound")
    assert found["sqnr_db"] > 40
    assert {entry["name"] for entry in found["layers"]} == {"first", "pool", "out"}
    for entry in found["layers"]:
        assert entry["sqnr_db"] > 35
        assert 0.1 < entry["rmse_over_scale"] < 0.6
        assert sum(entry["histogram"]["counts"]) > 0
        histogram = entry["histogram"]
        assert histogram["low"] <= entry["minimum"] <= entry["maximum"] <= histogram["high"]


@pytest.mark.slow
def test_one_calibration_gives_what_the_converter_gives(made: Path) -> None:
    assert reported(made, "sound")["as_usual"] is True


@pytest.mark.slow
def test_errors_are_those_of_tensorflows_debugger(made: Path) -> None:
    """The mean squared error of each layer's worst operator is one that QuantizationDebugger reports.

    Its interpreter runs other kernels, which round some of the few values to the next step; operators differ more.
    """
    found = reported(made, "sound")
    for entry in found["layers"]:
        own = (entry["rmse_over_scale"] * entry["scale"]) ** 2
        assert min(abs(own - theirs) / theirs for theirs in found["debugger"]) < 0.2


@pytest.mark.slow
def test_a_missing_layer_is_reported(made: Path) -> None:
    text = reported(made, "sound")["unknown"]
    assert "'nonesuch'" in text
    assert "first, out, pool" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD)
def test_layers_left_in_float_run_on_tflm(made: Path, name: str) -> None:
    pytest.importorskip("tflite_micro")
    arrays = np.load(made / f"{name}.npz")
    outputs = {}
    for kind in (f"{name}.tflite", f"{name}.kept.tflite"):
        content = (made / kind).read_bytes()
        graph = read_model(content).main
        given, result = graph.tensors[graph.inputs[0]], graph.tensors[graph.outputs[0]]
        raw = [quantize(arrays["samples"][:, None], given.quantization, given.dtype)]
        (output,) = run_model(content, raw, engine="tflm")
        outputs[kind] = dequantize(output, result.quantization).reshape(arrays["expected"].shape)
        assert (given.dtype.name, result.dtype.name) == ("INT8", "INT8")
    labels = [operator.code for operator in read_model((made / f"{name}.kept.tflite").read_bytes()).main.operators]
    assert {"DEQUANTIZE", "QUANTIZE"} <= set(labels)
    assert sqnr_db(arrays["expected"], outputs[f"{name}.tflite"]) < 10
    assert sqnr_db(arrays["expected"], outputs[f"{name}.kept.tflite"]) > 30


@pytest.mark.parametrize(
    ("name", "cause"),
    [("channel", "channel 0 has"), ("depthwise", "channel 3 has"), ("joined", "before they are combined")],
)
@pytest.mark.slow
def test_the_advice_names_cause_and_remedy(made: Path, name: str, cause: str) -> None:
    found = reported(made, name)
    outputs = (OutputQuality("out", found["sqnr_db"], None, None),)
    info = QuantizationInfo("int8", True, 16, outputs, layers=layer_losses(found))
    poor, first, *_, few = loss_findings(info)
    assert (poor.rule, first.rule, first.where, few.rule) == (
        "poor-quantization",
        "layer-loses",
        "layer bad",
        "few-samples",
    )
    assert cause in first.message
    assert "--keep-float bad --keep-float" in first.message
    assert len(first.message) <= 400
