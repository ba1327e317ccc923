"""Boards that extend others: what is taken over, what is not, and that circles end."""

from __future__ import annotations

from typing import Any

import pytest

from edgetool.errors import TargetError
from edgetool.target.load import extended, load_target, parse_target
from edgetool.target.toml import Problem

HEAD = 'extends = "nucleo-l4r5zi"\nname = "mine"\n'
FLASH = '[[region]]\nname = "flash"\nstall_cycles_per_byte = 0.6\n'


def merged(own: dict[str, Any], boards: dict[str, dict[str, Any]]) -> tuple[dict[str, Any], list[Problem]]:
    """The whole profile, and what was wrong."""
    problems: list[Problem] = []
    return extended(own, boards.get, problems, lambda name: f"not {name}"), problems


def test_a_region_without_a_kind_amends_the_bases() -> None:
    base, target = load_target("nucleo-l4r5zi"), parse_target(HEAD + FLASH, where="my.toml")
    assert [region.name for region in target.regions] == [region.name for region in base.regions]
    assert target.regions[0] == base.regions[0]
    assert target.regions[1].stall_cycles_per_byte == 0.6
    assert target.regions[1].size_bytes == base.regions[1].size_bytes
    covered = {figure for source in target.sources for figure in source.covers}
    assert "flash.stall_cycles_per_byte" not in covered
    assert {"flash", "flash.wait_states", "sram", "clock"} <= covered


def test_an_amended_size_loses_its_source_but_not_its_speeds() -> None:
    target = parse_target(f'{HEAD}[[region]]\nname = "flash"\nsize = "1 MiB"\n', where="my.toml")
    covered = {figure for source in target.sources for figure in source.covers}
    assert target.flash_bytes == 2**20
    assert "flash" not in covered
    assert "flash.wait_states" in covered


@pytest.mark.parametrize(
    ("region", "said"),
    [
        (FLASH.replace('"flash"', '"flsh"'), "no region 'flsh', and a new region needs a kind; did you mean 'flash'?"),
        (
            FLASH.replace('"flash"', '"xyz"'),
            "no region 'xyz', and a new region needs a kind; its regions are sram, flash",
        ),
        (FLASH + FLASH, "region[1].name: modifies 'flash' twice"),
        ('[[region]]\nsize = "1 MiB"\n', "region[0].name: is missing"),
        ("[[region]]\nname = 7\n", "region[0].name: must be a string"),
    ],
)
def test_an_amendment_names_one_region_of_the_base(region: str, said: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse_target(HEAD + region, where="my.toml")
    assert said in str(caught.value)
    assert caught.value.details == ()


def test_a_users_extension_keeps_the_boards_timing_until_it_is_another_board() -> None:
    base = load_target("nucleo-l4r5zi")
    assert parse_target(HEAD, where="my.toml").timings == base.timings
    assert parse_target(HEAD, where="my.toml").power == base.power
    other = parse_target(f'{HEAD}board = "my own"\n', where="my.toml")
    assert (other.timings, other.power) == ((), None)
    assert other.timing == base.core.timings[0]
    assert "power" not in {figure for source in other.sources for figure in source.covers}


def test_another_core_drops_what_was_the_cores() -> None:
    base = load_target("rpi-pico")
    target = parse_target('extends = "rpi-pico"\nname = "mine"\ncore = "cortex-m7"\n', where="my.toml")
    assert (target.core.name, target.timings, target.power, target.mcu) == ("cortex-m7", (), None, None)
    flash, before = target.flash_region, base.flash_region
    assert flash is not None
    assert before is not None
    assert (before.stall_cycles_per_byte, before.cold_cycles) == (24, 37000)
    assert (flash.stall_cycles_per_byte, flash.cold_cycles) == (None, None)
    assert (flash.size_bytes, flash.cache_bytes) == (before.size_bytes, before.cache_bytes)
    own = '[[region]]\nname = "qspi-flash"\nstall_cycles_per_byte = 3\n'
    target = parse_target(f'extends = "rpi-pico"\nname = "mine"\ncore = "cortex-m7"\n{own}', where="my.toml")
    assert target.flash_region is not None
    assert target.flash_region.stall_cycles_per_byte == 3


@pytest.mark.parametrize(
    ("key", "timing", "power"),
    [
        ('clock = "40 MHz"', True, False),
        ('clock = "120 MHz"', True, True),
        ('mcu = "STM32L4S5ZI"', False, False),
        ('mcu = "STM32L4R5ZI"', True, True),
        ('core = "cortex-m4"', True, True),
        ('core = "cortex-m33"', False, False),
    ],
)
def test_what_was_measured_holds_for_what_it_was_measured_on(key: str, timing: bool, power: bool) -> None:
    base, target = load_target("nucleo-l4r5zi"), parse_target(f"{HEAD}{key}\n", where="my.toml")
    assert (target.timings == base.timings, target.power == base.power) == (timing, power)
    given = parse_target(
        f'{HEAD}{key}\n[power]\nactive_mw = 20\nrange_mw = [19, 21]\nbasis = "a meter"\n', where="my.toml"
    )
    assert given.power is not None
    assert given.power.active_mw == 20


def test_a_chain_takes_over_from_the_end() -> None:
    boards: dict[str, dict[str, Any]] = {
        "a": {"name": "a", "extends": "b", "clock": 2},
        "b": {"name": "b", "extends": "c", "mcu": "B"},
        "c": {"name": "c", "mcu": "C", "core": "x", "clock": 1, "clock_source": "c"},
    }
    whole, problems = merged({"name": "own", "extends": "a"}, boards)
    assert problems == []
    assert whole == {"name": "own", "mcu": "B", "core": "x", "clock": 2, "source": []}


@pytest.mark.parametrize(
    ("boards", "said"),
    [
        ({"a": {"name": "a", "extends": "a"}}, "a extends a"),
        ({"a": {"name": "a", "extends": "b"}, "b": {"name": "b", "extends": "a"}}, "a extends b extends a"),
    ],
)
def test_a_circle_is_refused(boards: dict[str, dict[str, Any]], said: str) -> None:
    _, problems = merged({"name": "own", "extends": "a"}, boards)
    assert [problem.key for problem in problems] == ["extends"]
    assert said in problems[0].what


@pytest.mark.parametrize("name", ["nothing", 7, None, ["a"]])
def test_what_is_not_packaged_is_refused(name: object) -> None:
    whole, problems = merged({"name": "own", "extends": name}, {})
    assert whole == {"name": "own"}
    assert [problem.key for problem in problems] == ["extends"]
