"""Rows in several memories: the cheapest choice of a memory for each tensor and for each operator's scratch.

All rows of a tensor are in one memory, and so is the scratch of an operator at all of its firings: these are the items
to place. There are tens of them where a plan has thousands of rows, and tables need one number for each. The schedule
is that of a plan in one memory. An item costs something else in each memory, such as the cycles that the core waits for
its bytes.

The relaxation asks only that the bytes that are live at one moment in one memory are no more than its size, without the
most that a step can share there. It goes from the first moment to the last: for each choice of the live items, the
cheapest choice of all earlier ones is kept, of no more than a number of them. Its cost is a bound on every choice. If
the rows of the cheapest one cannot be packed in some memory, those for slightly smaller memories are tried, and then
one item after the other moves to where it costs less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from edgetool.memory.problem import ArenaPart, LowestLayout, Proof, SeveralLayout, aligned, never
from edgetool.memory.several import NoChoice
from edgetool.memory.streaming.packing import SCRATCH_ALIGNMENT, Packing, pack_rows, with_few_places
from edgetool.memory.streaming.planner import WORD, place_unit
from edgetool.memory.streaming.problem import (
    NO_SCRATCH,
    Firing,
    PlacedRows,
    RowPlan,
    RowProblem,
    SeveralRows,
    steps_of,
)
from edgetool.memory.streaming.schedule import row_lives, saving

# The choices of live items that the relaxation keeps.
STATES = 2_000
# The shares of the memories' sizes for which a choice is tried, until its rows can be packed in all of each.
SHARES = (1.0, 0.97, 0.94, 0.9, 0.85, 0.8, 0.7)
# How far a memory that shall hold few bytes grows from its bound towards a size that is enough, until rows fit.
GROWTH = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
ATTEMPTS = 6  # in vain, to move an item to a memory where it costs less
PASSES = 20  # of packing

Numbers = npt.NDArray[np.int64]


def place_rows(several: SeveralRows, *, stopped: Callable[[], bool] = never) -> PlacedRows | NoChoice:
    """Return the cheapest choice that is found, packed as low as possible in each memory.

    It is never more expensive than all items in one memory, if the plan fits there.

    Args:
        several: What is to be placed.
        stopped: Whether to end the search with the best choice so far.
    """
    search = _Search(several, stopped)
    found = search.cheapest(_sizes(several))
    return found if isinstance(found, NoChoice) else search.placed(found)


def place_rows_lowest(
    several: SeveralRows, memory: int, *, stopped: Callable[[], bool] = never
) -> PlacedRows | NoChoice:
    """Return the cheapest choice that is found among those with few bytes in a memory.

    The relaxation has a smallest size of the memory for which there is a choice, found by bisection. From there on, the
    memory grows until the rows of a choice can be packed. The arguments are those of place_rows.
    """
    anything = replace(several, costs=tuple(tuple(None if c is None else 0 for c in row) for row in several.costs))
    sizes = _sizes(several)
    search = _Search(anything, stopped)
    found = search.cheapest(sizes)
    if isinstance(found, NoChoice):
        return found
    most, proven = found.choice.heights[memory], 0
    low, high = 0, most
    while low < high and not stopped():
        middle = (low + high) // 2
        relaxed = relax(search.live, anything.costs, [*sizes[:memory], middle, *sizes[memory + 1 :]])
        if relaxed.memories is not None:
            high = middle
            continue
        low = middle + 1
        if relaxed.is_exact:
            proven = low
    cheapest = _Search(several, stopped)
    for share in GROWTH:
        size = min(most, aligned(int(low + share * (most - low)), WORD))
        again = cheapest.cheapest([*sizes[:memory], size, *sizes[memory + 1 :]])
        if not isinstance(again, NoChoice):
            found = again
            break
    else:
        cost = sum(costs[chosen] or 0 for costs, chosen in zip(several.costs, found.choice.memories, strict=True))
        found = replace(found, choice=replace(found.choice, cost=cost, lower_bound=0, proof="none"))
    placed = cheapest.placed(found)
    height = placed.choice.heights[memory]
    bound = min(aligned(proven, WORD), height)
    proof: Proof = "none" if bound < height else "search exhausted" if height else "bound met"
    return replace(placed, lowest=LowestLayout(memory, placed.choice, bound, proof))


def _sizes(several: SeveralRows) -> list[int]:
    """Return the bytes of each memory that packings can have, which are whole words."""
    return [memory.size_bytes // WORD * WORD for memory in several.memories]


@dataclass(frozen=True, slots=True)
class _Packed:
    """A choice of memories, and a packing of what is in each of them."""

    choice: SeveralLayout
    packings: tuple[Packing, ...]


class _Search:
    def __init__(self, several: SeveralRows, stopped: Callable[[], bool]) -> None:
        self.several, self.stopped = several, stopped
        self.live = live_items(several.problem, several.plan.schedule)
        self.unit = place_unit(several.plan.memory_bytes)
        self.packed: dict[tuple[int, ...], Packing] = {}

    def cheapest(self, sizes: Sequence[int]) -> _Packed | NoChoice:
        """Return the cheapest choice that can be packed in memories of these sizes."""
        costs, best = self.several.costs, self.together(sizes)
        least = sum(min((cost for cost in row if cost is not None), default=0) for row in costs)
        if best is not None and best.choice.cost == least:
            return replace(best, choice=replace(best.choice, lower_bound=least, proof="bound met"))
        root = relax(self.live, costs, sizes)
        if root.memories is None and root.is_exact:
            return NoChoice(proven=True)
        relaxed = root
        for share in SHARES:
            if share < 1:
                relaxed = relax(self.live, costs, [int(size * share) for size in sizes])
            if relaxed.memories is None or (best is not None and best.choice.cost <= relaxed.bound) or self.stopped():
                break
            found = self.pack(relaxed.memories, sizes)
            if found is not None:
                best = found if best is None or found.choice.cost < best.choice.cost else best
                break
        if best is None:
            return NoChoice(proven=False)
        best = self.improved(best, sizes, root.bound)
        proof: Proof = "bound met" if best.choice.cost == root.bound else "none"
        return replace(best, choice=replace(best.choice, lower_bound=root.bound, proof=proof))

    def improved(self, best: _Packed, sizes: Sequence[int], bound: int) -> _Packed:
        """Return a choice in which items have moved to where they cost less, those that gain the most first."""
        gains = [
            (cost - (row[best.choice.memories[item]] or 0), item, memory)
            for item, row in enumerate(self.several.costs)
            for memory, cost in enumerate(row)
            if cost is not None
        ]
        attempts = ATTEMPTS
        for gain, item, memory in sorted(gains):
            memories = best.choice.memories
            if gain >= 0 or not attempts or best.choice.cost <= bound or self.stopped():
                break
            moved = (*memories[:item], memory, *memories[item + 1 :])
            live = self.live[[index for index, chosen in enumerate(moved) if chosen == memory]].sum(axis=0)
            cost = sum(row[chosen] or 0 for row, chosen in zip(self.several.costs, moved, strict=True))
            if live.max() > sizes[memory] or cost >= best.choice.cost:
                continue
            found = self.pack(moved, sizes)
            attempts -= found is None
            best = found or best
        return best

    def together(self, sizes: Sequence[int]) -> _Packed | None:
        """Return the cheapest choice of one memory for all items, None if the plan fits in none."""
        choices = [
            self.pack((memory,) * len(self.several.costs), sizes)
            for memory, size in enumerate(sizes)
            if self.several.plan.memory_bytes <= size and all(row[memory] is not None for row in self.several.costs)
        ]
        return min((item for item in choices if item is not None), key=lambda item: item.choice.cost, default=None)

    def pack(self, memories: tuple[int, ...], sizes: Sequence[int]) -> _Packed | None:
        """Return a choice with its packings, None if those of a memory do not fit in it."""
        packings = []
        for memory, size in enumerate(sizes):
            packing = self.packing(memories, memory, size)
            if aligned(packing.memory_bytes, WORD) > size:
                return None
            packings.append(packing)
        cost = sum(row[memory] or 0 for row, memory in zip(self.several.costs, memories, strict=True))
        heights = tuple(aligned(packing.memory_bytes, WORD) for packing in packings)
        return _Packed(SeveralLayout(memories, (), heights, cost, 0, "none"), tuple(packings))

    def packing(self, memories: tuple[int, ...], memory: int, target: int) -> Packing:
        """Return a packing of what is in a memory, as low as the target if one is found."""
        items = tuple(index for index, chosen in enumerate(memories) if chosen == memory)
        before = self.packed.get(items)
        if before is None:
            before = self.packed[items] = rest_of(self.several.problem, self.several.plan, set(items))
        if before.memory_bytes <= target or self.stopped():
            return before
        part = part_of(self.several.problem, set(items))
        found = pack_rows(part, self.several.plan.schedule, target, unit=self.unit, passes=PASSES, stopped=self.stopped)
        if found.memory_bytes < before.memory_bytes:
            self.packed[items] = with_few_places(part, self.several.plan.schedule, found, unit=self.unit)
        return self.packed[items]

    def placed(self, found: _Packed) -> PlacedRows:
        """Return the plan of a choice, with lower packings where the search finds them: its own only fit."""
        several, memories = self.several, found.choice.memories
        packings = []
        for memory in range(len(several.memories)):
            items = [index for index, chosen in enumerate(memories) if chosen == memory]
            peak = aligned(int(self.live[items].sum(axis=0).max(initial=0)), WORD)
            # All rows in one memory are as low as their plan.
            is_all = not self.live[[index for index, chosen in enumerate(memories) if chosen != memory]].any()
            packings.append(found.packings[memory] if is_all else self.packing(memories, memory, peak))
        alignment = max([SCRATCH_ALIGNMENT, *(tensor.alignment for tensor in several.problem.tensors)])
        parts: list[ArenaPart] = []
        starts, end = [], 0
        for item, packing in zip(several.memories, packings, strict=True):
            starts.append(aligned(end, alignment))
            if packing.memory_bytes:
                parts.append(ArenaPart(item.name, starts[-1], aligned(packing.memory_bytes, WORD)))
                end = starts[-1] + parts[-1].size_bytes
        offsets, scratch = _joined(several.problem, memories, packings, starts)
        plan = replace(several.plan, offsets=offsets, scratch=scratch, memory_bytes=end, parts=tuple(parts))
        lowest = _lowest_offsets(several.problem, plan, [starts[memory] for memory in memories])
        heights = tuple(aligned(packing.memory_bytes, WORD) for packing in packings)
        return PlacedRows(plan, replace(found.choice, offsets=lowest, heights=heights))


def _joined(
    problem: RowProblem, memories: Sequence[int], packings: Sequence[Packing], starts: Sequence[int]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Return the offsets of all rows and of all scratch, with the memories one behind the other."""
    offsets: list[int] = []
    rows = [iter(packing.offsets) for packing in packings]
    count = len(problem.tensors)
    for tensor, memory in zip(problem.tensors, memories[:count], strict=True):
        offsets += [starts[memory] + next(rows[memory]) for _ in range(tensor.rows)]
    scratch = tuple(
        tuple(place if place == NO_SCRATCH else starts[memory] + place for place in packings[memory].scratch[number])
        for number, memory in enumerate(memories[count:])
    )
    return tuple(offsets), scratch


