"""Plans of ours: the order and the layout that need the smallest arena, and what is said of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgetool.memory.checker import check_layout
from edgetool.memory.effort import Effort
from edgetool.memory.plan_options import PlanOptions
from edgetool.memory.planner import plan_memory
from edgetool.model.edit import in_order
from edgetool.target.load import load_target
from edgetool.target.platform import Platform, platform_of
from tests.graphs import chain, graph, model, operator, tensor
from tests.model.builders import branches_model, residual_model


def platform(kernels: str = "reference") -> Platform:
    return platform_of(replace(load_target("cortex-m7"), kernels=kernels))


def test_the_order_that_needs_least_is_found_and_proven() -> None:
    plan = plan_memory(branches_model(), platform())
    original = plan_memory(branches_model(), platform(), options=PlanOptions(order="original"))
    assert plan.account is not None
    assert original.account is not None
    assert plan.account.bytes < original.account.bytes - 3000
    assert plan.order_proof != "none"
    assert plan.live_bytes == plan.live_lower_bound == plan.layout.height
    assert plan.moved
    assert sorted(plan.order) == list(range(len(branches_model().main.operators)))
    assert plan.stock == original.stock
    assert original.order == tuple(range(len(plan.order)))
    assert original.live_lower_bound is None


def test_an_order_that_cannot_be_beaten_stays() -> None:
    plan = plan_memory(residual_model(), platform())
    assert plan.moved == 0
    assert plan.order_proof != "none"


@pytest.mark.parametrize("order", ["breadth-first", "longest-path"])
def test_named_orders_are_taken_as_asked(order: str) -> None:
    plan = plan_memory(branches_model(), platform(), options=PlanOptions(order=order))  # type: ignore[arg-type]
    again = plan_memory(in_order(branches_model(), plan.order), platform(), options=PlanOptions(order="original"))
    assert plan.layout.height == again.layout.height


def test_without_a_build_the_order_is_searched_by_the_tensors_alone() -> None:
    plan = plan_memory(branches_model())
    assert plan.moved
    assert plan.account is None
    assert plan.layout.proof == "bound met"


@pytest.mark.parametrize("kernels", ["reference", "cmsis-nn"])
def test_the_layout_is_what_tflm_realises_around_the_fixed_tensors(kernels: str) -> None:
    plan = plan_memory(branches_model(), platform(kernels))
    assert plan.account is not None
    assert plan.layout.offsets == plan.account.layout.offsets
    assert plan.layout.height == plan.account.head_bytes
    assert check_layout(plan.problem, plan.layout) == ()


def test_constants_in_ram_are_buffers_at_their_use() -> None:
    made = model(
        graph(
            [tensor(0, 16), tensor(1, 16, data=bytes(64)), tensor(2, 16), tensor(3, 16)],
            [operator(0, "ADD", [0, 1], [2]), operator(1, "RELU", [2], [3])],
            [0],
            [3],
        )
    )
    plan = plan_memory(made, options=PlanOptions(constants_in_ram=True))
    constants = [buffer for buffer in plan.problem.buffers if buffer.tensor == 1]
    assert [(b.operator, b.lifetime.first, b.lifetime.last) for b in constants] == [(0, 0, 0)]
    assert plan.layout.height == 48
    assert plan.offsets is None
    assert plan.account is None
    assert plan_memory(made).layout.height == 32


def test_a_constant_that_two_operators_use_is_loaded_twice() -> None:
    tensors = [tensor(0, 16), tensor(1, 16, data=bytes(16)), *(tensor(i, 16) for i in (2, 3, 4))]
    operators = [operator(0, "ADD", [0, 1], [2]), operator(1, "RELU", [2], [3]), operator(2, "ADD", [3, 1], [4])]
    plan = plan_memory(model(graph(tensors, operators, [0], [4])), options=PlanOptions(constants_in_ram=True))
    assert [b.operator for b in plan.problem.buffers if b.tensor == 1] == [0, 2]


@pytest.mark.parametrize("sharing", ["greedy", "dynamic-programming"])
def test_shared_buffers_become_a_plan_that_tflm_follows(sharing: str) -> None:
    plan = plan_memory(branches_model(), platform(), options=PlanOptions(sharing=sharing))  # type: ignore[arg-type]
    assert plan.planner == "edgetool"
    assert plan.shared is not None
    assert plan.offsets
    assert check_layout(plan.problem, plan.layout) == ()
    assert (
        plan.layout.height
        >= plan.shared.optimized_bytes
        >= plan.live_bytes - sum(b.aligned_bytes for b in plan.problem.buffers if b.is_scratch)
    )
    places = {plan.offsets[0, plan.problem.buffers[i].tensor] for group in plan.shared.groups for i in group}
    assert len(places) == len(plan.shared.groups)


def test_the_same_seed_gives_the_same_plan() -> None:
    first, second = (
        plan_memory(branches_model(), platform(), options=PlanOptions(effort=Effort(seed=5))) for _ in range(2)
    )
    assert first.offsets == second.offsets
    assert first.order == second.order


def test_one_operator_has_one_order() -> None:
    plan = plan_memory(chain([8, 8]))
    assert plan.order_proof == "search exhausted"
