"""A board's profile that extends another's: which keys it takes over, and which sources still speak for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from edgetool.target.schema import Problem, did_you_mean

Document = dict[str, Any]

# Keys of an extended board, and what does not hold any more when their value changes: another board, chip, core or
# clock was not measured.
_DEPENDENT = (
    ("board", "vendor"),
    ("board", "timing"),
    ("board", "power"),
    ("clock", "clock_source"),
    ("clock", "power"),
    ("core", "mcu"),
    ("core", "fpu"),
    ("core", "usual_kernels"),
    ("core", "timing"),
    ("core", "power"),
    ("kernels", "usual_kernels"),
    ("mcu", "timing"),
    ("mcu", "power"),
    ("region", "arena_region"),
)
# Keys of a region that were measured with the board's core.
MEASURED_KEYS = ("stall_cycles_per_byte", "cold_cycles")
# Keys of a region's speed: a source covers each as "flash.cache", and the others as "flash".
SPEED_KEYS = ("wait_states", "access_bytes", "cache", "stall_cycles_per_byte")


def extended(
    own: Document, base_of: Callable[[str], Document | None], problems: list[Problem], fix: Callable[[str], str]
) -> Document:
    """The profile with the keys of the packaged board that it extends, which may extend another.

    [[region]] tables replace all regions; those that give no kind amend the base's of the same names instead. What
    the profile replaces loses the base's source. base_of gives a packaged board's document, or None for an unknown
    name; `fix` what to do about one. Problems are noted under the key "extends".
    """
    return _extended(own, base_of, problems, fix, ())


def _extended(
    own: Document,
    base_of: Callable[[str], Document | None],
    problems: list[Problem],
    fix: Callable[[str], str],
    chain: tuple[str, ...],
) -> Document:
    if "extends" not in own:
        return own
    name = own["extends"]
    own = {key: value for key, value in own.items() if key != "extends"}
    base = base_of(name) if isinstance(name, str) else None
    if base is None:
        shown = repr(name[:80]) if isinstance(name, str) else "the value"
        problems.append(
            Problem("extends", f"{shown} is not a packaged board", fix(name if isinstance(name, str) else ""))
        )
        return own
    if base["name"] in chain:
        problems.append(
            Problem("extends", f"is circular: {' extends '.join((*chain, base['name']))}", "remove one of these")
        )
        return own
    base = _extended(base, base_of, problems, fix, (*chain, base["name"]))
    return _merged(own, base, problems)


def dependent_on(keys: Collection[str]) -> set[str]:
    """The keys that an extended board loses when these change; of another core's regions, also MEASURED_KEYS."""
    return {dependent for key, dependent in _DEPENDENT if key in keys}


def _merged(own: Document, base: Document, problems: list[Problem]) -> Document:
    gone = dependent_on([key for key in own if own[key] != base.get(key)])
    replaced = {*own, *gone}
    regions = base.get("region", [])
    if "core" in own and own["core"] != base.get("core"):
        replaced |= {figure for region in regions for figure in _figures(region["name"], MEASURED_KEYS)}
        regions = [{key: value for key, value in region.items() if key not in MEASURED_KEYS} for region in regions]
        base = {**base, "region": regions} if regions else base
    amended = _amended(own.get("region"), regions, problems)
    if amended is not None:
        names = [region["name"] for region in regions]
        given = [item for item in own["region"] if item.get("name") in names]
        replaced |= {figure for item in given for figure in _figures(item["name"], item)}
        gone -= {"arena_region"}
        own = {**own, "region": amended}
    elif "region" in own:
        replaced |= {figure for region in regions for figure in _figures(region["name"], ("base", *SPEED_KEYS))}
    sources = [
        {**source, "covers": kept}
        for source in base.get("source", [])
        if (kept := [figure for figure in source["covers"] if figure not in replaced])
    ]
    added = own.get("source", [])
    kept_base = {key: value for key, value in base.items() if key not in gone and key != "name"}
    return {**kept_base, **own, "source": [*sources, *added] if isinstance(added, list) else added}


def _amended(own: Any, base: list[Document], problems: list[Problem]) -> list[Document] | None:
    """The base's regions with what tables without a kind say of them; None when the tables are regions of their own.

    A table for no region of the base, or for one that another table amends, is noted and left out.
    """
    if not isinstance(own, list) or not own or not base:
        return None
    if not all(isinstance(item, dict) and "kind" not in item for item in own):
        return None
    merged = {region["name"]: region for region in base}
    seen: set[str] = set()
    for index, item in enumerate(own):
        name = item.get("name")
        if not isinstance(name, str) or name not in merged:
            problems.append(_no_such_region(f"region[{index}].name", name, list(merged)))
        elif name in seen:
            problems.append(Problem(f"region[{index}].name", f"modifies {name!r} twice", "merge the two tables"))
        else:
            merged[name] = {**merged[name], **item}
            seen.add(name)
    return list(merged.values())


def _no_such_region(key: str, name: Any, known: list[str]) -> Problem:
    if not isinstance(name, str):
        return Problem(key, "is missing" if name is None else "must be a string", f"use one of {', '.join(known)}")
    guess = did_you_mean(name, known) or f"its regions are {', '.join(known)}"
    what = f"the extended board has no region {name[:80]!r}, and a new region needs a kind"
    return Problem(key, what, guess)


def _figures(region: str, keys: Iterable[str]) -> Iterator[str]:
    """What sources call these keys of a region."""
    for key in keys:
        if key in SPEED_KEYS:
            yield f"{region}.{key}"
        elif key in ("size", "base"):
            yield region
