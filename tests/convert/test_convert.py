"""Whole conversions in the child process, on models built by build_models.py and on real files.

What the parent adds to a child's answer, and what it looks at before it starts one.

The same numbers on any machine: what a float model says does not depend on how many cores there are.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetool import child
from edgetool.convert.convert import check_exists, convert_model, run_on_model
from edgetool.convert.quality import compare_outputs
from edgetool.convert.request import Conversion, ConvertRequest
from edgetool.errors import CalibrationError, UsageError
from tests.convert.conftest import Convert


def on_litert(conversion: Conversion) -> tuple[Any, ...]:
    """The outputs of a float .tflite for the conversion's own samples, in its own order of inputs and outputs."""
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(model_content=conversion.tflite)
    interpreter.allocate_tensors()
    rows = []
    for index in range(conversion.samples):
        for detail, values in zip(interpreter.get_input_details(), conversion.inputs, strict=True):
            interpreter.set_tensor(detail["index"], np.array(values[index : index + 1]))
        interpreter.invoke()
        rows.append([interpreter.get_tensor(detail["index"])[0] for detail in interpreter.get_output_details()])
    return tuple(np.stack(column) for column in zip(*rows, strict=True))


def tensors_of(conversion: Conversion) -> Any:
    """Input and output details as LiteRT reads them."""
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(model_content=conversion.tflite)
    return interpreter.get_input_details(), interpreter.get_output_details(), interpreter._get_ops_details()


def assert_same(conversion: Conversion, tolerance: float = 1e-5) -> None:
    outputs = on_litert(conversion)
    assert [array.shape for array in outputs] == [array.shape for array in conversion.float_outputs]
    for found, expected in zip(outputs, conversion.float_outputs, strict=True):
        assert np.abs(found - expected).max() <= tolerance * max(1.0, float(np.abs(expected).max()))


# ---- what is read, and in which order it comes out


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "small.keras",
        "small.h5",
        "exported",
        "plain",
        "permuted.keras",
        "twins.keras",
        "dictionary.keras",
        "tokens.keras",
        "operators.keras",
        "fixed_batch.keras",
        "half.keras",
        "looped.keras",
        "looping",
    ],
)
def test_the_float_tflite_computes_what_the_model_does(models: Path, convert: Convert, name: str) -> None:
    conversion = convert(models / name, quantize="float32")
    assert_same(conversion)
    assert conversion.samples == 8
    assert not conversion.calibrated
    assert set(conversion.versions) == {"python", "tensorflow", "keras"}
    for details in tensors_of(conversion)[:2]:
        assert {int(detail["shape"][0]) for detail in details} == {1}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["small.keras", "plain", "fixed_batch.keras"])
def test_no_operator_remains_that_only_computes_the_batch_size(models: Path, convert: Convert, name: str) -> None:
    operators = {operator["op_name"] for operator in tensors_of(convert(models / name))[2]}
    assert operators
    assert not operators & {"SHAPE", "STRIDED_SLICE", "PACK"}


def test_notes_describe_the_changes(models: Path, convert: Convert) -> None:
    assert convert(models / "fixed_batch.keras").notes == ("the batch size was changed from 16 to 1",)
    assert "mixed_float16" in convert(models / "half.keras").notes[0]


@pytest.mark.slow
@pytest.mark.parametrize("stem", ["legacy_convolutions", "legacy_recurrences"])
@pytest.mark.parametrize("suffix", ["h5", "keras"])
def test_files_of_keras_2_compute_what_keras_2_did(models: Path, convert: Convert, stem: str, suffix: str) -> None:
    path = models / f"{stem}.{suffix}"
    if not path.exists():
        pytest.skip("needs tf_keras to write the file")
    expected = np.load(models / f"{stem}.npz")
    before = path.read_bytes()
    np.save(models / f"{stem}-x.npy", expected["x"])
    conversion = convert(path, quantize="float32", calibration=models / f"{stem}-x.npy")
    assert np.abs(conversion.float_outputs[0] - expected["y"]).max() <= 1e-6
    assert_same(conversion)
    assert any("Keras 2" in note for note in conversion.notes)
    assert path.read_bytes() == before


