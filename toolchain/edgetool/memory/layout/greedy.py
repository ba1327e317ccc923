"""Greedy layouts: first fit over a portfolio of orders, of which the lowest result is kept.

First fit needs the buffers that are live together with each buffer. If there are too many such pairs to store, numpy
finds them again for each placement. TFLM's own order is always the first one, so that no result is higher than TFLM's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from edgetool.memory.layout.instance import Instance, layout_peak
from edgetool.memory.problem import Effort

# The offset of a buffer that is not placed yet: above everything.
UNPLACED = 1 << 62


class DurationIndex:
    """The buffers in classes of duration (1, 2-3, 4-7, ... cliques), each class in order of the first clique.

    In each class, the buffers that are live together with a given one are in one run, which has at most about twice as
    many elements.
    """

    def __init__(self, instance: Instance) -> None:
        import numpy

        self.np: Any = numpy
        self.instance = instance
        first, last = numpy.array(instance.first), numpy.array(instance.last)
        classes = numpy.array([d.bit_length() - 1 for d in (last - first + 1).tolist()])
        order = numpy.lexsort((first, classes))
        self.rank = numpy.argsort(order).tolist()
        self.first, self.last, self.size = first[order], last[order], numpy.array(instance.sizes)[order]
        kinds, begins = numpy.unique(classes[order], return_index=True)
        ends = [*begins[1:].tolist(), len(order)]
        self.runs = []
        for kind, begin, end in zip(kinds.tolist(), begins.tolist(), ends, strict=True):
            starts = self.first[begin:end]
            low = begin + numpy.searchsorted(starts, first - (2 << kind) + 2, "left")
            high = begin + numpy.searchsorted(starts, last, "right")
            self.runs.append((low.astype(numpy.int32), high.astype(numpy.int32)))

    def first_fit(self, order: Sequence[int], top: int | None, effort: Effort) -> list[int] | None:
        """Place the buffers in `order` around the pins; return None at the first end that is not below `top`, or when
        stopped.
        """
        instance, np = self.instance, self.np
        begin = np.full(len(instance.sizes), UNPLACED)
        for i, pin in enumerate(instance.pins):
            if pin >= 0:
                begin[self.rank[i]] = pin
        offsets = list(instance.pins)
        for i in order:
            offset = self._lowest(i, begin)
            if effort.stop() and top is not None:
                return None
            if top is not None and offset + instance.sizes[i] >= top:
                return None
            offsets[i] = offset
            begin[self.rank[i]] = offset
        return offsets

    def _lowest(self, i: int, begin: Any) -> int:
        """Return the lowest offset of a buffer that does not overlap any placed one."""
        np = self.np
        slices = [slice(low[i], high[i]) for low, high in self.runs]
        start = np.concatenate([begin[s] for s in slices])
        size = np.concatenate([self.size[s] for s in slices])
        alive = np.concatenate([self.last[s] for s in slices]) >= self.instance.first[i]
        alive &= start < UNPLACED
        start, size = start[alive], size[alive]
        by_start = np.argsort(start, kind="stable")
        start = start[by_start]
        alignment = self.instance.alignments[i]
        # The lowest offset above all that begin no later, rounded up, and 0 below the first.
        free = np.zeros(len(start) + 1, dtype=np.int64)
        free[1:] = np.maximum.accumulate(start + size[by_start])
        free = -(-free // alignment) * alignment
        fits = start - free[:-1] >= self.instance.sizes[i]
        return int(free[fits.argmax() if fits.any() else -1])


# With more buffers than this, only the first orders are tried: each takes one to three seconds for 100,000 buffers.
MANY_BUFFERS, FEW_ORDERS = 20_000, 4
# Pairs of buffers that are live together are stored up to this number per buffer; with more, finding them again for
# each placement is faster. At least MIN_PAIRS are stored, so that small instances do not need numpy, and at most
# MAX_PAIRS, because of memory.
PAIRS_PER_BUFFER, MIN_PAIRS, MAX_PAIRS = 200, 250_000, 24_000_000
# Placements between two calls of stop.
PLACEMENTS_PER_STOP_CHECK = 128

# The arguments of a key: index, size, first and last clique, duration in cliques, and load: the maximum size live at
# once during the buffer's life.
OrderKey = Callable[[int, int, int, int, int, int], tuple[int, ...]]
TFLM = "tflm"
# The buffers that are live together with each buffer.
Neighbours = Sequence[Sequence[int]]
# Places buffers in an order; given a limit of the peak, it returns None as soon as that is reached or it is stopped.
FirstFit = Callable[[Sequence[int], int | None, Effort], list[int] | None]
ORDERS: dict[str, OrderKey] = {
    # The order of GreedyMemoryPlanner (greedy_memory_planner.cc, CalculateOffsetsIfNeeded): it comes first, so that no
    # result is higher than TFLM's own.
    TFLM: lambda i, size, first, last, duration, load: (-size, -i),
    "load by size": lambda i, size, first, last, duration, load: (-load * size, i),
    "duration": lambda i, size, first, last, duration, load: (-duration, -size, i),
    "area": lambda i, size, first, last, duration, load: (-duration * size, -size, i),
    "load, duration": lambda i, size, first, last, duration, load: (-load, -duration, -size, i),
    "size, start": lambda i, size, first, last, duration, load: (-size, first, i),
    "load by area": lambda i, size, first, last, duration, load: (-load * duration * size, i),
    "start": lambda i, size, first, last, duration, load: (first, -size, i),
    "end": lambda i, size, first, last, duration, load: (-last, -size, i),
    "load, size": lambda i, size, first, last, duration, load: (-load, -size, i),
    "load, area": lambda i, size, first, last, duration, load: (-load, -duration * size, i),
    "load by duration": lambda i, size, first, last, duration, load: (-load * duration, -size, i),
    "size, duration": lambda i, size, first, last, duration, load: (-size, -duration, i),
    "start, duration": lambda i, size, first, last, duration, load: (first, -duration, i),
    "end, duration": lambda i, size, first, last, duration, load: (-last, -duration, i),
    "long and large": lambda i, size, first, last, duration, load: (-duration * duration * size, -size, i),
    "large and long": lambda i, size, first, last, duration, load: (-duration * size * size, -size, i),
}


def greedy_offsets(
    instance: Instance,
    effort: Effort,
    target: int,
    improved: Callable[[list[int]], None] | None = None,
    near: Neighbours | None = None,
) -> list[int]:
    """Return the offsets of the lowest first-fit layout over ORDERS, in units; stop at the first peak <= target.

    The peak is never higher than that of TFLM's own planner: its order is the first one, and is completed whatever the
    effort. `improved` receives the first layout and each lower one. near: the neighbours, if they are already
    available.
    """
    best = list(instance.pins)
    if min(best, default=0) >= 0:
        if improved is not None:
            improved(best)
        return best
    top: int | None = None
    count = len(instance.sizes)
    fit = choose_first_fit(instance, near or neighbours(instance))
    done = 0
    names = list(ORDERS)[: FEW_ORDERS if count > MANY_BUFFERS else None]
    for order in orders(instance, names):
        offsets = None if top is not None and effort.stop() else fit(order, top, effort)
        done += count
        if offsets is not None:
            best, top = offsets, layout_peak(instance, offsets)
            if improved is not None:
                improved(best)
        if (
            top is None
            or top <= target
            or (effort.node_limit is not None and done >= effort.node_limit)
            or effort.stop()
        ):
            break
    return best


def first_fit_by(instance: Instance, name: str) -> list[int]:
    """Return the first-fit layout in the order with this name, whatever its peak."""
    (order,) = orders(instance, [name])
    offsets = choose_first_fit(instance, neighbours(instance))(order, None, Effort())
    assert offsets is not None  # there is no peak to stay below
    return offsets


def loads(instance: Instance) -> list[int]:
    """Return the size that is live in each clique, in units."""
    change = [0] * (instance.clique_count + 1)
    for first, last, size in zip(instance.first, instance.last, instance.sizes, strict=True):
        change[first] += size
        change[last + 1] -= size
    return list(accumulate(change[:-1]))


def neighbours(instance: Instance, limit: int | None = None) -> list[list[int]] | None:
    """Return the buffers that are live together with each buffer, or None if there are more than `limit` pairs.

    Without a limit, as many pairs are stored as are worth their memory.
    """
    if limit is None:
        limit = min(max(PAIRS_PER_BUFFER * len(instance.sizes), MIN_PAIRS), MAX_PAIRS)
    if pairs(instance) > limit:
        return None
    near: list[list[int]] = [[] for _ in instance.sizes]
    alive: list[int] = []
    clique = -1
    for i in sorted(range(len(instance.sizes)), key=instance.first.__getitem__):
        if instance.first[i] != clique:
            clique = instance.first[i]
            alive = [j for j in alive if instance.last[j] >= clique]
        for j in alive:
            near[j].append(i)
        near[i] = alive.copy()
        alive.append(i)
    return near


def pairs(instance: Instance) -> int:
    """Return the number of pairs of buffers that are live together."""
    begins, ends = [0] * instance.clique_count, [0] * instance.clique_count
    for first, last in zip(instance.first, instance.last, strict=True):
        begins[first] += 1
        ends[last] += 1
    count = alive = 0
    for new, gone in zip(begins, ends, strict=True):
        count += new * alive + new * (new - 1) // 2
        alive += new - gone
    return count


def choose_first_fit(instance: Instance, near: Neighbours | None) -> FirstFit:
    """Return the implementation of first fit that is faster for the instance's number of pairs."""
    if near is None:
        return DurationIndex(instance).first_fit
    return lambda order, top, effort: _first_fit(instance, near, order, top, effort)


