"""The order with the lowest peak of one segment: beam searches first, then exact searches, from both ends in turn.

Some networks are much easier from their end: if many tensors are made from few, there are fewer choices there.

The beam search looks for an order whose peak is within a limit, level by level. A level contains the sets of equally
many operators that can be reached within the limit; at most `width` of them, with the fewest live bytes, are followed.
A set with no more live bytes than the root is a safe move: the search continues from there alone.

The exact search follows every set that can be reached within a limit, which begins at a bound. When all have been
followed, no order stays within the limit, and it rises to the minimum that any move needs. Within a limit, the sets
with the most operators are followed first, to reach the end soon. Safe moves discard everything else here, too.

Hard networks are searched with precedences that a limit forces. Take two operators of which either could run first. If,
at every moment at which the second could run without the first being done, more bytes than the limit are live, then the
first runs before the second in every order within the limit. The minimum bytes live at such a moment are a minimum cut,
computed by pushing more flow through the one that bounds the second operator alone. Forced precedences make other
downsets impossible and so force more; if they form a cycle, or an operator cannot run at any moment, the limit is
refuted: no order stays within it. A precedence forced by a limit is also forced by lower ones, so bisection finds the
lowest limit that is not refuted, which is a lower bound; near it, so much is forced that beam and exact searches have
few choices.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from edgetool.memory.order.bound import FIRST, SINK, SOURCE, FlowGraph, cut_graph
from edgetool.memory.order.moves import (
    SETS_PER_STOP_CHECK,
    SearchDirection,
    SearchState,
    backward,
    chain_from,
    forward,
    initial_state,
    joined,
    moves,
    next_root,
)
from edgetool.memory.order.network import Network, ancestors_of, bits, descendants_of, profile, with_precedences
from edgetool.memory.problem import NodeBudget


@dataclass(frozen=True, slots=True)
class SegmentOrder:
    """An order of a segment, its maximum live bytes, and the lower bound on the peak of all its orders."""

    order: tuple[int, ...]
    peak: int
    lower_bound: int

    @property
    def open(self) -> bool:
        """Whether there may be a better order."""
        return self.peak > self.lower_bound


def improved(network: Network, best: SegmentOrder, order: Sequence[int] | None, lower_bound: int) -> SegmentOrder:
    """Return the better of two orders, the second of which may be None, with the higher bound."""
    lower_bound = max(best.lower_bound, lower_bound)
    peak = best.peak if order is None else max(profile(network, order))
    if order is None or peak >= best.peak:
        return SegmentOrder(best.order, best.peak, lower_bound)
    return SegmentOrder(tuple(order), peak, lower_bound)


# The cost of computing a cut, and of pushing more flow through one, expressed as a number of followed sets.
CUT_NODES = 60
PUSH_NODES = 15


@dataclass(frozen=True, slots=True)
class ForcedPrecedences:
    """The precedences that a limit forces.

    network: with all forced precedences, its `operators` being the numbers in the original network; None if no order
    stays within the limit. minimum_limit, next_limit: every limit from the first to below the second forces the same;
    if network is None, no limit below next_limit has an order.
    """

    network: Network | None
    minimum_limit: int
    next_limit: int


@dataclass(frozen=True, slots=True)
class Moment:
    """A downset after which an operator could run, and the bytes live at the operator then."""

    done: int
    alive: int


@dataclass(frozen=True, slots=True)
class MinimumCut:
    """A minimum cut before an operator, and the bytes live at the operator.

    remaining: the residual capacities of the graph; low, free: the operators that must and may be done before the
    operator; reached, reaching: those that the source reaches and that reach the sink.
    """

    graph: FlowGraph
    remaining: list[int]
    low: int
    free: int
    reached: int
    reaching: int
    alive: int


class PrecedenceForcing:
    """Computes the precedences that limits force; the moments found for one limit are used for the others."""

    def __init__(self, network: Network, budget: NodeBudget) -> None:
        self._network = network
        self._budget = budget
        self._moments: list[list[Moment]] = [[] for _ in network.needs]
        self._everything = (1 << network.count) - 1

    def within(self, limit: int) -> ForcedPrecedences:
        """Return the precedences that the limit forces, as far as the budget goes."""
        self._limit = limit
        self._next_limit = 1 << 62
        self._needs = list(self._network.needs)
        self._ancestors = ancestors_of(self._network)
        self._descendants = descendants_of(self._network)
        # The forced pairs, and for each operator the number of pairs that its moments were compared with.
        self._pairs: list[tuple[int, int]] = []
        self._checked_pairs = [0] * self._network.count
        self._possible = [[moment for moment in moments if moment.alive <= limit] for moments in self._moments]
        before = -1
        while before < len(self._pairs):
            before = len(self._pairs)
            for operator in reversed(range(self._network.count)):
                if self._budget.over:
                    network = with_precedences(self._network, self._needs, self._ancestors)
                    return ForcedPrecedences(network, limit, self._next_limit)
                if not self._force(operator):
                    return ForcedPrecedences(None, limit, self._next_limit)
        network = with_precedences(self._network, self._needs, self._ancestors)
        # A limit that allows the same moments forces the same.
        minimum_limit = max((moment.alive for moments in self._possible for moment in moments), default=limit)
        return ForcedPrecedences(network, minimum_limit, self._next_limit)

    def _force(self, operator: int) -> bool:
        """Add the precedences that one operator forces; return False if it cannot run."""
        low = self._ancestors[operator]
        free = self._everything & ~(low | self._descendants[operator] | 1 << operator)
        possible = self._still_possible(operator)
        done_before, done_after = 0, 0
        for moment in possible:
            done_before |= moment.done
            done_after |= ~moment.done
        never_done, always_done = free & ~done_before, free & ~done_after
        if possible and not never_done | always_done:
            return True
        cut = self._cut(operator, low, free)
        if cut.alive > self._limit:
            self._next_limit = min(self._next_limit, cut.alive)
            return False
        for done in (low | cut.reached, low | free & ~cut.reaching):
            self._add_moment(operator, done, cut.alive)
            never_done &= ~done
            always_done &= done
        return all(
            self._add(before, after) for before, after in self._forced_pairs(operator, cut, never_done, always_done)
        )

    def _cut(self, operator: int, low: int, free: int) -> MinimumCut:
        graph, constant = cut_graph(self._network, low, low | free, self._needs)
        alive = graph.maximum_flow(SOURCE, SINK) + constant + self._network.during[operator]
        self._budget.spend(CUT_NODES)
        reached = self._operators(graph.push(SOURCE, SINK, 0)[1])
        reaching = self._operators(graph.push(SINK, SOURCE, 0, against=True)[1])
        return MinimumCut(graph, graph.residuals(), low, free, reached, reaching, alive)

    def _forced_pairs(self, operator: int, cut: MinimumCut, never_done: int, always_done: int) -> list[tuple[int, int]]:
        """Return the pairs whose first operator must run before the second; one of each pair is the given operator.

        never_done, always_done: the other operators that are done at no known moment, and those that are done at every
        known moment.
        """
        pairs = []
        while never_done and not self._budget.over:
            other = never_done.bit_length() - 1
            never_done ^= 1 << other
            more, nodes = self._push(cut, other, against=False)
            if cut.alive + more > self._limit:
                pairs.append((operator, other))
                continue
            done = cut.low | cut.reached | nodes
            self._add_moment(operator, done, cut.alive + more)
            never_done &= ~done
            always_done &= done
        while always_done and not self._budget.over:
            other = (always_done & -always_done).bit_length() - 1
            always_done ^= 1 << other
            more, nodes = self._push(cut, other, against=True)
            if cut.alive + more > self._limit:
                pairs.append((other, operator))
                continue
            done = cut.low | cut.free & ~(cut.reaching | nodes)
            self._add_moment(operator, done, cut.alive + more)
            always_done &= done
        return pairs

    def _push(self, cut: MinimumCut, other: int, *, against: bool) -> tuple[int, int]:
        """Move another operator to the source side of a cut (against: to the sink side).

        Return the growth of the cut, or a lower bound on it if the limit is exceeded, and the operators that move
        along.
        """
        self._budget.spend(PUSH_NODES)
        cut.graph.restore_residuals(cut.remaining)
        end = SOURCE if against else SINK
        more, nodes = cut.graph.push(FIRST + other, end, self._limit - cut.alive, against=against)
        if cut.alive + more > self._limit:
            self._next_limit = min(self._next_limit, cut.alive + more)
        return more, self._operators(nodes)

    def _add_moment(self, operator: int, done: int, alive: int) -> None:
        moment = Moment(done, alive)
        self._moments[operator].append(moment)
        self._possible[operator].append(moment)

    def _still_possible(self, operator: int) -> list[Moment]:
        """Return the moments of an operator that the new precedences do not rule out."""
        low = self._ancestors[operator]
        new = self._pairs[self._checked_pairs[operator] :]
        self._checked_pairs[operator] = len(self._pairs)
        self._possible[operator] = [
            moment
            for moment in self._possible[operator]
            if low & moment.done == low
            and all(moment.done >> before & 1 or not moment.done >> after & 1 for before, after in new)
        ]
        return self._possible[operator]

    def _add(self, before: int, after: int) -> bool:
        """Force an operator to run before another; return False if it must run after it."""
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
        """Return the operators among the nodes of a cut graph, as bits; nodes of tensors follow those of operators."""
        return sum(1 << node - FIRST for node in nodes if node >= FIRST) & self._everything


def beam_search(direction: SearchDirection, limit: int, width: int, budget: NodeBudget) -> tuple[int, ...] | None:
    """Return an order whose peak is at most the limit; None if the beam finds none, or the budget is exhausted."""
    everything = (1 << direction.network.count) - 1
    root = initial_state(direction, 0)
    prefix: list[int] = []
    levels: dict[int, dict[int, SearchState]] = {0: {0: root}}
    while levels:
        improved: SearchState | None = None
        states = list(levels.pop(min(levels)).values())
        if len(states) > width:
            states.sort()
            del states[width:]
        for at, state in enumerate(states):
            if state[1] == everything:
                return direction.in_order([*prefix, *joined(state[3])])
            if not at % SETS_PER_STOP_CHECK and budget.over:
                return None
            budget.spend(1)
            for child in moves(direction, state, limit)[0]:
                if child[0] <= root[0]:
                    improved = child
                    break
                levels.setdefault(child[1].bit_count(), {}).setdefault(child[1], child)
            if improved is not None:
                more, root = next_root(direction, root, improved)
                prefix += more
                levels = {root[1].bit_count(): {root[1]: root}}
                break
    return None


class BestFirst:
    """An exact search in one direction that can be resumed. limit: no order's peak is below it."""

    def __init__(self, direction: SearchDirection, limit: int) -> None:
        self.limit = limit
        self.direction = direction
        self._prefix: list[int] = []
        self._followed = 0
        self._set_root(initial_state(direction, 0))

    @property
    def priority(self) -> tuple[int, float]:
        """The proven limit, and how few sets are open compared with those followed: higher means that it may end
        sooner.
        """
        return self.limit, -(len(self._open) + len(self._blocked)) / max(1, self._followed)

    def resume(self, ceiling: int, nodes: int, budget: NodeBudget) -> tuple[int, ...] | None:
        """Continue the search; return an order with the lowest peak.

        None if no peak is below the ceiling (the limit is then the ceiling), or if this many sets have been followed or
        the budget is exhausted (the limit is then below).
        """
        direction = self.direction
        everything = (1 << direction.network.count) - 1
        remaining = nodes
        while self.limit < ceiling:
            if not remaining or (not remaining % SETS_PER_STOP_CHECK and budget.over):
                return None
            if not self._open:
                self._raise_limit(ceiling)
                continue
            remaining -= 1
            self._followed += 1
            budget.spend(1)
            _, _, _, state = heapq.heappop(self._open)
            if state[1] == everything:
                return direction.in_order([*self._prefix, *joined(state[3])])
            children, exceeding = moves(direction, state, self.limit)
            for at_once, operator in exceeding:
                if at_once < ceiling:
                    heapq.heappush(self._blocked, (at_once, state[1], operator, state))
            for child in children:
                if self._reach(child):
                    break
        return None

    def _raise_limit(self, ceiling: int) -> None:
        """Raise the limit to the minimum of the blocked moves, and follow these."""
        self.limit = min(ceiling, self._blocked[0][0]) if self._blocked else ceiling
        while self._blocked and self._blocked[0][0] <= self.limit < ceiling:
            _, _, operator, state = heapq.heappop(self._blocked)
            if self._reach(chain_from(self.direction, state, operator, self.limit)):
                return

    def _reach(self, state: SearchState) -> bool:
        """Add a state; return whether it became the root."""
        if state[0] <= self._root[0]:
            more, root = next_root(self.direction, self._root, state)
            self._prefix += more
            self._set_root(root)
            return True
        if state[1] not in self._seen:
            self._seen.add(state[1])
            heapq.heappush(self._open, (-state[1].bit_count(), state[0], state[1], state))
        return False

    def _set_root(self, root: SearchState) -> None:
        self._root = root
        self._seen = {root[1]}
        self._open: list[tuple[int, int, int, SearchState]] = [(-root[1].bit_count(), root[0], root[1], root)]
        self._blocked: list[tuple[int, int, int, SearchState]] = []


