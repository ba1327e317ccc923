from __future__ import annotations

import pytest

from edgetool.operators.kernel import Call, KernelRefusal
from edgetool.operators.work.registry import work_of
from edgetool.target.load import DEFAULT_RUNTIME, load_runtime
from edgetool.target.platform import make_platform
from tests.memory.account_net import Net
from tests.operators.work.runs import FLOAT32, run


def test_tensors_with_other_axes_than_the_kernel_reads_have_no_work() -> None:
    net = Net(1)
    x, slopes = net.arena(1, 2, 2, 2, 3, dtype=FLOAT32), net.noise(3, dtype=FLOAT32)
    with pytest.raises(KernelRefusal, match="PRELU takes no tensors"):
        run(net.model([x], [net.op("PRELU", [x, slopes])]))


def test_a_row_of_pixels_is_no_image_to_scatter() -> None:
    net = Net(1)
    x, weights = net.arena(1, 8, 20), net.noise(4, 3, 3, 20)
    inputs = [net.constant((1, 3, 23, 4)), weights, x]
    with pytest.raises(KernelRefusal, match="TRANSPOSE_CONV"):
        run(net.model([x], [net.op("TRANSPOSE_CONV", inputs, 1, 3, 23, 4, stride_h=3, stride_w=3)]))


def test_a_result_smaller_than_its_padding_has_no_work() -> None:
    net = Net(1)
    x, around = net.arena(4, 5, dtype=FLOAT32), net.constant((0, 0, 3, 3), 2, 2)
    with pytest.raises(KernelRefusal, match="PAD makes no result"):
        run(net.model([x], [net.op("PAD", [x, around], 4, 5)]))


def test_sides_that_no_device_holds_are_not_walked() -> None:
    """A hostile file may name a window for each of two thousand million places."""
    net = Net(1)
    x = net.arena(1, 2**31 - 1, 1, 1)
    y = net.op(
        "CONV_2D", [x, net.filter(1, 1, 3, 1, like=x), net.biases(1, like=x)], padding="SAME", stride_h=1, stride_w=1
    )
    model = net.model([x], [y])
    platform = make_platform(load_runtime(DEFAULT_RUNTIME), "arm-eabi", "reference")
    assert work_of(Call(model, model.main, model.main.operators[0], platform, {})) is None
