"""The independent judge of an assignment. It shares nothing with the solvers but the words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from edgetool.errors import InternalError
from edgetool.memory.sharing.types import Group, LiveRange, Ranges


@dataclass(frozen=True, slots=True)
class Conflict:
    """A rule that an assignment breaks, told in a sentence, and the tensors concerned."""

    rule: str
    message: str
    tensors: tuple[str, ...]


def check_assignment(
    ranges: Ranges, groups: Sequence[Group], *, static: Collection[str] = (), in_place: bool = False
) -> tuple[Conflict, ...]:
    """Every conflict: tensors without a buffer, in two, or unknown; static ones that share; ranges that interfere.

    Of a group whose ranges interfere, each tensor is named once, with the one before it that is used longest.
    """
    found = []
    count = Counter(name for group in groups for name in group)
    for name in ranges:
        if count[name] != 1:
            found.append(Conflict("once", f"{name} is in {count[name]} buffers", (name,)))
    found += [Conflict("unknown", f"{name} is not a tensor", (name,)) for name in count if name not in ranges]
    for group in groups:
        found += [
            Conflict("static", f"{name} is static, but shares its buffer with other tensors", (name,))
            for name in group
            if name in static and len(group) > 1
        ]
        found += _interfering(ranges, [name for name in group if name in ranges], in_place)
    return tuple(found)


def require_valid_assignment(
    ranges: Ranges, groups: Sequence[Group], *, static: Collection[str] = (), in_place: bool = False
) -> None:
    """Raise InternalError when an assignment breaks a rule."""
    conflicts = check_assignment(ranges, groups, static=static, in_place=in_place)
    if conflicts:
        raise InternalError(
            f"the assignment to shared buffers is invalid: {conflicts[0].message}",
            fix="please report this and attach the model; no file was written",
            details=tuple(conflict.message for conflict in conflicts[1:6]),
        )


def _interfering(ranges: Ranges, names: list[str], in_place: bool) -> list[Conflict]:
    found = []
    longest: str | None = None
    for name in sorted(names, key=lambda name: _definition(ranges[name])):
        if longest is not None and not _over_before(ranges[longest], ranges[name], in_place):
            text = f"{longest} is still in use when {name} is defined ({_told(ranges[longest])}, {_told(ranges[name])})"
            found.append(Conflict("interference", text, (longest, name)))
        if longest is None or _use(ranges[name]) >= _use(ranges[longest]):
            longest = name
    return found


def _over_before(first: LiveRange, second: LiveRange, in_place: bool) -> bool:
    """Whether the first is used for the last time before the second is defined."""
    if first.used is None or second.defined is None:
        return False
    if first.used == second.defined:
        return in_place and (first.defined is None or first.defined < first.used)
    return first.used < second.defined


def _definition(live: LiveRange) -> tuple[float, float]:
    return (float("-inf") if live.defined is None else live.defined, _use(live))


def _use(live: LiveRange) -> float:
    return float("inf") if live.used is None else live.used


def _told(live: LiveRange) -> str:
    start = "from the start" if live.defined is None else f"from {live.defined}"
    return f"{start} to {'the end' if live.used is None else live.used}"
