"""Rows in several memories: every placement is valid, and its bound holds for all choices that can be packed."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.errors import InternalError
from edgetool.memory.problem import ArenaPart, LowestLayout, Memory
from edgetool.memory.several import NoChoice
from edgetool.memory.streaming.checker import require_valid_placed_rows, row_plan_problems
from edgetool.memory.streaming.packing import pack_rows
from edgetool.memory.streaming.planner import plan_rows
from edgetool.memory.streaming.problem import Firing, PlacedRows, RowOperator, RowProblem, RowTensor, SeveralRows
from edgetool.memory.streaming.several import live_items, part_of, place_rows, place_rows_lowest, relax
from tests.memory.streaming.problems import minimal_problem, row_problems

MOST_CHOICES = 300


@st.composite
def instances(draw: st.DrawFn, most_operators: int = 3) -> SeveralRows:
    """A plan of rows, and one to three memories of which some are too small for all of it."""
    planned = plan_rows(draw(row_problems(most_operators, 3)), passes=5)
    need = planned.plan.memory_bytes
    count = draw(st.integers(1, 3))
    memories = tuple(Memory(f"m{i}", draw(st.integers(0, need + 4))) for i in range(count))
    items = len(planned.problem.tensors) + len(planned.problem.operators)
    cost = st.one_of(st.integers(0, 9), st.integers(0, 9), st.none())
    costs = tuple(
        row if any(c is not None for c in row) else (0, *row[1:])
        for row in (tuple(draw(cost) for _ in memories) for _ in range(items))
    )
    return SeveralRows(planned.problem, planned.plan, memories, costs)


def packable(several: SeveralRows) -> list[tuple[int, list[int]]]:
    """Return the cost and the heights of each choice whose rows are packed in the memories by the search for offsets.

    Nothing if there are too many choices. Items that are never live are where they cost the least.
    """
    live = live_items(several.problem, several.plan.schedule).any(axis=1)
    least = [min((c, m) for m, c in enumerate(row) if c is not None)[1] for row in several.costs]
    allowed = [
        [m for m, cost in enumerate(row) if cost is not None] if is_live else [where]
        for row, is_live, where in zip(several.costs, live, least, strict=True)
    ]
    if np.prod([len(item) for item in allowed]) > MOST_CHOICES:
        return []
    found = []
    for choice in product(*allowed):
        heights = []
        for memory, item in enumerate(several.memories):
            part = part_of(several.problem, {i for i, chosen in enumerate(choice) if chosen == memory})
            packing = pack_rows(part, several.plan.schedule, item.size_bytes, passes=5)
            heights.append(-(-packing.memory_bytes // 4) * 4)
        if all(height <= item.size_bytes for height, item in zip(heights, several.memories, strict=True)):
            found.append((sum(row[m] or 0 for row, m in zip(several.costs, choice, strict=True)), heights))
    return found


@settings(max_examples=60, deadline=None)
@given(instances())
def test_placements_are_valid_and_bounds_hold(several: SeveralRows) -> None:
    placed = place_rows(several)
    choices = packable(several)
    if isinstance(placed, NoChoice):
        assert not (placed.proven and choices)
        return
    require_valid_placed_rows(several, placed)
    choice = placed.choice
    for memory, item in enumerate(several.memories):
        if several.plan.memory_bytes <= item.size_bytes and all(row[memory] is not None for row in several.costs):
            assert choice.cost <= sum(row[memory] or 0 for row in several.costs)
    assert all(choice.lower_bound <= cost for cost, _ in choices)


def test_a_memory_of_half_a_word_has_room_for_nothing() -> None:
    tensors = (RowTensor("input", 1, 1, alignment=4, kept=True), RowTensor("output", 1, 0))
    operators = (RowOperator("feed", (Firing((), (0,)),)), RowOperator("ADD", (Firing((0,), (1,)),)))
    planned = plan_rows(RowProblem(tensors, operators))
    # The byte of the input costs less where it does not fit.
    memories, costs = (Memory("large", 4), Memory("small", 2)), ((1, 0), (0, 0), (0, None), (None, 0))
    placed = place_rows(SeveralRows(planned.problem, planned.plan, memories, costs))
    assert not isinstance(placed, NoChoice)
    assert (placed.choice.heights, placed.choice.cost, placed.choice.proof) == ((4, 0), 1, "bound met")


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_the_fewest_bytes_of_a_memory_have_a_bound(data: st.DataObject) -> None:
    several = data.draw(instances())
    memory = data.draw(st.integers(0, len(several.memories) - 1))
    placed = place_rows_lowest(several, memory)
    choices = packable(several)
    if isinstance(placed, NoChoice):
        assert not (placed.proven and choices)
        return
    require_valid_placed_rows(several, placed)
    assert placed.lowest is not None
    assert all(placed.lowest.lower_bound_bytes <= heights[memory] for _, heights in choices)
    anywhere = place_rows(several)
    assert not isinstance(anywhere, NoChoice)


@settings(max_examples=25, deadline=None)
@given(instances())
def test_few_states_give_no_better_choice_and_a_bound(several: SeveralRows) -> None:
    live, sizes = live_items(several.problem, several.plan.schedule), [m.size_bytes for m in several.memories]
    all_states, few = (relax(live, several.costs, sizes, states) for states in (100_000, 2))
    assert all_states.is_exact
    if few.memories is not None:
        assert all_states.memories is not None
        assert (
            few.bound
            <= all_states.bound
            <= sum(row[m] or 0 for row, m in zip(several.costs, few.memories, strict=True))
        )
    else:
        assert not few.is_exact or all_states.memories is None


def rings() -> SeveralRows:
    """Two tensors of four rows, of which two are live at a time, and scratch; one memory has room for one of them."""
    tensors = (
        RowTensor("a", 4, 8),
        RowTensor("b", 4, 8),
        RowTensor("c", 4, 2, group=4, kept=True),
    )
    operators = (
        RowOperator("feed", tuple(Firing((), (row,)) for row in range(4))),
        RowOperator("first", tuple(Firing((max(0, i - 1), i), (4 + i,)) for i in range(4))),
        RowOperator("second", tuple(Firing((4 + max(0, i - 1), 4 + i), (8 + i,), (), 4) for i in range(4))),
    )
    planned = plan_rows(minimal_problem(*tensors, operators=operators))
    memories = (Memory("fast", 20), Memory("slow", 100))
    costs = ((0, 40), (0, 60), (0, 8), (0, 0), (0, 0), (0, 1))
    return SeveralRows(planned.problem, planned.plan, memories, costs)


def test_what_costs_the_most_has_the_fast_memory() -> None:
    several = rings()
    placed = place_rows(several)
    assert isinstance(placed, PlacedRows)
    require_valid_placed_rows(several, placed)
    assert placed.choice.memories[:3] == (1, 0, 1)
    assert [part.memory for part in placed.plan.parts] == ["fast", "slow"]
    assert placed.choice.optimal
    lowest = place_rows_lowest(several, 1)
    assert isinstance(lowest, PlacedRows)
    assert isinstance(lowest.lowest, LowestLayout)
    assert lowest.lowest.height == lowest.plan.parts[-1].size_bytes


def mutants(several: SeveralRows, placed: PlacedRows) -> dict[str, tuple[SeveralRows, PlacedRows]]:
    plan, choice = placed.plan, placed.choice
    first, second = plan.parts
    other = tuple(1 - memory for memory in choice.memories[:1]) + choice.memories[1:]
    moved = (second.start + second.size_bytes - 8, *plan.offsets[1:])
    back = list(plan.offsets)
    back[0] = first.start if choice.memories[0] else second.start
    sizes = tuple(Memory(memory.name, 8) for memory in several.memories)
    forbidden = tuple((None, None) if i == 0 else row for i, row in enumerate(several.costs))
    longer = (first, replace(second, size_bytes=second.size_bytes + 4))
    return {
        "a row in another part": (several, replace(placed, plan=replace(plan, offsets=tuple(back)))),
        "a row on another one": (several, replace(placed, plan=replace(plan, offsets=moved))),
        "another memory": (several, replace(placed, choice=replace(choice, memories=other))),
        "another cost": (several, replace(placed, choice=replace(choice, cost=choice.cost + 1))),
        "too high a bound": (several, replace(placed, choice=replace(choice, lower_bound=choice.cost + 1))),
        "small memories": (replace(several, memories=sizes), placed),
        "a memory that is excluded": (replace(several, costs=forbidden), placed),
        "a larger part": (several, replace(placed, plan=replace(plan, parts=longer))),
        "one part": (several, replace(placed, plan=replace(plan, parts=(ArenaPart("fast", 0, plan.memory_bytes),)))),
        "parts that meet": (
            several,
            replace(placed, plan=replace(plan, parts=(first, replace(second, start=second.start - 4)))),
        ),
        "other heights": (several, replace(placed, choice=replace(choice, heights=(0, 0)))),
        "a height below its bound": (
            several,
            replace(placed, lowest=LowestLayout(1, choice, choice.heights[1] + 4, "none")),
        ),
    }


def test_mutants_are_caught() -> None:
    several = rings()
    placed = place_rows(several)
    assert isinstance(placed, PlacedRows)
    uncaught = []
    for name, mutant in mutants(several, placed).items():
        try:
            require_valid_placed_rows(*mutant)
        except InternalError:
            continue
        uncaught.append(name)
    assert uncaught == []


def test_rows_that_cross_the_end_of_a_part_are_found() -> None:
    several = rings()
    placed = place_rows(several)
    assert isinstance(placed, PlacedRows)
    first, second = placed.plan.parts
    parts = (replace(first, size_bytes=first.size_bytes - 4), replace(second, start=second.start - 4))
    parts = (parts[0], replace(parts[1], size_bytes=second.size_bytes + 4))
    problems = row_plan_problems(several.problem, replace(placed.plan, parts=parts))
    assert problems
    assert "several memories" in problems[0]
