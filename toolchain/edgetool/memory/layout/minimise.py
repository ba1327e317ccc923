"""One instance brought as low as it goes: searches at the goal, then between the goal and the best known.

The plans with which searches are started: runs are heavy-tailed, so that many short ones beat a long one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from edgetool.memory.layout.instance import Budget, Instance, height
from edgetool.memory.layout.kernel import FAILING, FEWEST, LOWEST, TIGHTEST
from edgetool.memory.layout.search import Found, Plan, Search

# Nodes of the first searches, and per piece; those of each round have a quarter more. What succeeds does so soon.
FEWEST_NODES, RUN_NODES_PER_PIECE = 300, 3
# How far noise moves the key of a piece, as a fraction, in thousandths.
NOISE = 300

# A key orders pieces, the largest first, by size and by duration in sections.
Key = Callable[[int, int], int]


def _area(size: int, duration: int) -> int:
    return size * duration


def _duration(size: int, duration: int) -> int:
    return duration


def _size(size: int, duration: int) -> int:
    return size


def _long_area(size: int, duration: int) -> int:
    return size * duration * duration


# No pair is best everywhere: of these, one soon succeeds on every hard instance at hand.
PAIRS: tuple[tuple[Key, int], ...] = (
    (_area, LOWEST),
    (_duration, TIGHTEST),
    (_size, FEWEST),
    (_duration, LOWEST),
    (_duration, FEWEST),
    (_size, TIGHTEST),
    (_duration, FAILING),
    (_long_area, TIGHTEST),
)


def plans(instance: Instance, seed: int) -> Iterator[tuple[Plan, int]]:
    """Plans without end, each with the nodes that it may take: every pair as it is, then with noise and more nodes."""
    pieces = range(len(instance.sizes))
    durations = [last - first + 1 for first, last in zip(instance.first, instance.last, strict=True)]
    state = (seed * 2 + 1) * 0x9E3779B97F4A7C15 % 2**64
    limit = max(FEWEST_NODES, RUN_NODES_PER_PIECE * len(pieces))
    for round_ in count():
        for key, rule in PAIRS:
            values = [1000 * key(instance.sizes[i], durations[i]) for i in pieces]
            if round_:
                for i in pieces:
                    # xorshift64*, the same on every machine.
                    state ^= state >> 12
                    state = (state ^ state << 25) % 2**64
                    state ^= state >> 27
                    values[i] += values[i] // 1000 * ((state * 0x2545F4914F6CDD1D >> 32) % (2 * NOISE + 1) - NOISE)
            yield Plan(sorted(pieces, key=lambda i, values=values: (-values[i], i)), rule), limit  # type: ignore[misc]
        limit += limit // 4


# Nodes of the first attempt at the goal: by piece, and at most; each round has twice as many.
NODES_PER_PIECE, MOST_FIRST_NODES = 128, 32_000
# Attempts between the goal and the best known have this part of them.
STEP_SHARE = 8
# The last search of an attempt has at least this part of its nodes.
LONG_SHARE = 8
# A round ends where the best known is this close to what was tried in vain, as a part of it.
CLOSE = 500


class Minimiser:
    """The best offsets of an instance so far and the bound proven so far, in its units, and the attempts at better.

    offsets and bound may be replaced by better ones between two steps.
    """

    def __init__(self, instance: Instance, offsets: tuple[int, ...], bound: int, seed: int) -> None:
        self.search = Search(instance)
        self.offsets = offsets
        self.bound = bound
        self._seed = seed
        self._attempts = 0
        self._tried = 0
        # Attempts at the goal go on where the last one ended.
        self._plans = plans(instance, seed)
        self._nodes = min(MOST_FIRST_NODES, NODES_PER_PIECE * max(64, len(instance.sizes)))

    @property
    def nodes(self) -> int:
        """The nodes searched so far."""
        return self.search.nodes

    def step(self, goal: int, budget: Budget, most: int | None = None) -> None:
        """One attempt at a lower layout: at the goal or the bound, or half-way between what failed and the best.

        most: the nodes that it may take at most.
        """
        goal = max(goal, self.bound)
        top = height(self.search.instance, self.offsets)
        capacity, nodes = goal, self._nodes
        if self._tried >= goal:
            capacity, nodes = (self._tried + top) // 2, self._nodes // STEP_SHARE
        self._attempts += 1
        series = self._plans if capacity == goal else plans(self.search.instance, self._seed + self._attempts)
        learned = self.search.failures
        found = self._attempt(series, capacity, nodes if most is None else min(nodes, most), budget)
        if capacity > goal:
            # What fails at one capacity says little of another.
            self.search.failures = learned
        if found.offsets is not None:
            self.offsets = found.offsets
            top = height(self.search.instance, self.offsets)
        elif found.exhausted:
            self.bound = self._tried = max(self.bound, capacity + 1)
        else:
            self._tried = capacity
        if self._tried >= goal and top - self._tried <= (1 if found.exhausted else max(1, top // CLOSE)):
            self._tried = 0
            self._nodes *= 1 if found.exhausted else 2

    def _attempt(self, series: Iterator[tuple[Plan, int]], capacity: int, nodes: int, budget: Budget) -> Found:
        """Searches for a layout no higher than `capacity`, with so many nodes in all.

        Short ones from the portfolio, which find what there is; and a last long one, which sees that there is nothing.
        """
        long = nodes // LONG_SHARE
        for plan, limit in series:
            last = nodes <= limit + long
            allowed = budget.allowed(nodes if last else limit)
            if allowed <= 0 or budget.stop():
                break
            found = self.search.run(capacity, plan, allowed, budget.stop)
            budget.spend(found.nodes)
            nodes -= found.nodes
            if found.offsets is not None or found.exhausted:
                return found
            if last:
                break
        return Found(None, False, 0)
