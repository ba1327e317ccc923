""""""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from edgetool.operators.loops import LoopCounts, Loops
from edgetool.target.platform import Platform
from tests.memory.account_net import Net
from tests.operators.asked import F, asked, constant
from tests.operators.builds import DSP, MVE, REFERENCE
from tests.operators.calls import tensor
from tests.operators.runs import FLOAT32, INT8, INT16, run

Q = tensor(1, 4, scale=0.5, zero_point=3)
W = tensor(1, 4, dtype=DType.INT16, scale=0.5)
IMAGE = tensor(1, 4, 4, 8, scale=0.5)


@pytest.mark.parametrize("one", [Q, W, tensor(1, 4, dtype=F), tensor(1, 4, dtype=DType.BOOL)])
def test_concatenation_requests_its_first_input_twice(one: Tensor) -> None:
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
def test_concatenation_rejects(inputs: list[Tensor], result: Tensor, activation: str, reason: str) -> None:
    with pytest.raises(KernelRefusal, match=reason):
        asked("CONCATENATION", inputs, [result], fused_activation_function=activation)


@pytest.mark.parametrize(("code", "position"), [("SPLIT", 0), ("SPLIT_V", 2)])
def test_splits_request_only_a_constant_axis(code: str, position: int) -> None:
    inputs = [constant(2, 2), Q, Q]
    inputs[position] = constant(1)
    assert asked(code, inputs, [Q, Q]) == [f"t{position}"]
    inputs[position] = tensor(1, dtype=DType.INT32)
    with pytest.raises(KernelRefusal, match=f"{code} requires its axis to be constant in the file"):
        asked(code, inputs, [Q, Q])


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
def test_transpose_rejects(permutation: Tensor, result: Tensor, reason: str) -> None:
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
def test_operands_that_block_operators_reject(code: str, one: Tensor, block: int, reason: str) -> None:
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


def words_copied(loops: Loops) -> int:
    """The words of copies that are all aligned."""
    blocks = (("64 bytes", 16), ("16 bytes", 4), ("words", 1))
    return sum(loops.get(f"copied {name}", 0) * words for name, words in blocks)


def copies(loops: Loops) -> int:
    return loops.get("copies", 0) + loops.get("short uneven copies", 0)


def joined(shapes: list[tuple[int, ...]], axis: int, *, dtype: DType = FLOAT32) -> LoopCounts:
    net = Net(1)
    inputs = [net.arena(*shape, dtype=dtype) for shape in shapes]
    at = axis % len(shapes[0])
    made = (*shapes[0][:at], sum(shape[at] for shape in shapes), *shapes[0][at + 1 :])
    return run(net.model(inputs, [net.op("CONCATENATION", inputs, *made, axis=axis)]))


def test_each_turn_copies_a_piece_of_each_input() -> None:
    loops = joined([(2, 3, 4), (2, 5, 4)], 1).loops
    assert (loops["turn"], loops["input"], copies(loops)) == (2, 2, 4)
    assert words_copied(loops) == 2 * 8 * 4


def test_pieces_of_bytes_lie_anywhere() -> None:
    loops = joined([(8, 5), (8, 3)], -1, dtype=INT8).loops
    # the first input's pieces go to multiples of 8, and come from multiples of 5, two of which are multiples of 4;
    # those of the second go to 5 behind
    assert (loops["copies"], loops["short uneven copies"]) == (2, 14)


