"""Which tensors share a buffer: greedily, or as few bytes as there can be."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from edgetool.errors import UsageError
from edgetool.memory.effort import Effort
from edgetool.memory.sharing.check import check_assignment, require_sound
from edgetool.memory.sharing.greedy import best_fit
from edgetool.memory.sharing.interval import interval, rank_sizes
from edgetool.memory.sharing.optimal import least_bytes
from edgetool.memory.sharing.ranges import known
from edgetool.memory.sharing.types import Algorithm, Group, Ranges, Sharing

# A few seconds.
DEFAULT_EFFORT = Effort(node_limit=50_000)


def assign(
    ranges: Ranges,
    algorithm: Algorithm = "dynamic-programming",
    *,
    static: Collection[str] = (),
    initial: Sequence[Group] = (),
    prefix: str = "",
    in_place: bool = False,
    effort: Effort | None = None,
) -> Sharing:
    """The tensors by the buffer that they share; a judged assignment.

    static: tensors that never share, as do all whose name does not start with `prefix`. initial: groups that share
    already; they stay together, and others may join them. in_place: an operator may write over what it reads last.
    Raises UsageError for ranges that make no sense, and for initial groups that interfere, repeat or do not exist.
    """
    filled = known(ranges)
    static = frozenset(static)
    alone = {name: None for name in filled if name in static or not name.startswith(prefix)}
    _check_initial(filled, initial, alone, in_place)
    shared = [name for name in filled if name not in alone]
    intervals = [interval(filled[name], in_place=in_place) for name in shared]
    group_of = {name: number for number, group in enumerate(initial) for name in group if group[0] not in alone}
    numbers = {number: k for k, number in enumerate(sorted(set(group_of.values())))}
    fixed = [numbers[group_of[name]] if name in group_of else None for name in shared]
    needed = sum(rank_sizes(intervals))
    if algorithm == "greedy":
        buffers, bound = best_fit(intervals, fixed), needed
    else:
        buffers, _, bound = least_bytes(intervals, fixed, effort or DEFAULT_EFFORT)
    groups = _groups(filled, shared, buffers, alone)
    require_sound(filled, groups, static=alone, in_place=in_place)
    optimized = memory_used(filled, groups)
    apart = memory_used(filled, [(name,) for name in alone])
    met, proven = optimized == apart + needed, optimized == apart + bound
    return Sharing(
        groups=groups,
        baseline_bytes=memory_used(filled, [(name,) for name in filled]),
        optimized_bytes=optimized,
        lower_bound=apart + bound,
        proof="bound met" if met else "search exhausted" if proven else "none",
        cut_short=algorithm != "greedy" and not proven,
    )


def memory_used(ranges: Ranges, groups: Sequence[Group]) -> int:
    """The bytes of all buffers: of each its largest tensor, of unknown size 1."""
    sizes = {name: 1 if live.size is None else live.size for name, live in ranges.items()}
    return sum(max((sizes[name] for name in group), default=0) for group in groups)


def _groups(filled: Ranges, shared: Sequence[str], buffers: Sequence[int], alone: Collection[str]) -> tuple[Group, ...]:
    """The groups in order of their first tensor, each in order of last use."""
    place = {name: index for index, name in enumerate(filled)}
    members: dict[int, list[str]] = {}
    for name, buffer in zip(shared, buffers, strict=True):
        members.setdefault(buffer, []).append(name)
    groups = [*members.values(), *([name] for name in alone)]
    ordered = [tuple(sorted(group, key=lambda name: (filled[name].used, place[name]))) for group in groups]
    return tuple(sorted(ordered, key=lambda group: min(place[name] for name in group)))


def _check_initial(filled: Ranges, initial: Sequence[Group], alone: Collection[str], in_place: bool) -> None:
    """Raise UsageError, naming the tensors, for groups that no assignment can keep."""
    given = {name: filled[name] for group in initial for name in group if name in filled}
    conflicts = check_assignment(given, initial, static=alone, in_place=in_place)
    if conflicts or not all(initial):
        raise UsageError(
            conflicts[0].message if conflicts else "an initial group is empty",
            where="the initial assignment",
            fix="use groups of different tensors that do not interfere",
            details=tuple(conflict.message for conflict in conflicts[1:6]),
        )
