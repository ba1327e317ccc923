"""What TFLM's own planner makes of a problem: first fit, the largest first, around what a plan has fixed."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from edgetool.memory.types import Layout, LayoutProblem


def tflm_order(problem: LayoutProblem, indices: Iterable[int]) -> list[int]:
    """The buffers as GreedyMemoryPlanner places them: size descending, equal sizes in reversed order of creation.

    Source: greedy_memory_planner.cc, CalculateOffsetsIfNeeded.
    """
    return sorted(indices, key=lambda i: (-problem.buffers[i].aligned_bytes, -i))


def layout_of(problem: LayoutProblem, offsets: tuple[int, ...], bound: int) -> Layout:
    """The offsets as a layout of the problem, whose lower bound is given."""
    height = max((offset + b.aligned_bytes for offset, b in zip(offsets, problem.buffers, strict=True)), default=0)
    return Layout(offsets, height, bound, "bound met" if height == bound else "none")


def realise(problem: LayoutProblem, fixed: Mapping[int, int]) -> tuple[int, ...]:
    """The offsets that TFLM's GreedyMemoryPlanner gives, some buffers (by index) fixed by an offline plan.

    Source: greedy_memory_planner.cc, CalculateOffsetsIfNeeded: fixed ones first, the others fitted around them.
    """
    free = tflm_order(problem, (i for i in range(len(problem.buffers)) if i not in fixed))
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
