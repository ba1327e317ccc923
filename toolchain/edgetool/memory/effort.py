"""How long a search may go on, without a clock: rooms without effects are told when to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def never() -> bool:
    """Never stop."""
    return False


@dataclass(frozen=True, slots=True)
class Effort:
    """The limits of a search: the same seed and node_limit give the same result, as long as `stop` says nothing.

    node_limit: search nodes (placements tried) before it gives up; None goes on until it is done or stopped.
    stop is asked every few milliseconds, and stays True once it was: a deadline, or Ctrl-C.
    """

    seed: int = 0
    node_limit: int | None = 300_000
    stop: Callable[[], bool] = never
