""""""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from edgetool.operators.loops import LoopCounts
from tests.memory.account_net import Net
from tests.operators.builds import MVE, REFERENCE
from tests.operators.calls import tensor
from tests.operators.layers import asked, kept, looked_at
from tests.operators.runs import FLOAT32, INT8, INT32, run

X, Y = tensor(2, 3, 4, scale=0.5), tensor(2, scale=0.5)
AXES = tensor(2, dtype=DType.INT32)
ITERATORS = [("scratch", 12), ("scratch", 8)]  # an int for each dimension, and for each axis


def of(one: Tensor, dtype: DType) -> Tensor:
    return replace(one, dtype=dtype, quantization=one.quantization if dtype in (DType.INT8, DType.INT16) else None)


@pytest.mark.parametrize("code", ["MEAN", "SUM"])
def test_quantized_means_and_sums_accumulate_each_output_in_32_bits(code: str) -> None:
    for dtype in (DType.INT8, DType.INT16):
        assert kept(asked(code, [of(X, dtype), AXES], of(Y, dtype))) == [("scratch", 8), *ITERATORS]
    assert kept(asked(code, [of(X, DType.FLOAT32), AXES], of(Y, DType.FLOAT32))) == ITERATORS


@pytest.mark.parametrize("code", ["MEAN", "SUM"])
def test_means_and_sums_request_input_and_axes_twice_and_an_int8_output(code: str) -> None:
    assert looked_at(asked(code, [X, AXES], Y)) == [0, 2, 1, 0, 1, 2]
    assert looked_at(asked(code, [of(X, DType.INT16), AXES], of(Y, DType.INT16))) == [0, 2, 1, 0, 1]


@pytest.mark.parametrize("code", ["REDUCE_MAX", "REDUCE_MIN"])
def test_extremes_need_no_accumulators_and_check_first(code: str) -> None:
    requests = asked(code, [X, AXES], Y)
    assert (looked_at(requests), kept(requests)) == ([0, 1, 2, 0, 2, 1], ITERATORS)


def test_all_takes_bools_only() -> None:
    requests = asked("REDUCE_ALL", [of(X, DType.BOOL), AXES], of(Y, DType.BOOL))
    assert (looked_at(requests), kept(requests)) == ([0, 2, 1, 0, 1], ITERATORS)
    with pytest.raises(KernelRefusal, match="bool, not int8"):
        asked("REDUCE_ALL", [X, AXES], Y)


def test_a_scalar_axis_is_one_axis() -> None:
    assert kept(asked("REDUCE_MAX", [X, tensor(dtype=DType.INT32)], Y)) == [("scratch", 12), ("scratch", 4)]


@pytest.mark.parametrize("code", ["MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"])
def test_reductions_take_int32_axes_only(code: str) -> None:
    with pytest.raises(KernelRefusal, match="int32, not int64"):
        asked(code, [X, of(AXES, DType.INT64)], Y)


@pytest.mark.parametrize("code", ["ARG_MAX", "ARG_MIN"])
def test_positions_of_extremes_are_not_prepared(code: str) -> None:
    assert asked(code, [X, AXES], Y) == []


AXIS = tensor(dtype=DType.INT32)


def test_cumulative_sums_keep_parameters_for_int8_only() -> None:
    requests = asked("CUMSUM", [X, AXIS], X)
    assert (looked_at(requests), kept(requests)) == ([0, 1, 2], [("persistent", 36)])
    assert kept(asked("CUMSUM", [of(X, DType.FLOAT32), AXIS], of(X, DType.FLOAT32))) == []


@pytest.mark.parametrize(
    ("source", "axis", "result", "why"),
    [
        (of(X, DType.INT16), AXIS, of(X, DType.INT16), "int8, not int16"),
        (X, AXES, X, "one axis, not 2"),
        (X, of(AXIS, DType.INT64), X, "int32, not int64"),
        (X, AXIS, Y, "shape"),
        (X, AXIS, tensor(2, 3, 4, scale=2**-21), "cannot produce an output with the scale"),
        (tensor(dtype=DType.FLOAT32), AXIS, tensor(dtype=DType.FLOAT32), "does not support a scalar"),
    ],
)
def test_cumulative_sums_refuse(source: Tensor, axis: Tensor, result: Tensor, why: str) -> None:
    with pytest.raises(KernelRefusal, match=why):
        asked("CUMSUM", [source, axis], result)


SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


def reduced(code: str, shape: tuple[int, ...], axes: list[int], *, dtype: DType = INT8, **options: Any) -> LoopCounts:
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


def along(code: str, shape: tuple[int, ...], axis: int, **options: Any) -> LoopCounts:
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
    assert work == LoopCounts(path, {"lane": 3, "row": 15, "element": 60})
