from __future__ import annotations

import pytest

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from tests.operators.prepare.asked import F, asked, constant
from tests.operators.prepare.calls import tensor

Q = tensor(1, 4, scale=0.5, zero_point=3)
W = tensor(1, 4, dtype=DType.INT16, scale=0.5)
IMAGE = tensor(1, 4, 4, 8, scale=0.5)


@pytest.mark.parametrize("one", [Q, W, tensor(1, 4, dtype=F), tensor(1, 4, dtype=DType.BOOL)])
def test_concatenation_looks_at_its_first_input_twice(one: Tensor) -> None:
    result = tensor(3, 4, dtype=one.dtype, scale=0.5, zero_point=3 if one is Q else 0)
    assert asked("CONCATENATION", [one, one, one], [result]) == ["t0", "t3", "t0", "t1", "t2"]


@pytest.mark.parametrize(
    ("inputs", "result", "activation", "reason"),
    [
        ([Q] * 11, Q, "NONE", "at most 10 inputs, not 11"),
        ([Q], Q, "RELU", "the fused activation 'RELU'"),
        ([Q, W], Q, "NONE", "input 1 of type int8, not int16"),
        ([Q, tensor(1, 4, scale=0.25, zero_point=3)], Q, "NONE", "quantized like the output"),
        ([Q], tensor(1, 4, scale=0.5), "NONE", "quantized like the output"),
        ([tensor(4, dtype=DType.INT16, scale=0.5, zero_point=1)], W, "NONE", "zero points of 0"),
        ([W], tensor(4, dtype=DType.INT16, scale=0.5, zero_point=1), "NONE", "zero points of 0"),
        ([tensor(1, 1, 1, 1, 1, 1, 1, dtype=F)], tensor(1, dtype=F), "NONE", "0 to 6 dimensions, not 7"),
        ([tensor(4, dtype=DType.UINT8)], tensor(4, dtype=DType.UINT8), "NONE", "not uint8"),
    ],
)
def test_what_concatenation_does_not_take(inputs: list[Tensor], result: Tensor, activation: str, reason: str) -> None:
    with pytest.raises(KernelRefusal, match=reason):
        asked("CONCATENATION", inputs, [result], fused_activation_function=activation)


@pytest.mark.parametrize(("code", "position"), [("SPLIT", 0), ("SPLIT_V", 2)])
def test_splits_look_at_a_constant_axis_alone(code: str, position: int) -> None:
    inputs = [constant(2, 2), Q, Q]
    inputs[position] = constant(1)
    assert asked(code, inputs, [Q, Q]) == [f"t{position}"]
    inputs[position] = tensor(1, dtype=DType.INT32)
    with pytest.raises(KernelRefusal, match=f"{code} requires its axis to be constant in the file"):
        asked(code, inputs, [Q, Q])


def test_split_v_takes_three_inputs() -> None:
    with pytest.raises(KernelRefusal, match="requires 3 inputs, not 4"):
        asked("SPLIT_V", [Q, constant(2, 2), constant(1), Q], [Q, Q])


@pytest.mark.parametrize("code", ["PACK", "UNPACK"])
def test_pack_and_unpack_have_no_prepare(code: str) -> None:
    assert asked(code, [tensor(2, dtype=DType.STRING)], [Q]) == []


@pytest.mark.parametrize("cmsis_nn", [False, True])
def test_transpose(cmsis_nn: bool) -> None:
    assert asked("TRANSPOSE", [Q, constant(1, 0)], [Q], cmsis_nn=cmsis_nn) == ["t0", "t1", "t2"]


@pytest.mark.parametrize(
    ("permutation", "result", "reason"),
    [
        (tensor(2, dtype=DType.INT32), Q, "requires its permutation to be constant in the file"),
        (constant(0, 2), Q, "axes from 0 to 1, not 2"),
        (constant(1, 0, 2), Q, "2 axes for 2 dimensions"),
        (constant(1, 0), W, "int8 together with int16"),
    ],
)
def test_what_transpose_does_not_take(permutation: Tensor, result: Tensor, reason: str) -> None:
    with pytest.raises(KernelRefusal, match=reason):
        asked("TRANSPOSE", [Q, permutation], [result])