def _lowest_offsets(problem: RowProblem, plan: RowPlan, starts: Sequence[int]) -> tuple[int, ...]:
    """Return the lowest offset of each item in its memory. starts: where the memory of each begins."""
    rows = [plan.offsets[problem.first_row(i) : problem.first_row(i) + t.rows] for i, t in enumerate(problem.tensors)]
    scratch = [[place for place in places if place != NO_SCRATCH] for places in plan.scratch]
    return tuple(min(places, default=start) - start for places, start in zip([*rows, *scratch], starts, strict=True))


def part_of(problem: RowProblem, items: set[int]) -> RowProblem:
    """Return the problem of some of the tensors and of the scratch of some of the operators.

    items: the tensors, and the operators behind them. All operators fire as before.
    """
    count = len(problem.tensors)
    kept = [index for index in range(count) if index in items]
    numbers: dict[int, int] = {}
    for index in kept:
        for row in problem.rows_of(index):
            numbers[row] = len(numbers)

    def inside(firing: Firing, *, has_scratch: bool) -> Firing:
        """Return the firing without what is in other memories. Distances count from the first row that it writes."""
        shares = bool(firing.writes) and firing.writes[0] in numbers
        return Firing(
            tuple(numbers[row] for row in firing.reads if row in numbers),
            tuple(numbers[row] for row in firing.writes if row in numbers),
            tuple((numbers[row], distance) for row, distance in firing.overlaps if shares and row in numbers),
            firing.scratch_bytes if has_scratch else 0,
        )

    operators = tuple(
        replace(item, firings=tuple(inside(firing, has_scratch=count + number in items) for firing in item.firings))
        for number, item in enumerate(problem.operators)
    )
    return replace(problem, tensors=tuple(problem.tensors[index] for index in kept), operators=operators)


