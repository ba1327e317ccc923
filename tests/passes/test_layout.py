"""TRANSPOSE operators move and cancel; every output stays the same bit for bit."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.execute.quantize import random_inputs
from edgetool.model.draft import Draft
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Model
from edgetool.model.writer import write_model
from edgetool.passes.layout import Layout, axis_groups, cost, move_transposes, transpose_ends
from tests.model.builders import options
from tests.passes.cleaned import interface, same_bits
from tests.passes.layers import FLOAT, INT8, TO_NCHW, TO_NHWC, Graph, image, networks, relu
from tests.passes.runs import SAMPLES, codes, litert

SUMS = 1e-5  # of float32 in another order
NONE: dict[str, Any] = {"fused_activation_function": "NONE"}


def moved(model: Model, tolerance: float = 0.0) -> Model:
    """move_transposes, and what holds whatever it did."""
    result = move_transposes(model)
    assert move_transposes(result) is result
    assert read_model(write_model(result), name="moved") == result
    assert cost(Draft(result)) <= cost(Draft(model))
    for after, before in ((result.main.inputs, model.main.inputs), (result.main.outputs, model.main.outputs)):
        new, old = (
            [interface(graph.tensors[i]) for i in ends] for graph, ends in ((result.main, after), (model.main, before))
        )
        assert new == old
    inputs = random_inputs(model, SAMPLES, seed=0)
    first, second = litert(model, inputs), litert(result, inputs)
    if tolerance:
        for one, other in zip(first, second, strict=True):
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
    else:
        assert same_bits(first, second)
    return result


def finished(net: Graph, x: int) -> Model:
    """The network with a last convolution of a tensor whose channels are first."""
    return net.model([0], [net.pixels(net.transpose(x, TO_NHWC), 3)])


def residual(net: Graph, x: int) -> int:
    other = net.transpose(net.pixels(net.transpose(relu(net, x), TO_NHWC), 6), TO_NCHW)
    return net.apply("ADD", [other, x], fused_activation_function="RELU")


def squeeze_and_excite(net: Graph, x: int) -> int:
    means = net.reduce("REDUCE_MAX", x, (2, 3), keep_dims=True)
    gate = net.transpose(net.pixels(net.transpose(means, TO_NHWC), 6), TO_NCHW)
    return net.apply("MUL", [x, net.apply("LOGISTIC", [gate])], fused_activation_function="NONE")


def per_channel(net: Graph, x: int) -> int:
    scaled = net.apply("MUL", [x, net.noise(1, 6, 1, 1)], fused_activation_function="NONE")
    return net.apply("ADD", [net.noise(6, 1, 1), scaled], net.shape(scaled), fused_activation_function="NONE")


def rows_and_columns(net: Graph, x: int) -> int:
    return net.pad(x, (0, 0), (0, 1), (2, 0), (1, 3))


def halves(net: Graph, x: int) -> int:
    batch, channels, height, width = net.shape(x)
    shape = (batch, channels // 2, height, width)
    first, second = net.add_operator(
        "SPLIT", [net.constant(1), x], shape, shape, dtype=FLOAT, table="SplitOptions", num_splits=2
    )
    return net.concatenate([second, relu(net, first)], 1)


def crop(net: Graph, x: int) -> int:
    bounds = [net.constant(values) for values in ([0, 1, 0, 1], [0, 0, 3, 4], [1, 2, 1, 1])]
    return net.apply("STRIDED_SLICE", [x, *bounds], (1, 3, 3, 3), begin_mask=1, end_mask=3)


def part(net: Graph, x: int) -> int:
    return net.apply("SLICE", [x, net.constant([0, 2, 1, 0]), net.constant([1, 3, 2, 4])], (1, 3, 2, 4))


def columns_in_pairs(net: Graph, x: int) -> int:
    batch, channels, height, width = net.shape(x)
    split = net.reshape(x, (batch, channels, height, 2, width // 2))
    return net.reshape(relu(net, split), (batch, channels, height, width))


def prelu(net: Graph, x: int) -> int:
    return net.apply("PRELU", [x, net.noise(6, 1, 1)])


def repeated(net: Graph, x: int) -> int:
    narrow = net.reduce("REDUCE_MAX", x, (2,), keep_dims=True)
    return net.apply("BROADCAST_TO", [narrow, net.constant(net.shape(x))], net.shape(x))


@pytest.mark.parametrize(
    "middle",
    [
        relu,
        residual,
        squeeze_and_excite,
        per_channel,
        rows_and_columns,
        halves,
        crop,
        part,
        columns_in_pairs,
        prelu,
        repeated,
    ],
)
def test_no_transpose_is_left_between_convolutions(middle: Any) -> None:
    net, x = image(1, 4, 4, 3)
    result = moved(finished(net, middle(net, x)))
    assert "TRANSPOSE" not in codes(result)
    if middle is not columns_in_pairs:
        assert "RESHAPE" not in codes(result)


def test_axes_of_a_reduction_follow_the_layout() -> None:
    net, x = image(1, 4, 4, 3)
    result = moved(net.model([0], [net.dense(net.reduce("REDUCE_MAX", x, (2, 3)), 5)]))
    assert codes(result) == ["CONV_2D", "REDUCE_MAX", "FULLY_CONNECTED"]
    axes = Draft(result).values(result.main.operators[1].inputs[1])
    assert axes is not None
    assert axes.tolist() == [1, 2]


@pytest.mark.parametrize("axis", [1, 3])
def test_classes_of_pixels_are_compared_along_their_axis(axis: int) -> None:
    net, x = image(1, 4, 5, 3)
    shape = [size for place, size in enumerate(net.shape(x)) if place != axis]
    inputs = [x, net.constant(axis)]
    y = net.add_operator("ARG_MAX", inputs, shape, dtype=DType.INT32, table="ArgMaxOptions", output_type="INT32")[0]
    result = moved(net.model([0], [y]))
    assert codes(result) == (["CONV_2D", "ARG_MAX"] if axis == 1 else ["CONV_2D", "ARG_MAX", "TRANSPOSE"])


def test_softmax_stays_along_its_axis() -> None:
    net, x = image(1, 4, 5, 3)
    rows = net.apply("SOFTMAX", [x], beta=1.0)  # of the width, which is not last in the other layout
    assert codes(moved(finished(net, rows))).count("TRANSPOSE") == 2
    net, x = image(1, 4, 5, 3)
    turned = net.transpose(x, (0, 3, 2, 1))  # width, height, channels
    result = moved(
        net.model(
            [0], [net.transpose(net.apply("SOFTMAX", [net.transpose(turned, (0, 2, 1, 3))], beta=1.0), (0, 1, 2, 3))]
        )
    )
    assert cost(Draft(result))[0] <= 4 * 5 * 6


@pytest.mark.parametrize(
    "build",
    [
        lambda net: net.pad(net.noise(1, 6, 3, 4), (0, 0), (0, 0), (1, 0), (0, 0)),
        lambda net: net.apply("REVERSE_V2", [net.noise(1, 6, 4, 4), net.constant([1])]),
        lambda net: net.apply("GATHER", [net.noise(1, 6, 4, 4), net.constant([1, 0, 2, 1, 5, 3])], axis=1),
    ],
)
def test_operators_on_constants_keep_their_layout(build: Any) -> None:
    net, x = image(1, 4, 4, 4)
    moved(finished(net, net.apply("ADD", [x, build(net)], fused_activation_function="NONE")))


def test_a_slice_of_the_first_axes_keeps_its_layout() -> None:
    net, x = image(1, 4, 4, 4)
    begin, end, strides = (net.constant(row) for row in ([0, 1], [1, 3], [1, 1]))
    part = net.apply("STRIDED_SLICE", [x, begin, end, strides], (1, 2, 4, 4), begin_mask=0, end_mask=0)
    assert "STRIDED_SLICE" in codes(moved(finished(net, part)))


@pytest.mark.parametrize("is_constant", [True, False])
def test_single_values_do_not_add_axes_again(is_constant: bool) -> None:
    net = Graph()
    x = net.input((5, 4), FLOAT)
    y = net.pad(net.reshape(x, (1, 5, 4, 1)), (0, 0), (1, 0), (0, 0), (0, 0))
    factor = net.noise(1, 1, 1) if is_constant else net.reduce("REDUCE_MAX", net.reshape(x, (1, 4, 5)), (1, 2), True)
    y = net.apply("MUL", [net.apply("ADD", [y, net.noise(4, 1)], **NONE), factor], **NONE)
    result = moved(net.model([x], [net.reshape(y, (6, 4))]))
    assert len(result.main.tensors[result.main.operators[-1].inputs[0]].shape) == 2


def test_operators_between_1d_convolutions_compute_on_images() -> None:
    net = Graph()
    x = net.input((1, 1, 9, 3), FLOAT)
    y = net.reshape(net.pixels(x, 6), (1, 9, 6))
    y = net.transpose(net.pad(y, (0, 0), (2, 0), (0, 0)), (0, 2, 1))
    y = net.apply("MUL", [y, net.noise(6, 1)], fused_activation_function="NONE")
    y = net.reshape(net.transpose(y, (0, 2, 1)), (1, 1, 11, 6))
    assert codes(moved(net.model([x], [net.pixels(y, 4)]))) == ["CONV_2D", "PAD", "MUL", "CONV_2D"]


def test_a_reduction_keeps_the_axes_that_are_added_again() -> None:
    net = Graph()
    x = net.input((1, 5, 6), FLOAT)
    largest = relu(net, net.reduce("REDUCE_MAX", x, (0, 2)))
    y = net.apply("SUB", [x, net.reshape(largest, (1, 5, 1))], fused_activation_function="NONE")
    result = moved(net.model([x], [y]))
    assert codes(result) == ["REDUCE_MAX", "RELU", "SUB"]
    assert result.main.operators[0].options == options("ReducerOptions", keep_dims=True)


def test_weights_after_flattening_are_permuted() -> None:
    net, x = image(1, 4, 4, 3)
    flat = net.apply("TANH", [net.reshape(relu(net, x), (1, 96))])
    result = moved(net.model([0], [net.dense(flat, 5)]), SUMS)
    assert "TRANSPOSE" not in codes(result)
    assert codes(result).count("RESHAPE") == 1


def test_weights_of_every_reader_are_permuted() -> None:
    net, x = image(1, 4, 4, 3)
    flat = net.reshape(x, (1, 96))
    result = moved(net.model([0], [net.dense(flat, 5), net.dense(relu(net, flat), 3)]), SUMS)
    assert "TRANSPOSE" not in codes(result)
    net, x = image(1, 4, 4, 3)
    flat = net.reshape(x, (1, 96))
    result = moved(net.model([0], [net.dense(flat, 5), net.apply("CUMSUM", [flat, net.constant(1)])]), SUMS)
    assert "TRANSPOSE" in codes(result)


def test_weights_before_unflattening_are_permuted() -> None:
    net = Graph()
    x = net.input((2, 7), FLOAT)
    result = moved(finished(net, relu(net, net.reshape(net.dense(x, 96), (2, 6, 4, 4)))))
    assert "TRANSPOSE" not in codes(result)


def test_scales_follow_the_rows_of_int8_weights() -> None:
    net = Graph()
    x = net.input((1, 7), INT8)
    values = np.random.default_rng(1).integers(-127, 127, (12, 7)).astype(np.int8)
    weights = net.tensor((12, 7), INT8, data=values.tobytes(), scales=[(8 + i) / 1024 for i in range(12)])
    bias = net.tensor(
        (12,), DType.INT32, data=np.arange(12, dtype="<i4").tobytes(), scales=[(8 + i) / 16384 for i in range(12)]
    )
    y = net.apply("FULLY_CONNECTED", [x, weights, bias], (1, 12))
    turned = net.transpose(net.reshape(y, (1, 3, 4)), (0, 2, 1))
    result = moved(net.model([x], [net.pad(turned, (0, 0), (1, 0), (0, 1))]))
    assert "TRANSPOSE" not in codes(result)


def test_transposes_of_single_pixels_are_reshapes() -> None:
    net = Graph()
    x = net.input((1, 1, 5, 6), FLOAT)
    y = net.apply("CUMSUM", [net.transpose(x, (0, 2, 3, 1)), net.constant(2)])
    assert codes(moved(net.model([x], [y]))) == ["RESHAPE", "CUMSUM"]


def test_inputs_and_outputs_keep_their_layouts() -> None:
    net = Graph()
    x = net.input((1, 3, 4, 5), FLOAT)
    y = net.transpose(net.pixels(net.transpose(relu(net, x), TO_NHWC), 6), TO_NCHW)
    assert codes(moved(net.model([x], [y]))).count("TRANSPOSE") == 2
    net, y = image(1, 4, 4, 3)
    assert codes(moved(net.model([0], [y, relu(net, y)]))).count("TRANSPOSE") >= 1


def ends_moved(model: Model) -> tuple[Model, tuple[Layout | None, ...], tuple[Layout | None, ...]]:
    """transpose_ends, and what holds: with inputs in the new order, the outputs are in theirs."""
    result = transpose_ends(model)
    given_inputs = random_inputs(model, SAMPLES, seed=0)
    new_inputs = tuple(in_order(*pair) for pair in zip(given_inputs, result.inputs, strict=True))
    expected = tuple(in_order(*pair) for pair in zip(litert(model, given_inputs), result.outputs, strict=True))
    assert same_bits(litert(result.model, new_inputs), expected)
    assert read_model(write_model(result.model), name="moved") == result.model
    assert [name for name, _ in result.model.signatures[0].inputs] == [name for name, _ in model.signatures[0].inputs]
    return result.model, result.inputs, result.outputs


def in_order(samples: Any, order: Layout | None) -> Any:
    return samples if order is None else np.ascontiguousarray(np.transpose(samples, (0, *(axis + 1 for axis in order))))


def test_inputs_and_outputs_can_be_stored_with_the_channels_last() -> None:
    net = Graph()
    x = net.input((1, 3, 4, 5), FLOAT)
    y = net.transpose(net.pixels(net.transpose(x, TO_NHWC), 6), TO_NCHW)
    model, inputs, outputs = ends_moved(net.model([x], [y]))
    assert codes(model) == ["CONV_2D"]
    assert (inputs, outputs) == ((TO_NHWC,), (TO_NHWC,))
    assert [model.main.tensors[i].name for i in (*model.main.inputs, *model.main.outputs)] == [
        "tensor_0",
        f"tensor_{y}",
    ]


def test_a_single_channel_is_last_too() -> None:
    net = Graph()
    x = net.input((1, 1, 4, 5), FLOAT)
    model, inputs, outputs = ends_moved(net.model([x], [net.pixels(net.reshape(x, (1, 4, 5, 1)), 2)]))
    assert (codes(model), inputs, outputs) == (["CONV_2D"], (TO_NHWC,), (None,))


def test_series_are_stored_with_the_channels_last() -> None:
    net = Graph()
    x = net.input((1, 3, 9), FLOAT)
    y = net.pixels(net.transpose(net.reshape(x, (1, 3, 1, 9)), TO_NHWC), 2)
    model, inputs, _ = ends_moved(net.model([x], [y]))
    assert codes(model) == ["RESHAPE", "CONV_2D"]
    assert inputs == ((0, 2, 1),)


def test_an_input_that_is_also_read_otherwise_stays() -> None:
    net = Graph()
    x = net.input((1, 3, 4, 5), FLOAT)
    y = net.pixels(net.transpose(x, TO_NHWC), 6)
    model, inputs, outputs = ends_moved(net.model([x], [y, relu(net, x)]))
    assert codes(model).count("TRANSPOSE") == 1
    assert (inputs, outputs) == ((None,), (None, None))
    net = Graph()
    x = net.input((1, 3, 4, 5), FLOAT)
    turned = net.transpose(x, TO_NHWC)
    model, inputs, outputs = ends_moved(net.model([x], [turned, net.pixels(turned, 2)]))
    assert inputs == (None,)
    net = Graph()
    x = net.input((1, 3, 4, 5), FLOAT)
    assert ends_moved(net.model([x], [net.transpose(x, TO_NHWC)]))[1:] == ((None,), (None,))


@given(st.lists(st.integers(1, 6), max_size=5), st.data())
def test_groups_of_axes_have_equal_sizes(shape: list[int], data: st.DataObject) -> None:
    whole = [size for size in shape if size != 1]
    cut = data.draw(st.integers(0, len(whole)))
    after = [1, prod(whole[:cut]), *whole[cut:], 1]
    groups = axis_groups(shape, after)
    assert all(prod(shape[axis] for axis in old) == prod(after[axis] for axis in new) for old, new in groups)
    assert [axis for old, _ in groups for axis in old] == [axis for axis, size in enumerate(shape) if size != 1]
    assert [axis for _, new in groups for axis in new] == [axis for axis, size in enumerate(after) if size != 1]


@settings(max_examples=60)
@given(networks())
def test_random_networks_keep_their_outputs(model: Model) -> None:
    moved(model)
