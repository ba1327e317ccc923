"""Operators that move elements: views and constants, the rows that they read, and the outputs of TFLM's kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.movement import Strided, strided
from edgetool.codegen.native.site import NUMPY_TYPES, Array
from edgetool.errors import InternalError, UnsupportedModelError
from edgetool.model.types import DType, Model
from tests.codegen.native.host import differences, prepare
from tests.codegen.native.moves import run, steps_of
from tests.memory.account_net import Net

IMAGE = (2, 4, 6, 8)


def _model(
    code: str,
    shape: Sequence[int],
    outputs: Sequence[Sequence[int]],
    constants: Sequence[Sequence[int]] = (),
    *,
    dtype: DType = DType.INT8,
    data: bool = False,
    first: int = 0,
    **values: Any,
) -> Model:
    """Return a model of one operator; its data input is at position `first`, constant or an input of the model."""
    net = Net()
    x = net.noise(*shape, dtype=dtype, scale=1 / 16) if data else net.arena(*shape, dtype=dtype)
    results = [net.arena(*output, dtype=dtype) for output in outputs]
    inputs = [net.constant(list(item)) for item in constants]
    net.give(code, [*inputs[:first], x, *inputs[first:]], results, **values)
    net.end_graph([] if data else [x], results)
    return net.whole()


def _numbers(shape: Sequence[int], dtype: DType = DType.INT8) -> Array:
    count = int(np.prod(shape))
    return (np.arange(count) % 251 - 125).astype(NUMPY_TYPES[dtype]).reshape(shape)


MOVES: dict[str, tuple[Model, Callable[[Array], Array]]] = {
    "transpose of rows": (
        _model("TRANSPOSE", IMAGE, [(2, 4, 8, 6)], [(0, 1, 3, 2)]),
        lambda x: x.transpose(0, 1, 3, 2),
    ),
    "transpose of images": (
        _model("TRANSPOSE", IMAGE, [(8, 6, 4, 2)], [(3, 2, 1, 0)], dtype=DType.INT16),
        lambda x: x.transpose(3, 2, 1, 0),
    ),
    "slice of every axis": (
        _model("SLICE", IMAGE, [(2, 2, 3, 5)], [(0, 1, 2, 3), (-1, 2, 3, -1)]),
        lambda x: x[:, 1:3, 2:5, 3:],
    ),
    "slice of one image": (
        _model("SLICE", IMAGE, [(1, 3, 6, 4)], [(1, 1, 0, 0), (1, 3, 6, 4)]),
        lambda x: x[1:, 1:, :, :4],
    ),
    "every second row and column backwards": (
        _model(
            "STRIDED_SLICE", IMAGE, [(2, 2, 3, 8)], [(0, 1, 9, 0), (2, 4, -9, 0), (1, 2, -2, 1)],
            end_mask=8, begin_mask=0, shrink_axis_mask=0,
        ),
        lambda x: x[:, 1:4:2, ::-2, :],
    ),
    "rows backwards": (
        _model("REVERSE_V2", IMAGE, [IMAGE], [(-3, 2)], dtype=DType.FLOAT32),
        lambda x: np.flip(x, (1, 2)),
    ),
    "one row for all": (
        _model("BROADCAST_TO", (1, 6, 1), [IMAGE], [IMAGE]),
        lambda x: np.broadcast_to(x, IMAGE),
    ),
    "depth to space": (
        _model("DEPTH_TO_SPACE", IMAGE, [(2, 8, 12, 2)], dtype=DType.INT16, block_size=2),
        lambda x: x.reshape(2, 4, 6, 2, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(2, 8, 12, 2),
    ),
    "space to depth": (
        _model("SPACE_TO_DEPTH", IMAGE, [(2, 2, 3, 32)], block_size=2),
        lambda x: x.reshape(2, 2, 2, 3, 2, 8).transpose(0, 1, 3, 2, 4, 5).reshape(2, 2, 3, 32),
    ),
}  # fmt: skip


@pytest.mark.parametrize("row_wise", [False, True])
@pytest.mark.parametrize("name", MOVES)
def test_elements_move_as_numpy_moves_them(name: str, row_wise: bool) -> None:
    model, move = MOVES[name]
    (x,) = model.main.inputs
    tensor = model.main.tensors[x]
    values = _numbers(tensor.shape, tensor.dtype)
    (result,) = run(model, {x: values}, row_wise=row_wise)
    assert np.array_equal(result, move(values))


@pytest.mark.parametrize(
    ("name", "rows", "batches"),
    [
        ("transpose of rows", 4, 2),
        ("transpose of images", 1, 1),
        ("slice of every axis", 2, 2),
        ("slice of one image", 3, 1),
        ("every second row and column backwards", 2, 2),
        ("rows backwards", 1, 1),
        ("depth to space", 8, 2),
        ("space to depth", 2, 2),
    ],
)
def test_images_move_row_by_row_if_rows_permit(name: str, rows: int, batches: int) -> None:
    (step,) = steps_of(MOVES[name][0], row_wise=True)
    assert (step.rows, step.batches) == (rows, batches)


@pytest.mark.parametrize("row_wise", [False, True])
@pytest.mark.parametrize("axis", [-4, 1, 2, 3])
def test_images_are_joined_along_each_axis(axis: int, row_wise: bool) -> None:
    net = Net()
    shapes = [tuple(size + (number if at == axis % 4 else 0) for at, size in enumerate(IMAGE)) for number in range(3)]
    inputs = [net.arena(*shape, dtype=DType.INT16) for shape in shapes]
    values = [_numbers(shape, DType.INT16) + number for number, shape in enumerate(shapes)]
    expected = np.concatenate(values, axis=axis)
    y = net.op("CONCATENATION", inputs, *expected.shape, axis=axis)
    net.end_graph(inputs, [y])
    model = net.whole()
    (result,) = run(model, dict(zip(inputs, values, strict=True)), row_wise=row_wise)
    assert np.array_equal(result, expected)
    assert (max(step.rows for step in steps_of(model, row_wise=row_wise)) > 1) == row_wise


def test_tensors_are_stacked_along_a_new_axis() -> None:
    net = Net()
    inputs = [net.arena(3, 4) for _ in range(3)]
    y = net.op("PACK", [*inputs, net.noise(3, 4)], 3, 4, 4, values_count=4, axis=2)
    net.end_graph(inputs, [y])
    values = [_numbers((3, 4)) + number for number in range(3)]
    (result,) = run(net.whole(), dict(zip(inputs, values, strict=True)), row_wise=False)
    assert np.array_equal(result[..., :3], np.stack(values, axis=2))


@pytest.mark.parametrize(
    "model",
    [
        _model("RESHAPE", IMAGE, [(384,)], new_shape=(384,)),
        _model("SQUEEZE", (1, 6, 1), [(6,)], squeeze_dims=()),
        _model("EXPAND_DIMS", (6,), [(6, 1)], [(1,)]),
        _model("TRANSPOSE", (1, 4, 1, 8), [(4, 1, 8, 1)], [(1, 0, 3, 2)]),
        _model("SPLIT", (4, 6), [(2, 6), (2, 6)], [(0,)], first=1, num_splits=2),
        _model("SPLIT_V", (1, 9), [(1, 4), (1, 5)], [(4, 5), (1,)], num_splits=2),
        _model("UNPACK", (3, 5), [(5,), (5,), (5,)], num=3, axis=0),
        _model("DEPTH_TO_SPACE", IMAGE, [IMAGE], block_size=1),
        _model("SPACE_TO_DEPTH", IMAGE, [IMAGE], block_size=1),
    ],
    ids=lambda model: str(model.main.operators[0].code),
)
def test_contiguous_results_are_views(model: Model) -> None:
    program = lower(model)
    assert not program.steps
    places = [program.places[index] for index in model.main.outputs]
    assert {place.root for place in places} == set(model.main.inputs)
    assert [place.offset for place in places] == np.cumsum(
        [0, *(model.main.tensors[index].size_bytes for index in model.main.outputs[:-1])]
    ).tolist()


def _row_of(rows: int) -> tuple[Net, int, int]:
    """Return a network that reads one row of a tensor of this many rows."""
    net = Net()
    x = net.arena(rows, 6)
    y = net.op("SLICE", [x, net.constant([4, 0]), net.constant([1, 6])], 1, 6)
    return net, x, y


def test_small_slices_are_copied_if_larger_tensors_follow() -> None:
    net, x, y = _row_of(10)
    z = net.op("BROADCAST_TO", [y, net.constant([20, 6])], 20, 6)
    net.end_graph([x], [z])
    first, _ = lower(net.whole()).steps
    assert (first.kernel, first.row_bytes) == ("edgetool_copy", 6)


def test_small_slices_are_views_if_their_source_may_live_on() -> None:
    for also in (False, True):
        net, x, y = _row_of(10)
        if also:
            z = net.op("BROADCAST_TO", [y, net.constant([20, 6])], 20, 6)
        net.end_graph([x], [y, x, z] if also else [y])
        program = lower(net.whole())
        assert (program.places[y].root, program.places[y].offset) == (x, 24)


def test_results_of_constants_are_constants_if_they_are_not_much_larger() -> None:
    model = _model("TRANSPOSE", (3, 5), [(5, 3)], [(1, 0)], data=True)
    program = lower(model)
    (y,) = model.main.outputs
    values = np.frombuffer(model.main.tensors[0].data or b"", np.int8).reshape(3, 5)
    assert not program.steps
    constant = program.places[y].constant
    assert constant is not None
    assert constant.data == values.T.tobytes()
    large = _model("BROADCAST_TO", (5,), [(400, 5)], [(400, 5)], data=True)
    (step,) = lower(large).steps
    assert (step.kernel, step.row_bytes) == ("edgetool_copy", 2000)


def test_outputs_that_nothing_reads_are_not_computed() -> None:
    net = Net()
    x = net.arena(4, 6)
    parts = [net.arena(4, 3), net.arena(4, 3)]
    net.give("SPLIT", [net.constant([1]), x], parts, num_splits=2)
    net.end_graph([x], parts[1:])
    (step,) = lower(net.whole()).steps
    assert step.output == parts[1]


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (_model("SLICE", (4, 6), [(1, 6)], [(4, 0), (1, 6)]), "reads outside its input"),
        (_model("TRANSPOSE", (4, 6), [(4, 4)], [(0, 0)]), "its permutation is not one"),
        (_model("SPLIT", (4, 6), [(2, 6), (2, 6)], [(2,)], first=1, num_splits=2), "axis 2 does not exist"),
        (_model("SPLIT", (4, 6), [(3, 6), (3, 6)], [(0,)], first=1, num_splits=2), "are larger than its input"),
        (
            _model("STRIDED_SLICE", (4,), [()], [(4,), (5,), (1,)], begin_mask=0, end_mask=0, shrink_axis_mask=1),
            "it removes an axis at a position outside",
        ),
    ],
)
def test_what_reads_outside_is_refused(model: Model, why: str) -> None:
    with pytest.raises(UnsupportedModelError, match=why):
        lower(model)


def test_neighbouring_axes_are_merged() -> None:
    whole = strided((2, 3, 4, 5), 2, lambda x: x)
    assert whole == Strided(0, ((2, 120), (3, 40), (4, 10), (5, 2)))
    assert whole.merged(2) == ((), 240)
    part = strided((2, 3, 4, 5), 2, lambda x: x[:, ::-1, 1:3, :])
    assert part.start == 2 * 40 + 10
    assert part.merged(2) == (((2, 120), (3, -40)), 20)
    with pytest.raises(InternalError):
        strided((2, 3), 1, lambda x: x.copy())


@pytest.mark.slow
def test_a_network_of_moves_equals_tflm() -> None:
    net = Net()
    x = net.arena(*IMAGE)
    rows = net.op("TRANSPOSE", [x, net.constant([0, 1, 3, 2])], 2, 4, 8, 6)
    deep = net.op("SPACE_TO_DEPTH", [rows], 2, 2, 4, 24, block_size=2)
    wide = net.op("DEPTH_TO_SPACE", [deep], 2, 4, 8, 6, block_size=2)
    halves = [net.arena(2, 4, 8, 3) for _ in range(2)]
    net.give("SPLIT", [net.constant([3]), wide], halves, num_splits=2)
    joined = net.op("CONCATENATION", [halves[1], rows, halves[0]], 2, 4, 8, 12, axis=3)
    back = net.op("REVERSE_V2", [joined, net.constant([1, 2])], 2, 4, 8, 12)
    bounds = [net.constant(values) for values in ([0, 3, 1, 0], [2, 0, 8, 12], [1, -2, 3, 2])]
    part = net.op("STRIDED_SLICE", [back, *bounds], 2, 2, 3, 6, begin_mask=0, end_mask=0, shrink_axis_mask=0)
    images = [net.arena(2, 3, 6) for _ in range(2)]
    net.give("UNPACK", [part], images, num=2, axis=1)
    stack = net.op("PACK", images[::-1], 2, 3, 2, 6, values_count=2, axis=2)
    many = net.op("BROADCAST_TO", [stack, net.constant([3, 2, 3, 2, 6])], 3, 2, 3, 2, 6)
    net.end_graph([x], [many, joined, images[1]])
    assert differences({"moves": prepare(net.whole(), 4)}) == []
