"""Single ONNX operators compute with TensorFlow what they compute in ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetool.convert.load_onnx import declared_input
from edgetool.convert.onnx_graph import OnnxGraph
from edgetool.convert.onnx_operators import BROADCAST
from edgetool.errors import UnsupportedModelError

OPSET = 18
IMAGE = (1, 4, 5, 6)
HALF = np.array([1, 1, 0.5, 0.5], np.float32)


def constant(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def one_node(kind: str, constants: list[Any], attributes: dict[str, Any]) -> Any:
    """A model of one operator, whose first input is an image; absent inputs are None."""
    onnx = pytest.importorskip("onnx")
    names = ["" if values is None else f"c{place}" for place, values in enumerate(constants)]
    stored = [onnx.numpy_helper.from_array(v, n) for v, n in zip(constants, names, strict=True) if v is not None]
    node = onnx.helper.make_node(kind, ["x", *names], ["y"], **attributes)
    ends = [onnx.helper.make_tensor_value_info("x", 1, IMAGE)], [onnx.helper.make_tensor_value_info("y", 1, None)]
    graph = onnx.helper.make_graph([node], "one", *ends, stored)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=9)


def computed(model: Any, values: np.ndarray[Any, Any]) -> Any:
    tf, onnx = pytest.importorskip("tensorflow"), pytest.importorskip("onnx")
    (result,) = OnnxGraph(tf, onnx, model, Path("one.onnx")).run({"x": tf.constant(values)})
    return result.numpy()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "constants", "attributes"),
    [
        ("ConvTranspose", [constant(4, 2, 1, 1)], {"strides": [1, 2], "output_shape": [5, 12]}),
        ("ConvTranspose", [constant(4, 2, 3, 3)], {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ("ConvTranspose", [constant(4, 2, 3, 3)], {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}),
        ("Resize", [None, None, np.array([1, 4, 3, 4])], {"mode": "linear"}),
        ("Resize", [None, HALF], {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
        ("Resize", [None, np.float32([1, 1, 2, 2])], {"mode": "nearest"}),
    ],
)
def test_results_are_those_of_onnx_runtime(kind: str, constants: list[Any], attributes: dict[str, Any]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model, values = one_node(kind, constants, attributes), constant(*IMAGE)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": values})
    np.testing.assert_allclose(computed(model, values), expected, rtol=1e-4, atol=1e-4)


def test_a_size_of_minus_1_is_not_fixed() -> None:
    onnx = pytest.importorskip("onnx")
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [-1, 3, "width", 8])
    assert declared_input(onnx, value, Path("one.onnx")) == (np.float32, (None, 3, None, 8))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_weights_in_other_precisions_are_computed_in_float32(dtype: type[Any]) -> None:
    weights = constant(4, 4, 1, 1).astype(dtype)
    model, values = one_node("Conv", [weights], {}), constant(*IMAGE)
    expected = np.einsum("oi,nihw->nohw", weights[..., 0, 0].astype(np.float32), values)
    np.testing.assert_allclose(computed(model, values), expected, rtol=1e-4, atol=1e-4)
    model.graph.node[0].op_type, model.graph.node[0].input[:] = "Cast", ["x"]
    model.graph.node[0].attribute.add(name="to", type=2, i=10)  # to float16
    assert np.array_equal(computed(model, values), values)


@pytest.mark.slow
def test_a_quantized_model_is_refused_with_its_node_and_what_to_do() -> None:
    model = one_node("QuantizeLinear", [np.float32(0.1), np.int8(3)], {})
    with pytest.raises(UnsupportedModelError, match=r"QuantizeLinear.*quantized values.*before its quantization"):
        computed(model, constant(*IMAGE))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("constants", "attributes", "text"),
    [
        ([None, HALF], {"mode": "linear"}, "resizes to a size that it rounds"),
        ([None, None, np.array([1, 4, 3, 4])], {"mode": "linear", "antialias": 1}, "filters before it resizes"),
    ],
)
def test_a_resize_that_tensorflow_computes_otherwise_is_refused(
    constants: list[Any], attributes: dict[str, Any], text: str
) -> None:
    with pytest.raises(UnsupportedModelError, match=text):
        computed(one_node("Resize", constants, attributes), constant(*IMAGE))


@pytest.mark.slow
def test_quotients_of_integers_are_rounded_towards_zero() -> None:
    tf = pytest.importorskip("tensorflow")
    a, b = np.meshgrid(np.arange(-7, 8), [-3, -2, -1, 1, 2, 3])
    assert BROADCAST["Div"](tf, tf.constant(a), tf.constant(b)).numpy().tolist() == np.trunc(a / b).tolist()
