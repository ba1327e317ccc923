"""Branch and bound on one instance: a portfolio of randomized searches at different capacities.

The kernel looks for a layout below a capacity. Its run times are heavy-tailed, so many short searches with different
plans (priorities of buffers and a rule for the next clique) beat one long search. Attempts alternate between the goal
and capacities half-way between the goal and the best layout. An exhausted search raises the bound.

The kernel runs in plain Python over lists, or as machine code that numba compiles from the same function over arrays;
both take the same decisions. numba (the extra `fast`) is worth its start-up only for searches that take long.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from inspect import signature
from itertools import count
from typing import Any

from edgetool.memory.layout.greedy import neighbours
from edgetool.memory.layout.instance import Instance, grain, layout_peak
from edgetool.memory.layout.kernel import (
    EXHAUSTED,
    FAILING,
    FEWEST,
    LOWEST,
    NODES,
    RANGES,
    SOLVED,
    STACK_FULL,
    TIGHTEST,
    UNPLACED,
    search,
)
from edgetool.memory.problem import NodeBudget


@dataclass(frozen=True, slots=True)
class SearchEngine:
    """An implementation of the kernel, the nodes that it searches in a few milliseconds, and its arrays.

    column copies numbers; table copies rows, padded to one length if necessary; zeros returns a table of zeros; ranked
    sorts the buffers in each row of a table by an order; doubled returns an array of twice the length.
    """

    search: Callable[..., int]
    slice: int
    column: Callable[[Sequence[int]], Any]
    table: Callable[[Sequence[Sequence[int]], int], Any]
    zeros: Callable[[int, int], Any]
    ranked: Callable[[Any, Sequence[int]], Any]
    doubled: Callable[[Any], Any]


def _same_rows(rows: Sequence[Sequence[int]], _padding: int) -> list[list[int]]:
    return [list(row) for row in rows]


def _zero_rows(rows: int, length: int) -> list[list[int]]:
    return [[0] * length for _ in range(rows)]


def _ranked_rows(rows: Sequence[Sequence[int]], order: Sequence[int]) -> list[list[int]]:
    rank = [0] * len(order)
    for place, i in enumerate(order):
        rank[i] = place
    return [sorted(row, key=rank.__getitem__) for row in rows]


def _doubled_items(items: Any) -> Any:
    return items + ([[0] * len(items[0]) for _ in items] if isinstance(items[0], list) else [0] * len(items))


POLL_SECONDS, MAX_POLLS = 0.02, 50
# The types of the search's parameters for numba: limits and switches, then columns and tables.
TABLES = ("near", "pinned_near", "alone", "members", "stack", "ranges")
SIGNATURE = "int64(int64, int64, boolean, int64, {})".format(
    ", ".join("int64[:, ::1]" if name in TABLES else "int64[::1]" for name in list(signature(search).parameters)[4:])
)

PYTHON_ENGINE = SearchEngine(search, 64, list, _same_rows, _zero_rows, _ranked_rows, _doubled_items)


def compiled(stop: Callable[[], bool], *, wait_until_ready: bool = False) -> SearchEngine | None:
    """Return numba's engine, or None if numba is not installed, is not ready yet, or the search is stopped.

    The first call in a process takes half a second. The first on a machine takes about four, because the machine code
    has to be compiled: after a second, the search continues in plain Python meanwhile, unless wait_until_ready is set.
    A separate thread compiles, so that this one can call `stop` and receive signals; a program does not end before it
    is finished. numba caches the code beside the source, or in the user's cache directory if that is not writable; if
    neither is, every process compiles it.
    """
    compilation = _compilation()
    if compilation is None:
        return None
    for _ in count() if wait_until_ready else compilation.polls:
        if wait([compilation.engine], timeout=POLL_SECONDS).done or stop():
            break
    return compilation.engine.result() if compilation.engine.done() else None


def is_loaded() -> bool:
    """Return whether the compiled engine is ready, so that using it costs nothing more."""
    if _compilation.cache_info().currsize == 0:
        return False
    compilation = _compilation()
    return compilation is not None and compilation.engine.done()


@dataclass(frozen=True, slots=True)
class _Compilation:
    """The engine while it is being compiled, and how many times to wait for it."""

    engine: Future[SearchEngine]
    polls: Iterator[int]


@functools.cache
def _compilation() -> _Compilation | None:
    if importlib.util.find_spec("numba") is None:
        return None
    pool = ThreadPoolExecutor(max_workers=1)
    engine = pool.submit(_compile)
    pool.shutdown(wait=False)
    return _Compilation(engine, iter(range(MAX_POLLS)))


def _compile() -> SearchEngine:
    import numba
    import numpy as np

    def column(numbers: Sequence[int]) -> Any:
        return np.array(numbers, dtype=np.int64)

    def table(rows: Sequence[Sequence[int]], padding: int) -> Any:
        padded = np.full((len(rows), max(map(len, rows), default=0)), padding, dtype=np.int64)
        for i, row in enumerate(rows):
            padded[i, : len(row)] = row
        return padded

    def zeros(rows: int, length: int) -> Any:
        return np.zeros((rows, length), dtype=np.int64)

    def ranked(rows: Any, order: Sequence[int]) -> Any:
        # The padding is the highest rank, so that it remains at the end.
        buffers = np.array([*order, len(order)], dtype=np.int64)
        rank = np.empty_like(buffers)
        rank[buffers] = np.arange(len(buffers))
        return buffers[np.sort(rank[rows], axis=1)]

    def doubled(items: Any) -> Any:
        return np.concatenate([items, np.zeros_like(items)])

    # With a signature, numba compiles immediately instead of at the first call.
    try:
        compiled_search = numba.njit(SIGNATURE, cache=True)(search)
    except RuntimeError:
        compiled_search = numba.njit(SIGNATURE)(search)
    return SearchEngine(compiled_search, 1024, column, table, zeros, ranked, doubled)


# The number of operations in plain Python after which it is worthwhile to start numba, or, if numba is already loaded,
# to convert to arrays. A node takes as many operations as a clique has buffers, about two microseconds each.
OPERATIONS_BEFORE_START, OPERATIONS_BEFORE_ARRAYS = 200_000, 10_000
# The factor by which failure counts decay from one search to the next.
FAILURE_DECAY = 16
# The number of bits that sizes are scaled to for comparing cliques.
GRADE_BITS = 19


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """The parameters of a search: the buffers by priority, and the rule for the next clique (see kernel)."""

    order: Sequence[int]
    rule: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The offsets (None if no layout was found), whether the search was exhaustive, and the number of its nodes."""

    offsets: tuple[int, ...] | None
    exhausted: bool
    nodes: int


