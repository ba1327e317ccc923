"""The TensorFlow function of each ONNX operator computes what ONNX's reference evaluator does."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetool.convert.onnx_operators import BROADCAST, HANDLERS, REDUCTIONS, REPEATED, UNARY

OPSET = 20
# Operators of which the evaluator has none, or another function than the specification.
NOT_EVALUATED = frozenset({"Upsample"})
POSITIVE = frozenset({"Log", "Sqrt"})
LOGICAL = frozenset({"And", "Not", "Or"})
IMAGE = (1, 4, 6, 5)


@dataclass(frozen=True)
class Case:
    """A node with inputs that are computed, of these shapes, and then constants; None is an absent input.

    runtime: compared with ONNX Runtime, because the evaluator (of onnx 1.23) fails or departs from the specification.
    """

    kind: str
    shapes: Sequence[tuple[int, ...]] = (IMAGE,)
    constants: Sequence[Any] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    runtime: bool = False

    def __str__(self) -> str:
        return "-".join([self.kind, *(f"{key}={value}" for key, value in self.attributes.items())]).replace(" ", "")


def noise(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


WEIGHTS = noise(6, 4, 3, 3)
POOL = {"kernel_shape": [3, 3], "strides": [2, 2]}
RNN = (noise(1, 5, 4), noise(1, 5, 5), noise(1, 10))
GRU = (noise(1, 15, 4), noise(1, 15, 5), noise(1, 30))
LSTM = (noise(2, 20, 4), noise(2, 20, 5), noise(2, 40))

CASES = [
    *(Case(kind) for kind in UNARY if kind not in LOGICAL),
    Case("Celu", attributes={"alpha": 0.5}),
    Case("Elu", attributes={"alpha": 0.5}),
    Case("Gelu", attributes={"approximate": "tanh"}),
    Case("HardSigmoid", attributes={"alpha": 1 / 6, "beta": 0.5}),
    Case("LeakyRelu", attributes={"alpha": 0.3}),
    *(Case(kind, (IMAGE, IMAGE)) for kind in BROADCAST if kind not in LOGICAL | {"Pow", "Where"}),
    *(Case(kind, (IMAGE, (5,))) for kind in ("Add", "Mul", "Sub")),
    *(Case(kind, (IMAGE,), (noise(4, 1, 1),)) for kind in ("Add", "Div", "Mul")),
    Case("Pow", constants=(np.float32(2),)),
    *(Case(kind, (IMAGE, IMAGE, (1, 4, 1, 1))) for kind in REPEATED),
    *(Case(kind, constants=(ints(2, 3),)) for kind in REDUCTIONS),
    Case("ReduceMean", constants=(ints(1),), attributes={"keepdims": 0}),
    Case("ReduceMax", constants=(ints(-1, -2),), attributes={"keepdims": 0}),
    Case("ReduceSum"),
    *(
        Case(kind, attributes={"axis": axis, "keepdims": keep})
        for kind in ("ArgMax", "ArgMin")
        for axis in (1, -1)
        for keep in (0, 1)
    ),
    Case("AveragePool", attributes={**POOL, "pads": [1, 1, 1, 1]}),
    Case("AveragePool", attributes={**POOL, "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    Case("AveragePool", attributes={**POOL, "auto_pad": "SAME_UPPER"}),
    Case("MaxPool", attributes={**POOL, "pads": [1, 1, 1, 1]}),
    Case("MaxPool", attributes={**POOL, "auto_pad": "SAME_LOWER"}, runtime=True),
    Case("MaxPool", ((1, 4, 9),), attributes={"kernel_shape": [2], "strides": [2]}),
    Case("GlobalAveragePool"),
    Case("GlobalMaxPool"),
    *(Case(kind, attributes={"axis": axis}) for kind in ("LogSoftmax", "Softmax") for axis in (1, 2, -1)),
    Case("BatchNormalization", constants=(noise(4), noise(4), noise(4), np.abs(noise(4)))),
    Case("BatchNormalization", ((1, 4),), (noise(4), noise(4), noise(4), np.abs(noise(4)))),
    Case("InstanceNormalization", constants=(noise(4), noise(4)), attributes={"epsilon": 1e-3}),
    Case("LayerNormalization", constants=(noise(5), noise(5))),
    Case("LayerNormalization", constants=(noise(6, 5), noise(6, 5)), attributes={"axis": 2}),
    Case("Clip", constants=(np.float32(0), np.float32(6))),
    Case("Clip", constants=(np.float32(-0.5), np.float32(0.25))),
    Case("Clip", constants=(None, np.float32(0.25))),
    Case("Concat", (IMAGE, IMAGE), attributes={"axis": 1}),
    Case("Concat", (IMAGE, IMAGE), attributes={"axis": -1}),
    Case("Conv", constants=(WEIGHTS,)),
    Case("Conv", constants=(WEIGHTS, noise(6)), attributes={"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    Case("Conv", constants=(WEIGHTS, noise(6)), attributes={"pads": [0, 2, 1, 0]}),
    Case("Conv", constants=(WEIGHTS,), attributes={"pads": [2, 2, 2, 2], "dilations": [2, 2]}),
    Case("Conv", constants=(WEIGHTS,), attributes={"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    Case("Conv", constants=(noise(8, 1, 3, 3), noise(8)), attributes={"group": 4, "pads": [1, 1, 1, 1]}),
    Case("Conv", constants=(noise(6, 2, 3, 3),), attributes={"group": 2}),
    Case("Conv", ((1, 4, 9),), (noise(6, 4, 3), noise(6)), {"strides": [2], "pads": [1, 1]}),
    Case("Conv", ((1, 4, 9),), (noise(4, 1, 3),), {"group": 4, "strides": [2]}),
    Case("ConvTranspose", constants=(noise(4, 6, 2, 2), noise(6)), attributes={"strides": [2, 2]}),
    Case("ConvTranspose", constants=(noise(4, 6, 3, 3),), attributes={"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    Case(
        "ConvTranspose",
        constants=(noise(4, 6, 3, 3),),
        attributes={"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
    ),
    Case("ConvTranspose", constants=(noise(4, 3, 3, 3),), attributes={"group": 2, "strides": [2, 2]}, runtime=True),
    Case("DepthToSpace", attributes={"blocksize": 2}),
    Case("DepthToSpace", ((1, 8, 3, 2),), attributes={"blocksize": 2, "mode": "CRD"}),
    Case("SpaceToDepth", ((1, 3, 4, 6),), attributes={"blocksize": 2}),
    Case("Dropout"),
    Case("Identity"),
    Case("Einsum", ((2, 3, 4), (2, 4, 5)), attributes={"equation": "bij, bjk -> bik"}),
    Case("Expand", ((1, 4, 1, 5),), (ints(1, 4, 6, 1),)),
    Case("Flatten", attributes={"axis": 1}),
    Case("Flatten", attributes={"axis": -1}),
    Case("Gather", constants=(ints(0, -1),), attributes={"axis": 1}),
    Case("Gather", constants=(np.array(-1),), attributes={"axis": 2}),
    Case("Gemm", ((2, 4),), (noise(4, 3), noise(3))),
    Case("Gemm", ((4, 2),), (noise(3, 4), noise(3)), {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}),
    Case("Gemm", ((2, 4), (4, 3))),
    Case("MatMul", ((1, 2, 4),), (noise(4, 3),)),
    Case("MatMul", ((1, 2, 4), (1, 4, 3))),
    Case("PRelu", constants=(noise(4, 1, 1),)),
    Case("Pad", constants=(ints(0, 0, 1, 0, 0, 0, 0, 2), np.float32(0.5))),
    Case("Pad", constants=(ints(0, 0, 1, 1, 0, 0, 1, 2),), attributes={"mode": "reflect"}),
    Case("Pad", constants=(ints(0, 0, 1, 1, 0, 0, 1, 0),), attributes={"mode": "edge"}),
    Case("Pad", constants=(ints(1, -1), None, ints(2)), runtime=True),
    Case("Reshape", constants=(ints(0, -1, 5),)),
    Case("Slice", constants=(ints(1, -1), ints(9, -4), ints(1, 3), ints(2, -1))),
    Case("Slice", constants=(ints(-2), ints(2**40), ints(-1))),
    Case("Split", attributes={"axis": 1, "num_outputs": 2}, outputs=2),
    Case("Split", constants=(ints(1, 4),), attributes={"axis": 3}, outputs=2),
    Case("Squeeze", ((1, 4, 1, 5),), (ints(2),)),
    Case("Squeeze", ((1, 4, 1, 5),)),
    Case("Unsqueeze", ((1, 4, 5),), (ints(-1, 0),)),
    Case("Tile", constants=(ints(1, 2, 1, 3),)),
    Case("Transpose", attributes={"perm": [0, 2, 3, 1]}),
    Case("Transpose"),
    Case("Resize", constants=(None, np.array([1, 1, 2, 2], np.float32)), attributes={"mode": "nearest"}),
    Case(
        "Resize",
        constants=(None, np.array([1, 1, 2, 3], np.float32)),
        attributes={"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    ),
    *(
        Case(
            "Resize",
            constants=(None, None, ints(1, 4, 9, 10)),
            attributes={"mode": "linear", "coordinate_transformation_mode": where},
        )
        for where in ("half_pixel", "align_corners", "asymmetric")
    ),
    Case("RNN", ((3, 1, 4),), RNN, {"hidden_size": 5}, 2),
    Case("GRU", ((3, 1, 4),), GRU, {"hidden_size": 5, "linear_before_reset": 1}, 2),
    Case("GRU", ((3, 1, 4),), GRU, {"hidden_size": 5, "linear_before_reset": 0}, 2),
    Case("LSTM", ((3, 1, 4),), LSTM, {"hidden_size": 5, "direction": "bidirectional"}, 3),
]


def test_every_operator_has_a_case() -> None:
    others = {"Cast", "Where", *LOGICAL, *NOT_EVALUATED}
    assert {case.kind for case in CASES} == HANDLERS.keys() - others


@pytest.fixture(scope="module")
def libraries() -> tuple[Any, Any]:
    """TensorFlow and onnx."""
    onnx = pytest.importorskip("onnx", reason="needs the extra onnx")
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    return pytest.importorskip("tensorflow", reason="needs the extra convert"), onnx


def model_of(onnx: Any, case: Case, channels_last: bool) -> tuple[Any, list[Any]]:
    """Return a model of the node, and its inputs; channels_last: a pooling of single pixels moves the channels."""
    helper = onnx.helper
    values = [np.abs(noise(*shape)) + 0.1 if case.kind in POSITIVE else noise(*shape) for shape in case.shapes]
    names = [f"x{place}" for place in range(len(values))]
    constants = [(f"c{place}", value) for place, value in enumerate(case.constants)]
    fed = [f"{name}_last" if channels_last else name for name in names]
    pooled = zip(names, fed, strict=True) if channels_last else ()
    nodes = [helper.make_node("MaxPool", [name], [to], kernel_shape=[1, 1]) for name, to in pooled]
    outputs = [f"y{place}" for place in range(case.outputs)]
    inputs = [*fed, *("" if value is None else name for name, value in constants)]
    nodes.append(helper.make_node(case.kind, inputs, outputs, **case.attributes))
    graph = helper.make_graph(
        nodes,
        "one",
        [helper.make_tensor_value_info(name, 1, value.shape) for name, value in zip(names, values, strict=True)],
        [helper.make_tensor_value_info(name, int(case.runtime), None) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants if value is not None],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10), values


def reference(model: Any, feeds: Mapping[str, Any], *, runtime: bool) -> list[Any]:
    if runtime:
        onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return list(session.run(None, dict(feeds)))
    from onnx.reference import ReferenceEvaluator

    return list(ReferenceEvaluator(model).run(None, dict(feeds)))


def check(tf: Any, onnx: Any, case: Case, channels_last: bool) -> None:
    from edgetool.convert.onnx_graph import OnnxGraph

    model, values = model_of(onnx, case, channels_last)
    names = [item.name for item in model.graph.input]
    expected = reference(model, dict(zip(names, values, strict=True)), runtime=case.runtime)
    graph = OnnxGraph(tf, onnx, model, Path("model.onnx"))
    actual = graph.run(dict(zip(names, map(tf.constant, values), strict=True)))
    for one, other in zip(actual, expected, strict=True):
        assert one.numpy().shape == other.shape
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_operator_computes_what_the_reference_does(case: Case, libraries: tuple[Any, Any]) -> None:
    check(*libraries, case, False)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if {*case.shapes} == {IMAGE}], ids=str)
def test_an_operator_computes_the_same_with_channels_last(case: Case, libraries: tuple[Any, Any]) -> None:
    check(*libraries, case, True)
