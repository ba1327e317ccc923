from __future__ import annotations

from dataclasses import replace

from edgetool.estimate.memory_speed import placement_findings
from edgetool.finding import Finding
from edgetool.target.load import load_target
from edgetool.target.tables import PlacementEffect, load_placement_effects
from edgetool.target.types import MemoryRegion, Target
from tests.estimate.figures import FLASH, SRAM, board

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


def test_memory_on_the_chip_needs_no_word() -> None:
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


def test_waiting_is_told_as_far_as_it_is_modelled() -> None:
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
    told = {item.rule: item for item in placement_findings(load_target("rpi-pico2"), load_placement_effects())}
    assert "6.6 times as long as without wait states, on RP2350" in told["constants-in-external-flash"].message
    sdram = load_target("stm32h747i-disco").with_overrides(arena_region="sdram")
    told = {item.rule: item for item in placement_findings(sdram, load_placement_effects())}
    assert "1.2 times as long as without wait states, on STM32H747" in told["arena-in-external-ram"].message
