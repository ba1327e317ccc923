"""The independent checker of layouts, which shares only the problem's types with the solvers.

Every layout that edgetool outputs is checked here first. Disjointness is tested by a sweep over time with sorted
offsets; only if that fails are the overlapping pairs listed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from edgetool.errors import InternalError
from edgetool.memory.problem import (
    Buffer,
    Layout,
    LayoutProblem,
    LowestLayout,
    Overlap,
    SeveralLayout,
    SeveralProblem,
)

MAX_NAME_SHOWN = 60
# Pairs grow with the square of the buffers: after this number, the list ends with a message.
MAX_PAIRS = 10_000


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a layout breaks, described in a sentence, and the indices of the buffers concerned."""

    rule: str
    message: str
    buffers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _PlacedBuffer:
    """A buffer, or all buffers of one alias with the index of the first, live from `first` to `last`.

    bytes is its size; reserved is the size that counts for the peak and the bound.
    """

    index: int
    first: int
    last: int
    bytes: int
    reserved: int
    offset: int


def check_layout(problem: LayoutProblem, layout: Layout) -> tuple[Violation, ...]:
    """Return every violation.

    The rules: one offset per buffer, neither negative nor unaligned; pinned and aliased buffers at their fixed offsets;
    no overlap of live buffers without permission (those of size 0 overlap nothing); and a consistent peak, bound and
    proof.
    """
    buffers = problem.buffers
    if len(layout.offsets) != len(buffers):
        return (Violation("count", f"{len(layout.offsets)} offsets for {len(buffers)} buffers", ()),)
    violations = [item for i in range(len(buffers)) for item in _offset_violations(buffers[i], layout.offsets[i], i)]
    violations.extend(_alias_violations(buffers, layout.offsets))
    placed = _placed_buffers(buffers, layout.offsets)
    violations.extend(_permission_violations(problem))
    if not _disjoint(placed):
        violations.extend(_overlap_violations(buffers, placed, _distances(problem)))
    top = max((buffer.offset + buffer.reserved for buffer in placed), default=0)
    if layout.height != top:
        violations.append(
            Violation("height", f"the height is {layout.height}, but the highest buffer ends at {top}", ())
        )
    if layout.proof == "bound met" and not _may_leave_holes(buffers):
        in_use, state = (_max_covered(placed), "in use") if problem.overlaps else (_max_live(placed), "live")
        if layout.lower_bound > in_use:
            text = f"the bound is {layout.lower_bound}, but at most {in_use} bytes are {state} at once"
            violations.append(Violation("bound", text, ()))
    if layout.proof != "none" and layout.height != layout.lower_bound:
        violations.append(
            Violation("proof", f"the height {layout.height} differs from the lower bound {layout.lower_bound}", ())
        )
    if layout.height < layout.lower_bound:
        violations.append(Violation("bound", f"the height {layout.height} is below the bound {layout.lower_bound}", ()))
    return tuple(violations)


def require_valid(problem: LayoutProblem, layout: Layout) -> Layout:
    """Return the layout itself; raise InternalError if it breaks a rule."""
    violations = check_layout(problem, layout)
    if violations:
        raise InternalError(
            f"the layout is invalid: {violations[0].message}",
            fix="please report this and attach the model; no file was written",
            details=tuple(violation.message for violation in violations[1:6]),
        )
    return layout


