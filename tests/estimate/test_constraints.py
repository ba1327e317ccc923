"""The constraints of a model on a target, and the advice that follows from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.estimate.constraints import (
    AdviceContext,
    Limit,
    advice,
    bottleneck,
    cache_sensitivity,
    constraints_of,
    verdict_text,
)
from edgetool.estimate.memory_speed import bandwidth_of, estimated_bandwidth
from edgetool.estimate.precision import PrecisionRow, PrecisionTradeoffs
from edgetool.estimate.types import Estimate
from edgetool.memory.planner import plan_memory
from edgetool.model.writer import write_model
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of
from edgetool.target.types import MemoryRegion, Target
from tests.estimate.figures import FLASH, SRAM, board, estimate, operator
from tests.model.builders import residual_model, unary_model

SDRAM = MemoryRegion("sdram", "external-ram", 8 * 2**20)
QSPI = MemoryRegion("qspi", "external-flash", 2**20)
PLAIN = board(SRAM, FLASH)
SLOW = replace(FLASH, wait_states=4, access_bytes=8)


def advice_text(whole: Estimate, target: Target, **known: Any) -> str:
    """All advice in one text."""
    return "\n".join(advice(AdviceContext(whole, target, estimated_bandwidth(whole), **known)))


MEMORY = estimate([operator(), operator(1)], gbps=1.1e-6)  # of which a run takes 1e-6
COMPUTE = estimate([operator(), operator(1, ms=3.0)], gbps=1.0)
WAITING = estimate([operator(stall_cycles=50_000), operator(1)], gbps=1.0)


def test_the_verdict_is_a_sentence_with_its_figures() -> None:
    assert verdict_text(bandwidth_of(900_000, 1, 1.0, 1.0)) == (
        "memory-bound: most of the time is spent moving data (0.900 of 1.00 GB/s, 90 %)"
    )
    assert verdict_text(bandwidth_of(12_000, 1, 1.0, 1.0)).endswith("(0.0120 of 1.00 GB/s, 1.2 %)")


def test_low_bandwidth_is_not_called_fast_if_the_core_waits() -> None:
    """As where weights are read from QSPI flash again for every two columns of output."""
    run = bandwidth_of(12_000, 1, 1.0, 1.0)
    assert "bandwidth is unused" in verdict_text(run, 0.5)
    assert "inefficient access: 86 % of the time is spent waiting" in verdict_text(run, 0.86)
    assert "memory-bound" in verdict_text(bandwidth_of(900_000, 1, 1.0, 1.0), 0.86)
    assert WAITING.cycles is not None
    waiting = sum(item.stall_cycles for item in WAITING.operators)
    assert AdviceContext(WAITING, PLAIN, None).waiting == waiting / WAITING.cycles


def test_advice_for_a_memory_bound_model() -> None:
    assert "copy the weights from flash to sram at startup (800 bytes; 60,000 bytes are free)" in advice_text(
        MEMORY, PLAIN, arena_bytes=64 * 1024 - 60_000
    )
    part = advice_text(MEMORY, PLAIN, arena_bytes=64 * 1024 - 500)
    assert "copy the weights of CONV_2D 0 (400 bytes) from flash to RAM" in part
    assert "if the chip has other free RAM" in advice_text(MEMORY, PLAIN)


def test_waiting_for_constants_is_a_reason_whatever_the_verdict() -> None:
    assert "copy the weights" in advice_text(WAITING, PLAIN, arena_bytes=1024)
    assert "copy the weights" not in advice_text(COMPUTE, PLAIN, arena_bytes=1024)
    assert "prefetching for flash" in advice_text(WAITING, board(SRAM, SLOW))
    assert "prefetch" not in advice_text(WAITING, board(SRAM, replace(SLOW, cache_bytes=1024)))
    assert "prefetch" not in advice_text(COMPUTE, board(SRAM, SLOW))


def test_weights_of_a_loop_are_copied_once() -> None:
    looped = estimate([operator(stall_cycles=50_000, parameter_bytes=4000, runs=10)], gbps=1.0)
    assert "startup (400 bytes" in advice_text(looped, PLAIN, arena_bytes=1024)


def test_advice_for_a_compute_bound_model() -> None:
    text = advice_text(COMPUTE, PLAIN)
    assert "start with CONV_2D 1 (75 % of the time)" in text
    assert "depthwise-separable" in text
    separable = estimate([*COMPUTE.operators, operator(2, "DEPTHWISE_CONV_2D")], gbps=1.0)
    assert "depthwise-separable" not in advice_text(separable, PLAIN)
    dense = estimate([operator(0, "FULLY_CONNECTED", bound="memory")], gbps=1.0)
    assert "moves a lot of data" in advice_text(dense, PLAIN)
    assert "depthwise-separable" not in advice_text(dense, PLAIN)


def test_other_kernels_are_advised_if_they_are_faster() -> None:
    assert "OPTIMIZED_KERNEL_DIR=cmsis_nn" in advice_text(COMPUTE, PLAIN.with_overrides(kernels="reference"))
    assert "OPTIMIZED_KERNEL_DIR" not in advice_text(COMPUTE, PLAIN)
    assert "OPTIMIZED_KERNEL_DIR" not in advice_text(COMPUTE, load_target("riscv32"))


@pytest.mark.parametrize(("precision", "helps"), [("float32", True), ("int16x8", True), ("int8", False), (None, False)])
def test_a_lower_precision_is_advised_if_there_is_one(precision: Any, helps: bool) -> None:
    assert ("convert to int8" in advice_text(COMPUTE, PLAIN, precision=precision)) == helps


def row(precision: str, arena: int, model: int, *, fits: bool | None) -> PrecisionRow:
    exact = precision == "float32"
    return PrecisionRow(precision, 0, 0, arena, arena, model, 0, 1.0, 1.0, exact, precision != "float16", fits)


def sizes(arena: int, model: int, *, int8: bool | None, known: bool = True) -> PrecisionTradeoffs:
    """A float model that does not fit the board of 64 KiB and 256 KiB, and what int8 makes of it."""
    own = row("float32", arena, model, fits=False)
    own = own if known else replace(own, arena_bytes=None)
    half = row("float16", arena // 2, model // 2, fits=True)
    return PrecisionTradeoffs("float32", own, (own, half, row("int8", arena // 4, model // 4, fits=int8)), None, "")


def first(target: Target, tradeoffs: PrecisionTradeoffs) -> str:
    return advice(AdviceContext(COMPUTE, target, None, precision="float32", tradeoffs=tradeoffs))[0]


def test_the_advice_to_make_it_fit_comes_first() -> None:
    assert first(PLAIN, sizes(100_000, 100_000, int8=True)) == (
        "make it fit: the arena needs 100,000 bytes, but sram has only 65,536; convert to int8, which fits, or use "
        "fewer channels, or a smaller input"
    )
    assert "convert to int8, which may fit, or" in first(PLAIN, sizes(100_000, 100_000, int8=None))
    assert "convert" not in first(PLAIN, sizes(100_000, 100_000, int8=False))
    assert "needs at least 100,000 bytes" in first(PLAIN, sizes(100_000, 100_000, int8=True, known=False))
    assert first(PLAIN, sizes(1000, 300_000, int8=False)) == (
        "make it fit: the model needs 300,000 bytes, but flash has only 262,144; use fewer channels or layers"
    )
    both = first(PLAIN, sizes(100_000, 300_000, int8=True))
    assert "sram has only 65,536; the model needs 300,000" in both


def test_memory_outside_the_chip_is_a_way_to_make_it_fit() -> None:
    outside = board(SRAM, SDRAM, FLASH)
    assert "or place the arena in sdram (--arena-region sdram)" not in first(outside, sizes(9, 300_000, int8=False))
    assert "place the arena in sdram (--arena-region sdram), or use fewer" in first(
        outside, sizes(100_000, 9, int8=False)
    )
    assert "sdram" not in first(outside, sizes(9 * 2**20, 9, int8=False))


def test_int8_is_not_advised_twice() -> None:
    fitting = sizes(100_000, 100_000, int8=True)
    assert advice_text(COMPUTE, PLAIN, precision="float32", tradeoffs=fitting).count("convert to int8") == 1
    large = sizes(100_000, 100_000, int8=False)
    assert advice_text(COMPUTE, PLAIN, precision="float32", tradeoffs=large).count("convert to int8") == 1
    small = replace(fitting, as_is=row("float32", 9, 9, fits=True))
    assert "make it fit" not in advice_text(COMPUTE, PLAIN, precision="float32", tradeoffs=small)
    assert "convert to int8, if the accuracy remains acceptable" in advice_text(
        COMPUTE, PLAIN, precision="float32", tradeoffs=small
    )


def test_an_operator_with_a_tiny_share_is_not_named() -> None:
    even = estimate([operator(index) for index in range(30)], gbps=1.0)
    text = advice_text(even, PLAIN)
    assert "no single operator dominates" in text
    assert "change" not in text
    one = estimate([operator(stall_cycles=50_000), *[operator(i, parameter_bytes=9000) for i in range(1, 31)]], gbps=1)
    waiting = replace(one, operators=tuple(replace(item, stall_cycles=20_000) for item in one.operators))
    assert "copy the weights of" not in advice_text(waiting, PLAIN, arena_bytes=64 * 1024 - 500)


def test_simd_is_mentioned_only_if_the_core_has_it() -> None:
    assert "SIMD" in advice_text(COMPUTE, PLAIN, precision="float32")
    assert "SIMD" not in advice_text(COMPUTE, board(SRAM, FLASH, core="cortex-m0plus"), precision="float32")


def test_an_arena_outside_is_the_first_thing_to_move() -> None:
    outside = board(SRAM, SDRAM, QSPI, arena_region_name="sdram")
    first, *_ = advice_text(COMPUTE, outside, arena_bytes=1024).splitlines()
    assert first == "place the arena in sram: its 1,024 bytes fit there"
    assert "so that the arena fits in sram" in advice_text(COMPUTE, outside, arena_bytes=2**20)


def test_advice_to_measure_a_device_without_a_time() -> None:
    unknown = estimate([operator()], latency_ms=None)
    assert "--measured-ms" in advice_text(unknown, PLAIN)
    assert "start with CONV_2D 0, which accounts for 100 % of the memory traffic" in advice_text(unknown, PLAIN)
    assert "of the time" not in advice_text(unknown, PLAIN)
    assert advice(AdviceContext(estimate([]), PLAIN, bandwidth_of(1, 1, 1.0, 1.0))) == ()


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


def test_an_arena_that_is_only_a_lower_bound_counts_as_unknown() -> None:
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


def test_without_a_cache_it_is_not_mentioned() -> None:
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