# ---- quantization


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "dtype"),
    [
        ({}, np.int8),
        ({"io": "uint8"}, np.uint8),
        ({"io": "float32"}, np.float32),
        ({"quantize": "int16x8"}, np.int16),
        ({"quantize": "int16x8", "io": "float32"}, np.float32),
    ],
)
def test_inputs_and_outputs_have_the_requested_type(
    models: Path, convert: Convert, options: dict[str, Any], dtype: Any
) -> None:
    conversion = convert(models / "small.keras", **options)
    inputs, outputs, _ = tensors_of(conversion)
    assert [detail["dtype"] for detail in (*inputs, *outputs)] == [dtype, dtype]
    assert any("per tensor" in note for note in conversion.notes) == ("quantize" in options)


def test_integer_inputs_keep_their_type(models: Path, convert: Convert) -> None:
    inputs, outputs, _ = tensors_of(convert(models / "tokens.keras"))
    assert (inputs[0]["dtype"], outputs[0]["dtype"]) == (np.int32, np.int8)


def scales_of_the_dense_layer(conversion: Conversion) -> int:
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(model_content=conversion.tflite)
    (dense,) = (op for op in interpreter._get_ops_details() if op["op_name"] == "FULLY_CONNECTED")
    details = {detail["index"]: detail for detail in interpreter.get_tensor_details()}
    return len(details[dense["inputs"][1]]["quantization_parameters"]["scales"])


def test_dense_weights_have_one_scale_on_request(models: Path, convert: Convert) -> None:
    assert scales_of_the_dense_layer(convert(models / "small.keras")) == 5
    assert scales_of_the_dense_layer(convert(models / "small.keras", dense_per_tensor=True)) == 1
    assert scales_of_the_dense_layer(convert(models / "small.keras", quantize="int16x8")) == 1


def test_real_calibration_data_decides_the_ranges(models: Path, convert: Convert, tmp_path: Path) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)
    np.save(tmp_path / "pictures.npy", pictures)
    conversion = convert(models / "small.keras", calibration=tmp_path / "pictures.npy", mean=(127.5,), std=(127.5,))
    assert (conversion.calibrated, conversion.samples) == (True, 12)
    assert conversion.inputs[0] == pytest.approx((pictures - 127.5) / 127.5, abs=1e-6)
    (detail,), _, _ = tensors_of(conversion)
    scale = detail["quantization"][0]
    assert scale == pytest.approx(2 / 255, rel=0.02)


@pytest.mark.parametrize(("name", "low", "high"), [("nested_pixels.keras", 200, 255), ("float_tokens.keras", 7, 10)])
def test_synthetic_samples_have_the_range_of_the_first_layer(
    models: Path, convert: Convert, name: str, low: int, high: int
) -> None:
    (values,) = convert(models / name).inputs
    assert values.min() >= 0
    assert low < values.max() <= high


