from __future__ import annotations

from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.types import DType
from edgetool.operators.loops import LoopCounts
from edgetool.target.platform import Platform
from tests.memory.account_net import Net
from tests.operators.loops.runs import DSP, FLOAT32, INT8, INT16, MVE, REFERENCE, run

Around = tuple[tuple[int, int], ...]
PADDED = st.lists(st.tuples(st.integers(1, 4), st.tuples(st.integers(0, 3), st.integers(0, 3))), min_size=1, max_size=4)


def padded(
    shape: tuple[int, ...], around: Around, *, dtype: DType = INT16, platform: Platform = REFERENCE
) -> LoopCounts:
    net = Net(1)
    x = net.arena(*shape, dtype=dtype)
    made = [size + sum(pad) for size, pad in zip(shape, around, strict=True)]
    paddings = net.constant([one for pad in around for one in pad], len(shape), 2)
    return run(net.model([x], [net.op("PAD", [x, paddings], *made)]), platform)


@given(PADDED)
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


@given(PADDED, st.sampled_from([DSP, MVE]))
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
