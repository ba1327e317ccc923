"""How few bytes can be alive at a moment: the least over downsets, by minimum cut.

A downset is one side of a cut. Each tensor is an edge whose capacity, its size, is cut exactly when the tensor is
alive: written, and not yet used by all of its users. Dependencies are edges that no finite cut may cut. Take, for an
operator, the downsets after which it could run next, and of these the one with the fewest live bytes: in every order
as many are alive when it runs, and its own. The largest of these over the operators is a lower bound of every peak.

Maximum flow: Dinic's algorithm on flat lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgetool.memory.order.network import Network, ancestors_of, bits, descendants_of


class FlowGraph:
    """A directed graph with integer capacities, built edge by edge; None stands for a capacity without limit."""

    def __init__(self, nodes: int) -> None:
        self._edges: list[list[int]] = [[] for _ in range(nodes)]
        self._to: list[int] = []
        self._left: list[int] = []
        self._unlimited: list[int] = []
        self._total = 0

    def add_node(self) -> int:
        """The number of a further node."""
        self._edges.append([])
        return len(self._edges) - 1

    def add(self, start: int, end: int, capacity: int | None) -> None:
        """Add an edge."""
        edge = len(self._to)
        self._edges[start].append(edge)
        self._edges[end].append(edge + 1)
        self._to += (end, start)
        self._left += (capacity or 0, 0)
        if capacity is None:
            self._unlimited.append(edge)
        else:
            self._total += capacity

    def maximum_flow(self, source: int, sink: int) -> int:
        """The flow, which is the capacity of the least cut. Every path must pass an edge of limited capacity."""
        for edge in self._unlimited:
            self._left[edge] = self._total + 1
        flow = 0
        while levels := self._levels(source, sink):
            flow += self._blocking_flow(source, sink, levels)
        return flow

    def capacities(self) -> list[int]:
        """What every edge can still take, to be set again."""
        return list(self._left)

    def set_capacities(self, left: list[int]) -> None:
        """Go back to what every edge could take."""
        self._left[:] = left

    def push(self, start: int, end: int, most: int, *, against: bool = False) -> tuple[int, set[int]]:
        """More flow from a node to another (against: from the other to it), and the nodes that reach no further.

        It ends as soon as the flow exceeds `most`; the nodes are then of no use.
        """
        edges, to, left = self._edges, self._to, self._left
        turn = int(against)
        flow = 0
        while True:
            came = {start: -1}
            queue = [start]
            for node in queue:
                for edge in edges[node]:
                    if left[edge ^ turn]:
                        other = to[edge]
                        if other not in came:
                            came[other] = edge
                            queue.append(other)
                if end in came:
                    break
            else:
                return flow, set(came)
            path = []
            node = end
            while node != start:
                path.append(came[node] ^ turn)
                node = to[came[node] ^ 1]
            amount = min(left[edge] for edge in path)
            for edge in path:
                left[edge] -= amount
                left[edge ^ 1] += amount
            flow += amount
            if flow > most:
                return flow, set()

    def reaching(self, sink: int) -> list[bool]:
        """Which nodes still reach the sink: its side of the least cut with the fewest nodes on that side."""
        found = [False] * len(self._edges)
        found[sink] = True
        stack = [sink]
        to, left = self._to, self._left
        while stack:
            for edge in self._edges[stack.pop()]:
                node = to[edge]
                if left[edge ^ 1] and not found[node]:
                    found[node] = True
                    stack.append(node)
        return found

    def reached(self, source: int) -> list[bool]:
        """Which nodes the source still reaches: its side of the least cut with the fewest nodes on that side."""
        found = [False] * len(self._edges)
        found[source] = True
        stack = [source]
        to, left = self._to, self._left
        while stack:
            for edge in self._edges[stack.pop()]:
                node = to[edge]
                if left[edge] and not found[node]:
                    found[node] = True
                    stack.append(node)
        return found

    def _levels(self, source: int, sink: int) -> list[int]:
        """Distances from the source in edges that are not full; empty when the sink cannot be reached."""
        edges, to, left = self._edges, self._to, self._left
        levels = [-1] * len(edges)
        levels[source] = 0
        frontier = [source]
        depth = 0
        while frontier and levels[sink] < 0:
            depth += 1
            reached = []
            for node in frontier:
                for edge in edges[node]:
                    other = to[edge]
                    if levels[other] < 0 and left[edge]:
                        levels[other] = depth
                        reached.append(other)
            frontier = reached
        return levels if levels[sink] >= 0 else []

    def _blocking_flow(self, source: int, sink: int, levels: list[int]) -> int:
        edges, to, left = self._edges, self._to, self._left
        position = [0] * len(edges)
        path: list[int] = []
        node = source
        flow = 0
        while True:
            if node == sink:
                amount = min(left[edge] for edge in path)
                flow += amount
                keep = 0
                for at in range(len(path) - 1, -1, -1):
                    edge = path[at]
                    left[edge] -= amount
                    left[edge ^ 1] += amount
                    if not left[edge]:
                        keep = at
                node = to[path[keep] ^ 1]
                del path[keep:]
            outgoing = edges[node]
            at, end, deeper = position[node], len(outgoing), levels[node] + 1
            while at < end and not (left[outgoing[at]] and levels[to[outgoing[at]]] == deeper):
                at += 1
            position[node] = at
            if at < end:
                path.append(outgoing[at])
                node = to[outgoing[at]]
            elif path:
                levels[node] = -1
                node = to[path.pop() ^ 1]
            else:
                return flow


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
