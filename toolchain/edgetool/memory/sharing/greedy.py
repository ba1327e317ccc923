"""Best fit: each tensor to the buffer whose size is closest to its own."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from edgetool.memory.sharing.interval import Interval

# The buffer of each interval, by number; None while it has none.
Buffers = Sequence[int | None]


def best_fit(intervals: Sequence[Interval], fixed: Buffers) -> tuple[int, ...]:
    """The buffer of each interval, chosen in order of their last use; `fixed` ones lie in theirs already.

    A buffer grows with what it takes; of equally close ones the first is taken (Caffe2's memonger, greedy).
    """
    return _placed(intervals, fixed, sorted(range(len(intervals)), key=lambda i: (intervals[i].end, i)))


def largest_first(intervals: Sequence[Interval], fixed: Buffers) -> tuple[int, ...]:
    """The same, chosen in order of size, the largest first."""
    return _placed(
        intervals, fixed, sorted(range(len(intervals)), key=lambda i: (-intervals[i].size, intervals[i].start, i))
    )


def total(intervals: Sequence[Interval], buffers: Sequence[int]) -> int:
    """The bytes of all buffers: of each the largest that lies in it."""
    sizes: dict[int, int] = {}
    for buffer, taken in zip(buffers, intervals, strict=True):
        sizes[buffer] = max(sizes.get(buffer, 0), taken.size)
    return sum(sizes.values())


def _placed(intervals: Sequence[Interval], fixed: Buffers, order: Sequence[int]) -> tuple[int, ...]:
    chosen = list(fixed)
    taken: list[list[tuple[int, int]]] = [[] for _ in range(1 + max((b for b in fixed if b is not None), default=-1))]
    sizes = [0] * len(taken)
    for i, buffer in enumerate(fixed):
        if buffer is not None:
            taken[buffer].append((intervals[i].start, intervals[i].end))
            sizes[buffer] = max(sizes[buffer], intervals[i].size)
    for times in taken:
        times.sort()
    for i in order:
        if chosen[i] is not None:
            continue
        start, end, size = intervals[i]
        best = None
        for buffer, times in enumerate(taken):
            at = bisect_left(times, (start,))
            free = (at == 0 or times[at - 1][1] < start) and (at == len(times) or end < times[at][0])
            if free and (best is None or abs(sizes[buffer] - size) < abs(sizes[best] - size)):
                best = buffer
        if best is None:
            best = len(taken)
            taken.append([])
            sizes.append(0)
        chosen[i] = best
        times = taken[best]
        times.insert(bisect_left(times, (start,)), (start, end))
        sizes[best] = max(sizes[best], size)
    return tuple(buffer for buffer in chosen if buffer is not None)
