"""What must run before what in every order within a limit of live bytes, though the tensors do not ask for it.

Take two operators of which either could run first. If, at every moment at which the second could run without the first
being done, more bytes than the limit are alive, then the first runs before the second in every order within the limit.
The least bytes alive at such a moment are a minimum cut, found by pushing more flow through the one that bounds the
second operator alone. What is forced makes other downsets impossible and so forces more; where it comes to a circle,
or an operator can run at no moment, no order stays within the limit.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgetool.memory.order.bound import FIRST, SINK, SOURCE, cut_graph
from edgetool.memory.order.flow import FlowGraph
from edgetool.memory.order.moves import Budget
from edgetool.memory.order.network import Network, ancestors_of, bits, descendants_of, with_needs

# A cut, and pushing more flow through one, take about as long as following so many sets.
CUT_NODES = 60
PUSH_NODES = 15


@dataclass(frozen=True, slots=True)
class Forced:
    """What a limit forces. network: with all that is forced, its `operators` the numbers in the network that was asked
    about; None: no order stays within the limit. least, beyond: every limit from one to below the other forces the
    same, and for None, none below the other has an order.
    """

    network: Network | None
    least: int
    beyond: int


@dataclass(frozen=True, slots=True)
class Moment:
    """A downset after which an operator could run, and the bytes alive at the operator then."""

    done: int
    alive: int


@dataclass(frozen=True, slots=True)
class Cut:
    """A least cut before an operator: the graph, what its edges can still take, what must be done before the operator
    and what may be, what the source reaches and what reaches the sink, and the bytes alive at the operator.
    """

    graph: FlowGraph
    left: list[int]
    low: int
    free: int
    reached: int
    reaching: int
    alive: int


class Forcing:
    """Asks what limits force, one after the other; moments found for one limit serve the others."""

    def __init__(self, network: Network, budget: Budget) -> None:
        self._network = network
        self._budget = budget
        self._moments: list[list[Moment]] = [[] for _ in network.needs]
        self._everything = (1 << network.count) - 1

    def within(self, limit: int) -> Forced:
        """What the limit forces, as far as the budget goes."""
        self._limit = limit
        self._beyond = 1 << 62
        self._needs = list(self._network.needs)
        self._ancestors = ancestors_of(self._network)
        self._descendants = descendants_of(self._network)
        # What was forced, and up to where the moments of each operator were held against it.
        self._pairs: list[tuple[int, int]] = []
        self._held = [0] * self._network.count
        self._possible = [[moment for moment in moments if moment.alive <= limit] for moments in self._moments]
        before = -1
        while before < len(self._pairs):
            before = len(self._pairs)
            for operator in reversed(range(self._network.count)):
                if self._budget.spent:
                    network = with_needs(self._network, self._needs, self._ancestors)
                    return Forced(network, limit, self._beyond)
                if not self._force(operator):
                    return Forced(None, limit, self._beyond)
        network = with_needs(self._network, self._needs, self._ancestors)
        # A limit that allows the same moments allows nothing else.
        least = max((moment.alive for moments in self._possible for moment in moments), default=limit)
        return Forced(network, least, self._beyond)

    def _force(self, operator: int) -> bool:
        """Force what one operator forces; False if that cannot be."""
        low = self._ancestors[operator]
        free = self._everything & ~(low | self._descendants[operator] | 1 << operator)
        possible = self._still_possible(operator)
        done_before, done_after = 0, 0
        for moment in possible:
            done_before |= moment.done
            done_after |= ~moment.done
        first, last = free & ~done_before, free & ~done_after
        if possible and not first | last:
            return True
        cut = self._cut(operator, low, free)
        if cut.alive > self._limit:
            self._beyond = min(self._beyond, cut.alive)
            return False
        for done in (low | cut.reached, low | free & ~cut.reaching):
            self._found(operator, done, cut.alive)
            first &= ~done
            last &= done
        return all(self._add(before, after) for before, after in self._refused(operator, cut, first, last))

    def _cut(self, operator: int, low: int, free: int) -> Cut:
        graph, constant = cut_graph(self._network, low, low | free, self._needs)
        alive = graph.maximum_flow(SOURCE, SINK) + constant + self._network.during[operator]
        self._budget.followed += CUT_NODES
        reached = self._operators(graph.push(SOURCE, SINK, 0)[1])
        reaching = self._operators(graph.push(SINK, SOURCE, 0, against=True)[1])
        return Cut(graph, graph.capacities(), low, free, reached, reaching, alive)

    def _refused(self, operator: int, cut: Cut, first: int, last: int) -> list[tuple[int, int]]:
        """Pairs of which the first must run before the second: the operator, and others that can be done only before
        it or only after. first: the others of which no moment is known with them done, last: without.
        """
        pairs = []
        while first and not self._budget.spent:
            other = first.bit_length() - 1
            first ^= 1 << other
            more, nodes = self._push(cut, other, against=False)
            if cut.alive + more > self._limit:
                pairs.append((operator, other))
                continue
            done = cut.low | cut.reached | nodes
            self._found(operator, done, cut.alive + more)
            first &= ~done
            last &= done
        while last and not self._budget.spent:
            other = (last & -last).bit_length() - 1
            last ^= 1 << other
            more, nodes = self._push(cut, other, against=True)
            if cut.alive + more > self._limit:
                pairs.append((other, operator))
                continue
            done = cut.low | cut.free & ~(cut.reaching | nodes)
            self._found(operator, done, cut.alive + more)
            last &= done
        return pairs

    def _push(self, cut: Cut, other: int, *, against: bool) -> tuple[int, int]:
        """By how much a cut grows, or by how much at least, if too much, when another operator is to be on the side of
        the source (against: of the sink), and the operators that come to that side with it.
        """
        self._budget.followed += PUSH_NODES
        cut.graph.set_capacities(cut.left)
        end = SOURCE if against else SINK
        more, nodes = cut.graph.push(FIRST + other, end, self._limit - cut.alive, against=against)
        if cut.alive + more > self._limit:
            self._beyond = min(self._beyond, cut.alive + more)
        return more, self._operators(nodes)

    def _found(self, operator: int, done: int, alive: int) -> None:
        moment = Moment(done, alive)
        self._moments[operator].append(moment)
        self._possible[operator].append(moment)

    def _still_possible(self, operator: int) -> list[Moment]:
        """The moments known for an operator that nothing forced since forbids."""
        low = self._ancestors[operator]
        new = self._pairs[self._held[operator] :]
        self._held[operator] = len(self._pairs)
        self._possible[operator] = [
            moment
            for moment in self._possible[operator]
            if low & moment.done == low
            and all(moment.done >> before & 1 or not moment.done >> after & 1 for before, after in new)
        ]
        return self._possible[operator]

    def _add(self, before: int, after: int) -> bool:
        """Force an operator to run before another; False if it must run after it."""
        if self._ancestors[before] >> after & 1:
            return False
        if self._ancestors[after] >> before & 1:
            return True
        self._pairs.append((before, after))
        self._needs[after] |= 1 << before
        ancestors, descendants = self._ancestors[before] | 1 << before, self._descendants[after] | 1 << after
        for operator in bits(descendants):
            self._ancestors[operator] |= ancestors
        for operator in bits(ancestors):
            self._descendants[operator] |= descendants
        return True

    def _operators(self, nodes: set[int]) -> int:
        """The operators among the nodes of a cut graph, as bits; nodes of tensors come after those of operators."""
        return sum(1 << node - FIRST for node in nodes if node >= FIRST) & self._everything
