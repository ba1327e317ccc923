"""What no layout can beat: the largest sum of aligned sizes alive at one position (max-live)."""

from __future__ import annotations

from dataclasses import dataclass

from edgetool.memory.types import LayoutProblem


@dataclass(frozen=True, slots=True)
class Peak:
    """The busiest position, its live bytes, and the buffers alive there, by index in the problem."""

    position: int
    live_bytes: int
    buffers: tuple[int, ...]


def peak(problem: LayoutProblem) -> Peak:
    """The first position at which the live bytes are greatest; (-1, 0, ()) for an empty problem."""
    change: dict[int, int] = {}
    for buffer in problem.buffers:
        change[buffer.lifetime.first] = change.get(buffer.lifetime.first, 0) + buffer.aligned_bytes
        end = buffer.lifetime.last + 1
        change[end] = change.get(end, 0) - buffer.aligned_bytes
    live = best = 0
    position = -1
    for at in sorted(change):
        live += change[at]
        if live > best:
            best, position = live, at
    alive = tuple(
        index
        for index, buffer in enumerate(problem.buffers)
        if buffer.lifetime.first <= position <= buffer.lifetime.last
    )
    return Peak(position, best, alive if best else ())


def lower_bound(problem: LayoutProblem) -> int:
    """The max-live bound in bytes."""
    return peak(problem).live_bytes
