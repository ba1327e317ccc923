"""The order of least peak of one segment: beams first, then everything, from both ends in turn.

Some networks are far easier from their end: where much is made from little, there is less to choose from there.

What is known of the orders of a segment.

What must run before what in every order within a limit of live bytes, though the tensors do not ask for it.

Take two operators of which either could run first. If, at every moment at which the second could run without the first
being done, more bytes than the limit are alive, then the first runs before the second in every order within the limit.
The least bytes alive at such a moment are a minimum cut, found by pushing more flow through the one that bounds the
second operator alone. What is forced makes other downsets impossible and so forces more; where it comes to a circle,
or an operator can run at no moment, no order stays within the limit.

The search for an order whose peak does not exceed a limit, level by level, a few sets of each level.

A level holds the sets of as many operators that can be reached within the limit; of a level, at most `width` with the
fewest live bytes are followed. Whatever the search finds, anywhere, with no more bytes alive than at its root makes a
safe move: the search goes on from there alone.

The exact search: every set of operators that can be reached with the fewest live bytes asked for, then with more.

The limit begins at a bound. When all that can be reached within it has been followed, no order stays within it, and
it rises to the least that any move asks for. Within a limit, the sets of most operators go first, to find the end
soon. What is found with no more bytes alive than at the root makes a safe move, and the search forgets all else.

The search where it is hard: limits are refuted by what they force, and the others searched with what they force.

What is true of a limit is true of those below. So bisection finds the least limit that is not refuted, which is a
bound; there, and above it, so much is forced that beams and the exact search have little left to choose from.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from edgetool.memory.order.bound import FIRST, SINK, SOURCE, FlowGraph, cut_graph
from edgetool.memory.order.moves import (
    PATIENCE,
    State,
    Steps,
    backward,
    chain_from,
    forward,
    joined,
    moves,
    next_root,
    state_of,
)
from edgetool.memory.order.network import Network, ancestors_of, bits, descendants_of, profile, with_needs
from edgetool.memory.problem import NodeBudget


@dataclass(frozen=True, slots=True)
class Found:
    """An order of a segment, the most bytes alive in it, and what no order of it can beat."""

    order: tuple[int, ...]
    peak: int
    at_least: int

    @property
    def open(self) -> bool:
        """Whether there may be a better order."""
        return self.peak > self.at_least


def better(network: Network, best: Found, order: Sequence[int] | None, at_least: int) -> Found:
    """What is known with another order, if there is one, and with what is proven now."""
    at_least = max(best.at_least, at_least)
    peak = best.peak if order is None else max(profile(network, order))
    if order is None or peak >= best.peak:
        return Found(best.order, best.peak, at_least)
    return Found(tuple(order), peak, at_least)


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

    def __init__(self, network: Network, budget: NodeBudget) -> None:
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
                if self._budget.over:
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
        self._budget.spend(CUT_NODES)
        reached = self._operators(graph.push(SOURCE, SINK, 0)[1])
        reaching = self._operators(graph.push(SINK, SOURCE, 0, against=True)[1])
        return Cut(graph, graph.capacities(), low, free, reached, reaching, alive)

    def _refused(self, operator: int, cut: Cut, first: int, last: int) -> list[tuple[int, int]]:
        """Pairs of which the first must run before the second: the operator, and others that can be done only before
        it or only after. first: the others of which no moment is known with them done, last: without.
        """
        pairs = []
        while first and not self._budget.over:
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
        while last and not self._budget.over:
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
        self._budget.spend(PUSH_NODES)
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


def beam_search(steps: Steps, limit: int, width: int, budget: NodeBudget) -> tuple[int, ...] | None:
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
            if not at % PATIENCE and budget.over:
                return None
            budget.spend(1)
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


class BestFirst:
    """A search in one direction, that can be continued. limit: no order's peak is below it."""

    def __init__(self, steps: Steps, limit: int) -> None:
        self.limit = limit
        self.steps = steps
        self._prefix: list[int] = []
        self._followed = 0
        self._set_root(state_of(steps, 0))

    @property
    def promise(self) -> tuple[int, float]:
        """How soon it may be done, compared with another direction: what it has proven, and how little it puts off."""
        return self.limit, -(len(self._open) + len(self._blocked)) / max(1, self._followed)

    def go_on(self, ceiling: int, nodes: int, budget: NodeBudget) -> tuple[int, ...] | None:
        """An order of least peak; None when none is below the ceiling (the limit is then the ceiling), or when this
        many more sets have been followed or the budget is spent (the limit is then below).
        """
        steps = self.steps
        everything = (1 << steps.network.count) - 1
        left = nodes
        while self.limit < ceiling:
            if not left or (not left % PATIENCE and budget.over):
                return None
            if not self._open:
                self._raise_limit(ceiling)
                continue
            left -= 1
            self._followed += 1
            budget.spend(1)
            _, _, _, state = heapq.heappop(self._open)
            if state[1] == everything:
                return steps.in_order([*self._prefix, *joined(state[3])])
            children, beyond = moves(steps, state, self.limit)
            for at_once, operator in beyond:
                if at_once < ceiling:
                    heapq.heappush(self._blocked, (at_once, state[1], operator, state))
            for child in children:
                if self._reach(child):
                    break
        return None

    def _raise_limit(self, ceiling: int) -> None:
        """Let in the moves that ask for the least beyond the limit."""
        self.limit = min(ceiling, self._blocked[0][0]) if self._blocked else ceiling
        while self._blocked and self._blocked[0][0] <= self.limit < ceiling:
            _, _, operator, state = heapq.heappop(self._blocked)
            if self._reach(chain_from(self.steps, state, operator, self.limit)):
                return

    def _reach(self, state: State) -> bool:
        """Take a state in; whether it became the root."""
        if state[0] <= self._root[0]:
            more, root = next_root(self.steps, self._root, state)
            self._prefix += more
            self._set_root(root)
            return True
        if state[1] not in self._seen:
            self._seen.add(state[1])
            heapq.heappush(self._open, (-state[1].bit_count(), state[0], state[1], state))
        return False

    def _set_root(self, root: State) -> None:
        self._root = root
        self._seen = {root[1]}
        self._open: list[tuple[int, int, int, State]] = [(-root[1].bit_count(), root[0], root[1], root)]
        self._blocked: list[tuple[int, int, int, State]] = []


