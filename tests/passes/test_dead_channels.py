"""Channels that no output depends on are removed, and every output stays the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.model.draft import Draft
from edgetool.model.types import DType, Model, Quantization
from edgetool.passes.dead_channels import RemovedChannels, remove_dead_channels
from tests.passes.cleaned import PASS, cleaned
from tests.passes.runs import SCALE, ZERO_POINT, Net

WEIGHT_SCALE = 1 / 64


@dataclass
class Layers:
    """A network of convolutions whose weights and biases are given."""

    net: Net

    def weights(self, values: npt.NDArray[np.int8], axis: int) -> int:
        scales = (WEIGHT_SCALE,) * values.shape[axis]
        return self.net.tensor(values.shape, DType.INT8, data=values.tobytes(), scales=scales, axis=axis)

    def bias(self, values: npt.NDArray[np.int32]) -> int:
        scales = (WEIGHT_SCALE * SCALE,) * len(values)
        return self.net.tensor(values.shape, DType.INT32, data=values.tobytes(), scales=scales)

    def dense(self, x: int, weights: npt.NDArray[np.int8], bias: Any, act: str = "NONE") -> int:
        operands = [x, self.weights(weights, 0), self.bias(np.asarray(bias, np.int32))]
        table = "FullyConnectedOptions"
        shape = (1, len(weights))
        return self.net.add_operator("FULLY_CONNECTED", operands, shape, table=table, fused_activation_function=act)[0]

    def layer(
        self, code: str, x: int, weights: npt.NDArray[np.int8], bias: Any, padding: str = "SAME", act: str = "RELU"
    ) -> int:
        is_conv = code == "CONV_2D"
        _, height, width, _ = self.net.tensors[x].shape
        rows, columns = weights.shape[1:3]
        if padding == "VALID":
            height, width = height - rows + 1, width - columns + 1
        fields: dict[str, Any] = {"depth_multiplier": 1} if not is_conv else {}
        return self.net.add_operator(
            code,
            [x, self.weights(weights, 0 if is_conv else 3), self.bias(np.asarray(bias, np.int32))],
            (1, height, width, weights.shape[0 if is_conv else 3]),
            table="Conv2DOptions" if is_conv else "DepthwiseConv2DOptions",
            padding=padding,
            stride_h=1,
            stride_w=1,
            dilation_h_factor=1,
            dilation_w_factor=1,
            fused_activation_function=act,
            **fields,
        )[0]


@dataclass
class Trimmed:
    model: Model
    removed: list[RemovedChannels]


def trimmed(model: Model) -> Trimmed:
    """The model without dead channels, and the record of each operator."""
    result, changes = cleaned(model, PASS["dead-channels"])
    removed = remove_dead_channels(Draft(model))
    assert bool(removed) == bool(changes)
    return Trimmed(result, removed)


def separable(first: Any, bias: Any, depthwise_bias: Any, padding: str, read_twice: bool = False) -> Model:
    """Return a 1x1 convolution, a 3x3 depthwise convolution, and another 1x1 convolution."""
    random = np.random.default_rng(0)
    layers = Layers(Net())
    x = layers.net.input((1, 6, 6, 2), DType.INT8)
    channels = len(bias)
    wide = layers.layer("CONV_2D", x, first, bias)
    depthwise = random.integers(-9, 9, (1, 3, 3, channels), np.int8)
    deep = layers.layer("DEPTHWISE_CONV_2D", wide, depthwise, depthwise_bias, padding)
    last = random.integers(-127, 127, (3, 1, 1, channels), np.int8)
    result = layers.layer("CONV_2D", deep, last, [5, 6, 7], act="NONE")
    return layers.net.model([x], [result, wide] if read_twice else [result])


def first_weights(channels: int, dead: tuple[int, ...]) -> npt.NDArray[np.int8]:
    weights = np.random.default_rng(1).integers(1, 90, (channels, 1, 1, 2), np.int8)
    weights[list(dead)] = 0
    return weights


def test_channels_at_the_zero_point_are_removed_through_padded_depthwise_convolutions() -> None:
    model = separable(first_weights(8, (1, 4)), [-50] * 8, [-20] * 8, "SAME")
    result = trimmed(model)
    assert [(change.operator_label, change.removed, change.channels) for change in result.removed] == [
        ("CONV_2D", 2, 8),
        ("DEPTHWISE_CONV_2D", 2, 8),
    ]


def test_other_constant_channels_move_into_the_next_bias() -> None:
    model = separable(first_weights(8, (1, 4)), [9000] * 8, [20] * 8, "VALID")
    assert [change.removed for change in trimmed(model).removed] == [2, 2]


def test_constant_channels_stay_where_padding_differs_from_them() -> None:
    model = separable(first_weights(8, (1, 4)), [9000] * 8, [20] * 8, "SAME")
    assert trimmed(model).removed == []


@pytest.mark.parametrize(("padding", "removed"), [("SAME", []), ("VALID", [2])])
def test_a_convolution_that_pads_needs_constants_other_than_its_padding(padding: str, removed: list[int]) -> None:
    layers = Layers(Net())
    x = layers.net.input((1, 4, 4, 2), DType.INT8)
    wide = layers.layer("CONV_2D", x, first_weights(6, (1, 4)), [9000] * 6)
    last = np.random.default_rng(3).integers(1, 90, (3, 3, 3, 6), np.int8)
    result = layers.layer("CONV_2D", wide, last, [0] * 3, padding, act="NONE")
    model = layers.net.model([x], [result])
    assert [change.removed for change in trimmed(model).removed] == removed


def test_channels_of_an_output_of_the_model_stay() -> None:
    model = separable(first_weights(8, (1, 4)), [-50] * 8, [-20] * 8, "SAME", read_twice=True)
    assert trimmed(model).removed == []


def test_channels_that_always_saturate_are_constant() -> None:
    bias = [-50] * 8
    bias[3] = -(10**6)
    assert [change.removed for change in trimmed(separable(first_weights(8, ()), bias, [0] * 8, "SAME")).removed] == [
        1,
        1,
    ]


def test_one_channel_stays_if_all_are_dead() -> None:
    model = separable(first_weights(4, (0, 1, 2, 3)), [-50] * 4, [-20] * 4, "SAME")
    assert [change.removed for change in trimmed(model).removed] == [3, 3]


def test_unread_channels_are_removed() -> None:
    layers = Layers(Net())
    random = np.random.default_rng(2)
    x = layers.net.input((1, 4, 4, 2), DType.INT8)
    wide = layers.layer("CONV_2D", x, random.integers(-90, 90, (6, 3, 3, 2), np.int8), [0] * 6)
    last = random.integers(1, 90, (3, 3, 3, 6), np.int8)
    last[..., 2] = 0
    result = layers.layer("CONV_2D", wide, last, [0] * 3)
    assert [change.removed for change in trimmed(layers.net.model([x], [result])).removed] == [1]


def widened(layers: Layers, dead: tuple[int, ...] = (1, 4), bias: int = -50) -> tuple[int, int]:
    """The input of a network, and the output of its first convolution, of 8 channels, of which some are constant."""
    x = layers.net.input((1, 4, 4, 2), DType.INT8)
    return x, layers.layer("CONV_2D", x, first_weights(8, dead), [bias] * 8)


def dense_weights(depth: int, seed: int = 4) -> npt.NDArray[np.int8]:
    return np.random.default_rng(seed).integers(1, 90, (3, depth), np.int8)


@pytest.mark.parametrize("bias", [-50, 9000], ids=["zero", "constant"])
def test_channels_are_followed_into_dense_layers_of_flat_images(bias: int) -> None:
    layers = Layers(Net())
    x, wide = widened(layers, bias=bias)
    flat = layers.net.reshape(wide, (1, 4 * 4 * 8))
    result = layers.dense(flat, dense_weights(4 * 4 * 8), [0] * 3)
    result = trimmed(layers.net.model([x], [result]))
    assert [(change.operator_label, change.removed) for change in result.removed] == [("CONV_2D", 2), ("RESHAPE", 32)]
    reshape = result.model.main.operators[1]
    assert result.model.main.tensors[reshape.inputs[1]].data == np.array([1, 96], np.int32).tobytes()


def test_dense_layers_read_images_without_reshape() -> None:
    layers = Layers(Net())
    x, wide = widened(layers)
    result = layers.dense(wide, dense_weights(4 * 4 * 8), [0] * 3)
    assert [change.removed for change in trimmed(layers.net.model([x], [result])).removed] == [2]


def test_channels_between_dense_layers_are_removed() -> None:
    layers = Layers(Net())
    x = layers.net.input((1, 5), DType.INT8)
    first = np.random.default_rng(5).integers(1, 90, (6, 5), np.int8)
    first[[0, 3]] = 0
    hidden = layers.dense(x, first, [-9] * 6, act="RELU")
    result = layers.dense(hidden, dense_weights(6), [0] * 3)
    assert [change.removed for change in trimmed(layers.net.model([x], [result])).removed] == [2]


@pytest.mark.parametrize("keep_dims", [True, False])
@pytest.mark.parametrize(("bias", "removed"), [(-50, [2, 2]), (9000, [])], ids=["zero", "constant"])
def test_means_keep_zeros_only(keep_dims: bool, bias: int, removed: list[int]) -> None:
    layers = Layers(Net())
    x, wide = widened(layers, bias=bias)
    shape = (1, 1, 1, 8) if keep_dims else (1, 8)
    operands = [wide, layers.net.constant([1, 2])]
    mean = layers.net.add_operator("MEAN", operands, shape, table="ReducerOptions", keep_dims=keep_dims)[0]
    result = layers.dense(mean, dense_weights(8), [0] * 3)
    assert [change.removed for change in trimmed(layers.net.model([x], [result])).removed] == removed


def test_a_mean_of_channels_is_not_followed() -> None:
    layers = Layers(Net())
    x, wide = widened(layers)
    operands = [wide, layers.net.constant([3])]
    mean = layers.net.add_operator("MEAN", operands, (1, 4, 4, 1), table="ReducerOptions", keep_dims=True)[0]
    assert trimmed(layers.net.model([x], [mean])).removed == []


@pytest.mark.parametrize(
    ("dead", "removed"), [((1, 4), [2, 2, 2]), ((1, 3), [1, 1, 1]), ((0, 3), [])], ids=["both", "one of two", "none"]
)
def test_sums_lose_channels_that_are_constant_in_both_terms(dead: tuple[int, ...], removed: list[int]) -> None:
    layers = Layers(Net())
    x, wide = widened(layers, bias=700)
    other = layers.layer("CONV_2D", x, first_weights(8, dead), [300] * 8)
    total = layers.net.add_operator("ADD", [wide, other], (1, 4, 4, 8), table="AddOptions")[0]
    last = np.random.default_rng(3).integers(1, 90, (3, 1, 1, 8), np.int8)
    result = layers.layer("CONV_2D", total, last, [0] * 3, act="NONE")
    assert [change.removed for change in trimmed(layers.net.model([x], [result])).removed] == removed


def test_concatenations_keep_the_channels_that_stay_of_each_input() -> None:
    layers = Layers(Net())
    x, wide = widened(layers)
    other = layers.layer("CONV_2D", x, first_weights(4, (2,)), [-50] * 4)
    joined = layers.net.add_operator(
        "CONCATENATION", [wide, other, wide], (1, 4, 4, 20), table="ConcatenationOptions", axis=-1
    )[0]
    last = np.random.default_rng(3).integers(1, 90, (3, 1, 1, 20), np.int8)
    result = layers.layer("CONV_2D", joined, last, [0] * 3, act="NONE")
    assert [change.removed for change in trimmed(layers.net.model([x], [result])).removed] == [2, 1, 5]


def test_concatenations_of_rows_have_the_channels_of_all_inputs() -> None:
    layers = Layers(Net())
    x, wide = widened(layers)
    other = layers.layer("CONV_2D", x, first_weights(8, (4, 5)), [-50] * 8)
    joined = layers.net.add_operator(
        "CONCATENATION", [wide, other], (1, 8, 4, 8), table="ConcatenationOptions", axis=1
    )[0]
    last = np.random.default_rng(3).integers(1, 90, (3, 1, 1, 8), np.int8)
    result = layers.layer("CONV_2D", joined, last, [0] * 3, act="NONE")
    assert [change.removed for change in trimmed(layers.net.model([x], [result])).removed] == [1, 1, 1]


def test_a_reshape_that_mixes_channels_is_not_followed() -> None:
    layers = Layers(Net())
    x, wide = widened(layers)
    mixed = layers.net.reshape(wide, (1, 8, 4, 4))
    last = np.random.default_rng(3).integers(1, 90, (3, 1, 1, 4), np.int8)
    result = layers.layer("CONV_2D", mixed, last, [0] * 3, act="NONE")
    assert trimmed(layers.net.model([x], [result])).removed == []


@pytest.mark.parametrize("scale", [0.0, float("inf"), float("nan")])
def test_operators_with_odd_scales_are_not_followed(scale: float) -> None:
    model = separable(first_weights(8, (1, 4)), [-50] * 8, [-20] * 8, "SAME")
    odd = Quantization((scale,), (ZERO_POINT,), 0)
    first = model.main.operators[0].outputs[0]
    tensors = tuple(replace(each, quantization=odd) if each.index == first else each for each in model.main.tensors)
    changed = replace(model, subgraphs=(replace(model.main, tensors=tensors),))
    assert remove_dead_channels(Draft(changed)) == []


def random_network(seed: int, channels: list[int], padding: str, size: int) -> Model:
    """Layers that the pass follows, drawn by a seed, with weights and biases of which many are zero or saturate."""
    random = np.random.default_rng(seed)
    layers = Layers(Net())
    net = layers.net
    x = current = net.input((1, 12, 12, 3), DType.INT8)
    for count in channels:
        shape = net.tensors[current].shape
        kind = str(random.choice(["CONV_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "ADD", "CONCATENATION"]))
        if kind in {"ADD", "CONCATENATION"}:
            other = layers.layer("CONV_2D", current, *random_layer(random, (shape[3], 1, 1, shape[3]), 0), "VALID")
            wide = (*shape[:3], shape[3] * (1 + (kind == "CONCATENATION")))
            fields = {"axis": 3} if kind == "CONCATENATION" else {}
            table = "ConcatenationOptions" if fields else "AddOptions"
            current = net.add_operator(kind, [current, other], wide, table=table, **fields)[0]
            continue
        is_depthwise = kind == "DEPTHWISE_CONV_2D"
        sizes = (1, size, size, shape[3]) if is_depthwise else (count, size, size, shape[3])
        act = str(random.choice(["NONE", "RELU", "RELU6", "RELU_N1_TO_1"]))
        current = layers.layer(kind, current, *random_layer(random, sizes, 3 if is_depthwise else 0), padding, act)
    shape, end = net.tensors[current].shape, str(random.choice(["image", "MEAN", "flat"]))
    if end == "MEAN":
        operands = [current, net.constant([1, 2])]
        current = net.add_operator("MEAN", operands, (1, shape[3]), table="ReducerOptions")[0]
    elif end == "flat":
        current = net.reshape(current, (1, shape[1] * shape[2] * shape[3]))
    if end != "image":
        current = layers.dense(current, *random_layer(random, (4, net.tensors[current].shape[1]), 0))
    return net.model([x], [current])


def random_layer(random: np.random.Generator, shape: tuple[int, ...], axis: int) -> tuple[Any, Any]:
    weights = random.integers(-60, 60, shape, np.int8)
    weights[(slice(None),) * axis + (random.random(shape[axis]) < 0.4,)] = 0
    weights[..., random.random(shape[-1]) < 0.2] = 0
    return weights, random.integers(-9000, 4000, shape[axis])


NETWORKS = {
    "seed": st.integers(0, 2**32 - 1),
    "channels": st.lists(st.integers(1, 9), min_size=1, max_size=5),
    "padding": st.sampled_from(["SAME", "VALID"]),
    "size": st.sampled_from([1, 2, 3]),
}


@settings(max_examples=8)
@given(**NETWORKS)
def test_outputs_of_some_random_networks_stay_the_same(seed: int, channels: list[int], padding: str, size: int) -> None:
    trimmed(random_network(seed, channels, padding, size))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(**NETWORKS)
def test_outputs_of_random_networks_stay_the_same(seed: int, channels: list[int], padding: str, size: int) -> None:
    trimmed(random_network(seed, channels, padding, size))
