"""The words of sharing, as values: when a named tensor is alive, and which tensors share one whole buffer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from edgetool.memory.types import Proof

Algorithm = Literal["greedy", "dynamic-programming"]


@dataclass(frozen=True, slots=True)
class LiveRange:
    """From the position that defines a tensor to the last one that uses it, both inclusive, and its bytes.

    An unknown definition is before the start, an unknown use at the end, an unknown size 1.
    """

    defined: int | None
    used: int | None
    size: int | None = None


Ranges = Mapping[str, LiveRange]
# The tensors of one buffer, in order of their last use.
Group = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sharing:
    """Tensors by the buffer that they share.

    baseline_bytes: every tensor with memory of its own; optimized_bytes: the sum of the largest tensor of each group.
    lower_bound is what no assignment can beat, and proof says how optimality was established. cut_short: the budget
    ended before the search for a better assignment did.
    """

    groups: tuple[Group, ...]
    baseline_bytes: int
    optimized_bytes: int
    lower_bound: int
    proof: Proof
    cut_short: bool

    @property
    def optimal(self) -> bool:
        """Whether no assignment takes less."""
        return self.proof != "none"
