import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.memory.streaming.problem import Firing, RowOperator, RowProblem, RowTensor
from edgetool.memory.streaming.schedule import best_schedule, live_bytes, schedule_segments
from tests.memory.streaming.problems import first_schedule, given_bytes, ready_operators, row_problems


@settings(max_examples=60, deadline=None)
@given(row_problems())
def test_every_firing_reads_complete_rows(problem: RowProblem) -> None:
    fired = [0] * len(problem.operators)
    for operator in best_schedule(problem).steps:
        assert operator in ready_operators(problem, fired)
        fired[operator] += 1
    assert fired == [len(operator.firings) for operator in problem.operators]


@settings(max_examples=60, deadline=None)
@given(row_problems())
def test_the_peak_is_that_of_the_live_bytes(problem: RowProblem) -> None:
    schedule = best_schedule(problem)
    assert schedule.peak_bytes == max([given_bytes(problem), *live_bytes(problem, schedule.steps)])


@settings(max_examples=60, deadline=None)
@given(row_problems())
def test_it_is_not_worse_than_whole_operators(problem: RowProblem) -> None:
    whole = live_bytes(problem, first_schedule(problem))
    assert best_schedule(problem).peak_bytes <= max([given_bytes(problem), *whole])


@settings(max_examples=40, deadline=None)
@given(row_problems(), st.data())
def test_it_is_the_best_of_all_segments(problem: RowProblem, data: st.DataObject) -> None:
    others = range(1, len(problem.operators))
    cuts = [0, *(position for position in others if problem.sequential or data.draw(st.booleans()))]
    assert best_schedule(problem).peak_bytes <= schedule_segments(problem, cuts).peak_bytes


def chain(rows: int, *, distance: int | None = None, output_bytes: int = 10) -> RowProblem:
    """Two windows of three rows, one behind the other, on rows of 10 bytes, and an input that is fed."""
    sizes = {"a": 10, "b": 10, "c": output_bytes}
    tensors = tuple(RowTensor(name, rows, size, kept=name == "c") for name, size in sizes.items())
    operators = [RowOperator("feed", tuple(Firing((), (row,)) for row in range(rows)))]
    for first in (0, rows):
        firings = []
        for row in range(rows):
            reads = tuple(first + i for i in range(max(0, row - 1), min(rows, row + 2)))
            overlaps = () if distance is None else tuple((item, distance) for item in reads)
            firings.append(Firing(reads, (first + rows + row,), overlaps))
        operators.append(RowOperator("window", tuple(firings)))
    return RowProblem(tensors, tuple(operators))


def test_rows_of_a_chain_are_computed_when_they_are_needed() -> None:
    schedule = best_schedule(chain(8, output_bytes=1))
    assert schedule.cuts == (0,)
    assert schedule.steps[:8] == (0, 0, 1, 0, 1, 2, 0, 1)
    # Three rows of each of the first two tensors, and the rows of the output so far, when the last input row is there.
    assert schedule.peak_bytes == 10 * (3 + 3) + 5


def test_a_row_that_dies_gives_its_bytes_to_the_row_that_is_written() -> None:
    apart, together = (best_schedule(chain(8, distance=distance, output_bytes=1)).peak_bytes for distance in (None, 0))
    assert together == apart - 10


def test_a_sequential_problem_runs_operators_one_by_one() -> None:
    problem = RowProblem(chain(4).tensors, chain(4).operators, sequential=True)
    assert best_schedule(problem).steps == (0,) * 4 + (1,) * 4 + (2,) * 4


def test_a_search_that_is_stopped_runs_operators_one_by_one() -> None:
    assert best_schedule(chain(4), stopped=lambda: True).cuts == (0, 1, 2)


def test_long_segments_are_left_out_of_a_search_with_too_many_firings(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts = []
    for firings in (0, 100):
        monkeypatch.setattr("edgetool.memory.streaming.schedule.FIRINGS", firings)
        best_schedule.cache_clear()
        cuts.append(best_schedule(chain(8, output_bytes=1)).cuts)
    best_schedule.cache_clear()
    assert cuts == [(0, 1, 2), (0,)]


def test_other_orders_are_tried_as_given() -> None:
    first = RowOperator("feed", (Firing((), (0,)),))
    second = RowOperator("feed", (Firing((), (1,)),))
    problem = RowProblem((RowTensor("a", 1, 8, kept=True), RowTensor("b", 1, 8, kept=True)), (first, second))
    assert best_schedule(problem, (1, 0)).steps[0] in (0, 1)
    assert sorted(best_schedule(problem, (1, 0)).steps) == [0, 1]
