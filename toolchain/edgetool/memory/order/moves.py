"""Moves from a set of operators to a larger one within a limit of live bytes, and those that need no alternative.

A move from a set S to a larger one S' is safe if every step of it stays within the limit, and no set between the two
leaves fewer bytes live than S', nor S fewer. Then, if any order within the limit passes through S, one passes through
S' as well: take such an order, with a set A after S on its way; passing through A | S' instead costs no more, as live(A
| S') <= live(A) + live(S') - live(A & S') <= live(A). A higher limit keeps safe moves safe.

Searches run in two directions, from the first operator on or from the last one back. Backwards, the set contains the
operators that run last; its live bytes are those before them. Everything about live bytes holds for these sets as well,
because they are the complements of downsets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgetool.memory.order.bound import minimum_live
from edgetool.memory.order.network import Network, bits, live_after

# From the live bytes, the set so far and an operator: the bytes live while it runs, and after it has joined the set.
StepFunction = Callable[[int, int, int], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class SearchDirection:
    """A direction. needs: the operators that must be in the set before each one; followers: its possible successors."""

    network: Network
    backward: bool
    needs: tuple[int, ...]
    followers: tuple[tuple[int, ...], ...]
    step: StepFunction

    def live(self, done: int) -> int:
        """Return the bytes live between a set and the other operators."""
        return live_after(self.network, self._downset(done))

    def ready(self, done: int) -> int:
        """Return the operators that can join a set next."""
        ready = 0
        for operator, needed in enumerate(self.needs):
            if needed & done == needed and not done >> operator & 1:
                ready |= 1 << operator
        return ready

    def minimum_between(self, low: int, high: int) -> int:
        """Return the largest set between two that leaves the fewest bytes live."""
        if self.backward:
            _, smallest, _ = minimum_live(self.network, self._downset(high), self._downset(low))
            return self._downset(smallest)
        return minimum_live(self.network, low, high)[2]

    def in_order(self, operators: list[int]) -> tuple[int, ...]:
        """Return operators in execution order, from the order in which they joined."""
        return tuple(reversed(operators)) if self.backward else tuple(operators)

    def _downset(self, done: int) -> int:
        return ((1 << self.network.count) - 1) & ~done if self.backward else done


def forward(network: Network) -> SearchDirection:
    """Return the direction from the first operator on."""
    adds, during, ends = network.adds, network.during, network.ends

    def step(live: int, done: int, operator: int) -> tuple[int, int]:
        after = live + adds[operator]
        done |= 1 << operator
        for users, size in ends[operator]:
            if users & done == users:
                after -= size
        return live + during[operator], after

    return SearchDirection(network, False, network.needs, network.followers, step)


def backward(network: Network) -> SearchDirection:
    """Return the direction from the last operator back."""
    during = network.during
    # The outputs of an operator are live after it, unless nothing else uses them; its inputs, before it.
    makes = [0] * network.count
    uses: list[list[tuple[int, int]]] = [[] for _ in range(network.count)]
    for tensor in network.tensors:
        if tensor.first >= 0 and (tensor.live_at_end or tensor.users != 1 << tensor.first):
            makes[tensor.first] += tensor.size
        if not tensor.live_at_end:
            for operator in bits(tensor.users):
                if operator != tensor.first:
                    uses[operator].append((tensor.users, tensor.size))

    def step(live: int, done: int, operator: int) -> tuple[int, int]:
        before = live - makes[operator]
        for users, size in uses[operator]:
            if not users & done:
                before += size
        return before + during[operator], before

    needs = tuple(sum(1 << follower for follower in followers) for followers in network.followers)
    return SearchDirection(network, True, needs, tuple(tuple(bits(needed)) for needed in network.needs), step)


# Sets followed between two calls of stop: a few milliseconds.
SETS_PER_STOP_CHECK = 256


class Path:
    """Operators that joined, as a list linked backwards."""

    __slots__ = ("before", "joined")

    def __init__(self, before: Path | None, joined: tuple[int, ...]) -> None:
        self.before = before
        self.joined = joined


# Live bytes, the operators in the set, those that can join it next, and the path to it.
SearchState = tuple[int, int, int, Path | None]


def initial_state(direction: SearchDirection, done: int) -> SearchState:
    """Return the state of a set without a path to it."""
    return direction.live(done), done, direction.ready(done), None


def joined(path: Path | None) -> list[int]:
    """Return all operators of a path, in the order in which they joined."""
    parts = []
    while path is not None:
        parts.append(path.joined)
        path = path.before
    return [operator for part in reversed(parts) for operator in part]


def chain_from(direction: SearchDirection, state: SearchState, operator: int, limit: int) -> SearchState:
    """Return the state after an operator within the limit, and the chain that follows from it.

    The chain continues while each operator makes exactly one other ready, and is kept up to the point with the fewest
    live bytes. That is safe: there are no other sets between the operator and the end of the chain.
    """
    needs, followers, step = direction.needs, direction.followers, direction.step
    live, done, ready, path = state
    at_once, live = step(live, done, operator)
    best = (live + 1, 0, 0)
    ran: list[int] = []
    kept_count = 0
    while at_once <= limit:
        ran.append(operator)
        done |= 1 << operator
        ready ^= 1 << operator
        freed = [follower for follower in followers[operator] if needs[follower] & done == needs[follower]]
        for follower in freed:
            ready |= 1 << follower
        if live <= best[0]:
            best, kept_count = (live, done, ready), len(ran)
        if len(freed) != 1:
            break
        operator = freed[0]
        at_once, live = step(live, done, operator)
    return *best, Path(path, tuple(ran[:kept_count]))


def moves(
    direction: SearchDirection, state: SearchState, limit: int
) -> tuple[list[SearchState], list[tuple[int, int]]]:
    """Return the states that follow within the limit, and (bytes, operator) of the moves that exceed it.

    If a move is safe, it is the only result.
    """
    live, done, ready, _ = state
    step = direction.step
    children: list[SearchState] = []
    beyond = []
    for operator in bits(ready):
        at_once, _ = step(live, done, operator)
        if at_once > limit:
            beyond.append((at_once, operator))
            continue
        child = chain_from(direction, state, operator, limit)
        if child[0] <= live:
            return [child], []
        children.append(child)
    return children, beyond


def next_root(direction: SearchDirection, root: SearchState, improved: SearchState) -> tuple[list[int], SearchState]:
    """Return the safe move from the root of a search towards a better state: the operators that join, and the new root.

    `better` leaves no more bytes live than the root. The new root is the largest set with the fewest live bytes between
    the two; the path to it is the path to the state, without the operators that the set does not contain.
    """
    done = direction.minimum_between(root[1], improved[1])
    return [operator for operator in joined(improved[3]) if done >> operator & 1], initial_state(direction, done)
