"""A .tflite in float32 is quantized as the Keras model is that it was made of."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetool import child
from edgetool.convert import worker
from edgetool.convert.float_tflite import (
    check_quantizable,
    computes_in_float,
    float_tflite,
    is_quantizable,
    quantized_as,
)
from edgetool.convert.request import ConvertRequest
from edgetool.errors import (
    CalibrationError,
    ConversionError,
    MissingExtraError,
    ModelError,
    UnsupportedModelError,
    UsageError,
)
from edgetool.model.edit import with_metadata
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Model
from edgetool.model.writer import write_model
from edgetool.pipeline.convert import convert_file
from edgetool.pipeline.quality import measure_quality
from edgetool.target.load import load_target
from tests.convert.conftest import Convert
from tests.in_process import no_children
from tests.memory.account_net import Net
from tests.model.builders import conv_model, if_model
from tests.passes.layers import Graph
from tests.passes.test_normalization import as_keras

ATTACKS = Path(__file__).parents[1] / "attacks" / "files"
WEIGHTS = np.arange(-6, 6).reshape(3, 4)
SCALES = (0.5, 0.25, 2.0)


def dense(stored: str = "float32", shape: tuple[int, ...] = (1, 4)) -> Model:
    """A dense layer whose weights are stored in float32, in float16 with a DEQUANTIZE, or in int8 per channel."""
    net = Net()
    x = net.tensor(shape, DType.FLOAT32, name="serving_default_x:0")
    if stored == "int8":
        data = WEIGHTS.astype(np.int8).tobytes()
        weights = net.tensor((3, 4), DType.INT8, data=data, scales=SCALES, name="block/head/MatMul")
    elif stored == "float16":
        data = WEIGHTS.astype("<f2").tobytes()
        half = net.tensor((3, 4), DType.FLOAT16, data=data)
        weights = net.tensor((3, 4), DType.FLOAT32)
        net.operator("DEQUANTIZE", [half], [weights])
    else:
        weights = net.tensor((3, 4), DType.FLOAT32, data=WEIGHTS.astype("<f4").tobytes())
    y = net.tensor((1, 3), DType.FLOAT32, name="block/head/MatMul;block/head/BiasAdd")
    net.operator("FULLY_CONNECTED", [x, weights, -1], [y])
    return replace(net.model([x], [y]), signatures=())


def applied(code: str, *constants: bytes, custom_code: str | None = None) -> Model:
    """One operator on ten numbers."""
    net = Net()
    x = net.tensor((1, 10), DType.FLOAT32)
    others = [net.tensor((), DType.INT32, data=data) for data in constants]
    y = net.tensor((1, 10), DType.FLOAT32)
    net.operator(code, [x, *others], [y], custom_code=custom_code)
    return net.model([x], [y])


def saved(model: Model, folder: Path, name: str = "model") -> Path:
    path = folder / f"{name}.tflite"
    path.write_bytes(write_model(model))
    return path


# ---- what a file is


def test_a_file_is_float_or_says_how_it_is_quantized() -> None:
    assert quantized_as(conv_model()) == "int8"
    for stored in ("float32", "float16", "int8"):
        assert quantized_as(dense(stored)) is None
        assert computes_in_float(dense(stored))


def stateful() -> Model:
    net = Net()
    x = net.tensor((1, 4), DType.FLOAT32)
    state = net.tensor((1, 4), DType.FLOAT32, is_variable=True)
    y = net.tensor((1, 4), DType.FLOAT32)
    net.operator("ADD", [x, state], [y])
    net.operator("RELU", [y], [state])
    return net.model([x], [y])


def recurrent() -> Model:
    return applied("SVDF")


@pytest.mark.parametrize(
    ("model", "scheme", "what"),
    [
        (if_model(), "int8", "operator 0 is IF: TensorFlow cannot calibrate loops and conditions"),
        (stateful(), "int8", r"operator 1 \(RELU\) keeps state"),
        (applied("CUSTOM", custom_code="MyOp"), "int8", r"operator 0 is custom \(MyOp\)"),
        (
            applied("STABLEHLO_SORT"),
            "int8",
            "operator 0 is STABLEHLO_SORT, which .* does not have .*sort in the firmware",
        ),
        (recurrent(), "int16x8", "operator 0 is SVDF, which TensorFlow does not quantize to int16x8"),
    ],
)
def test_what_tensorflow_cannot_calibrate_is_named(model: Model, scheme: str, what: str) -> None:
    with pytest.raises(UnsupportedModelError, match=what):
        check_quantizable(model, scheme, "model.tflite")


def test_a_model_of_integers_has_nothing_to_quantize() -> None:
    net = Net()
    x, y = net.tensor((4,), DType.INT32), net.tensor((4,), DType.INT32)
    net.operator("ABS", [x], [y])
    with pytest.raises(UnsupportedModelError, match="no operator computes in float32"):
        check_quantizable(net.model([x], [y]), "int8", "model.tflite")


# ---- what TensorFlow gets


@pytest.mark.parametrize("stored", ["float16", "int8"])
def test_weights_with_fewer_bits_are_converted_to_the_values_they_represent(stored: str) -> None:
    ready = float_tflite(dense(stored), "int8", "model.tflite")
    (operator,) = ready.model.main.operators
    weights = ready.model.main.tensors[operator.inputs[1]]
    assert operator.code == "FULLY_CONNECTED"
    assert (weights.dtype, weights.quantization) == (DType.FLOAT32, None)
    expected = WEIGHTS * np.array(SCALES)[:, None] if stored == "int8" else WEIGHTS
    assert weights.data == expected.astype("<f4").tobytes()
    assert ready.notes == ("1 constant that is stored in fewer bits was expanded to float32",)
    assert read_model(ready.content) == read_model(write_model(ready.model))


def test_the_plan_is_removed_and_names_are_kept() -> None:
    planned = with_metadata(with_metadata(dense(), "OfflineMemoryAllocation", bytes(12)), "edgetool.plan", b"{}")
    ready = float_tflite(planned, "int8", "model.tflite")
    assert ready.model.metadata == ()
    assert ready.notes == ()
    (signature,) = ready.model.signatures
    assert [name for name, _ in signature.inputs] == ["x"]
    assert [name for name, _ in signature.outputs] == ["block_head_MatMul_block_head_BiasAdd"]
    assert ready.layers.classes == {"block/head": "MatMul"}


def test_scale_and_shift_of_a_normalization_join_the_dense_layers_behind() -> None:
    net = Graph()
    y = as_keras(net, net.input((1, 5, 40), DType.FLOAT32), (2,))
    model = net.model([0], [net.dense(y, 3), net.dense(y, 2)])
    operators = float_tflite(model, "int8", "model.tflite").model.main.operators
    assert [operator.code for operator in operators][-3:] == ["MUL", "FULLY_CONNECTED", "FULLY_CONNECTED"]
    assert operators[-3].outputs == operators[-2].inputs[:1] == operators[-1].inputs[:1]


@pytest.mark.parametrize(("shape", "sample"), [((1, 4), (4,)), ((4,), (4,)), ((1,), ()), ((2, 4), (2, 4))])
def test_a_first_dimension_of_one_is_the_batch(shape: tuple[int, ...], sample: tuple[int, ...]) -> None:
    net = Net()
    x, y = net.tensor(shape, DType.FLOAT32), net.tensor(shape, DType.FLOAT32)
    net.operator("RELU", [x], [y])
    (spec,) = float_tflite(net.model([x], [y]), "int8", "model.tflite").specs
    assert (spec.shape, spec.dtype) == (sample, "float32")


def test_synthetic_indices_are_those_of_the_table() -> None:
    net = Net()
    x = net.tensor((1, 6), DType.INT32)
    table = net.noise(11, 4, dtype=DType.FLOAT32)
    y = net.tensor((1, 6, 4), DType.FLOAT32)
    net.operator("GATHER", [table, x], [y])
    (limits,) = float_tflite(net.model([x], [y]), "int8", "model.tflite").ranges
    assert (limits.low, limits.high, limits.whole) == (0, 10, True)


# ---- through TensorFlow


def test_metadata_of_stablehlo_does_not_keep_weights_in_float(convert: Convert, tmp_path: Path) -> None:
    path = saved(with_metadata(dense(), "keep_stablehlo_constant", b"true"), tmp_path)
    operators = [operator.label for operator in read_model(convert(path, quantize="int8").tflite).main.operators]
    assert operators == ["FULLY_CONNECTED"]


def sqnr_db(conversion: Any, scheme: str, workdir: Path) -> list[float | None]:
    model = read_model(conversion.tflite)
    with no_children():
        quality, _ = measure_quality(conversion, model, scheme=scheme, workdir=workdir)
    return [output.sqnr_db for output in quality.outputs]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "scheme"), [("small.keras", "int8"), ("small.keras", "int16x8"), ("tokens.keras", "int8")]
)
def test_it_loses_as_much_accuracy_as_the_keras_model(
    models: Path, convert: Convert, tmp_path: Path, name: str, scheme: str
) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(convert(models / name, quantize="float32").tflite)
    samples = tmp_path / "samples.npy"
    of_keras = convert(models / name, quantize=scheme)
    np.save(samples, of_keras.inputs[0])
    given = convert(path, quantize=scheme, calibration=samples)
    assert given.input_names == of_keras.input_names
    assert given.output_names == of_keras.output_names
    codes = [[operator.label for operator in read_model(item.tflite).main.operators] for item in (given, of_keras)]
    assert codes[0] == codes[1]
    found, expected = (sqnr_db(item, scheme, tmp_path) for item in (given, of_keras))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours is not None
        assert theirs is not None
        assert ours > theirs - 1


def partly_quantized(scale: float = 1 / 64) -> Model:
    """A rectifier in int8 between two dense layers in float32."""
    net = Net()
    x = net.tensor((1, 4), DType.INT8, scales=(1 / 128,))
    real, hidden = net.tensor((1, 4), DType.FLOAT32), net.tensor((1, 3), DType.FLOAT32)
    codes, rectified = (net.tensor((1, 3), DType.INT8, scales=(scale,)) for _ in range(2))
    again, y = net.tensor((1, 3), DType.FLOAT32), net.tensor((1, 3), DType.FLOAT32)
    first = net.tensor((3, 4), DType.FLOAT32, data=(WEIGHTS / 8).astype("<f4").tobytes())
    second = net.tensor((3, 3), DType.FLOAT32, data=(WEIGHTS[:, :3] / 8).astype("<f4").tobytes())
    bias = net.tensor((3,), DType.FLOAT32, data=np.array([0.5, -0.25, 0.75], "<f4").tobytes())
    net.operator("DEQUANTIZE", [x], [real])
    net.operator("FULLY_CONNECTED", [real, first, bias], [hidden])
    net.operator("QUANTIZE", [hidden], [codes])
    net.operator("RELU", [codes], [rectified])
    net.operator("DEQUANTIZE", [rectified], [again])
    net.operator("FULLY_CONNECTED", [again, second, bias], [y])
    return net.model([x], [y])


def test_a_partly_quantized_model_keeps_its_scales(convert: Convert, tmp_path: Path) -> None:
    assert is_quantizable(partly_quantized(), "int8")
    assert not is_quantizable(partly_quantized(), "int16x8")
    assert not is_quantizable(conv_model(), "int8")
    np.save(tmp_path / "samples.npy", np.linspace(-0.5, 0.5, 64, dtype=np.float32).reshape(16, 4))
    made = convert(saved(partly_quantized(), tmp_path), quantize="int8", calibration=tmp_path / "samples.npy")
    main = read_model(made.tflite).main
    labels = [operator.label for operator in main.operators]
    assert {"QUANTIZE", "DEQUANTIZE"}.isdisjoint(labels)
    assert labels.count("FULLY_CONNECTED") == 2
    assert main.tensors[main.inputs[0]].per_tensor == (1 / 128, 0)
    assert main.tensors[main.operators[0].outputs[0]].per_tensor == (1 / 64, 0)
    (sqnr,) = sqnr_db(made, "int8", tmp_path)
    assert sqnr is not None
    assert sqnr > 25


def test_types_of_inputs_and_outputs(models: Path, convert: Convert, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(convert(models / "small.keras", quantize="float32").tflite)
    for scheme, io in (("int8", "uint8"), ("int8", "float32"), ("int16x8", "float32")):
        main = read_model(convert(path, quantize=scheme, io=io).tflite).main
        assert {main.tensors[index].dtype.name.lower() for index in (*main.inputs, *main.outputs)} == {io}


def test_layers_by_the_names_of_tensors(models: Path, convert: Convert, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(convert(models / "small.keras", quantize="float32").tflite)
    made = convert(path, quantize="int8", keep_float=("scores",), debug_quantization=True)
    assert made.debug is not None
    assert "conv2d" in {entry["name"] for entry in made.debug["layers"]}
    operators = [operator.label for operator in read_model(made.tflite).main.operators]
    assert "DEQUANTIZE" in operators
    with pytest.raises(UsageError, match=r"layer 'nonesuch'.*the layers with operators are .*conv2d"):
        convert(path, quantize="int8", keep_float=("nonesuch",))


@pytest.mark.slow
def test_the_same_file_gives_the_same_bytes(models: Path, convert: Convert, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(convert(models / "small.keras", quantize="float32").tflite)
    assert convert(path, quantize="int8").tflite == convert(path, quantize="int8", fresh=True).tflite


@pytest.mark.parametrize(
    ("samples", "what"),
    [
        (np.zeros((4, 5), np.float32), r"has shape \(4, 5\).*takes samples of shape \(4,\)"),
        (np.full((4, 4), np.nan, np.float32), "contains NaN"),
        (np.ones((4, 4), np.float32), "it has no range to quantize"),
        (np.zeros((0, 4), np.float32), "contains no samples"),
    ],
)
def test_calibration_data_is_checked(convert: Convert, tmp_path: Path, samples: Any, what: str) -> None:
    np.save(tmp_path / "samples.npy", samples)
    with pytest.raises(CalibrationError, match=what):
        convert(saved(dense(), tmp_path), quantize="int8", calibration=tmp_path / "samples.npy")


def test_calibration_data_is_normalised(convert: Convert, tmp_path: Path) -> None:
    np.save(tmp_path / "samples.npy", np.arange(32, dtype=np.float32).reshape(8, 4))
    request = {"calibration": tmp_path / "samples.npy", "scale": (1 / 16,), "offset": (-1.0,)}
    made = convert(saved(dense(), tmp_path), quantize="int8", **request)
    assert (made.calibrated, made.samples) == (True, 8)
    assert np.array_equal(made.inputs[0].ravel(), np.arange(32) / 16 - 1)


def test_an_operator_that_the_runtime_lacks_is_named(tmp_path: Path) -> None:
    net = Net()
    x, y = (net.tensor((1, 4, 4, 2), DType.FLOAT32) for _ in range(2))
    net.operator("LOCAL_RESPONSE_NORMALIZATION", [x], [y])
    path = saved(net.model([x], [y]), tmp_path)
    request = ConvertRequest(path, quantize="int8", samples=4)
    with no_children(), pytest.raises(ConversionError, match="LOCAL_RESPONSE_NORMALIZATION"):
        convert_file(request, load_target("cortex-m7"), output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_missing_library_is_an_extra_to_install(
    convert: Convert, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tensorflow.py").write_text("raise ModuleNotFoundError('none', name='tensorflow')", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    with pytest.raises(MissingExtraError, match=r"tensorflow is not installed; pip install 'edgetool\[convert\]'"):
        convert(saved(dense(), tmp_path), quantize="int8", fresh=True)


def test_tensorflow_never_sees_what_our_reader_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the command starts a child for it, nor does the child start TensorFlow."""

    def started(*arguments: Any, **named: Any) -> Any:
        raise AssertionError("was started")

    monkeypatch.setattr(worker, "start_lite", started)
    monkeypatch.setattr(child, "run", started)
    message = {"quantize": "int8", "io_type": "int8", "dense_per_tensor": False, "keep_float": []}
    refused = 0
    for file in sorted(ATTACKS.glob("*.tflite")):
        try:
            read_model(file.read_bytes())
            continue
        except ModelError:
            refused += 1
        with pytest.raises(ModelError):
            worker.work({**message, "path": str(file), "debug_quantization": False}, tmp_path, lambda step: None)
        with pytest.raises(ModelError):
            convert_file(ConvertRequest(file, quantize="int8"), load_target("cortex-m7"), output=tmp_path / "out")
    assert refused > 80


