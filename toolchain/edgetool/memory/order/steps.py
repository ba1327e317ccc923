"""One operator more: what a search must know to go from set to set, from the first operator on or from the last back.

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
