"""The independent judge of a layout. It shares nothing with the solvers but the problem's types.

Every layout that leaves the program passes through here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from edgetool.errors import InternalError
from edgetool.memory.problem import Buffer, Layout, LayoutProblem

MAX_NAME_SHOWN = 60
# Pairs grow with the square of the buffers: past so many the list ends, and says so.
MAX_PAIRS = 10_000


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a layout breaks, told in a sentence, and the buffers concerned (indices)."""

    rule: str
    message: str
    buffers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    """What lies in one place: a buffer, or all of one alias, with the index of the first; alive first to last.

    bytes are what it holds, reserved what counts for the height and the bound.
    """

    index: int
    first: int
    last: int
    bytes: int
    reserved: int
    offset: int


def check_layout(problem: LayoutProblem, layout: Layout) -> tuple[Violation, ...]:
    """Every violation: a wrong count, negative or unaligned offsets, pins and aliases that do not lie where they must,
    overlaps of live buffers, a wrong height, bound or proof. Buffers of size 0 overlap nothing.
    """
    buffers = problem.buffers
    if len(layout.offsets) != len(buffers):
        return (Violation("count", f"{len(layout.offsets)} offsets for {len(buffers)} buffers", ()),)
    found = [item for i in range(len(buffers)) for item in _misplaced(buffers[i], layout.offsets[i], i)]
    found.extend(_parted(buffers, layout.offsets))
    pieces = _pieces(buffers, layout.offsets)
    if not _disjoint(pieces):
        found.extend(_overlaps(buffers, pieces))
    top = max((piece.offset + piece.reserved for piece in pieces), default=0)
    if layout.height != top:
        found.append(Violation("height", f"the height is {layout.height}, but the highest buffer ends at {top}", ()))
    if (
        layout.proof == "bound met"
        and layout.lower_bound > (busiest := _busiest(pieces))
        and not _leaves_holes(buffers)
    ):
        text = f"the bound is {layout.lower_bound}, but at most {busiest} bytes are live at once"
        found.append(Violation("bound", text, ()))
    if layout.proof != "none" and layout.height != layout.lower_bound:
        found.append(
            Violation("proof", f"the height {layout.height} differs from the lower bound {layout.lower_bound}", ())
        )
    if layout.height < layout.lower_bound:
        found.append(Violation("bound", f"the height {layout.height} is below the bound {layout.lower_bound}", ()))
    return tuple(found)


def require_sound(problem: LayoutProblem, layout: Layout) -> Layout:
    """The layout itself; InternalError when it breaks a rule."""
    violations = check_layout(problem, layout)
    if violations:
        raise InternalError(
            f"the layout is invalid: {violations[0].message}",
            fix="please report this and attach the model; no file was written",
            details=tuple(violation.message for violation in violations[1:6]),
        )
    return layout


def _told(buffer: Buffer) -> str:
    """The buffer by index and name; converters join the names of all that they fused with semicolons."""
    name = f"{buffer.name.partition(';')[0][:MAX_NAME_SHOWN]!a}"
    if buffer.tensor < 0 and not buffer.is_scratch:
        return f"buffer {name}"
    place = f" of subgraph {buffer.subgraph}" if buffer.subgraph else ""
    kind = f"scratch of operator {buffer.operator}" if buffer.is_scratch else f"tensor {buffer.tensor}"
    return f"{kind}{place} ({name})"


def _misplaced(buffer: Buffer, offset: int, index: int) -> list[Violation]:
    """What is wrong with one offset by itself."""
    found = []
    if offset < 0:
        found.append(Violation("negative", f"{_told(buffer)} is at {offset}, before the start of the arena", (index,)))
    if offset % buffer.alignment:
        text = f"{_told(buffer)} is at {offset}, which is not a multiple of {buffer.alignment}"
        found.append(Violation("alignment", text, (index,)))
    if buffer.pinned is not None and offset != buffer.pinned:
        text = f"{_told(buffer)} is at {offset}, but is pinned to {buffer.pinned}"
        found.append(Violation("pin", text, (index,)))
    return found


