"""The account of an arena that several models share, against the account of each model."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.memory.account import SharedAccount, Tenant, account_model, account_shared
from edgetool.memory.planner import plan_memory
from edgetool.memory.types import aligned
from edgetool.model.types import Model
from edgetool.target.load import load_target
from edgetool.target.platform import Platform, platform_of
from tests.memory.account_net import Net
from tests.memory.account_structures import many_requests, variables
from tests.model.builders import branches_model, chain_model, conv_model, dense_model, residual_model, unary_model

BUILD = platform_of(load_target("cortex-m7"))
# What MicroAllocator::Create takes of a new arena, on 32-bit Arm.
ALLOCATORS = 36 + 44 + 36


def random_model(seed: int) -> Model:
    """A few layers with scratch, persistent data and variables, or a chain whose planning takes more than its run."""
    choice = random.Random(seed)
    if choice.random() < 0.2:
        return chain_model(choice.randrange(1, 25))
    net = Net(seed)
    layers: list[Callable[[int], int]] = [
        lambda x: net.conv(x, choice.randrange(1, 30)),
        net.depthwise,
        lambda x: net.op("ABS", [x]),
    ]
    first = x = net.activation([1, choice.randrange(1, 9), choice.randrange(2, 9), choice.randrange(1, 9)])
    for _ in range(choice.randrange(4)):
        x = choice.choice(layers)(x)
    if choice.random() < 0.5:
        x = net.op("MEAN", [x, net.constant([1, 2])], 1, net.tensors[x].shape[3], keep_dims=False)
    if choice.random() < 0.3:
        net.arena(choice.randrange(1, 100), is_variable=True)
    return net.model([first], [x])


models = st.integers(0, 10_000).map(random_model)


def shared(*given_models: Model, build: Platform = BUILD) -> SharedAccount:
    return account_shared([Tenant(model) for model in given_models], build)


@given(models)
@settings(max_examples=30, deadline=None)
def test_one_model_has_its_own_account(model: Model) -> None:
    together, alone = shared(model), account_model(model, BUILD)
    assert (together.bytes, together.used_bytes) == (alone.bytes, alone.used_bytes)
    assert (together.head_bytes, together.tail_bytes) == (alone.head_bytes, alone.tail_bytes)


@given(st.lists(models, min_size=2, max_size=4))
@settings(max_examples=60, deadline=None)
def test_it_lies_between_the_largest_arena_and_all_of_them(several: list[Model]) -> None:
    together, alone = shared(*several), [account_model(model, BUILD) for model in several]
    assert max(account.bytes for account in alone) <= together.bytes <= sum(account.bytes for account in alone)
    assert together.bytes >= aligned(together.used_bytes)
    assert together.head_bytes == max(account.head_bytes for account in alone)
    assert [part.head_bytes for part in together.parts] == [account.head_bytes for account in alone]


@given(st.lists(models, min_size=2, max_size=4))
@settings(max_examples=60, deadline=None)
def test_tails_add_up_but_for_the_allocators_and_the_alignment(several: list[Model]) -> None:
    together, alone = shared(*several), [account_model(model, BUILD) for model in several]
    assert together.tail_bytes == sum(part.tail_bytes for part in together.parts)
    assert together.parts[0].tail_bytes == alone[0].tail_bytes
    for part, account in zip(together.parts[1:], alone[1:], strict=True):
        assert abs(part.tail_bytes - (account.tail_bytes - ALLOCATORS)) < 16


@given(st.lists(models, min_size=2, max_size=4))
@settings(max_examples=30, deadline=None)
def test_the_best_order_is_the_best_of_all(several: list[Model]) -> None:
    together = shared(*several)
    figures = {
        order: shared(*(several[position] for position in order)).bytes for order in permutations(range(len(several)))
    }
    assert together.best_bytes == min(figures.values()) == figures[together.best_order]
    if together.bytes == together.best_bytes:
        assert together.best_order == tuple(range(len(several)))


@given(st.lists(models, min_size=6, max_size=8))
@settings(max_examples=15, deadline=None)
def test_an_order_of_many_models_needs_what_it_is_said_to(several: list[Model]) -> None:
    together = shared(*several)
    assert sorted(together.best_order) == list(range(len(several)))
    assert together.best_bytes == shared(*(several[position] for position in together.best_order)).bytes
    assert together.best_bytes <= together.bytes


@pytest.mark.parametrize("target", ["cortex-m7", "cortex-m55", "cortex-m0plus"])
def test_a_model_is_listed_over_the_head_of_those_before_it(target: str) -> None:
    """The long chain's list of allocations meets the tail of the large model, not its head."""
    build = platform_of(load_target(target))
    large, chain = conv_model(), chain_model(60)
    together = shared(large, chain, build=build)
    alone = [account_model(model, build) for model in (large, chain)]
    assert together.peak_model == 1
    assert together.peak.when == "planning"
    assert together.peak.head_bytes == alone[1].peak.head_bytes
    assert together.bytes - alone[1].bytes <= alone[0].tail_bytes - ALLOCATORS + 16


def test_the_long_chain_comes_first_in_the_best_order() -> None:
    together = shared(conv_model(), chain_model(60))
    assert together.best_order == (1, 0)
    assert together.best_bytes < together.bytes


def test_where_tensors_set_the_arena_no_model_does() -> None:
    together = shared(residual_model(), branches_model())
    assert (together.peak.when, together.peak_model) == ("Invoke", None)
    assert together.bytes == aligned(together.used_bytes)
    assert not together.is_lower_bound


@pytest.mark.parametrize("first", [variables, many_requests])
def test_what_a_model_persists_stays_with_it(first: Callable[[], Model]) -> None:
    alone = account_model(first(), BUILD)
    together = shared(first(), dense_model())
    assert together.parts[0].tail_bytes == alone.tail_bytes
    last = shared(dense_model(), first())
    assert abs(last.parts[1].tail_bytes - (alone.tail_bytes - ALLOCATORS)) < 16


def test_an_operator_without_a_rule_makes_it_a_lower_bound() -> None:
    together = shared(conv_model(), unary_model("GELU"))
    assert together.is_lower_bound
    assert [bool(part.unaccounted) for part in together.parts] == [False, True]


def test_the_plan_in_a_file_counts() -> None:
    model = random_model(1)
    plan = plan_memory(model, BUILD, wanted="anew")
    offsets = {(0, buffer.tensor): 4096 for buffer in plan.problem.buffers if not buffer.is_scratch}
    together = account_shared([Tenant(model, offsets), Tenant(dense_model())], BUILD)
    assert together.head_bytes == account_model(model, BUILD, offsets=offsets).head_bytes > 4096


def test_no_model_is_an_error() -> None:
    with pytest.raises(ValueError, match="no model"):
        account_shared([], BUILD)