def rest_of(problem: RowProblem, plan: RowPlan, items: set[int]) -> Packing:
    """Return the packing that is left of a plan if only some items remain, as for part_of."""
    count = len(problem.tensors)
    offsets: list[int] = []
    end = 0
    for index, tensor in enumerate(problem.tensors):
        if index in items:
            rows = problem.rows_of(index)
            offsets += plan.offsets[rows.start : rows.stop]
            end = max([end, *(offset + tensor.row_bytes for offset in offsets[len(offsets) - tensor.rows :])])
    scratch: list[tuple[int, ...]] = []
    for number, (operator, places) in enumerate(zip(problem.operators, plan.scratch, strict=True)):
        scratch.append(places if count + number in items else ())
        used = zip(operator.firings, scratch[-1], strict=False)
        end = max([end, *(place + firing.scratch_bytes for firing, place in used if firing.scratch_bytes)])
    return Packing(tuple(offsets), tuple(scratch), end)


def live_items(problem: RowProblem, schedule: Sequence[int]) -> Numbers:
    """Return the bytes of each item that are live at each moment, without the most that they can share with others.

    The first moment is before the first step, where only given rows are live, and the last one behind the last step.
    What a step shares counts for what it writes.
    """
    count = len(problem.tensors)
    first, last = (np.array(steps, np.int64) for steps in row_lives(problem, tuple(schedule)))
    sizes, tensor_of = np.array(problem.row_sizes(), np.int64), np.array(problem.tensor_of_rows(), np.int64)
    change = np.zeros((count + len(problem.operators), len(schedule) + 3), np.int64)
    exist = np.flatnonzero(first <= last)
    np.add.at(change, (tensor_of[exist], first[exist] + 1), sizes[exist])
    np.add.at(change, (tensor_of[exist], last[exist] + 2), -sizes[exist])
    live: Numbers = change.cumsum(axis=1)[:, :-1]
    for step, (number, firing) in enumerate(steps_of(problem, tuple(schedule))):
        live[count + number, step + 1] = firing.scratch_bytes
        new = sum(int(sizes[row]) for row in firing.writes if first[row] == step)
        shared = sum(saving(int(sizes[row]), new, d) for row, d in firing.overlaps if last[row] == step)
        if firing.writes:
            live[tensor_of[firing.writes[0]], step + 1] -= min(new, shared)
    return live


