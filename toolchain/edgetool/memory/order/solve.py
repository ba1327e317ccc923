"""The operator order with the lowest memory peak, with a proof; and a choice of other orders.

An operator that is comparable with every other one always runs at the same position. These operators divide the network
into segments, which are searched separately: first the bounds of all segments, then orders for those that exceed the
bound.

Of the orders within a limit, one close to the original is chosen. The original order is kept except in windows around
the operators at which it exceeds the limit: the smallest ones in which another order leads from the operators before to
those after. In these windows, operators are moved back as far as the limit allows.

Orders that need no search, for comparison and as starting points: breadth-first, longest path first, greedy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from edgetool.memory.order.bound import peak_bound
from edgetool.memory.order.evaluate import OrderProblem, OrderResult, moved_operators
from edgetool.memory.order.moves import SearchDirection, backward, forward
from edgetool.memory.order.network import (
    Network,
    ancestors_of,
    bits,
    descendants_of,
    live_after,
    network_of,
    profile,
    ready_after,
    subnetwork,
)
from edgetool.memory.order.segment_search import beam_search, search_segment
from edgetool.memory.problem import Effort, NodeBudget, Proof


def segments(network: Network) -> tuple[tuple[int, int], ...]:
    """Return runs of operators, from a number to below another, that any order runs one after the other."""
    runs = []
    start = 0
    for operator, (ancestors, descendants) in enumerate(
        zip(ancestors_of(network), descendants_of(network), strict=True)
    ):
        if ancestors.bit_count() + descendants.bit_count() + 1 == network.count:
            if start < operator:
                runs.append((start, operator))
            runs.append((operator, operator + 1))
            start = operator + 1
    if start < network.count:
        runs.append((start, network.count))
    return tuple(runs)


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of operators, `low` to below `high`, with a choice: its network, its best order so far, and a bound.

    bound: bytes that every order of the whole network reaches, here or elsewhere.
    """

    low: int
    high: int
    part: Network
    order: tuple[int, ...]
    bound: int


@dataclass(frozen=True, slots=True)
class SearchedNetwork:
    """The result of a search: the lowest peak reached, the bound by minimum cut, and the proven lower bound.

    original: bytes live at each operator of the original order. segments: those in which the original order exceeds the
    peak, or might.
    """

    network: Network
    original: tuple[int, ...]
    segments: tuple[Segment, ...]
    peak: int
    bound: int
    lower: int

    def order(self, choose: Callable[[Segment], Sequence[int]]) -> tuple[int, ...]:
        """Return the original order, with the chosen order in each segment that exceeds the peak."""
        order = list(range(self.network.count))
        for segment in self.segments:
            if max(self.original[segment.low : segment.high]) > self.peak:
                order[segment.low : segment.high] = [segment.low + operator for operator in choose(segment)]
        return tuple(order)

    def result(self, order: Sequence[int]) -> OrderResult:
        """Return an order of the network's operators as one of the problem's, with its peak, bound and proof."""
        peak = max([self.network.bytes_before_start, *profile(self.network, order)])
        proof: Proof = "bound met" if peak <= self.bound else "search exhausted" if peak <= self.lower else "none"
        return OrderResult(tuple(self.network.operators[each] for each in order), peak, self.lower, proof)


def bound_network(network: Network, stop: Callable[[], bool], *, everywhere: bool = False) -> SearchedNetwork:
    """Compute the lower bound, and the segments in which the original order exceeds it, the worst first, with quick
    orders.

    everywhere: all segments, each with its own bound.
    """
    original = profile(network, range(network.count))
    runs = segments(network)
    at_end = live_after(network, (1 << network.count) - 1)
    bound = max([network.bytes_before_start, at_end, *(original[low] for low, high in runs if high - low == 1)])
    bounded_segments = []
    # The worst first: the others may use all bytes that it cannot avoid.
    for low, high in sorted(runs, key=lambda run: -max(original[slice(*run)])):
        if high - low == 1 or (max(original[low:high]) <= bound and not everywhere):
            continue
        segment = _segment(network, low, high, original[low] - network.during[low], 0 if everywhere else bound, stop)
        bound = max(bound, segment.bound)
        bounded_segments.append(segment)
    peak = max([network.bytes_before_start, *original])
    return SearchedNetwork(network, tuple(original), tuple(bounded_segments), peak, bound, bound)


