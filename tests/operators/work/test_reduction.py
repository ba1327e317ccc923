from __future__ import annotations

from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.types import DType
from edgetool.operators.loops import Work
from tests.memory.account_net import Net
from tests.operators.work.runs import FLOAT32, INT8, INT32, MVE, REFERENCE, run

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


def reduced(code: str, shape: tuple[int, ...], axes: list[int], *, dtype: DType = INT8, **options: Any) -> Work:
    net = Net(1)
    x = net.arena(*shape, dtype=dtype)
    gone = {axis % len(shape) for axis in axes}
    keep = bool(options.get("keep_dims"))
    made = [1 if axis in gone else size for axis, size in enumerate(shape) if keep or axis not in gone]
    y = net.arena(*made, dtype=dtype)
    net.give(code, [x, net.constant(axes)], [y], **options)
    return run(net.model([x], [y]), REFERENCE)


def odometer(shape: tuple[int, ...]) -> int:
    """The digits that change until the position is back at the start."""
    place, steps = [0] * len(shape), 0
    for _ in range(prod(shape)):
        for axis in reversed(range(len(shape))):
            steps += 1
            place[axis] += 1
            if place[axis] < shape[axis]:
                break
            place[axis] = 0
    assert not any(place)
    return steps


@given(shape=SHAPES, data=st.data())
def test_each_element_looks_for_its_place(shape: tuple[int, ...], data: st.DataObject) -> None:
    rank = len(shape)
    axes = data.draw(st.lists(st.integers(0, rank - 1), min_size=1, max_size=rank, unique=True))
    loops = reduced("SUM", shape, [axis - rank if axis % 2 else axis for axis in axes]).loops
    compared = 0
    for axis in range(rank):
        for one in axes:
            compared += 1
            if one == axis:
                break
    assert loops["axis compared"] == compared * prod(shape)
    assert loops["kept axis of an element"] == (rank - len(axes)) * prod(shape)
    assert loops["axis counted on"] == odometer(shape)
    assert loops["output"] == prod(size for axis, size in enumerate(shape) if axis not in axes)


@pytest.mark.parametrize(
    ("axes", "keep", "dtype", "path"),
    [
        ([1, 2], True, FLOAT32, "float32 image"),
        ([2, 1], True, FLOAT32, "float32 image"),
        ([-2, -3], True, FLOAT32, "float32 image"),
        ([1, 2], False, FLOAT32, "float32"),
        ([1, 3], True, FLOAT32, "float32"),
        ([1, 2], True, INT8, "int8"),
    ],
)
def test_the_mean_over_images_of_floats_has_its_own_code(axes: list[int], keep: bool, dtype: DType, path: str) -> None:
    assert reduced("MEAN", (1, 4, 6, 3), axes, dtype=dtype, keep_dims=keep).path == path


def test_the_mean_over_an_image_sums_row_by_row() -> None:
    loops = reduced("MEAN", (2, 4, 6, 3), [1, 2], dtype=FLOAT32, keep_dims=True).loops
    assert loops == {"output": 6, "row": 24, "element": 144}


def along(code: str, shape: tuple[int, ...], axis: int, **options: Any) -> Work:
    net = Net(1)
    x, y = net.arena(*shape, dtype=FLOAT32), net.arena(*shape, dtype=FLOAT32 if code == "CUMSUM" else INT32)
    net.give(code, [x, net.constant([axis])], [y], **options)
    return run(net.model([x], [y]), MVE)


def test_new_extremes_become_rarer() -> None:
    loops = along("ARG_MAX", (5, 4, 3), -2, output_type="INT32").loops
    assert (loops["turn"], loops["output"], loops["element"]) == (5, 15, 60)
    assert loops["new extreme"] == round(15 * (1 / 2 + 1 / 3 + 1 / 4))


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({}, "float32"),
        ({"exclusive": True}, "float32 exclusive"),
        ({"reverse": True}, "float32 reverse"),
        ({"exclusive": True, "reverse": True}, "float32 exclusive reverse"),
    ],
)
def test_running_sums_go_along_the_axis(options: dict[str, bool], path: str) -> None:
    work = along("CUMSUM", (5, 4, 3), 1, **options)
    assert work == Work(path, {"lane": 3, "row": 15, "element": 60})
