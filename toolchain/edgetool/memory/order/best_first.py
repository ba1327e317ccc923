"""The exact search: every set of operators that can be reached with the fewest live bytes asked for, then with more.

The limit begins at a bound. When all that can be reached within it has been followed, no order stays within it, and
it rises to the least that any move asks for. Within a limit, the sets of most operators go first, to find the end
soon. What is found with no more bytes alive than at the root makes a safe move, and the search forgets all else.
"""

from __future__ import annotations

import heapq

from edgetool.memory.order.moves import PATIENCE, Budget, State, chain_from, joined, moves, next_root, state_of
from edgetool.memory.order.steps import Steps


class BestFirst:
    """A search in one direction, that can be continued. limit: no order's peak is below it."""

    def __init__(self, steps: Steps, limit: int) -> None:
        self.limit = limit
        self.steps = steps
        self._prefix: list[int] = []
        self._followed = 0
        self._set_root(state_of(steps, 0))

    @property
    def promise(self) -> tuple[int, float]:
        """How soon it may be done, compared with another direction: what it has proven, and how little it puts off."""
        return self.limit, -(len(self._open) + len(self._blocked)) / max(1, self._followed)

    def go_on(self, ceiling: int, nodes: int, budget: Budget) -> tuple[int, ...] | None:
        """An order of least peak; None when none is below the ceiling (the limit is then the ceiling), or when this
        many more sets have been followed or the budget is spent (the limit is then below).
        """
        steps = self.steps
        everything = (1 << steps.network.count) - 1
        left = nodes
        while self.limit < ceiling:
            if not left or (not left % PATIENCE and budget.spent):
                return None
            if not self._open:
                self._raise_limit(ceiling)
                continue
            left -= 1
            self._followed += 1
            budget.followed += 1
            _, _, _, state = heapq.heappop(self._open)
            if state[1] == everything:
                return steps.in_order([*self._prefix, *joined(state[3])])
            children, beyond = moves(steps, state, self.limit)
            for at_once, operator in beyond:
                if at_once < ceiling:
                    heapq.heappush(self._blocked, (at_once, state[1], operator, state))
            for child in children:
                if self._reach(child):
                    break
        return None

    def _raise_limit(self, ceiling: int) -> None:
        """Let in the moves that ask for the least beyond the limit."""
        self.limit = min(ceiling, self._blocked[0][0]) if self._blocked else ceiling
        while self._blocked and self._blocked[0][0] <= self.limit < ceiling:
            _, _, operator, state = heapq.heappop(self._blocked)
            if self._reach(chain_from(self.steps, state, operator, self.limit)):
                return

    def _reach(self, state: State) -> bool:
        """Take a state in; whether it became the root."""
        if state[0] <= self._root[0]:
            more, root = next_root(self.steps, self._root, state)
            self._prefix += more
            self._set_root(root)
            return True
        if state[1] not in self._seen:
            self._seen.add(state[1])
            heapq.heappush(self._open, (-state[1].bit_count(), state[0], state[1], state))
        return False

    def _set_root(self, root: State) -> None:
        self._root = root
        self._seen = {root[1]}
        self._open: list[tuple[int, int, int, State]] = [(-root[1].bit_count(), root[0], root[1], root)]
        self._blocked: list[tuple[int, int, int, State]] = []