def require_valid_choice(problem: SeveralProblem, placed: SeveralLayout) -> SeveralLayout:
    """Return the placement in several memories itself; raise InternalError if it breaks a rule.

    The rules: each buffer is in a memory that can hold it; the layout of each memory is valid and no higher than the
    memory; and the cost is the sum of the buffers' costs and not below the bound.
    """
    buffers, found = problem.buffers.buffers, []
    if len(placed.memories) != len(buffers):
        found.append(f"{len(placed.memories)} memories for {len(buffers)} buffers")
    costs = [costs[memory] for costs, memory in zip(problem.costs, placed.memories, strict=False)]
    found += [f"{_describe(buffers[i])} cannot be in its memory" for i, cost in enumerate(costs) if cost is None]
    cost = sum(cost or 0 for cost in costs)
    if cost != placed.cost or cost < placed.lower_bound or (placed.optimal and cost != placed.lower_bound):
        found.append(f"the cost is {cost}, not {placed.cost}, with the bound {placed.lower_bound}")
    for number, memory in enumerate(problem.memories):
        members = [index for index, chosen in enumerate(placed.memories) if chosen == number]
        numbers = {index: position for position, index in enumerate(members)}
        overlaps = (o for o in problem.buffers.overlaps if o.first in numbers and o.second in numbers)
        part = LayoutProblem(
            tuple(buffers[index] for index in members),
            tuple(Overlap(numbers[o.first], numbers[o.second], o.min_distance) for o in overlaps),
        )
        offsets = tuple(placed.offsets[index] for index in members)
        violations = check_layout(part, Layout(offsets, placed.heights[number], 0, "none"))
        found += [f"in {memory.name}, {violation.message}" for violation in violations]
        if placed.heights[number] > memory.size_bytes:
            found.append(f"{memory.name} is too small")
    if found:
        raise InternalError(
            f"the placement is invalid: {found[0]}",
            fix="please report this and attach the instance; no file was written",
            details=tuple(found[1:6]),
        )
    return placed


def require_valid_lowest(problem: SeveralProblem, lowest: LowestLayout) -> LowestLayout:
    """Return the placement with the smallest height in a memory itself; raise InternalError if it breaks a rule.

    The rules are those of require_valid_choice; and the height is not below its bound, and equal to it if it is proven.
    """
    require_valid_choice(problem, lowest.layout)
    bound = lowest.lower_bound_bytes
    if lowest.height < bound or (lowest.proof != "none" and lowest.height != bound):
        raise InternalError(
            f"the height is {lowest.height}, with the bound {bound}",
            fix="please report this and attach the instance; no file was written",
        )
    return lowest


@dataclass(frozen=True, slots=True)
class Contents:
    """What a step writes, and what it must then find in memory: the start, the end, and the content of each range.

    The content of a range that is written is None if nothing is known about it. used: other ranges that the step reads.
    """

    step: str
    written: tuple[tuple[int, int, bytes | None], ...] = ()
    read: tuple[tuple[int, int, bytes], ...] = ()
    used: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Transfer:
    """A copy that runs while steps do: it begins or, if it is waited for, ends.

    busy: the range that nothing else may use in between, which begins with the content.
    """

    step: str
    busy: tuple[int, int]
    content: bytes
    ends: bool


def check_contents(steps: Sequence[Contents | Transfer]) -> None:
    """Execute steps one after the other; raise InternalError if one does not find what it must.

    What a step writes counts before what it finds, because it reads during all of its run. At most one copy runs at a
    time, and is waited for; meanwhile, no step uses a byte of its range.
    """
    known: list[tuple[int, int, bytes]] = []
    running: Transfer | None = None
    for step in steps:
        if isinstance(step, Transfer):
            begun = None if running is None else (running.busy, running.content)
            if begun != ((step.busy, step.content) if step.ends else None):
                raise _invalid(f"{step.step} {'waits for' if step.ends else 'begins'} a copy out of turn")
            start, end = step.busy
            known = [item for item in known if item[1] <= start or end <= item[0]]
            if step.ends:
                known.append((start, start + len(step.content), step.content))
            running = None if step.ends else step
            continue
        ranges = [*((start, end) for start, end, _ in (*step.written, *step.read)), *step.used]
        if running is not None and any(start < running.busy[1] and running.busy[0] < end for start, end in ranges):
            raise _invalid(f"{step.step} uses bytes that {running.step} is copying to")
        for start, end, content in step.written:
            known = [item for item in known if item[1] <= start or end <= item[0]]
            if content is not None:
                known.append((start, end, content))
        for wanted in step.read:
            if wanted not in known:
                raise _invalid(f"{step.step} does not find its constants at {wanted[0]}")
    if running is not None:
        raise _invalid(f"nothing waits for the copy that {running.step} began")


def _invalid(what: str) -> InternalError:
    return InternalError(what, fix="please report this and attach the model; no file was written")


