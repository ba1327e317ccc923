"""Greedy layouts of any size: first fit over a portfolio of orders, the lowest wins.

First fit where so many pieces are alive together that their pairs cannot be kept: numpy finds them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from edgetool.memory.layout.instance import Instance, height
from edgetool.memory.problem import Effort

# The offset of what is not placed yet: above everything.
NOWHERE = 1 << 62


class Crowd:
    """The pieces in classes of duration (1, 2-3, 4-7, ... sections), each class in order of the first section.

    Of a class, the pieces alive with a given one are in one run, together with at most about as many that are not.
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
        """First fit in `order` around the pins; with a `top`, None as soon as it is not lower, or told to stop."""
        instance, np = self.instance, self.np
        begin = np.full(len(instance.sizes), NOWHERE)
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
        """The lowest offset of a piece clear of all that is placed."""
        np = self.np
        slices = [slice(low[i], high[i]) for low, high in self.runs]
        start = np.concatenate([begin[s] for s in slices])
        size = np.concatenate([self.size[s] for s in slices])
        alive = np.concatenate([self.last[s] for s in slices]) >= self.instance.first[i]
        alive &= start < NOWHERE
        start, size = start[alive], size[alive]
        by_start = np.argsort(start, kind="stable")
        start = start[by_start]
        alignment = self.instance.alignments[i]
        # The least offset above all that begins no later, rounded up, and 0 below the first.
        free = np.zeros(len(start) + 1, dtype=np.int64)
        free[1:] = np.maximum.accumulate(start + size[by_start])
        free = -(-free // alignment) * alignment
        fits = start - free[:-1] >= self.instance.sizes[i]
        return int(free[fits.argmax() if fits.any() else -1])


# Beyond so many pieces only the first orders are tried: each takes one to three seconds for 100,000 pieces.
MANY_PIECES, FEW_ORDERS = 20_000, 4
# Pairs of pieces alive together are kept up to so many for each piece; with more it is faster to find them again for
# each placement. At least SOME_PAIRS are kept, so that small instances do without numpy; at most MANY_PAIRS (memory).
PAIRS_PER_PIECE, SOME_PAIRS, MANY_PAIRS = 200, 250_000, 24_000_000
# Placements between two looks at the clock.
SLICE = 128

# What a key may use of a piece: its index, size, first and last section, duration in sections, and load: the most
# that is alive at once during its life.
Key = Callable[[int, int, int, int, int, int], tuple[int, ...]]
TFLM = "tflm"
# Places pieces in an order; with a height to stay below, it gives up at that height or when told to stop (None).
# The pieces alive together with each piece.
Near = Sequence[Sequence[int]]
FirstFit = Callable[[Sequence[int], int | None, Effort], list[int] | None]
ORDERS: dict[str, Key] = {
    # GreedyMemoryPlanner's (greedy_memory_planner.cc, CalculateOffsetsIfNeeded): it comes first, so that no result is
    # ever higher than TFLM's own.
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
    near: Near | None = None,
) -> list[int]:
    """The offsets of the lowest first-fit layout over ORDERS, in units; the first of height <= target ends it.

    Never higher than TFLM's own greedy: that order is the first, and runs to its end whatever the effort. improved is
    told of the first layout, and of each lower one. near: the neighbours, where they are known already.
    """
    best = list(instance.pins)
    if min(best, default=0) >= 0:
        if improved is not None:
            improved(best)
        return best
    top: int | None = None
    pieces = len(instance.sizes)
    fit = fitter(instance, near or neighbours(instance))
    done = 0
    names = list(ORDERS)[: FEW_ORDERS if pieces > MANY_PIECES else None]
    for order in orders(instance, names):
        offsets = None if top is not None and effort.stop() else fit(order, top, effort)
        done += pieces
        if offsets is not None:
            best, top = offsets, height(instance, offsets)
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
    """The first-fit layout in the order of this name, whatever its height."""
    (order,) = orders(instance, [name])
    offsets = fitter(instance, neighbours(instance))(order, None, Effort())
    assert offsets is not None  # there is no height to stay below
    return offsets


def loads(instance: Instance) -> list[int]:
    """The sizes alive in each section, in units."""
    change = [0] * (instance.sections + 1)
    for first, last, size in zip(instance.first, instance.last, instance.sizes, strict=True):
        change[first] += size
        change[last + 1] -= size
    return list(accumulate(change[:-1]))


def neighbours(instance: Instance, limit: int | None = None) -> list[list[int]] | None:
    """The pieces alive together with each piece; None when there are more than `limit` pairs.

    Without a limit, as many pairs are kept as are worth their memory.
    """
    if limit is None:
        limit = min(max(PAIRS_PER_PIECE * len(instance.sizes), SOME_PAIRS), MANY_PAIRS)
    if pairs(instance) > limit:
        return None
    near: list[list[int]] = [[] for _ in instance.sizes]
    alive: list[int] = []
    section = -1
    for i in sorted(range(len(instance.sizes)), key=instance.first.__getitem__):
        if instance.first[i] != section:
            section = instance.first[i]
            alive = [j for j in alive if instance.last[j] >= section]
        for j in alive:
            near[j].append(i)
        near[i] = alive.copy()
        alive.append(i)
    return near


def pairs(instance: Instance) -> int:
    """How many pairs of pieces are alive together: each begins while so many others are alive, or with them."""
    begins, ends = [0] * instance.sections, [0] * instance.sections
    for first, last in zip(instance.first, instance.last, strict=True):
        begins[first] += 1
        ends[last] += 1
    count = alive = 0
    for new, gone in zip(begins, ends, strict=True):
        count += new * alive + new * (new - 1) // 2
        alive += new - gone
    return count


def fitter(instance: Instance, near: Near | None) -> FirstFit:
    """First fit on this instance, the fastest way for the pairs that it has."""
    if near is None:
        return Crowd(instance).first_fit
    return lambda order, top, effort: _first_fit(instance, near, order, top, effort)


def orders(instance: Instance, names: Sequence[str]) -> Iterator[list[int]]:
    """The pieces without a pin in the orders of these names, each made when asked for."""
    free = [i for i, pin in enumerate(instance.pins) if pin < 0]
    load: list[int] = []
    for name in names:
        if name == TFLM:
            # The first layout, which must come out whatever the effort, does not wait for what others use.
            keys = [ORDERS[name](i, size, 0, 0, 0, 0) for i, size in enumerate(instance.sizes)]
        else:
            load = load or _most_loaded(instance)
            key = ORDERS[name]
            rows = zip(instance.sizes, instance.first, instance.last, load, strict=True)
            keys = [key(i, size, a, b, b - a + 1, most) for i, (size, a, b, most) in enumerate(rows)]
        yield sorted(free, key=keys.__getitem__)


def _most_loaded(instance: Instance) -> list[int]:
    """The most that is alive at once during the life of each piece, by maxima over 1, 2, 4, ... sections."""
    maxima = [loads(instance)]
    width = 1
    while 2 * width <= instance.sections:
        maxima.append(list(map(max, maxima[-1], maxima[-1][width:])))
        width *= 2
    found = []
    for first, last in zip(instance.first, instance.last, strict=True):
        level = (last - first + 1).bit_length() - 1
        row = maxima[level]
        found.append(max(row[first], row[last + 1 - (1 << level)]))
    return found


def _first_fit(
    instance: Instance, near: Near, order: Sequence[int], top: int | None, effort: Effort
) -> list[int] | None:
    """First fit in `order` around the pins; with a `top`, None as soon as it is not lower, or told to stop."""
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
        if done % SLICE == 0 and effort.stop() and top is not None:
            return None
        if top is not None and span[1] >= top:
            return None
        spans.clear()
        for j in near[i]:
            if offsets[j] < 0:
                taken[j].append(span)
    return offsets
