"""Profiles by name from the package's data, and a user's own profile from its text."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from typing import TYPE_CHECKING, Any

from edgetool.errors import TargetError
from edgetool.finding import Finding
from edgetool.target.profile import bare_core, problems_as_error, read_board, read_core, read_runtime, require_abi
from edgetool.target.schema import Problem, Section, did_you_mean
from edgetool.target.types import Core, Runtime, Target

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

DEFAULT_RUNTIME = "tflm-2026-08"
ALIASES = {"cortex-m0+": "cortex-m0plus", "stm32f401": "nucleo-f401re"}
LIST_COMMAND = "'edgetool targets list' shows all"
# Keys of an extended board, and what does not hold any more when they are replaced.
_DEPENDENT = (
    ("clock", "clock_source"),
    ("core", "fpu"),
    ("core", "usual_kernels"),
    ("kernels", "usual_kernels"),
    ("region", "arena_region"),
)


def load_target(name: str) -> Target:
    """The packaged core or board of that name; upper case, underscores and "cortex-m0+" are understood.

    Raises TargetError for an unknown name.
    """
    canonical = _canonical(name)
    if canonical in list_cores():
        core, runtime = load_core(canonical), load_runtime(DEFAULT_RUNTIME)
        require_abi(core, runtime, where=f"targets/cores/{canonical}.toml: abi")
        return bare_core(core, runtime)
    if canonical in list_boards():
        where = f"targets/boards/{canonical}.toml"
        return _board(_document("boards", canonical), where)
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
        document = _toml(text, where)
    except TargetError as error:
        return (Finding("target-profile", "error", _sentence(error.what, error.fix), where),)
    target, problems = _read_board(document)
    if problems:
        return tuple(
            Finding("target-profile", "error", _sentence(p.what, p.fix), f"{where}: {p.key}") for p in problems
        )
    verified = {figure for source in target.sources if source.verified for figure in source.covers}
    open_figures = [f for f in ("clock", *(r.name for r in target.regions)) if f not in verified]
    if not open_figures:
        return ()
    return (Finding("unverified-profile", "note", f"no verified source for {', '.join(open_figures)}", where),)


@cache
def load_core(name: str) -> Core:
    """The packaged core of that name. Raises TargetError for an unknown one."""
    canonical = _canonical(name)
    if canonical not in list_cores():
        raise TargetError(f"unknown core {name[:80]!r}", fix=_suggestion(canonical, list_cores()))
    section = Section(_document("cores", canonical), [])
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
    section = Section(_document("runtimes", canonical), [])
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
    return _names("cores")


@cache
def list_boards() -> tuple[str, ...]:
    """The names of the packaged boards."""
    return _names("boards")


@cache
def list_runtimes() -> tuple[str, ...]:
    """The names of the packaged runtimes."""
    return _names("runtimes")


def _board(document: dict[str, Any], where: str) -> Target:
    target, problems = _read_board(document)
    if problems:
        raise problems_as_error(problems, where)
    return target


def _read_board(document: dict[str, Any]) -> tuple[Target, list[Problem]]:
    problems: list[Problem] = []
    section = Section(_extended(document, problems), problems)
    target = read_board(section, load_core, load_runtime, DEFAULT_RUNTIME)
    return target, problems


def _extended(own: dict[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """The profile with the keys of the packaged board that it extends; [[region]] replaces all regions.

    What the user replaces loses the packaged profile's source.
    """
    if "extends" not in own:
        return own
    name = own["extends"]
    own = {key: value for key, value in own.items() if key != "extends"}
    canonical = _canonical(name) if isinstance(name, str) else ""
    if canonical not in list_boards():
        shown = repr(name[:80]) if isinstance(name, str) else "what it says"
        problems.append(Problem("extends", f"{shown} is not a packaged board", _suggestion(canonical, list_boards())))
        return own
    base = _document("boards", canonical)
    replaced = set(own)
    if "region" in own:
        replaced |= {region["name"] for region in base["region"]}
    sources = [
        {**source, "covers": kept}
        for source in base.pop("source", [])
        if (kept := [figure for figure in source["covers"] if figure not in replaced])
    ]
    for key, dependent in _DEPENDENT:
        if key in own:
            base.pop(dependent, None)
    added = own.get("source", [])
    merged = {**base, **own, "source": [*sources, *added] if isinstance(added, list) else added}
    if "name" not in own:
        del merged["name"]
    return merged


def _toml(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0][:200] if isinstance(error, ValueError) else "nested too deeply"
        raise TargetError(f"is not TOML: {reason}", where=where, fix="see targets/boards for examples") from None


def _document(kind: str, name: str) -> dict[str, Any]:
    """The parsed text of a packaged profile; the name is one of the listed."""
    text = _data().joinpath(kind, f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _data() -> Traversable:
    import importlib.resources  # slow to import, and only packaged names need it

    return importlib.resources.files("edgetool.targets")


def _names(kind: str) -> tuple[str, ...]:
    files = (entry.name for entry in _data().joinpath(kind).iterdir())
    names = (name.removesuffix(".toml") for name in files if name.endswith(".toml"))
    return tuple(sorted(names, key=_natural))


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key that puts cortex-m7 before cortex-m33."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _canonical(name: str) -> str:
    lower = name.strip().lower().replace("_", "-")
    return ALIASES.get(lower, lower)


def _suggestion(name: str, known: tuple[str, ...]) -> str:
    guess = did_you_mean(name, known)
    return f"{guess} {LIST_COMMAND}" if guess else LIST_COMMAND


def _sentence(what: str, fix: str | None) -> str:
    return f"{what}; {fix}" if fix else what
