""""""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from edgetool.operators.loops import LoopCounts, memcpy_loops
from tests.memory.account_net import Net
from tests.operators.asked import F, asked, constant
from tests.operators.calls import HOST, tensor
from tests.operators.runs import FLOAT32, INT8, INT16, run

SOURCE = tensor(2, 3, 4, dtype=F)
ONE = constant(1)


def test_gather_copies_the_dimensions_of_the_output() -> None:
    requests = asked("GATHER", [SOURCE, ONE], [tensor(2, 1, 4, dtype=F)], axis=1, batch_dims=0)
    assert requests == ["t0", "t1", "t2", ("persistent", 16)]


def test_gather_counts_axes_and_batches_from_the_end() -> None:
    positions = tensor(2, 5, dtype=DType.INT32)
    requests = asked("GATHER", [SOURCE, positions], [tensor(2, 5, 4, dtype=F)], axis=-2, batch_dims=-1)
    assert requests == ["t0", "t1", "t2", ("persistent", 16)]


@pytest.mark.parametrize(
    ("source", "positions", "axis", "batches", "reason"),
    [
        (tensor(2, 3, dtype=DType.INT16), ONE, 0, 0, "float32, int8, not int16"),
        (SOURCE, constant(1, dtype=DType.INT64), 0, 0, "int32, not int64"),
        (SOURCE, ONE, 3, 0, "axis 3 with 3 dimensions"),
        (SOURCE, ONE, 0, 1, "does not support 1 batch dimensions"),
        (SOURCE, tensor(3, 2, dtype=DType.INT32), 1, 1, "does not support 1 batch dimensions"),
    ],
)
def test_gather_rejects(source: Tensor, positions: Tensor, axis: int, batches: int, reason: str) -> None:
    with pytest.raises(KernelRefusal, match=reason):
        asked("GATHER", [source, positions], [SOURCE], axis=axis, batch_dims=batches)


def test_gather_nd() -> None:
    result = tensor(7, 4, dtype=F)
    requests = asked("GATHER_ND", [SOURCE, tensor(7, 2, dtype=DType.INT32)], [result])
    assert requests == ["t0", "t1", "t2", ("persistent", 12)]
    with pytest.raises(KernelRefusal, match="at most 3 coordinates per index here, not 4"):
        asked("GATHER_ND", [SOURCE, tensor(7, 4, dtype=DType.INT32)], [result])
    many = tensor(1, 1, 1, 1, 1, 1, dtype=F)
    with pytest.raises(KernelRefusal, match="at most 5 coordinates per index here, not 6"):
        asked("GATHER_ND", [many, tensor(7, 6, dtype=DType.INT32)], [result])
    with pytest.raises(KernelRefusal, match="does not support scalars"):
        asked("GATHER_ND", [tensor(dtype=F), tensor(1, dtype=DType.INT32)], [result])


def test_slice_has_no_conditions() -> None:
    # What a debug build asserts (constant or not, one type) is no check in a release.
    assert asked("SLICE", [SOURCE, ONE, constant(2, dtype=DType.INT64)], [ONE]) == ["t0", "t1", "t2", "t3"]


