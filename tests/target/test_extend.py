"""Boards that extend others: what is taken over, what is not, and that circles end."""

from __future__ import annotations

from typing import Any

import pytest

from edgetool.errors import TargetError
from edgetool.target.extend import extended
from edgetool.target.load import load_target, parse_target
from edgetool.target.schema import Problem

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


def test_an_unknown_region_without_a_kind_is_none_of_the_bases() -> None:
    with pytest.raises(TargetError, match=r"my\.toml: region\[0\]\.kind: is missing"):
        parse_target(HEAD + FLASH.replace('"flash"', '"flsh"'), where="my.toml")


def test_a_users_extension_keeps_the_boards_timing_until_it_is_another_board() -> None:
    base = load_target("nucleo-l4r5zi")
    assert parse_target(HEAD, where="my.toml").timings == base.timings
    assert parse_target(HEAD, where="my.toml").power == base.power
    other = parse_target(f'{HEAD}board = "my own"\n', where="my.toml")
    assert (other.timings, other.power) == ((), None)
    assert other.timing == base.core.timings[0]
    assert "power" not in {figure for source in other.sources for figure in source.covers}


def test_another_core_drops_what_was_the_cores() -> None:
    target = parse_target(f'{HEAD}core = "cortex-m7"\n', where="my.toml")
    assert (target.core.name, target.timings) == ("cortex-m7", ())


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
