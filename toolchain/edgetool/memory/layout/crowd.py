"""First fit where so many pieces are alive together that their pairs cannot be kept: numpy finds them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgetool.memory.effort import Effort
from edgetool.memory.layout.instance import Instance

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
