"""The lowest layout of a problem, in stages, with the proof or the gap that is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from edgetool.memory.layout.cp_sat import available, close_gap, require_available
from edgetool.memory.layout.greedy import Near, greedy_offsets, neighbours, pairs
from edgetool.memory.layout.instance import Instance, easy_bound, height, is_searchable, offsets_in_bytes, split
from edgetool.memory.layout.windows import improve
from edgetool.memory.problem import Effort, Layout, LayoutProblem, NodeBudget, Proof

LayoutStrategy = Literal["optimal", "greedy", "tflm", "cp-sat"]
Improved = Callable[[Layout], None]

ANY_HEIGHT = 1 << 62
# No search where heights in units are beyond this: its sums must fit into 64 bits.
MOST_UNITS = 1 << 50
# Orders that the greedy stage tries before a search, and before windows.
GREEDY_ORDERS, FEW_ORDERS = 5, 1
# Beyond so many pieces, or pairs alive together, a part is made lower window by window, and not searched as a whole.
MANY_PIECES, MANY_PAIRS = 3000, 500_000
# CP-SAT has its turn after so many nodes for each pair of pieces, or after this part of the nodes allowed, and gets as
# much as so many nodes are; then the search goes on.
NODES_PER_PAIR, SEARCH_SHARE, CP_SAT_NODES = 100, 0.75, 300_000


def solve(
    problem: LayoutProblem,
    effort: Effort | None = None,
    *,
    strategy: LayoutStrategy = "optimal",
    capacity: int | None = None,
    improved: Improved | None = None,
) -> Layout:
    """The lowest layout that the strategy finds within its limits.

    strategy: "optimal" runs every stage (greedy portfolio, search, CP-SAT where it is installed) until the layout is
    proven; "greedy" the portfolio only; "tflm" is what TFLM's own planner makes of it; "cp-sat" leaves the search out.
    capacity: stop at the first layout that is no higher, in bytes. improved is told of each better layout on the way,
    so that the best survives an interruption; effort.stop() ends the search with the best so far.

    Buffers pinned over each other stay there: nothing is proven of such a layout, and the checker names them.
    Raises UsageError when buffers of one alias are pinned to different offsets, MissingExtraError for the strategy
    "cp-sat" without OR-Tools.
    """
    if strategy == "cp-sat":
        require_available()
    stages = _Stages(problem, effort or Effort(), capacity or 0, improved)
    stages.greedy(strategy)
    for part in stages.open_parts() if strategy in ("optimal", "cp-sat") else ():
        if strategy == "cp-sat":
            stages.cp_sat(part, stages.budget.left)
        elif is_large(stages.parts[part].instance):
            stages.windows(part)
        else:
            stages.search(part)
    return stages.layout()


def is_large(instance: Instance) -> bool:
    """Whether the tables of a search would take longer than they are worth."""
    return len(instance.sizes) > MANY_PIECES or pairs(instance) > MANY_PAIRS


class _Stages:
    """What is known of each part so far, its offsets and its bound in units, and the stages that learn more."""

    def __init__(self, problem: LayoutProblem, effort: Effort, capacity: int, improved: Improved | None) -> None:
        self.problem = problem
        self.effort = effort
        self.capacity = capacity
        self.improved = improved
        self.budget = NodeBudget(effort)
        self.parts = split(problem)
        self.units = [part.instance.unit for part in self.parts]
        self.sound = all(is_searchable(part.instance) for part in self.parts)
        self.offsets: list[tuple[int, ...]] = [() for _ in self.parts]
        self.heights = [0] * len(self.parts)
        self.placed = 0
        self.bounds = [easy_bound(part.instance) if self.sound else 0 for part in self.parts]
        self.easy = self.bound()
        self.told: int | None = None
        self.by_cp_sat: set[int] = set()
        # The neighbours in the part of many pieces that was placed last: no others are kept.
        self.near: Near | None = None
        self.near_of = 0

    def bound(self) -> int:
        """What no layout of the problem can beat, in bytes."""
        return max(map(int.__mul__, self.bounds, self.units), default=0)

    def goal(self) -> int:
        """What is low enough for every part, in bytes: the bound of the whole, or the capacity."""
        return max(self.bound(), self.capacity)

    def layout(self) -> Layout:
        """The best layout so far."""
        offsets = offsets_in_bytes(self.problem, self.parts, self.offsets)
        top = max(self.heights, default=0)
        bound = self.bound()
        proof: Proof = "none"
        if self.sound and top == bound:
            highest = {i for i, unit in enumerate(self.units) if self.bounds[i] * unit == bound}
            proof = "search exhausted" if highest - self.by_cp_sat else "cp-sat"
            if bound == self.easy:
                proof = "bound met"
        return Layout(offsets, top, bound, proof)

    def learn(self, part: int, offsets: tuple[int, ...], bound: int) -> None:
        """Take over what a stage found, and tell of the layout when it is complete and lower than the last one told."""
        self.placed += not self.offsets[part]
        self.offsets[part], self.bounds[part] = offsets, bound
        self.heights[part] = height(self.parts[part].instance, offsets) * self.units[part]
        if self.improved is None or self.placed < len(self.parts):
            return
        top = max(self.heights)
        if self.told is None or top < self.told:
            self.told = top
            self.improved(self.layout())

    def greedy(self, strategy: LayoutStrategy) -> None:
        """First layouts: first fit over several orders; TFLM's own comes first, and is always low enough for "tflm"."""
        for i, part in enumerate(self.parts):
            goal = ANY_HEIGHT if strategy == "tflm" else self.goal() // self.units[i]
            pieces = len(part.instance.sizes)
            effort = self.effort
            if strategy == "optimal":
                # What the first orders leave open, the later stages do better than more of them.
                orders = FEW_ORDERS if is_large(part.instance) else GREEDY_ORDERS
                effort = Effort(effort.seed, orders * pieces, effort.stop)
            self.near = neighbours(part.instance) if is_large(part.instance) else None
            self.near_of = i
            greedy_offsets(part.instance, effort, goal, self.learner(i), self.near)

    def learner(self, part: int) -> Callable[[list[int]], None]:
        """Takes over lower offsets of a part from a stage that is not at its end."""
        return lambda offsets: self.learn(part, tuple(offsets), self.bounds[part])

    def open_parts(self) -> list[int]:
        """The parts that are too high, the highest first; greedy alone places what is too large for 64 bits."""
        found = [i for i in range(len(self.parts)) if self.goal() < self.heights[i] < MOST_UNITS * self.units[i]]
        return sorted(found, key=lambda i: (-self.heights[i], i)) if self.sound else []

    def search(self, part: int) -> None:
        """Place and postpone, at the goal and between it and the best known; CP-SAT in between."""
        # Imported on use, with its threads: the greedy layout of most models is proven optimal.
        from edgetool.memory.layout.minimise import Minimiser

        instance = self.parts[part].instance
        state = Minimiser(instance, self.offsets[part], self.bounds[part], self.effort.seed)
        turn = NODES_PER_PAIR * len(instance.sizes) ** 2
        if self.budget.left is not None:
            turn = min(turn, int(SEARCH_SHARE * self.budget.left))
        asked = not available()
        while self.is_open(part):
            if not asked and state.nodes >= turn:
                asked = True
                self.cp_sat(part, self.budget.allowed(CP_SAT_NODES))
                state.offsets, state.bound = self.offsets[part], self.bounds[part]
                continue
            state.step(self.goal() // self.units[part], self.budget, None if asked else turn - state.nodes)
            self.learn(part, state.offsets, state.bound)

    def is_open(self, part: int) -> bool:
        """Whether the part is too high and the effort not over."""
        return self.heights[part] > self.goal() and not self.budget.over

    def windows(self, part: int) -> None:
        """Make a part of many pieces lower where it is highest; all nodes left are for it."""
        instance = self.parts[part].instance
        if self.is_open(part):
            effort = Effort(self.effort.seed, self.budget.left, self.budget.stop)
            goal = self.goal() // self.units[part]
            tell = self.learner(part)
            near = self.near if self.near_of == part else None
            tell(improve(instance, self.offsets[part], effort, goal, tell, near))
            if self.is_open(part):
                self.budget.spend(self.budget.left or 0)

    def cp_sat(self, part: int, nodes: int | None) -> None:
        """CP-SAT, for as long as so many nodes take."""
        if self.is_open(part):
            effort = Effort(self.effort.seed, nodes, self.budget.stop)
            goal = self.goal() // self.units[part]
            result = close_gap(self.parts[part].instance, self.offsets[part], self.bounds[part], effort, capacity=goal)
            self.budget.spend(result.nodes)
            if result.lower_bound > self.bounds[part]:
                self.by_cp_sat.add(part)
            self.learn(part, result.offsets, max(self.bounds[part], result.lower_bound))
