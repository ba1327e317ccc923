"""Copies in another scale, which come as LEAKY_RELU that lets everything through.

int16 layers: dense with a scale for each channel, and convolutions without a bias.

Operators whose kernels ignore scales, and activations that are fused.
"""

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
LEAST = 2.0**-24  # below 1, in float32


def leaky(slope: float, dtype: DType = INT8, scale: float = 3 / 128, zero_point: int = -20) -> Model:
    net = Net()
    x = net.input([1, 256], dtype)
    quantized = {"scales": (scale,), "zero_point": zero_point if dtype is INT8 else 0} if dtype is not FLOAT else {}
    y = net.tensor([1, 256], dtype, **quantized)
    net.operator("LEAKY_RELU", [x], [y], options("LeakyReluOptions", alpha=float(np.float32(slope))), version=2)
    return net.model([x], [y])


@pytest.mark.parametrize("scale", [5 / 256, 1 / 16, 3 / 16], ids=["finer", "the same", "coarser"])
@pytest.mark.parametrize("slope", [1 - LEAST, 1 - 3 * LEAST, 1.0])
def test_a_copy_has_the_same_codes(slope: float, scale: float) -> None:
    model = leaky(slope, scale=scale)
    legal = made_legal(model).model
    assert codes(legal) == ["QUANTIZE"]
    given = (np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 256),)
    for run in (litert, tflm):
        np.testing.assert_array_equal(run(legal, given)[0], run(model, given)[0])


def test_it_is_not_reported() -> None:
    assert legalize(leaky(1 - LEAST), runtime()).sentences({}) == ()


@pytest.mark.parametrize(
    ("slope", "dtype"),
    [(0.999, INT8), (0.0, INT8), (1 - LEAST, INT16), (1 - LEAST, FLOAT), (float("nan"), INT8)],
)
def test_what_may_change_values_stays(slope: float, dtype: DType) -> None:
    """A code of int16 would be off by 0.65 where an int8 one is off by 0.0026."""
    model = leaky(slope, dtype)
    assert legalize(model, runtime(), rules=STRUCTURE_RULES).model is model


ACTIVATION, WEIGHT = 1 / 1024, 1 / 128


def dense(*, rows: int, per_channel: bool, activation: str = "NONE", biased: bool = True) -> Model:
    net = Net(seed=3)
    generator = np.random.default_rng(0)
    x = net.tensor([rows, 8], DType.INT16, scales=[ACTIVATION])
    scales = [WEIGHT * (1 + i % 2) for i in range(4)] if per_channel else [WEIGHT]
    weights = net.tensor([4, 8], data=generator.integers(-127, 128, 32).astype(np.int8).tobytes(), scales=scales)
    bias = generator.integers(-(2**20), 2**20, 4)
    products = [ACTIVATION * scale for scale in scales]
    inputs = [x, weights, net.tensor([4], DType.INT64, data=bias.tobytes(), scales=products) if biased else -1]
    y = net.tensor([rows, 4], DType.INT16, scales=[1 / 512])
    given = options("FullyConnectedOptions", fused_activation_function=activation)
    net.operator("FULLY_CONNECTED", inputs, [y], given, version=11)
    return net.model([x], [y])


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("activation", ["NONE", "RELU"])
@pytest.mark.parametrize("biased", [True, False])
def test_rows_become_pixels(rows: int, activation: str, biased: bool) -> None:
    model = dense(rows=rows, per_channel=True, activation=activation, biased=biased)
    legal = assert_same_in_all(model).model
    assert codes(legal) == ["RESHAPE", "CONV_2D", "RESHAPE"]
    assert sum(len(data or b"") for data in legal.data) <= sum(len(data or b"") for data in model.data) + 80


def test_one_scale_for_all_channels_is_left_alone() -> None:
    model = dense(rows=2, per_channel=False)
    assert legalize(model, runtime()).model is model


@pytest.mark.parametrize("inputs", [3, 4], ids=["none", "left out"])
def test_a_bias_of_zeros(inputs: int) -> None:
    net = Net(seed=4)
    x, y = (
        net.tensor([1, 3, 3, 2], DType.INT16, scales=[ACTIVATION]),
        net.tensor([1, 6, 6, 4], DType.INT16, scales=[1 / 512]),
    )
    given = [net.constant([1, 6, 6, 4]), net.weights([4, 2, 2, 2], 0), x, -1][:inputs]
    net.operator("TRANSPOSE_CONV", given, [y], options("TransposeConvOptions", stride_w=2, stride_h=2), version=3)
    legal = assert_same_in_all(net.model([x], [y])).model
    assert [legal.main.tensors[i].dtype for i in legal.main.operators[0].inputs[3:]] == [DType.INT64]


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
