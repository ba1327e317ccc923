"""Operators whose kernels ignore scales, and activations that are fused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from edgetool.execute.quantize import dequantize, random_inputs
from edgetool.model.types import DType, Model, Quantization
from edgetool.passes.legalize import STRUCTURE_RULES as STRUCTURE_RULES
from edgetool.passes.legalize import legalize
from tests.model.builders import options
from tests.passes.runs import SAMPLES, Net, assert_same_in_all, codes, differ, litert, made_legal, runtime, tflm

FLOAT, INT8, INT16 = DType.FLOAT32, DType.INT8, DType.INT16


def scaled(net: Net, shape: list[int], scale: float, zero_point: int) -> int:
    return net.tensor(shape, INT8, scales=[scale], zero_point=zero_point)


def real(model: Model, index: int, codes_: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    return dequantize(codes_, model.main.tensors[index].quantization)


@pytest.mark.parametrize(
    ("own", "result", "expected"),
    [
        ((1 / 8, 3), (3 / 128, -128), ["QUANTIZE"]),
        ((1 / 8, 3), (1 / 16, -20), ["QUANTIZE", "RELU6"]),
        ((1 / 64, -5), (1 / 16, -20), ["QUANTIZE", "RELU6"]),
    ],
    ids=["as far as its scale goes", "finer", "coarser"],
)
def test_relu6_with_two_scales(own: tuple[float, int], result: tuple[float, int], expected: list[str]) -> None:
    """LiteRT's kernel knows both scales: the same codes, but TensorFlow Lite Micro gives them only now."""
    net = Net()
    x, y = scaled(net, [256], *own), scaled(net, [256], *result)
    net.operator("RELU6", [x], [y], version=2)
    model = net.model([x], [y])
    given = (np.arange(-128, 128, dtype=np.int8).reshape(1, 256),)
    assert codes(assert_same_in_all(model, given).model) == expected
    assert differ(litert(model, given), tflm(model, given)) > 10


def test_the_largest_in_another_scale() -> None:
    net = Net()
    x, y = scaled(net, [4, 16], 1 / 16, 3), scaled(net, [4], 1 / 8, -7)
    net.operator("REDUCE_MAX", [x, net.constant([1])], [y], options("ReducerOptions"), version=2)
    model = net.model([x], [y])
    legal = made_legal(model).model
    assert codes(legal) == ["REDUCE_MAX", "QUANTIZE"]
    given = random_inputs(model, SAMPLES, seed=0)
    largest = real(model, x, given[0]).max(axis=2)
    for run in (litert, tflm):
        assert np.abs(real(model, y, run(legal, given)[0]) - largest).max() <= 1 / 16


def test_a_scale_that_the_kernel_writes_in() -> None:
    net = Net()
    x, y = scaled(net, [64], 1 / 16, 3), scaled(net, [64], 1 / 64, 0)
    net.operator("TANH", [x], [y], version=2)
    model = net.model([x], [y])
    legal = made_legal(model).model
    assert codes(legal) == ["TANH", "QUANTIZE"]
    given = random_inputs(model, SAMPLES, seed=0)
    assert np.abs(real(model, y, tflm(legal, given)[0]) - np.tanh(real(model, x, given[0]))).max() <= 1 / 64


@pytest.mark.parametrize("dtype", [INT8, INT16], ids=lambda dtype: dtype.name)
def test_backwards_in_another_scale(dtype: DType) -> None:
    """No kernel, TensorFlow Lite's neither, converts the values."""
    net = Net()
    zeros = (3, -7) if dtype is INT8 else (0, 0)
    x, y = (
        net.tensor([1, 64], dtype, scales=[scale], zero_point=zero)
        for scale, zero in zip((1 / 16, 1 / 8), zeros, strict=True)
    )
    net.operator("REVERSE_V2", [x, net.constant([1])], [y], version=3)
    model = net.model([x], [y])
    legal = made_legal(model).model
    assert codes(legal) == ["REVERSE_V2", "QUANTIZE"]
    given = random_inputs(model, SAMPLES, seed=0)
    backwards = real(model, x, given[0])[..., ::-1]
    for run in (litert, tflm):
        assert np.abs(real(model, y, run(legal, given)[0]) - backwards).max() <= 1 / 16


def test_scales_that_an_operator_computes_with_are_left_alone() -> None:
    net = Net()
    a, b, y = scaled(net, [4], 1 / 16, 3), scaled(net, [4], 1 / 8, 0), scaled(net, [4], 1 / 4, 1)
    net.operator("ADD", [a, b], [y], version=2)
    model = net.model([a, b], [y])
    assert legalize(model, runtime()).model is model


def fusable(dtype: DType, code: str, *, read_twice: bool = False) -> Model:
    net = Net()
    a, b = net.input([1, 4, 4, 2], dtype), net.input([1, 4, 4, 2], dtype)
    total = net.add_operator("ADD", [a, b], [1, 4, 4, 2], table="AddOptions")[0]
    made = net.add_operator(code, [total], [1, 4, 4, 2])
    return net.model([a, b], [*made, total] if read_twice else made)


@pytest.mark.parametrize("code", ["RELU", "RELU6"])
@pytest.mark.parametrize("dtype", [FLOAT, INT8, INT16], ids=lambda dtype: dtype.name)
def test_an_activation_is_fused(dtype: DType, code: str) -> None:
    result = assert_same_in_all(fusable(dtype, code), tolerance=1e-6)
    assert codes(result.model) == ["ADD"]
    options = result.model.main.operators[0].options
    assert options is not None
    assert options["fused_activation_function"] == code


def test_an_activation_of_what_others_read_is_not_fused() -> None:
    model = fusable(INT8, "RELU6", read_twice=True)
    assert legalize(model, runtime(), rules=STRUCTURE_RULES).model is model


def test_an_activation_that_rescales_is_not_fused() -> None:
    """The codes before and after would be rounded once in place of twice."""
    model = fusable(INT8, "RELU")
    graph = model.main
    tensors = list(graph.tensors)
    tensors[graph.outputs[0]] = replace(tensors[graph.outputs[0]], quantization=Quantization((1 / 32,), (-128,), 0))
    model = replace(model, subgraphs=(replace(graph, tensors=tuple(tensors)),))
    assert legalize(model, runtime(), rules=STRUCTURE_RULES).model is model
