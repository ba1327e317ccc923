"""Greedy layouts: first fit over several orders, TFLM's own among them; the lowest wins."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

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
    best: Layout | None = None
    for offsets in candidates(problem):
        layout = layout_of(problem, offsets, bound)
        if best is None or layout.height < best.height:
            best = layout
        if layout.optimal:
            break
    return best or Layout((), 0, 0, "bound met")


def candidates(problem: LayoutProblem) -> Iterator[tuple[int, ...]]:
    """The first-fit layouts, one for each of ORDERS, made when asked for."""
    for key in list(ORDERS.values())[: 1 if len(problem.buffers) > MANY_BUFFERS else None]:
        order = sorted(range(len(problem.buffers)), key=lambda i, k=key: k(i, problem.buffers[i]))  # type: ignore[misc]
        yield first_fit(problem, order)


def layout_of(problem: LayoutProblem, offsets: tuple[int, ...], bound: int) -> Layout:
    """The offsets as a layout of the problem, whose lower bound is given."""
    height = max((offset + b.aligned_bytes for offset, b in zip(offsets, problem.buffers, strict=True)), default=0)
    return Layout(offsets, height, bound, "bound met" if height == bound else "none")


def realise(problem: LayoutProblem, fixed: Mapping[int, int]) -> tuple[int, ...]:
    """The offsets that TFLM's GreedyMemoryPlanner gives, some buffers (by index) fixed by an offline plan.

    Source: greedy_memory_planner.cc, CalculateOffsetsIfNeeded: fixed ones first, the others fitted around them.
    """
    free = sorted(
        (i for i in range(len(problem.buffers)) if i not in fixed), key=lambda i: ORDERS["tflm"](i, problem.buffers[i])
    )
    return first_fit(problem, free, fixed)


def first_fit(
    problem: LayoutProblem, order: Sequence[int], fixed: Mapping[int, int] = MappingProxyType({})
) -> tuple[int, ...]:
    """Place the buffers in `order`, each in the lowest gap between those alive with it; `fixed` ones lie already."""
    buffers = problem.buffers
    offsets = [0] * len(buffers)
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last; by offset
    for index, offset in fixed.items():
        times = buffers[index].lifetime
        offsets[index] = offset
        placed.append((offset, offset + buffers[index].aligned_bytes, times.first, times.last))
    placed.sort()
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
