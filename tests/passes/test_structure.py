"""Rewrites that move data: the same values on LiteRT before and after, and on TensorFlow Lite Micro."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from edgetool.model.edit import with_metadata
from edgetool.model.metadata import METADATA_NAME, encode_plan
from edgetool.model.types import DType, Model
from edgetool.operators.legality import illegal_operators
from edgetool.passes.legalize import legalize
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
    assert illegal_operators(model, runtime())
    result = assert_same_in_all(model)
    assert codes(result.model) == expected
    assert result.applied


def test_an_upsampling_that_is_none_is_repeated_as_it_is() -> None:
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


def test_without_a_way_of_broadcasting_tensors_are_joined_with_themselves() -> None:
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