# Sets of one size that beams follow at a limit that is not refuted, and between such limits and the best peak.
WIDTH = 20
BETWEEN_WIDTH = 200
# Sets that the exact search follows in one direction per turn, and the divisor for the other direction.
SETS_PER_TURN = 10_000
OTHER_DIRECTION_DIVISOR = 10


def search_with_precedences(network: Network, best: SegmentOrder, budget: NodeBudget) -> SegmentOrder:
    """Search for an order with the lowest peak, using forced precedences, as far as the budget goes."""
    forcing = PrecedenceForcing(network, budget)
    while best.open and not budget.over:
        best, forced = _raise_bound(network, forcing, best, budget)
        best = _between(network, forcing, best, budget)
        if forced is not None and forced.network is not None:
            best = _exact(network, forced.network, forced.next_limit, best, budget)
    return best


def _raise_bound(
    network: Network, forcing: PrecedenceForcing, best: SegmentOrder, budget: NodeBudget
) -> tuple[SegmentOrder, ForcedPrecedences | None]:
    """Raise the bound to the lowest limit that is not refuted; return the precedences that it forces as well."""
    top, at_top = best.peak, None
    while best.lower_bound < top and not budget.over:
        limit = (best.lower_bound + top) // 2
        forced = forcing.within(limit)
        if forced.network is None:
            best = improved(network, best, None, min(forced.next_limit, best.peak))
        else:
            best = _beam_search_within(network, forced, best, limit, WIDTH, budget)
            top, at_top = min(forced.minimum_limit, best.peak), forced
    return best, at_top