# ---- a file that is taken as it is


def findings(request: ConvertRequest, folder: Path) -> dict[str, str]:
    made = convert_file(request, load_target("cortex-m7"), output=folder, force=True)
    return {finding.rule: finding.message for finding in made.report.findings}


def test_a_float_file_is_left_alone_with_a_note(tmp_path: Path) -> None:
    path = saved(dense(), tmp_path)
    reported = findings(ConvertRequest(path), tmp_path / "out")
    assert "use --quantize int8 --calibration DATA to quantize it" in reported["float-model"]
    written = read_model((tmp_path / "out" / "model.tflite").read_bytes())
    assert {tensor.dtype for tensor in written.main.tensors} == {DType.FLOAT32}
    assert "float-model" not in findings(ConvertRequest(path, quantize="float32"), tmp_path / "out")


def test_a_quantized_file_is_not_quantized_again(tmp_path: Path) -> None:
    path = saved(conv_model(), tmp_path)
    reported = findings(ConvertRequest(path, quantize="int8"), tmp_path / "out")
    assert reported["already-quantized"] == "the model is already quantized (int8) and is used unchanged"
    assert not {"already-quantized", "float-model"} & set(findings(ConvertRequest(path), tmp_path / "out"))


FLOAT = {"quantize": "float32"}
INT8 = {"quantize": "int8"}


