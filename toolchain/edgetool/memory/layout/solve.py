"""The layout with the lowest peak, computed in stages, with a proof or the remaining gap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from edgetool.memory.layout.cp_sat import available, close_gap, require_available
from edgetool.memory.layout.ejection import improve
from edgetool.memory.layout.greedy import Neighbours, greedy_offsets, neighbours, pairs
from edgetool.memory.layout.instance import Instance, easy_bound, is_searchable, layout_peak, offsets_in_bytes, split
from edgetool.memory.layout.overlapping import OrderSearch, Requirements, requirements
from edgetool.memory.problem import Effort, Layout, LayoutProblem, NodeBudget, Proof

LayoutStrategy = Literal["optimal", "greedy", "tflm", "cp-sat"]
Improved = Callable[[Layout], None]

ANY_PEAK = 1 << 62
# Parts with a higher peak in units are not searched: the search's sums must fit into 64 bits.
MAX_UNITS = 1 << 50
# The number of orders that the greedy stage tries before a search, and before ejection chains.
GREEDY_ORDERS, FEW_ORDERS = 5, 1
# The least number of orders that a quick layout tries, however many buffers there are.
QUICK_ORDERS = 200
# Parts with more buffers, or more pairs of live buffers, are lowered by ejection chains, and not searched as a whole.
MANY_BUFFERS, MANY_PAIRS = 3000, 500_000
# CP-SAT starts after this number of nodes per pair of buffers, or after this share of the allowed nodes, and may use
# CP_SAT_NODES; then the search continues.
NODES_PER_PAIR, SEARCH_SHARE, CP_SAT_NODES = 100, 0.75, 300_000
# In parts with overlaps, the shares of local search and of exact search before CP-SAT in the nodes that are left.
LOCAL_SHARE, EXACT_SHARE = 0.25, 0.5


def solve(
    problem: LayoutProblem,
    effort: Effort | None = None,
    *,
    strategy: LayoutStrategy = "optimal",
    capacity: int | None = None,
    improved: Improved | None = None,
) -> Layout:
    """Return the lowest layout that the strategy finds within its limits.

    strategy: "optimal" runs every stage (greedy orders, search, and CP-SAT if it is installed) until the layout is
    proven optimal; "greedy" runs only the greedy orders; "tflm" is the result of TFLM's own planner; "cp-sat" omits the
    search. capacity: stop at the first layout whose peak is at most this, in bytes. `improved` receives each better
    layout on the way, so that the best one survives an interruption; effort.stop() ends the search with the best layout
    so far.

    The strategy "tflm" ignores overlaps, as TFLM does. In a part with overlaps, local search over greedy orders and an
    exact search of their own replace the stages for disjoint buffers; overlaps in a part with more than MANY_PAIRS
    pairs only lower the bound. Pinned buffers that overlap without permission keep their offsets: nothing is proven
    about such a layout, and the checker reports it.

    Raises UsageError if buffers of one alias are pinned to different offsets, MissingExtraError for the strategy
    "cp-sat" without OR-Tools, and InternalError if an overlap does not name two buffers without an alias.
    """
    if strategy == "cp-sat":
        require_available()
    stages = _Stages(problem, effort or Effort(), capacity or 0, improved)
    stages.greedy(strategy)
    for part in stages.open_parts() if strategy in ("optimal", "cp-sat") else ():
        if strategy == "cp-sat":
            stages.cp_sat(part, stages.budget.left)
        elif part in stages.required:
            stages.search_overlapping(part)
        elif is_large(stages.parts[part].instance):
            stages.eject(part)
        else:
            stages.search(part)
    return stages.layout()


def quick_offsets(problem: LayoutProblem, nodes: int, seed: int = 0) -> tuple[int, ...]:
    """Return the offsets of a low layout, for comparisons of many problems: the best that local search finds with this
    number of nodes, or in QUICK_ORDERS orders, for each part of the problem, without any bound or proof.
    """
    parts, offsets = split(problem), []
    for part in parts:
        instance = part.instance
        search = OrderSearch(instance, requirements(instance, MANY_PAIRS) or (), seed)
        budget = NodeBudget(Effort(node_limit=max(nodes, QUICK_ORDERS * len(instance.sizes))))
        search.greedy(0, budget)
        search.improve(0, None, budget, lambda _: None)
        offsets.append(search.offsets)
    return offsets_in_bytes(problem, parts, offsets)


def is_large(instance: Instance) -> bool:
    """Return whether the tables of a search would take longer to build than the search is worth."""
    return len(instance.sizes) > MANY_BUFFERS or pairs(instance) > MANY_PAIRS


class _Stages:
    """The offsets and the bound of each part so far, in its units, and the stages that improve them."""

    def __init__(self, problem: LayoutProblem, effort: Effort, capacity: int, improved: Improved | None) -> None:
        self.problem = problem
        self.effort = effort
        self.capacity = capacity
        self.improved = improved
        self.budget = NodeBudget(effort)
        self.parts = split(problem)
        # What pairs of buffers require, for the parts with overlaps.
        self.required: dict[int, Requirements] = {}
        self.orders: dict[int, OrderSearch] = {}
        self.units = [part.instance.unit for part in self.parts]
        self.is_searchable = all(is_searchable(part.instance) for part in self.parts)
        self.offsets: list[tuple[int, ...]] = [() for _ in self.parts]
        self.peaks = [0] * len(self.parts)
        self.placed = 0
        self.bounds = [easy_bound(part.instance) if self.is_searchable else 0 for part in self.parts]
        self.initial_bound = self.bound()
        self.reported_peak: int | None = None
        self.by_cp_sat: set[int] = set()
        # The neighbours in the large part that was placed last; those of other parts are not stored.
        self.near: Neighbours | None = None
        self.near_part = 0

    def bound(self) -> int:
        """Return the lower bound on the peak of any layout of the problem, in bytes."""
        return max(map(int.__mul__, self.bounds, self.units), default=0)

    def goal(self) -> int:
        """Return the peak that is low enough for every part, in bytes: the bound of the problem, or the capacity."""
        return max(self.bound(), self.capacity)

    def layout(self) -> Layout:
        """Return the best layout so far."""
        offsets = offsets_in_bytes(self.problem, self.parts, self.offsets)
        top = max(self.peaks, default=0)
        bound = self.bound()
        proof: Proof = "none"
        if self.is_searchable and top == bound:
            highest = {i for i, unit in enumerate(self.units) if self.bounds[i] * unit == bound}
            proof = "search exhausted" if highest - self.by_cp_sat else "cp-sat"
            if bound == self.initial_bound:
                proof = "bound met"
        return Layout(offsets, top, bound, proof)

    def update(self, part: int, offsets: tuple[int, ...], bound: int) -> None:
        """Store the result of a stage, and report the layout if it is complete and lower than the last reported one."""
        self.placed += not self.offsets[part]
        self.offsets[part], self.bounds[part] = offsets, bound
        self.peaks[part] = layout_peak(self.parts[part].instance, offsets) * self.units[part]
        if self.improved is None or self.placed < len(self.parts):
            return
        top = max(self.peaks)
        if self.reported_peak is None or top < self.reported_peak:
            self.reported_peak = top
            self.improved(self.layout())

    def greedy(self, strategy: LayoutStrategy) -> None:
        """Compute first layouts by first fit in several orders; TFLM's own comes first, and "tflm" stops after it."""
        for i, part in enumerate(self.parts):
            goal = ANY_PEAK if strategy == "tflm" else self.goal() // self.units[i]
            count = len(part.instance.sizes)
            effort = self.effort
            if strategy == "optimal":
                # After the first orders, the later stages improve the layout faster than more orders.
                orders = FEW_ORDERS if is_large(part.instance) else GREEDY_ORDERS
                effort = Effort(effort.seed, orders * count, effort.stop)
            self.near = neighbours(part.instance) if is_large(part.instance) else None
            self.near_part = i
            overlaps = part.instance.overlaps and strategy != "tflm"
            if overlaps and (required := requirements(part.instance, MANY_PAIRS)) is not None:
                # TFLM's order first, without overlaps.
                greedy_offsets(part.instance, Effort(effort.seed, count, effort.stop), goal, self.updater(i), self.near)
                self.required[i] = required
                self.greedy_overlapping(i)
            else:
                greedy_offsets(part.instance, effort, goal, self.updater(i), self.near)

    def greedy_overlapping(self, part: int) -> None:
        """Try the greedy orders in which buffers overlap."""
        instance = self.parts[part].instance
        search = OrderSearch(instance, self.required[part], self.effort.seed)
        search.greedy(self.goal() // self.units[part], NodeBudget(self.effort))
        self.orders[part] = search
        if search.peak * self.units[part] < self.peaks[part]:
            self.update(part, tuple(search.offsets), self.bounds[part])

    def updater(self, part: int) -> Callable[[list[int]], None]:
        """Return a function that stores lower offsets of a part while its stage is still running."""
        return lambda offsets: self.update(part, tuple(offsets), self.bounds[part])

    def open_parts(self) -> list[int]:
        """Return the parts that are too high, the highest first, without those whose sums exceed 64 bits."""
        parts = [i for i in range(len(self.parts)) if self.goal() < self.peaks[i] < MAX_UNITS * self.units[i]]
        return sorted(parts, key=lambda i: (-self.peaks[i], i)) if self.is_searchable else []

    def search(self, part: int) -> None:
        """Run branch and bound at the goal, and between it and the best peak; CP-SAT in between."""
        # Imported on use, with its threads: the greedy layout of most models is proven optimal.
        from edgetool.memory.layout.minimise import Minimiser

        instance = self.parts[part].instance
        state = Minimiser(instance, self.offsets[part], self.bounds[part], self.effort.seed)
        turn = NODES_PER_PAIR * len(instance.sizes) ** 2
        if self.budget.left is not None:
            turn = min(turn, int(SEARCH_SHARE * self.budget.left))
        cp_sat_done = not available()
        while self.is_open(part):
            if not cp_sat_done and state.nodes >= turn:
                cp_sat_done = True
                self.cp_sat(part, self.budget.allowed(CP_SAT_NODES))
                state.offsets, state.bound = self.offsets[part], self.bounds[part]
                continue
            state.step(self.goal() // self.units[part], self.budget, None if cp_sat_done else turn - state.nodes)
            self.update(part, state.offsets, state.bound)

    def search_overlapping(self, part: int) -> None:
        """Alternate between local search and exact search, with CP-SAT in between."""
        from edgetool.memory.layout.orientation import OrientationSearch

        goal = self.goal() // self.units[part]
        orders, instance = self.orders[part], self.parts[part].instance
        update = self.updater(part)
        orders.improve(goal, self.share(LOCAL_SHARE), self.budget, update)
        state = OrientationSearch(instance, self.required[part], self.offsets[part], self.bounds[part])
        turn = self.budget.spent + (self.share(EXACT_SHARE) or CP_SAT_NODES)
        cp_sat_done = not available()
        while self.is_open(part):
            if not cp_sat_done and self.budget.spent >= turn:
                cp_sat_done = True
                self.cp_sat(part, self.budget.allowed(CP_SAT_NODES))
                state.offsets, state.bound = self.offsets[part], self.bounds[part]
                continue
            state.step(self.goal() // self.units[part], self.budget, None if cp_sat_done else turn - self.budget.spent)
            self.update(part, state.offsets, state.bound)

    def share(self, share: float) -> int | None:
        """Return a share of the remaining nodes, None if there is no limit."""
        return None if self.budget.left is None else int(share * self.budget.left)

    def is_open(self, part: int) -> bool:
        """Return whether the part is too high and the budget is not exhausted."""
        return self.peaks[part] > self.goal() and not self.budget.over

    def eject(self, part: int) -> None:
        """Lower a large part by ejection chains, which may use all remaining nodes."""
        instance = self.parts[part].instance
        if self.is_open(part):
            effort = Effort(self.effort.seed, self.budget.left, self.budget.stop)
            goal = self.goal() // self.units[part]
            update = self.updater(part)
            near = self.near if self.near_part == part else None
            update(improve(instance, self.offsets[part], effort, goal, update, near))
            if self.is_open(part):
                self.budget.spend(self.budget.left or 0)

    def cp_sat(self, part: int, nodes: int | None) -> None:
        """Run CP-SAT for as long as this number of nodes takes."""
        if self.is_open(part):
            effort = Effort(self.effort.seed, nodes, self.budget.stop)
            goal = self.goal() // self.units[part]
            result = close_gap(self.parts[part].instance, self.offsets[part], self.bounds[part], effort, capacity=goal)
            self.budget.spend(result.nodes)
            if result.lower_bound > self.bounds[part]:
                self.by_cp_sat.add(part)
            self.update(part, result.offsets, max(self.bounds[part], result.lower_bound))
