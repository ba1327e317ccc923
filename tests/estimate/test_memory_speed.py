"""Bandwidth, the speed of memories, and findings about placements."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import UsageError
from edgetool.estimate.memory_speed import (
    MemorySpeeds,
    Traffic,
    bandwidth_findings,
    bandwidth_of,
    estimated_bandwidth,
    placement_findings,
    speeds_of,
    verdict_of,
)
from edgetool.finding import Finding
from edgetool.target.load import load_target
from edgetool.target.tables import PlacementEffect, load_placement_effects
from edgetool.target.types import MemoryRegion, Target
from tests.estimate.figures import FLASH, SRAM, board, estimate, operator

TIMES = st.floats(1e-6, 1e9)
COUNTS = st.integers(0, 10**15)


def test_bytes_and_macs_by_time() -> None:
    run = bandwidth_of(5_000_000, 20_000_000, 10.0, 0.8)
    assert run.achieved_gbps == pytest.approx(0.5)
    assert run.utilization == pytest.approx(0.625)
    assert run.gmacs_per_s == pytest.approx(2.0)
    assert run.verdict == "balanced"
    assert bandwidth_findings(run) == ()


@pytest.mark.parametrize(
    ("utilization", "verdict"),
    [
        (0, "compute-bound or inefficient access"),
        (0.1999, "compute-bound or inefficient access"),
        (0.2, "balanced"),
        (0.8, "balanced"),
        (0.8001, "memory-bound"),
        (3, "memory-bound"),
    ],
)
def test_verdicts(utilization: float, verdict: str) -> None:
    assert verdict_of(utilization) == verdict


def test_a_bandwidth_above_the_configured_one_is_reported() -> None:
    run = bandwidth_of(2_000_000, 0, 1.0, 1.0)
    assert run.utilization == pytest.approx(2.0)
    (finding,) = bandwidth_findings(run, "a-board")
    assert (finding.rule, finding.level, finding.where) == ("bandwidth-above-configured", "warning", "a-board")
    assert "200%" in finding.message


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["latency_ms", "configured_gbps"])
def test_impossible_figures_are_refused_by_name(name: str, value: float) -> None:
    given = {"latency_ms": 1.0, "configured_gbps": 1.0, name: value}
    with pytest.raises(UsageError, match=name):
        bandwidth_of(1, 1, **given)
    with pytest.raises(UsageError, match="bytes_moved"):
        bandwidth_of(-1, 1, 1.0, 1.0)


def test_a_measured_time_takes_the_place_of_the_estimated() -> None:
    whole = estimate([operator(ms=2.0), operator(1, ms=2.0)])
    own, real = estimated_bandwidth(whole), estimated_bandwidth(whole, 8.0)
    assert own is not None
    assert real is not None
    assert own.latency_ms == 4.0
    assert own.achieved_gbps == pytest.approx(2 * real.achieved_gbps)
    with pytest.raises(UsageError, match="measured_ms"):
        estimated_bandwidth(whole, 0.0)


def test_without_a_time_there_is_no_bandwidth() -> None:
    assert estimated_bandwidth(estimate([operator()], latency_ms=None)) is None
    assert estimated_bandwidth(estimate([])) is None


@pytest.mark.parametrize("changed", [{"macs": 10**30}, {"ms": 1e30, "cycles": 10**32}])
def test_impossible_rates_have_no_bandwidth(changed: dict[str, float]) -> None:
    """The shapes of a hostile file make such figures: no reason to blame an argument that nobody gave."""
    assert estimated_bandwidth(estimate([operator(**changed)])) is None


def test_the_time_of_bytes_says_nothing_of_bandwidth() -> None:
    counted, assumed = operator(ms=2.0), operator(1, ms=3.0, basis="bytes")
    assert estimated_bandwidth(estimate([counted, assumed])) is None
    assert estimated_bandwidth(estimate([counted, assumed]), 10.0) is not None
    assert estimated_bandwidth(estimate([counted, counted, assumed])) is not None


@given(COUNTS, COUNTS, TIMES, TIMES)
def test_half_the_time_is_twice_the_bandwidth(bytes_moved: int, macs: int, latency_ms: float, gbps: float) -> None:
    run, fast = bandwidth_of(bytes_moved, macs, latency_ms, gbps), bandwidth_of(bytes_moved, macs, latency_ms / 2, gbps)
    assert fast.achieved_gbps == pytest.approx(2 * run.achieved_gbps)
    assert fast.gmacs_per_s == pytest.approx(2 * run.gmacs_per_s)
    assert run.utilization * gbps == pytest.approx(run.achieved_gbps)
    assert bool(bandwidth_findings(run)) == (run.utilization > 1)


SDRAM = MemoryRegion("sdram", "external-ram", 8 * 2**20)
QSPI = MemoryRegion("qspi", "external-flash", 2**20)
ON_F7 = PlacementEffect("arena-in-external-ram", "STM32F767", "cortex-m7", 3.8, "a model", "a document", True)
ON_M4 = PlacementEffect("arena-in-external-ram", "STM32F429", "cortex-m4", 2.5, "a model", "another", True)


def found(target: Target, *effects: PlacementEffect, arena_bytes: int | None = None) -> dict[str, Finding]:
    findings = placement_findings(target, effects, arena_bytes)
    assert all(item.where == "a-board" for item in findings)
    return {item.rule: item for item in findings}


def fast(region: MemoryRegion) -> MemoryRegion:
    """With a speed of its own, so that nothing is assumed."""
    return replace(region, wait_states=0, access_bytes=8)


def test_on_chip_memory_needs_no_finding() -> None:
    assert found(board(fast(SRAM), fast(FLASH)), ON_F7, arena_bytes=1024) == {}
    assert placement_findings(load_target("cortex-m7"), [ON_F7]) == ()


def test_an_arena_in_external_ram_is_flagged_with_what_was_measured() -> None:
    outside = board(fast(SRAM), fast(SDRAM), fast(FLASH), arena_region_name="sdram", mcu="STM32F767ZI")
    (finding,) = found(outside, ON_F7, ON_M4).values()
    assert (finding.rule, finding.level) == ("arena-in-external-ram", "warning")
    assert "3.8 times as long as without wait states, on STM32F767" in finding.message
    assert "STM32F429" not in finding.message
    other_core = replace(outside, mcu="STM32F446RE", core=load_target("cortex-m4").core)
    assert "2.5 times" in found(other_core, ON_F7, ON_M4)["arena-in-external-ram"].message
    elsewhere = replace(other_core, core=load_target("cortex-m33").core)
    assert "3.8 times" in found(elsewhere, ON_F7)["arena-in-external-ram"].message
    assert "Measured" not in found(elsewhere)["arena-in-external-ram"].message
    modelled = (fast(SRAM), replace(fast(SDRAM), stall_cycles_per_byte=1.0), fast(FLASH))
    assert "3.8 times" in found(replace(outside, regions=modelled), ON_F7)["arena-in-external-ram"].message
    assert "Measured" not in found(replace(elsewhere, regions=modelled), ON_F7)["arena-in-external-ram"].message


def test_findings_report_how_waiting_is_modelled() -> None:
    bare = board(fast(SRAM), QSPI)
    unknown = found(bare)["constants-in-external-flash"]
    assert unknown.level == "warning"
    assert "not included in the estimate" in unknown.message
    known = found(board(fast(SRAM), replace(fast(QSPI), stall_cycles_per_byte=24.0)))["constants-in-external-flash"]
    assert known.level == "note"
    assert "24 stall cycles per byte" in known.message


def test_an_arena_that_only_external_ram_holds() -> None:
    both = board(fast(SRAM), fast(SDRAM), fast(FLASH))
    assert found(both, arena_bytes=64 * 1024) == {}
    late = found(both, ON_F7, arena_bytes=64 * 1024 + 16)["arena-in-external-ram"]
    assert "--arena-region" in late.message
    assert "3.8 times" in late.message
    assert found(board(fast(SRAM), fast(FLASH)), arena_bytes=2**20) == {}
    assert found(both, arena_bytes=2**30) == {}  # nothing holds it: the judgement of the fit says so


def test_wait_states_without_a_cache_and_assumed_speeds_are_notes() -> None:
    slow = replace(FLASH, wait_states=4, access_bytes=8)
    assert found(board(fast(SRAM), slow))["no-cache"].level == "note"
    assert "no-cache" not in found(board(fast(SRAM), replace(slow, cache_bytes=1024)))
    assert found(board(SRAM, fast(FLASH)))["memory-speed-assumed"].level == "note"


def test_packaged_boards_are_flagged_by_the_packaged_table() -> None:
    findings = {item.rule: item for item in placement_findings(load_target("rpi-pico2"), load_placement_effects())}
    assert "6.6 times as long as without wait states, on RP2350" in findings["constants-in-external-flash"].message
    sdram = load_target("stm32h747i-disco").with_overrides(arena_region="sdram")
    findings = {item.rule: item for item in placement_findings(sdram, load_placement_effects())}
    assert "1.2 times as long as without wait states, on STM32H747" in findings["arena-in-external-ram"].message


SLOW = MemorySpeeds(10**8, 4.0, 4.0, arena_stall=2.0, arena_write_stall=3.0, arena_cache_bytes=1000)


def test_tensors_in_the_cache_cost_no_wait() -> None:
    assert SLOW.stall(Traffic(500, 300, 200)).cycles == 0
    assert SLOW.stall(Traffic(501, 300, 200)).arena == 300 * 2 + 200 * 3


def test_inputs_larger_than_the_cache_are_fetched_in_every_pass() -> None:
    assert SLOW.stall(Traffic(0, 1000, 200, input_reads=8)).arena == 1000 * 2 + 200 * 3
    assert SLOW.stall(Traffic(0, 1001, 200, input_reads=8)).arena == 1001 * 8 * 2 + 200 * 3


def test_constants_are_fetched_again_over_a_serial_bus_if_they_exceed_the_cache() -> None:
    serial = MemorySpeeds(10**8, 4.0, 4.0, constant_stall=5.0, in_place=True, cache_bytes=1000)
    assert serial.stall(Traffic(1000, 0, 0, constant_reads=4)).cycles == 1000 * 5
    assert serial.stall(Traffic(1001, 0, 0, constant_reads=4)).rereads == 1001 * 3 * 5
    on_chip = replace(serial, in_place=False)
    assert on_chip.stall(Traffic(1001, 0, 0, constant_reads=4)).cycles == 1001 * 5


def test_writing_costs_as_much_as_reading_unless_the_profile_says_otherwise() -> None:
    board = load_target("stm32h747i-disco").with_overrides(arena_region="sdram")
    speeds = speeds_of(board)
    assert (speeds.arena_stall, speeds.arena_write_stall) == (1.875, 3.625)
    plain = tuple(replace(region, write_stall_cycles_per_byte=None) for region in board.regions)
    assert speeds_of(replace(board, regions=plain)).arena_write_stall == 1.875
