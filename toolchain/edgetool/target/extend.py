"""A board's profile that extends another's: which keys it takes over, and which sources still speak for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from edgetool.target.schema import Problem

Document = dict[str, Any]

# Keys of an extended board, and what does not hold any more when they are replaced: another board was not measured.
_DEPENDENT = (
    ("board", "timing"),
    ("board", "power"),
    ("clock", "clock_source"),
    ("core", "fpu"),
    ("core", "usual_kernels"),
    ("core", "timing"),
    ("kernels", "usual_kernels"),
    ("region", "arena_region"),
)
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
        shown = repr(name[:80]) if isinstance(name, str) else "what it says"
        problems.append(
            Problem("extends", f"{shown} is not a packaged board", fix(name if isinstance(name, str) else ""))
        )
        return own
    if base["name"] in chain:
        problems.append(
            Problem("extends", f"goes in a circle: {' extends '.join((*chain, base['name']))}", "end it at one board")
        )
        return own
    base = _extended(base, base_of, problems, fix, (*chain, base["name"]))
    return _merged(own, base)


def _merged(own: Document, base: Document) -> Document:
    gone = {dependent for key, dependent in _DEPENDENT if key in own}
    replaced = {*own, *gone}
    regions = base.get("region", [])
    amended = _amended(own.get("region"), regions)
    if amended is not None:
        replaced |= {figure for item in own["region"] for figure in _figures(item["name"], item)}
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


def _amended(own: Any, base: list[Document]) -> list[Document] | None:
    """The base's regions with what tables without a kind say of them; None when the tables are regions of their own."""
    if not isinstance(own, list) or not own:
        return None
    names = [region["name"] for region in base]
    if not all(isinstance(item, dict) and "kind" not in item and item.get("name") in names for item in own):
        return None
    merged = {region["name"]: region for region in base}
    for item in own:
        merged[item["name"]] = {**merged[item["name"]], **item}
    return list(merged.values())


def _figures(region: str, keys: Iterable[str]) -> Iterator[str]:
    """What sources call these keys of a region."""
    for key in keys:
        if key in SPEED_KEYS:
            yield f"{region}.{key}"
        elif key in ("size", "base"):
            yield region
