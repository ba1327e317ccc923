from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.types import DType
from edgetool.operators.loops import Work, copied
from tests.memory.account_net import Net
from tests.operators.work.runs import FLOAT32, INT8, INT16, run


def strided(
    shape: tuple[int, ...],
    bounds: tuple[list[int], list[int], list[int]],
    made: tuple[int, ...],
    *,
    dtype: DType = INT8,
    **options: Any,
) -> Work:
    net = Net(1)
    x = net.arena(*shape, dtype=dtype)
    given_bounds = [net.constant(values) for values in bounds]
    return run(net.model([x], [net.op("STRIDED_SLICE", [x, *given_bounds], *made, **options)]))


@given(
    rows=st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(1, 3)),
    columns=st.tuples(st.integers(0, 5), st.integers(1, 9)),
    after=st.integers(0, 5),
)
def test_rows_are_copied_from_where_they_lie(rows: tuple[int, int, int], columns: tuple[int, int], after: int) -> None:
    first, number, step = rows
    left, length = columns
    width = left + length + after
    shape = (first + number * step, width)
    bounds = ([first, left], [first + number * step, left + length], [step, 1])
    work = strided(shape, bounds, (number, length))
    places = [(row * length, (first + row * step) * width + left) for row in range(number)]
    expected = {name: turns for name, turns in copied(length, places).items() if turns}
    assert work.path == "int8 rows"
    assert {name: work.loops.get(name, 0) for name in expected} == expected


def test_a_stride_along_the_last_axis_takes_elements() -> None:
    work = strided((4, 9, 10), ([0, 1, 8], [4, 7, 2], [1, 2, -2]), (4, 3, 3), dtype=FLOAT32)
    turns = {f"turn of axis {axis}": count for axis, count in enumerate((1, 1, 4, 12, 36))}
    assert work == Work("float32", {"axis": 3, "axis of few": 3, **turns, "element backwards": 36})
    work = strided((4, 9, 10), ([0, 1, 2], [4, 7, 8], [1, 2, 2]), (4, 3, 3), dtype=FLOAT32)
    assert work.loops["element backwards"] == 0


def test_an_axis_that_goes_away_has_one_element() -> None:
    work = strided((4, 9, 10), ([-2, 1, 0], [-1, 7, 10], [1, 1, 1]), (6, 10), dtype=INT16, shrink_axis_mask=1)
    assert (work.loops["turn of axis 2"], work.loops["turn of axis 3"], work.loops["copies"]) == (1, 6, 6)


def test_masked_bounds_begin_at_the_border() -> None:
    masked = strided((4, 9), ([2, 3], [0, 9], [1, 1]), (4, 6), begin_mask=1)
    assert masked == strided((4, 9), ([0, 3], [4, 9], [1, 1]), (4, 6))


@pytest.mark.parametrize(("where", "narrow", "wide"), [(DType.INT32, 1, 0), (DType.INT64, 0, 2)])
def test_slices_are_five_loops(where: DType, narrow: int, wide: int) -> None:
    net = Net(1)
    x = net.arena(5, 7, dtype=FLOAT32)
    bounds = [net.constant([1, 2], dtype=where), net.constant([3, 4], dtype=where)]
    loops = run(net.model([x], [net.op("SLICE", [x, *bounds], 3, 4)])).loops
    assert [loops[f"turn of axis {axis}"] for axis in range(5)] == [1, 1, 1, 3, 12]
    assert (loops["int32 bounds"], loops["int64 bound"]) == (narrow, wide)


def test_rows_are_gathered_from_where_the_file_says() -> None:
    net = Net(1)
    x = net.arena(2, 6, 3)
    loops = run(net.model([x], [net.op("GATHER", [x, net.constant([4, 1])], 2, 2, 3, axis=1)])).loops
    places = [(at * 3, (one * 6 + row) * 3) for at, (one, row) in enumerate(product((0, 1), (4, 1)))]
    assert {name: loops.get(name, 0) for name in copied(3, places)} == copied(3, places)
    assert (loops["turn"], loops["batch"]) == (2, 1)


def test_batches_have_positions_of_their_own() -> None:
    net = Net(1)
    x = net.arena(2, 6, 4, dtype=FLOAT32)
    where = net.constant([4, 1, 0, 5, 5, 2], 2, 3)
    loops = run(net.model([x], [net.op("GATHER", [x, where], 2, 3, 4, axis=1, batch_dims=1)])).loops
    assert (loops["batch"], loops["turn"], loops["copies"], loops["copied 16 bytes"]) == (2, 2, 6, 6)


def test_gathered_slices_are_found_by_several_indices() -> None:
    net = Net(1)
    x = net.arena(4, 5, 6)
    where = net.constant([3, 1, 0, 2, 1, 4], 3, 2)
    loops = run(net.model([x], [net.op("GATHER_ND", [x, where], 3, 6)])).loops
    places = [(at * 6, (one * 5 + two) * 6) for at, (one, two) in enumerate(((3, 1), (0, 2), (1, 4)))]
    assert loops["index"] == 6
    assert {name: loops.get(name, 0) for name in copied(6, places)} == copied(6, places)


def looked_up(table: DType, made: DType) -> Work:
    net = Net(1)
    inputs = [net.constant([5, 2, 2]), net.noise(6, 4, dtype=table)]
    return run(net.model([], [net.op("EMBEDDING_LOOKUP", inputs, 3, 4, dtype=made)]))


def test_looked_up_rows_are_copied_or_dequantized() -> None:
    assert looked_up(FLOAT32, FLOAT32).loops["copied 16 bytes"] == 3
    assert looked_up(INT8, INT8).loops["copied words"] == 3
    assert looked_up(INT8, FLOAT32) == Work("int8 to float32", {"row": 3, "element": 12})


def test_updates_are_copied_over_a_copy() -> None:
    net = Net(1)
    x, y = net.arena(4, 8, dtype=FLOAT32), net.arena(2, 4, dtype=FLOAT32)
    loops = run(net.model([x, y], [net.op("DYNAMIC_UPDATE_SLICE", [x, y, net.constant([1, 3])])])).loops
    assert (loops["copies"], loops["step"], loops["copied 64 bytes"], loops["copied 16 bytes"]) == (3, 2, 2, 2)
    net = Net(1)
    x, y = net.arena(4, 8, dtype=FLOAT32), net.arena(4, 8, dtype=FLOAT32)
    work = run(net.model([x, y], [net.op("DYNAMIC_UPDATE_SLICE", [x, y, net.constant([0, 0])])]))
    assert (work.path, work.loops["copies"]) == ("whole", 1)
