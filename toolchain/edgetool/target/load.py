"""Profiles by name from the package's data, and a user's own profile from its text."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from edgetool.errors import TargetError
from edgetool.finding import Finding
from edgetool.target.extend import extended
from edgetool.target.instructions import load_factors
from edgetool.target.package import document, names
from edgetool.target.profile import (
    MAX_PROBLEMS,
    bare_core,
    problems_as_error,
    read_board,
    read_core,
    read_runtime,
    require_abi,
)
from edgetool.target.regions import region_figures
from edgetool.target.schema import Problem, Section, did_you_mean
from edgetool.target.toml_text import toml_table
from edgetool.target.types import Core, Runtime, Target

DEFAULT_RUNTIME = "tflm-2026-08"
ALIASES = {
    "cortex-m0+": "cortex-m0plus",
    "nucleo-f401re": "stm32f401",
    "esp32-devkitc": "esp32",
    "esp32-s3-devkitc-1": "esp32-s3",
    "esp32-c3-devkitm-1": "esp32-c3",
    "waveshare-rp2350": "rpi-pico2",
}
LIST_COMMAND = "'edgetool targets list' lists all"


def load_target(name: str) -> Target:
    """The packaged core or board of that name; upper case, underscores and "cortex-m0+" are understood.

    Raises TargetError for an unknown name.
    """
    canonical = _canonical(name)
    if canonical in list_cores():
        core, runtime = load_core(canonical), load_runtime(DEFAULT_RUNTIME)
        require_abi(core, runtime, where=f"targets/cores/{canonical}.toml: abi")
        return _with_factors(bare_core(core, runtime))
    if canonical in list_boards():
        where = f"targets/boards/{canonical}.toml"
        return _board(document("boards", canonical), where)
    raise TargetError(f"unknown target {name[:80]!r}", fix=_suggestion(canonical, list_targets()))


def parse_target(text: str, *, where: str) -> Target:
    """The board of a user's profile, given as TOML text; `where` is its path, for messages.

    It names a packaged core, or extends a packaged board. Raises TargetError naming file and key; its
    details hold the further problems.
    """
    return _board(_toml(text, where), where)


def validate_target(text: str, *, where: str) -> tuple[Finding, ...]:
    """Everything that is wrong with a user's profile, as errors; what has no verified source, as a note."""
    try:
        profile = _toml(text, where)
    except TargetError as error:
        return (Finding("target-profile", "error", _sentence(error.what, error.fix), where),)
    target, problems = _read_board(profile)
    if problems:
        return tuple(
            Finding("target-profile", "error", _sentence(p.what, p.fix), f"{where}: {p.key}")
            for p in problems[: MAX_PROBLEMS + 1]
        )
    verified = {figure for source in target.sources if source.verified for figure in source.covers}
    given = (("power", target.power), ("bandwidth", target.bandwidth_gbps))
    figures = (
        "clock",
        *(name for name, figure in given if figure is not None),
        *(figure for region in target.regions for figure in region_figures(region)),
    )
    open_figures = [figure for figure in figures if figure not in verified]
    if not open_figures:
        return ()
    return (Finding("unverified-profile", "note", f"no verified source for {', '.join(open_figures)}", where),)


@cache
def load_core(name: str) -> Core:
    """The packaged core of that name. Raises TargetError for an unknown one."""
    canonical = _canonical(name)
    if canonical not in list_cores():
        raise TargetError(f"unknown core {name[:80]!r}", fix=_suggestion(canonical, list_cores()))
    section = Section(document("cores", canonical), [])
    core = read_core(section)
    if section.problems:
        raise problems_as_error(section.problems, f"targets/cores/{canonical}.toml")
    return core


@cache
def load_runtime(name: str) -> Runtime:
    """The packaged runtime of that name. Raises TargetError for an unknown one."""
    canonical = _canonical(name)
    if canonical not in list_runtimes():
        raise TargetError(f"unknown runtime {name[:80]!r}", fix=f"use {', '.join(list_runtimes())}")
    section = Section(document("runtimes", canonical), [])
    runtime = read_runtime(section)
    if section.problems:
        raise problems_as_error(section.problems, f"targets/runtimes/{canonical}.toml")
    return runtime


def list_targets() -> tuple[str, ...]:
    """The names of the packaged cores, then of the boards."""
    return (*list_cores(), *list_boards())


@cache
def list_cores() -> tuple[str, ...]:
    """The names of the packaged cores, in the order of their numbers."""
    return names("cores")


@cache
def list_boards() -> tuple[str, ...]:
    """The names of the packaged boards."""
    return names("boards")


@cache
def list_runtimes() -> tuple[str, ...]:
    """The names of the packaged runtimes."""
    return names("runtimes")


def _board(profile: dict[str, Any], where: str) -> Target:
    target, problems = _read_board(profile)
    if problems:
        raise problems_as_error(problems, where)
    return target


def _read_board(profile: dict[str, Any]) -> tuple[Target, list[Problem]]:
    problems: list[Problem] = []
    whole = extended(profile, _packaged_board, problems, lambda name: _suggestion(_canonical(name), list_boards()))
    target = read_board(Section(whole, problems), load_core, load_runtime, DEFAULT_RUNTIME)
    return _with_factors(target), problems


def _packaged_board(name: str) -> dict[str, Any] | None:
    canonical = _canonical(name)
    return document("boards", canonical) if canonical in list_boards() else None


def _with_factors(target: Target) -> Target:
    """The target with the speeds of other runtimes on its core."""
    return replace(target, factors=tuple(f for f in load_factors() if f.core == target.core.name))


def _toml(text: str, where: str) -> dict[str, Any]:
    return toml_table(text, where=where, fix="see targets/boards for examples", error=TargetError)


def _canonical(name: str) -> str:
    lower = name.strip().lower().replace("_", "-")
    return ALIASES.get(lower, lower)


def _suggestion(name: str, known: tuple[str, ...]) -> str:
    guess = did_you_mean(name, known)
    return f"{guess} {LIST_COMMAND}" if guess else LIST_COMMAND


def _sentence(what: str, fix: str | None) -> str:
    return f"{what}; {fix}" if fix else what
