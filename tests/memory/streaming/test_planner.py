from hypothesis import given, settings

from edgetool.memory.streaming.bound import row_bound
from edgetool.memory.streaming.checker import row_plan_problems
from edgetool.memory.streaming.planner import plan_rows, segments_of
from edgetool.memory.streaming.problem import RowProblem
from tests.memory.streaming.problems import row_problems
from tests.memory.streaming.test_schedule import chain


@settings(max_examples=60, deadline=None)
@given(row_problems())
def test_every_plan_is_valid_and_above_the_bound(problem: RowProblem) -> None:
    planned = plan_rows(problem, passes=6)
    assert row_plan_problems(problem, planned.plan) == []
    assert planned.plan.memory_bytes >= row_bound(problem)


def test_tensors_between_segments_lie_together_if_that_costs_nothing() -> None:
    planned = plan_rows(chain(8))
    assert planned.cuts == (0, 1, 2)
    assert [item.group for item in planned.problem.tensors] == [8, 8, 1]


def test_the_segments_of_operators() -> None:
    assert segments_of((0, 2, 3), 5) == [0, 0, 1, 2, 2]
