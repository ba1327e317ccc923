from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.memory.streaming.checker import row_plan_problems
from edgetool.memory.streaming.packing import (
    Packing,
    pack_again,
    pack_more,
    pack_rows,
    positions_in_order,
    with_few_places,
)
from edgetool.memory.streaming.problem import NO_SCRATCH, Firing, RowOperator, RowPlan, RowProblem, RowTensor
from edgetool.memory.streaming.schedule import best_schedule, live_bytes
from tests.conftest import examples
from tests.memory.streaming.problems import row_problems, schedules
from tests.memory.streaming.test_schedule import chain


@examples(250)
@given(row_problems(), st.data(), st.sampled_from([1, 4]))
def test_every_packing_is_valid(problem: RowProblem, data: st.DataObject, unit: int) -> None:
    steps = data.draw(schedules(problem))
    first = pack_rows(problem, steps, 0, unit=unit, passes=6)
    few = with_few_places(problem, steps, first, unit=unit)
    for packing in (first, few):
        plan = RowPlan(steps, packing.offsets, packing.scratch, packing.memory_bytes)
        assert row_plan_problems(problem, plan) == []
        assert all(
            offset % unit == 0 for offset, size in zip(packing.offsets, problem.row_sizes(), strict=True) if not size
        )
    assert few.memory_bytes <= first.memory_bytes
    assert max(live_bytes(problem, steps, at_least=True), default=0) <= few.memory_bytes


@examples(100)
@given(row_problems())
def test_a_search_is_never_worse_than_none(problem: RowProblem) -> None:
    steps = best_schedule(problem).steps
    none, much = (pack_rows(problem, steps, 0, passes=passes).memory_bytes for passes in (0, 20))
    assert much <= none


@examples(100)
@given(row_problems(), st.data())
def test_the_same_search_finds_the_same(problem: RowProblem, data: st.DataObject) -> None:
    steps = data.draw(schedules(problem))
    assert pack_rows(problem, steps, 0, passes=6) == pack_rows(problem, steps, 0, passes=6)


