"""The targets of a sweep.toml: each is resolved at once, so that an unknown one is told with its key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgetool.errors import EdgetoolError, UsageError
from edgetool.pipeline.targets import is_path
from edgetool.sweep.spec import TargetSpec
from edgetool.sweep.spec_keys import size_bytes, value_of
from edgetool.sweep.toml_file import read_toml_text
from edgetool.target.load import load_target, parse_target
from edgetool.target.quantity import CLOCK_EXPECTED, parse_clock
from edgetool.target.schema import Section
from edgetool.target.types import Target

EXAMPLE = 'write targets = ["cortex-m4", {name = "my-board.toml", clock = "80MHz"}]'
MAX_LABEL = 60
# Key -> keyword of Target.with_overrides, in the order in which that applies them: the arena's region before its size.
OVERRIDES: Mapping[str, str] = {
    "clock": "clock_hz",
    "arena_region": "arena_region",
    "sram": "sram_bytes",
    "flash": "flash_bytes",
    "kernels": "kernels",
    "runtime": "runtime",
}


@dataclass(frozen=True, slots=True)
class _Named:
    """A target and, of a label that was not given, what distinguishes it from others of its name."""

    spec: TargetSpec
    said: str
    is_given: bool


def read_targets(section: Section, folder: Path) -> tuple[TargetSpec, ...]:
    """The targets of the key "targets", their labels distinct; problems are noted."""
    section.taken.add("targets")
    items = section.table.get("targets")
    if not isinstance(items, list) or not items:
        section.note("targets", "is missing" if items is None else "must be a non-empty list of targets", EXAMPLE)
        return ()
    found = []
    for i, item in enumerate(items):
        key = f"targets[{i}]"
        table = {"name": item} if isinstance(item, str) else item
        if not isinstance(table, Mapping):
            section.note(key, "must be a name or a table", EXAMPLE)
            continue
        inner = Section(table, section.problems, section.key(key))
        named = _read(inner, folder)
        if named is not None:
            found.append((key, named))
    return _labelled(section, found)


def _read(section: Section, folder: Path) -> _Named | None:
    before = len(section.problems)
    name = section.text("name")
    label = section.text("label", required=False)
    if len(label) > MAX_LABEL:
        section.note("label", f"is longer than {MAX_LABEL} characters")
    given = {key: _override(section, key) for key in OVERRIDES}
    section.finish()
    if len(section.problems) > before:
        return None
    profile, target = _resolved(section, name, folder)
    for key, value in given.items():
        if target is None:
            return None
        if value is not None:
            target = _overridden(section, key, target, value)
    if target is None:
        return None
    overrides = tuple((OVERRIDES[key], value) for key, value in given.items() if value is not None)
    said = " ".join(_said(key, section.table[key]) for key, value in given.items() if value is not None)
    packaged = target.name if profile is None else name
    return _Named(TargetSpec(label or target.name, packaged, profile, overrides), said, bool(label))


def _override(section: Section, key: str) -> int | str | None:
    if key == "clock":
        return value_of(section, key, _clock_hz)
    if key in ("sram", "flash"):
        return value_of(section, key, size_bytes)
    return section.text(key, required=False) or None


def _clock_hz(value: object) -> int:
    if type(value) is int:
        return value
    if isinstance(value, str):
        return parse_clock(value)
    raise UsageError(f"{value!r} is not {CLOCK_EXPECTED}")


def _resolved(section: Section, name: str, folder: Path) -> tuple[str | None, Target | None]:
    """The text of the user's own profile, None for a packaged one, and the target."""
    try:
        if not is_path(name):
            return None, load_target(name)
        path = folder / name
        text = read_toml_text(path, what="a target profile")
        return text, parse_target(text, where=str(path))
    except EdgetoolError as error:
        where = f"{error.where}: " if error.where else ""
        section.note("name", f"{where}{error.what}", error.fix)
        return None, None


def _overridden(section: Section, key: str, target: Target, value: int | str) -> Target | None:
    override: dict[str, Any] = {OVERRIDES[key]: value}
    try:
        return target.with_overrides(**override)
    except EdgetoolError as error:
        section.note(key, error.what, error.fix)
        return None


def _said(key: str, value: object) -> str:
    """What a label says of an override: "80MHz", "sram 128KiB"."""
    return (
        f"{value} Hz" if type(value) is int and key == "clock" else f"{value}" if key == "clock" else f"{key} {value}"
    )


def _labelled(section: Section, found: list[tuple[str, _Named]]) -> tuple[TargetSpec, ...]:
    """Targets of one name are told apart by what overrides them."""
    names = [named.spec.label for _, named in found]
    specs: dict[str, TargetSpec] = {}
    for key, named in found:
        spec = named.spec
        if names.count(spec.label) > 1 and not named.is_given and named.said:
            spec = replace(spec, label=f"{spec.label} {named.said}")
        if spec.label in specs:
            section.note(
                key, f"{spec.label!r} is listed twice", 'remove one of them, or set a different label = "..." for one'
            )
        specs[spec.label] = spec
    return tuple(specs.values())
