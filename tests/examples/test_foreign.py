"""The keyword spotters of PyTorch and ONNX become what examples/README.md says."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.in_process import command_line

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DATA = EXAMPLES / "keyword_spotting"
ACCURACY = 0.977


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "needed"),
    [("pytorch/keyword_spotting.pt2", "litert_torch"), ("onnx/keyword_spotting.onnx", "onnxruntime")],
)
def test_an_example_converts(model: str, needed: str, tmp_path: Path) -> None:
    if find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    data = ("--calibration", DATA / "calibration.npz", "--evaluate", DATA / "evaluation.npz")
    result = command_line("convert", EXAMPLES / model, "-t", "cortex-m7", "-o", tmp_path / "out", *data, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    report = json.loads((tmp_path / "out" / "keyword_spotting.json").read_text())
    assert report["quantization"]["accuracy"]["float"] == pytest.approx(ACCURACY, abs=5e-4)
    assert report["quantization"]["accuracy"]["quantized"] == pytest.approx(ACCURACY, abs=4e-3)
    assert report["model"]["operators"] == 10
