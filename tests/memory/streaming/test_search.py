from dataclasses import replace

from hypothesis import given

from edgetool.memory.streaming.bound import row_bound
from edgetool.memory.streaming.planner import plan_rows, segments_of, weights_per_row
from edgetool.memory.streaming.problem import RowProblem
from edgetool.memory.streaming.schedule import best_schedule, live_bytes
from edgetool.memory.streaming.search import improved_schedule
from tests.conftest import examples
from tests.memory.streaming.problems import given_bytes, ready_operators, row_problems
from tests.memory.streaming.test_bound import minimum_peak
from tests.memory.streaming.test_schedule import chain


def without_overlaps(problem: RowProblem) -> RowProblem:
    return replace(
        problem,
        operators=tuple(
            replace(item, firings=tuple(replace(firing, overlaps=()) for firing in item.firings))
            for item in problem.operators
        ),
    )


@examples(125)
@given(row_problems())
def test_the_search_is_exact_without_overlaps(problem: RowProblem) -> None:
    apart = without_overlaps(problem)
    schedule = improved_schedule(apart, best_schedule(apart), 0)
    assert apart.sequential or schedule.peak_bytes == minimum_peak(apart)


@examples(125)
@given(row_problems())
def test_a_better_schedule_is_valid_and_has_the_peak_that_it_states(problem: RowProblem) -> None:
    segments = best_schedule(problem)
    schedule = improved_schedule(problem, segments, row_bound(problem))
    assert schedule.peak_bytes <= segments.peak_bytes
    assert schedule.peak_bytes == max([given_bytes(problem), *live_bytes(problem, schedule.steps)])
    fired = [0] * len(problem.operators)
    for operator in schedule.steps:
        assert operator in ready_operators(problem, fired)
        fired[operator] += 1
    assert fired == [len(operator.firings) for operator in problem.operators]
    segment = segments_of(schedule.cuts, len(problem.operators))
    places = [segment[operator] for operator in schedule.steps]
    assert places == sorted(places)


def test_a_search_that_is_stopped_or_has_no_nodes_changes_nothing() -> None:
    problem = chain(8)
    segments = best_schedule(problem)
    assert improved_schedule(problem, segments, 0, stopped=lambda: True) is segments
    assert improved_schedule(problem, segments, 0, nodes=0) is segments


def test_segments_read_no_more_weights_per_row_than_allowed() -> None:
    problem = chain(8, output_bytes=1)
    heavy = replace(problem, operators=tuple(replace(item, weight_bytes=100) for item in problem.operators))
    plans = {most: plan_rows(heavy, most_weights=most) for most in (None, 300, 200, 99)}
    assert [weights_per_row(heavy, plan.cuts) for plan in plans.values()] == [300, 300, 0, 0]
    taken = [plan.plan.memory_bytes for plan in plans.values()]
    assert taken == sorted(taken)
    assert taken[0] < taken[-1]
    # An operator that runs alone may have any weights.
    assert plans[99].cuts == (0, 1, 2)
