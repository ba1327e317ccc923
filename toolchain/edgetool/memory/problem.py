"""The problem of memory planning and its solution, as values, and the effort that a search may spend on it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

# TFLM aligns every planned buffer to this (MicroArenaBufferAlignment).
ARENA_ALIGNMENT = 16

# How optimality was established: the height meets a bound that is easy to check, the search ruled out every
# alternative, or CP-SAT proved it. "none": a better layout within the gap may exist.
Proof = Literal["bound met", "search exhausted", "cp-sat", "none"]


def aligned(size_bytes: int, alignment: int = ARENA_ALIGNMENT) -> int:
    """Return the size rounded up to the alignment."""
    return -(-size_bytes // alignment) * alignment


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The operator positions at which a buffer must keep its contents, both ends inclusive.

    -1 is the time before the first operator, at which inputs are written; -2 means never.
    """

    first: int
    last: int

    @property
    def operators(self) -> tuple[int, int]:
        """The first and last operator at which it is alive, for display; (-1, -1) if there is none."""
        return (max(self.first, 0), self.last) if self.last >= 0 else (-1, -1)

    def overlaps(self, other: Lifetime) -> bool:
        """Return whether both are alive at some position."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer: its contents, its size, its lifetime, and the constraints on its offset.

    tensor is -1 for a buffer that holds no tensor of a model. operator is the index of the operator that requested a
    scratch buffer, or for which a constant is loaded; -1 for all others. The offset is a multiple of `alignment`, and
    the size counts as the next multiple of `granule` (TFLM's planner rounds sizes as well as offsets). pinned: its
    fixed offset, if any. Buffers of one `alias` share the same memory, which is as large as the largest and live from
    the first to the last of them.
    """

    subgraph: int
    tensor: int
    name: str
    size_bytes: int
    lifetime: Lifetime
    operator: int = -1
    alignment: int = ARENA_ALIGNMENT
    granule: int = ARENA_ALIGNMENT
    pinned: int | None = None
    alias: str | None = None

    @property
    def is_scratch(self) -> bool:
        """Whether a kernel requested it in Prepare: only TFLM places it."""
        return self.tensor < 0 <= self.operator

    @property
    def aligned_bytes(self) -> int:
        """The bytes that are reserved for it."""
        return aligned(self.size_bytes, self.granule)


@dataclass(frozen=True, slots=True)
class Overlap:
    """A permission for two buffers, by index, that are live at the same time to share bytes.

    They may if offset(first) - offset(second) >= min_distance in bytes. A pair may have several overlaps, any one of
    which suffices; pairs without one never share bytes. of_operator: whether they are an input and the output of an
    operator; otherwise, only parts of each are in use at the same time.
    """

    first: int
    second: int
    min_distance: int
    of_operator: bool = True


@dataclass(frozen=True, slots=True)
class LayoutProblem:
    """Buffers to place, in TFLM's creation order (tensors by subgraph and index), and which of them may overlap."""

    buffers: tuple[Buffer, ...]
    overlaps: tuple[Overlap, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """Offsets, one per buffer of the problem, and the height of the layout: its peak in bytes.

    lower_bound holds for every layout of these buffers; proof says how optimality was established.
    """

    offsets: tuple[int, ...]
    height: int
    lower_bound: int
    proof: Proof

    @property
    def optimal(self) -> bool:
        """Whether no layout of these buffers is lower."""
        return self.proof != "none"


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory with a number of bytes."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ArenaPart:
    """The part of an arena that is in a memory: the offset at which it starts, and its size."""

    memory: str
    start: int
    size_bytes: int


def place_in_parts(parts: Sequence[ArenaPart], offset: int) -> tuple[int, int]:
    """Return the number of the part of an arena that an offset is in, and the offset in that part.

    parts: by start. An arena without parts is its only one.
    """
    number = max(0, bisect_right(parts, offset, key=lambda part: part.start) - 1)
    return number, offset - (parts[number].start if parts else 0)


@dataclass(frozen=True, slots=True)
class SeveralProblem:
    """Buffers, memories, and the cost of each buffer in each memory; None if the buffer cannot be there.

    The buffers have neither pins nor aliases. Overlaps apply to buffers that are in the same memory.
    """

    buffers: LayoutProblem
    memories: tuple[Memory, ...]
    costs: tuple[tuple[int | None, ...], ...]


@dataclass(frozen=True, slots=True)
class SeveralLayout:
    """The memory of each buffer by index, its offset there, and the layout's height in each memory.

    lower_bound: of the cost, for every choice. proof: "bound met" if the relaxation has that cost, "search exhausted"
    if every cheaper choice was excluded.
    """

    memories: tuple[int, ...]
    offsets: tuple[int, ...]
    heights: tuple[int, ...]
    cost: int
    lower_bound: int
    proof: Proof

    @property
    def optimal(self) -> bool:
        """Whether no choice is cheaper."""
        return self.proof != "none"


@dataclass(frozen=True, slots=True)
class LowestLayout:
    """The cheapest choice that is found among those with the smallest height in one memory, by index.

    lower_bound_bytes: of that height, for every choice. proof: "bound met" if it is 0, "search exhausted" if no
    choice has a smaller one.
    """

    memory: int
    layout: SeveralLayout
    lower_bound_bytes: int
    proof: Proof

    @property
    def height(self) -> int:
        """The height of the layout in that memory, in bytes."""
        return self.layout.heights[self.memory]


def never() -> bool:
    """Never stop."""
    return False


@dataclass(frozen=True, slots=True)
class Effort:
    """How long a search may take: the same seed and node_limit give the same result unless `stop` ends the search.

    This package reads no clock: the caller passes `stop`, which is called every few milliseconds, and which must keep
    returning True once it has (a deadline, or Ctrl-C). node_limit: search nodes (placements tried) until the search
    ends; None means no limit. stop_order ends the search for operator orders, which must leave time for their layouts,
    and stop_rows that for plans of rows, whose effort is limited anyway; by default, they are `stop`.
    """

    seed: int = 0
    node_limit: int | None = 300_000
    stop: Callable[[], bool] = never
    stop_order: Callable[[], bool] | None = None
    stop_rows: Callable[[], bool] | None = None

    @property
    def stops_rows(self) -> Callable[[], bool]:
        """What ends the search for plans of rows."""
        return self.stop if self.stop_rows is None else self.stop_rows

    @property
    def for_order(self) -> Effort:
        """The effort of the search for operator orders."""
        return self if self.stop_order is None else Effort(self.seed, self.node_limit, self.stop_order)


class NodeBudget:
    """Counter of search nodes: those that an effort still allows (`left`, None without limit), and those `spent`."""

    def __init__(self, effort: Effort) -> None:
        self.left = effort.node_limit
        self.spent = 0
        self.stop = effort.stop

    def spend(self, nodes: int) -> None:
        """Count nodes that were searched."""
        self.spent += nodes
        if self.left is not None:
            self.left -= nodes

    def allowed(self, nodes: int) -> int:
        """Return as many of these nodes as are left."""
        return nodes if self.left is None else max(0, min(nodes, self.left))

    @property
    def over(self) -> bool:
        """Whether the search must end: at its node limit, or because `stop` returns True."""
        return (self.left is not None and self.left <= 0) or self.stop()
