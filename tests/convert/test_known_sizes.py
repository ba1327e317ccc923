"""The sizes that a float .tflite computes from its batch become those of a batch of 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgetool.convert.known_sizes import SIZES, has_unknown_batch, with_known_sizes, with_shapes
from edgetool.convert.request import ConvertRequest
from edgetool.errors import ConversionError, InvalidModelError
from edgetool.model.reader import read_model
from edgetool.model.rules import COUNTS
from edgetool.model.types import DType, Model
from edgetool.model.writer import write_model
from edgetool.pipeline.convert import convert_for
from edgetool.pipeline.quality import measure_quality
from edgetool.target.load import load_target
from tests.convert.conftest import Convert
from tests.convert.left_by_child import leave
from tests.convert.test_float_tflite import saved, sqnr_db
from tests.in_process import no_children
from tests.memory.account_net import Net

WEIGHTS = np.arange(-9, 9).reshape(3, 6) / 8
# What TensorFlow's converter makes of a dense layer on the last of three axes: the first two are multiplied.
STEPS = 4


def with_unknown(net: Net, index: int, *signature: int) -> int:
    net.tensors[index] = replace(net.tensors[index], shape_signature=signature)
    return index


def dense_on_steps() -> Model:
    """A dense layer on (batch, 4, 6): its input in two dimensions has unknown sizes, which are recorded as 1."""
    net = Net()
    x = with_unknown(net, net.tensor((1, STEPS, 6), DType.FLOAT32), -1, STEPS, 6)
    sizes = net.op("SHAPE", [x], 3, dtype=DType.INT32, out_type="INT32")
    outer = net.op("GATHER", [sizes, net.constant([0, 1])], 2, dtype=DType.INT32)
    rows = net.tensor((), DType.INT32)
    net.operator("REDUCE_PROD", [outer, net.constant([0])], [rows])
    flat_sizes = net.op("PACK", [rows, net.scalar(6)], 2, dtype=DType.INT32, values_count=2)
    flat = with_unknown(net, net.op("RESHAPE", [x, flat_sizes], 1, 1), -1, -1)
    weights = net.tensor((3, 6), DType.FLOAT32, data=WEIGHTS.astype("<f4").tobytes())
    product = with_unknown(net, net.op("FULLY_CONNECTED", [flat, weights, -1], 1, 3), -1, 3)
    all_sizes = net.op("CONCATENATION", [outer, net.constant([3])], 3, dtype=DType.INT32)
    y = with_unknown(net, net.op("RESHAPE", [product, all_sizes], 1, STEPS, 3), -1, STEPS, 3)
    return read_model(write_model(net.model([x], [y])))


def shapes_of(model: Model, changed: Mapping[str, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    """The recorded shapes, with that of the output of each operator in `changed`."""
    shapes = {tensor.index: tensor.shape for tensor in model.main.tensors}
    for operator in model.main.operators:
        for code, shape in changed.items():
            if operator.code == code and -1 in model.main.tensors[operator.outputs[0]].shape_signature:
                shapes[operator.outputs[0]] = shape
                break
    return shapes


def sized(model: Model) -> dict[int, tuple[int, ...]]:
    """The shapes of the dense layer for a batch of 1."""
    shapes = shapes_of(model, {"RESHAPE": (STEPS, 6), "FULLY_CONNECTED": (STEPS, 3)})
    return {**shapes, model.main.outputs[0]: (1, STEPS, 3)}


def test_computed_sizes_become_constants() -> None:
    model = dense_on_steps()
    assert has_unknown_batch(model)
    assert any(operator.shape_conflict for operator in model.main.operators)
    graph = with_shapes(model, sized(model), "model.tflite").main
    assert [operator.code for operator in graph.operators] == ["RESHAPE", "FULLY_CONNECTED", "RESHAPE"]
    assert [graph.tensors[operator.outputs[0]].shape for operator in graph.operators] == [(4, 6), (4, 3), (1, 4, 3)]
    first, _, last = graph.operators
    for operator, expected in ((first, [STEPS, 6]), (last, [1, STEPS, 3])):
        assert np.frombuffer(graph.tensors[operator.inputs[1]].data or b"", "<i4").tolist() == expected
    assert not any(operator.shape_conflict for operator in graph.operators)
    assert not any(tensor.shape_signature for tensor in graph.tensors if not tensor.is_constant)


def test_shapes_that_contradict_an_operator_are_refused() -> None:
    model = dense_on_steps()
    with pytest.raises(InvalidModelError, match=r"model\.tflite.*RESHAPE"):
        with_shapes(model, shapes_of(model, {"RESHAPE": (STEPS, 5)}), "model.tflite")


def test_a_size_that_depends_on_values_stays_unknown() -> None:
    net = Net()
    x = with_unknown(net, net.tensor((1, 2), DType.FLOAT32), -1, 2)
    where = with_unknown(net, net.op("CAST", [x], 1, 2, dtype=DType.INT32), -1, 2)
    sizes = net.op("RESHAPE", [where, net.constant([2])], 2, new_shape=(2,))
    y = with_unknown(net, net.op("RESHAPE", [x, sizes], 1, 1), -1, -1)
    net.tensors[y] = replace(net.tensors[y], dtype=DType.FLOAT32)
    model = read_model(write_model(net.model([x], [y])))
    assert has_unknown_batch(model)
    assert with_shapes(model, {y: (1, 2)}, "model.tflite") is model


@pytest.mark.parametrize("signature", [(), (1, 4, 6), (-1, -1, 6), (1, 4, -1)])
def test_only_the_batch_is_fixed(signature: tuple[int, ...]) -> None:
    net = Net()
    x = with_unknown(net, net.tensor((1, 4, 6), DType.FLOAT32), *signature)
    y = with_unknown(net, net.op("RELU", [x], 1, 4, 6), *signature)
    model = net.model([x], [y])
    assert not has_unknown_batch(model)
    assert with_known_sizes(model, "model.tflite") is model


def test_the_table_of_sizes_names_inputs_of_operators() -> None:
    for code, places in SIZES.items():
        assert places
        assert max(places) < COUNTS[code].inputs[1]


# ---- through TensorFlow


def test_a_model_with_any_batch_is_quantized_for_a_batch_of_one(convert: Convert, tmp_path: Path) -> None:
    samples = np.random.default_rng(0).uniform(-1, 1, (16, STEPS, 6)).astype(np.float32)
    np.save(tmp_path / "samples.npy", samples)
    made = convert(saved(dense_on_steps(), tmp_path), quantize="int8", calibration=tmp_path / "samples.npy")
    graph = read_model(made.tflite).main
    codes = [operator.code for operator in graph.operators]
    assert {"SHAPE", "GATHER", "PACK", "REDUCE_PROD", "CONCATENATION"}.isdisjoint(codes)
    assert codes.count("FULLY_CONNECTED") == 1
    assert np.allclose(made.float_outputs[0].reshape(16, STEPS, 3), samples @ WEIGHTS.T, atol=1e-5)
    (sqnr,) = sqnr_db(made, "int8", tmp_path)
    assert sqnr is not None
    assert sqnr > 30


def test_a_model_that_cannot_run_for_a_batch_of_one_is_refused(convert: Convert, tmp_path: Path) -> None:
    net = Net()
    x = with_unknown(net, net.tensor((1, 6), DType.FLOAT32), -1, 6)
    sizes = net.op("SHAPE", [x], 2, dtype=DType.INT32, out_type="INT32")
    wrong = net.op("ADD", [sizes, net.constant([1, 0])], 2)
    y = with_unknown(net, net.op("RESHAPE", [x, wrong], 1, 1), -1, -1)
    path = saved(net.model([x], [y]), tmp_path)
    with pytest.raises(ConversionError, match=r"model\.tflite: TensorFlow Lite cannot run .* for a batch of 1"):
        convert(path, quantize="int8", samples=4)


@pytest.mark.slow
def test_it_loses_as_much_as_the_keras_model(tmp_path: Path) -> None:
    """Upsampling, a dilated convolution and a dense layer on two axes compute sizes from the batch."""
    folder = leave("tests.convert.any_batch_child", tmp_path)
    float_model = read_model((folder / "model.tflite").read_bytes())
    assert has_unknown_batch(float_model)
    assert any(operator.shape_conflict for operator in float_model.main.operators)
    sqnrs_db = []
    for suffix in ("tflite", "keras"):
        request = ConvertRequest(folder / f"model.{suffix}", quantize="int8", calibration=folder / "samples.npy")
        workdir = tmp_path / suffix
        workdir.mkdir()
        with no_children():
            made = convert_for(request, load_target("cortex-m7").runtime, name="model", workdir=workdir)
            quality, _ = measure_quality(made.conversion, made.model, scheme="int8", workdir=workdir)
        (output,) = quality.outputs
        assert output.sqnr_db is not None
        sqnrs_db.append(output.sqnr_db)
    assert sqnrs_db[0] > sqnrs_db[1] - 1
