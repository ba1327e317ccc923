"""Lookups and blocks of batches as native kernels: places and limits, refusals, and the outputs of TFLM's kernels."""

from __future__ import annotations

import numpy as np
import pytest

from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.site import Array
from edgetool.errors import UnsupportedModelError
from edgetool.model.types import DType, Model
from tests.codegen.native.host import differences, prepare
from tests.codegen.native.moves import run, steps_of
from tests.memory.account_net import Net

TABLE = np.arange(4 * 5 * 6).astype(np.int8).reshape(4, 5, 6)


def _lookup(code: str, depth: int = 1, indices: tuple[int, ...] | None = None, **values: int) -> Model:
    """Return a lookup of three places in a table, at indices that the model gets as an input unless they are given."""
    net = Net()
    shape = (3,) if code != "GATHER_ND" else (3, depth)
    x = net.arena(4, 5, 6)
    where = net.arena(*shape, dtype=DType.INT32) if indices is None else net.constant(list(indices), *shape)
    made = {"GATHER": (4, 3, 6), "GATHER_ND": (3, *TABLE.shape[depth:]), "EMBEDDING_LOOKUP": (3, 5, 6)}[code]
    first, second = (where, x) if code == "EMBEDDING_LOOKUP" else (x, where)
    y = net.op(code, [first, second], *made, dtype=DType.INT8, **values)
    net.end_graph([x] if indices is not None else [x, where], [y])
    return net.whole()


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("indices", [(2, 0, 3), (0, 2, 4)])
def test_rows_are_looked_up(indices: tuple[int, int, int], constant: bool) -> None:
    model = _lookup("GATHER", 1, indices if constant else None, axis=1, batch_dims=0)
    tensors: list[Array] = [TABLE, np.array(indices, np.int32)]
    values = dict(zip(model.main.inputs, tensors, strict=False))
    (result,) = run(model, values, row_wise=False)
    assert np.array_equal(result, TABLE[:, list(indices)])
    # Evenly spaced constant indices are a strided copy.
    kernel = ("copy" if indices == (0, 2, 4) else "copy_table") if constant else "gather"
    assert [step.kernel for step in steps_of(model)] == [f"edgetool_{kernel}"]


def test_each_batch_has_its_indices() -> None:
    net = Net()
    x, where = net.arena(4, 5, 6), net.constant([0, 4, 1, 1, 2, 3, 4, 0], 4, 2)
    y = net.op("GATHER", [x, where], 4, 2, 6, axis=1, batch_dims=1)
    net.end_graph([x], [y])
    (step,) = steps_of(net.whole())
    assert (step.kernel, step.batches, step.row_bytes) == ("edgetool_gather", 4, 12)
    (result,) = run(net.whole(), {x: TABLE}, row_wise=False)
    assert np.array_equal(result, np.stack([TABLE[0, [0, 4]], TABLE[1, [1, 1]], TABLE[2, [2, 3]], TABLE[3, [4, 0]]]))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_points_are_looked_up(depth: int) -> None:
    points = np.array([[3, 4, 5], [0, 0, 0], [1, 2, 3]], np.int32)[:, :depth]
    for indices in (None, tuple(points.reshape(-1).tolist())):
        model = _lookup("GATHER_ND", depth, indices)
        tensors: list[Array] = [TABLE, points]
        values = dict(zip(model.main.inputs, tensors, strict=False))
        (result,) = run(model, values, row_wise=False)
        assert np.array_equal(result, TABLE[tuple(points.T)])


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        (_lookup("GATHER", axis=1, batch_dims=0), 4 * 6),
        (_lookup("GATHER_ND", 2), 19 * 6),
        (_lookup("EMBEDDING_LOOKUP"), 3 * 30),
    ],
    ids=["GATHER", "GATHER_ND", "EMBEDDING_LOOKUP"],
)
def test_places_outside_are_clamped(model: Model, limit: int) -> None:
    (step,) = steps_of(model)
    assert dict(step.op.values)["limit"] == limit
    tensors: dict[int, Array] = dict.fromkeys(model.main.inputs, TABLE)
    (where,) = (index for index in model.main.inputs if model.main.tensors[index].dtype is DType.INT32)
    tensors[where] = np.full(model.main.tensors[where].shape, 2**31 - 1, np.int32)
    last = run(model, tensors, row_wise=False)[0]
    assert last.reshape(-1)[-1] == TABLE.reshape(-1)[-1]
    tensors[where] = np.full(model.main.tensors[where].shape, -(2**31), np.int32)
    first = run(model, tensors, row_wise=False)[0]
    assert first.reshape(-1)[0] == TABLE.reshape(-1)[0]


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (_lookup("GATHER", 1, (0, 5, 1), axis=1, batch_dims=0), "an index is outside"),
        (_lookup("GATHER_ND", 1, (0, 4, 1)), "an index is outside"),
        (_lookup("EMBEDDING_LOOKUP", 1, (0, -1, 1)), "an index is outside"),
    ],
    ids=["GATHER", "GATHER_ND", "EMBEDDING_LOOKUP"],
)
def test_constant_indices_outside_are_refused(model: Model, why: str) -> None:
    with pytest.raises(UnsupportedModelError, match=why):
        lower(model)


