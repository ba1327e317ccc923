"""int16 layers: dense with a scale for each channel, and convolutions without a bias."""

from __future__ import annotations

import numpy as np
import pytest

from edgetool.model.types import DType, Model
from edgetool.passes.legalize import legalize
from tests.model.builders import options
from tests.passes.runs import Net, assert_same_in_all, codes, runtime

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
