from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.model.types import DType, Tensor
from edgetool.operators.call import KernelRefusal
from tests.operators.prepare.calls import tensor
from tests.operators.prepare.layers import asked, kept, looked_at

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
def test_means_and_sums_look_twice_at_input_and_axes_and_at_an_int8_output(code: str) -> None:
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
