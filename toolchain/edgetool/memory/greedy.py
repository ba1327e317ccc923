"""Greedy layouts: first fit over several orders, TFLM's own among them; the lowest wins."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence

from edgetool.memory.bound import lower_bound
from edgetool.memory.types import Buffer, Layout, LayoutProblem

# First fit looks at every pair; beyond so many buffers only the first order is tried.
MANY_BUFFERS = 3000

Key = Callable[[int, Buffer], tuple[int, ...]]


def _duration(buffer: Buffer) -> int:
    return buffer.lifetime.last - buffer.lifetime.first + 1


# Orders of placement, by name. "tflm" is GreedyMemoryPlanner's: size descending, equal sizes in reversed
# order of creation (greedy_memory_planner.cc, CalculateOffsetsIfNeeded).
ORDERS: dict[str, Key] = {
    "tflm": lambda index, b: (-b.aligned_bytes, -index),
    "size": lambda index, b: (-b.aligned_bytes, b.lifetime.first, index),
    "start": lambda index, b: (b.lifetime.first, -b.aligned_bytes, index),
    "duration": lambda index, b: (-_duration(b), -b.aligned_bytes, index),
    "area": lambda index, b: (-_duration(b) * b.aligned_bytes, -b.aligned_bytes, index),
    "end": lambda index, b: (-b.lifetime.last, -b.aligned_bytes, index),
}


def solve_greedy(problem: LayoutProblem) -> Layout:
    """The lowest of the first-fit layouts over ORDERS; stops at the first that meets the lower bound."""
    bound = lower_bound(problem)
    keys = list(ORDERS.values())[: 1 if len(problem.buffers) > MANY_BUFFERS else None]
    best: tuple[int, tuple[int, ...]] | None = None
    for key in keys:
        order = sorted(range(len(problem.buffers)), key=lambda i, k=key: k(i, problem.buffers[i]))  # type: ignore[misc]
        offsets = first_fit(problem, order)
        height = max((offset + b.aligned_bytes for offset, b in zip(offsets, problem.buffers, strict=True)), default=0)
        if best is None or height < best[0]:
            best = (height, offsets)
        if height == bound:
            break
    height, offsets = best or (0, ())
    return Layout(offsets, height, bound, "bound met" if height == bound else "none")


def first_fit(problem: LayoutProblem, order: Sequence[int]) -> tuple[int, ...]:
    """Place the buffers in `order`, each in the lowest gap between those alive with it."""
    buffers = problem.buffers
    offsets = [0] * len(buffers)
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last; by offset
    for index in order:
        size = buffers[index].aligned_bytes
        first, last = buffers[index].lifetime.first, buffers[index].lifetime.last
        offset = 0
        for start, end, other_first, other_last in placed:
            if other_first > last or first > other_last:
                continue
            if start - offset >= size:
                break
            if end > offset:
                offset = end
        offsets[index] = offset
        insort(placed, (offset, offset + size, first, last))
    return tuple(offsets)
