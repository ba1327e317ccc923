"""How cuts, repeats and permutations are taken apart, against numpy."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.draft import Draft
from edgetool.model.types import DType
from edgetool.passes.legalize import sentences
from edgetool.passes.movement import broadcast_axes, moves
from edgetool.passes.movement import merged as merged_axes
from edgetool.passes.rewrite import Applied, Rewrite
from edgetool.passes.slices import Cut, cuts_of, merged
from tests.passes.runs import Net

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=6)


def numbered(shape: list[int]) -> npt.NDArray[np.int64]:
    return np.arange(prod(shape)).reshape(shape)


@given(SHAPES, st.data())
def test_a_repeat_is_a_broadcast(shape: list[int], data: st.DataObject) -> None:
    multiples = data.draw(st.lists(st.integers(1, 3), min_size=len(shape), max_size=len(shape)))
    axes = broadcast_axes(shape, multiples)
    values = numbered(shape).reshape([1 if repeated else size for repeated, size in axes])
    repeated = np.broadcast_to(values, [size for _, size in axes])
    np.testing.assert_array_equal(repeated.reshape(-1), np.tile(numbered(shape), multiples).reshape(-1))
    assert all(first[0] != second[0] for first, second in pairwise(axes))


@st.composite
def slices(draw: st.DrawFn) -> tuple[list[int], list[slice | int]]:
    """A shape, and what is taken of each axis: nothing is ever empty."""
    shape = draw(SHAPES)
    taken: list[slice | int] = []
    for size in shape:
        kind = draw(st.sampled_from(["whole", "one", "part"]))
        bounds = slice(
            draw(st.integers(-size, size)), draw(st.integers(-size, size)), draw(st.sampled_from([1, 2, -1, -2]))
        )
        empty = not range(*bounds.indices(size))
        one = draw(st.integers(-size, size - 1))
        taken.append(slice(None) if kind == "whole" or (kind == "part" and empty) else one if kind == "one" else bounds)
    return shape, taken


@given(slices())
def test_a_cut_is_the_same_in_fewer_axes(case: tuple[list[int], list[slice | int]]) -> None:
    shape, taken = case
    expected = numbered(shape)[tuple(taken)]
    masks = {"begin_mask": 0, "end_mask": 0, "shrink_axis_mask": 0}
    bounds: list[tuple[int, int, int]] = []
    for axis, part in enumerate(taken):
        if isinstance(part, int):
            masks["shrink_axis_mask"] |= 1 << axis
            bounds.append((part, part + 1, 1))
        else:
            masks["begin_mask"] |= (part.start is None) << axis
            masks["end_mask"] |= (part.stop is None) << axis
            bounds.append((part.start or 0, part.stop or 0, part.step or 1))
    net = Net()
    x = net.input(shape, DType.INT32)
    inputs = [x, *(net.constant(column) for column in zip(*bounds, strict=True))]
    net.add_operator("STRIDED_SLICE", inputs, expected.shape, table="StridedSliceOptions", **masks)
    cuts = cuts_of(Draft(net.model([x], [net.operators[0].outputs[0]])), net.operators[0])
    assert cuts is not None
    for view in (cuts, merged(cuts)):
        values = numbered([cut.size for cut in view])
        cut = values[np.ix_(*(cut.start + cut.step * np.arange(cut.count) for cut in view))]
        np.testing.assert_array_equal(cut.reshape(expected.shape), expected)
    assert len(merged(cuts)) <= max(1, sum(cut.size > 1 for cut in cuts))


def test_whole_axes_belong_to_the_one_before() -> None:
    cuts = [Cut(1, 0, 1, 1), Cut(4, 1, 1, 2), Cut(8, 0, 1, 8), Cut(2, 0, 1, 2)]
    assert merged(cuts) == [Cut(64, 16, 1, 32)]


def test_masks_for_axes_that_are_not_there_leave_the_others() -> None:
    """x[None, 1, ..., 2:]"""
    net = Net()
    x = net.input([3, 4, 5, 6], DType.INT32)
    bounds = [net.constant(values) for values in ([0, 1, 0, 2], [0, 2, 0, 0], [1, 1, 1, 1])]
    masks = {"new_axis_mask": 1, "shrink_axis_mask": 2, "ellipsis_mask": 4, "end_mask": 8}
    net.add_operator("STRIDED_SLICE", [x, *bounds], [1, 4, 5, 4], table="StridedSliceOptions", **masks)
    cuts = cuts_of(Draft(net.model([x], [net.operators[0].outputs[0]])), net.operators[0])
    assert cuts == [Cut(3, 1, 1, 1), Cut(4, 0, 1, 4), Cut(5, 0, 1, 5), Cut(6, 2, 1, 4)]


@given(st.permutations(range(6)), st.lists(st.integers(1, 3), min_size=6, max_size=6))
def test_a_permutation_is_the_same_in_fewer_axes_and_in_steps(permutation: list[int], shape: list[int]) -> None:
    expected = np.transpose(numbered(shape), permutation).reshape(-1)
    sizes, order = merged_axes(shape, permutation)
    np.testing.assert_array_equal(np.transpose(numbered(sizes), order).reshape(-1), expected)
    assert all(first + 1 != second for first, second in pairwise(order))
    values = numbered(sizes).reshape(-1)
    for move in moves(sizes, order):
        values = values.reshape(move).swapaxes(1, 2).reshape(-1)
    np.testing.assert_array_equal(values, expected)
    assert len(moves(sizes, order)) <= max(0, len(order) - 1)


def test_a_sentence_for_each_kind() -> None:
    rules = [Rewrite("split", "replaced by two", lambda *_: None), Rewrite("near", "merged into one", lambda *_: None)]
    done = [
        Applied("split", "TILE", ("model_head/up_1/Tile", "before/Relu")),
        Applied("near", "GELU", (), error=0.001),
        Applied("split", "TILE", ("", "up_2/Tile")),
        Applied("split", "TILE", ("StatefulPartitionedCall:0", "model_head/up_1/Tile_1")),
        Applied("near", "GELU", ("tfl.quantize",), error=0.01),
        Applied("split", "PACK", ("unknown/Pack",)),
    ]
    layers = {"model_head": "Functional", "model_head/up_1": "UpSampling1D", "up_2": "UpSampling1D", "before": "ReLU"}
    assert sentences(done, rules, layers) == (
        "3 TILE (model_head/up_1, up_2) were replaced by two",
        "2 GELU were merged into one, with an error of up to 0.01",
        "PACK was replaced by two",
    )
    assert sentences(done, rules, {})[0] == "3 TILE were replaced by two"
    many = [Applied("split", "TILE", (f"up_{i}/Tile",)) for i in range(8)]
    assert sentences(many, rules, {f"up_{i}": "UpSampling1D" for i in range(8)}) == (
        "8 TILE (up_0, up_1, up_2, up_3, up_4, 3 more) were replaced by two",
    )
    tidy = Applied("tidy", "RESHAPE", ("x/Reshape",))
    assert sentences([tidy], [Rewrite("tidy", "", lambda *_: None)], {"x": "Reshape"}) == ()
