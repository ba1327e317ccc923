"""One instance brought as low as it goes: searches at the goal, then between the goal and the best known."""

from __future__ import annotations

from collections.abc import Iterator

from edgetool.memory.layout.budget import Budget
from edgetool.memory.layout.instance import Instance, height
from edgetool.memory.layout.portfolio import plans
from edgetool.memory.layout.search import Found, Plan, Search

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