def _segment(network: Network, low: int, high: int, live: int, floor: int, stop: Callable[[], bool]) -> Segment:
    part = subnetwork(network, low, high, live)
    orders = (tuple(range(part.count)), greedy(part), longest_path(part))
    profiles = [profile(part, order) for order in orders]
    seen = list(profiles[0])
    for order, original in zip(orders[1:], profiles[1:], strict=True):
        for operator, alive in zip(order, original, strict=True):
            seen[operator] = min(seen[operator], alive)
    bound = peak_bound(part, floor, min(map(max, profiles)), seen, stop)
    best = min(range(len(orders)), key=lambda at: max(profiles[at]))
    return Segment(low, high, part, orders[best], bound)


def search_network(network: Network, budget: NodeBudget) -> SearchedNetwork:
    """Search for the lowest peak, as far as the budget goes."""
    start = bound_network(network, budget.stop)
    lower = peak = start.bound
    searched_segments = []
    for segment in start.segments:
        if max(start.original[segment.low : segment.high]) > lower:
            best = search_segment(segment.part, lower, segment.order, budget)
            lower, peak = max(lower, best.lower_bound), max(peak, best.peak)
            segment = replace(segment, order=best.order)
        searched_segments.append(segment)
    return SearchedNetwork(network, start.original, tuple(searched_segments), peak, start.bound, min(lower, peak))


# The width of the beam in a window, and how many times each side of a window is halved.
WINDOW_WIDTH = 20
HALVINGS = 4


def closest_to_original(network: Network, order: Sequence[int], limit: int, budget: NodeBudget) -> tuple[int, ...]:
    """Return an order within the limit that moves few operators; `order` is one within the limit."""
    return min((_windowed(network, order, limit, budget), moved_back(network, order, limit)), key=moved_operators)


def _windowed(network: Network, order: Sequence[int], limit: int, budget: NodeBudget) -> tuple[int, ...]:
    original = profile(network, range(network.count))
    combined: list[int] = []
    at = 0
    windows: list[tuple[int, int, tuple[int, ...]]] = []
    while at < network.count:
        if original[at] <= limit:
            at += 1
            continue
        low, high, inner = _window(network, original, order, limit, at, budget)
        while windows and windows[-1][1] > low:
            low = min(low, windows.pop()[0])
            inner = ()
        if not inner:
            inner = _detour(network, original, low, high, limit, budget)
        if not inner:
            low, high, inner, windows = 0, network.count, tuple(order), []
        windows.append((low, high, inner))
        at = high
    for low, _, inner in windows:
        combined += [*range(len(combined), low), *inner]
    combined += range(len(combined), network.count)
    return moved_back(network, combined, limit)


def moved_back(network: Network, order: Sequence[int], limit: int) -> tuple[int, ...]:
    """Return the order after moving operators back before those that they preceded originally, if the limit allows."""
    result = list(order)
    while True:
        live, done = _states(network, result)
        moved = False
        for at in range(1, len(result)):
            to = _furthest_back(network, result, live, done, at, limit)
            if to < at:
                result.insert(to, result.pop(at))
                _update_states(network, result, live, done, to, at + 1)
                moved = True
        if not moved:
            return tuple(result)


def _window(
    network: Network, original: list[int], order: Sequence[int], limit: int, at: int, budget: NodeBudget
) -> tuple[int, int, tuple[int, ...]]:
    """Return a small window around an operator, and an order in it that stays within the limit."""
    reach = 1
    while True:
        low, high = max(0, at - reach), min(network.count, at + reach + 1)
        if high - low == network.count:
            return low, high, tuple(order)
        inner = _detour(network, original, low, high, limit, budget)
        if inner:
            break
        reach *= 2
    for _ in range(HALVINGS):
        middle = (low + at + 1) // 2
        shorter = _detour(network, original, middle, high, limit, budget) if middle > low else ()
        low, inner = (middle, shorter) if shorter else (low, inner)
        middle = (high + at + 1) // 2
        shorter = _detour(network, original, low, middle, limit, budget) if middle < high else ()
        high, inner = (middle, shorter) if shorter else (high, inner)
    return low, high, inner