def apart(code: str, shape: tuple[int, ...], axis: int, number: int) -> LoopCounts:
    net = Net(1)
    x = net.arena(*shape, dtype=INT16)
    if code == "UNPACK":
        parts = [net.arena(*shape[:axis], *shape[axis + 1 :], dtype=INT16) for _ in range(number)]
        net.give(code, [x], parts, num=number, axis=axis)
    else:
        part = (*shape[:axis], shape[axis] // number, *shape[axis + 1 :])
        parts = [net.arena(*part, dtype=INT16) for _ in range(number)]
        sizes = net.constant([shape[axis] // number] * number)
        inputs = [net.scalar(axis), x] if code == "SPLIT" else [x, sizes, net.scalar(axis - len(shape))]
        net.give(code, inputs, parts, num_splits=number)
    return run(net.model([x], parts))


@pytest.mark.parametrize(("code", "number"), [("SPLIT", 2), ("SPLIT_V", 2), ("UNPACK", 4)])
def test_pieces_are_taken_apart_element_by_element(code: str, number: int) -> None:
    work = apart(code, (3, 4, 5), 1, number)
    assert work == LoopCounts(
        "int16", {"axis": 3, "outer axis": 1, "tensor": number, "turn": 3, "piece": 3 * number, "element": 60}
    )


def test_pack_has_the_loops_of_unpack() -> None:
    net = Net(1)
    parts = [net.arena(3, 5, dtype=INT16) for _ in range(4)]
    packed = run(net.model(parts, [net.op("PACK", parts, 3, 4, 5, values_count=4, axis=-2)]))
    assert packed == apart("UNPACK", (3, 4, 5), 1, 4)


def transposed(
    shape: tuple[int, ...], axes: tuple[int, ...], *, dtype: DType = INT8, platform: Platform = REFERENCE
) -> LoopCounts:
    net = Net(1)
    x = net.arena(*shape, dtype=dtype)
    y = net.op("TRANSPOSE", [x, net.constant(axes)], *(shape[axis] for axis in axes))
    return run(net.model([x], [y]), platform)


def calls(shape: tuple[int, ...]) -> int:
    """The calls of a function that calls itself for each step of an axis, up to the last."""
    return 0 if len(shape) < 2 else shape[0] * (1 + calls(shape[1:]))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5).map(tuple))
def test_the_reference_calls_itself_axis_by_axis(shape: tuple[int, ...]) -> None:
    loops = transposed(shape, tuple(reversed(range(len(shape))))).loops
    assert (loops["step"], loops["element"]) == (calls(shape[::-1]), prod(shape))
    assert loops["row"] == prod(shape[1:])


@pytest.mark.parametrize(
    ("shape", "axes", "dtype", "platform", "path"),
    [
        ((6, 10), (1, 0), INT8, REFERENCE, "int8"),
        ((6, 10), (1, 0), INT16, DSP, "int16"),
        ((6, 10), (1, 0), INT8, DSP, "int8 CMSIS-NN matrix"),
        ((60,), (0,), INT8, DSP, "int8 CMSIS-NN vector"),
        ((3, 4, 5), (0, 2, 1), INT8, MVE, "int8 CMSIS-NN"),
        ((2, 3, 4, 5), (0, 1, 3, 2), INT8, DSP, "int8 CMSIS-NN"),
        ((2, 3, 4, 5), (0, 1, 3, 2), INT8, MVE, "int8 CMSIS-NN matrix"),
        ((2, 3, 4, 5), (0, 2, 1, 3), INT8, MVE, "int8 CMSIS-NN"),
    ],
)
def test_cmsis_nn_transposes_matrices_of_int8_by_themselves(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: DType, platform: Platform, path: str
) -> None:
    assert transposed(shape, axes, dtype=dtype, platform=platform).path == path


def test_vectors_of_a_transposition_hold_eight_bytes_of_a_column() -> None:
    loops = transposed((2, 3, 17, 5), (0, 1, 3, 2), platform=MVE).loops
    assert loops == {"matrix": 6, "column": 30, "vector": 90}


@pytest.mark.parametrize(
    ("axes", "path", "loops"),
    [
        ([0, 1, 2], "float32 whole", {"axis": 3, "axis of few": 3, "element": 60}),
        ([2], "float32", {"axis": 3, "axis of few": 3, "reversed axis": 1, "row": 12, "element": 60}),
        ([2, 1], "float32", {"axis": 3, "axis of few": 3, "reversed axis": 2, "row": 3, "element": 60}),
    ],
)
def test_reversed_ends_are_read_from_behind(axes: list[int], path: str, loops: dict[str, int]) -> None:
    net = Net(1)
    x = net.arena(3, 4, 5, dtype=FLOAT32)
    assert run(net.model([x], [net.op("REVERSE_V2", [x, net.constant(axes)])])) == LoopCounts(path, loops)


def test_other_axes_are_reversed_in_pieces() -> None:
    net = Net(1)
    x = net.arena(3, 4, 5, dtype=FLOAT32)
    work = run(net.model([x], [net.op("REVERSE_V2", [x, net.constant([-2])])]))
    assert (work.path, copies(work.loops), words_copied(work.loops)) == ("pieces", 12, 60)


def test_a_reversed_piece_is_aligned_unlike_its_source() -> None:
    net = Net(1)
    x = net.arena(1, 4, 6)
    work = run(net.model([x], [net.op("REVERSE_V2", [x, net.constant([1])])]))
    assert work.loops["short uneven copies"] == 4  # from 0, 6, 12, 18 to 18, 12, 6, 0


@pytest.mark.parametrize(
    ("options", "path"),
    [({}, "edges"), ({"half_pixel_centers": True}, "centers"), ({"align_corners": True}, "corners")],
)
@pytest.mark.parametrize("code", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
def test_resizing_goes_through_the_pixels_that_it_makes(code: str, options: dict[str, Any], path: str) -> None:
    net = Net(1)
    x = net.arena(1, 3, 4, 8, dtype=FLOAT32)
    work = run(net.model([x], [net.op(code, [x, net.constant([6, 5])], 1, 6, 5, 8, **options)]))
    assert (work.loops["row"], work.loops["pixel"]) == (6, 30)
    assert work.path == f"float32 {path}"
    if code == "RESIZE_BILINEAR":
        assert work.loops["element"] == 240
    else:
        assert (copies(work.loops), words_copied(work.loops)) == (30, 240)


def test_nearest_pixels_of_bytes_lie_anywhere() -> None:
    net = Net(1)
    x = net.arena(1, 1, 2, 3)
    loops = run(net.model([x], [net.op("RESIZE_NEAREST_NEIGHBOR", [x, net.constant([1, 4])], 1, 1, 4, 3)])).loops
    # the pixels 0 0 1 1 are copied from 0, 0, 3 and 3 to 0, 3, 6 and 9
    assert (loops["copies"], loops["short uneven copies"]) == (1, 3)


@pytest.mark.parametrize("code", ["SPACE_TO_DEPTH", "DEPTH_TO_SPACE"])
def test_blocks_are_walked_through_on_the_wide_side(code: str) -> None:
    net = Net(1)
    wide, deep = (1, 4, 6, 3), (1, 2, 3, 12)
    before, after = (wide, deep) if code == "SPACE_TO_DEPTH" else (deep, wide)
    x = net.arena(*before)
    work = run(net.model([x], [net.op(code, [x], *after, block_size=2)]))
    assert work == LoopCounts("int8", {"row": 4, "pixel": 24, "element": 72})


def test_batches_are_filled_where_they_reach_over_the_border() -> None:
    net = Net(1)
    x = net.arena(1, 3, 4, 2, dtype=FLOAT32)
    given = [net.constant([2, 2]), net.constant([0, 1, 0, 0], 2, 2)]
    y = net.op("SPACE_TO_BATCH_ND", [x, *given], 4, 2, 2, 2)
    there = run(net.model([x], [y])).loops
    assert (there["image"], there["row"], there["pixel"], there["copies"], there["fills"]) == (4, 8, 16, 12, 4)
    back = run(net.model([x], [net.op("BATCH_TO_SPACE_ND", [y, *given], 1, 3, 4, 2)])).loops
    # two of the eight rows are cropped away
    assert (back["image"], back["row"], back["pixel"], back["copies"]) == (4, 8, 12, 12)


def test_batches_of_three_dimensions_have_no_width() -> None:
    net = Net(1)
    x = net.arena(1, 6, 4, dtype=FLOAT32)
    given = [net.constant([3]), net.constant([0, 0], 1, 2)]
    y = net.op("SPACE_TO_BATCH_ND", [x, *given], 3, 2, 4)
    assert run(net.model([x], [y])).loops["copies"] == 6


@pytest.mark.parametrize(
    ("code", "before", "after", "options"),
    [
        ("CONCATENATION", (), (), {"axis": 0}),
        ("PACK", (), (), {"axis": 0}),
        ("UNPACK", (), (), {"axis": 0}),
        ("SPACE_TO_DEPTH", (4, 4, 3), (2, 2, 12), {"block_size": 2}),
        ("RESIZE_BILINEAR", (4, 4, 3), (8, 8, 3), {}),
        ("RESIZE_NEAREST_NEIGHBOR", (1, 4, 4, 3), (1, 0, 8, 3), {}),
    ],
)
def test_shapes_with_which_the_kernel_would_leave_its_tensors_are_rejected(
    code: str, before: tuple[int, ...], after: tuple[int, ...], options: dict[str, int]
) -> None:
    net = Net(1)
    x, y = net.arena(*before), net.arena(*after)
    net.give(code, [x, net.constant([8, 8])] if code.startswith("RESIZE") else [x], [y], **options)
    with pytest.raises(KernelRefusal, match=code):
        run(net.model([x], [y]))


@pytest.mark.parametrize(("made", "digits"), [(8, 1), (4, 1), (3, 24), (5, 24)])
def test_sides_are_divided_digit_by_digit(made: int, digits: int) -> None:
    net = Net(1)
    x = net.arena(1, 1, 4, 4)
    loops = run(net.model([x], [net.op("RESIZE_NEAREST_NEIGHBOR", [x, net.constant([1, made])], 1, 1, made, 4)])).loops
    assert (loops["digit of a row"], loops["digit of a pixel"]) == (1, made * digits)


def test_points_between_rows_and_columns_are_weighed() -> None:
    net = Net(1)
    x = net.arena(1, 4, 4, 2, dtype=FLOAT32)
    loops = run(net.model([x], [net.op("RESIZE_BILINEAR", [x, net.constant([8, 4])], 1, 8, 4, 2)])).loops
    assert (loops["element between rows"], loops["element between columns"]) == (4 * 4 * 2, 0)
