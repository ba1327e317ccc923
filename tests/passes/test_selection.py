"""Choices, comparisons and ranks: the same values on LiteRT before and after, and on TensorFlow Lite Micro."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from edgetool.execute.quantize import random_inputs
from edgetool.model.types import DType, Model, Quantization
from edgetool.passes.legalize import legalize
from tests.model.builders import options
from tests.passes.runs import SAMPLES, Net, assert_same_in_all, codes, litert, made_legal, runtime, tflm

FLOAT, INT8, INT32, INT64, BOOL = DType.FLOAT32, DType.INT8, DType.INT32, DType.INT64, DType.BOOL


def random(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("condition", [[2, 3], [2]], ids=["each", "rows"])
@pytest.mark.parametrize("dtype", [FLOAT, INT8], ids=lambda dtype: dtype.name)
def test_select(condition: list[int], dtype: DType) -> None:
    net = Net()
    inputs = [net.input(condition, BOOL), net.input([2, 3], dtype), net.input([2, 3], dtype)]
    made = net.add_operator("SELECT", inputs, [2, 3], dtype=dtype, version=1)
    model = net.model(inputs, made)
    given = (random().integers(0, 2, (SAMPLES, *condition)).astype(bool), *random_inputs(model, SAMPLES, seed=1)[1:])
    result = assert_same_in_all(model, given)
    assert codes(result.model)[-1] == "SELECT_V2"


@pytest.mark.parametrize("code", ["SELECT", "SELECT_V2"])
def test_integers_are_chosen_by_arithmetic(code: str) -> None:
    net = Net()
    inputs = [net.input([2, 3], BOOL), net.input([2, 3], INT32), net.input([2, 3], INT32)]
    model = net.model(inputs, net.add_operator(code, inputs, [2, 3], dtype=INT32, version=1))
    chosen, other = random().integers(-(2**31), 2**31, (2, SAMPLES, 2, 3)).astype(np.int32)
    result = assert_same_in_all(model, (random().integers(0, 2, (SAMPLES, 2, 3)).astype(bool), chosen, other))
    assert codes(result.model) == ["CAST", "SUB", "MUL", "ADD"]


def test_an_index_that_counts_from_the_end_needs_no_difference() -> None:
    net = Net()
    x = net.input([1, 7], INT32)
    zero, size = net.constant(0), net.constant(20)
    negative = net.add_operator("LESS", [x, zero], [1, 7], dtype=BOOL, version=1)[0]
    moved = net.add_operator("ADD", [x, size], [1, 7], version=1, table="AddOptions")[0]
    made = net.add_operator("SELECT", [negative, moved, x], [1, 7], dtype=INT32, version=1)
    result = assert_same_in_all(net.model([x], made), (random().integers(-20, 20, (SAMPLES, 1, 7)).astype(np.int32),))
    assert codes(result.model) == ["LESS", "CAST", "MUL", "ADD"]


@pytest.mark.parametrize("keep", [True, False])
def test_reduce_any(keep: bool) -> None:
    net = Net()
    x = net.input([2, 3, 4], BOOL)
    shape = [2, 3, 1] if keep else [2, 3]
    made = net.add_operator(
        "REDUCE_ANY", [x, net.constant([-1])], shape, version=1, table="ReducerOptions", keep_dims=keep
    )
    given = random().random((SAMPLES, 2, 3, 4)) < 0.3
    result = assert_same_in_all(net.model([x], made), (given,))
    assert codes(result.model) == ["LOGICAL_NOT", "REDUCE_ALL", "LOGICAL_NOT"]


def one_hot(axis: int, shape: list[int], dtype: DType, on: Any, off: Any) -> Model:
    net = Net()
    x = net.input([2, 3], INT32)
    values = [net.constant(on, dtype), net.constant(off, dtype)]
    inputs = [x, net.constant(5), *values]
    return net.model(
        [x], net.add_operator("ONE_HOT", inputs, shape, dtype=dtype, version=1, table="OneHotOptions", axis=axis)
    )


@pytest.mark.parametrize(("axis", "shape"), [(-1, [2, 3, 5]), (0, [5, 2, 3]), (1, [2, 5, 3])])
@pytest.mark.parametrize("dtype", [FLOAT, INT8], ids=lambda dtype: dtype.name)
def test_one_hot(axis: int, shape: list[int], dtype: DType) -> None:
    indices = random().integers(-2, 8, (SAMPLES, 2, 3)).astype(np.int32)  # some of no class at all
    result = assert_same_in_all(one_hot(axis, shape, dtype, 7, -3), (indices,))
    assert "EQUAL" in codes(result.model)


def test_one_hot_values_count_by_what_they_mean() -> None:
    """Converters give the constants 0 and 1 scales of their own, which ONE_HOT of LiteRT takes for the result's."""
    model = one_hot(-1, [2, 3, 5], INT8, 127, 0)
    on, off, output = model.main.tensors[1], model.main.tensors[2], model.main.tensors[4]
    scales = {on.name: (1 / 256, -128), off.name: (2.0**-30, 0), output.name: (1 / 256, -128)}
    tensors = tuple(
        replace(tensor, quantization=Quantization((scales[tensor.name][0],), (scales[tensor.name][1],), 0))
        if tensor.name in scales
        else tensor
        for tensor in model.main.tensors
    )
    result = made_legal(replace(model, subgraphs=(replace(model.main, tensors=tensors),))).model
    indices = random().integers(0, 5, (SAMPLES, 2, 3)).astype(np.int32)
    expected = np.where(indices[..., None] == np.arange(5), 127, -128).astype(np.int8)
    np.testing.assert_array_equal(litert(result, (indices,))[0], expected)
    np.testing.assert_array_equal(tflm(result, (indices,))[0], expected)


