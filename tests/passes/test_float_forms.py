"""Float graphs get the operators that Keras models have, and compute the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from edgetool.execute.quantize import random_inputs
from edgetool.model.draft import Draft
from edgetool.model.types import DType, Model, Quantization
from edgetool.passes.float_forms import tidy_float
from tests.passes.cleaned import interface
from tests.passes.layers import FLOAT, TO_NCHW, TO_NHWC, Graph, image, networks
from tests.passes.runs import SAMPLES, codes, litert


def tidied(model: Model, tolerance: float = 1e-5) -> Model:
    """tidy_float, and what holds whatever it did."""
    result = tidy_float(model)
    assert tidy_float(result) is result
    for graph, ends in ((result.main, "inputs"), (result.main, "outputs")):
        new, old = getattr(graph, ends), getattr(model.main, ends)
        assert [interface(graph.tensors[i]) for i in new] == [interface(model.main.tensors[i]) for i in old]
    inputs = random_inputs(model, SAMPLES, seed=0)
    for one, other in zip(litert(model, inputs), litert(result, inputs), strict=True):
        np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance)
    return result


def fused(net: Graph, code: str, inputs: list[int], activation: str = "NONE", shape: Any = None) -> int:
    return net.apply(code, inputs, shape, fused_activation_function=activation)


def weighted(net: Graph, code: str, bias: bool = True) -> int:
    """An operator with weights and six output channels."""
    x = net.input((1, 4, 4, 3) if code != "FULLY_CONNECTED" else (2, 3), FLOAT)
    biases = [net.noise(6)] if bias else []
    if code == "FULLY_CONNECTED":
        return net.apply(code, [x, net.noise(6, 3), *biases], (2, 6))
    if code == "TRANSPOSE_CONV":
        inputs = [net.constant((1, 8, 8, 6)), net.noise(6, 2, 2, 3), x, *biases]
        return net.add_operator(
            code,
            inputs,
            (1, 8, 8, 6),
            dtype=FLOAT,
            version=3,
            table="TransposeConvOptions",
            padding="VALID",
            stride_w=2,
            stride_h=2,
        )[0]
    if code == "DEPTHWISE_CONV_2D":
        inputs = [x, net.noise(1, 3, 3, 6), *biases]
        return net.apply(code, inputs, (1, 4, 4, 6), padding="SAME", stride_w=1, stride_h=1, depth_multiplier=2)
    return net.apply(code, [x, net.noise(6, 1, 1, 3), *biases], (1, 4, 4, 6), padding="VALID", stride_w=1, stride_h=1)


@pytest.mark.parametrize(
    ("code", "bias"),
    [
        ("CONV_2D", True),
        ("DEPTHWISE_CONV_2D", True),
        ("FULLY_CONNECTED", True),
        ("FULLY_CONNECTED", False),
        ("TRANSPOSE_CONV", True),
        ("TRANSPOSE_CONV", False),
    ],
)
def test_batch_normalization_becomes_weights(code: str, bias: bool) -> None:
    net = Graph()
    y = weighted(net, code, bias)
    y = fused(net, "MUL", [net.noise(6), y], shape=net.shape(y))
    y = fused(net, "SUB", [y, net.noise(6)])
    y = fused(net, "DIV", [y, net.constant([0.75], FLOAT)])
    y = fused(net, "SUB", [net.noise(1, 6), y], shape=net.shape(y))
    result = tidied(net.model([0], [net.apply("RELU6", [fused(net, "ADD", [y, net.noise(6)])])]))
    assert codes(result) == ([code, "RELU6"] if code == "TRANSPOSE_CONV" else [code])


@pytest.mark.parametrize(("shape", "joined"), [((1, 16, 6), True), ((16, 6), True), ((1, 4, 8, 3), False)])
def test_bias_and_rectifier_join_weights_before_a_move_that_keeps_the_channels(
    shape: tuple[int, ...], joined: bool
) -> None:
    net = Graph()
    moved = net.reshape(weighted(net, "CONV_2D"), shape)
    y = fused(net, "ADD", [moved, net.noise(shape[-1])])
    result = codes(tidied(net.model([0], [net.apply("RELU", [y])])))
    assert result == (["CONV_2D", "RESHAPE"] if joined else ["CONV_2D", "RESHAPE", "ADD"])


def test_arithmetic_that_differs_within_a_channel_stays() -> None:
    net = Graph()
    y = weighted(net, "CONV_2D")
    assert "MUL" in codes(tidied(net.model([0], [fused(net, "MUL", [y, net.noise(1, 4, 4, 6)])])))
    net = Graph()
    y = weighted(net, "CONV_2D")
    assert "MUL" in codes(tidied(net.model([0], [y, fused(net, "MUL", [y, net.noise(6)])])))


@pytest.mark.parametrize(
    ("size", "window", "stride", "padding", "is_same"),
    [
        (8, 3, 1, (1, 1), True),
        (8, 3, 1, (0, 2), False),
        (8, 3, 2, (1, 1), False),
        (8, 3, 2, (0, 1), True),
        (9, 3, 2, (1, 1), True),
        (8, 5, 1, (2, 2), True),
        (8, 5, 1, (1, 1), False),
        (8, 2, 1, (0, 1), True),
        (8, 2, 1, (1, 0), False),
    ],
)
@pytest.mark.parametrize("code", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_padding_fuses_where_it_is_equal(
    code: str, size: int, window: int, stride: int, padding: tuple[int, int], is_same: bool
) -> None:
    net = Graph()
    x = net.input((1, size, size, 2), FLOAT)
    padded = net.pad(x, (0, 0), padding, padding, (0, 0))
    out = (size + sum(padding) - window) // stride + 1
    weights = net.noise(*((1, window, window, 2) if code.startswith("D") else (2, window, window, 2)))
    extra = {"depth_multiplier": 1} if code.startswith("D") else {}
    y = net.apply(
        code,
        [padded, weights, net.noise(2)],
        (1, out, out, 2),
        padding="VALID",
        stride_w=stride,
        stride_h=stride,
        **extra,
    )
    assert codes(tidied(net.model([x], [y]))) == ([code] if is_same else ["PAD", code])


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_a_depthwise_convolution_of_one_channel_is_a_convolution(channels: int, bias: bool) -> None:
    net = Graph()
    x = net.input((1, 9, 7, channels), FLOAT)
    y = net.apply(
        "DEPTHWISE_CONV_2D",
        [x, net.noise(1, 3, 2, 4), *([net.noise(4)] if bias else [])],
        (1, 5, 4, 4),
        padding="SAME",
        stride_w=2,
        stride_h=2,
        depth_multiplier=4 // channels,
        fused_activation_function="RELU",
    )
    result = tidied(net.model([x], [y]))
    assert codes(result) == ["CONV_2D" if channels == 1 else "DEPTHWISE_CONV_2D"]


def number(net: Graph, value: float) -> int:
    return net.constant(value, FLOAT)


def hard_swish(net: Graph, x: int) -> int:
    gate = net.apply("RELU6", [fused(net, "ADD", [x, number(net, 3)])])
    return fused(net, "MUL", [x, fused(net, "MUL", [gate, number(net, 1 / 6)])])


def hard_swish_by_division(net: Graph, x: int) -> int:
    low = net.apply("MAXIMUM", [fused(net, "ADD", [x, number(net, 3)]), number(net, 0)])
    return fused(net, "DIV", [fused(net, "MUL", [net.apply("MINIMUM", [low, number(net, 6)]), x]), number(net, 6)])


def clamped(net: Graph, x: int) -> int:
    return net.apply("MAXIMUM", [net.apply("MINIMUM", [x, number(net, 6)]), number(net, 0)])


def rectified(net: Graph, x: int) -> int:
    return net.apply("MAXIMUM", [x, number(net, 0)])


def leaky(net: Graph, x: int) -> int:
    return net.apply("MAXIMUM", [x, fused(net, "MUL", [x, number(net, 0.1)])])


def uniform_prelu(net: Graph, x: int) -> int:
    return net.apply("PRELU", [x, net.constant(np.full(4, 0.25), FLOAT)])


def gelu(net: Graph, x: int) -> int:
    cube = fused(net, "MUL", [fused(net, "MUL", [x, x]), x])
    inner = fused(net, "ADD", [x, fused(net, "MUL", [cube, number(net, 0.044715)])])
    gate = net.apply("TANH", [fused(net, "MUL", [inner, number(net, (2 / np.pi) ** 0.5)])])
    half = fused(net, "MUL", [x, number(net, 0.5)])
    return fused(net, "MUL", [half, fused(net, "ADD", [gate, number(net, 1)])])


def gelu_by_series(net: Graph, x: int) -> int:
    """GELU with erf by formula 7.1.26 of Abramowitz and Stegun."""
    scaled = fused(net, "DIV", [x, number(net, 2**0.5)])
    distance = net.apply("ABS", [scaled])
    below = fused(net, "ADD", [fused(net, "MUL", [distance, number(net, 0.3275911)]), number(net, 1)])
    t = fused(net, "DIV", [number(net, 1), below], shape=net.shape(x))
    series = fused(net, "MUL", [t, number(net, 1.061405429)])
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = fused(net, "MUL", [fused(net, "ADD", [series, number(net, coefficient)]), t])
    power = net.apply("EXP", [fused(net, "MUL", [net.apply("NEG", [distance]), distance])])
    rest = fused(net, "SUB", [number(net, 1), fused(net, "MUL", [series, power])], shape=net.shape(x))
    erf = fused(net, "MUL", [net.apply("SIGN", [scaled]), rest])
    gate = fused(net, "ADD", [erf, number(net, 1)])
    return fused(net, "MUL", [fused(net, "MUL", [x, gate]), number(net, 0.5)])


def sigmoid(net: Graph, x: int) -> int:
    power = net.apply("EXP", [net.apply("NEG", [x])])
    return fused(net, "DIV", [number(net, 1), fused(net, "ADD", [power, number(net, 1)])], shape=net.shape(x))


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (hard_swish, "HARD_SWISH"),
        (hard_swish_by_division, "HARD_SWISH"),
        (clamped, "RELU6"),
        (rectified, "RELU"),
        (leaky, "LEAKY_RELU"),
        (uniform_prelu, "LEAKY_RELU"),
        (gelu, "GELU"),
        (gelu_by_series, "GELU"),
        (sigmoid, "LOGISTIC"),
    ],
)
def test_activation_functions_are_recognized(build: Callable[[Graph, int], int], code: str) -> None:
    net = Graph()
    x = net.input((2, 3, 4), FLOAT)
    assert codes(tidied(net.model([x], [build(net, x)]))) == [code]


def test_a_multiple_of_a_function_is_recognized() -> None:
    """As converters leave it that have moved the factor 1 / 6 or 1 / 2 into the weights behind."""
    net = Graph()
    x = net.input((2, 3, 4), FLOAT)
    gate = net.apply("RELU6", [fused(net, "ADD", [x, number(net, 3)])])
    assert codes(tidied(net.model([x], [fused(net, "MUL", [gate, x])]))) == ["HARD_SWISH", "MUL"]


def test_the_factor_of_a_function_joins_the_weights_behind() -> None:
    net = Graph()
    x = net.input((2, 4), FLOAT)
    gate = net.apply("RELU6", [fused(net, "ADD", [x, number(net, 3)])])
    y = net.dense(fused(net, "MUL", [gate, x]), 3)
    assert codes(tidied(net.model([x], [y]))) == ["HARD_SWISH", "FULLY_CONNECTED"]


@pytest.mark.parametrize(("value", "code"), [(-3.4028235e38, "MIRROR_PAD"), (-np.inf, "MIRROR_PAD"), (0.5, "PADV2")])
def test_the_smallest_number_around_maxima_becomes_a_mirror_image(value: float, code: str) -> None:
    net = Graph()
    x = net.input((1, 6, 5, 2), FLOAT)
    padded = net.apply("PADV2", [x, net.constant([(0, 0), (1, 1), (1, 1), (0, 0)]), number(net, value)], (1, 8, 7, 2))
    window = {"filter_height": 3, "filter_width": 3, "stride_h": 2, "stride_w": 2}
    y = net.apply("MAX_POOL_2D", [padded], (1, 3, 3, 2), padding="VALID", **window)
    assert codes(tidied(net.model([x], [y]))) == [code, "MAX_POOL_2D"]


@pytest.mark.parametrize("bias", [True, False])
def test_arithmetic_before_a_dense_layer_is_part_of_it(bias: bool) -> None:
    net = Graph()
    x = net.input((1, 4, 5), FLOAT)
    shifted = fused(net, "ADD", [fused(net, "MUL", [x, net.noise(5)]), net.noise(5)])
    inputs = [shifted, net.noise(3, 5), *([net.noise(3)] if bias else [])]
    y = net.apply("FULLY_CONNECTED", inputs, (1, 4, 3), keep_num_dims=True)
    assert codes(tidied(net.model([x], [y]), 1e-4)) == ["FULLY_CONNECTED"]


@pytest.mark.parametrize("reads_elsewhere", [True, False])
def test_arithmetic_before_several_dense_layers_is_part_of_all(reads_elsewhere: bool) -> None:
    net = Graph()
    x = net.input((1, 4, 5), FLOAT)
    shifted = fused(net, "ADD", [fused(net, "MUL", [x, net.noise(5)]), net.noise(5)])
    results = [
        net.apply("FULLY_CONNECTED", [shifted, net.noise(3, 5), net.noise(3)], (1, 4, 3), keep_num_dims=True),
        net.apply("FULLY_CONNECTED", [shifted, net.noise(2, 5)], (1, 4, 2), keep_num_dims=True),
        net.dense(net.reshape(shifted, (4, 5)), 6),
    ]
    if reads_elsewhere:
        results.append(net.apply("TANH", [shifted]))
    found = set(codes(tidied(net.model([x], results), 1e-4)))
    assert found - {"RESHAPE"} == {"FULLY_CONNECTED", *(("MUL", "ADD", "TANH") if reads_elsewhere else ())}


def test_arithmetic_with_an_activation_or_another_reader_stays_before_a_dense_layer() -> None:
    net = Graph()
    x = net.input((4, 5), FLOAT)
    clamped = fused(net, "ADD", [x, net.noise(5)], "RELU")
    shared = fused(net, "MUL", [x, net.noise(5)])
    result = tidied(net.model([x], [net.dense(clamped, 3), net.dense(shared, 3), shared]))
    assert sorted(codes(result)) == ["ADD", "FULLY_CONNECTED", "FULLY_CONNECTED", "MUL"]


@pytest.mark.parametrize("code", ["MUL", "DIV"])
def test_a_factor_joins_the_softmax_behind_a_product(code: str) -> None:
    net = Graph()
    x, y = net.input((1, 4, 3), FLOAT), net.input((1, 3, 4), FLOAT)
    scaled = [fused(net, code, [tensor, number(net, 0.5)]) for tensor in (x, y)]
    scores = net.apply("BATCH_MATMUL", scaled, (1, 4, 4), adj_x=False, adj_y=False)
    result = tidied(net.model([x, y], [net.apply("SOFTMAX", [net.reshape(scores, (4, 4))], beta=1.0)]))
    assert codes(result) == ["BATCH_MATMUL", "RESHAPE", "SOFTMAX"]
    options = result.main.operators[-1].options
    assert options is not None
    assert options["beta"] == {"MUL": 0.25, "DIV": 4.0}[code]


def test_a_factor_that_is_read_elsewhere_or_negative_stays() -> None:
    net = Graph()
    x, y = net.input((1, 4, 4), FLOAT), net.input((1, 4, 4), FLOAT)
    negative = net.apply("SOFTMAX", [fused(net, "MUL", [x, number(net, -0.5)])], beta=1.0)
    shared = fused(net, "MUL", [y, number(net, 0.5)])
    result = tidied(net.model([x, y], [negative, net.apply("SOFTMAX", [shared], beta=1.0), shared]))
    assert codes(result).count("MUL") == 2


@pytest.mark.parametrize("place", [1, -1])
def test_a_slice_keeps_its_axes_before_a_reshape(place: int) -> None:
    """The transposition in front of it then moves over it, and becomes part of the RESHAPE."""
    net = Graph()
    x = net.input((5, 3, 1, 4), FLOAT)
    moved = net.transpose(x, (1, 0, 2, 3))
    bounds = [net.constant([place, 0, 0, 0]), net.constant([place + 1, 0, 0, 0]), net.constant([1, 1, 1, 1])]
    y = net.apply(
        "STRIDED_SLICE",
        [moved, *bounds],
        (5, 1, 4),
        begin_mask=14,
        end_mask=14,
        ellipsis_mask=0,
        new_axis_mask=0,
        shrink_axis_mask=1,
    )
    assert codes(tidied(net.model([x], [net.reshape(y, (1, 5, 2, 2))]))) == ["STRIDED_SLICE", "RESHAPE"]


def test_a_softplus_does_not_select() -> None:
    net = Graph()
    x = net.input((2, 3, 4), FLOAT)
    logarithm = net.apply("LOG", [fused(net, "ADD", [net.apply("EXP", [x]), number(net, 1)])])
    is_large = net.add_operator("GREATER", [x, number(net, 20)], (2, 3, 4), dtype=DType.BOOL)[0]
    y = net.apply("SELECT_V2", [is_large, x, logarithm], (2, 3, 4))
    net.tensors[y] = replace(net.tensors[y], dtype=FLOAT)
    assert codes(tidied(net.model([x], [y]))) == ["EXP", "ADD", "LOG"]


def test_other_functions_stay() -> None:
    net = Graph()
    x = net.input((2, 3, 4), FLOAT)
    swish = fused(net, "MUL", [x, net.apply("LOGISTIC", [x])])
    shifted = net.apply("MAXIMUM", [fused(net, "ADD", [x, number(net, 0.001)]), number(net, 0)])
    assert codes(tidied(net.model([x], [swish, shifted]))) == ["LOGISTIC", "MUL", "ADD"]


def test_a_function_whose_parts_are_read_stays() -> None:
    net = Graph()
    x = net.input((2, 3, 4), FLOAT)
    gate = net.apply("RELU6", [fused(net, "ADD", [x, number(net, 3)])])
    y = fused(net, "MUL", [x, fused(net, "MUL", [gate, number(net, 1 / 6)])])
    assert "HARD_SWISH" not in codes(tidied(net.model([x], [y, gate])))


def test_reductions_drop_axes_and_read_images() -> None:
    net, x = image(1, 4, 5, 3)
    means = net.reduce("MEAN", net.reshape(x, (1, 6, 20)), (2,), keep_dims=True)
    result = tidied(net.model([0], [net.dense(net.reshape(means, (1, 6)), 2)]))
    assert codes(result) == ["CONV_2D", "MEAN", "FULLY_CONNECTED"]
    axes = Draft(result).values(result.main.operators[1].inputs[1])
    assert axes is not None
    assert axes.tolist() == [1, 2]


@pytest.mark.parametrize("adj_y", [False, True])
@pytest.mark.parametrize("rank", [2, 3])
def test_products_with_constants_are_dense(adj_y: bool, rank: int) -> None:
    net = Graph()
    x = net.input((2, 4, 3)[3 - rank :], FLOAT)
    matrix = net.noise(5, 3) if adj_y else net.noise(3, 5)
    y = net.apply("BATCH_MATMUL", [x, matrix], (*net.shape(x)[:-1], 5), adj_y=adj_y, adj_x=False)
    y = fused(net, "ADD", [y, net.noise(5)])
    assert codes(tidied(net.model([x], [y]))) == ["FULLY_CONNECTED"]


def test_constants_are_computed() -> None:
    net = Graph()
    x = net.input((1, 4, 4, 6), FLOAT)
    filters = net.transpose(net.noise(6, 6, 1, 1), (0, 2, 3, 1))
    scaled = fused(net, "MUL", [filters, net.noise(6, 1, 1, 1)])
    y = net.apply("CONV_2D", [x, scaled, net.noise(6)], (1, 4, 4, 6), padding="VALID", stride_w=1, stride_h=1)
    assert codes(tidied(net.model([x], [y]))) == ["CONV_2D"]


def test_a_network_with_channels_first_equals_that_with_channels_last() -> None:
    net, x = image(1, 6, 6, 3)
    x = fused(net, "ADD", [fused(net, "MUL", [x, net.noise(1, 6, 1, 1)]), net.noise(6, 1, 1)])
    x = hard_swish(net, x)
    padded = net.pad(x, (0, 0), (0, 0), (1, 1), (1, 1))
    weights = net.noise(1, 3, 3, 6)
    y = net.apply(
        "DEPTHWISE_CONV_2D",
        [net.transpose(padded, TO_NHWC), weights, net.noise(6)],
        (1, 6, 6, 6),
        padding="VALID",
        stride_w=1,
        stride_h=1,
        depth_multiplier=1,
    )
    y = net.transpose(y, TO_NCHW)
    means = net.reduce("MEAN", fused(net, "ADD", [x, y]), (2, 3), keep_dims=True)
    result = tidied(net.model([0], [net.dense(net.reshape(means, (1, 6)), 4)]), 1e-4)
    expected = ["CONV_2D", "HARD_SWISH", "DEPTHWISE_CONV_2D", "ADD", "MEAN", "FULLY_CONNECTED"]
    assert codes(result) == expected


@settings(max_examples=30)
@given(networks())
def test_random_networks_keep_their_outputs(model: Model) -> None:
    tidied(model, 0.0)


def test_constants_for_each_row_are_not_those_of_channels() -> None:
    net = Graph()
    y = net.input((1, 4, 4), FLOAT)
    for code in ("SUB", "MUL", "ADD"):
        y = fused(net, code, [y, net.noise(4, 1)])
    assert codes(tidied(net.model([0], [y]))) == ["SUB", "MUL", "ADD"]


def test_longer_chains_of_constants_are_merged() -> None:
    net = Graph()
    x = net.input((1, 5, 4), FLOAT)
    y = fused(net, "MUL", [fused(net, "SUB", [x, net.noise(4)]), net.noise(1, 4)])
    y = fused(net, "ADD", [fused(net, "MUL", [y, net.noise(4)]), net.noise(4)], "RELU")
    assert codes(tidied(net.model([x], [y]))) == ["MUL", "ADD"]
    net = Graph()
    x = net.input((1, 5, 4), FLOAT)
    assert codes(tidied(net.model([x], [fused(net, "ADD", [fused(net, "SUB", [x, net.noise(4)]), net.noise(4)])]))) == [
        "ADD"
    ]


# Weights that are quantized and dequantized


@pytest.mark.parametrize(
    ("code", "operand", "axis"),
    [
        ("TRANSPOSE", (1, 2, 3, 0), 3),
        ("TRANSPOSE", (0, 2, 3, 1), 0),
        ("RESHAPE", (6, 1, 2, 4), 0),
        ("RESHAPE", (2, 3, 8), None),
    ],
)
def test_weights_are_moved_before_they_are_quantized(code: str, operand: tuple[int, ...], axis: int | None) -> None:
    net = Graph()
    x = net.input((1,), FLOAT)
    weights, scales = net.noise(6, 4, 1, 2), tuple(0.02 * channel for channel in range(1, 7))
    (quantized,) = net.add_operator("QUANTIZE", [weights], net.shape(weights), dtype=DType.INT8)
    net.tensors[quantized] = replace(net.tensors[quantized], quantization=Quantization(scales, (0,) * 6, 0))
    (reals,) = net.add_operator("DEQUANTIZE", [quantized], net.shape(weights), dtype=FLOAT)
    moved = net.transpose(reals, operand) if code == "TRANSPOSE" else net.reshape(reals, operand)
    model = tidied(net.model([x], [net.apply("ADD", [moved, x])]))
    unmoved = [] if axis is not None else [code]
    assert codes(model) == ["QUANTIZE", "DEQUANTIZE", *unmoved, "ADD"]
    (tensor,) = (tensor for tensor in model.main.tensors if tensor.dtype is DType.INT8)
    assert tensor.quantization == Quantization(scales, (0,) * 6, axis or 0)
