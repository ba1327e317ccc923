from __future__ import annotations

import pytest

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from tests.operators.prepare.asked import F, asked, constant
from tests.operators.prepare.calls import tensor

Q = tensor(1, 4, scale=0.5, zero_point=3)
PADDED = tensor(1, 7, scale=0.5, zero_point=3)
AROUND = constant(0, 0, 1, 2, shape=(2, 2))


@pytest.mark.parametrize("cmsis_nn", [False, True])
def test_pad_looks_once_at_each_tensor(cmsis_nn: bool) -> None:
    assert asked("PAD", [Q, AROUND], [PADDED], cmsis_nn=cmsis_nn) == ["t0", "t1", "t2"]
    value = tensor(1, scale=0.5, zero_point=3)
    assert asked("PADV2", [Q, AROUND, value], [PADDED], cmsis_nn=cmsis_nn) == ["t0", "t1", "t2", "t3"]


def test_a_value_left_out_is_not_looked_at() -> None:
    assert asked("PADV2", [Q, AROUND, None], [PADDED]) == ["t0", "t1", "t2"]


@pytest.mark.parametrize(
    ("inputs", "result", "reason"),
    [
        ([Q, tensor(2, 2, dtype=DType.INT32)], PADDED, "requires its paddings to be constant in the file"),
        ([Q, constant(0, 0)], PADDED, "2 paddings for each of 2 dimensions"),
        ([Q, AROUND], tensor(1, 8, scale=0.5, zero_point=3), "produces 7 in dimension 1, but the file specifies 8"),
        ([Q, AROUND], tensor(1, 7, dtype=F), "int8 together with float32"),
        ([Q, AROUND, tensor(1, dtype=F)], PADDED, "input 2 of type int8"),
        ([Q, AROUND, tensor(2, scale=0.5, zero_point=3)], PADDED, "one padding value, not 2"),
        ([Q, AROUND, tensor(1, scale=0.25, zero_point=3)], PADDED, "quantized like the output"),
        ([Q, AROUND], tensor(1, 7, scale=0.5, zero_point=200), "a zero point of 200"),
        ([tensor(*[1] * 6, dtype=F), AROUND], tensor(1, 7, dtype=F), "0 to 5 dimensions, not 6"),
    ],
)
def test_what_pad_does_not_take(inputs: list[Tensor], result: Tensor, reason: str) -> None:
    with pytest.raises(KernelRefusal, match=reason):
        asked("PAD", inputs, [result])


def test_paddings_of_int64_are_read_as_words_of_int32() -> None:
    # (1, 0), (0, 0) is 1, 0, 0, 0, ... in words: the first dimension grows by one, as it should.
    paddings = constant(1, 0, 0, 0, dtype=DType.INT64, shape=(2, 2))
    assert asked("PAD", [tensor(1, 4, dtype=F), paddings], [tensor(2, 4, dtype=F)]) == ["t0", "t1", "t2"]
    # (0, 1) is 0, 0, 1, 0: the one lands in the second dimension.
    paddings = constant(0, 1, 0, 0, dtype=DType.INT64, shape=(2, 2))
    with pytest.raises(KernelRefusal, match="produces 1 in dimension 0, but the file specifies 2"):
        asked("PAD", [tensor(1, 4, dtype=F), paddings], [tensor(2, 4, dtype=F)])


def test_mirror_pad_keeps_strides_of_both_sides_in_scratch_buffers() -> None:
    requests = asked("MIRROR_PAD", [Q, AROUND], [PADDED], mode="REFLECT")
    assert requests == ["t0", "t1", "t2", ("scratch", 8), ("scratch", 8)]
    with pytest.raises(KernelRefusal, match="paddings for 2 dimensions"):
        asked("MIRROR_PAD", [Q, constant(0, 0, 1, 2)], [PADDED])


def test_broadcast_to() -> None:
    result = tensor(2, 3, 4, dtype=F)
    for dtype in (DType.INT32, DType.INT64):
        shape = constant(2, 3, 4, dtype=dtype)
        assert asked("BROADCAST_TO", [tensor(3, 1, dtype=F), shape], [result]) == ["t0", "t1", "t2"]


@pytest.mark.parametrize(
    ("source", "shape", "result", "reason"),
    [
        (tensor(3, dtype=F), tensor(2, dtype=DType.INT32), tensor(2, 3, dtype=F), "requires its shape to be constant"),
        (tensor(3, dtype=F), constant(2, 4), tensor(2, 4, dtype=F), "cannot broadcast"),
        (tensor(3, dtype=F), constant(2, 3), tensor(1, 3, dtype=F), "but the file specifies"),
        (tensor(3, dtype=F), constant(2, 3), tensor(3, dtype=F), "a shape with 1 dimensions"),
        (tensor(1, dtype=F), constant(*[1] * 6), tensor(*[1] * 6, dtype=F), "cannot broadcast"),
        (tensor(1, dtype=F), constant(1, dtype=DType.INT16), tensor(1, dtype=F), "int32, int64, not int16"),
    ],
)
def test_what_broadcast_to_does_not_take(source: Tensor, shape: Tensor, result: Tensor, reason: str) -> None:
    with pytest.raises(KernelRefusal, match=reason):
        asked("BROADCAST_TO", [source, shape], [result])


def test_fill() -> None:
    scalar, result = tensor(dtype=F), tensor(2, 3, dtype=F)
    assert asked("FILL", [constant(2, 3, dtype=DType.INT8), scalar], [result]) == ["t0", "t1", "t2"]
    with pytest.raises(KernelRefusal, match="requires its shape to be constant in the file"):
        asked("FILL", [tensor(2, dtype=DType.INT32), scalar], [result])
    with pytest.raises(KernelRefusal, match="input 1 with 0 dimensions, not 1"):
        asked("FILL", [constant(2, 3), tensor(1, dtype=F)], [result])
    with pytest.raises(KernelRefusal, match=r"produces \(2, 4\)"):
        asked("FILL", [constant(2, 4), scalar], [result])
    with pytest.raises(KernelRefusal, match="input 1 of type float32, not int8"):
        asked("FILL", [constant(2, 3), tensor()], [result])