def test_one_hot_values_that_only_record_a_range_are_taken_as_they_are() -> None:
    model = one_hot(-1, [2, 3, 5], INT8, 7, -3)
    ranged = Quantization((), (), 0, (-1.0,), (1.0,))
    tensors = list(model.main.tensors)
    for value in (1, 2):
        index = model.main.operators[0].inputs[1 + value]
        tensors[index] = replace(tensors[index], quantization=ranged)
    result = made_legal(replace(model, subgraphs=(replace(model.main, tensors=tuple(tensors)),))).model
    indices = random().integers(0, 5, (SAMPLES, 2, 3)).astype(np.int32)
    expected = np.where(indices[..., None] == np.arange(5), 7, -3).astype(np.int8)
    np.testing.assert_array_equal(tflm(result, (indices,))[0], expected)


def test_classes_that_were_made_int64_stay_int32() -> None:
    net = Net()
    x = net.input([3], FLOAT)
    casts = {"table": "CastOptions", "in_data_type": "FLOAT32", "out_data_type": "INT64"}
    classes = net.add_operator("CAST", [x], [3], dtype=INT64, version=1, **casts)[0]
    values = [net.constant(1, FLOAT), net.constant(0, FLOAT)]
    inputs = [classes, net.constant(4), *values]
    made = net.add_operator("ONE_HOT", inputs, [3, 4], dtype=FLOAT, version=1, table="OneHotOptions", axis=-1)
    given = random().integers(-1, 6, (SAMPLES, 3)).astype(np.float32)
    result = assert_same_in_all(net.model([x], made), (given,))
    assert DType.INT64 not in {tensor.dtype for tensor in result.model.main.tensors}


def test_bucketize() -> None:
    net = Net()
    x = net.input([2, 3], FLOAT)
    made = [net.tensor([2, 3], INT32)]
    net.operator("BUCKETIZE", [x], made, options("BucketizeOptions", boundaries=(-1.0, 0.0, 0.5)))
    given: npt.NDArray[np.float32] = random().choice(np.float32([-2, -1, -0.5, 0, 0.25, 0.5, 3]), (9, 2, 3))
    assert_same_in_all(net.model([x], made), (given,))


def top_k(shape: Sequence[int], k: int, dtype: DType) -> Model:
    net = Net()
    x = net.input(shape, dtype)
    after = (*shape[:-1], k)
    made = [net.input(after, dtype), net.tensor(after, INT32)]
    net.operator("TOPK_V2", [x, net.constant(k)], made, version=2)
    return net.model([x], made)


@pytest.mark.parametrize("dtype", [FLOAT, INT8], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize(("shape", "k"), [([1, 10], 3), ([2, 6], 6), ([2, 2, 5], 1)])
def test_top_k(shape: list[int], k: int, dtype: DType) -> None:
    values = random().integers(-4, 4, (SAMPLES, *shape))  # equal ones among them
    kinds: dict[DType, type] = {FLOAT: np.float32, INT8: np.int8}
    assert_same_in_all(top_k(shape, k, dtype), (values.astype(kinds[dtype]),))


def test_many_elements_are_not_compared_pair_by_pair() -> None:
    model = top_k([1, 100], 3, INT8)
    assert legalize(model, runtime()).model is model