def _parted(buffers: Sequence[Buffer], offsets: Sequence[int]) -> list[Violation]:
    """Buffers that do not lie where the first of their alias lies."""
    found = []
    place: dict[str, int] = {}
    for i, buffer in enumerate(buffers):
        if buffer.alias is None:
            continue
        other = place.setdefault(buffer.alias, i)
        if offsets[other] != offsets[i]:
            text = f"{_told(buffers[other])} and {_told(buffer)} share an alias, but have different offsets"
            found.append(Violation("alias", text, (other, i)))
    return found


def _pieces(buffers: Sequence[Buffer], offsets: Sequence[int]) -> list[_Piece]:
    """All that is not empty, by start."""
    together: dict[str | int, list[int]] = {}
    for i, buffer in enumerate(buffers):
        together.setdefault(i if buffer.alias is None else buffer.alias, []).append(i)
    pieces = []
    for members in together.values():
        those = [buffers[i] for i in members]
        if not any(buffer.size_bytes for buffer in those):
            continue
        pieces.append(
            _Piece(
                index=members[0],
                first=min(buffer.lifetime.first for buffer in those),
                last=max(buffer.lifetime.last for buffer in those),
                bytes=max(buffer.size_bytes for buffer in those),
                reserved=max(-(-buffer.size_bytes // buffer.granule) * buffer.granule for buffer in those),
                offset=offsets[members[0]],
            )
        )
    return sorted(pieces, key=lambda piece: piece.first)


def _leaves_holes(buffers: Sequence[Buffer]) -> bool:
    """Whether pins or alignments alone may keep every layout above what is alive at once."""
    return any(buffer.pinned is not None or buffer.granule % buffer.alignment for buffer in buffers)


def _busiest(pieces: Sequence[_Piece]) -> int:
    """The most reserved bytes alive at the start of any piece, by a heap of ends."""
    live = most = 0
    ends: list[tuple[int, int]] = []
    for piece in pieces:
        while ends and ends[0][0] < piece.first:
            live -= heappop(ends)[1]
        heappush(ends, (piece.last, piece.reserved))
        live += piece.reserved
        most = max(most, live)
    return most


def _disjoint(pieces: Sequence[_Piece]) -> bool:
    """Whether no two alive at once meet. Until two do, the living lie side by side: who meets any meets a neighbour."""
    alive: list[tuple[int, int]] = []
    ends: list[tuple[int, int, int]] = []
    for piece in pieces:
        while ends and ends[0][0] < piece.first:
            _, start, end = heappop(ends)
            del alive[bisect_left(alive, (start, end))]
        start, end = piece.offset, piece.offset + piece.bytes
        at = bisect_left(alive, (start, end))
        if (at > 0 and alive[at - 1][1] > start) or (at < len(alive) and alive[at][0] < end):
            return False
        alive.insert(at, (start, end))
        heappush(ends, (piece.last, start, end))
    return True


def _overlaps(buffers: Sequence[Buffer], pieces: Sequence[_Piece]) -> list[Violation]:
    """Pairs alive at once whose bytes meet: a sweep over time that compares each newcomer with the living."""
    found: list[Violation] = []
    alive: list[_Piece] = []
    for mine in pieces:
        alive = [other for other in alive if other.last >= mine.first]
        for other in alive:
            if mine.offset < other.offset + other.bytes and other.offset < mine.offset + mine.bytes:
                if len(found) == MAX_PAIRS:
                    return [
                        *found,
                        Violation("overlap", f"more than {MAX_PAIRS:,} pairs overlap; only these are listed", ()),
                    ]
                text = f"{_told(buffers[other.index])} and {_told(buffers[mine.index])} overlap"
                pair = (min(mine.index, other.index), max(mine.index, other.index))
                found.append(Violation("overlap", text, pair))
        alive.append(mine)
    return found
