"""Every kind of model file through the whole of `convert`, as a user runs it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.in_process import command_line


def convert(folder: Path, model: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    few = () if "--calibration" in arguments else ("--samples", "8")
    return command_line("convert", model, "-t", "cortex-m7", "-o", folder / "out", *few, *arguments, cwd=folder)


def report_of(folder: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(next((folder / "out").glob("*.json")).read_text())
    return report


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["small.keras", "legacy_convolutions.h5", "legacy_convolutions.keras", "plain", "exported"]
)
def test_every_format_becomes_firmware(models: Path, tmp_path: Path, name: str) -> None:
    if name.startswith("legacy") and importlib.util.find_spec("tf_keras") is None:
        pytest.skip("needs tf-keras to write a file of Keras 2")
    result = convert(tmp_path, models / name)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert len(list((tmp_path / "out").iterdir())) == 9
    assert report_of(tmp_path)["quantization"]["outputs"][0]["cosine"] > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("quantize", "io", "dtype"),
    [
        ("int8", None, "int8_t"),
        ("int8", "uint8", "uint8_t"),
        ("int8", "float32", "float"),
        ("int16x8", None, "int16_t"),
        ("float32", None, "float"),
    ],
)
def test_every_precision_and_io_type(models: Path, tmp_path: Path, quantize: str, io: str | None, dtype: str) -> None:
    io_arguments = ["--io", io] if io else []
    result = convert(tmp_path, models / "small.keras", "--quantize", quantize, *io_arguments)
    assert result.returncode == 0, result.stderr
    header = (tmp_path / "out" / "small.h").read_text()
    assert f"typedef {dtype} small_input_0_type;" in header
    assert f"typedef {dtype} small_output_0_type;" in header


def test_inputs_and_outputs_keep_their_names_in_whatever_order(models: Path, tmp_path: Path) -> None:
    result = convert(tmp_path, models / "permuted.keras")
    assert result.returncode == 0, result.stderr
    names = {output["name"] for output in report_of(tmp_path)["quantization"]["outputs"]}
    assert names == {"y_first", "a_second", "m_third"}
    header = (tmp_path / "out" / "permuted.h").read_text()
    for name in ("zeta", "alpha", "mid"):
        assert f"#define PERMUTED_INPUT_{name}_INDEX " in header
    for name in names:
        assert f"#define PERMUTED_OUTPUT_{name}_INDEX " in header


def test_accuracy_is_that_of_the_output_that_the_labels_are_for(models: Path, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    shapes = {"zeta": (4,), "alpha": (6,), "mid": (5, 3)}
    arrays = {name: generator.uniform(-1, 1, (20, *shape)).astype(np.float32) for name, shape in shapes.items()}
    # The second output has 7 classes, the first 2: label 6 is one of the second's alone.
    np.savez(tmp_path / "labelled.npz", **arrays, y_a_second=np.full(20, 6))
    result = convert(tmp_path, models / "permuted.keras", "--evaluate", "labelled.npz")
    assert result.returncode == 0, result.stderr
    accuracy = report_of(tmp_path)["quantization"]["accuracy"]
    assert 0 <= accuracy["float"] <= 1
    np.savez(tmp_path / "labelled.npz", **arrays, y=np.full(20, 6))
    refused = convert(tmp_path, models / "permuted.keras", "--evaluate", "labelled.npz", "--force")
    assert refused.returncode == 2
    assert "labelled.npz" in refused.stderr


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("lambda.keras", 3, "Lambda"),
        ("own_class.h5", 3, "layer"),
        ("small.weights.h5", 3, "only weights"),
        ("no_signature", 3, "signature"),
        ("dynamic.keras", 3, "series"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_rejected_by_name(
    models: Path, tmp_path: Path, name: str, code: int, words: str
) -> None:
    result = convert(tmp_path, models / name)
    assert (result.returncode, result.stdout) == (code, "")
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_trust_is_recorded(models: Path, tmp_path: Path) -> None:
    result = convert(tmp_path, models / "lambda.keras", "--trust-model-code")
    assert result.returncode == 0, result.stderr
    report = report_of(tmp_path)
    assert report["provenance"]["trust_model_code"] is True
    assert any("trust" in finding["message"] for finding in report["findings"])


@pytest.mark.parametrize(
    ("cut", "name"), [(100, "small.h5"), (5000, "small.h5"), (300, "small.keras"), (0, "small.h5")]
)
def test_truncated_files(models: Path, tmp_path: Path, cut: int, name: str) -> None:
    path = tmp_path / name
    path.write_bytes((models / name).read_bytes()[:cut])
    result = convert(tmp_path, path)
    assert (result.returncode, result.stdout) == (3, "")
    assert name in result.stderr.splitlines()[0]
    assert not (tmp_path / "out").exists()


def test_a_text_file_named_h5(tmp_path: Path) -> None:
    (tmp_path / "model.h5").write_text("not a model\n")
    result = convert(tmp_path, tmp_path / "model.h5")
    assert (result.returncode, "text file" in result.stderr) == (3, True)


@pytest.mark.parametrize("option", ["--samples", "--seed"])
def test_an_option_of_synthetic_samples_beside_real_ones_is_rejected(models: Path, tmp_path: Path, option: str) -> None:
    result = convert(tmp_path, models / "small.keras", "--calibration", "samples.npz", option, "8")
    assert result.returncode == 2
    assert f"{option} applies only to synthetic samples" in result.stderr
    assert not (tmp_path / "out").exists()
