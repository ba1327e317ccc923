"""Where the variants of a sweep come from: all of the grid at once, or in batches that learn from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from edgetool.sweep.grid import grid
from edgetool.sweep.metrics import Row
from edgetool.sweep.spec import SweepSpec
from edgetool.sweep.variant import Variant


class Proposer(Protocol):
    """Names the variants to try: the same ones for the same tellings, so that a sweep can be continued."""

    def propose(self) -> tuple[Variant, ...]:
        """The next ones, none of them named before; empty where there are no more."""

    def tell(self, rows: Sequence[Row]) -> None:
        """What is known of all variants named so far, in their order."""


class Grid:
    """Every variant, in one batch."""

    def __init__(self, spec: SweepSpec) -> None:
        self._variants = grid(spec)

    def propose(self) -> tuple[Variant, ...]:
        """All at first, then none."""
        variants, self._variants = self._variants, ()
        return variants

    def tell(self, rows: Sequence[Row]) -> None:
        """Nothing is learnt: the grid is all there is."""
