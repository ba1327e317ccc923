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
    NO_TARGET,
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
MAX_NAME = 200  # characters of a name that are compared
LEAST_CHARACTERS = 2  # of a name that is looked for in others
MAX_CANDIDATES = 8  # of an ambiguous name that are listed
LIST_COMMAND = "'edgetool targets list' lists all"


def load_target(name: str) -> Target:
    """Return the packaged board or core that a name means.

    The name of a profile always wins, then "m4" for cortex-m4, then the only board or MCU that is called so, then the
    only one whose profile, board or MCU name contains the text. Case, spaces and punctuation are ignored. Raises
    TargetError for an unknown name, and for an ambiguous one with the candidates.
    """
    canonical = _profile_named(name)
    if canonical in list_cores():
        core, runtime = load_core(canonical), load_runtime(DEFAULT_RUNTIME)
        require_abi(core, runtime, where=f"targets/cores/{canonical}.toml: abi")
        return _with_factors(bare_core(core, runtime))
    if canonical in list_boards():
        return _packaged(canonical)
    raise TargetError(f"unknown target {name[:80]!r}", fix=_near_targets(name))


def mentions(target: Target, text: str) -> bool:
    """Whether the name, board, MCU, core or vendor of a target contains the text, as load_target compares them."""
    return any(squashed(text) in squashed(label) for label in (*_labels(target), target.core.name, target.vendor or ""))


def squashed(text: str) -> str:
    """Return the letters and digits of a name, in lower case: "NUCLEO-H743ZI2" is "nucleoh743zi2"."""
    return "".join(character for character in text[:MAX_NAME].casefold() if character.isalnum())


def _packaged(name: str) -> Target:
    return _board(document("boards", name), f"targets/boards/{name}.toml")


def _labels(target: Target) -> tuple[str, ...]:
    return tuple(label for label in (target.name, target.board, target.mcu) if label)


def _profile_named(name: str) -> str | None:
    """The name of the profile that a user means; None if no profile is called so."""
    canonical = _canonical(name)
    for exact in (canonical, _canonical(f"cortex-{canonical}")):
        if exact in (*list_cores(), *list_boards()):
            return exact
    text = squashed(name)
    if len(text) < LEAST_CHARACTERS:
        return None
    by_name = {squashed(known): known for known in (*list_targets(), *ALIASES)}
    if text in by_name:
        return _canonical(by_name[text])
    boards = [_packaged(board) for board in list_boards()]
    called = [board.name for board in boards if text in map(squashed, _labels(board))]
    if len(called) == 1:
        return called[0]
    containing = [board for board in boards if any(text in squashed(label) for label in _labels(board))]
    candidates = [(board.name, board.board or board.name) for board in containing]
    candidates += [(core, "core") for core in list_cores() if text in squashed(core)]
    if len(candidates) > 1:
        shown = [f"{profile} ({label})" for profile, label in candidates[:MAX_CANDIDATES]]
        left = len(candidates) - MAX_CANDIDATES
        more = f" and {left} more" if left > 0 else ""
        raise TargetError(
            f"target {name[:80]!r} is ambiguous: {', '.join(shown)}{more}",
            fix=f"use one of these names; 'edgetool targets list {text[:80]}' shows them",
        )
    return candidates[0][0] if candidates else None


def _near_targets(name: str) -> str:
    """What to do about an unknown name: the profiles whose names, boards or MCUs are nearest."""
    from difflib import get_close_matches

    known = {squashed(profile): profile for profile in list_targets()}
    for board in map(_packaged, list_boards()):
        known.update({squashed(label): board.name for label in _labels(board) if squashed(label) not in known})
    near = dict.fromkeys(known[text] for text in get_close_matches(squashed(name)[:100], known, n=3, cutoff=0.7))
    *others, last = map(repr, near or ("",))
    guess = f"did you mean {', '.join(others)}{' or ' if others else ''}{last}? " if near else ""
    return f"{guess}{LIST_COMMAND}"


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
    unresolved = [problem for problem in problems if problem.key == "extends"]
    if unresolved:  # everything else would only be missing because of it
        return NO_TARGET, unresolved
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
