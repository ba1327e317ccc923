"""One instance brought as low as it goes: searches at the goal, then between the goal and the best known.

The plans with which searches are started: runs are heavy-tailed, so that many short ones beat a long one.

Place/postpone searches of one instance: its tables, and the run of one search in slices.

What runs the search: plain Python over lists, or numba's machine code of the same function over arrays.

Both take the same decisions. numba (the extra `fast`) is worth its start-up only for searches that are not done soon.
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
from edgetool.memory.layout.instance import Instance, grain, height
from edgetool.memory.layout.kernel import (
    EXHAUSTED,
    FAILING,
    FEWEST,
    FOUND,
    LOWEST,
    MORE_ROOM,
    NODES,
    NOWHERE,
    RANGES,
    TIGHTEST,
    search,
)
from edgetool.memory.problem import NodeBudget


@dataclass(frozen=True, slots=True)
class Engine:
    """The search, the nodes it does in a few milliseconds, and its arrays.

    column copies numbers; table copies rows, padded to one length where it must; zeros makes so many rows of a length;
    ranked sorts the pieces in each row of a table by an order; more is an array of twice the length.
    """

    search: Callable[..., int]
    slice: int
    column: Callable[[Sequence[int]], Any]
    table: Callable[[Sequence[Sequence[int]], int], Any]
    zeros: Callable[[int, int], Any]
    ranked: Callable[[Any, Sequence[int]], Any]
    more: Callable[[Any], Any]


def _same_rows(rows: Sequence[Sequence[int]], _padding: int) -> list[list[int]]:
    return [list(row) for row in rows]


def _zero_rows(rows: int, length: int) -> list[list[int]]:
    return [[0] * length for _ in range(rows)]


def _ranked_rows(rows: Sequence[Sequence[int]], order: Sequence[int]) -> list[list[int]]:
    rank = [0] * len(order)
    for place, i in enumerate(order):
        rank[i] = place
    return [sorted(row, key=rank.__getitem__) for row in rows]


def _more_items(items: Any) -> Any:
    return items + ([[0] * len(items[0]) for _ in items] if isinstance(items[0], list) else [0] * len(items))


POLL_SECONDS, MOST_POLLS = 0.02, 50
# The types of the search's parameters for numba: limits and switches, then columns and tables.
TABLES = ("near", "pinned_near", "alone", "members", "stack", "ranges")
SIGNATURE = "int64(int64, int64, boolean, int64, {})".format(
    ", ".join("int64[:, ::1]" if name in TABLES else "int64[::1]" for name in list(signature(search).parameters)[4:])
)

PLAIN = Engine(search, 64, list, _same_rows, _zero_rows, _ranked_rows, _more_items)


def compiled(stop: Callable[[], bool], *, patient: bool = False) -> Engine | None:
    """The engine of numba, None where that is not installed, is not there yet, or when told to stop.

    The first call in a process takes half a second. The first on a machine takes about four, as the machine code has to
    be made: after a second the search goes on in plain Python meanwhile, unless it is patient. It is made in a thread
    of its own, so that this one can ask `stop` and take signals; a program does not end before it is done. numba keeps
    the code beside the source, or in the user's cache directory where that cannot be written; where neither can, it is
    made in every process.
    """
    starting = _starting()
    if starting is None:
        return None
    for _ in count() if patient else starting.polls:
        if wait([starting.engine], timeout=POLL_SECONDS).done or stop():
            break
    return starting.engine.result() if starting.engine.done() else None


def is_loaded() -> bool:
    """Whether the compiled engine is there already, and costs nothing more."""
    if _starting.cache_info().currsize == 0:
        return False
    starting = _starting()
    return starting is not None and starting.engine.done()


@dataclass(frozen=True, slots=True)
class _Starting:
    """The engine under way, and how often it is still waited for."""

    engine: Future[Engine]
    polls: Iterator[int]


@functools.cache
def _starting() -> _Starting | None:
    if importlib.util.find_spec("numba") is None:
        return None
    pool = ThreadPoolExecutor(max_workers=1)
    engine = pool.submit(_compile)
    pool.shutdown(wait=False)
    return _Starting(engine, iter(range(MOST_POLLS)))


def _compile() -> Engine:
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
        # The padding comes last, and stays.
        pieces = np.array([*order, len(order)], dtype=np.int64)
        rank = np.empty_like(pieces)
        rank[pieces] = np.arange(len(pieces))
        return pieces[np.sort(rank[rows], axis=1)]

    def more(items: Any) -> Any:
        return np.concatenate([items, np.zeros_like(items)])

    # With its types given, all is compiled here and now.
    try:
        compiled_search = numba.njit(SIGNATURE, cache=True)(search)
    except RuntimeError:
        compiled_search = numba.njit(SIGNATURE)(search)
    return Engine(compiled_search, 1024, column, table, zeros, ranked, more)


# Work in plain Python before numba is worth its start-up, and before it is worth the arrays when it runs already; a
# node is as much work as a section has pieces, about two microseconds for each.
WORK_BEFORE_START, WORK_BEFORE_ARRAYS = 200_000, 10_000
# What a search learns of where it fails is worth less to the next, by this factor.
FORGET = 16
# Memory is scaled below so many bits where sections are compared.
GRADE_BITS = 19


@dataclass(frozen=True, slots=True)
class Plan:
    """How a search goes: the pieces by priority, and the rule by which the next section is chosen (see kernel)."""

    order: Sequence[int]
    rule: int


@dataclass(frozen=True, slots=True)
class Found:
    """How a search ended: the offsets (none when it found nothing), whether it saw everything, and its nodes."""

    offsets: tuple[int, ...] | None
    exhausted: bool
    nodes: int


class Search:
    """All searches of one instance, whatever the capacity and the plan."""

    def __init__(self, instance: Instance) -> None:
        n = len(instance.sizes)
        step = grain(instance)
        paddings = [-size % step for size in instance.sizes]
        sizes = [size + padding for size, padding in zip(instance.sizes, paddings, strict=True)]
        members: list[list[int]] = [[] for _ in range(instance.sections)]
        crossing = [0] * instance.sections
        for i in range(n):
            for section in range(instance.first[i], instance.last[i] + 1):
                members[section].append(i)
            for section in range(instance.first[i], instance.last[i]):
                crossing[section] += 1
        near = [sorted(row) for row in neighbours(instance, n * n) or []]
        pins = instance.pins
        pinned = [
            sorted((j for j in row if pins[j] >= 0), key=pins.__getitem__) if pins[i] < 0 else []
            for i, row in enumerate(near)
        ]
        self.instance = instance
        self.nodes = 0
        # Where searches failed, by section: each hands a part of it to the next.
        self.failures = [0] * instance.sections
        self.plain = all(alignment == 1 for alignment in instance.alignments) and all(pin < 0 for pin in pins)
        self.members = members
        self.crossing = crossing
        self.paddings = [max(paddings[i] for i in row) for row in members]
        self.totals = [sum(sizes[i] for i in row) for row in members]
        twins = _twins(instance)
        self.lows = _lows(instance, sizes, twins, pinned)
        # The arrays of the kernel that stay as they are.
        self.columns = (instance.first, instance.last, [*sizes, 0], instance.alignments, [*pins, -1])
        self.tables = (near, pinned, [[i] for i in range(n)], members)
        self.floors = [min(self.lows[i] for i in row) for row in members]
        self.twins = twins
        self.fixed: dict[int, tuple[Any, ...]] = {}

    def engine(self, stop: Callable[[], bool]) -> Engine:
        """The engine that is worth while by now."""
        work = self.nodes * sum(map(len, self.members)) // len(self.members)
        if work < (WORK_BEFORE_ARRAYS if is_loaded() else WORK_BEFORE_START):
            return PLAIN
        return compiled(stop) or PLAIN

    def run(
        self, capacity: int, plan: Plan, node_limit: int, stop: Callable[[], bool], engine: Engine | None = None
    ) -> Found:
        """Look for a layout no higher than `capacity`, in units, for so many nodes."""
        instance = self.instance
        n = len(instance.sizes)
        top = [capacity - size for size in instance.sizes]
        ceiling = [capacity + padding for padding in self.paddings]
        low, floor = [*self.lows, NOWHERE], self.floors
        spare = [limit - total for limit, total in zip(ceiling, self.totals, strict=True)]
        if any(map(int.__gt__, self.lows, top)) or any(map(int.__gt__, floor, spare)):
            return Found(None, True, 0)
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
        by_now = [column(numbers) for numbers in (low, [0] * (n + 1), [-1] * n, floor, spare, self.crossing)]
        placed = by_now[2]
        tops = column(top)
        failures, grade = column(self.failures), column([0] * instance.sections)
        room = [0] * (16 * n + 8 * instance.sections)
        trail_what, trail_old = column(room), column(room)
        stack, ranges = engine.zeros(4 * n + 8, 5), engine.zeros(4 * instance.sections + 8, 5)
        # One range, of all sections; none follows, and no decision made it.
        ranges[0][:] = column([0, instance.sections - 1, -1, -1, 0])
        while True:
            budget = min(engine.slice, node_limit - int(state[NODES]))
            status = engine.search(
                budget, plan.rule, self.plain, scale, first, last, size, align, pin, tops, twin, near, pinned, alone,
                members, *by_now, failures, grade, trail_what, trail_old, stack, ranges, state,
            )  # fmt: skip
            nodes = int(state[NODES])
            if status == MORE_ROOM:
                trail_what, trail_old = engine.more(trail_what), engine.more(trail_old)
                stack, ranges = engine.more(stack), engine.more(ranges)
            elif status in (FOUND, EXHAUSTED) or nodes >= node_limit or stop():
                self.nodes += nodes
                self.failures = [int(count) // FORGET for count in failures]
                found = tuple(map(int, placed)) if status == FOUND else None
                return Found(found, status == EXHAUSTED, nodes)


def _twins(instance: Instance) -> list[int]:
    """The next piece with the same lifetime, size and alignment, n where there is none: their order is free."""
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
    """The least offset of each piece: clear of the pinned ones, and above its twins before it."""
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


# Nodes of the first searches, and per piece; those of each round have a quarter more. What succeeds does so soon.
FEWEST_NODES, RUN_NODES_PER_PIECE = 300, 3
# How far noise moves the key of a piece, as a fraction, in thousandths.
NOISE = 300

# A key orders pieces, the largest first, by size and by duration in sections.
Key = Callable[[int, int], int]


def _area(size: int, duration: int) -> int:
    return size * duration


def _duration(size: int, duration: int) -> int:
    return duration


def _size(size: int, duration: int) -> int:
    return size


def _long_area(size: int, duration: int) -> int:
    return size * duration * duration


# No pair is best everywhere: of these, one soon succeeds on every hard instance at hand.
PAIRS: tuple[tuple[Key, int], ...] = (
    (_area, LOWEST),
    (_duration, TIGHTEST),
    (_size, FEWEST),
    (_duration, LOWEST),
    (_duration, FEWEST),
    (_size, TIGHTEST),
    (_duration, FAILING),
    (_long_area, TIGHTEST),
)


def plans(instance: Instance, seed: int) -> Iterator[tuple[Plan, int]]:
    """Plans without end, each with the nodes that it may take: every pair as it is, then with noise and more nodes."""
    pieces = range(len(instance.sizes))
    durations = [last - first + 1 for first, last in zip(instance.first, instance.last, strict=True)]
    state = (seed * 2 + 1) * 0x9E3779B97F4A7C15 % 2**64
    limit = max(FEWEST_NODES, RUN_NODES_PER_PIECE * len(pieces))
    for round_ in count():
        for key, rule in PAIRS:
            values = [1000 * key(instance.sizes[i], durations[i]) for i in pieces]
            if round_:
                for i in pieces:
                    # xorshift64*, the same on every machine.
                    state ^= state >> 12
                    state = (state ^ state << 25) % 2**64
                    state ^= state >> 27
                    values[i] += values[i] // 1000 * ((state * 0x2545F4914F6CDD1D >> 32) % (2 * NOISE + 1) - NOISE)
            yield Plan(sorted(pieces, key=lambda i, values=values: (-values[i], i)), rule), limit  # type: ignore[misc]
        limit += limit // 4


# Nodes of the first attempt at the goal: by piece, and at most; each round has twice as many.
NODES_PER_PIECE, MOST_FIRST_NODES = 128, 32_000
# Attempts between the goal and the best known have this part of them.
STEP_SHARE = 8
# The last search of an attempt has at least this part of its nodes.
LONG_SHARE = 8
# A round ends where the best known is this close to what was tried in vain, as a part of it.
CLOSE = 500


class Minimiser:
    """The best offsets of an instance so far and the bound proven so far, in its units, and the attempts at better.

    offsets and bound may be replaced by better ones between two steps.
    """

    def __init__(self, instance: Instance, offsets: tuple[int, ...], bound: int, seed: int) -> None:
        self.search = Search(instance)
        self.offsets = offsets
        self.bound = bound
        self._seed = seed
        self._attempts = 0
        self._tried = 0
        # Attempts at the goal go on where the last one ended.
        self._plans = plans(instance, seed)
        self._nodes = min(MOST_FIRST_NODES, NODES_PER_PIECE * max(64, len(instance.sizes)))

    @property
    def nodes(self) -> int:
        """The nodes searched so far."""
        return self.search.nodes

    def step(self, goal: int, budget: NodeBudget, most: int | None = None) -> None:
        """One attempt at a lower layout: at the goal or the bound, or half-way between what failed and the best.

        most: the nodes that it may take at most.
        """
        goal = max(goal, self.bound)
        top = height(self.search.instance, self.offsets)
        capacity, nodes = goal, self._nodes
        if self._tried >= goal:
            capacity, nodes = (self._tried + top) // 2, self._nodes // STEP_SHARE
        self._attempts += 1
        series = self._plans if capacity == goal else plans(self.search.instance, self._seed + self._attempts)
        learned = self.search.failures
        found = self._attempt(series, capacity, nodes if most is None else min(nodes, most), budget)
        if capacity > goal:
            # What fails at one capacity says little of another.
            self.search.failures = learned
        if found.offsets is not None:
            self.offsets = found.offsets
            top = height(self.search.instance, self.offsets)
        elif found.exhausted:
            self.bound = self._tried = max(self.bound, capacity + 1)
        else:
            self._tried = capacity
        if self._tried >= goal and top - self._tried <= (1 if found.exhausted else max(1, top // CLOSE)):
            self._tried = 0
            self._nodes *= 1 if found.exhausted else 2

    def _attempt(self, series: Iterator[tuple[Plan, int]], capacity: int, nodes: int, budget: NodeBudget) -> Found:
        """Searches for a layout no higher than `capacity`, with so many nodes in all.

        Short ones from the portfolio, which find what there is; and a last long one, which sees that there is nothing.
        """
        long = nodes // LONG_SHARE
        for plan, limit in series:
            last = nodes <= limit + long
            allowed = budget.allowed(nodes if last else limit)
            if allowed <= 0 or budget.stop():
                break
            found = self.search.run(capacity, plan, allowed, budget.stop)
            budget.spend(found.nodes)
            nodes -= found.nodes
            if found.offsets is not None or found.exhausted:
                return found
            if last:
                break
        return Found(None, False, 0)