class PlacementSearch:
    """All searches of one instance, for any capacity and plan."""

    def __init__(self, instance: Instance) -> None:
        n = len(instance.sizes)
        step = grain(instance)
        paddings = [-size % step for size in instance.sizes]
        sizes = [size + padding for size, padding in zip(instance.sizes, paddings, strict=True)]
        members: list[list[int]] = [[] for _ in range(instance.clique_count)]
        crossing = [0] * instance.clique_count
        for i in range(n):
            for clique in range(instance.first[i], instance.last[i] + 1):
                members[clique].append(i)
            for clique in range(instance.first[i], instance.last[i]):
                crossing[clique] += 1
        near = [sorted(row) for row in neighbours(instance, n * n) or []]
        pins = instance.pins
        pinned = [
            sorted((j for j in row if pins[j] >= 0), key=pins.__getitem__) if pins[i] < 0 else []
            for i, row in enumerate(near)
        ]
        self.instance = instance
        self.nodes = 0
        # Failure counts by clique, which decay from search to search.
        self.failures = [0] * instance.clique_count
        self.plain = all(alignment == 1 for alignment in instance.alignments) and all(pin < 0 for pin in pins)
        self.members = members
        self.crossing = crossing
        self.paddings = [max(paddings[i] for i in row) for row in members]
        self.totals = [sum(sizes[i] for i in row) for row in members]
        twins = _twins(instance)
        self.lows = _lows(instance, sizes, twins, pinned)
        # The constant arrays of the kernel.
        self.columns = (instance.first, instance.last, [*sizes, 0], instance.alignments, [*pins, -1])
        self.tables = (near, pinned, [[i] for i in range(n)], members)
        self.floors = [min(self.lows[i] for i in row) for row in members]
        self.twins = twins
        self.fixed: dict[int, tuple[Any, ...]] = {}

    def engine(self, stop: Callable[[], bool]) -> SearchEngine:
        """Return the engine that is worthwhile for the nodes searched so far."""
        operations = self.nodes * sum(map(len, self.members)) // len(self.members)
        if operations < (OPERATIONS_BEFORE_ARRAYS if is_loaded() else OPERATIONS_BEFORE_START):
            return PYTHON_ENGINE
        return compiled(stop) or PYTHON_ENGINE

    def run(
        self,
        capacity: int,
        plan: SearchPlan,
        node_limit: int,
        stop: Callable[[], bool],
        engine: SearchEngine | None = None,
    ) -> SearchResult:
        """Search for a layout whose peak is at most `capacity`, in units, with at most node_limit nodes."""
        instance = self.instance
        n = len(instance.sizes)
        top = [capacity - size for size in instance.sizes]
        ceiling = [capacity + padding for padding in self.paddings]
        low, floor = [*self.lows, UNPLACED], self.floors
        spare = [limit - total for limit, total in zip(ceiling, self.totals, strict=True)]
        if any(map(int.__gt__, self.lows, top)) or any(map(int.__gt__, floor, spare)):
            return SearchResult(None, True, 0)
        engine = engine or self.engine(stop)
        column = engine.column
        state = column([0] * 6)
        state[RANGES] = 1
        if id(engine) not in self.fixed:
            self.fixed[id(engine)] = (
                *(column(numbers) for numbers in self.columns),
                column(self.twins),
                *(engine.table(rows, n) for rows in self.tables),
            )
        first, last, size, align, pin, twin, near, pinned, alone, members = self.fixed[id(engine)]
        members = engine.ranked(members, plan.order)
        scale = max(0, capacity.bit_length() - GRADE_BITS)
        mutable = [column(numbers) for numbers in (low, [0] * (n + 1), [-1] * n, floor, spare, self.crossing)]
        placed = mutable[2]
        tops = column(top)
        failures, grade = column(self.failures), column([0] * instance.clique_count)
        room = [0] * (16 * n + 8 * instance.clique_count)
        trail_what, trail_old = column(room), column(room)
        stack, ranges = engine.zeros(4 * n + 8, 5), engine.zeros(4 * instance.clique_count + 8, 5)
        # One range of all cliques, without a next range or an owner.
        ranges[0][:] = column([0, instance.clique_count - 1, -1, -1, 0])
        while True:
            budget = min(engine.slice, node_limit - int(state[NODES]))
            status = engine.search(
                budget, plan.rule, self.plain, scale, first, last, size, align, pin, tops, twin, near, pinned, alone,
                members, *mutable, failures, grade, trail_what, trail_old, stack, ranges, state,
            )  # fmt: skip
            nodes = int(state[NODES])
            if status == STACK_FULL:
                trail_what, trail_old = engine.doubled(trail_what), engine.doubled(trail_old)
                stack, ranges = engine.doubled(stack), engine.doubled(ranges)
            elif status in (SOLVED, EXHAUSTED) or nodes >= node_limit or stop():
                self.nodes += nodes
                self.failures = [int(count) // FAILURE_DECAY for count in failures]
                result = tuple(map(int, placed)) if status == SOLVED else None
                return SearchResult(result, status == EXHAUSTED, nodes)


def _twins(instance: Instance) -> list[int]:
    """Return the next buffer with the same lifetime, size and alignment (n if there is none): their order does not
    matter.
    """
    n = len(instance.sizes)
    twins = [n] * n
    seen: dict[tuple[int, int, int, int], int] = {}
    for i in range(n):
        if instance.pins[i] < 0:
            kind = (instance.first[i], instance.last[i], instance.sizes[i], instance.alignments[i])
            if kind in seen:
                twins[seen[kind]] = i
            seen[kind] = i
    return twins


def _lows(instance: Instance, sizes: Sequence[int], twins: Sequence[int], pinned: Sequence[Sequence[int]]) -> list[int]:
    """Return the lowest offset of each buffer: clear of the pinned ones, and above its earlier twins."""
    n = len(instance.sizes)
    lows = [max(pin, 0) for pin in instance.pins]
    for i in range(n):
        if instance.pins[i] < 0:
            alignment = instance.alignments[i]
            x = -(-lows[i] // alignment) * alignment
            for p in pinned[i]:
                if x < instance.pins[p] + sizes[p] and instance.pins[p] < x + sizes[i]:
                    x = -(-(instance.pins[p] + sizes[p]) // alignment) * alignment
            lows[i] = x
            if twins[i] < n:
                lows[twins[i]] = x + sizes[i]
    return lows


# Minimum nodes of the first searches, and nodes per buffer; each round has a quarter more. Searches that succeed do so
# early.
MIN_NODES, RUN_NODES_PER_BUFFER = 300, 3
# The maximum change of a buffer's key by noise, in thousandths.
NOISE = 300

# A key ranks the buffers, the largest value first, by size and by duration in cliques.
PriorityKey = Callable[[int, int], int]


def _area(size: int, duration: int) -> int:
    return size * duration


def _duration(size: int, duration: int) -> int:
    return duration


def _size(size: int, duration: int) -> int:
    return size


def _long_area(size: int, duration: int) -> int:
    return size * duration * duration


# No pair is best everywhere: one of these succeeds soon on every hard instance that we know.
PAIRS: tuple[tuple[PriorityKey, int], ...] = (
    (_area, LOWEST),
    (_duration, TIGHTEST),
    (_size, FEWEST),
    (_duration, LOWEST),
    (_duration, FEWEST),
    (_size, TIGHTEST),
    (_duration, FAILING),
    (_long_area, TIGHTEST),
)


def plans(instance: Instance, seed: int) -> Iterator[tuple[SearchPlan, int]]:
    """Yield plans without end, each with its node limit: every pair as it is, then with noise and more nodes."""
    buffers = range(len(instance.sizes))
    durations = [last - first + 1 for first, last in zip(instance.first, instance.last, strict=True)]
    state = (seed * 2 + 1) * 0x9E3779B97F4A7C15 % 2**64
    limit = max(MIN_NODES, RUN_NODES_PER_BUFFER * len(buffers))
    for round_ in count():
        for key, rule in PAIRS:
            values = [1000 * key(instance.sizes[i], durations[i]) for i in buffers]
            if round_:
                for i in buffers:
                    # xorshift64*, for the same numbers on every machine.
                    state ^= state >> 12
                    state = (state ^ state << 25) % 2**64
                    state ^= state >> 27
                    values[i] += values[i] // 1000 * ((state * 0x2545F4914F6CDD1D >> 32) % (2 * NOISE + 1) - NOISE)
            yield SearchPlan(sorted(buffers, key=lambda i, values=values: (-values[i], i)), rule), limit  # type: ignore[misc]
        limit += limit // 4


# Nodes of the first attempt at the goal: per buffer, and the maximum; each round has twice as many.
NODES_PER_BUFFER, MAX_FIRST_NODES = 128, 32_000
# An attempt between the goal and the best peak gets one STEP_DIVISOR-th of the nodes.
STEP_DIVISOR = 8
# The last search of an attempt gets at least one LONG_DIVISOR-th of its nodes.
LONG_DIVISOR = 8
# A round ends if the last capacity that failed is within 1/CLOSE_DIVISOR of the best peak.
CLOSE_DIVISOR = 500


class Minimiser:
    """The best offsets and bound of an instance so far, in its units, and the attempts to improve them.

    offsets and bound may be replaced by better ones between two steps.
    """

    def __init__(self, instance: Instance, offsets: tuple[int, ...], bound: int, seed: int) -> None:
        self.search = PlacementSearch(instance)
        self.offsets = offsets
        self.bound = bound
        self._seed = seed
        self._attempts = 0
        self._tried = 0
        # Attempts at the goal continue the same series of plans.
        self._plans = plans(instance, seed)
        self._nodes = min(MAX_FIRST_NODES, NODES_PER_BUFFER * max(64, len(instance.sizes)))

    @property
    def nodes(self) -> int:
        """The number of nodes searched so far."""
        return self.search.nodes

    def step(self, goal: int, budget: NodeBudget, max_nodes: int | None = None) -> None:
        """Attempt to find a lower layout: at the goal or the bound, or half-way between the last failure and the best
        peak.

        max_nodes: the number of nodes that this attempt may search; None means no limit.
        """
        goal = max(goal, self.bound)
        top = layout_peak(self.search.instance, self.offsets)
        capacity, nodes = goal, self._nodes
        if self._tried >= goal:
            capacity, nodes = (self._tried + top) // 2, self._nodes // STEP_DIVISOR
        self._attempts += 1
        series = self._plans if capacity == goal else plans(self.search.instance, self._seed + self._attempts)
        failures = self.search.failures
        result = self._attempt(series, capacity, nodes if max_nodes is None else min(nodes, max_nodes), budget)
        if capacity > goal:
            # Failures at one capacity are no guide for another.
            self.search.failures = failures
        if result.offsets is not None:
            self.offsets = result.offsets
            top = layout_peak(self.search.instance, self.offsets)
        elif result.exhausted:
            self.bound = self._tried = max(self.bound, capacity + 1)
        else:
            self._tried = capacity
        if self._tried >= goal and top - self._tried <= (1 if result.exhausted else max(1, top // CLOSE_DIVISOR)):
            self._tried = 0
            self._nodes *= 1 if result.exhausted else 2

    def _attempt(
        self, series: Iterator[tuple[SearchPlan, int]], capacity: int, nodes: int, budget: NodeBudget
    ) -> SearchResult:
        """Search for a layout whose peak is at most `capacity`, with this number of nodes in total.

        Short searches from the portfolio come first, because they soon find what exists; a long one, which can prove
        that there is none, comes last.
        """
        long = nodes // LONG_DIVISOR
        for plan, limit in series:
            last = nodes <= limit + long
            allowed = budget.allowed(nodes if last else limit)
            if allowed <= 0 or budget.stop():
                break
            result = self.search.run(capacity, plan, allowed, budget.stop)
            budget.spend(result.nodes)
            nodes -= result.nodes
            if result.offsets is not None or result.exhausted:
                return result
            if last:
                break
        return SearchResult(None, False, 0)