@pytest.mark.slow
def test_same_input_same_bytes_in_any_process_and_place(
    models: Path, convert: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, whose hashes are others, and in a child."""
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    assert convert(models / "permuted.keras", fresh=True).tflite == convert(models / "permuted.keras").tflite


def test_another_seed_is_another_calibration(models: Path, convert: Convert) -> None:
    assert convert(models / "small.keras").tflite != convert(models / "small.keras", seed=1).tflite


def test_evaluation_data_is_run_through_the_float_model(models: Path, convert: Convert, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(70, 8, 8, 3)).astype(np.float32)
    y = np.arange(70) % 5
    np.savez(tmp_path / "test.npz", x=x, y=y)
    conversion = convert(models / "small.keras", quantize="float32", evaluate=tmp_path / "test.npz", offset=(1.0,))
    assert conversion.evaluation is not None
    assert conversion.evaluation.labels.tolist() == y.tolist()
    assert conversion.evaluation.inputs[0] == pytest.approx(x + 1, abs=1e-6)
    assert conversion.evaluation.float_outputs[0].shape == (70, 5)
    assert conversion.evaluation.float_outputs[0].sum(axis=1) == pytest.approx(np.ones(70), abs=1e-5)
    assert conversion.inputs[0].min() >= -1  # the synthetic set is not normalised


SHAPES = {"zeta": (4,), "alpha": (6,), "mid": (5, 3), "y_first": (2,), "a_second": (7,), "m_third": (3,)}


def test_names_are_the_models_own_in_the_order_of_the_tflite(models: Path, convert: Convert) -> None:
    conversion = convert(models / "permuted.keras")
    assert sorted(conversion.input_names) == ["alpha", "mid", "zeta"]
    assert sorted(conversion.output_names) == ["a_second", "m_third", "y_first"]
    assert [array.shape[1:] for array in conversion.inputs] == [SHAPES[name] for name in conversion.input_names]
    assert [array.shape[1:] for array in conversion.float_outputs] == [SHAPES[name] for name in conversion.output_names]
    inputs, outputs, _ = tensors_of(conversion)
    assert [tuple(detail["shape"][1:]) for detail in inputs] == [SHAPES[name] for name in conversion.input_names]
    assert [tuple(detail["shape"][1:]) for detail in outputs] == [SHAPES[name] for name in conversion.output_names]


def test_another_order_than_the_models_is_reported(models: Path, convert: Convert) -> None:
    conversion = convert(models / "permuted.keras")
    assert conversion.notes == (
        f"the .tflite has its inputs in the order {', '.join(conversion.input_names)}",
        f"the .tflite has its outputs in the order {', '.join(conversion.output_names)}",
    )
    assert convert(models / "small.keras").notes == ()


def test_the_keys_of_a_dictionary_are_the_names(models: Path, convert: Convert) -> None:
    conversion = convert(models / "dictionary.keras")
    shapes = {"left": (4,), "again": (3,), "sum": (2,), "all": (3,)}
    assert [array.shape[1:] for array in conversion.inputs] == [shapes[name] for name in conversion.input_names]
    assert [array.shape[1:] for array in conversion.float_outputs] == [shapes[name] for name in conversion.output_names]


@pytest.mark.parametrize(("labels", "output"), [("y", "y_first"), ("y_m_third", "m_third")])
def test_labels_are_for_the_models_first_output_or_the_named_one(
    models: Path, convert: Convert, tmp_path: Path, labels: str, output: str
) -> None:
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {name: rng.normal(size=(5, *SHAPES[name])) for name in ("zeta", "alpha", "mid")}
    arrays[labels] = np.arange(5) % 2
    np.savez(tmp_path / "test.npz", **arrays)
    conversion = convert(models / "permuted.keras", evaluate=tmp_path / "test.npz")
    assert conversion.evaluation is not None
    assert conversion.output_names[conversion.evaluation.output] == output
    assert conversion.evaluation.float_outputs[conversion.evaluation.output].shape == (5, *SHAPES[output])


@pytest.mark.slow
def test_without_comparison_the_float_model_is_not_run(models: Path, convert: Convert) -> None:
    steps: list[str] = []
    conversion = convert(models / "small.keras", compare=False, progress=steps.append)
    assert conversion.float_outputs == ()
    assert not any("float model" in step for step in steps)


@pytest.mark.slow
def test_progress_reports_every_step_and_nothing_is_printed(
    models: Path, convert: Convert, capfd: pytest.CaptureFixture[str]
) -> None:
    steps: list[str] = []
    convert(models / "small.keras", progress=steps.append, fresh=True)
    assert steps == [
        "reading the model",
        "loading TensorFlow",
        "loading the model",
        "reading the samples",
        "exporting the model",
        "converting",
        *(f"calibrating {number}/8" for number in range(1, 9)),
        "quantizing",
        "running the float model 1/8",
    ]
    assert capfd.readouterr() == ("", "")


# ---- real files


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ad01", "pretrainedResnet", "vww_96"])
def test_real_models_convert_close_to_their_float_originals(shared: Path, convert: Convert, name: str) -> None:
    pytest.importorskip("tensorflow")
    path = shared / "data/models/mlperf" / f"{name}.h5"
    conversion = convert(path, samples=20)
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(model_content=conversion.tflite)
    interpreter.allocate_tensors()
    (source,), (target,) = interpreter.get_input_details(), interpreter.get_output_details()
    assert (source["dtype"], target["dtype"]) == (np.int8, np.int8)
    scale, zero = source["quantization"]
    found = []
    for values in conversion.inputs[0]:
        quantized = np.clip(np.round(values / scale) + zero, -128, 127).astype(np.int8)
        interpreter.set_tensor(source["index"], quantized[np.newaxis])
        interpreter.invoke()
        raw = interpreter.get_tensor(target["index"])[0].astype(np.float64)
        found.append((raw - target["quantization"][1]) * target["quantization"][0])
    (quality,) = compare_outputs(conversion.float_outputs, [np.stack(found)])
    assert quality.cosine is not None
    assert quality.cosine > 0.98


@pytest.mark.slow
def test_the_legacy_rewrite_does_not_change_vww_96(shared: Path, convert: Convert, tmp_path: Path) -> None:
    pytest.importorskip("tf_keras")
    path = shared / "data/models/mlperf/vww_96.h5"
    conversion = convert(path, quantize="float32", samples=40)
    np.save(tmp_path / "x.npy", conversion.inputs[0])
    script = (
        "import sys, numpy, tf_keras; model = tf_keras.models.load_model(sys.argv[1], compile=False); "
        "numpy.save(sys.argv[3], model.predict(numpy.load(sys.argv[2]), verbose=0))"
    )
    subprocess.run(
        [sys.executable, "-c", script, str(path), str(tmp_path / "x.npy"), str(tmp_path / "y.npy")],
        check=True,
        capture_output=True,
    )
    expected = np.load(tmp_path / "y.npy")
    assert np.ptp(expected) > 1e-3  # or equality would say nothing
    assert np.abs(conversion.float_outputs[0] - expected).max() <= 1e-6
    assert "groups" in conversion.notes[0]
    assert "DepthwiseConv2D" in conversion.notes[0]


@pytest.mark.slow
def test_trusted_code_runs_and_is_recorded(models: Path, convert: Convert) -> None:
    conversion = convert(models / "lambda.keras", quantize="float32", trust_model_code=True)
    assert_same(conversion)
    (note,) = conversion.notes
    assert "'doubler' (Lambda) was loaded with --trust-model-code" in note
    unneeded = convert(models / "exported", quantize="float32", trust_model_code=True)
    assert unneeded.notes == ("the model was loaded with --trust-model-code",)


def notes_of(answer: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(child, "run", lambda *_, **__: answer)
    result = run_on_model(
        "none", {}, tmp_path, workdir=tmp_path, limits=child.ProcessLimits(), doing="", advice="", progress=None
    )
    notes: list[str] = result["notes"]
    return notes


def test_access_that_the_system_cannot_block_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert notes_of({"notes": ["a"]}, tmp_path, monkeypatch) == ["a"]
    missing = ["the network", "files outside its folder"]
    (first, reported) = notes_of({"notes": ["a"], child.UNCONFINED: missing}, tmp_path, monkeypatch)
    assert first == "a"
    assert "with access to the network and files outside its folder" in reported


@pytest.mark.parametrize("trusted", [False, True])
def test_only_trusted_code_is_not_confined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool) -> None:
    given: dict[str, Any] = {}

    def run(*_: Any, **options: Any) -> dict[str, Any]:
        given.update(options)
        return {"notes": []}

    monkeypatch.setattr(child, "run", run)
    run_on_model(
        "none",
        {"trust_model_code": trusted},
        tmp_path,
        workdir=tmp_path,
        limits=child.ProcessLimits(),
        doing="",
        advice="",
        progress=None,
    )
    assert given["trusted"] is trusted


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_and_devices_are_reported_before_a_child_waits_for_them(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(CalibrationError, match="neither a file nor a directory"):
            check_exists(path, CalibrationError, "")
    with pytest.raises(UsageError, match="no such file"):
        check_exists(tmp_path / "none", UsageError, "")
    check_exists(tmp_path, UsageError, "")


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs two cores to choose from"
)
def test_float_outputs_are_the_same_on_one_core_and_on_two(tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((64, 64, 2)), keras.layers.Flatten(), keras.layers.Dense(32)])
    model.save(tmp_path / "wide.keras")
    every = os.sched_getaffinity(0)
    said = []
    try:
        for cores in (set(sorted(every)[:1]), set(sorted(every)[:2])):
            os.sched_setaffinity(0, cores)
            folder = tmp_path / f"on {len(cores)}"
            folder.mkdir()
            request = ConvertRequest(tmp_path / "wide.keras", quantize="float32", samples=40)
            said.append(convert_model(request, workdir=folder).float_outputs[0].tobytes())
    finally:
        os.sched_setaffinity(0, every)
    assert said[0] == said[1]
