"""Models of PyTorch and ONNX become int8 models that run in TFLM, close to the original."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from edgetool.convert.convert import convert_model
from edgetool.convert.exported_program import pickled_error
from edgetool.convert.request import Conversion, ConvertRequest
from edgetool.convert.samples import InputSpec, prepare_sample
from edgetool.errors import CalibrationError, UnsupportedModelError
from edgetool.model.reader import read_model
from edgetool.pipeline.quality import measure_quality

MODELS = Path(__file__).parent / "foreign"
SHAPES = {"images": (3, 16, 16), "sequences": (6, 8)}
CHANNELS_LAST = InputSpec("x", (16, 8, 3), "float32", axes=(1, 2, 0))


def test_samples_in_the_order_of_the_original_are_transposed() -> None:
    values = np.arange(3 * 16 * 8, dtype=np.float32).reshape(3, 16, 8)
    assert CHANNELS_LAST.original_shape == values.shape
    assert np.array_equal(prepare_sample(values, CHANNELS_LAST, None, ""), values.transpose(1, 2, 0))
    assert np.array_equal(prepare_sample(values[None], CHANNELS_LAST, None, ""), values.transpose(1, 2, 0))


def test_samples_in_the_order_of_the_device_stay_as_they_are() -> None:
    values = np.zeros((16, 8, 3), np.float32)
    assert np.array_equal(prepare_sample(values, CHANNELS_LAST, None, ""), values)
    with pytest.raises(CalibrationError, match=r"requires \(3, 16, 8\) or, with its channels last, \(16, 8, 3\)"):
        prepare_sample(values.transpose(1, 0, 2), CHANNELS_LAST, None, "")


def test_samples_of_a_cube_are_in_the_order_of_the_original() -> None:
    spec = InputSpec("x", (3, 3, 3), "float32", axes=(1, 2, 0))
    values = np.arange(27, dtype=np.float32).reshape(3, 3, 3)
    assert np.array_equal(prepare_sample(values, spec, None, ""), values.transpose(1, 2, 0))


def test_a_pickled_file_is_refused_with_the_lines_that_export_it(tmp_path: Path) -> None:
    error = pickled_error(tmp_path / "model.pth")
    assert isinstance(error, UnsupportedModelError)
    assert "torch.export.export(" in (error.fix or "")
    assert "torch.export.save(" in (error.fix or "")


def converted(name: str, workdir: Path, **options: object) -> Conversion:
    needed = "onnxruntime" if name.endswith(".onnx") else "litert_torch"
    if find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    samples = workdir / "samples.npy"
    shape = SHAPES[name.partition(".")[0]]
    np.save(samples, np.random.default_rng(1).normal(size=(24, *shape)).astype(np.float32))
    work = workdir / "work"
    work.mkdir()
    request = replace(ConvertRequest(MODELS / name, calibration=samples), **options)  # type: ignore[arg-type]
    return convert_model(request, workdir=work)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["images.pt2", "images.onnx", "sequences.pt2", "sequences.onnx"])
def test_a_model_is_close_to_the_original(name: str, tmp_path: Path) -> None:
    conversion = converted(name, tmp_path)
    model = read_model(conversion.tflite)
    graph = model.main
    assert {graph.tensors[index].dtype.name for index in (*graph.inputs, *graph.outputs)} == {"INT8"}
    assert "TRANSPOSE" not in {operator.code for operator in graph.operators} or name.startswith("sequences")
    quality, _ = measure_quality(conversion, model, scheme="int8", workdir=tmp_path)
    assert quality.outputs[0].sqnr_db is not None
    assert quality.outputs[0].sqnr_db > 30


@pytest.mark.slow
@pytest.mark.parametrize("name", ["images.pt2", "images.onnx"])
def test_the_layout_can_be_kept(name: str, tmp_path: Path) -> None:
    conversion = converted(name, tmp_path, keep_layout=True)
    graph = read_model(conversion.tflite).main
    assert graph.tensors[graph.inputs[0]].shape == (1, *SHAPES["images"])
    assert not any("channels last" in note for note in conversion.notes)


@pytest.mark.slow
def test_layers_keep_the_names_of_modules(tmp_path: Path) -> None:
    conversion = converted("images.pt2", tmp_path, debug_quantization=True)
    assert conversion.layers["stem.0"] == "Conv2d"
    assert conversion.debug is not None
    assert {entry["name"] for entry in conversion.debug["layers"]} >= {"stem.0", "pointwise", "classifier"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["images.pt2", "images.onnx"])
def test_a_model_in_float_computes_the_same(name: str, tmp_path: Path) -> None:
    conversion = converted(name, tmp_path, quantize="float32")
    assert not any("differs by" in note for note in conversion.notes)