def _detour(
    network: Network, original: list[int], low: int, high: int, limit: int, budget: NodeBudget
) -> tuple[int, ...]:
    """Return an order of operators low to high - 1 within the limit, when the earlier ones are done; empty if none is
    found.
    """
    if budget.over:
        return ()
    live = original[low] - network.during[low]
    order = beam_search(forward(subnetwork(network, low, high, live)), limit, WINDOW_WIDTH, budget)
    return tuple(low + operator for operator in order) if order is not None else ()


def _furthest_back(network: Network, order: list[int], live: list[int], done: list[int], at: int, limit: int) -> int:
    """Return the earliest position to which an operator can move past operators that it preceded originally."""
    operator = order[at]
    needed, bit = network.needs[operator], 1 << operator
    best = to = at
    while to and order[to - 1] > operator and not needed >> order[to - 1] & 1:
        to -= 1
        # The passed operator now runs after this one.
        before = done[to] | bit
        alive = live[to] + network.adds[operator]
        for users, size in network.ends[operator]:
            if users & before == users:
                alive -= size
        if alive + network.during[order[to]] > limit:
            break
        if live[to] + network.during[operator] <= limit:
            best = to
    return best


def _states(network: Network, order: list[int]) -> tuple[list[int], list[int]]:
    """Return the bytes live and the operators done before each position."""
    live, done = [network.bytes_at_start] * len(order), [0] * len(order)
    _update_states(network, order, live, done, 0, len(order))
    return live, done


def _update_states(network: Network, order: list[int], live: list[int], done: list[int], low: int, high: int) -> None:
    """Update the states before positions low + 1 to high; the one before low is valid."""
    for at in range(low, min(high, len(order) - 1)):
        operator = order[at]
        done[at + 1] = done[at] | 1 << operator
        live[at + 1] = live[at] + network.adds[operator]
        for users, size in network.ends[operator]:
            if users & done[at + 1] == users:
                live[at + 1] -= size


def breadth_first(network: Network) -> tuple[int, ...]:
    """Return the operators in the order in which they become ready; those that do at once, in their original order."""
    waiting = [needed.bit_count() for needed in network.needs]
    queue = deque(bits(ready_after(network, 0)))
    order = []
    while queue:
        operator = queue.popleft()
        order.append(operator)
        for follower in network.followers[operator]:
            waiting[follower] -= 1
            if not waiting[follower]:
                queue.append(follower)
    return tuple(order)


def longest_path(network: Network) -> tuple[int, ...]:
    """Return the order of topological_sort_traversal_longest_path in Caffe2's memonger.py.

    All operators without followers lead to a virtual target. The longest paths from the sources to it form a tree with
    the target as its root. Its leaves, the sources, are sorted by the heights of the subtrees that contain them, level
    by level. The order is then depth-first, with the tallest subtree's sources first. If the paths of memonger depend
    on the order of a dictionary, the original order of the operators decides here.
    """
    target = network.count
    followers = [list(each) or [target] for each in network.followers]
    longest = [0] * (target + 1)
    children: list[list[int]] = [[] for _ in range(target + 1)]
    height = [0] * (target + 1)
    for operator in reversed(range(target)):
        longest[operator] = 1 + max(longest[follower] for follower in followers[operator])
    in_tree = ready_after(network, 0)
    for operator in range(target):
        if in_tree >> operator & 1:
            parent = max(followers[operator], key=lambda follower: (longest[follower], -follower))
            in_tree |= 1 << parent
            children[parent].append(operator)
            height[parent] = max(height[parent], height[operator] + 1)
    sources = []
    stack = [target]
    while stack:
        node = stack.pop()
        below = sorted(children[node], key=lambda child: height[child])
        if not below and node != target:
            sources.append(node)
        stack += reversed(below)
    return _depth_first(network, sources)


def greedy(network: Network) -> tuple[int, ...]:
    """Return the order that always runs the operator after which the fewest bytes are live, the one that needs fewest
    first.
    """
    live, done, ready = network.bytes_at_start, 0, ready_after(network, 0)
    order = []
    while ready:
        best: tuple[int, int, int] | None = None
        for operator in bits(ready):
            after = live + network.adds[operator]
            now = done | 1 << operator
            for users, size in network.ends[operator]:
                if users & now == users:
                    after -= size
            key = (after, network.during[operator], operator)
            if best is None or key < best:
                best = key
        assert best is not None
        live, _, operator = best
        order.append(operator)
        done |= 1 << operator
        ready ^= 1 << operator
        for follower in network.followers[operator]:
            if network.needs[follower] & done == network.needs[follower]:
                ready |= 1 << follower
    return tuple(order)


