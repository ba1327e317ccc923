from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from edgetool.estimate.constraints import Limit, bottleneck, cache_sensitivity, constraints_of
from edgetool.memory.planner import plan_memory
from edgetool.model.writer import write_model
from edgetool.target.platform import platform_of
from tests.estimate.figures import FLASH, SRAM, board, estimate, operator
from tests.model.builders import residual_model, unary_model

CACHED = board(replace(SRAM, cache_bytes=1024), replace(FLASH, cache_bytes=1024))


def test_arena_and_flash_against_their_regions() -> None:
    model, target = residual_model(), board(SRAM, FLASH)
    plan, size = plan_memory(model, platform_of(target)), len(write_model(model))
    found = constraints_of(model, plan, estimate([operator()]), target, model_bytes=size)
    assert plan.account is not None
    assert found.arena == Limit("sram", plan.account.bytes, 64 * 1024)
    assert found.flash == Limit("flash", size, 256 * 1024)
    assert found.arena.fits is found.flash.fits is True
    assert found.activations is not None
    assert (found.activations.operator, found.activations.bytes) == ("ADD", 3 * 8 * 8 * 8)


def test_limits() -> None:
    assert (Limit("sram", 90, 100).share, Limit("sram", 90, 100).margin_bytes) == (0.9, 10)
    full, over = Limit("sram", 100, 100), Limit("sram", 150, 100)
    assert (full.fits, over.fits, over.share, over.margin_bytes) == (True, False, 1.5, -50)
    for unknown in (Limit("sram", None, 100), Limit(None, 90, None)):
        assert unknown.fits is unknown.share is unknown.margin_bytes is None


def test_an_arena_that_is_only_bounded_is_not_known() -> None:
    model, target = unary_model("GELU"), board(SRAM, FLASH)
    found = constraints_of(model, plan_memory(model, platform_of(target)), estimate([]), target, model_bytes=1)
    assert found.arena.bytes is None
    assert found.bottleneck is found.cache is None


def test_the_bottleneck_is_the_slowest_operator() -> None:
    found = bottleneck(estimate([operator(ms=1.0), operator(1, "ADD", ms=3.0, bound="memory"), operator(2, ms=3.0)]))
    assert found is not None
    assert (found.index, found.operator, found.bound, found.ms) == (1, "ADD", "memory", 3.0)
    assert found.share == 3 / 7
    assert bottleneck(estimate([])) is None


def test_without_a_cache_nothing_is_said_of_it() -> None:
    assert cache_sensitivity(estimate([operator()]), board(SRAM, FLASH)) is None
    assert cache_sensitivity(estimate([operator()]), board()) is None


def test_a_cache_of_the_core_holds_constants_and_activations() -> None:
    small, large = operator(0, ms=3.0), operator(1, ms=1.0, parameter_bytes=500)
    found = cache_sensitivity(estimate([small, large]), CACHED)
    assert found is not None
    assert found.cached == ("constants", "activations")
    assert (found.working_set_bytes, found.largest.index, found.use) == (1100, 1, "streams")
    assert [item.index for item in found.streaming] == [1]
    assert found.streaming_share == 0.25
    assert cache_sensitivity(estimate([small]), CACHED).use == "fits"  # type: ignore[union-attr]


def test_a_cache_of_the_flash_holds_constants_alone() -> None:
    target = board(SRAM, replace(FLASH, cache_bytes=1024))
    found = cache_sensitivity(estimate([operator(parameter_bytes=1024, activation_bytes=9999)]), target)
    assert found is not None
    assert (found.cached, found.working_set_bytes, found.use) == (("constants",), 1024, "fits")


def test_all_runs_of_a_loop_use_the_same_bytes() -> None:
    looped = operator(parameter_bytes=4000, activation_bytes=6000, runs=10)
    found = cache_sensitivity(estimate([looped]), CACHED)
    assert found is not None
    assert (found.working_set_bytes, found.use) == (1000, "fits")
    assert cache_sensitivity(estimate([replace(looped, runs=0)]), CACHED) is not None


@given(st.lists(st.integers(0, 4000), min_size=1, max_size=8))
def test_streaming_operators_are_those_beyond_the_cache(sizes: list[int]) -> None:
    operators = [operator(i, parameter_bytes=size, activation_bytes=0) for i, size in enumerate(sizes)]
    found = cache_sensitivity(estimate(operators), CACHED)
    assert found is not None
    assert [item.index for item in found.streaming] == [i for i, size in enumerate(sizes) if size > 1024]
    assert found.working_set_bytes == max(sizes)
    assert 0 <= found.streaming_share <= 1 + 1e-9
