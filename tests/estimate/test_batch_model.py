"""Batched models, the operators that allow them, and the memory that they need."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.errors import UnsupportedModelError, UsageError
from edgetool.estimate.hardware import (
    batch_memory_bytes,
    batched_model,
    largest_batch,
    largest_model_batch,
    model_batch_memory,
)
from edgetool.memory.planner import plan_memory
from edgetool.model.types import DType, Model
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from tests.graphs import graph, model, operator, tensor
from tests.memory.account_net import Net
from tests.model.builders import Builder, if_model, residual_model

COUNTS = st.integers(1, 10**6)


def test_a_feature_has_eight_bytes_by_default() -> None:
    assert batch_memory_bytes(32, 100) == 25_600
    assert batch_memory_bytes(32, 100, 1) == 3200
    assert largest_batch(25_600, 100) == 32
    assert largest_batch(25_599, 100) == 31
    assert largest_batch(799, 100) == 0


@given(COUNTS, COUNTS, st.integers(1, 16))
def test_the_largest_batch_of_plain_data_fits_and_one_more_does_not(
    limit: int, features: int, bytes_per_feature: int
) -> None:
    size = largest_batch(limit, features, bytes_per_feature)
    assert size == 0 or batch_memory_bytes(size, features, bytes_per_feature) <= limit
    assert batch_memory_bytes(size + 1, features, bytes_per_feature) > limit


@pytest.mark.parametrize("value", [0, -1, 1.5, float("nan"), float("inf"), "8", None, True])
@pytest.mark.parametrize("name", ["batch_size", "features", "bytes_per_feature", "limit_bytes"])
def test_an_invalid_count_is_rejected_by_name(name: str, value: Any) -> None:
    figures: dict[str, Any] = {"features": 4, "bytes_per_feature": 8}
    call: Any = batch_memory_bytes if name == "batch_size" else largest_batch
    figures |= {"batch_size": 4} if call is batch_memory_bytes else {"limit_bytes": 4000}
    with pytest.raises(UsageError, match=name):
        call(**{**figures, name: value})


PLATFORM = platform_of(load_target("cortex-m4"))


def classifier(batch: int) -> Model:
    """Convolutions with a residual ADD, pooling, RESHAPE, FULLY_CONNECTED and SOFTMAX of so many samples."""
    build = Builder(seed=8)
    x = build.activation([batch, 8, 8, 3], name="image")
    stem = build.conv(x, 8, stride=2)
    joined = build.add(stem, build.conv(build.depthwise(stem), 8, kernel=1))
    return build.model([x], [build.softmax(build.dense(build.flatten(build.average(joined)), 4))])


def single(code: str, *shape: int, to: tuple[int, ...] = (), constant: int | list[int] = (), **options: Any) -> Model:
    """One operator of one sample; `constant` is its second input."""
    net = Net()
    x = net.arena(*shape)
    inputs = [x]
    if constant != ():
        inputs.append(net.scalar(constant) if isinstance(constant, int) else net.constant(constant))
    y = net.op(code, inputs, *to, **options)
    net.end_graph([x], [y])
    return net.whole()


@given(st.integers(1, 9))
@settings(max_examples=9)
def test_it_is_the_model_that_was_built_with_the_batch(batch: int) -> None:
    made, built = batched_model(classifier(1), batch), classifier(batch)
    shapes = [t.shape for t in made.main.tensors]
    assert shapes == [t.shape for t in built.main.tensors]
    arenas = [plan_memory(model, PLATFORM).account for model in (made, built)]
    assert arenas[0] is not None
    assert arenas[1] is not None
    assert arenas[0].bytes == arenas[1].bytes


def test_memory_is_arena_and_model() -> None:
    one, four = (model_batch_memory(residual_model(), n, PLATFORM, model_bytes=5000) for n in (1, 4))
    assert four.live_bytes == 4 * one.live_bytes
    assert one.arena_bytes is not None
    assert four.arena_bytes is not None
    assert one.arena_bytes < four.arena_bytes < 4 * one.arena_bytes  # what lies in the tail does not grow
    assert four.total_bytes == four.arena_bytes + 5000


@pytest.mark.parametrize("batch", [1, 3, 6])
def test_the_largest_batch_fits_and_one_more_does_not(batch: int) -> None:
    arena = model_batch_memory(residual_model(), batch, PLATFORM, model_bytes=0).arena_bytes
    assert arena is not None
    assert largest_model_batch(residual_model(), arena, PLATFORM) == batch
    assert largest_model_batch(residual_model(), arena - 16, PLATFORM) == batch - 1


@pytest.mark.parametrize(
    "original",
    [
        single("CONCATENATION", 1, 4, axis=1),
        single("SOFTMAX", 1, 4),
        single("MEAN", 1, 4, 4, 2, to=(1, 2), constant=[1, 2]),
        single("ARG_MAX", 1, 4, to=(1,), constant=-1, dtype=DType.INT32),
        single("TRANSPOSE", 1, 4, 2, to=(1, 2, 4), constant=[0, 2, 1]),
        single("PAD", 1, 4, to=(1, 6), constant=[0, 0, 1, 1]),
        single("SQUEEZE", 1, 1, 4, to=(1, 4), squeeze_dims=(1,)),
        single("EXPAND_DIMS", 1, 4, to=(1, 1, 4), constant=1),
        single("PACK", 1, 4, to=(1, 4, 1), axis=-1),
    ],
    ids=lambda original: original.main.operators[0].code,
)
def test_operators_that_treat_samples_independently(original: Model) -> None:
    (out,) = original.main.outputs
    made = batched_model(original, 5).main.tensors[out].shape
    assert made == (5, *original.main.tensors[out].shape[1:])


@pytest.mark.parametrize(
    "mixing",
    [
        single("CONCATENATION", 1, 4, axis=0),
        single("CONCATENATION", 1, 4, axis=-2),
        single("SOFTMAX", 1, to=(1,)),
        single("MEAN", 1, 4, 4, 2, to=(1, 2), constant=[0, 1]),
        single("SUM", 1, 4, 4, to=(1, 4), constant=[-3]),
        single("TRANSPOSE", 1, 1, 4, to=(1, 1, 4), constant=[1, 0, 2]),
        single("PAD", 1, 4, to=(1, 4), constant=[0, 1, 0, 0]),
        single("SQUEEZE", 1, 1, 4, to=(1, 4), squeeze_dims=(0,)),
        single("SQUEEZE", 1, 1, 4, to=(1, 4)),
        single("EXPAND_DIMS", 1, 4, to=(1, 1, 4), constant=0),
        single("PACK", 1, 4, to=(1, 1, 4), axis=0),
        single("RESHAPE", 1, 6, to=(2, 3)),
        single("STRIDED_SLICE", 1, 4),
        single("TILE", 1, 4, constant=[1, 1]),
    ],
    ids=lambda mixing: mixing.main.operators[0].code,
)
def test_what_may_mix_samples_is_refused_by_operator(mixing: Model) -> None:
    with pytest.raises(UnsupportedModelError, match=r"several samples|shape") as error:
        batched_model(mixing, 2)
    assert error.value.where


def test_elements_of_other_ranks_are_refused() -> None:
    mixed = model(
        graph([tensor(0, 1, 4), tensor(1, 1, 4, 4), tensor(2, 1, 4, 4)], [operator(0, "ADD", [0, 1], [2])], [0, 1], [2])
    )
    with pytest.raises(UnsupportedModelError, match="ADD 0"):
        batched_model(mixed, 2)


def test_what_depends_on_no_input_stays() -> None:
    original = model(
        graph(
            [tensor(0, 1, 4), tensor(1, 1, 4, data=bytes(4)), tensor(2, 1, 4), tensor(3, 1, 4)],
            [operator(0, "RELU", [1], [2]), operator(1, "ADD", [0, 2], [3])],
            [0],
            [3],
        )
    )
    shapes = [t.shape for t in batched_model(original, 7).main.tensors]
    assert shapes == [(7, 4), (1, 4), (1, 4), (7, 4)]


def test_models_without_a_batch_are_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="several subgraphs"):
        batched_model(if_model(), 2)
    with pytest.raises(UnsupportedModelError, match="the first dimension of its shape"):
        batched_model(classifier(2), 2)
    whole = residual_model()
    stateful = replace(whole.main, tensors=(*whole.main.tensors, tensor(len(whole.main.tensors), 4, variable=True)))
    with pytest.raises(UnsupportedModelError, match="state"):
        batched_model(replace(whole, subgraphs=(stateful,)), 2)


@pytest.mark.parametrize("value", [0, -1, 2.0, float("nan"), "2", 2**40])
def test_impossible_batches_and_limits_are_refused_by_name(value: Any) -> None:
    with pytest.raises(UsageError, match="batch_size"):
        batched_model(residual_model(), value)
    if value != 2**40:
        with pytest.raises(UsageError, match="limit_bytes"):
            largest_model_batch(residual_model(), value, PLATFORM)


def test_an_arena_that_is_not_known_gives_no_largest_batch() -> None:
    unknown = single("ELU", 1, 4, dtype=DType.FLOAT32)
    assert model_batch_memory(unknown, 2, PLATFORM, model_bytes=0).total_bytes is None
    with pytest.raises(UnsupportedModelError, match="unknown"):
        largest_model_batch(unknown, 10**6, PLATFORM)
