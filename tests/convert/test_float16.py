"""Weights in float16: half the size, the same answers in LiteRT, and refused by TFLM, as the analysis says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgetool.convert.request import ConvertRequest
from edgetool.errors import ModelError, UsageError
from edgetool.execute.run import run_model
from edgetool.model.reader import read_model
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.quality import measure_quality
from edgetool.pipeline.source import Source
from edgetool.target.load import load_target
from tests.convert.conftest import Convert


def test_a_float16_model_has_no_scales_and_float_inputs() -> None:
    assert ConvertRequest(Path("a.keras"), quantize="float16").io_type == "float32"
    for options in ({"io": "int8"}, {"dense_per_tensor": True}):
        with pytest.raises(UsageError, match="a float16 model"):
            ConvertRequest(Path("a.keras"), quantize="float16", **options)  # type: ignore[arg-type]


def test_float16_is_for_the_weights_and_keeps_the_answers(models: Path, convert: Convert, tmp_path: Path) -> None:
    made = convert(models / "small.keras", quantize="float16")
    model = read_model(made.tflite)
    constants = [tensor for tensor in model.main.tensors if tensor.data is not None and len(tensor.data) > 64]
    assert {tensor.dtype.name for tensor in constants} == {"FLOAT16"}
    assert {tensor.dtype.name for tensor in model.main.tensors if tensor.data is None} == {"FLOAT32"}
    assert {model.main.tensors[index].dtype.name for index in (*model.main.inputs, *model.main.outputs)} == {"FLOAT32"}
    quality, findings = measure_quality(made, model, scheme="float16", workdir=tmp_path)
    assert not findings
    assert all(output.sqnr_db is not None and output.sqnr_db > 50 for output in quality.outputs)


def test_tflm_refuses_float16_as_the_analysis_says(models: Path, convert: Convert, tmp_path: Path) -> None:
    made = convert(models / "small.keras", quantize="float16")
    for name in ("cortex-m0plus", "cortex-m7"):
        found = analyse(Source("f16", made.tflite, read_model(made.tflite)), load_target(name))
        errors = [finding for finding in found.findings if finding.level == "error"]
        assert [finding.rule for finding in errors] == ["operator-type-not-in-runtime"]
        assert "not float16" in errors[0].message
        assert found.plan.account is None or found.plan.account.is_lower_bound
    pytest.importorskip("tflite_micro")
    rows = [np.zeros((1, 1, 8, 8, 3), np.float32)]
    with pytest.raises(ModelError, match=r"cannot prepare"):
        run_model(made.tflite, rows, engine="tflm", workdir=tmp_path)
