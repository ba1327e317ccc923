"""A problem in the form that every search uses: operators by number, and sets of operators as the bits of an integer.

A set of operators that could be done at some moment (with every operator, all that it depends on) is called a downset.
The live bytes after a downset are a submodular function of it: live(A | B) + live(A & B) <= live(A) + live(B), because
every tensor that is live in A | B or A & B is live in as many of A and B. The exact steps of the searches rest on that.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgetool.memory.order.evaluate import OrderProblem, check_problem, cycle_error, dependencies


@dataclass(frozen=True, slots=True)
class NetworkTensor:
    """A tensor, or several that always live and die together.

    first: its first writer (-1: live from the start). users: the operators that read or write it, as bits.
    """

    size: int
    first: int
    users: int
    live_at_end: bool


@dataclass(frozen=True, slots=True)
class Network:
    """Operators 0 to count - 1, numbered in their original order, which is a valid one.

    operators: the index of each one in the problem. needs: the direct predecessors of each, as bits; followers: those
    that wait for each. adds: bytes of the tensors that become live with it; during: these and its scratch. ends: the
    tensors that may die with it, as (users, size). other_bytes: bytes of tensors that none of the operators uses.
    bytes_at_start: bytes live before the first operator and still when it runs; bytes_before_start: including the
    inputs without a reader.
    """

    operators: tuple[int, ...]
    needs: tuple[int, ...]
    followers: tuple[tuple[int, ...], ...]
    adds: tuple[int, ...]
    during: tuple[int, ...]
    ends: tuple[tuple[tuple[int, int], ...], ...]
    tensors: tuple[NetworkTensor, ...]
    other_bytes: int
    bytes_at_start: int
    bytes_before_start: int

    @property
    def count(self) -> int:
        """The number of operators."""
        return len(self.operators)


def bits(mask: int) -> Iterator[int]:
    """Yield the members of a set, in ascending order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def network_of(problem: OrderProblem) -> Network:
    """Return the network of a problem.

    Its original order is that of the indices or, if some operator precedes one that it depends on, the order that
    always runs the first operator that can run. Raises UsageError for rows that do not match, InvalidModelError naming
    the operators of a cycle.
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
    tensors = tuple(
        NetworkTensor(
            problem.sizes[tensor],
            -1 if tensor in inputs else first.get(tensor, -1),
            users.get(tensor, 0),
            tensor in outputs,
        )
        for tensor in sorted(users.keys() | outputs)
    )
    unread = sum(problem.sizes[tensor] for tensor in inputs - users.keys() - outputs)
    return _network(order, needs, [problem.scratch[operator] for operator in order], tensors, 0, unread)


def subnetwork(network: Network, low: int, high: int, live: int) -> Network:
    """Return the network of operators low to high - 1, which run when all earlier ones are done and `live` bytes are
    live.

    Bytes are counted as in the whole network.
    """
    inside = (1 << high) - (1 << low)
    done = (1 << low) - 1
    tensors = tuple(
        NetworkTensor(
            tensor.size,
            -1 if tensor.first < low else tensor.first - low,
            (tensor.users & inside) >> low,
            tensor.live_at_end or bool(tensor.users >> high),
        )
        for tensor in network.tensors
        if tensor.users & inside and tensor.first < high
    )
    needs = [(network.needs[operator] & ~done) >> low for operator in range(low, high)]
    scratch = [network.during[operator] - network.adds[operator] for operator in range(low, high)]
    ever_alive = sum(tensor.size for tensor in tensors if tensor.first < 0)
    return _network(network.operators[low:high], needs, scratch, tensors, live - ever_alive, 0)


def with_precedences(network: Network, needs: Sequence[int], ancestors: Sequence[int]) -> Network:
    """Return the network with more predecessors of its operators; `operators` are their numbers in the old one.

    ancestors: all direct and indirect predecessors of each.
    """
    order = sorted(range(network.count), key=lambda operator: (ancestors[operator].bit_count(), operator))
    number = {operator: at for at, operator in enumerate(order)}

    def renumbered(mask: int) -> int:
        return sum(1 << number[operator] for operator in bits(mask))

    tensors = tuple(
        NetworkTensor(tensor.size, number.get(tensor.first, -1), renumbered(tensor.users), tensor.live_at_end)
        for tensor in network.tensors
    )
    scratch = [network.during[operator] - network.adds[operator] for operator in order]
    needed = [renumbered(needs[operator]) for operator in order]
    return _network(order, needed, scratch, tensors, network.other_bytes, 0)


def profile(network: Network, order: Sequence[int]) -> list[int]:
    """Return the bytes live at each operator of an order of the network's operators."""
    result = []
    done, live = 0, network.bytes_at_start
    for operator in order:
        result.append(live + network.during[operator])
        done |= 1 << operator
        live += network.adds[operator]
        for users, size in network.ends[operator]:
            if users & done == users:
                live -= size
    return result


def live_after(network: Network, done: int) -> int:
    """Return the bytes live when the operators of a downset have run."""
    return network.other_bytes + sum(
        tensor.size
        for tensor in network.tensors
        if (tensor.first < 0 or done >> tensor.first & 1) and (tensor.live_at_end or tensor.users & ~done)
    )


def ready_after(network: Network, done: int) -> int:
    """Return the operators that can run when those of a downset have run."""
    ready = 0
    for operator, needed in enumerate(network.needs):
        if needed & done == needed and not done >> operator & 1:
            ready |= 1 << operator
    return ready


def ancestors_of(network: Network) -> list[int]:
    """Return, for each operator, all that must run before it, as bits."""
    result: list[int] = []
    for needed in network.needs:
        ancestors = needed
        for other in bits(needed):
            ancestors |= result[other]
        result.append(ancestors)
    return result


def descendants_of(network: Network) -> list[int]:
    """Return, for each operator, all that must run after it, as bits."""
    result = [0] * network.count
    for operator in reversed(range(network.count)):
        for follower in network.followers[operator]:
            result[operator] |= result[follower] | 1 << follower
    return result


def _network(
    operators: Sequence[int],
    needs: Sequence[int],
    scratch: Sequence[int],
    tensors: tuple[NetworkTensor, ...],
    other_bytes: int,
    unread: int,
) -> Network:
    followers: list[list[int]] = [[] for _ in operators]
    for operator, needed in enumerate(needs):
        for other in bits(needed):
            followers[other].append(operator)
    adds = [0] * len(operators)
    ends: list[list[tuple[int, int]]] = [[] for _ in operators]
    bytes_at_start = other_bytes
    for tensor in tensors:
        if tensor.first < 0:
            bytes_at_start += tensor.size
        else:
            adds[tensor.first] += tensor.size
        if not tensor.live_at_end and tensor.size:
            for operator in bits(tensor.users):
                ends[operator].append((tensor.users, tensor.size))
    return Network(
        operators=tuple(operators),
        needs=tuple(needs),
        followers=tuple(map(tuple, followers)),
        adds=tuple(adds),
        during=tuple(add + extra for add, extra in zip(adds, scratch, strict=True)),
        ends=tuple(map(tuple, ends)),
        tensors=tensors,
        other_bytes=other_bytes,
        bytes_at_start=bytes_at_start,
        bytes_before_start=bytes_at_start + unread,
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
    """Return a cycle among operators that wait for each other, in the order in which they would run."""
    path: dict[int, None] = {}
    operator = min(stuck)
    while operator not in path:
        path[operator] = None
        operator = min(before[operator] & stuck)
    walked = list(path)
    return walked[walked.index(operator) :][::-1]
