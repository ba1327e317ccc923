"""Profiles as text: what is written loads as it was meant."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.errors import InternalError
from edgetool.pipeline.calibrate import profile_text
from edgetool.target.load import list_boards, load_target, parse_target, validate_target
from edgetool.target.types import Power, Target, Timing

TIMING = Timing("cmsis-nn", 1.25, 0.9, 1.1, 0.8, 1.3, "calibrated", "three models of ours")


def mine(target: Target, **changes: object) -> Target:
    return replace(target, name="mine", **changes)  # type: ignore[arg-type]  # fields by name


@pytest.mark.parametrize("name", list_boards())
def test_every_board_is_written_in_both_ways(name: str) -> None:
    board = load_target(name)
    for base in (board, None):
        text = profile_text(mine(board), base=base)
        read = parse_target(text, where="mine.toml")
        assert replace(read, name=board.name, sources=()) == replace(board, sources=())
        assert not [finding for finding in validate_target(text, where="mine.toml") if finding.level == "error"]


def test_an_extension_says_only_what_is_different() -> None:
    board = load_target("nucleo-l4r5zi")
    text = profile_text(mine(board, timings=(TIMING,)), base=board, comments=["by hand", "twice\nover"])
    assert text.startswith("# by hand\n# twice?over\n")
    table = tomllib.loads(text)
    assert table.keys() == {"name", "extends", "timing"}
    assert table["extends"] == "nucleo-l4r5zi"
    assert table["timing"][0]["operator_band"] == [0.8, 1.3]


def test_overrides_of_the_command_line_are_kept() -> None:
    board = load_target("nucleo-l4r5zi")
    changed = board.with_overrides(clock_hz=80_000_000, sram_bytes=100_000, kernels="reference")
    flash = board.flash_region
    assert flash is not None
    regions = tuple(
        replace(item, stall_cycles_per_byte=0.7) if item.name == flash.name else item for item in changed.regions
    )
    changed = mine(changed, regions=regions, timings=(TIMING,), power=Power(40.0, 38.5, 52.0, "a meter"))
    table = tomllib.loads(profile_text(changed, base=board))
    assert (table["clock"], table["kernels"], table["power"]["active_mw"]) == ("80 MHz", "reference", 40.0)
    amended = {item.pop("name"): item for item in table["region"]}
    assert amended[flash.name] == {"stall_cycles_per_byte": 0.7}
    arena = board.arena_region
    assert arena is not None
    assert amended[arena.name] == {"size": "100000 B", "note": "size specified by the user"}


@pytest.mark.parametrize("changes", [{"clock_hz": 80_000_000}, {"mcu": "another"}, {"board": "my own"}])
def test_what_the_base_loses_by_a_change_is_written(changes: dict[str, object]) -> None:
    board = load_target("nucleo-l4r5zi")
    changed = mine(board, **changes)
    read = parse_target(profile_text(changed, base=board), where="")
    assert (read.power, read.timings) == (board.power, board.timings)
    bare = replace(changed, power=None)
    assert parse_target(profile_text(bare, base=board), where="").power is None


def test_another_core_keeps_what_is_said_of_its_memories() -> None:
    board = load_target("rpi-pico")
    other = load_target("cortex-m33")
    changed = mine(board, core=other.core, factors=other.factors)
    text = profile_text(changed, base=board)
    assert "cold_cycles = 37000" in text
    assert replace(parse_target(text, where=""), sources=()) == replace(changed, sources=())


texts = st.text(st.characters(categories=("L", "N", "P", "S"), include_characters=' "\\'), min_size=1, max_size=60)


@settings(max_examples=60, deadline=None)
@given(basis=texts.filter(str.strip), cpi=st.floats(1.0, 8.0), low=st.floats(0.05, 1.0), high=st.floats(1.0, 20.0))
def test_numbers_and_texts_come_back_as_they_were(basis: str, cpi: float, low: float, high: float) -> None:
    board = load_target("nucleo-l4r5zi")
    timing = Timing("cmsis-nn", cpi, low, high, low, high, "calibrated", basis)
    assert parse_target(profile_text(mine(board, timings=(timing,)), base=board), where="").timings == (timing,)


def test_regions_that_are_not_the_bases_are_all_written() -> None:
    board = load_target("nucleo-l4r5zi")
    regions = (replace(board.regions[0], name="other"), *board.regions[1:])
    read = parse_target(profile_text(mine(board, regions=regions), base=board), where="")
    assert read.regions == regions


def test_a_profile_that_would_not_load_as_meant_is_not_written() -> None:
    board = load_target("nucleo-l4r5zi")
    assert board.power is not None  # and no key takes it away
    with pytest.raises(InternalError, match="does not load back as intended"):
        profile_text(mine(board, power=None), base=board)
