"""Rewrites that move data: the same values on LiteRT before and after, and on TensorFlow Lite Micro.

How cuts, repeats and permutations are taken apart, against numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import prod

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.draft import Draft
from edgetool.model.edit import with_metadata
from edgetool.model.metadata import METADATA_NAME, encode_plan
from edgetool.model.types import DType, Model
from edgetool.operators.legality import unsupported_operators
from edgetool.passes.legalize import legalize, sentences
from edgetool.passes.movement import block_exchanges, broadcast_axes, merge_axes
from edgetool.passes.rewrite import Applied, Rewrite
from edgetool.passes.slices import AxisSlice, axis_slices, merge_slices
from tests.passes.runs import Net, assert_same_in_all, codes, differ, litert, runtime, tflm

FLOAT, INT8, INT32, BOOL = DType.FLOAT32, DType.INT8, DType.INT32, DType.BOOL


def tile(shape: list[int], multiples: list[int], dtype: DType) -> Model:
    net = Net()
    x = net.input(shape, dtype)
    after = [size * times for size, times in zip(shape, multiples, strict=True)]
    return net.model([x], net.add_operator("TILE", [x, net.constant(multiples)], after))


def upsampling(dtype: DType, height: int = 2, width: int = 3) -> Model:
    """UpSampling2D as Keras 3 has it: rows and then columns repeated."""
    net = Net()
    x = net.input([1, 4, 5, 3], dtype)
    rows = net.reshape(x, [1, 4, 1, 5, 3])
    rows = net.add_operator("TILE", [rows, net.constant([1, 1, height, 1, 1])], [1, 4, height, 5, 3])[0]
    columns = net.reshape(rows, [1, 4 * height, 5, 1, 3])
    columns = net.add_operator("TILE", [columns, net.constant([1, 1, 1, width, 1])], [1, 4 * height, 5, width, 3])[0]
    return net.model([x], [net.reshape(columns, [1, 4 * height, 5 * width, 3])])


def concatenation(count: int, dtype: DType) -> Model:
    net = Net()
    inputs = [net.input([1, 2, 2, 1 + i % 3], dtype) for i in range(count)]
    depth = sum(1 + i % 3 for i in range(count))
    made = net.add_operator("CONCATENATION", inputs, [1, 2, 2, depth], table="ConcatenationOptions", axis=-1)
    return net.model(inputs, made)


def strided_slice(
    shape: list[int], begin: list[int], end: list[int], strides: list[int], after: list[int], dtype: DType, **masks: int
) -> Model:
    net = Net()
    x = net.input(shape, dtype)
    bounds = [net.constant(values) for values in (begin, end, strides)]
    return net.model([x], net.add_operator("STRIDED_SLICE", [x, *bounds], after, table="StridedSliceOptions", **masks))


def crop(dtype: DType) -> Model:
    """Cropping3D."""
    bounds = [0, 1, 1, 1, 0], [0, -1, -1, -1, 0], [1, 1, 1, 1, 1]
    return strided_slice([1, 4, 8, 8, 2], *bounds, [1, 2, 6, 6, 2], dtype, begin_mask=17, end_mask=17)


def frames(dtype: DType) -> Model:
    """One of the frames of a video, as TimeDistributed takes it."""
    bounds = [2, 0, 0, 0, 0], [3, 0, 0, 0, 0], [1, 1, 1, 1, 1]
    masks = {"begin_mask": 30, "end_mask": 30, "shrink_axis_mask": 1}
    return strided_slice([4, 1, 3, 3, 2], *bounds, [1, 3, 3, 2], dtype, **masks)


def every_other(dtype: DType) -> Model:
    """Steps, one of them backwards."""
    bounds = [0, 5, 0, 0, 0], [0, 0, 0, 0, 0], [1, -2, 2, 1, 1]
    return strided_slice([1, 6, 4, 3, 2], *bounds, [1, 3, 2, 3, 2], dtype, begin_mask=29, end_mask=31)


def unpack(dtype: DType) -> Model:
    net = Net()
    x = net.input([2, 3, 4], dtype)
    return net.model([x], net.add_operator("UNPACK", [x], *[[2, 4]] * 3, table="UnpackOptions", num=3, axis=1))


def transpose(shape: list[int], permutation: list[int], dtype: DType) -> Model:
    net = Net()
    x = net.input(shape, dtype)
    after = [shape[axis] for axis in permutation]
    return net.model([x], net.add_operator("TRANSPOSE", [x, net.constant(permutation)], after))


def expand_dims(dtype: DType) -> Model:
    net = Net()
    x = net.input([2, 3], dtype)
    return net.model([x], net.add_operator("EXPAND_DIMS", [x, net.constant([1])], [2, 1, 3], version=1))


CASES: dict[str, tuple[Callable[[], Model], list[str]]] = {
    "upsampling": (lambda: upsampling(FLOAT), ["RESIZE_NEAREST_NEIGHBOR"]),
    "upsampling int8": (lambda: upsampling(INT8), ["RESIZE_NEAREST_NEIGHBOR"]),
    "repeated vector": (lambda: tile([1, 1, 6], [1, 5, 1], INT8), ["BROADCAST_TO"]),
    "two axes": (lambda: tile([3, 4, 2], [2, 3, 1], FLOAT), ["RESHAPE", "BROADCAST_TO", "RESHAPE"]),
    "three axes": (lambda: tile([3, 4, 2], [2, 3, 2], INT8), ["RESHAPE", "BROADCAST_TO"] * 2 + ["RESHAPE"]),
    "six dimensions": (
        lambda: tile([2, 2, 1, 2, 3, 2], [1, 1, 3, 1, 1, 1], INT8),
        ["RESHAPE", "BROADCAST_TO", "RESHAPE"],
    ),
    "tiled integers": (lambda: tile([2, 1], [1, 4], INT32), ["BROADCAST_TO"]),
    "joined": (lambda: concatenation(24, FLOAT), ["CONCATENATION"] * 3),
    "joined int8": (lambda: concatenation(11, INT8), ["CONCATENATION"] * 2),
    "cropped": (lambda: crop(INT8), ["SLICE"]),
    "cropped floats": (lambda: crop(FLOAT), ["SLICE"]),
    "frames": (lambda: frames(INT8), ["SLICE", "RESHAPE"]),
    "stepped": (lambda: every_other(INT8), ["RESHAPE", "STRIDED_SLICE", "RESHAPE"]),
    "unpacked": (lambda: unpack(BOOL), ["SLICE", "RESHAPE"] * 3),
    "transposed": (
        lambda: transpose([2, 3, 1, 2, 2, 3], [0, 3, 4, 2, 1, 5], INT8),
        ["RESHAPE", "TRANSPOSE", "RESHAPE"],
    ),
    "turned": (lambda: transpose([2, 3, 2, 3, 2], [4, 3, 2, 1, 0], INT8), ["RESHAPE", "TRANSPOSE"] * 4 + ["RESHAPE"]),
    "expanded": (lambda: expand_dims(INT32), ["RESHAPE"]),
}


@pytest.mark.parametrize(("build", "expected"), CASES.values(), ids=CASES)
def test_data_arrives_where_it_did(build: Callable[[], Model], expected: list[str]) -> None:
    model = build()
    assert unsupported_operators(model, runtime())
    result = assert_same_in_all(model)
    assert codes(result.model) == expected
    assert result.applied


def test_repetitions_that_are_not_upsampling_are_repeated_unchanged() -> None:
    """The columns of each row one after the other, twice: no pixel is next to its copy."""
    model = tile([1, 4, 5, 3], [1, 1, 2, 1], INT8)
    assert codes(assert_same_in_all(model).model) == ["RESHAPE", "BROADCAST_TO", "RESHAPE"]


def test_what_others_read_on_the_way_stays() -> None:
    net = Net()
    x = net.input([1, 4, 5, 3], INT8)
    rows = net.reshape(x, [1, 4, 1, 5, 3])
    rows = net.add_operator("TILE", [rows, net.constant([1, 1, 2, 1, 1])], [1, 4, 2, 5, 3])[0]
    model = net.model([x], [net.reshape(rows, [1, 8, 5, 3]), net.reshape(rows, [8, 15])])
    assert codes(assert_same_in_all(model).model) == ["RESHAPE", "BROADCAST_TO", "RESHAPE", "RESHAPE"]


def test_without_broadcast_to_tensors_are_concatenated_with_themselves() -> None:
    model = tile([2, 3], [1, 23], INT8)
    poor = replace(runtime(), resolver=tuple(pair for pair in runtime().resolver if pair[0] != "BROADCAST_TO"))
    result = legalize(model, poor).model
    assert codes(result) == ["CONCATENATION"] * 3
    given = (np.arange(6, dtype=np.int8).reshape(1, 2, 3),)
    assert differ(litert(model, given), litert(result, given)) == 0
    assert differ(litert(model, given), tflm(result, given)) == 0


def test_a_model_compiled_for_an_accelerator_stays_as_it_is() -> None:
    """Its command stream holds the addresses of tensors."""
    net = Net()
    x = net.input([2, 3], INT8)
    tiled = net.add_operator("TILE", [x, net.constant([2, 1])], [4, 3])[0]
    y = net.input([4, 3], INT8)
    net.operator("CUSTOM", [tiled], [y], custom_code="ethos-u")
    model = net.model([x], [y])
    model = with_metadata(model, METADATA_NAME, encode_plan(model, {}))
    assert legalize(model, runtime()).model is model


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
    cuts = axis_slices(Draft(net.model([x], [net.operators[0].outputs[0]])), net.operators[0])
    assert cuts is not None
    for view in (cuts, merge_slices(cuts)):
        values = numbered([cut.size for cut in view])
        cut = values[np.ix_(*(cut.start + cut.step * np.arange(cut.count) for cut in view))]
        np.testing.assert_array_equal(cut.reshape(expected.shape), expected)
    assert len(merge_slices(cuts)) <= max(1, sum(cut.size > 1 for cut in cuts))


def test_whole_axes_belong_to_the_one_before() -> None:
    cuts = [AxisSlice(1, 0, 1, 1), AxisSlice(4, 1, 1, 2), AxisSlice(8, 0, 1, 8), AxisSlice(2, 0, 1, 2)]
    assert merge_slices(cuts) == [AxisSlice(64, 16, 1, 32)]


def test_masks_for_axes_that_are_not_there_leave_the_others() -> None:
    """x[None, 1, ..., 2:]"""
    net = Net()
    x = net.input([3, 4, 5, 6], DType.INT32)
    bounds = [net.constant(values) for values in ([0, 1, 0, 2], [0, 2, 0, 0], [1, 1, 1, 1])]
    masks = {"new_axis_mask": 1, "shrink_axis_mask": 2, "ellipsis_mask": 4, "end_mask": 8}
    net.add_operator("STRIDED_SLICE", [x, *bounds], [1, 4, 5, 4], table="StridedSliceOptions", **masks)
    cuts = axis_slices(Draft(net.model([x], [net.operators[0].outputs[0]])), net.operators[0])
    assert cuts == [AxisSlice(3, 1, 1, 1), AxisSlice(4, 0, 1, 4), AxisSlice(5, 0, 1, 5), AxisSlice(6, 2, 1, 4)]


@given(st.permutations(range(6)), st.lists(st.integers(1, 3), min_size=6, max_size=6))
def test_a_permutation_is_the_same_in_fewer_axes_and_in_steps(permutation: list[int], shape: list[int]) -> None:
    expected = np.transpose(numbered(shape), permutation).reshape(-1)
    sizes, order = merge_axes(shape, permutation)
    np.testing.assert_array_equal(np.transpose(numbered(sizes), order).reshape(-1), expected)
    assert all(first + 1 != second for first, second in pairwise(order))
    values = numbered(sizes).reshape(-1)
    for move in block_exchanges(sizes, order):
        values = values.reshape(move).swapaxes(1, 2).reshape(-1)
    np.testing.assert_array_equal(values, expected)
    assert len(block_exchanges(sizes, order)) <= max(0, len(order) - 1)


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
