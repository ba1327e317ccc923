"""What TensorFlow's quantizer refuses over scales becomes int8 all the same, and runs on real TFLM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetool.convert.calibrated import quantize_around
from edgetool.execute.quantize import dequantize, quantize
from edgetool.execute.run import run_model
from edgetool.model.reader import read_model
from tests.convert.left_by_child import leave, told


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the child left what it made."""
    return leave("tests.convert.same_scale_child", tmp_path_factory.mktemp("same_scale"))


@pytest.mark.parametrize("engine", ["litert-reference", "tflm"])
def test_a_refused_model_runs_in_int8(made: Path, engine: str) -> None:
    pytest.importorskip("tflite_micro")
    found = told(made, "clash")
    assert found["refused"]
    assert found["joined"]
    assert {label for label, _ in found["joined"]} <= {"CONCATENATION", "MAXIMUM", "MINIMUM"}
    content = (made / "clash.tflite").read_bytes()
    model = read_model(content)
    graph = model.main
    codes = [operator.code for operator in graph.operators]
    assert codes.count("CONCATENATION") == codes.count("MAXIMUM") == codes.count("MINIMUM") == 1
    assert "CUSTOM" not in codes
    assert "DEQUANTIZE" not in codes
    given = graph.tensors[graph.inputs[0]]
    samples = np.asarray(found["samples"], np.float32)
    outputs = run_model(content, [quantize(samples[:, None], given.quantization, given.dtype)], engine=engine)
    expected = [np.asarray(values) for values in found["expected"]]
    for index, output in zip(graph.outputs, outputs, strict=True):
        actual = dequantize(output, graph.tensors[index].quantization).reshape(len(samples), -1)
        best = max(sqnr_db(values, actual) for values in expected if values[0].size == actual.shape[1])
        assert best > 30


def sqnr_db(expected: Any, actual: Any) -> float:
    reference = expected.reshape(actual.shape)
    return float(10 * np.log10(np.square(reference).sum() / np.square(reference - actual).sum()))


def test_what_is_not_refused_stays_as_it_is(made: Path) -> None:
    found = told(made, "plain")
    assert not found["refused"]
    assert found["joined"] == []
    codes = [operator.code for operator in read_model((made / "plain.tflite").read_bytes()).main.operators]
    assert codes == ["CONV_2D", "CONV_2D", "CONCATENATION"]


def test_a_refusal_that_has_other_reasons_is_told(made: Path) -> None:
    content = (made / "plain.tflite").read_bytes()
    tries = []

    def refuse(model: bytes) -> bytes:
        tries.append(model)
        raise RuntimeError(f"refusal {len(tries)}")

    with pytest.raises(RuntimeError, match="refusal 1"):
        quantize_around(refuse, content)
    assert len(tries) == 2
    hidden = [operator.label for operator in read_model(tries[1]).main.operators]
    assert hidden == ["CONV_2D", "CONV_2D", "edgetool.hidden.2"]