def _between(network: Network, forcing: PrecedenceForcing, best: SegmentOrder, budget: NodeBudget) -> SegmentOrder:
    """Return the best order that beam searches find within limits between the bound and the best peak."""
    is_improved = True
    while is_improved and best.open and not budget.over:
        peak = best.peak
        best = _beam_search_within(network, forcing.within(peak - 1), best, peak - 1, BETWEEN_WIDTH, budget)
        is_improved = best.peak < peak
    return best


def _beam_search_within(
    network: Network, forced: ForcedPrecedences, best: SegmentOrder, limit: int, width: int, budget: NodeBudget
) -> SegmentOrder:
    part = forced.network
    if part is None:
        return best
    for direction in (backward, forward):
        order = beam_search(direction(part), limit, width, budget)
        if order is not None:
            return improved(network, best, [part.operators[each] for each in order], best.lower_bound)
    return best


def _exact(network: Network, part: Network, next_limit: int, best: SegmentOrder, budget: NodeBudget) -> SegmentOrder:
    """Search for an order with the lowest peak, or raise the bound to `next_limit`, below which the part's precedences
    hold.
    """
    ceiling = min(best.peak, next_limit)
    searches = [BestFirst(direction(part), best.lower_bound) for direction in (backward, forward)]
    while best.lower_bound < ceiling and best.open and not budget.over:
        for search, share in zip(searches, (SETS_PER_TURN, SETS_PER_TURN // OTHER_DIRECTION_DIVISOR), strict=True):
            if best.lower_bound < ceiling and best.open:
                order = search.resume(ceiling, share, budget)
                numbered = None if order is None else [part.operators[each] for each in order]
                best = improved(network, best, numbered, search.limit)
        searches.sort(key=lambda search: search.priority, reverse=True)
    return best


# Phases in turn: the width of the beams, the number of directions, how many times they halve the interval between bound
# and best peak, and the sets that the exact search follows afterwards.
PHASES = ((4, 2, 0, 0), (20, 2, 0, 1_000), (20, 2, 6, 10_000), (200, 1, 2, 10_000))
# The divisor of these sets for the less promising direction, and their minimum.
PHASE_DIVISOR, MIN_SETS = 10, 1_000


def search_segment(network: Network, limit: int, initial: Sequence[int], budget: NodeBudget) -> SegmentOrder:
    """Return an order whose peak is at most the limit, if there is one; otherwise search for the lowest peak.

    limit: a bound below which a lower peak has no effect. initial: an existing order.
    """
    best = SegmentOrder(tuple(initial), max(profile(network, initial)), limit)
    exact = [BestFirst(direction, limit) for direction in (backward(network), forward(network))]
    for width, directions, halvings, nodes in PHASES:
        if not best.open or budget.over:
            break
        promising = [search.direction for search in exact[:directions]]
        best = _best_of_beam_searches(promising, best, width, halvings, budget)
        for search, share in zip(exact, (nodes, min(nodes, max(MIN_SETS, nodes // PHASE_DIVISOR))), strict=True):
            if best.open and share:
                order = search.resume(best.peak, share, budget)
                best = improved(network, best, order, search.limit)
        exact.sort(key=lambda search: search.priority, reverse=True)
    best = search_with_precedences(network, best, budget)
    return SegmentOrder(best.order, best.peak, min(best.lower_bound, best.peak))


def _best_of_beam_searches(
    directions: Sequence[SearchDirection], best: SegmentOrder, width: int, halvings: int, budget: NodeBudget
) -> SegmentOrder:
    """Return the best order that beam searches find at the bound, and between it and the best peak."""
    low = best.lower_bound
    limit = low
    for _ in range(1 + halvings):
        for direction in directions:
            order = beam_search(direction, limit, width, budget)
            if order is not None:
                best = improved(direction.network, best, order, best.lower_bound)
                break
        else:
            low = limit
        limit = (low + best.peak) // 2
        if limit <= low:
            break
    return best