@pytest.mark.parametrize(
    ("model", "options", "what"),
    [
        (conv_model(), {"quantize": "int16x8"}, r"already quantized \(int8\): --quantize int16x8 cannot be applied"),
        (conv_model(), FLOAT, r"already quantized \(int8\): --quantize float32 cannot be applied"),
        (conv_model(), {**INT8, "calibration": Path("x.npy")}, "used unchanged: --calibration cannot be applied"),
        (conv_model(), {"io": "int16"}, "inputs and outputs are int8: --io int16 cannot be applied"),
        (conv_model(), {"io": "float32"}, "--io cannot be applied"),
        (dense(), {"io": "int8"}, "--io cannot be applied; .* use --quantize int8"),
        (dense(), {"calibration": Path("x.npy")}, "--calibration cannot be applied; .* use --quantize int8"),
        (dense(), {**FLOAT, "samples": 5, "seed": 1}, "--samples, --seed cannot be applied"),
        (dense(), {"keep_float": ("a",), "debug_quantization": True}, "--keep-float, --debug-quantization cannot"),
        (dense(), {**INT8, "rnn": "unrolled", "signature": "s"}, "no layers and no code: --rnn, --signature cannot"),
        (dense(), {**INT8, "input_shapes": ((None, (4,)),)}, "--input-shape cannot be applied"),
        (dense(), {**INT8, "trust_model_code": True}, "--trust-model-code cannot be applied"),
    ],
)
def test_options_that_cannot_apply_are_named(
    tmp_path: Path, model: Model, options: dict[str, Any], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.npy").write_bytes(b"")
    request = replace(ConvertRequest(saved(model, tmp_path)), **options)
    with pytest.raises(UsageError, match=what):
        convert_file(request, load_target("cortex-m7"), output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_options_for_other_kinds_of_model_are_named(models: Path, convert: Convert, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--replan applies only to the memory plan in a \.tflite"):
        convert_file(ConvertRequest(models / "small.keras"), load_target("cortex-m7"), output=tmp_path, replan=True)
    with pytest.raises(UsageError, match="--rnn: a SavedModel stores its layers as graphs"):
        convert(models / "exported", rnn="unrolled")
