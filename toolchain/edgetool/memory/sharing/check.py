"""The independent checker of assignments, which shares only the types with the solvers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from edgetool.errors import InternalError
from edgetool.memory.sharing.types import LiveRange, Ranges, TensorGroup


@dataclass(frozen=True, slots=True)
class Conflict:
    """A rule that an assignment breaks, described in a sentence, and the tensors concerned."""

    rule: str
    message: str
    tensors: tuple[str, ...]


def check_assignment(
    ranges: Ranges, groups: Sequence[TensorGroup], *, static: Collection[str] = (), in_place: bool = False
) -> tuple[Conflict, ...]:
    """Return every conflict: tensors in no or several buffers, unknown ones, static ones that share, and interference.

    In a group whose ranges interfere, each tensor is named once, with the earlier one that is used longest.
    """
    conflicts = []
    count = Counter(name for group in groups for name in group)
    for name in ranges:
        if count[name] != 1:
            conflicts.append(Conflict("once", f"{name} is in {count[name]} buffers", (name,)))
    conflicts += [Conflict("unknown", f"{name} is not a tensor", (name,)) for name in count if name not in ranges]
    for group in groups:
        conflicts += [
            Conflict("static", f"{name} is static, but shares its buffer with other tensors", (name,))
            for name in group
            if name in static and len(group) > 1
        ]
        conflicts += _interfering(ranges, [name for name in group if name in ranges], in_place)
    return tuple(conflicts)


def require_valid_assignment(
    ranges: Ranges, groups: Sequence[TensorGroup], *, static: Collection[str] = (), in_place: bool = False
) -> None:
    """Raise InternalError if an assignment breaks a rule."""
    conflicts = check_assignment(ranges, groups, static=static, in_place=in_place)
    if conflicts:
        raise InternalError(
            f"the assignment to shared buffers is invalid: {conflicts[0].message}",
            fix="please report this and attach the model; no file was written",
            details=tuple(conflict.message for conflict in conflicts[1:6]),
        )


def _interfering(ranges: Ranges, names: list[str], in_place: bool) -> list[Conflict]:
    conflicts = []
    longest: str | None = None
    for name in sorted(names, key=lambda name: _definition(ranges[name])):
        if longest is not None and not _ends_before(ranges[longest], ranges[name], in_place):
            times = f"{_describe(ranges[longest])}, {_describe(ranges[name])}"
            text = f"{longest} is still in use when {name} is defined ({times})"
            conflicts.append(Conflict("interference", text, (longest, name)))
        if longest is None or _use(ranges[name]) >= _use(ranges[longest]):
            longest = name
    return conflicts


def _ends_before(first: LiveRange, second: LiveRange, in_place: bool) -> bool:
    """Return whether the last use of the first is before the definition of the second."""
    if first.used is None or second.defined is None:
        return False
    if first.used == second.defined:
        return in_place and (first.defined is None or first.defined < first.used)
    return first.used < second.defined


def _definition(live: LiveRange) -> tuple[float, float]:
    return (float("-inf") if live.defined is None else live.defined, _use(live))


def _use(live: LiveRange) -> float:
    return float("inf") if live.used is None else live.used


def _describe(live: LiveRange) -> str:
    start = "from the start" if live.defined is None else f"from {live.defined}"
    return f"{start} to {'the end' if live.used is None else live.used}"
