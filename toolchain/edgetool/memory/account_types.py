"""What the account of an arena says, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from edgetool.memory.types import Layout, LayoutProblem, aligned

Section = Literal["tail", "head", "transient"]


@dataclass(frozen=True, slots=True)
class ArenaRow:
    """One part of the arena: the bytes asked for in `count` allocations, and with the padding of their alignment.

    subgraph and operator are None for what belongs to no operator. category is the name under which TFLM's
    recording allocator prints it, None where it does not.
    """

    section: Section
    part: str
    bytes: int
    requested_bytes: int
    count: int
    subgraph: int | None = None
    operator: int | None = None
    category: str | None = None


@dataclass(frozen=True, slots=True)
class Peak:
    """A moment of AllocateTensors or Invoke: what stands at the head and at the tail of the arena."""

    when: str
    head_bytes: int
    tail_bytes: int
    subgraph: int | None = None
    operator: int | None = None

    @property
    def bytes(self) -> int:
        """The arena that it takes, a multiple of 16."""
        return aligned(self.head_bytes + self.tail_bytes)


@dataclass(frozen=True, slots=True)
class Unaccounted:
    """What is not in the account: an operator without a rule, or what TFLM refuses (why), an operator or a tensor.

    operator is None for a tensor.
    """

    subgraph: int
    operator: int | None
    label: str
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Category:
    """What TFLM's recording allocator counts under one name."""

    used_bytes: int
    requested_bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class ArenaAccount:
    """Every byte that TFLM takes from its arena, by where it lies and what it is for.

    layout holds the realised offsets of the problem's buffers: tensors, then scratch. peak is the moment that sets
    the size of the arena; peaks are the highest moments by what is going on.
    """

    head_bytes: int
    tail_bytes: int
    peak: Peak
    peaks: tuple[Peak, ...]
    rows: tuple[ArenaRow, ...]
    problem: LayoutProblem
    layout: Layout
    unaccounted: tuple[Unaccounted, ...] = ()
    categories: Mapping[str, Category] = field(default_factory=dict)

    @property
    def used_bytes(self) -> int:
        """What arena_used_bytes() gives after AllocateTensors."""
        return self.head_bytes + self.tail_bytes

    @property
    def bytes(self) -> int:
        """The smallest arena, a multiple of 16, in which AllocateTensors and Invoke work."""
        return self.peak.bytes

    @property
    def is_lower_bound(self) -> bool:
        """Whether some operator is not accounted for, so that the true figures are no lower."""
        return bool(self.unaccounted)