def _describe(buffer: Buffer) -> str:
    """Return the buffer by index and name; converters join the names of fused layers with semicolons."""
    name = f"{buffer.name.partition(';')[0][:MAX_NAME_SHOWN]!a}"
    if buffer.tensor < 0 and not buffer.is_scratch:
        return f"buffer {name}"
    place = f" of subgraph {buffer.subgraph}" if buffer.subgraph else ""
    kind = f"scratch of operator {buffer.operator}" if buffer.is_scratch else f"tensor {buffer.tensor}"
    return f"{kind}{place} ({name})"


def _offset_violations(buffer: Buffer, offset: int, index: int) -> list[Violation]:
    """Return the violations of one offset by itself."""
    violations = []
    if offset < 0:
        violations.append(
            Violation("negative", f"{_describe(buffer)} is at {offset}, before the start of the arena", (index,))
        )
    if offset % buffer.alignment:
        text = f"{_describe(buffer)} is at {offset}, which is not a multiple of {buffer.alignment}"
        violations.append(Violation("alignment", text, (index,)))
    if buffer.pinned is not None and offset != buffer.pinned:
        text = f"{_describe(buffer)} is at {offset}, but is pinned to {buffer.pinned}"
        violations.append(Violation("pin", text, (index,)))
    return violations


def _alias_violations(buffers: Sequence[Buffer], offsets: Sequence[int]) -> list[Violation]:
    """Return the buffers that do not have the offset of the first buffer of their alias."""
    violations = []
    place: dict[str, int] = {}
    for i, buffer in enumerate(buffers):
        if buffer.alias is None:
            continue
        other = place.setdefault(buffer.alias, i)
        if offsets[other] != offsets[i]:
            text = f"{_describe(buffers[other])} and {_describe(buffer)} share an alias, but have different offsets"
            violations.append(Violation("alias", text, (other, i)))
    return violations


def _placed_buffers(buffers: Sequence[Buffer], offsets: Sequence[int]) -> list[_PlacedBuffer]:
    """Return all buffers that are not empty, by start."""
    together: dict[str | int, list[int]] = {}
    for i, buffer in enumerate(buffers):
        together.setdefault(i if buffer.alias is None else buffer.alias, []).append(i)
    placed = []
    for members in together.values():
        group = [buffers[i] for i in members]
        if not any(buffer.size_bytes for buffer in group):
            continue
        placed.append(
            _PlacedBuffer(
                index=members[0],
                first=min(buffer.lifetime.first for buffer in group),
                last=max(buffer.lifetime.last for buffer in group),
                bytes=max(buffer.size_bytes for buffer in group),
                reserved=max(-(-buffer.size_bytes // buffer.granule) * buffer.granule for buffer in group),
                offset=offsets[members[0]],
            )
        )
    return sorted(placed, key=lambda buffer: buffer.first)


def _may_leave_holes(buffers: Sequence[Buffer]) -> bool:
    """Return whether pins or alignments alone may keep every layout above the maximum live bytes."""
    return any(buffer.pinned is not None or buffer.granule % buffer.alignment for buffer in buffers)


def _max_live(placed: Sequence[_PlacedBuffer]) -> int:
    """Return the maximum of the reserved bytes live at the start of any buffer, with a heap of ends."""
    live = maximum = 0
    ends: list[tuple[int, int]] = []
    for buffer in placed:
        while ends and ends[0][0] < buffer.first:
            live -= heappop(ends)[1]
        heappush(ends, (buffer.last, buffer.reserved))
        live += buffer.reserved
        maximum = max(maximum, live)
    return maximum


def _max_covered(placed: Sequence[_PlacedBuffer]) -> int:
    """Return the maximum of the bytes in use at the start of any buffer, where those that live buffers share count
    once.

    If buffers may overlap, this takes the place of the sum of their sizes: a layout that is as low as what its buffers
    need at some moment leaves no byte unused then.
    """
    maximum = 0
    by_offset = sorted(placed, key=lambda buffer: buffer.offset)
    for moment in {buffer.first for buffer in placed}:
        covered = end = 0
        for buffer in by_offset:
            if buffer.first <= moment <= buffer.last:
                covered += max(0, buffer.offset + buffer.reserved - max(end, buffer.offset))
                end = max(end, buffer.offset + buffer.reserved)
        maximum = max(maximum, covered)
    return maximum


def _disjoint(placed: Sequence[_PlacedBuffer]) -> bool:
    """Return whether no two live buffers overlap.

    As long as the live buffers are disjoint, a new one that overlaps any of them overlaps one of its neighbours.
    """
    alive: list[tuple[int, int]] = []
    ends: list[tuple[int, int, int]] = []
    for buffer in placed:
        while ends and ends[0][0] < buffer.first:
            _, start, end = heappop(ends)
            del alive[bisect_left(alive, (start, end))]
        start, end = buffer.offset, buffer.offset + buffer.bytes
        at = bisect_left(alive, (start, end))
        if (at > 0 and alive[at - 1][1] > start) or (at < len(alive) and alive[at][0] < end):
            return False
        alive.insert(at, (start, end))
        heappush(ends, (buffer.last, start, end))
    return True


def _representatives(buffers: Sequence[Buffer]) -> list[int]:
    """Return for each buffer the first one that shares its alias, or itself."""
    first: dict[str, int] = {}
    return [i if b.alias is None else first.setdefault(b.alias, i) for i, b in enumerate(buffers)]


def _permission_violations(problem: LayoutProblem) -> list[Violation]:
    """Return the overlaps that do not name two buffers, or that permit more than the two buffers that they name.

    Buffers of one alias lie together, so an overlap with one of them would permit the same bytes for all of them: no
    other buffer of the alias may be live with the buffer that overlaps.
    """
    buffers, violations = problem.buffers, []
    group = _representatives(buffers)
    members: dict[int, list[int]] = {}
    for index, first in enumerate(group):
        members.setdefault(first, []).append(index)
    for overlap in problem.overlaps:
        pair = (overlap.first, overlap.second)
        if not all(0 <= index < len(buffers) for index in pair) or group[pair[0]] == group[pair[1]]:
            violations.append(Violation("permission", f"an overlap names the buffers {pair[0]} and {pair[1]}", ()))
            continue
        live_pairs = {
            (i, j)
            for i in members[group[pair[0]]]
            for j in members[group[pair[1]]]
            if buffers[i].lifetime.overlaps(buffers[j].lifetime)
        }
        for i, j in sorted(live_pairs - {pair}):
            text = f"an overlap of an alias also permits {_describe(buffers[i])} and {_describe(buffers[j])}"
            violations.append(Violation("permission", text, (i, j)))
    return violations


def _distances(problem: LayoutProblem) -> Mapping[tuple[int, int], list[int]]:
    """Return the distances that the overlaps require, by (first, second)."""
    group = _representatives(problem.buffers)
    distances: dict[tuple[int, int], list[int]] = {}
    for overlap in problem.overlaps:
        pair = group[overlap.first], group[overlap.second]
        distances.setdefault(pair, []).append(overlap.min_distance)
    return distances


def _permitted(one: _PlacedBuffer, other: _PlacedBuffer, distances: Mapping[tuple[int, int], list[int]]) -> bool:
    """Return whether an overlap permits the offsets of two buffers."""
    return any(
        first.offset - second.offset >= distance
        for first, second in ((one, other), (other, one))
        for distance in distances.get((first.index, second.index), ())
    )


def _overlap_violations(
    buffers: Sequence[Buffer], placed: Sequence[_PlacedBuffer], distances: Mapping[tuple[int, int], list[int]]
) -> list[Violation]:
    """Return the pairs of live buffers that overlap without permission.

    A sweep over time compares each new buffer with the live ones.
    """
    violations: list[Violation] = []
    alive: list[_PlacedBuffer] = []
    for current in placed:
        alive = [other for other in alive if other.last >= current.first]
        for other in alive:
            shared = current.offset < other.offset + other.bytes and other.offset < current.offset + current.bytes
            if shared and not _permitted(current, other, distances):
                if len(violations) == MAX_PAIRS:
                    return [
                        *violations,
                        Violation("overlap", f"more than {MAX_PAIRS:,} pairs overlap; only these are listed", ()),
                    ]
                text = f"{_describe(buffers[other.index])} and {_describe(buffers[current.index])} overlap"
                pair = (min(current.index, other.index), max(current.index, other.index))
                violations.append(Violation("overlap", text, pair))
        alive.append(current)
    return violations
