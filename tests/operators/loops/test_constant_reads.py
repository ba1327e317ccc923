"""How many times kernels read their constants."""

from __future__ import annotations

import pytest

from edgetool.model.types import DType, Model
from edgetool.operators.call import Call
from edgetool.operators.registry import constant_reads
from edgetool.target.platform import Platform
from tests.memory.account_convolutions import dense, lstm
from tests.memory.account_net import Net
from tests.operators.loops.runs import DSP, FLOAT32, INT8, INT16, MVE, PLAIN, REFERENCE

BUILDS = (REFERENCE, PLAIN, DSP, MVE)


def reads(model: Model) -> tuple[int, ...]:
    """Of the model's only operator, on each build."""

    def of(platform: Platform) -> int:
        return constant_reads(Call(model, model.main, model.main.operators[0], platform, {}))

    return tuple(of(build) for build in BUILDS)


@pytest.mark.parametrize(
    ("dtype", "kernel", "stride", "expected"),
    [
        (INT8, 3, 1, (70, 35, 35, 18)),
        (INT8, 1, 1, (70, 1, 1, 19)),  # 17 times four rows, and two rows alone
        (INT8, 1, 2, (20, 5, 5, 5)),  # five rows of four pixels
        (INT16, 1, 1, (70, 35, 35, 18)),
        (FLOAT32, 1, 1, (70, 70, 70, 70)),
        (FLOAT32, 3, 1, (70, 70, 70, 70)),
    ],
)
def test_a_convolution(dtype: DType, kernel: int, stride: int, expected: tuple[int, ...]) -> None:
    net = Net(1)
    x = net.arena(1, 10, 7, 4, dtype=dtype)
    inputs = [x, net.filter(8, kernel, kernel, 4, like=x), net.biases(8, like=x)]
    options = {"padding": "SAME", "stride_h": stride, "stride_w": stride}
    y = net.op("CONV_2D", inputs, 1, -(-10 // stride), -(-7 // stride), 8, **options)
    assert reads(net.model([x], [y])) == expected


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((1, 12), INT8, (1, 1, 1, 1)),
        ((6, 12), INT8, (6, 6, 6, 6)),
        ((2, 3, 12), INT8, (6, 1, 1, 3)),  # runs as a convolution
        ((2, 3, 9), INT8, (6, 6, 6, 6)),
        ((2, 3, 12), INT16, (6, 6, 6, 6)),
        ((2, 3, 12), FLOAT32, (6, 6, 6, 6)),
    ],
)
def test_a_dense_layer(shape: tuple[int, ...], dtype: DType, expected: tuple[int, ...]) -> None:
    net = Net(1)
    x = net.arena(*shape, dtype=dtype)
    assert reads(net.model([x], [dense(net, x, 7, keep=len(shape) > 2)])) == expected


@pytest.mark.parametrize("time_major", [False, True])
def test_a_recurrent_layer_reads_its_weights_in_every_step_of_every_sequence(time_major: bool) -> None:
    assert reads(lstm(INT8, time_major=time_major)) == (10,) * 4


def test_what_no_kernel_takes_is_read_once() -> None:
    net = Net(1)
    x = net.arena(1, 8)
    weights = net.tensor((), INT8, data=bytes(1), scales=[1.0])
    assert reads(net.model([x], [net.op("FULLY_CONNECTED", [x, weights, -1], 1, 4)])) == (1,) * 4
