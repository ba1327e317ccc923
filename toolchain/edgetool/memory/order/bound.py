"""The minimum number of bytes live at a moment, over all downsets, by minimum cut.

A downset is one side of a cut. Each tensor is an edge whose capacity, its size, is cut exactly if the tensor is live:
written, and not yet used by all of its users. Dependencies are edges of infinite capacity. For an operator, consider
the downsets after which it could run next, and of these the one with the fewest live bytes: in every order, at least as
many are live when it runs, plus its own. The maximum of this over the operators is a lower bound on every peak.

Maximum flow: Dinic's algorithm on flat lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgetool.memory.order.network import Network, ancestors_of, bits, descendants_of

UNREACHED = 1 << 60  # a level that no node has


class FlowGraph:
    """A directed graph with integer capacities, built edge by edge; None means an unlimited capacity."""

    def __init__(self, nodes: int) -> None:
        self._edges: list[list[int]] = [[] for _ in range(nodes)]
        self._to: list[int] = []
        self._residual: list[int] = []
        self._unlimited: list[int] = []
        self._total = 0

    def add_node(self) -> int:
        """Return the number of a new node."""
        self._edges.append([])
        return len(self._edges) - 1

    def add(self, start: int, end: int, capacity: int | None) -> None:
        """Add an edge."""
        edge = len(self._to)
        self._edges[start].append(edge)
        self._edges[end].append(edge + 1)
        self._to += (end, start)
        self._residual += (capacity or 0, 0)
        if capacity is None:
            self._unlimited.append(edge)
        else:
            self._total += capacity

    def maximum_flow(self, source: int, sink: int, *, from_sink: bool = False) -> int:
        """Return the flow, which is the capacity of the minimum cut. Every path must contain an edge of limited
        capacity.

        from_sink: whether paths follow distances to the sink instead of those from the source: they have fewer dead
        ends. The flow is the same, perhaps over other edges.
        """
        for edge in self._unlimited:
            self._residual[edge] = self._total + 1
        start, end = (sink, source) if from_sink else (source, sink)
        flow = 0
        while levels := self._levels(start, end, against=from_sink):
            flow += self._blocking_flow(source, sink, levels)
        return flow

    def residuals(self) -> list[int]:
        """Return the residual capacity of every edge, to be restored."""
        return list(self._residual)

    def restore_residuals(self, residual: list[int]) -> None:
        """Restore the residual capacity of every edge."""
        self._residual[:] = residual

    def push(self, start: int, end: int, limit: int, *, against: bool = False) -> tuple[int, set[int]]:
        """Push more flow from a node to another (against: from the other to it); return it, and the nodes reached at
        the end.

        It ends as soon as the flow exceeds `limit`; the set of nodes is then empty.
        """
        edges, to, residual = self._edges, self._to, self._residual
        turn = int(against)
        flow = 0
        while True:
            incoming = {start: -1}
            queue = [start]
            for node in queue:
                for edge in edges[node]:
                    if residual[edge ^ turn]:
                        other = to[edge]
                        if other not in incoming:
                            incoming[other] = edge
                            queue.append(other)
                if end in incoming:
                    break
            else:
                return flow, set(incoming)
            path = []
            node = end
            while node != start:
                path.append(incoming[node] ^ turn)
                node = to[incoming[node] ^ 1]
            amount = min(residual[edge] for edge in path)
            for edge in path:
                residual[edge] -= amount
                residual[edge ^ 1] += amount
            flow += amount
            if flow > limit:
                return flow, set()

    def reaching(self, sink: int) -> list[bool]:
        """Return which nodes still reach the sink: the smallest sink side of a minimum cut."""
        is_reached = [False] * len(self._edges)
        is_reached[sink] = True
        stack = [sink]
        to, residual = self._to, self._residual
        while stack:
            for edge in self._edges[stack.pop()]:
                node = to[edge]
                if residual[edge ^ 1] and not is_reached[node]:
                    is_reached[node] = True
                    stack.append(node)
        return is_reached

    def reached(self, source: int) -> list[bool]:
        """Return which nodes the source still reaches: the smallest source side of a minimum cut."""
        is_reached = [False] * len(self._edges)
        is_reached[source] = True
        stack = [source]
        to, residual = self._to, self._residual
        while stack:
            for edge in self._edges[stack.pop()]:
                node = to[edge]
                if residual[edge] and not is_reached[node]:
                    is_reached[node] = True
                    stack.append(node)
        return is_reached

    def _levels(self, start: int, end: int, *, against: bool) -> list[int]:
        """Return distances from a node over edges that are not full; empty if they do not lead to the end.

        against: follow edges from their ends, with negative distances, which grow towards the node.
        """
        edges, to, residual = self._edges, self._to, self._residual
        turn, step = int(against), -1 if against else 1
        levels = [UNREACHED] * len(edges)
        levels[start] = 0
        frontier = [start]
        depth = 0
        while frontier and levels[end] == UNREACHED:
            depth += step
            reached = []
            for node in frontier:
                for edge in edges[node]:
                    other = to[edge]
                    if levels[other] == UNREACHED and residual[edge ^ turn]:
                        levels[other] = depth
                        reached.append(other)
            frontier = reached
        return levels if levels[end] != UNREACHED else []

    def _blocking_flow(self, source: int, sink: int, levels: list[int]) -> int:
        edges, to, residual = self._edges, self._to, self._residual
        position = [0] * len(edges)
        path: list[int] = []
        node = source
        flow = 0
        while True:
            if node == sink:
                amount = min(residual[edge] for edge in path)
                flow += amount
                keep = 0
                for at in range(len(path) - 1, -1, -1):
                    edge = path[at]
                    residual[edge] -= amount
                    residual[edge ^ 1] += amount
                    if not residual[edge]:
                        keep = at
                node = to[path[keep] ^ 1]
                del path[keep:]
            outgoing = edges[node]
            at, end, deeper = position[node], len(outgoing), levels[node] + 1
            while at < end and not (residual[outgoing[at]] and levels[to[outgoing[at]]] == deeper):
                at += 1
            position[node] = at
            if at < end:
                path.append(outgoing[at])
                node = to[outgoing[at]]
            elif path:
                levels[node] = UNREACHED
                node = to[path.pop() ^ 1]
            else:
                return flow


# Nodes of a cut graph: operator i is FIRST + i, and tensors of several users follow.
SOURCE, SINK, FIRST = 0, 1, 2


def cut_graph(network: Network, low: int, high: int, needs: Sequence[int]) -> tuple[FlowGraph, int]:
    """Return the graph whose cuts are the downsets between two, and the bytes that are live in addition to the cut.

    Operator i is node FIRST + i. needs: the direct predecessors of each operator.
    """
    free = high & ~low
    graph = FlowGraph(network.count + FIRST)
    constant = network.other_bytes
    for tensor in network.tensors:
        started = tensor.first < 0 or low >> tensor.first & 1
        if not tensor.size or not (started or high >> tensor.first & 1):
            continue
        start = SOURCE if started else FIRST + tensor.first
        if tensor.live_at_end or tensor.users & ~high:
            if started:
                constant += tensor.size
            else:
                graph.add(start, SINK, tensor.size)
            continue
        users = tensor.users & free
        if not started:
            users &= ~(1 << tensor.first)
        if users & (users - 1):
            ended = graph.add_node()
            graph.add(start, ended, tensor.size)
            for operator in bits(users):
                graph.add(ended, FIRST + operator, None)
        elif users:
            graph.add(start, FIRST + users.bit_length() - 1, tensor.size)
    for operator in bits(free):
        for needed in bits(needs[operator] & free):
            graph.add(FIRST + operator, FIRST + needed, None)
    return graph, constant


def minimum_live(network: Network, low: int, high: int) -> tuple[int, int, int]:
    """Return the minimum bytes live after any downset between two, and the smallest and largest such downset."""
    graph, constant = cut_graph(network, low, high, network.needs)
    cut = graph.maximum_flow(SOURCE, SINK)
    reached, reaching = graph.reached(SOURCE), graph.reaching(SINK)
    smallest = largest = low
    for operator in bits(high & ~low):
        smallest |= reached[FIRST + operator] << operator
        largest |= (not reaching[FIRST + operator]) << operator
    return constant + cut, smallest, largest


def peak_bound(network: Network, floor: int, ceiling: int, seen: Sequence[int], stop: Callable[[], bool]) -> int:
    """Return bytes that every order reaches at some operator; floor, if no better bound is found.

    seen: for each operator, bytes live at it in some order. Operators whose bound cannot exceed the best so far are
    skipped; the search ends when that reaches the ceiling, the peak of an existing order.
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
        live, _, done = minimum_live(
            network, ancestors[operator], everything & ~(descendants[operator] | 1 << operator)
        )
        best = max(best, live + network.during[operator])
        for other in waiting:
            if at_most[other] > best and not done >> other & 1 and ancestors[other] & done == ancestors[other]:
                at_most[other] = min(at_most[other], live + network.during[other])
    return best
