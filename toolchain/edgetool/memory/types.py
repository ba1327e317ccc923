"""The words of memory planning, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# TFLM aligns every planned buffer to this (MicroArenaBufferAlignment).
ARENA_ALIGNMENT = 16

# How optimality was established: the height meets a bound that is easy to check, the search saw every other
# possibility, or CP-SAT says so. "none": there may be something better, within the gap.
Proof = Literal["bound met", "search exhausted", "cp-sat", "none"]


def aligned(size_bytes: int, alignment: int = ARENA_ALIGNMENT) -> int:
    """The size rounded up to the alignment."""
    return -(-size_bytes // alignment) * alignment


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The operator positions at which a buffer must keep its contents, both ends inclusive.

    -1 is the time before the first operator, at which inputs are written; -2 stands for never.
    """

    first: int
    last: int

    @property
    def operators(self) -> tuple[int, int]:
        """The first and last operator at which it is alive, for people; (-1, -1) when it is at none."""
        return (max(self.first, 0), self.last) if self.last >= 0 else (-1, -1)

    def overlaps(self, other: Lifetime) -> bool:
        """Whether both are alive at some position."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class Buffer:
    """A piece of memory: what it holds, its bytes, when it is alive, and what its offset must be.

    tensor is -1 for what holds no tensor of a model. operator is the index of the operator that asked for a scratch
    buffer, or for which a constant is loaded; -1 for all others. The offset is a multiple of `alignment`, and the
    size counts as the next multiple of `granule` (TFLM's planner rounds sizes as well as offsets). pinned: the offset
    that it has already. Buffers of one `alias` share one piece of memory, as large as the largest and alive from the
    first to the last of them.
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
        """Whether a kernel asked for it in Prepare: TFLM alone places it."""
        return self.tensor < 0 <= self.operator

    @property
    def aligned_bytes(self) -> int:
        """The bytes that are reserved for it."""
        return aligned(self.size_bytes, self.granule)


@dataclass(frozen=True, slots=True)
class LayoutProblem:
    """Buffers to place, in TFLM's creation order (tensors by subgraph and index)."""

    buffers: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Offsets, one per buffer of the problem, and the height that they need.

    lower_bound is what no layout of these buffers can beat; proof says how optimality was established.
    """

    offsets: tuple[int, ...]
    height: int
    lower_bound: int
    proof: Proof

    @property
    def optimal(self) -> bool:
        """Whether no layout of these buffers is lower."""
        return self.proof != "none"
