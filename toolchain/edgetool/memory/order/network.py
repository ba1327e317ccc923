"""The form in which every search sees a problem: operators by number, sets of operators as the bits of an integer.

A set of operators that could be done at some moment (with every operator, all that it depends on) is called a
downset. The live bytes after a downset are a submodular function of it: live(A | B) + live(A & B) <= live(A) +
live(B), since every tensor that is alive in A | B or A & B is alive in as many of A and B. The exact steps of the
searches rest on that.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgetool.memory.order.evaluate import check_problem, cycle_error, dependencies
from edgetool.memory.order.types import OrderProblem


@dataclass(frozen=True, slots=True)
class Piece:
    """A tensor, or several that live and die together: its bytes, its first writer (-1: alive from the start), the
    operators that read or write it, as bits, and whether it stays alive to the end.
    """

    size: int
    first: int
    users: int
    kept: bool


@dataclass(frozen=True, slots=True)
class Network:
    """Operators 0 to count - 1, numbered in their original order, which is a valid one.

    operators: the index that each has in the problem. needs: what must run directly before each, as bits; followers:
    what waits for each. adds: bytes of the tensors that come alive with it; during: those and its scratch. ends: the
    tensors that may die with it, as (users, size). elsewhere: bytes of tensors that none of them touches. at_start:
    bytes alive before the first operator and still when it runs; before_start: with the inputs that nobody reads.
    """

    operators: tuple[int, ...]
    needs: tuple[int, ...]
    followers: tuple[tuple[int, ...], ...]
    adds: tuple[int, ...]
    during: tuple[int, ...]
    ends: tuple[tuple[tuple[int, int], ...], ...]
    pieces: tuple[Piece, ...]
    elsewhere: int
    at_start: int
    before_start: int

    @property
    def count(self) -> int:
        """How many operators there are."""
        return len(self.operators)


def bits(mask: int) -> Iterator[int]:
    """The members of a set, in ascending order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def network_of(problem: OrderProblem) -> Network:
    """The network of a problem.

    Its original order is that of the indices, or, if some operator stands before what it depends on, the order that
    always runs the operator of lowest index that can run. Raises UsageError for rows that do not fit each other,
    InvalidModelError naming the operators of a cycle.
    """
    check_problem(problem)
    before = dependencies(problem)
    order = _original_order(before)
    number = {operator: at for at, operator in enumerate(order)}
    needs = [sum(1 << number[other] for other in before[operator]) for operator in order]
    users: dict[int, int] = {}
    first: dict[int, int] = {}
    for at, operator in enumerate(order):
        for tensor in problem.writes[operator]:
            first.setdefault(tensor, at)
        for tensor in {*problem.reads[operator], *problem.writes[operator]}:
            users[tensor] = users.get(tensor, 0) | 1 << at
    inputs, outputs = frozenset(problem.inputs), frozenset(problem.outputs)
    pieces = tuple(
        Piece(
            problem.sizes[tensor],
            -1 if tensor in inputs else first.get(tensor, -1),
            users.get(tensor, 0),
            tensor in outputs,
        )
        for tensor in sorted(users.keys() | outputs)
    )
    unread = sum(problem.sizes[tensor] for tensor in inputs - users.keys() - outputs)
    return _assembled(order, needs, [problem.scratch[operator] for operator in order], pieces, 0, unread)


def part_of(network: Network, low: int, high: int, live: int) -> Network:
    """The network of operators low to high - 1, which run when all before them are done and `live` bytes are alive.

    Bytes are counted as in the whole.
    """
    inside = (1 << high) - (1 << low)
    done = (1 << low) - 1
    pieces = tuple(
        Piece(
            piece.size,
            -1 if piece.first < low else piece.first - low,
            (piece.users & inside) >> low,
            piece.kept or bool(piece.users >> high),
        )
        for piece in network.pieces
        if piece.users & inside and piece.first < high
    )
    needs = [(network.needs[operator] & ~done) >> low for operator in range(low, high)]
    scratch = [network.during[operator] - network.adds[operator] for operator in range(low, high)]
    ever_alive = sum(piece.size for piece in pieces if piece.first < 0)
    return _assembled(network.operators[low:high], needs, scratch, pieces, live - ever_alive, 0)