@examples(100)
@given(row_problems(), st.data(), st.sampled_from([1, 4]))
def test_blocks_with_many_conflicts_have_the_same_places(problem: RowProblem, data: st.DataObject, unit: int) -> None:
    steps = data.draw(schedules(problem))
    packings = []
    for few in (0, 1_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("edgetool.memory.streaming.packing.FEW", few)
            packings.append(pack_rows(problem, steps, 0, unit=unit, passes=6))
    assert packings[0] == packings[1]


@given(st.lists(st.integers(0, 20) | st.sampled_from([2**40, 2**62]), max_size=40))
def test_equal_numbers_are_sorted_by_their_positions(numbers: list[int]) -> None:
    positions = positions_in_order(np.array(numbers, np.int64))
    assert positions.tolist() == sorted(range(len(numbers)), key=numbers.__getitem__)


def test_a_chain_takes_its_live_bytes() -> None:
    problem = chain(8)
    schedule = best_schedule(problem)
    assert pack_rows(problem, schedule.steps, schedule.peak_bytes).memory_bytes == schedule.peak_bytes


def test_rows_lie_together_where_there_is_room_and_share_places_elsewhere() -> None:
    problem = chain(8, output_bytes=1)
    steps = best_schedule(problem).steps
    # Every row has bytes of its own, in descending order.
    apart = Packing((*range(200, 40, -10), *range(40, 48)), ((),) * 3, 210)
    together = with_few_places(problem, steps, apart)
    for rows in (range(8), range(8, 16)):
        first = together.offsets[rows.start]
        assert [together.offsets[row] - first for row in rows] == [10 * i for i in range(8)]
    # There is no room for all rows of a tensor, of which three are live at once, and one is at a place of its own.
    places = (0, 10, 20, 0, 10, 20, 30, 10, 40, 50, 60, 40, 50, 60, 40, 50, *range(70, 78))
    near = Packing(places, ((),) * 3, 78)
    shared = with_few_places(problem, steps, near)
    assert (len(set(near.offsets[:8])), len(set(shared.offsets[:8]))) == (4, 3)
    assert row_plan_problems(problem, RowPlan(steps, shared.offsets, shared.scratch, 78)) == []


def test_a_packing_with_larger_groups_takes_no_more() -> None:
    problem = chain(8, output_bytes=1)
    steps = best_schedule(problem).steps
    near = pack_rows(problem, steps, 0)
    tensors = (*problem.tensors[:2], replace(problem.tensors[2], group=8))
    grouped = RowProblem(tensors, problem.operators)
    again = pack_again(grouped, steps, near, near.memory_bytes, 0)
    assert again is not None
    assert again.memory_bytes <= near.memory_bytes
    assert row_plan_problems(grouped, RowPlan(steps, again.offsets, again.scratch, again.memory_bytes)) == []
    larger = RowProblem(tuple(replace(item, group=8) for item in problem.tensors), problem.operators)
    assert pack_again(larger, steps, near, near.memory_bytes, 0) is None


def test_rows_overlap_no_more_than_their_distance_allows() -> None:
    sizes = [
        pack_rows(chain(8, distance=d), best_schedule(chain(8, distance=d)).steps, 0).memory_bytes for d in (0, 5, 10)
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2]


def with_scratch(problem: RowProblem, size: int) -> RowProblem:
    """Return the problem with so much scratch of all firings."""
    operators = (
        replace(item, firings=tuple(replace(firing, scratch_bytes=size) for firing in item.firings))
        for item in problem.operators
    )
    return replace(problem, operators=tuple(operators))


@examples(100)
@given(row_problems(), st.data(), st.integers(0, 64))
def test_scratch_gets_a_place_within_the_limit_or_none(problem: RowProblem, data: st.DataObject, more: int) -> None:
    steps = data.draw(schedules(problem))
    free = with_scratch(problem, 0)
    near = pack_rows(free, steps, 0, passes=6)
    limit = near.memory_bytes + more
    found = pack_again(problem, steps, near, limit, limit, passes=6)
    if found is not None:
        assert found.memory_bytes <= limit
        plan = RowPlan(steps, found.offsets, found.scratch, found.memory_bytes)
        assert row_plan_problems(problem, plan) == []


@examples(100)
@given(row_problems(), st.data(), st.integers(0, 16))
def test_more_scratch_gets_a_place_and_the_rest_has_none(problem: RowProblem, data: st.DataObject, more: int) -> None:
    steps = data.draw(schedules(problem))
    near = pack_rows(with_scratch(problem, 0), steps, 0, passes=6)
    size = data.draw(st.sampled_from([4, 8]))
    wanted = data.draw(st.permutations(range(len(problem.operators))))
    limit = near.memory_bytes + more
    found = pack_more(with_scratch(problem, size), steps, near, limit, wanted)
    assert found.memory_bytes <= limit
    # Without the scratch that has no place, it is a plan.
    operators = tuple(
        replace(
            item,
            firings=tuple(
                replace(firing, scratch_bytes=0 if offset == NO_SCRATCH else size)
                for firing, offset in zip(item.firings, offsets, strict=True)
            ),
        )
        for item, offsets in zip(problem.operators, found.scratch, strict=True)
    )
    placed = replace(problem, operators=operators)
    scratch = tuple(
        offsets if item.scratch_bytes else () for item, offsets in zip(operators, found.scratch, strict=True)
    )
    assert row_plan_problems(placed, RowPlan(steps, found.offsets, scratch, found.memory_bytes)) == []
    plenty = pack_more(with_scratch(problem, size), steps, near, near.memory_bytes + size + 3, wanted)
    assert not any(NO_SCRATCH in offsets for offsets in plenty.scratch)


def test_rows_move_if_that_makes_place_for_more_scratch() -> None:
    tensors = (RowTensor("in", 2, 8, alignment=4, given=True), RowTensor("out", 1, 4, alignment=4, kept=True))
    problem = RowProblem(tensors, (RowOperator("ADD", (Firing((0, 1), (2,), scratch_bytes=8),)),))
    # There are twelve bytes for the scratch, but nowhere eight of them.
    near = Packing((0, 12, 24), ((NO_SCRATCH,),), 28)
    found = pack_more(problem, (0,), near, 32, [0])
    assert found.memory_bytes <= 32
    assert row_plan_problems(problem, RowPlan((0,), found.offsets, found.scratch, 32)) == []
    assert pack_more(problem, (0,), near, 27, [0]) == near


def test_rows_move_if_that_makes_place_for_scratch() -> None:
    problem = chain(8)
    schedule = best_schedule(problem)
    packed = pack_rows(problem, schedule.steps, schedule.peak_bytes)
    needs = with_scratch(problem, 4)
    # At the top, where there is no place, and rows have to make one.
    high = replace(packed, scratch=((),) * len(needs.operators))
    limit = packed.memory_bytes + 4
    found = pack_again(needs, schedule.steps, high, limit, limit)
    assert found is not None
    assert found.memory_bytes <= limit
    assert pack_again(needs, schedule.steps, high, packed.memory_bytes - 1, 0) is None


@examples(100)
@given(row_problems(), st.data())
def test_rows_that_find_no_place_near_others_are_placed_one_after_the_other(
    problem: RowProblem, data: st.DataObject
) -> None:
    free, steps = with_scratch(problem, 0), data.draw(schedules(problem))
    first = pack_rows(free, steps, 0, stopped=lambda: True)
    near = Packing((0,) * len(first.offsets), first.scratch, 0)
    # Without effort, no row is moved.
    again = pack_again(free, steps, near, first.memory_bytes, first.memory_bytes, passes=0, anew=True)
    assert again is not None
    assert again.memory_bytes <= first.memory_bytes
    plan = RowPlan(steps, again.offsets, again.scratch, again.memory_bytes)
    assert row_plan_problems(free, plan) == []


def test_a_search_that_is_stopped_returns_its_first_packing() -> None:
    problem = chain(6)
    steps = best_schedule(problem).steps
    stopped = pack_rows(problem, steps, 0, stopped=lambda: True)
    assert stopped == pack_rows(problem, steps, 0, passes=1, stopped=lambda: True)


def test_rows_that_are_read_for_the_last_time_overlap_together() -> None:
    tensors = (RowTensor("input", 2, 4), RowTensor("output", 1, 8))
    last = Firing((0, 1), (2,), overlaps=((0, 0), (1, 0)))
    operators = (RowOperator("feed", (Firing((), (0,)), Firing((), (1,)))), RowOperator("join", (last,)))
    problem, steps = RowProblem(tensors, operators), (0, 0, 1)
    assert pack_rows(problem, steps, 0).memory_bytes == 8
    assert live_bytes(problem, steps, at_least=True)[-1] == 8
    assert live_bytes(problem, steps)[-1] == 12
