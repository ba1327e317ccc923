"""Earlier versions of TFLM: the newest profile, less the changes that came later.

The newest profile describes everything. targets/changes.toml lists what changed since the earliest snapshot: each
change has a name, the library (TFLM or CMSIS-NN), commit and date, and what a profile from before it has instead. The
profile of an earlier snapshot contains only its commits and dates. What no table can express, such as the bytes that a
kernel requests, is a rule that asks whether the build has the change (Platform.has).
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from edgetool.errors import Problem
from edgetool.target.tables import targets_folder
from edgetool.target.toml import Section

Document = dict[str, Any]

CHANGES_FILE = "targets/changes.toml"
LIBRARIES = ("tflm", "cmsis_nn")
# The tables of a profile with an entry per operator, each in the table that contains it.
_BY_OPERATOR = (
    ("resolver",),
    ("custom_resolver",),
    ("options",),
    ("op_data", "reference"),
    ("op_data", "cmsis-nn"),
    ("types", "reference"),
    ("types", "cmsis-nn"),
    ("scales",),
)
_LISTS_BY_OPERATOR = ("registration", "limit", "rank_limit")


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a library, and what profiles from before it have instead.

    date: of the commit, as in the profiles. effect: in words, with the source file. operators: those that it added;
    registrations: the functions that it added; fixed, introduced: the faults that it removed and brought. before: the
    tables of a profile whose entries were different, merged into those of the newest; an entry of "absent" has none.
    """

    name: str
    library: str
    commit: str
    date: str
    effect: str
    operators: tuple[str, ...] = ()
    registrations: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    introduced: tuple[str, ...] = ()
    before: Mapping[str, Any] = field(default_factory=dict)


ABSENT = "absent"
# What a snapshot's profile does not inherit.
SNAPSHOT_KEYS = ("linked_by",)


@cache
def load_changes() -> tuple[Change, ...]:
    """Return the packaged changes, the latest first. Raises ValueError if the file is invalid."""
    return parse_changes(targets_folder().joinpath("changes.toml").read_text(encoding="utf-8"))


def parse_changes(text: str) -> tuple[Change, ...]:
    """Return the changes of a TOML text, the latest first. Raises ValueError that lists the problems."""
    problems: list[Problem] = []
    document = Section(tomllib.loads(text), problems)
    changes = [_read_change(item) for item in document.sections("change")]
    document.finish()
    names = [change.name for change in changes]
    problems += [Problem(f"change.{name}", "is listed twice") for name in sorted(set(names)) if names.count(name) > 1]
    if problems:
        raise ValueError("; ".join(f"{CHANGES_FILE}: {item.key}: {item.what}" for item in problems))
    return tuple(sorted(changes, key=lambda change: change.date, reverse=True))


def _read_change(section: Section) -> Change:
    change = Change(
        name=section.name("name"),
        library=section.choice("library", LIBRARIES) or LIBRARIES[0],
        commit=section.text("commit"),
        date=section.text("date"),
        effect=section.text("effect"),
        operators=section.strings("operators") if section.has("operators") else (),
        registrations=section.strings("registrations") if section.has("registrations") else (),
        fixed=section.strings("fixed") if section.has("fixed") else (),
        introduced=section.strings("introduced") if section.has("introduced") else (),
        before=section.section("before").table if section.has("before") else {},
    )
    section.finish()
    return change


def later_changes(snapshot: Mapping[str, Any], changes: Sequence[Change]) -> tuple[Change, ...]:
    """Return the changes that the snapshot does not have yet: those after the date of its TFLM or kernel library."""
    return tuple(change for change in changes if change.date > snapshot[change.library]["date"])


def earlier_profile(snapshot: Mapping[str, Any], newest: Mapping[str, Any], later: Sequence[Change]) -> Document:
    """Return the snapshot's whole profile: the newest, less the later changes, with the snapshot's own keys."""
    document: Document = dict(newest)
    for change in later:
        document = _without(document, change)
    own = {key: value for key, value in snapshot.items() if key != "newest"}
    inherited = {key: value for key, value in document.items() if key not in SNAPSHOT_KEYS}
    return {**inherited, **own}


def _without(document: Document, change: Change) -> Document:
    """Return a profile from before the change."""
    for path in _BY_OPERATOR:
        document = _edited(document, path, lambda table: _removed(table, change.operators))
    functions = set(change.registrations)
    for name in _LISTS_BY_OPERATOR:
        kept = [item for item in document.get(name, []) if item["operator"] not in change.operators]
        document[name] = [item for item in kept if item.get("function") not in functions]
    faults = {*document.get("faults", []), *change.fixed} - set(change.introduced)
    return _merged({**document, "faults": sorted(faults)}, change.before)


def _edited(document: Document, path: Sequence[str], edit: Callable[[Document], Document]) -> Document:
    """Return a document in which the table at this path is edited, if it is there."""
    key, *rest = path
    if key not in document:
        return document
    inner = document[key]
    return {**document, key: _edited(inner, rest, edit) if rest else edit(inner)}


def _removed(table: Document, keys: Sequence[str]) -> Document:
    return {key: value for key, value in table.items() if key not in keys}


def _merged(table: Document, before: Mapping[str, Any]) -> Document:
    merged = dict(table)
    for key, value in before.items():
        if isinstance(value, Mapping):
            merged[key] = _merged(merged.get(key, {}), value)
        elif value == ABSENT:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged
