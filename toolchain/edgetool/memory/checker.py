"""The independent judge of a layout. It shares nothing with the solvers but the problem's types.

Every layout that leaves the program passes through here.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

from edgetool.errors import InternalError
from edgetool.memory.types import ARENA_ALIGNMENT, Buffer, Layout, LayoutProblem

MAX_NAME_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a layout breaks, told in a sentence, and the buffers concerned (indices)."""

    rule: str
    message: str
    buffers: tuple[int, ...]


def check_layout(problem: LayoutProblem, layout: Layout) -> tuple[Violation, ...]:
    """Every violation: wrong count, negative or unaligned offsets, overlaps of live buffers, wrong height."""
    buffers = problem.buffers
    if len(layout.offsets) != len(buffers):
        return (Violation("count", f"{len(layout.offsets)} offsets for {len(buffers)} buffers", ()),)
    found = []
    top = 0
    for i, (buffer, offset) in enumerate(zip(buffers, layout.offsets, strict=True)):
        top = max(top, offset + buffer.size_bytes)
        if offset < 0:
            found.append(Violation("negative", f"{_told(buffer)} lies at {offset}, before the arena", (i,)))
        if offset % ARENA_ALIGNMENT:
            text = f"{_told(buffer)} lies at {offset}, not at a multiple of {ARENA_ALIGNMENT}"
            found.append(Violation("alignment", text, (i,)))
    found.extend(_overlaps(problem, layout.offsets))
    if not top <= layout.height <= -(-top // ARENA_ALIGNMENT) * ARENA_ALIGNMENT:
        found.append(Violation("height", f"the height is {layout.height}, the highest end {top}", ()))
    if layout.lower_bound > (busiest := _busiest(problem)):
        text = f"the bound is {layout.lower_bound}, but at most {busiest} bytes are alive at once"
        found.append(Violation("bound", text, ()))
    if layout.proof == "bound met" and layout.height != layout.lower_bound:
        found.append(Violation("proof", f"the height {layout.height} does not meet {layout.lower_bound}", ()))
    if layout.height < layout.lower_bound:
        found.append(Violation("bound", f"the height {layout.height} is below the bound {layout.lower_bound}", ()))
    return tuple(found)


def require_sound(problem: LayoutProblem, layout: Layout) -> Layout:
    """The layout itself; InternalError when it breaks a rule."""
    violations = check_layout(problem, layout)
    if violations:
        raise InternalError(
            f"a layout is wrong: {violations[0].message}",
            fix="please report this with the model; no file was written",
            details=tuple(violation.message for violation in violations[1:6]),
        )
    return layout


def _told(buffer: Buffer) -> str:
    """The buffer by index and name; converters join the names of all that they fused with semicolons."""
    place = f" of subgraph {buffer.subgraph}" if buffer.subgraph else ""
    kind = f"scratch of operator {buffer.operator}" if buffer.is_scratch else f"tensor {buffer.tensor}"
    return f"{kind}{place} ({buffer.name.partition(';')[0][:MAX_NAME_SHOWN]!a})"


def _busiest(problem: LayoutProblem) -> int:
    """The most aligned bytes alive at the start of any buffer, by a heap of ends."""
    live = most = 0
    ends: list[tuple[int, int]] = []
    for buffer in sorted(problem.buffers, key=lambda item: item.lifetime.first):
        size = -(-buffer.size_bytes // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
        while ends and ends[0][0] < buffer.lifetime.first:
            live -= heappop(ends)[1]
        heappush(ends, (buffer.lifetime.last, size))
        live += size
        most = max(most, live)
    return most


def _overlaps(problem: LayoutProblem, offsets: tuple[int, ...]) -> list[Violation]:
    """Pairs alive at once whose bytes meet: a sweep over time that compares each newcomer with the living."""
    found = []
    alive: list[int] = []
    for i in sorted(range(len(offsets)), key=lambda k: problem.buffers[k].lifetime.first):
        mine = problem.buffers[i]
        alive = [j for j in alive if problem.buffers[j].lifetime.last >= mine.lifetime.first]
        for j in alive:
            other = problem.buffers[j]
            if offsets[i] < offsets[j] + other.size_bytes and offsets[j] < offsets[i] + mine.size_bytes:
                found.append(
                    Violation(
                        "overlap",
                        f"{_told(other)} and {_told(mine)} overlap",
                        (min(i, j), max(i, j)),
                    )
                )
        alive.append(i)
    return found
