"""What can follow a set of operators within a limit of live bytes, and which moves need no alternative.

A move from a set S to a larger one S' is safe if every step of it stays within the limit and no set between the two
leaves fewer bytes alive than S', nor S fewer. Then, if any order within the limit goes through S, one goes through S'
as well: take such an order, with a set A after S on its way; going through A | S' instead costs no more, as
live(A | S') <= live(A) + live(S') - live(A & S') <= live(A). A higher limit keeps safe moves safe.

One operator more: what a search must know to go from set to set, from the first operator on or from the last back.

Backwards, the set holds the operators that run last; what is alive is what is alive before them. All that is said of
live bytes holds for these sets as well, as they are the complements of downsets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgetool.memory.order.bound import least_live
from edgetool.memory.order.network import Network, bits, live_after

# From bytes alive, the set so far and an operator: bytes alive while it runs, and when the set holds it.
Step = Callable[[int, int, int], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Steps:
    """A direction. needs: what must be in the set before each operator; followers: what may follow it."""

    network: Network
    backward: bool
    needs: tuple[int, ...]
    followers: tuple[tuple[int, ...], ...]
    step: Step

    def live(self, done: int) -> int:
        """Bytes alive between a set and the other operators."""
        return live_after(self.network, self._downset(done))

    def ready(self, done: int) -> int:
        """The operators that can join a set next."""
        ready = 0
        for operator, needed in enumerate(self.needs):
            if needed & done == needed and not done >> operator & 1:
                ready |= 1 << operator
        return ready

    def least_between(self, low: int, high: int) -> int:
        """The largest set between two that leaves the fewest bytes alive."""
        if self.backward:
            _, smallest, _ = least_live(self.network, self._downset(high), self._downset(low))
            return self._downset(smallest)
        return least_live(self.network, low, high)[2]

    def in_order(self, operators: list[int]) -> tuple[int, ...]:
        """Operators in the order in which they run, from the one in which they joined."""
        return tuple(reversed(operators)) if self.backward else tuple(operators)

    def _downset(self, done: int) -> int:
        return ((1 << self.network.count) - 1) & ~done if self.backward else done


def forward(network: Network) -> Steps:
    """From the first operator on."""
    adds, during, ends = network.adds, network.during, network.ends

    def step(live: int, done: int, operator: int) -> tuple[int, int]:
        after = live + adds[operator]
        done |= 1 << operator
        for users, size in ends[operator]:
            if users & done == users:
                after -= size
        return live + during[operator], after

    return Steps(network, False, network.needs, network.followers, step)


def backward(network: Network) -> Steps:
    """From the last operator back."""
    during = network.during
    # What an operator makes is alive after it, unless nobody else uses it; what it uses, before it.
    makes = [0] * network.count
    uses: list[list[tuple[int, int]]] = [[] for _ in range(network.count)]
    for piece in network.pieces:
        if piece.first >= 0 and (piece.kept or piece.users != 1 << piece.first):
            makes[piece.first] += piece.size
        if not piece.kept:
            for operator in bits(piece.users):
                if operator != piece.first:
                    uses[operator].append((piece.users, piece.size))

    def step(live: int, done: int, operator: int) -> tuple[int, int]:
        before = live - makes[operator]
        for users, size in uses[operator]:
            if not users & done:
                before += size
        return before + during[operator], before

    needs = tuple(sum(1 << follower for follower in followers) for followers in network.followers)
    return Steps(network, True, needs, tuple(tuple(bits(needed)) for needed in network.needs), step)


# Sets followed between two questions whether to stop: a few milliseconds.
PATIENCE = 256


class Path:
    """Operators that joined, as a list linked backwards."""

    __slots__ = ("before", "joined")

    def __init__(self, before: Path | None, joined: tuple[int, ...]) -> None:
        self.before = before
        self.joined = joined


# Bytes alive, the operators in the set, those that can join it next, and how it was reached.
State = tuple[int, int, int, Path | None]


def state_of(steps: Steps, done: int) -> State:
    """The state of a set that was not reached by anything."""
    return steps.live(done), done, steps.ready(done), None


def joined(path: Path | None) -> list[int]:
    """All operators of a path, in the order in which they joined."""
    parts = []
    while path is not None:
        parts.append(path.joined)
        path = path.before
    return [operator for part in reversed(parts) for operator in part]


def chain_from(steps: Steps, state: State, operator: int, limit: int) -> State:
    """The state after an operator within the limit, and the chain that it sets free.

    The chain goes on while each operator sets exactly one other free, and is kept up to where the fewest bytes are
    alive, which is safe: between the operator and the end of the chain there are no other sets.
    """
    needs, followers, step = steps.needs, steps.followers, steps.step
    live, done, ready, path = state
    at_once, live = step(live, done, operator)
    best = (live + 1, 0, 0)
    ran: list[int] = []
    kept = 0
    while at_once <= limit:
        ran.append(operator)
        done |= 1 << operator
        ready ^= 1 << operator
        freed = [follower for follower in followers[operator] if needs[follower] & done == needs[follower]]
        for follower in freed:
            ready |= 1 << follower
        if live <= best[0]:
            best, kept = (live, done, ready), len(ran)
        if len(freed) != 1:
            break
        operator = freed[0]
        at_once, live = step(live, done, operator)
    return *best, Path(path, tuple(ran[:kept]))


def moves(steps: Steps, state: State, limit: int) -> tuple[list[State], list[tuple[int, int]]]:
    """The states that follow within the limit, and the operators that exceed it, with the bytes that they ask for.

    Where a move is safe, it is the only one, and nothing else is told.
    """
    live, done, ready, _ = state
    step = steps.step
    children: list[State] = []
    beyond = []
    for operator in bits(ready):
        at_once, _ = step(live, done, operator)
        if at_once > limit:
            beyond.append((at_once, operator))
            continue
        child = chain_from(steps, state, operator, limit)
        if child[0] <= live:
            return [child], []
        children.append(child)
    return children, beyond


def next_root(steps: Steps, root: State, better: State) -> tuple[list[int], State]:
    """The safe move to the largest set with the fewest bytes between the root of a search and a state reached from it
    that leaves no more bytes alive than the root: the operators that join, and the new root.

    The way to that set is the way to the state, without the operators that the set does not hold.
    """
    done = steps.least_between(root[1], better[1])
    return [operator for operator in joined(better[3]) if done >> operator & 1], state_of(steps, done)