def _batches(code: str, border: tuple[int, int, int, int]) -> Model:
    net = Net()
    top, bottom, left, right = border
    deep, image = (12, 2, 3, 2), (2, 6 - top - bottom, 6 - left - right, 2)
    before, after = (deep, image) if code == "BATCH_TO_SPACE_ND" else (image, deep)
    x = net.arena(*before)
    y = net.op(code, [x, net.constant([3, 2]), net.constant(list(border), 2, 2)], *after)
    net.end_graph([x], [y])
    return net.whole()


@pytest.mark.parametrize("border", [(0, 0, 0, 0), (1, 2, 1, 0)])
def test_batches_become_blocks(border: tuple[int, int, int, int]) -> None:
    top, bottom, left, right = border
    values = np.arange(144).astype(np.int8).reshape(12, 2, 3, 2)
    model = _batches("BATCH_TO_SPACE_ND", border)
    (result,) = run(model, {model.main.inputs[0]: values}, row_wise=True)
    image = values.reshape(3, 2, 2, 2, 3, 2).transpose(2, 3, 0, 4, 1, 5).reshape(2, 6, 6, 2)
    assert np.array_equal(result, image[:, top : 6 - bottom, left : 6 - right])


def test_blocks_become_batches() -> None:
    values = np.arange(144).astype(np.int8).reshape(2, 6, 6, 2)
    model = _batches("SPACE_TO_BATCH_ND", (0, 0, 0, 0))
    (result,) = run(model, {model.main.inputs[0]: values}, row_wise=True)
    expected = values.reshape(2, 2, 3, 3, 2, 2).transpose(2, 4, 0, 1, 3, 5).reshape(12, 2, 3, 2)
    assert np.array_equal(result, expected)


def test_padding_that_tflm_leaves_undefined_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="first pad its input with PAD"):
        lower(_batches("SPACE_TO_BATCH_ND", (1, 0, 0, 1)))


def test_updates_of_int64_starts_must_be_constant() -> None:
    net = Net()
    x, update, starts = net.arena(4, 5), net.arena(2, 2), net.arena(2, dtype=DType.INT64)
    y = net.op("DYNAMIC_UPDATE_SLICE", [x, update, starts], 4, 5)
    net.end_graph([x, update, starts], [y])
    with pytest.raises(UnsupportedModelError, match="its starts are not int32"):
        lower(net.whole())


@pytest.mark.slow
def test_a_network_of_lookups_equals_tflm() -> None:
    net = Net()
    x, where, points = net.arena(4, 5, 6), net.arena(3, dtype=DType.INT32), net.arena(2, 2, dtype=DType.INT32)
    update = net.arena(2, 3, 4)
    rows = net.op("GATHER", [x, where], 4, 3, 6, axis=1, batch_dims=0)
    fixed = net.op("GATHER", [x, net.constant([4, 0, 0, 3])], 4, 4, 6, axis=1, batch_dims=0)
    found = net.op("GATHER_ND", [x, points], 2, 6)
    table = net.op("EMBEDDING_LOOKUP", [where, x], 3, 5, 6, dtype=DType.INT8)
    changed = net.op("DYNAMIC_UPDATE_SLICE", [x, update, where], 4, 5, 6)
    net.end_graph([x, where, points, update], [rows, fixed, found, table, changed])
    generator = np.random.default_rng(3)
    count = 6
    inputs: list[Array] = [
        generator.integers(-128, 128, (count, 4, 5, 6)).astype(np.int8),
        generator.integers(0, 4, (count, 3)).astype(np.int32),
        generator.integers(0, 4, (count, 2, 2)).astype(np.int32),
        generator.integers(-128, 128, (count, 2, 3, 4)).astype(np.int8),
    ]
    assert differences({"lookups": prepare(net.whole(), inputs=inputs)}) == []
