"""Prepare and loop counts of PAD, MIRROR_PAD, BROADCAST_TO and FILL."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.memory.overlaps import operator_overlaps
from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from edgetool.operators.loops import LoopCounts
from edgetool.operators.overlap import InputOverlap
from edgetool.target.platform import Platform
from tests.graphs import graph, model, operator
from tests.memory.account_net import Net
from tests.operators.asked import F, asked, constant
from tests.operators.builds import DSP, MVE, REFERENCE
from tests.operators.calls import tensor
from tests.operators.runs import FLOAT32, INT8, INT16, run

Q = tensor(1, 4, scale=0.5, zero_point=3)
PADDED = tensor(1, 7, scale=0.5, zero_point=3)
AROUND = constant(0, 0, 1, 2, shape=(2, 2))


@pytest.mark.parametrize("cmsis_nn", [False, True])
def test_pad_requests_each_tensor_once(cmsis_nn: bool) -> None:
    assert asked("PAD", [Q, AROUND], [PADDED], cmsis_nn=cmsis_nn) == ["t0", "t1", "t2"]
    value = tensor(1, scale=0.5, zero_point=3)
    assert asked("PADV2", [Q, AROUND, value], [PADDED], cmsis_nn=cmsis_nn) == ["t0", "t1", "t2", "t3"]


@pytest.mark.parametrize(
    ("source", "paddings", "permitted"),
    [
        (Q, AROUND, [InputOverlap(0, 1)]),
        (tensor(1, 1, 4), AROUND, []),
        (tensor(4), AROUND, []),
        (Q, replace(tensor(2, 2, dtype=DType.INT2), data=b"\x90"), []),
        (Q, constant(0, 0, 1, 2, dtype=DType.INT64, shape=(2, 2)), []),
    ],
)
def test_only_well_formed_paddings_permit_an_overlap(
    source: Tensor, paddings: Tensor, permitted: list[InputOverlap]
) -> None:
    tensors = [replace(one, index=index) for index, one in enumerate((source, paddings, PADDED))]
    made = model(graph(tensors, [operator(0, "PAD", [0, 1], [2])], [0], [2]))
    assert list(operator_overlaps(made, None).get(0, ())) == permitted


def test_a_value_left_out_is_not_requested() -> None:
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
def test_pad_rejects(inputs: list[Tensor], result: Tensor, reason: str) -> None:
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
def test_broadcast_to_rejects(source: Tensor, shape: Tensor, result: Tensor, reason: str) -> None:
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


Around = tuple[tuple[int, int], ...]
PADDED_AXES = st.lists(
    st.tuples(st.integers(1, 4), st.tuples(st.integers(0, 3), st.integers(0, 3))), min_size=1, max_size=4
)


def padded(
    shape: tuple[int, ...], around: Around, *, dtype: DType = INT16, platform: Platform = REFERENCE
) -> LoopCounts:
    net = Net(1)
    x = net.arena(*shape, dtype=dtype)
    made = [size + sum(pad) for size, pad in zip(shape, around, strict=True)]
    paddings = net.constant([one for pad in around for one in pad], len(shape), 2)
    return run(net.model([x], [net.op("PAD", [x, paddings], *made)]), platform)


@given(PADDED_AXES)
def test_elements_leave_the_comparisons_at_the_first_axis_on_which_they_lie_outside(
    axes: list[tuple[int, tuple[int, int]]],
) -> None:
    shape, around = tuple(size for size, _ in axes), tuple(pad for _, pad in axes)
    expected: dict[str, int] = {}
    missing = 5 - len(shape)
    for place in product(*(range(size + sum(pad)) for size, pad in axes)):
        name = "inside"
        for axis, (at, size, (before, _)) in enumerate(zip(place, shape, around, strict=True), start=missing):
            if not before <= at < before + size:
                name = f"{'before' if at < before else 'after'} axis {axis}"
                break
        expected[name] = expected.get(name, 0) + 1
    loops = padded(shape, around).loops
    assert {name: turns for name, turns in loops.items() if turns and name not in ("axis 2", "axis 3")} == expected


@given(PADDED_AXES, st.sampled_from([DSP, MVE]))
def test_cmsis_nn_fills_and_copies_every_byte_once(axes: list[tuple[int, tuple[int, int]]], platform: Platform) -> None:
    shape, around = tuple(size for size, _ in axes), tuple(pad for _, pad in axes)
    work = padded(shape, around, dtype=INT8, platform=platform)
    assert work.path == "int8 CMSIS-NN"
    made = prod(size + sum(pad) for size, pad in axes)
    loops = work.loops
    if platform is MVE:
        assert loops["copied vector"] * 16 >= prod(shape)
        assert loops["filled vector"] * 16 >= made - prod(shape)
        return
    filled = sum(
        loops.get(name, 0) * step
        for name, step in (("filled 16 bytes", 16), ("filled words", 4), ("filled heads", 1), ("filled bytes", 1))
    )
    assert filled == made - prod(shape)


IMAGE: Around = ((0, 0), (1, 2), (2, 1), (0, 0))


@pytest.mark.parametrize(
    ("around", "dtype", "path"),
    [
        (IMAGE, FLOAT32, "float32 image"),
        (IMAGE, INT8, "int8 image"),
        (IMAGE, INT16, "int16"),
        (((0, 0), (1, 2), (2, 1), (0, 1)), FLOAT32, "float32"),
        (((1, 0), (1, 2), (2, 1), (0, 0)), INT8, "int8"),
    ],
)
def test_images_have_a_code_of_their_own(around: Around, dtype: DType, path: str) -> None:
    assert padded((1, 3, 4, 2), around, dtype=dtype).path == path


def test_three_dimensions_are_no_image() -> None:
    assert padded((3, 4, 2), IMAGE[:3], dtype=FLOAT32).path == "float32"


def broadcast(shape: tuple[int, ...], made: tuple[int, ...]) -> LoopCounts:
    net = Net(1)
    x = net.arena(*shape, dtype=FLOAT32)
    return run(net.model([x], [net.op("BROADCAST_TO", [x, net.constant(made)], *made)]))


@pytest.mark.parametrize(
    ("shape", "made", "copies", "words"),
    [
        ((1, 4), (3, 4), 3, 12),
        ((3, 1), (3, 5), 15, 15),
        # first each of 2 rows five times, then all of it twice more
        ((1, 2, 1), (3, 2, 5), 10 + 2, 10 + 2 * 10),
    ],
)
def test_broadcasts_copy_what_they_have_made(
    shape: tuple[int, ...], made: tuple[int, ...], copies: int, words: int
) -> None:
    loops = broadcast(shape, made).loops
    copied = sum(
        loops.get(f"copied {what}", 0) * count for what, count in (("64 bytes", 16), ("16 bytes", 4), ("words", 1))
    )
    assert (loops["copies"], copied) == (copies, words)


def test_a_broadcast_to_the_same_shape_is_one_copy() -> None:
    work = broadcast((3, 4), (3, 4))
    assert (work.path, work.loops["copies"], work.loops["copied 16 bytes"]) == ("same shape", 1, 3)


def test_zeros_are_one_fill_and_other_values_a_loop() -> None:
    net = Net(1)
    x = net.arena(5, 7, dtype=FLOAT32)
    zeros = run(net.model([x], [net.op("ZEROS_LIKE", [x])]))
    assert (zeros.path, zeros.loops["filled 16 bytes"], zeros.loops["filled words"]) == ("fill", 8, 3)
    net = Net(1)
    y = net.op("FILL", [net.constant([5, 7]), net.noise(dtype=FLOAT32)], 5, 7, dtype=FLOAT32)
    assert run(net.model([], [y])) == LoopCounts("float32", {"axis": 2, "axis of few": 2, "element": 35})


def test_mirrored_elements_look_for_their_place() -> None:
    net = Net(1)
    x = net.arena(4, 5, dtype=FLOAT32)
    y = net.op("MIRROR_PAD", [x, net.constant([1, 1, 2, 0], 2, 2)], 6, 7, mode="REFLECT")
    assert run(net.model([x], [y])) == LoopCounts("float32", {"element": 42, "axis of an element": 84})