def with_needs(network: Network, needs: Sequence[int], ancestors: Sequence[int]) -> Network:
    """The network where more must run before its operators; `operators` are the numbers that they have in it.

    ancestors: all that must run before each, directly or not.
    """
    order = sorted(range(network.count), key=lambda operator: (ancestors[operator].bit_count(), operator))
    number = {operator: at for at, operator in enumerate(order)}

    def renumbered(mask: int) -> int:
        return sum(1 << number[operator] for operator in bits(mask))

    pieces = tuple(
        Piece(piece.size, number.get(piece.first, -1), renumbered(piece.users), piece.kept) for piece in network.pieces
    )
    scratch = [network.during[operator] - network.adds[operator] for operator in order]
    needed = [renumbered(needs[operator]) for operator in order]
    return _assembled(order, needed, scratch, pieces, network.elsewhere, 0)


def profile(network: Network, order: Sequence[int]) -> list[int]:
    """Bytes alive at each operator of an order of the network's operators."""
    found = []
    done, live = 0, network.at_start
    for operator in order:
        found.append(live + network.during[operator])
        done |= 1 << operator
        live += network.adds[operator]
        for users, size in network.ends[operator]:
            if users & done == users:
                live -= size
    return found


def live_after(network: Network, done: int) -> int:
    """Bytes alive when the operators of a downset have run."""
    return network.elsewhere + sum(
        piece.size
        for piece in network.pieces
        if (piece.first < 0 or done >> piece.first & 1) and (piece.kept or piece.users & ~done)
    )


def ready_after(network: Network, done: int) -> int:
    """The operators that can run when those of a downset have run."""
    ready = 0
    for operator, needed in enumerate(network.needs):
        if needed & done == needed and not done >> operator & 1:
            ready |= 1 << operator
    return ready


def ancestors_of(network: Network) -> list[int]:
    """For each operator, all that must run before it, as bits."""
    found: list[int] = []
    for needed in network.needs:
        ancestors = needed
        for other in bits(needed):
            ancestors |= found[other]
        found.append(ancestors)
    return found


def descendants_of(network: Network) -> list[int]:
    """For each operator, all that must run after it, as bits."""
    found = [0] * network.count
    for operator in reversed(range(network.count)):
        for follower in network.followers[operator]:
            found[operator] |= found[follower] | 1 << follower
    return found


def _assembled(
    operators: Sequence[int],
    needs: Sequence[int],
    scratch: Sequence[int],
    pieces: tuple[Piece, ...],
    elsewhere: int,
    unread: int,
) -> Network:
    followers: list[list[int]] = [[] for _ in operators]
    for operator, needed in enumerate(needs):
        for other in bits(needed):
            followers[other].append(operator)
    adds = [0] * len(operators)
    ends: list[list[tuple[int, int]]] = [[] for _ in operators]
    at_start = elsewhere
    for piece in pieces:
        if piece.first < 0:
            at_start += piece.size
        else:
            adds[piece.first] += piece.size
        if not piece.kept and piece.size:
            for operator in bits(piece.users):
                ends[operator].append((piece.users, piece.size))
    return Network(
        operators=tuple(operators),
        needs=tuple(needs),
        followers=tuple(map(tuple, followers)),
        adds=tuple(adds),
        during=tuple(add + extra for add, extra in zip(adds, scratch, strict=True)),
        ends=tuple(map(tuple, ends)),
        pieces=pieces,
        elsewhere=elsewhere,
        at_start=at_start,
        before_start=at_start + unread,
    )


def _original_order(before: Sequence[frozenset[int]]) -> list[int]:
    if all(max(needed, default=-1) < operator for operator, needed in enumerate(before)):
        return list(range(len(before)))
    waiting = [len(needed) for needed in before]
    followers: list[list[int]] = [[] for _ in before]
    for operator, needed in enumerate(before):
        for other in needed:
            followers[other].append(operator)
    ready = [operator for operator, count in enumerate(waiting) if not count]
    order = []
    while ready:
        operator = heapq.heappop(ready)
        order.append(operator)
        for follower in followers[operator]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, follower)
    if len(order) < len(before):
        raise cycle_error(_cycle(before, frozenset(range(len(before))) - frozenset(order)))
    return order


def _cycle(before: Sequence[frozenset[int]], stuck: frozenset[int]) -> list[int]:
    """A cycle among operators each of which waits for another of them, in the order in which they would run."""
    path: dict[int, None] = {}
    operator = min(stuck)
    while operator not in path:
        path[operator] = None
        operator = min(before[operator] & stuck)
    walked = list(path)
    return walked[walked.index(operator) :][::-1]