# Sets of one size that beams follow at a limit that is not refuted, and between such limits and the best order.
WIDTH = 20
WIDER = 200
# Sets that the exact search follows in one direction before it looks to the other, which gets that part of them.
TURN = 10_000
LESSER_TURN = 10


def squeeze(network: Network, best: Found, budget: NodeBudget) -> Found:
    """An order of least peak, as far as the budget goes."""
    forcing = Forcing(network, budget)
    while best.open and not budget.over:
        best, forced = _refuted(network, forcing, best, budget)
        best = _between(network, forcing, best, budget)
        if forced is not None and forced.network is not None:
            best = _exact(network, forced.network, forced.beyond, best, budget)
    return best


def _refuted(network: Network, forcing: Forcing, best: Found, budget: NodeBudget) -> tuple[Found, Forced | None]:
    """The bound raised to the least limit that is not refuted, and what that forces."""
    top, at_top = best.peak, None
    while best.at_least < top and not budget.over:
        limit = (best.at_least + top) // 2
        forced = forcing.within(limit)
        if forced.network is None:
            best = better(network, best, None, min(forced.beyond, best.peak))
        else:
            best = _beamed_within(network, forced, best, limit, WIDTH, budget)
            top, at_top = min(forced.least, best.peak), forced
    return best, at_top


def _between(network: Network, forcing: Forcing, best: Found, budget: NodeBudget) -> Found:
    """The best order that beams find within limits between the bound and the best peak."""
    found = True
    while found and best.open and not budget.over:
        peak = best.peak
        best = _beamed_within(network, forcing.within(peak - 1), best, peak - 1, WIDER, budget)
        found = best.peak < peak
    return best


def _beamed_within(network: Network, forced: Forced, best: Found, limit: int, width: int, budget: NodeBudget) -> Found:
    part = forced.network
    if part is None:
        return best
    for direction in (backward, forward):
        order = beam_search(direction(part), limit, width, budget)
        if order is not None:
            return better(network, best, [part.operators[each] for each in order], best.at_least)
    return best


def _exact(network: Network, part: Network, beyond: int, best: Found, budget: NodeBudget) -> Found:
    """An order of least peak, or a bound raised to `beyond`: below it, all that is forced in the part holds."""
    ceiling = min(best.peak, beyond)
    searches = [BestFirst(direction(part), best.at_least) for direction in (backward, forward)]
    while best.at_least < ceiling and best.open and not budget.over:
        for search, share in zip(searches, (TURN, TURN // LESSER_TURN), strict=True):
            if best.at_least < ceiling and best.open:
                order = search.go_on(ceiling, share, budget)
                numbered = None if order is None else [part.operators[each] for each in order]
                best = better(network, best, numbered, search.limit)
        searches.sort(key=lambda search: search.promise, reverse=True)
    return best


# In turn: sets of one size that the beams follow, in how many directions, how often they halve the span between what
# is proven and what is found, and sets that the exact search then follows.
PHASES = ((4, 2, 0, 0), (20, 2, 0, 1_000), (20, 2, 6, 10_000), (200, 1, 2, 10_000))
# The part of them that the less promising direction gets, and the fewest that are worth following.
LESSER, FEWEST = 10, 1_000


def search_segment(network: Network, limit: int, known: Sequence[int], budget: NodeBudget) -> Found:
    """An order whose peak is at most the limit, if there is one; else one of least peak, as far as the budget goes.

    limit: a bound below which no peak matters. known: an order that is known already.
    """
    best = Found(tuple(known), max(profile(network, known)), limit)
    exact = [BestFirst(steps, limit) for steps in (backward(network), forward(network))]
    for width, directions, halvings, nodes in PHASES:
        if not best.open or budget.over:
            break
        best = _beamed([search.steps for search in exact[:directions]], best, width, halvings, budget)
        for search, share in zip(exact, (nodes, min(nodes, max(FEWEST, nodes // LESSER))), strict=True):
            if best.open and share:
                order = search.go_on(best.peak, share, budget)
                best = better(network, best, order, search.limit)
        exact.sort(key=lambda search: search.promise, reverse=True)
    best = squeeze(network, best, budget)
    return Found(best.order, best.peak, min(best.at_least, best.peak))


def _beamed(directions: Sequence[Steps], best: Found, width: int, halvings: int, budget: NodeBudget) -> Found:
    """The best order that beams find at what is proven, and between that and the best peak."""
    low = best.at_least
    aim = low
    for _ in range(1 + halvings):
        for steps in directions:
            order = beam_search(steps, aim, width, budget)
            if order is not None:
                best = better(steps.network, best, order, best.at_least)
                break
        else:
            low = aim
        aim = (low + best.peak) // 2
        if aim <= low:
            break
    return best
