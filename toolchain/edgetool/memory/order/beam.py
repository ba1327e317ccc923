"""The search for an order whose peak does not exceed a limit, level by level, a few sets of each level.

A level holds the sets of as many operators that can be reached within the limit; of a level, at most `width` with the
fewest live bytes are followed. Whatever the search finds, anywhere, with no more bytes alive than at its root makes a
safe move: the search goes on from there alone.
"""

from __future__ import annotations

from edgetool.memory.order.moves import PATIENCE, Budget, State, joined, moves, next_root, state_of
from edgetool.memory.order.steps import Steps


def beam_search(steps: Steps, limit: int, width: int, budget: Budget) -> tuple[int, ...] | None:
    """An order whose peak is at most the limit; None if the beam does not find one, or the budget is spent."""
    everything = (1 << steps.network.count) - 1
    root = state_of(steps, 0)
    prefix: list[int] = []
    levels: dict[int, dict[int, State]] = {0: {0: root}}
    while levels:
        better: State | None = None
        states = list(levels.pop(min(levels)).values())
        if len(states) > width:
            states.sort()
            del states[width:]
        for at, state in enumerate(states):
            if state[1] == everything:
                return steps.in_order([*prefix, *joined(state[3])])
            if not at % PATIENCE and budget.spent:
                return None
            budget.followed += 1
            for child in moves(steps, state, limit)[0]:
                if child[0] <= root[0]:
                    better = child
                    break
                levels.setdefault(child[1].bit_count(), {}).setdefault(child[1], child)
            if better is not None:
                more, root = next_root(steps, root, better)
                prefix += more
                levels = {root[1].bit_count(): {root[1]: root}}
                break
    return None
