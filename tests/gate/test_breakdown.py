"""The parts of an arena are all of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgetool.gate.breakdown import INVOKE
from edgetool.memory.problem import aligned
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from tests.conftest import model_files, over_models
from tests.gate.breakdowns import breakdown, plan_of
from tests.graphs import chain
from tests.model import builders


def assert_whole(model: Model) -> None:
    plan, parts = plan_of(model), breakdown(model)
    assert plan.account is not None
    assert parts.bytes == plan.account.bytes == aligned(parts.peak_head + parts.peak_tail)
    assert sum(part.tail for part in parts.operators) + sum(size for _, size in parts.tflm_parts) == parts.tail_bytes
    assert parts.alive_bytes == plan.live_bytes or any(buffer.alias for buffer in plan.problem.buffers)
    assert parts.head_bytes == plan.layout.height
    assert max((part.live for part in parts.operators), default=0) <= parts.alive_bytes
    if parts.busiest is not None:
        (busiest,) = (part for part in parts.operators if part.operator == parts.busiest)
        assert busiest.live == parts.alive_bytes
    if parts.moment == INVOKE:
        assert (parts.peak_head, parts.peak_tail) == (parts.head_bytes, parts.tail_bytes)


@pytest.mark.parametrize("name", builders.ALL)
def test_parts_sum_to_the_arena(name: str) -> None:
    assert_whole(builders.ALL[name]())


@over_models([path for path in model_files() if path.parent.name in ("mlperf", "tflm", "made")])
def test_parts_sum_to_the_arena_of_real_models(path: Path) -> None:
    assert_whole(read_model(path.read_bytes()))


def test_the_busiest_operator_and_its_live_buffers() -> None:
    parts = breakdown(chain([160, 6400, 4800, 160]))
    assert str(parts.busiest) == "operator 1 RELU"
    assert [(str(item), item.bytes) for item in parts.alive] == [("tensor t1", 6400), ("tensor t2", 4800)]
    assert [part.live for part in parts.operators] == [6560, 11200, 4960]


def test_long_names_are_shortened() -> None:
    small = chain([16_000, 16])
    (only,) = small.subgraphs
    first, last = only.tensors
    long = replace(first, name="layer/Relu;other/Conv" + "x" * 5000)
    (item, *_) = breakdown(replace(small, subgraphs=(replace(only, tensors=(long, last)),))).alive
    assert len(item.name) <= 120
    assert str(item) == "tensor layer/Relu"