def test_a_permutation_of_int64_is_read_as_words_of_int32() -> None:
    # (1, 0) is 1, 0, 0, 0 in words: its first two are taken, and they are in range.
    assert asked("TRANSPOSE", [Q, constant(1, 0, dtype=DType.INT64)], [Q]) == ["t0", "t1", "t2"]
    # (-2, 0) begins with -2.
    with pytest.raises(KernelRefusal, match="not -2"):
        asked("TRANSPOSE", [Q, constant(-2, 0, dtype=DType.INT64)], [Q])


def test_blocks_copy_the_dimensions_of_the_output() -> None:
    # A TfLiteIntArray of 4: its length and 4 numbers, on any processor.
    deep = tensor(1, 2, 2, 32, scale=0.5)
    assert asked("SPACE_TO_DEPTH", [IMAGE], [deep], block_size=2) == ["t0", "t1", ("persistent", 20)]
    assert asked("DEPTH_TO_SPACE", [deep], [IMAGE], block_size=2) == ["t0", "t1", ("persistent", 20)]


@pytest.mark.parametrize(
    ("code", "one", "block", "reason"),
    [
        ("SPACE_TO_DEPTH", IMAGE, 3, "4 x 4 into blocks of 3"),
        ("SPACE_TO_DEPTH", IMAGE, 0, "a block size of 0"),
        ("SPACE_TO_DEPTH", tensor(4, 4, 8, scale=0.5), 2, "4 dimensions, not 3"),
        ("DEPTH_TO_SPACE", IMAGE, 3, "8 channels into blocks of 3"),
        ("DEPTH_TO_SPACE", IMAGE, -2, "a block size of -2"),
        ("DEPTH_TO_SPACE", tensor(1, 4, 4, 8, dtype=DType.INT16), 2, "float32, int8, not int16"),
    ],
)
def test_what_blocks_do_not_take(code: str, one: Tensor, block: int, reason: str) -> None:
    with pytest.raises(KernelRefusal, match=reason):
        asked(code, [one], [one], block_size=block)


@pytest.mark.parametrize("code", ["SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"])
def test_batches(code: str) -> None:
    # The block shape and the crops may be computed: Prepare does not look at them.
    computed = tensor(2, dtype=DType.INT32)
    assert asked(code, [IMAGE, computed, computed], [IMAGE]) == ["t0", "t3"]
    with pytest.raises(KernelRefusal, match="3 to 4 dimensions, not 2"):
        asked(code, [Q, computed, computed], [IMAGE])


@pytest.mark.parametrize("code", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
def test_resizing(code: str) -> None:
    assert asked(code, [IMAGE, constant(8, 8)], [IMAGE]) == ["t0", "t1", "t2"]
    with pytest.raises(KernelRefusal, match="requires its size to be constant in the file"):
        asked(code, [IMAGE, tensor(2, dtype=DType.INT32)], [IMAGE])
    with pytest.raises(KernelRefusal, match="int32, not int64"):
        asked(code, [IMAGE, constant(8, 8, dtype=DType.INT64)], [IMAGE])


def test_only_bilinear_resizing_minds_where_pixels_lie() -> None:
    both = {"half_pixel_centers": True, "align_corners": True}
    assert asked("RESIZE_NEAREST_NEIGHBOR", [IMAGE, constant(8, 8)], [IMAGE], **both) == ["t0", "t1", "t2"]
    with pytest.raises(KernelRefusal, match="aligned corners"):
        asked("RESIZE_BILINEAR", [IMAGE, constant(8, 8)], [IMAGE], **both)
    with pytest.raises(KernelRefusal, match="a height and a width"):
        asked("RESIZE_NEAREST_NEIGHBOR", [IMAGE, constant(8)], [IMAGE])


def test_reversing_takes_axes_that_are_computed() -> None:
    assert asked("REVERSE_V2", [Q, tensor(1, dtype=DType.INT32)], [Q]) == ["t0", "t1", "t2"]
    with pytest.raises(KernelRefusal, match="at most as many axes as dimensions, not 3 axes for 2"):
        asked("REVERSE_V2", [Q, constant(0, 1, 1)], [Q])
    with pytest.raises(KernelRefusal, match="not uint32"):
        asked("REVERSE_V2", [tensor(4, dtype=DType.UINT32), constant(0)], [tensor(4, dtype=DType.UINT32)])