def orders(instance: Instance, names: Sequence[str]) -> Iterator[list[int]]:
    """Yield the buffers without a pin in the orders with these names; each order is computed on demand."""
    free = [i for i, pin in enumerate(instance.pins) if pin < 0]
    load: list[int] = []
    for name in names:
        if name == TFLM:
            # TFLM's order is computed whatever the effort, so it does not wait for the loads that the others use.
            keys = [ORDERS[name](i, size, 0, 0, 0, 0) for i, size in enumerate(instance.sizes)]
        else:
            load = load or _peak_loads(instance)
            key = ORDERS[name]
            rows = zip(instance.sizes, instance.first, instance.last, load, strict=True)
            keys = [key(i, size, a, b, b - a + 1, most) for i, (size, a, b, most) in enumerate(rows)]
        yield sorted(free, key=keys.__getitem__)


def _peak_loads(instance: Instance) -> list[int]:
    """Return the maximum load during the life of each buffer, by maxima over 1, 2, 4, ... cliques."""
    maxima = [loads(instance)]
    width = 1
    while 2 * width <= instance.clique_count:
        maxima.append(list(map(max, maxima[-1], maxima[-1][width:])))
        width *= 2
    peaks = []
    for first, last in zip(instance.first, instance.last, strict=True):
        level = (last - first + 1).bit_length() - 1
        row = maxima[level]
        peaks.append(max(row[first], row[last + 1 - (1 << level)]))
    return peaks


def _first_fit(
    instance: Instance, near: Neighbours, order: Sequence[int], top: int | None, effort: Effort
) -> list[int] | None:
    """Place the buffers in `order` around the pins; return None at the first end that is not below `top`, or when
    stopped.
    """
    offsets = list(instance.pins)
    taken: list[list[tuple[int, int]]] = [[] for _ in offsets]
    for i, pin in enumerate(instance.pins):
        if pin >= 0:
            for j in near[i]:
                taken[j].append((pin, pin + instance.sizes[i]))
    sizes, alignments = instance.sizes, instance.alignments
    for done, i in enumerate(order, 1):
        spans = taken[i]
        spans.sort()
        size, alignment = sizes[i], alignments[i]
        offset = 0
        for start, end in spans:
            if start - offset >= size:
                break
            if end > offset:
                offset = end if alignment == 1 else -(-end // alignment) * alignment
        offsets[i] = offset
        span = (offset, offset + size)
        if done % PLACEMENTS_PER_STOP_CHECK == 0 and effort.stop() and top is not None:
            return None
        if top is not None and span[1] >= top:
            return None
        spans.clear()
        for j in near[i]:
            if offsets[j] < 0:
                taken[j].append(span)
    return offsets