@dataclass(frozen=True, slots=True)
class Relaxed:
    """The cheapest choice of the relaxation, None if there is none, and a bound on the cost of every choice.

    is_exact: whether the bound is that of the relaxation, so that None means that no choice exists.
    """

    memories: tuple[int, ...] | None
    bound: int
    is_exact: bool


def relax(live: Numbers, costs: Sequence[Sequence[int | None]], sizes: Sequence[int], states: int = STATES) -> Relaxed:
    """Return the cheapest choice in which the live bytes of each memory fit in it at each moment.

    Args:
        live: The bytes of each item at each moment.
        costs: The cost of each item in each memory, None where it cannot be.
        sizes: The sizes of the memories.
        states: How many choices of live items are kept at each moment, the cheapest ones.
    """
    if not all(any(cost is not None for cost in row) for row in costs):
        return Relaxed(None, 0, is_exact=True)
    # Items without bytes go where they cost the least.
    least = [min((cost, memory) for memory, cost in enumerate(row) if cost is not None) for row in costs]
    fixed = sum(cost for cost, _ in least)
    chosen = [memory for _, memory in least]
    if not live.any():
        return Relaxed(tuple(chosen), fixed, is_exact=True)
    moments = _different(live)
    starts: dict[int, list[int]] = {}
    ends: dict[int, int] = {}
    for item in range(len(live)):
        at = np.flatnonzero(live[item, moments])
        if len(at):
            starts.setdefault(int(at[0]), []).append(item)
            ends[item] = int(at[-1])
    present: list[int] = []
    keys = np.zeros((1, 0), np.int8)  # the memory of each present item in each state
    extra = np.zeros(1, np.int64)  # the cost of each state, beyond the least
    last = np.zeros(1, np.int64)  # which of the states with the latest item it comes from
    added: list[tuple[int, Numbers, npt.NDArray[np.int8]]] = []  # items, the states before, and memories
    limits, dropped = np.array(sizes, np.int64), None
    for position, moment in enumerate(moments):
        column = live[:, moment]
        staying = [i for i, item in enumerate(present) if ends[item] >= position]
        if len(staying) < len(present):
            present = [present[i] for i in staying]
            keys, extra, last = _merged(keys[:, staying], extra, last)
        weights = column[present]
        used = np.stack([(keys == memory) @ weights for memory in range(len(sizes))], axis=1)
        fits = (used <= limits).all(axis=1)
        keys, extra, last, used = keys[fits], extra[fits], last[fits], used[fits]
        for item in starts.get(position, ()):
            parents, memories, more = [], [], []
            for memory, cost in enumerate(costs[item]):
                if cost is not None:
                    possible = np.flatnonzero(used[:, memory] + column[item] <= limits[memory])
                    parents.append(possible)
                    memories.append(np.full(len(possible), memory, np.int8))
                    more.append(extra[possible] + cost - least[item][0])
            parent, memory_of, extra = np.concatenate(parents), np.concatenate(memories), np.concatenate(more)
            if len(extra) > states:
                order = extra.argsort(kind="stable")
                lost = int(extra[order[states]])
                dropped = lost if dropped is None else min(dropped, lost)
                order = order[:states]
                parent, memory_of, extra = parent[order], memory_of[order], extra[order]
            added.append((item, last[parent], memory_of))
            keys = np.concatenate([keys[parent], memory_of[:, None]], axis=1)
            used = used[parent]
            used[np.arange(len(parent)), memory_of] += column[item]
            last = np.arange(len(parent))
            present.append(item)
        if not len(extra):
            return Relaxed(None, fixed + (dropped or 0), is_exact=dropped is None)
    best = int(extra.argmin())
    state = int(last[best])
    for item, before, memory_of in reversed(added):
        chosen[item] = int(memory_of[state])
        state = int(before[state])
    bound = int(extra[best]) if dropped is None else min(int(extra[best]), dropped)
    return Relaxed(tuple(chosen), fixed + bound, is_exact=dropped is None)


def _merged(keys: npt.NDArray[np.int8], extra: Numbers, last: Numbers) -> tuple[npt.NDArray[np.int8], Numbers, Numbers]:
    """Return the cheapest of all states with equal keys."""
    order = extra.argsort(kind="stable")
    if not keys.shape[1]:
        return keys[order[:1]], extra[order[:1]], last[order[:1]]
    _, firsts = np.unique(keys[order], axis=0, return_index=True)
    kept = order[np.sort(firsts)]
    return keys[kept], extra[kept], last[kept]


def _different(live: Numbers) -> list[int]:
    """Return the moments in order, without those at which no item has more live bytes than at another one beside it."""
    moments: list[int] = []
    for moment in range(live.shape[1]):
        if moments and (live[:, moment] <= live[:, moments[-1]]).all():
            continue
        while moments and (live[:, moments[-1]] <= live[:, moment]).all():
            moments.pop()
        moments.append(moment)
    _, firsts = np.unique(live[:, moments], axis=1, return_index=True)
    return [moments[i] for i in np.sort(firsts)]
