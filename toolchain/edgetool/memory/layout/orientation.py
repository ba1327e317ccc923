"""Exact search for parts in which buffers may overlap: which buffer of each pair is above the other.

Each pair of live buffers requires one of two distances. Once a pair is decided, a buffer's lowest offset follows from
those of the buffers below it, and its highest from those above it and the capacity. If one of the two distances does
not fit into these ranges, the other one is decided. The layout in which all buffers are at their lowest offset is valid
as soon as no undecided pair is in conflict there; otherwise, one such pair is decided in both ways, one after the
other. Nothing is assumed about distances, which may be negative.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

from edgetool.memory.layout.instance import Instance, layout_peak
from edgetool.memory.layout.overlapping import Requirements
from edgetool.memory.problem import NodeBudget

# Values of a pair (i, j).
UNDECIDED, ABOVE, BELOW = range(3)
# Nodes are buffers whose range changes, and this number of pairs that are compared with vectors.
PAIRS_PER_NODE = 1000
NODES_PER_STOP_CHECK = 256
# The nodes of the first attempt, per buffer; each round has twice as many.
NODES_PER_BUFFER = 256
# An attempt between the goal and the best peak gets this share of the nodes.
STEP_DIVISOR = 4
MAX_WEIGHT = 1 << 20


class OrientationSearch:
    """The best offsets and bound so far, in units, and the attempts to improve them.

    offsets and bound may be replaced by better ones between two steps.
    """

    def __init__(self, instance: Instance, required: Requirements, offsets: tuple[int, ...], bound: int) -> None:
        self.instance = instance
        self.offsets = offsets
        self.bound = bound
        self._pairs = [(i, j, above, below) for i, row in enumerate(required) for j, above, below in row if i < j]
        self._touching: list[list[int]] = [[] for _ in required]
        for pair, (i, j, _, _) in enumerate(self._pairs):
            self._touching[i].append(pair)
            self._touching[j].append(pair)
        # How often a pair left no choice.
        self._weights = array("q", [1]) * len(self._pairs)
        self._twins = _twin_pairs(instance, self._pairs)
        self._tried = 0
        self._nodes = NODES_PER_BUFFER * max(16, len(offsets))

    def step(self, goal: int, budget: NodeBudget, max_nodes: int | None = None) -> None:
        """Attempt to find a layout at the goal or the bound, or half-way between the last failure and the best peak.

        max_nodes: the number of nodes that this attempt may search; None means no limit.
        """
        goal = max(goal, self.bound)
        top = layout_peak(self.instance, self.offsets)
        capacity, nodes = goal, self._nodes
        if self._tried >= goal:
            capacity, nodes = (self._tried + top) // 2, self._nodes // STEP_DIVISOR
        nodes = budget.allowed(nodes if max_nodes is None else min(nodes, max_nodes))
        attempt = _Attempt(self.instance, self._pairs, self._touching, self._weights, capacity)
        offsets, exhausted = attempt.run(self._twins, nodes, budget.stop)
        budget.spend(max(1, attempt.nodes))
        if offsets is not None:
            self.offsets = offsets
            top = layout_peak(self.instance, offsets)
        elif exhausted:
            self.bound = self._tried = max(self.bound, capacity + 1)
        else:
            self._tried = capacity
        if self._tried >= goal and top - self._tried <= 1:
            self._tried = 0
            self._nodes *= 1 if exhausted else 2


def _twin_pairs(instance: Instance, pairs: Sequence[tuple[int, int, int, int]]) -> list[int]:
    """Return the pairs of buffers that only differ in their index: the first of the two may be below."""
    named = {i for overlap in instance.overlaps for i in overlap[:2]}
    columns = list(zip(instance.first, instance.last, instance.sizes, instance.alignments, strict=True))
    return [
        pair
        for pair, (i, j, _, _) in enumerate(pairs)
        if columns[i] == columns[j] and max(instance.pins[i], instance.pins[j]) < 0 and not named & {i, j}
    ]


class _Attempt:
    """The search for one layout whose peak is at most a capacity: the decisions, and the offsets that they leave."""

    def __init__(
        self,
        instance: Instance,
        pairs: Sequence[tuple[int, int, int, int]],
        touching: Sequence[Sequence[int]],
        weights: array[int],
        capacity: int,
    ) -> None:
        import numpy  # on use: it is slow to import

        self.np: Any = numpy
        self.columns = numpy.array(pairs, dtype=numpy.int64).reshape(-1, 4).T.copy()
        self.alignments = instance.alignments
        self.pairs, self.touching, self.weights = pairs, touching, weights
        self.low = array("q", [max(0, pin) for pin in instance.pins])
        columns = zip(instance.sizes, instance.alignments, instance.pins, strict=True)
        self.high = array(
            "q",
            [
                (capacity - size) // alignment * alignment if pin < 0 else min(pin, capacity - size)
                for size, alignment, pin in columns
            ],
        )
        self.decided = array("b", [UNDECIDED]) * len(pairs)
        # What to restore: an array, an index and the value before.
        self.trail: list[tuple[array[int], int, int]] = []
        self.nodes = 0

    def run(self, twins: Sequence[int], limit: int, stop: Callable[[], bool]) -> tuple[tuple[int, ...] | None, bool]:
        """Return a layout if there is one, and otherwise whether the search was exhaustive."""
        if any(map(int.__gt__, self.low, self.high)):
            return None, True
        for pair in twins:
            self.decided[pair] = BELOW
        if not self._propagate(set(range(len(self.low)))):
            return None, True
        # The decisions whose alternative is untried: the length of the trail before, the pair, and the alternative.
        decisions: list[tuple[int, int, int]] = []
        next_check = NODES_PER_STOP_CHECK
        while (pair := self._conflict()) >= 0:
            if self.nodes >= next_check:
                next_check = self.nodes + NODES_PER_STOP_CHECK
                if self.nodes >= limit or stop():
                    return None, False
            first = self._promising(pair)
            decisions.append((len(self.trail), pair, ABOVE + BELOW - first))
            is_consistent = self._decide(pair, first)
            while not is_consistent:
                if not decisions:
                    return None, True
                mark, pair, alternative = decisions.pop()
                while len(self.trail) > mark:
                    values, index, before = self.trail.pop()
                    values[index] = before
                is_consistent = self._decide(pair, alternative)
        return tuple(self.low), False

    def _conflict(self) -> int:
        """Return the undecided pair to decide next: in conflict at the lowest offsets; -1 if there is none.

        Pairs that have often failed, or that leave little room for one of the two decisions, come first.
        """
        np, (i, j, above, below) = self.np, self.columns
        low, high, decided = (np.frombuffer(values, values.typecode) for values in (self.low, self.high, self.decided))
        self.nodes += len(decided) // PAIRS_PER_NODE
        low_i, low_j = low[i], low[j]
        distance = low_i - low_j
        (conflicts,) = np.nonzero((decided == UNDECIDED) & (-below < distance) & (distance < above))
        if not len(conflicts):
            return -1
        slack = np.minimum(high[i] - low_j - above, high[j] - low_i - below)[conflicts]
        weights = np.frombuffer(self.weights, self.weights.typecode)[conflicts]
        return int(conflicts[(weights / (slack + 1)).argmax()])

    def _promising(self, pair: int) -> int:
        """Return the decision of a pair that leaves more room."""
        i, j, above, below = self.pairs[pair]
        return ABOVE if self.high[i] - self.low[j] - above >= self.high[j] - self.low[i] - below else BELOW

    def _decide(self, pair: int, value: int) -> bool:
        """Decide a pair and all that follows from it; return False if no layout is left."""
        self.trail.append((self.decided, pair, UNDECIDED))
        self.decided[pair] = value
        i, j, _, _ = self.pairs[pair]
        return self._propagate({i, j})

    def _propagate(self, changed: set[int]) -> bool:
        """Adapt ranges and decisions to buffers whose range changed; return False if a range is empty."""
        low, high, decided = self.low, self.high, self.decided
        while changed:
            buffer = changed.pop()
            self.nodes += 1
            for pair in self.touching[buffer]:
                i, j, above, below = self.pairs[pair]
                value = decided[pair]
                if value == UNDECIDED:
                    may_be_above, may_be_below = low[j] + above <= high[i], low[i] + below <= high[j]
                    if may_be_above and may_be_below:
                        continue
                    if not (may_be_above or may_be_below):
                        self._fail(pair)
                        return False
                    value = ABOVE if may_be_above else BELOW
                    self.trail.append((decided, pair, UNDECIDED))
                    decided[pair] = value
                upper, lower, distance = (i, j, above) if value == ABOVE else (j, i, below)
                if low[upper] < low[lower] + distance:
                    alignment = self.alignments[upper]
                    offset = -(-(low[lower] + distance) // alignment) * alignment
                    if offset > high[upper]:
                        self._fail(pair)
                        return False
                    self.trail.append((low, upper, low[upper]))
                    low[upper] = offset
                    changed.add(upper)
                if high[lower] > high[upper] - distance:
                    alignment = self.alignments[lower]
                    offset = (high[upper] - distance) // alignment * alignment
                    if offset < low[lower]:
                        self._fail(pair)
                        return False
                    self.trail.append((high, lower, high[lower]))
                    high[lower] = offset
                    changed.add(lower)
        return True

    def _fail(self, pair: int) -> None:
        self.weights[pair] = min(MAX_WEIGHT, self.weights[pair] + 1)
