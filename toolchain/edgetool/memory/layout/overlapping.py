"""Layouts of problems in which buffers may overlap: orders with first fit, a local search, and CP-SAT.

Two buffers that are live at the same time are disjoint if offset(a) - offset(b) >= size(b) or the other way round. An
overlap replaces one of the two distances by a smaller one, so that every stage works with a required distance for each
ordered pair instead of sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from edgetool.errors import InternalError
from edgetool.memory.layout.cp_sat import MAX_PEAK, NODES_PER_DETERMINISTIC_SECOND, available
from edgetool.memory.problem import Effort, Layout, LayoutProblem, NodeBudget, Proof

# Local search ends after this number of orders without a lower peak, per buffer.
ORDERS_PER_BUFFER = 40
# With more pairs, CP-SAT takes too long to build its model.
MAX_CP_SAT_PAIRS = 60_000


class _Draws:
    """Random numbers of a seed, the same on every machine: xorshift64."""

    def __init__(self, seed: int) -> None:
        # The first states of xorshift are poor when the seed is small: spread it.
        self._state = (2 * seed + 1) * 0x9E3779B97F4A7C15 % 2**64

    def below(self, count: int) -> int:
        """Return a number from 0 to count - 1."""
        x = self._state
        x ^= x << 13 & 0xFFFFFFFFFFFFFFFF
        x ^= x >> 7
        x ^= x << 17 & 0xFFFFFFFFFFFFFFFF
        self._state = x
        return (x >> 8) % count


@dataclass(frozen=True, slots=True)
class _Distances:
    """The buffers in units, and what live pairs require.

    near: for each buffer, the buffers that are live with it, each with the distance that it requires if it is above the
    other, and the distance if it is below.
    """

    sizes: tuple[int, ...]
    alignments: tuple[int, ...]
    pins: tuple[int | None, ...]
    near: tuple[tuple[tuple[int, int, int], ...], ...]
    unit: int

    def peak(self, offsets: Sequence[int]) -> int:
        """Return the peak of a layout in units."""
        return max((offset + size for offset, size in zip(offsets, self.sizes, strict=True)), default=0)


def solve_overlapping(
    problem: LayoutProblem,
    effort: Effort,
    lower_bound: int,
    *,
    capacity: int = 0,
    greedy_only: bool = False,
    improved: Callable[[Layout], None] | None = None,
) -> Layout:
    """Return the lowest layout found within the effort, with a proof if it meets the bound or CP-SAT closes the gap.

    Args:
        problem: The buffers and their overlaps. Buffers with an alias are not supported.
        effort: The limits of the search.
        lower_bound: A bound on every layout of the problem, in bytes.
        capacity: The peak in bytes at which the search stops.
        greedy_only: Whether to try the first orders only.
        improved: Receives each better layout.

    Raises:
        InternalError: A buffer has an alias.
    """
    distances = _distances(problem)
    lower_bound = -(-lower_bound // distances.unit) * distances.unit  # as every peak is
    goal = max(lower_bound, capacity) // distances.unit
    budget = NodeBudget(effort)
    best = _search(distances, goal, budget, _Draws(effort.seed), greedy_only, _reporter(problem, distances, improved))
    bound = lower_bound
    proof: Proof = "none"
    if distances.peak(best) * distances.unit > max(bound, capacity) and not greedy_only and not budget.over:
        best, proven = _close_gap(distances, best, bound // distances.unit, budget)
        if proven:
            bound, proof = distances.peak(best) * distances.unit, "cp-sat"
    peak = distances.peak(best) * distances.unit
    if peak == lower_bound:
        bound, proof = lower_bound, "bound met"
    return _layout(problem, distances, best, bound, proof)


def _layout(problem: LayoutProblem, distances: _Distances, offsets: Sequence[int], bound: int, proof: Proof) -> Layout:
    in_bytes = tuple(offset * distances.unit for offset in offsets)
    ends = (o + b.aligned_bytes for o, b in zip(in_bytes, problem.buffers, strict=True) if b.size_bytes)
    return Layout(in_bytes, max(ends, default=0), bound, proof)


def _reporter(
    problem: LayoutProblem, distances: _Distances, improved: Callable[[Layout], None] | None
) -> Callable[[Sequence[int]], None]:
    """Return a function that passes offsets on as a layout without a bound."""
    if improved is None:
        return lambda offsets: None
    return lambda offsets: improved(_layout(problem, distances, offsets, 0, "none"))


def _distances(problem: LayoutProblem) -> _Distances:
    """Return the problem in the largest unit that divides all sizes and alignments."""
    buffers = problem.buffers
    if any(buffer.alias is not None for buffer in buffers):
        raise InternalError("buffers with an alias cannot overlap others")
    reserved = [buffer.aligned_bytes for buffer in buffers]
    pins = [buffer.pinned or 0 for buffer in buffers]
    unit = gcd(*reserved, *(buffer.alignment for buffer in buffers), *pins) or 1
    required = {(i, j): reserved[j] for i in range(len(buffers)) for j in range(len(buffers)) if i != j}
    for overlap in problem.overlaps:
        pair = overlap.first, overlap.second
        required[pair] = min(required[pair], overlap.min_distance)
    near: list[list[tuple[int, int, int]]] = [[] for _ in buffers]
    for (i, j), above in required.items():
        if reserved[i] and reserved[j] and buffers[i].lifetime.overlaps(buffers[j].lifetime):
            below = required[j, i]
            up, down = -(-above // unit), -(-below // unit)
            if up + down > 1:  # otherwise every pair of offsets is valid
                near[i].append((j, up, down))
    return _Distances(
        sizes=tuple(size // unit for size in reserved),
        alignments=tuple(max(1, buffer.alignment // unit) for buffer in buffers),
        pins=tuple(None if buffer.pinned is None else buffer.pinned // unit for buffer in buffers),
        near=tuple(tuple(items) for items in near),
        unit=unit,
    )


def _first_fit(distances: _Distances, order: Sequence[int]) -> list[int]:
    """Return the offsets if each buffer in turn gets the lowest offset that those before it allow."""
    offsets = [-1] * len(order)
    for i in order:
        pin = distances.pins[i]
        if pin is not None:
            offsets[i] = pin
    for i in order:
        if offsets[i] >= 0:
            continue
        # Offsets strictly between the two ends are forbidden.
        forbidden = sorted((offsets[j] - down, offsets[j] + up) for j, up, down in distances.near[i] if offsets[j] >= 0)
        alignment, offset = distances.alignments[i], 0
        for low, high in forbidden:
            if low < offset < high:
                offset = -(-high // alignment) * alignment
        offsets[i] = offset
    return offsets


def _search(
    distances: _Distances,
    goal: int,
    budget: NodeBudget,
    draws: _Draws,
    greedy_only: bool,
    improved: Callable[[Sequence[int]], None],
) -> list[int]:
    """Return the offsets of the best order: first a few natural ones, then local changes to the best."""
    count = len(distances.sizes)
    weights = [sum(distances.sizes[j] for j, _, _ in distances.near[i]) + distances.sizes[i] for i in range(count)]
    orders = [
        sorted(range(count), key=lambda i: -distances.sizes[i]),
        sorted(range(count), key=lambda i: (-weights[i], -distances.sizes[i])),
        list(range(count)),
        list(range(count - 1, -1, -1)),
    ]
    best: list[int] = []
    best_order: list[int] = []
    best_peak = -1
    for order in orders:
        offsets = _first_fit(distances, order)
        budget.spend(count)
        if best_peak < 0 or distances.peak(offsets) < best_peak:
            best, best_order, best_peak = offsets, order, distances.peak(offsets)
            improved(best)
    stale = 0
    while not greedy_only and best_peak > goal and stale < ORDERS_PER_BUFFER * count and not budget.over:
        order = _changed(distances, best_order, best, draws)
        offsets = _first_fit(distances, order)
        budget.spend(count)
        peak = distances.peak(offsets)
        stale = 0 if peak < best_peak else stale + 1
        if peak < best_peak:
            improved(offsets)
        if peak <= best_peak:
            best, best_order, best_peak = offsets, order, peak
    return best


def _changed(distances: _Distances, order: list[int], offsets: list[int], draws: _Draws) -> list[int]:
    """Return the order with a buffer at the top, or any, moved forward."""
    peak = distances.peak(offsets)
    top = [i for i in order if offsets[i] + distances.sizes[i] == peak]
    candidates = top if draws.below(2) else order
    moved = candidates[draws.below(len(candidates))]
    result = [i for i in order if i != moved]
    result.insert(draws.below(order.index(moved) + 1), moved)
    return result


def _close_gap(distances: _Distances, offsets: list[int], bound: int, budget: NodeBudget) -> tuple[list[int], bool]:
    """Return the offsets that CP-SAT finds below a layout, and whether no layout is lower."""
    pairs = [(i, j, up, down) for i, items in enumerate(distances.near) for j, up, down in items if i < j]
    peak = distances.peak(offsets)
    if not available() or len(pairs) > MAX_CP_SAT_PAIRS or peak > MAX_PEAK:
        return offsets, False
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    top = model.new_int_var(bound, peak, "")
    starts: list[Any] = []
    columns = (distances.sizes, distances.alignments, distances.pins, offsets)
    for size, alignment, pin, offset in zip(*columns, strict=True):
        step = model.new_int_var(0, max(0, peak - size) // alignment, "")
        model.add_hint(step, offset // alignment)
        start = step * alignment
        if pin is not None:
            model.add(start == pin)
        model.add(start + size <= top)
        starts.append(start)
    for i, j, up, down in pairs:
        is_above = model.new_bool_var("")
        model.add(starts[i] - starts[j] >= up).only_enforce_if(is_above)
        model.add(starts[j] - starts[i] >= down).only_enforce_if(is_above.negated())
    model.minimize(top)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.catch_sigint_signal = False
    limit = budget.left if budget.left is not None else NODES_PER_DETERMINISTIC_SECOND * 10
    solver.parameters.max_deterministic_time = limit / NODES_PER_DETERMINISTIC_SECOND
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return offsets, False
    found = [int(solver.value(start)) for start in starts]
    better = found if distances.peak(found) < peak else offsets
    return better, status == cp_model.OPTIMAL
