"""Channels that no output depends on are removed, and every output stays the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.execute.quantize import random_inputs
from edgetool.model.reader import read_model
from edgetool.model.types import DType, Model
from edgetool.model.writer import write_model
from edgetool.passes.dead_channels import Trimmed, remove_dead_channels
from tests.passes.runs import SCALE, Net, differ, tflm

SAMPLES = 32
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


def trimmed(model: Model) -> Trimmed:
    """remove_dead_channels, and what holds whatever it did: names stay, the file reads back, TFLM's outputs too."""
    result = remove_dead_channels(model)
    assert read_model(write_model(result.model), name="trimmed") == result.model
    assert remove_dead_channels(result.model).removed == ()
    for kept, old in ((result.model.main.inputs, model.main.inputs), (result.model.main.outputs, model.main.outputs)):
        assert [result.model.main.tensors[i].name for i in kept] == [model.main.tensors[i].name for i in old]
    assert result.model.signatures[0].key == model.signatures[0].key
    if result.removed:
        inputs = random_inputs(model, SAMPLES, seed=0)
        assert differ(tflm(model, inputs), tflm(result.model, inputs)) == 0
    else:
        assert result.model == model
    return result


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
    assert trimmed(model).removed == ()


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
    assert trimmed(model).removed == ()


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


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    channels=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    padding=st.sampled_from(["SAME", "VALID"]),
    size=st.sampled_from([1, 2, 3]),
)
def test_outputs_of_random_networks_stay_the_same(seed: int, channels: list[int], padding: str, size: int) -> None:
    random = np.random.default_rng(seed)
    layers = Layers(Net())
    x = current = layers.net.input((1, 12, 12, 3), DType.INT8)
    for count in channels:
        depth = layers.net.tensors[current].shape[3]
        is_depthwise = bool(random.integers(2))
        shape = (1, size, size, depth) if is_depthwise else (count, size, size, depth)
        weights = random.integers(-60, 60, shape, np.int8)
        axis = 3 if is_depthwise else 0
        weights[(slice(None),) * axis + (random.random(shape[axis]) < 0.4,)] = 0
        weights[..., random.random(shape[3]) < 0.2] = 0
        bias = random.integers(-9000, 4000, shape[axis])
        act = str(random.choice(["NONE", "RELU", "RELU6", "RELU_N1_TO_1"]))
        current = layers.layer("DEPTHWISE_CONV_2D" if is_depthwise else "CONV_2D", current, weights, bias, padding, act)
    trimmed(layers.net.model([x], [current]))
