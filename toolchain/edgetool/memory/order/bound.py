"""How few bytes can be alive at a moment: the least over downsets, by minimum cut.

A downset is one side of a cut. Each tensor is an edge whose capacity, its size, is cut exactly when the tensor is
alive: written, and not yet used by all of its users. Dependencies are edges that no finite cut may cut. Take, for an
operator, the downsets after which it could run next, and of these the one with the fewest live bytes: in every order
as many are alive when it runs, and its own. The largest of these over the operators is a lower bound of every peak.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgetool.memory.order.flow import FlowGraph
from edgetool.memory.order.network import Network, ancestors_of, bits, descendants_of

# Nodes of a cut graph: operator i is FIRST + i, and tensors of several users follow.
SOURCE, SINK, FIRST = 0, 1, 2


def cut_graph(network: Network, low: int, high: int, needs: Sequence[int]) -> tuple[FlowGraph, int]:
    """The graph whose cuts are the downsets between two, and the bytes that are alive besides what they cut.

    Operator i is node FIRST + i. needs: what must run before each operator, directly.
    """
    free = high & ~low
    graph = FlowGraph(network.count + FIRST)
    constant = network.elsewhere
    for piece in network.pieces:
        started = piece.first < 0 or low >> piece.first & 1
        if not piece.size or not (started or high >> piece.first & 1):
            continue
        start = SOURCE if started else FIRST + piece.first
        if piece.kept or piece.users & ~high:
            if started:
                constant += piece.size
            else:
                graph.add(start, SINK, piece.size)
            continue
        users = piece.users & free
        if not started:
            users &= ~(1 << piece.first)
        if users & (users - 1):
            ended = graph.add_node()
            graph.add(start, ended, piece.size)
            for operator in bits(users):
                graph.add(ended, FIRST + operator, None)
        elif users:
            graph.add(start, FIRST + users.bit_length() - 1, piece.size)
    for operator in bits(free):
        for needed in bits(needs[operator] & free):
            graph.add(FIRST + operator, FIRST + needed, None)
    return graph, constant


def least_live(network: Network, low: int, high: int) -> tuple[int, int, int]:
    """The least bytes alive after any downset between two downsets; the smallest and the largest that reach it."""
    graph, constant = cut_graph(network, low, high, network.needs)
    cut = graph.maximum_flow(SOURCE, SINK)
    reached, reaching = graph.reached(SOURCE), graph.reaching(SINK)
    smallest = largest = low
    for operator in bits(high & ~low):
        smallest |= reached[FIRST + operator] << operator
        largest |= (not reaching[FIRST + operator]) << operator
    return constant + cut, smallest, largest


def lower_bound(network: Network, floor: int, ceiling: int, seen: Sequence[int], stop: Callable[[], bool]) -> int:
    """Bytes that every order reaches at some operator; floor, if it finds no better.

    seen: for each operator, bytes alive at it in some order. Operators whose bound cannot exceed the best found so
    far are skipped; it is done when that reaches the ceiling, the peak of a known order.
    """
    ancestors, descendants = ancestors_of(network), descendants_of(network)
    everything = (1 << network.count) - 1
    at_most = list(seen)
    waiting = sorted(range(network.count), key=lambda operator: at_most[operator])
    best = floor
    while waiting and best < ceiling and not stop():
        operator = waiting.pop()
        if at_most[operator] <= best:
            continue
        live, _, done = least_live(network, ancestors[operator], everything & ~(descendants[operator] | 1 << operator))
        best = max(best, live + network.during[operator])
        for other in waiting:
            if at_most[other] > best and not done >> other & 1 and ancestors[other] & done == ancestors[other]:
                at_most[other] = min(at_most[other], live + network.during[other])
    return best
