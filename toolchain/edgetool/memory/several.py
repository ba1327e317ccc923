"""Buffers in several memories: the cheapest choice of a memory for each buffer for which every memory has a layout.

A buffer costs something else in each memory, such as the cycles that the core waits for its bytes. A choice is possible
if the buffers of each memory have a layout that is no higher than the memory.

The relaxation asks only that the sizes of the buffers that are live at one time in one memory add up to no more than
its size, without the most bytes that pairs of them may share. It is solved exactly from the first moment to the last:
for each choice of the live buffers, the cheapest choice of all earlier ones is kept. Its cost is a bound on every
choice. If its buffers have no layout in some memory, a subset of them that has none is excluded: in each branch, the
first buffer of the subset that is elsewhere is another one. The branches are searched by increasing bound, so that the
first choice with layouts is the cheapest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from edgetool.memory.layout.solve import solve
from edgetool.memory.problem import (
    Effort,
    Layout,
    LayoutProblem,
    LowestLayout,
    Memory,
    Overlap,
    Proof,
    SeveralLayout,
    SeveralProblem,
)

# The choices of live buffers that the relaxation keeps, and the branches of a search.
MAX_STATES, MAX_BRANCHES = 20_000, 500
# The nodes that a search for one layout may take, and those that shrinking a set without a layout may.
LAYOUT_NODES = 30_000
# The shares of the memories' sizes for which a choice without proof is tried.
SHARES = (1.0, 0.97, 0.94, 0.9, 0.85, 0.8, 0.7)


@dataclass(frozen=True, slots=True)
class NoChoice:
    """No layout was found. proven: none exists."""

    proven: bool


def solve_several(problem: SeveralProblem, effort: Effort | None = None) -> SeveralLayout | NoChoice:
    """Return the cheapest choice with its layouts, as low as possible in each memory, as far as the effort allows.

    It is never more expensive than all buffers in one memory, if that is possible.
    """
    effort = effort or Effort()
    found = _Search(problem, effort).run()
    return found if isinstance(found, NoChoice) else _lowered(problem, found, effort)


def _lowered(problem: SeveralProblem, found: SeveralLayout, effort: Effort) -> SeveralLayout:
    """Return the same choice with lower layouts: those of the search only fit in the memories."""
    offsets, heights = list(found.offsets), list(found.heights)
    for memory in range(len(problem.memories)):
        members = [index for index, chosen in enumerate(found.memories) if chosen == memory]
        layout = solve(_part(problem.buffers, members), Effort(effort.seed, LAYOUT_NODES, effort.stop))
        if layout.height < heights[memory]:
            heights[memory] = layout.height
            for index, offset in zip(members, layout.offsets, strict=True):
                offsets[index] = offset
    return replace(found, offsets=tuple(offsets), heights=tuple(heights))


def solve_lowest(problem: SeveralProblem, memory: int, effort: Effort | None = None) -> LowestLayout | NoChoice:
    """Return the cheapest choice of those with the smallest height in a memory, as far as the effort allows.

    The height is found by bisection: a smaller memory either has room for some choice, or it is proven that it has not.
    """
    effort = effort or Effort()
    anything = replace(problem, costs=tuple(tuple(None if c is None else 0 for c in row) for row in problem.costs))
    found = _Search(anything, effort).run()
    if isinstance(found, NoChoice):
        return found
    proven, tried = 0, 0
    while tried < found.heights[memory]:
        middle = (tried + found.heights[memory] - 1) // 2
        lower = _Search(_limited(anything, memory, middle), effort).run()
        if isinstance(lower, SeveralLayout):
            found = lower
            continue
        tried = middle + 1
        if lower.proven:
            proven = tried
    height = found.heights[memory]
    limited = _limited(problem, memory, height)
    cheapest = solve_several(limited, effort)
    if isinstance(cheapest, NoChoice):
        cost = sum(costs[chosen] or 0 for costs, chosen in zip(problem.costs, found.memories, strict=True))
        cheapest = replace(found, cost=cost, lower_bound=min(cost, relax(limited, _sizes(limited)).bound), proof="none")
    height = cheapest.heights[memory]
    proof: Proof = "none" if proven < height else "search exhausted" if height else "bound met"
    return LowestLayout(memory, cheapest, proven, proof)


def _limited(problem: SeveralProblem, memory: int, size_bytes: int) -> SeveralProblem:
    """Return the problem with another size of a memory."""
    memories = list(problem.memories)
    memories[memory] = Memory(memories[memory].name, size_bytes)
    return replace(problem, memories=tuple(memories))


def _sizes(problem: SeveralProblem) -> list[int]:
    return [memory.size_bytes for memory in problem.memories]


# Which memories a buffer cannot use in a branch, by (buffer, memory).
_Excluded = frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Relaxed:
    """The cheapest choice of the relaxation, None if there is none, and a bound on the cost of every choice.

    is_exact: whether the bound is that of the relaxation, so that None means that no choice exists.
    """

    memories: tuple[int, ...] | None
    bound: int
    is_exact: bool


class _Search:
    def __init__(self, problem: SeveralProblem, effort: Effort) -> None:
        self.problem = problem
        self.effort = effort
        self.best: SeveralLayout | None = None
        # Layouts by (memory, buffers): None if there is none, and whether that is proven.
        self.layouts: dict[tuple[int, tuple[int, ...]], tuple[Layout | None, bool]] = {}

    def run(self) -> SeveralLayout | NoChoice:
        self.together()
        sizes = _sizes(self.problem)
        root = relax(self.problem, sizes)
        if root.memories is None and root.is_exact:
            return NoChoice(proven=True)
        branches: list[tuple[int, int, _Excluded, _Relaxed]] = [(root.bound, 0, frozenset(), root)]
        count, is_proven = 0, True
        while branches:
            bound, _, excluded, relaxed = branches[0]
            if self.best is not None and self.best.cost <= bound:
                break
            if count >= MAX_BRANCHES or self.effort.stop() or relaxed.memories is None:
                is_proven = False
                break
            heappop(branches)
            conflict = self.accept(relaxed.memories)
            if conflict is None:
                continue
            memory, buffers, proven = conflict
            is_proven = is_proven and proven
            for branch in _without(memory, buffers, excluded, len(sizes)):
                below = relax(self.problem, sizes, branch)
                count += 1
                if below.memories is not None or not below.is_exact:
                    heappush(branches, (max(bound, below.bound), count, branch, below))
        lower_bound = root.bound
        if is_proven and branches:
            lower_bound = max(lower_bound, branches[0][0])
        if self.best is None or self.best.cost > lower_bound:
            self.try_smaller(sizes)
        if self.best is None:
            return NoChoice(proven=is_proven and not branches)
        if is_proven and (not branches or self.best.cost <= branches[0][0]):
            lower_bound = self.best.cost
        if self.best.cost > lower_bound:
            return replace(self.best, lower_bound=lower_bound)
        proof: Proof = "bound met" if self.best.cost == root.bound else "search exhausted"
        return replace(self.best, lower_bound=lower_bound, proof=proof)

    def together(self) -> None:
        """Try all buffers in one memory."""
        everything = range(len(self.problem.costs))
        for memory in range(len(self.problem.memories)):
            if all(costs[memory] is not None for costs in self.problem.costs):
                self.accept([memory for _ in everything])

    def try_smaller(self, sizes: Sequence[int]) -> None:
        """Try the choices for slightly smaller memories, whose buffers have a layout in the real ones more often."""
        for share in SHARES:
            relaxed = relax(self.problem, [int(size * share) for size in sizes])
            if self.effort.stop() or relaxed.memories is None:
                return
            if self.accept(relaxed.memories) is None:
                return

    def accept(self, choice: Sequence[int]) -> tuple[int, tuple[int, ...], bool] | None:
        """Store a choice if it has layouts and is the cheapest so far; or return a memory with buffers without one.

        The third value states whether it is proven that they have none.
        """
        offsets, heights = [0] * len(choice), []
        for memory in range(len(self.problem.memories)):
            members = tuple(index for index, chosen in enumerate(choice) if chosen == memory)
            layout, proven = self.layout(memory, members)
            if layout is None:
                return (memory, self.shrunk(memory, members) if proven else members, proven)
            heights.append(layout.height)
            for index, offset in zip(members, layout.offsets, strict=True):
                offsets[index] = offset
        cost = sum(self.problem.costs[index][memory] or 0 for index, memory in enumerate(choice))
        if self.best is None or cost < self.best.cost:
            self.best = SeveralLayout(tuple(choice), tuple(offsets), tuple(heights), cost, 0, "none")
        return None

    def layout(self, memory: int, members: tuple[int, ...]) -> tuple[Layout | None, bool]:
        """Return a layout of these buffers that fits in the memory; or None, and whether there is none."""
        key = (memory, members)
        if key not in self.layouts:
            capacity = self.problem.memories[memory].size_bytes
            part = _part(self.problem.buffers, members)
            effort = Effort(self.effort.seed, LAYOUT_NODES, self.effort.stop)
            found = solve(part, effort, capacity=capacity)
            fits = found.height <= capacity
            self.layouts[key] = (found if fits else None, not fits and found.lower_bound > capacity)
        return self.layouts[key]

    def shrunk(self, memory: int, members: tuple[int, ...]) -> tuple[int, ...]:
        """Return a subset of buffers without a layout of which no buffer can be omitted."""
        for index in members:
            rest = tuple(other for other in members if other != index)
            layout, proven = self.layout(memory, rest)
            if layout is None and proven:
                members = rest
        return members


def _part(problem: LayoutProblem, members: Sequence[int]) -> LayoutProblem:
    """Return some of the buffers, with the overlaps between them."""
    numbers = {index: position for position, index in enumerate(members)}
    return LayoutProblem(
        tuple(problem.buffers[index] for index in members),
        tuple(
            Overlap(numbers[item.first], numbers[item.second], item.min_distance)
            for item in problem.overlaps
            if item.first in numbers and item.second in numbers
        ),
    )


def _shareable(problem: LayoutProblem) -> Mapping[int, Mapping[int, int]]:
    """Return for each buffer the most bytes that it may share with each other one, because of its overlaps.

    The first of an overlap starts at least its distance behind the second, of which it can share only the rest.
    """
    shared: dict[int, dict[int, int]] = {}
    for item in problem.overlaps:
        first, second = (problem.buffers[index].aligned_bytes for index in (item.first, item.second))
        count = min(first, second, max(0, second - item.min_distance))
        for one, other in ((item.first, item.second), (item.second, item.first)):
            row = shared.setdefault(one, {})
            row[other] = max(count, row.get(other, 0))
    return shared


def _without(memory: int, buffers: Sequence[int], excluded: _Excluded, memories: int) -> list[_Excluded]:
    """Return the branches in which one of the buffers is not in the memory, and those before it are.

    No choice is in two of them.
    """
    branches = []
    for position, index in enumerate(buffers):
        others = {(before, other) for before in buffers[:position] for other in range(memories) if other != memory}
        branches.append(excluded | {(index, memory)} | others)
    return branches


def relax(problem: SeveralProblem, sizes: Sequence[int], excluded: _Excluded = frozenset()) -> _Relaxed:
    """Return the cheapest choice in which live buffers fit by the sum of their sizes, without what pairs may share.

    Args:
        problem: The problem.
        sizes: The sizes of the memories to use.
        excluded: Pairs of a buffer and a memory that are excluded.
    """
    buffers = problem.buffers.buffers
    order = sorted(range(len(buffers)), key=lambda index: (buffers[index].lifetime.first, index))
    possible = [
        [
            (memory, cost)
            for memory, cost in enumerate(problem.costs[index])
            if cost is not None and (index, memory) not in excluded
        ]
        for index in range(len(buffers))
    ]
    if not all(possible):
        return _Relaxed(None, 0, is_exact=True)
    rest = sum(min(cost for _, cost in items) for items in possible)
    shareable = _shareable(problem.buffers)
    live: list[int] = []
    # By the memories of the live buffers: the cost so far, the bytes in use, and the choices as a linked list.
    states: Mapping[tuple[int, ...], _State] = {(): (0, (0,) * len(sizes), None)}
    dropped: int | None = None
    for index in order:
        buffer = buffers[index]
        kept = [place for place, other in enumerate(live) if buffers[other].lifetime.last >= buffer.lifetime.first]
        if len(kept) < len(live):
            states = _released(states, live, kept, [item.aligned_bytes for item in buffers], shareable)
            live = [live[place] for place in kept]
        rest -= min(cost for _, cost in possible[index])
        added: dict[tuple[int, ...], _State] = {}
        size_bytes = buffer.aligned_bytes
        partners = [
            (place, count) for place, other in enumerate(live) if (count := shareable.get(index, {}).get(other))
        ]
        for key, (cost, used, path) in states.items():
            for memory, more in possible[index]:
                now = used[memory] + size_bytes - sum(count for place, count in partners if key[place] == memory)
                if now <= sizes[memory]:
                    in_use = (*used[:memory], now, *used[memory + 1 :])
                    added[(*key, memory)] = (cost + more, in_use, (path, memory))
        live.append(index)
        if len(added) > MAX_STATES:
            cheapest = sorted(added.items(), key=lambda item: item[1][0])
            lost = cheapest[MAX_STATES][1][0] + rest
            dropped = lost if dropped is None else min(dropped, lost)
            added = dict(cheapest[:MAX_STATES])
        states = added
    if not states:
        return _Relaxed(None, dropped or 0, is_exact=dropped is None)
    cost, _, path = min(states.values(), key=lambda state: state[0])
    chosen = [0] * len(buffers)
    for index in reversed(order):
        assert path is not None
        path, chosen[index] = path
    bound = cost if dropped is None else min(cost, dropped)
    return _Relaxed(tuple(chosen), bound, is_exact=dropped is None)


_Path = tuple["_Path | None", int] | None
_State = tuple[int, tuple[int, ...], _Path]


def _released(
    states: Mapping[tuple[int, ...], _State],
    live: Sequence[int],
    kept: Sequence[int],
    sizes: Sequence[int],
    shareable: Mapping[int, Mapping[int, int]],
) -> dict[tuple[int, ...], _State]:
    """Return the states without the buffers that are not live any more, the cheapest for each choice of the others."""
    ended = [place for place in range(len(live)) if place not in set(kept)]
    # Pairs of which at least one has ended share nothing any more.
    pairs = [
        (one, other, count)
        for one in ended
        for other in range(len(live))
        if (other < one or other not in ended) and (count := shareable.get(live[one], {}).get(live[other]))
    ]
    merged: dict[tuple[int, ...], _State] = {}
    for key, (cost, used, path) in states.items():
        rest = tuple(key[place] for place in kept)
        if rest in merged and merged[rest][0] <= cost:
            continue
        in_use = list(used)
        for place in ended:
            in_use[key[place]] -= sizes[live[place]]
        for one, other, count in pairs:
            if key[one] == key[other]:
                in_use[key[one]] += count
        merged[rest] = (cost, tuple(in_use), path)
    return merged