@given(
    st.lists(
        st.tuples(
            st.integers(1, 6),
            st.integers(-8, 8),
            st.integers(-8, 8),
            st.sampled_from([-3, -2, -1, 1, 2, 3]),
            st.booleans(),
            st.booleans(),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_strided_slice_produces_the_same_as_python(axes: list[tuple[int, int, int, int, bool, bool]]) -> None:
    sizes, begins, ends, strides, from_start, to_end = zip(*axes, strict=True)
    made = [
        len(range(size)[None if first else begin : None if last else end : stride])
        for size, begin, end, stride, first, last in axes
    ]
    masks = {
        "begin_mask": sum(mask << axis for axis, mask in enumerate(from_start)),
        "end_mask": sum(mask << axis for axis, mask in enumerate(to_end)),
    }
    inputs = [tensor(*sizes, dtype=F), constant(*begins), constant(*ends), constant(*strides)]
    assert asked("STRIDED_SLICE", inputs, [tensor(*made, dtype=F)], **masks) == ["t0", "t1", "t2", "t3", "t4"]
    with pytest.raises(KernelRefusal, match="but the file specifies"):
        asked("STRIDED_SLICE", inputs, [tensor(*made[:-1], made[-1] + 1, dtype=F)], **masks)


def test_strided_slice_drops_an_axis() -> None:
    inputs = [SOURCE, constant(1, 0, 0), constant(2, 3, 4), constant(1, 1, 1)]
    requests = asked("STRIDED_SLICE", inputs, [tensor(3, 4, dtype=F)], shrink_axis_mask=1)
    assert requests == ["t0", "t1", "t2", "t3", "t4"]


def test_a_begin_that_is_too_short_is_not_checked() -> None:
    # The kernel reads what follows it in the file.
    inputs = [SOURCE, constant(0), constant(1), constant(1)]
    assert asked("STRIDED_SLICE", inputs, [tensor(9, dtype=F)]) == ["t0", "t1", "t2", "t3", "t4"]


@pytest.mark.parametrize(
    ("source", "begin", "stride", "reason"),
    [
        (tensor(1, 1, 1, 1, 1, dtype=F), constant(0, 0, 0, 0, 0), 1, "0 to 4 dimensions, not 5"),
        (tensor(4, dtype=F), tensor(1, dtype=DType.INT32), 1, "requires its begin to be constant in the file"),
        (tensor(4, dtype=F), constant(0), 0, "a stride of 0"),
    ],
)
def test_strided_slice_rejects(source: Tensor, begin: Tensor, stride: int, reason: str) -> None:
    with pytest.raises(KernelRefusal, match=reason):
        asked("STRIDED_SLICE", [source, begin, constant(1), constant(stride)], [tensor(1, dtype=F)])


LOOKUP = tensor(5, dtype=DType.INT32)
TABLE = tensor(100, 8, scale=0.5)


def test_embedding_lookup_makes_its_op_data_in_prepare() -> None:
    # Dimensions of the output, then a float and a size_t: 8 bytes on 32 bits, 16 on 64.
    requests = asked("EMBEDDING_LOOKUP", [LOOKUP, TABLE], [tensor(5, 8, scale=0.5)])
    assert requests == ["t0", "t1", "t2", ("persistent", 12), ("persistent", 8)]
    assert asked("EMBEDDING_LOOKUP", [LOOKUP, TABLE], [tensor(5, 8, dtype=F)], abi=HOST)[-1] == ("persistent", 16)


@pytest.mark.parametrize(
    ("lookup", "table", "result", "reason"),
    [
        (tensor(5, dtype=DType.INT64), TABLE, tensor(5, 8), "int32, not int64"),
        (LOOKUP, tensor(100), tensor(5), "a table of shape"),
        (LOOKUP, tensor(9, 8, dtype=DType.INT16), tensor(5, 8), "float32, int8, not int16"),
        (LOOKUP, tensor(9, 8, dtype=F), tensor(5, 8), "output 0 of type float32, not int8"),
        (LOOKUP, TABLE, tensor(5), "an output of shape"),
        (LOOKUP, TABLE, tensor(4, 8), "cannot fit"),
        (LOOKUP, tensor(9, 8, scale=0.5, zero_point=1), tensor(5, 8, dtype=F), "only with a zero point of 0"),
    ],
)
def test_embedding_lookup_rejects(lookup: Tensor, table: Tensor, result: Tensor, reason: str) -> None:
    with pytest.raises(KernelRefusal, match=reason):
        asked("EMBEDDING_LOOKUP", [lookup, table], [result])


def test_dynamic_update_slice() -> None:
    start, update = tensor(3, dtype=DType.INT64), tensor(1, 3, 4, dtype=F)
    assert asked("DYNAMIC_UPDATE_SLICE", [SOURCE, update, start], [SOURCE]) == ["t0", "t1", "t2", "t3"]
    with pytest.raises(KernelRefusal, match="an update of shape"):
        asked("DYNAMIC_UPDATE_SLICE", [update, SOURCE, start], [SOURCE])
    with pytest.raises(KernelRefusal, match="a start with 3 indices"):
        asked("DYNAMIC_UPDATE_SLICE", [SOURCE, update, constant(0, 0)], [SOURCE])


def strided(
    shape: tuple[int, ...],
    bounds: tuple[list[int], list[int], list[int]],
    made: tuple[int, ...],
    *,
    dtype: DType = INT8,
    **options: Any,
) -> LoopCounts:
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
    expected = {name: turns for name, turns in memcpy_loops(length, places).items() if turns}
    assert work.path == "int8 rows"
    assert {name: work.loops.get(name, 0) for name in expected} == expected


def test_a_stride_along_the_last_axis_takes_elements() -> None:
    work = strided((4, 9, 10), ([0, 1, 8], [4, 7, 2], [1, 2, -2]), (4, 3, 3), dtype=FLOAT32)
    turns = {f"turn of axis {axis}": count for axis, count in enumerate((1, 1, 4, 12, 36))}
    assert work == LoopCounts("float32", {"axis": 3, "axis of few": 3, **turns, "element backwards": 36})
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
    assert {name: loops.get(name, 0) for name in memcpy_loops(3, places)} == memcpy_loops(3, places)
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
    assert {name: loops.get(name, 0) for name in memcpy_loops(6, places)} == memcpy_loops(6, places)


def looked_up(table: DType, made: DType) -> LoopCounts:
    net = Net(1)
    inputs = [net.constant([5, 2, 2]), net.noise(6, 4, dtype=table)]
    return run(net.model([], [net.op("EMBEDDING_LOOKUP", inputs, 3, 4, dtype=made)]))


def test_looked_up_rows_are_copied_or_dequantized() -> None:
    assert looked_up(FLOAT32, FLOAT32).loops["copied 16 bytes"] == 3
    assert looked_up(INT8, INT8).loops["copied words"] == 3
    assert looked_up(INT8, FLOAT32) == LoopCounts("int8 to float32", {"row": 3, "element": 12})


def test_updates_are_copied_over_a_copy() -> None:
    net = Net(1)
    x, y = net.arena(4, 8, dtype=FLOAT32), net.arena(2, 4, dtype=FLOAT32)
    loops = run(net.model([x, y], [net.op("DYNAMIC_UPDATE_SLICE", [x, y, net.constant([1, 3])])])).loops
    assert (loops["copies"], loops["step"], loops["copied 64 bytes"], loops["copied 16 bytes"]) == (3, 2, 2, 2)
    net = Net(1)
    x, y = net.arena(4, 8, dtype=FLOAT32), net.arena(4, 8, dtype=FLOAT32)
    work = run(net.model([x, y], [net.op("DYNAMIC_UPDATE_SLICE", [x, y, net.constant([0, 0])])]))
    assert (work.path, work.loops["copies"]) == ("whole", 1)
