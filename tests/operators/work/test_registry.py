from __future__ import annotations

import pytest

from edgetool.operators.kernel import KernelRefusal
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