def _depth_first(network: Network, sources: list[int]) -> tuple[int, ...]:
    """Return the operators in reverse order of completion of a depth-first search."""
    finished: list[int] = []
    seen: set[int] = set()
    for source in sources:
        stack = [] if source in seen else [(source, list(network.followers[source]))]
        seen.add(source)
        while stack:
            operator, further = stack[-1]
            while further and further[-1] in seen:
                further.pop()
            if further:
                following = further.pop()
                seen.add(following)
                stack.append((following, list(network.followers[following])))
            else:
                finished.append(operator)
                stack.pop()
    return tuple(reversed(finished))


OrderStrategy = Literal["original", "breadth-first", "longest-path", "optimal"]

BASELINES: dict[str, Callable[[Network], tuple[int, ...]]] = {
    "original": lambda network: tuple(range(network.count)),
    "breadth-first": breadth_first,
    "longest-path": longest_path,
}
# The width of the beam for further orders, and the divisor of the node limit for each of them.
CANDIDATE_WIDTH = 200
CANDIDATE_DIVISOR = 30


def solve_order(problem: OrderProblem, effort: Effort, *, strategy: OrderStrategy = "optimal") -> OrderResult:
    """Return the order of a strategy, with its peak and the proof of its optimality.

    "optimal" returns the original order if no other is better, and otherwise one close to it. If it is stopped or its
    nodes run out, it returns the best order so far. Raises UsageError for rows that do not match, and InvalidModelError
    for a cycle.
    """
    network = network_of(problem)
    if strategy == "optimal":
        budget = NodeBudget(effort)
        search = search_network(network, budget)
        return search.result(_closest(search, budget))
    return bound_network(network, effort.stop).result(BASELINES[strategy](network))


def candidates(problem: OrderProblem, effort: Effort) -> Iterator[OrderResult]:
    """Yield different orders, those with the lowest peak first: only a layout shows which one needs the smallest arena.

    The first is that of solve_order. The others are computed on demand: within its peak as the searches from both ends
    find them, and one with few live bytes in every part of the network; then orders with higher peaks, the original
    among them. Raises like solve_order.
    """
    network = network_of(problem)
    budget = NodeBudget(effort)
    search = search_network(network, budget)
    first = _closest(search, budget)
    yield search.result(first)
    others = [
        search.order(lambda segment: segment.order),
        search.order(lambda segment: moved_back(segment.part, segment.order, search.peak)),
        search.order(lambda segment: _beam_search_order(search, segment, forward, effort)),
        search.order(lambda segment: _beam_search_order(search, segment, backward, effort)),
        _low_everywhere(network, effort),
        *(make(network) for make in BASELINES.values()),
        greedy(network),
    ]
    results = (search.result(order) for order in dict.fromkeys(others) if order != first)
    yield from sorted(results, key=lambda result: result.peak_bytes)


def _closest(search: SearchedNetwork, budget: NodeBudget) -> tuple[int, ...]:
    return search.order(lambda segment: closest_to_original(segment.part, segment.order, search.peak, budget))


def _beam_search_order(
    search: SearchedNetwork, segment: Segment, direction: Callable[[Network], SearchDirection], effort: Effort
) -> Sequence[int]:
    order = beam_search(direction(segment.part), search.peak, CANDIDATE_WIDTH, _share(effort))
    return segment.order if order is None else order


def _low_everywhere(network: Network, effort: Effort) -> tuple[int, ...]:
    """Return an order with the lowest peak of each segment, although another segment's peak is higher."""
    order = list(range(network.count))
    search = bound_network(network, effort.stop, everywhere=True)
    for segment in search.segments:
        best = search_segment(segment.part, segment.bound, segment.order, _share(effort))
        order[segment.low : segment.high] = [segment.low + operator for operator in best.order]
    return tuple(order)


def _share(effort: Effort) -> NodeBudget:
    limit = None if effort.node_limit is None else effort.node_limit // CANDIDATE_DIVISOR
    return NodeBudget(Effort(effort.seed, limit, effort.stop))
