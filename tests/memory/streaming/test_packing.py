from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.memory.streaming.checker import row_plan_problems
from edgetool.memory.streaming.packing import pack_rows
from edgetool.memory.streaming.problem import RowPlan, RowProblem
from edgetool.memory.streaming.schedule import best_schedule
from tests.memory.streaming.problems import row_problems, schedules
from tests.memory.streaming.test_schedule import chain


@settings(max_examples=60, deadline=None)
@given(row_problems(), st.data(), st.sampled_from([1, 4]))
def test_every_packing_is_valid(problem: RowProblem, data: st.DataObject, unit: int) -> None:
    steps = data.draw(schedules(problem))
    packing = pack_rows(problem, steps, 0, unit=unit, passes=6)
    plan = RowPlan(steps, packing.offsets, packing.scratch, packing.memory_bytes)
    assert row_plan_problems(problem, plan) == []
    assert all(
        offset % unit == 0 for offset, size in zip(packing.offsets, problem.row_sizes(), strict=True) if not size
    )


@settings(max_examples=25, deadline=None)
@given(row_problems())
def test_a_search_is_never_worse_than_none(problem: RowProblem) -> None:
    steps = best_schedule(problem).steps
    none, much = (pack_rows(problem, steps, 0, passes=passes).memory_bytes for passes in (0, 20))
    assert much <= none


@settings(max_examples=25, deadline=None)
@given(row_problems(), st.data())
def test_the_same_search_finds_the_same(problem: RowProblem, data: st.DataObject) -> None:
    steps = data.draw(schedules(problem))
    assert pack_rows(problem, steps, 0, passes=6) == pack_rows(problem, steps, 0, passes=6)


def test_a_chain_takes_its_live_bytes() -> None:
    problem = chain(8)
    schedule = best_schedule(problem)
    assert pack_rows(problem, schedule.steps, schedule.peak_bytes).memory_bytes == schedule.peak_bytes


def test_rows_overlap_no_more_than_their_distance_allows() -> None:
    sizes = [
        pack_rows(chain(8, distance=d), best_schedule(chain(8, distance=d)).steps, 0).memory_bytes for d in (0, 5, 10)
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2]


def test_a_search_that_is_stopped_returns_its_first_packing() -> None:
    problem = chain(6)
    steps = best_schedule(problem).steps
    stopped = pack_rows(problem, steps, 0, stopped=lambda: True)
    assert stopped == pack_rows(problem, steps, 0, passes=1, stopped=lambda: True)
