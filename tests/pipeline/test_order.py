"""Every order that the edges allow gives the model's own results on both runtimes; one that breaks them would not."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy.typing as npt
import pytest

from edgetool.execute.quantize import random_inputs
from edgetool.execute.run import RunEngine, run_model
from edgetool.memory.lifetimes import layout_problem, timeline
from edgetool.memory.order.evaluate import OrderProblem, dependencies
from edgetool.memory.planner import order_problem
from edgetool.model.edit import in_order
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from tests.pipeline.order_models import MODELS, two_variables

pytest.importorskip("tflite_micro")
pytest.importorskip("ai_edge_litert")

ENGINES: tuple[RunEngine, ...] = ("litert-reference", "tflm")
ORDERS, SAMPLES = 3, 4


def problem_of(model: Model) -> OrderProblem:
    times = timeline(model)
    return order_problem(model, layout_problem(model, times), times.operators)


def random_order(before: tuple[frozenset[int], ...], rng: random.Random) -> tuple[int, ...]:
    """Any operator that may run, until all have."""
    order: list[int] = []
    while len(order) < len(before):
        ready = [place for place, needs in enumerate(before) if place not in order and needs <= set(order)]
        order.append(rng.choice(ready))
    return tuple(order)


def results(model: Model, engine: RunEngine) -> tuple[npt.NDArray[Any], ...]:
    return run_model(write_model(model), random_inputs(model, SAMPLES, seed=1), engine=engine)


def same(left: tuple[npt.NDArray[Any], ...], right: tuple[npt.NDArray[Any], ...]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(left, right, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_any_order_that_the_edges_allow_gives_the_same_results(make: Callable[[], Model]) -> None:
    model = make()
    before = dependencies(problem_of(model))
    own = tuple(range(len(before)))
    drawn = {random_order(before, random.Random(seed)) for seed in range(20)} - {own}
    assert len(drawn) >= ORDERS, "the model leaves too little freedom to test anything"
    for engine in ENGINES:
        expected = results(model, engine)
        assert len({sample.tobytes() for sample in expected[0]}) > 1, "results say nothing when they never change"
        for order in sorted(drawn)[:ORDERS]:
            assert same(results(in_order(model, order), engine), expected), (engine, order)


def test_the_parts_of_a_model_with_state_may_mix() -> None:
    before = dependencies(problem_of(two_variables()))
    drawn = [random_order(before, random.Random(seed)) for seed in range(50)]
    assert {order.index(3) < order.index(7) for order in drawn} == {True, False}
    assert all(order.index(0) < order.index(3) < order.index(5) < order.index(6) for order in drawn)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "order",
    [(0, 1, 2, 3, 4, 6, 5, 7, 8, 9, 10, 11), (0, 1, 2, 7, 8, 10, 9, 3, 4, 5, 6, 11)],
    ids=["first", "second"],
)
def test_a_variable_read_before_its_assignment_would_show(order: tuple[int, ...], engine: RunEngine) -> None:
    model = two_variables()
    before = dependencies(problem_of(model))
    broken = [place for step, place in enumerate(order) if not before[place] <= set(order[:step])]
    assert [model.main.operators[place].code for place in broken] == ["READ_VARIABLE"]
    assert not same(results(in_order(model, order), engine), results(model, engine))
