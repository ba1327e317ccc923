from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from tests.operators.prepare.asked import F, asked, constant
from tests.operators.prepare.calls import HOST, tensor

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
def test_what_gather_does_not_take(source: Tensor, positions: Tensor, axis: int, batches: int, reason: str) -> None:
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


def test_slice_sets_no_condition() -> None:
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
def test_strided_slice_makes_what_python_makes(axes: list[tuple[int, int, int, int, bool, bool]]) -> None:
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


def test_a_begin_that_is_too_short_is_not_judged() -> None:
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
def test_what_strided_slice_does_not_take(source: Tensor, begin: Tensor, stride: int, reason: str) -> None:
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
def test_what_embedding_lookup_does_not_take(lookup: Tensor, table: Tensor, result: Tensor, reason: str) -> None:
    with pytest.raises(KernelRefusal, match=reason):
        asked("EMBEDDING_LOOKUP", [lookup, table], [result])


def test_dynamic_update_slice() -> None:
    start, update = tensor(3, dtype=DType.INT64), tensor(1, 3, 4, dtype=F)
    assert asked("DYNAMIC_UPDATE_SLICE", [SOURCE, update, start], [SOURCE]) == ["t0", "t1", "t2", "t3"]
    with pytest.raises(KernelRefusal, match="an update of shape"):
        asked("DYNAMIC_UPDATE_SLICE", [update, SOURCE, start], [SOURCE])
    with pytest.raises(KernelRefusal, match="a start with 3 indices"):
        asked("DYNAMIC_UPDATE_SLICE", [SOURCE, update, constant(0, 0)], [SOURCE])
