"""The bound on the memory of plans of rows: never above what a plan needs, by brute force, and exact by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.memory.streaming.bound import live_bytes, row_bound
from edgetool.memory.streaming.checker import row_plan_problems
from edgetool.memory.streaming.planner import plan_rows
from edgetool.memory.streaming.problem import Firing, RowOperator, RowPlan, RowProblem, RowTensor
from tests.conftest import examples
from tests.memory.streaming.problems import (
    first_schedule,
    given_bytes,
    minimal_problem,
    ready_operators,
    row_problems,
    schedules,
)


def step_bytes(problem: RowProblem, fired: tuple[int, ...], operator: int) -> int:
    """What a step needs after a given number of firings of each operator, from the definition alone."""
    firing = problem.operators[operator].firings[fired[operator]]
    sizes = problem.row_sizes()
    live, later = live_rows(problem, fired), live_rows(problem, done(fired, operator))
    dying = {row: distance for row, distance in firing.overlaps if row in live and row not in later}
    # The places of the bytes that are new, if all rows that are written lie behind each other.
    new = []
    start = 0
    for row in firing.writes:
        if row not in live:
            new += range(start, start + sizes[row])
        start += sizes[row]
    # Rows that must begin at a distance or further cannot cover bytes in front of it.
    saved = min(len(new), sum(sizes[row] for row in dying))
    for limit in dying.values():
        closer = sum(sizes[row] for row, distance in dying.items() if distance < limit)
        saved = min(saved, closer + sum(place >= limit for place in new))
    return sum(sizes[row] for row in live) + firing.scratch_bytes + len(new) - saved


def done(fired: tuple[int, ...], operator: int) -> tuple[int, ...]:
    return tuple(count + (number == operator) for number, count in enumerate(fired))


def live_rows(problem: RowProblem, fired: tuple[int, ...]) -> set[int]:
    """The rows that exist after a given number of firings of each operator, and that are still needed."""
    exists = set(problem.given_rows())
    needed = {row for index, tensor in enumerate(problem.tensors) if tensor.kept for row in problem.rows_of(index)}
    written = {
        row
        for operator, count in zip(problem.operators, fired, strict=True)
        for firing in operator.firings[:count]
        for row in firing.writes
    }
    for operator, count in zip(problem.operators, fired, strict=True):
        for firing in operator.firings[count:]:
            needed |= {*firing.reads, *(row for row in firing.writes if row in written)}
    exists |= written
    return exists & needed


def minimum_peak(problem: RowProblem) -> int:
    """The smallest peak of all schedules, over all sets of firings that could be done."""

    @cache
    def minimum(fired: tuple[int, ...]) -> int:
        sizes = problem.row_sizes()
        peaks = [
            max(step_bytes(problem, fired, operator), minimum(done(fired, operator)))
            for operator in ready_operators(problem, fired)
        ]
        return min(peaks, default=sum(sizes[row] for row in live_rows(problem, fired)))

    return max(given_bytes(problem), minimum((0,) * len(problem.operators)))


def largest_group(problem: RowProblem) -> int:
    return max(min(tensor.rows, tensor.group) * tensor.row_bytes for tensor in problem.tensors)


@examples(200)
@given(row_problems())
def test_no_schedule_has_a_lower_peak(problem: RowProblem) -> None:
    assert row_bound(problem) <= max(minimum_peak(problem), largest_group(problem))


@examples(200)
@given(row_problems(), st.data())
def test_schedules_only_save_time(problem: RowProblem, data: st.DataObject) -> None:
    drawn = data.draw(schedules(problem))
    assert row_bound(problem, [drawn]) == row_bound(problem)


@examples(200)
@given(row_problems(), st.data())
def test_the_bytes_of_each_step_follow_the_definition(problem: RowProblem, data: st.DataObject) -> None:
    drawn = data.draw(schedules(problem))
    fired = (0,) * len(problem.operators)
    expected = []
    for operator in drawn:
        expected.append(step_bytes(problem, fired, operator))
        fired = done(fired, operator)
    assert live_bytes(problem, drawn) == expected
    assert row_bound(problem) <= max([given_bytes(problem), largest_group(problem), *expected])


@examples(100)
@given(row_problems(), st.integers(0, 3), st.integers(0, 60))
def test_ending_early_weakens_the_bound_only(problem: RowProblem, cuts: int, target: int) -> None:
    full = row_bound(problem)
    assert row_bound(problem, cut_limit=cuts) <= full
    assert row_bound(problem, stop=lambda: True) <= full
    assert min(target, full) <= row_bound(problem, target=target) <= full


@examples(100)
@given(row_problems())
def test_plans_need_at_least_the_bound(problem: RowProblem) -> None:
    planned = plan_rows(problem, passes=2)
    assert planned.plan.memory_bytes >= row_bound(planned.problem) >= row_bound(problem)


@st.composite
def single_firings(draw: st.DrawFn) -> RowProblem:
    """A firing that reads up to two given rows, one of which may be kept, and writes a row, or two as one range."""
    inputs = [
        RowTensor(f"input{i}", 1, draw(st.integers(1, 4)), given=True, kept=draw(st.integers(0, 3)) == 0)
        for i in range(draw(st.integers(1, 2)))
    ]
    rows, group = draw(st.sampled_from([(1, 1), (2, 2), (2, 1)]))
    output = RowTensor("output", rows, draw(st.integers(1, 4)), group=group, kept=True)
    count = len(inputs)
    overlaps = tuple((row, draw(st.integers(-2, 5))) for row in range(count) if draw(st.integers(0, 4)))
    firing = Firing(tuple(range(count)), tuple(range(count, count + rows)), overlaps)
    return minimal_problem(*inputs, output, operators=[RowOperator("operator", (firing,))])


@examples(100)
@given(single_firings())
def test_no_layout_of_one_firing_is_smaller(problem: RowProblem) -> None:
    """Of all offsets below the bound, the checker accepts none."""
    memory = row_bound(problem) - 1
    sizes = problem.row_sizes()
    choices = [range(memory - size + 1) for size in sizes]
    for offsets in product(*choices):
        assert row_plan_problems(problem, RowPlan((0,), offsets, ((),), memory))


def operator(*firings: Firing, scratch: int = 0, accumulates: bool = False) -> RowOperator:
    return RowOperator("operator", tuple(replace(item, scratch_bytes=scratch) for item in firings), accumulates)


def test_a_chain_row_by_row() -> None:
    """Three rows of 10 become three of 20, and these of 1, without overlaps: the output so far, and one row of each."""
    tensors = RowTensor("a", 3, 10), RowTensor("b", 3, 20), RowTensor("c", 3, 1, kept=True)
    problem = minimal_problem(
        *tensors,
        operators=[
            operator(*(Firing((), (row,)) for row in range(3))),
            operator(*(Firing((row,), (row + 3,)) for row in range(3))),
            operator(*(Firing((row + 3,), (row + 6,)) for row in range(3))),
        ],
    )
    # Before the last firing of the second operator, two rows of c can be done at least.
    assert row_bound(problem) == minimum_peak(problem) == 2 + 10 + 20
    assert max(live_bytes(problem, (0, 1, 2, 0, 1, 2, 0, 1, 2))) == 32
    assert max(live_bytes(problem, first_schedule(problem))) == 10 + 3 * 20


def test_a_window_keeps_the_rows_that_it_needs() -> None:
    tensors = RowTensor("a", 4, 10), RowTensor("b", 2, 3, kept=True)
    problem = minimal_problem(
        *tensors,
        operators=[
            operator(*(Firing((), (row,)) for row in range(4))),
            operator(Firing((0, 1, 2), (4,)), Firing((1, 2, 3), (5,)), scratch=7),
        ],
    )
    assert live_bytes(problem, (0, 0, 0, 1, 0, 1)) == [10, 20, 30, 30 + 7 + 3, 33, 33 + 7 + 3]
    assert row_bound(problem) == 43


def test_a_skip_connection_waits_for_the_branch() -> None:
    """The whole input of a branch that must be complete first stays until the sum."""
    tensors = RowTensor("a", 2, 10), RowTensor("mean", 1, 4), RowTensor("b", 2, 10, kept=True)
    reads = [operator(Firing((0,), (2,)), Firing((1,), (2,)), accumulates=True)]
    product_ = operator(Firing((0, 2), (3,), ((0, 0),)), Firing((1, 2), (4,), ((1, 0),)))
    feed = operator(Firing((), (0,)), Firing((), (1,)))
    problem = minimal_problem(*tensors, operators=[feed, *reads, product_])
    assert live_bytes(problem, (0, 1, 0, 1, 2, 2)) == [10, 14, 24, 24, 24, 24]
    assert row_bound(problem) == 24


def test_rows_that_nothing_reads_count_when_they_are_written() -> None:
    tensors = RowTensor("a", 1, 5, given=True), RowTensor("b", 1, 9)
    problem = minimal_problem(*tensors, operators=[operator(Firing((0,), (1,)))])
    assert row_bound(problem) == 14


def test_given_and_kept_rows_count_without_any_operator() -> None:
    assert row_bound(minimal_problem(RowTensor("a", 3, 5, given=True), operators=[])) == 15
    assert row_bound(minimal_problem(operators=[])) == 0
    unread = minimal_problem(
        RowTensor("a", 3, 5, given=True), RowTensor("b", 1, 1), operators=[operator(Firing((), (3,)))]
    )
    assert row_bound(unread) == 15


@pytest.mark.parametrize(
    ("overlaps", "saved"),
    [
        ((), 0),
        (((0, 0),), 6),
        (((0, -4),), 6),
        (((0, 3),), 6),
        (((0, 7),), 3),
        (((0, 10),), 0),
        (((0, 12),), 0),
        (((0, 0), (1, 0)), 10),
        (((0, 5), (1, 5)), 5),
        (((0, 7), (1, 8)), 3),
        (((0, 9), (1, 1)), 9),
        (((0, 7), (1, 0)), 10),
    ],
)
def test_what_a_row_of_ten_bytes_can_overlap(overlaps: tuple[tuple[int, int], ...], saved: int) -> None:
    tensors = RowTensor("a", 1, 6, given=True), RowTensor("b", 1, 8, given=True), RowTensor("c", 1, 10, kept=True)
    problem = minimal_problem(*tensors, operators=[operator(Firing((0, 1), (2,), overlaps))])
    assert row_bound(problem) == max(14, 24 - saved)
    assert live_bytes(problem, (0,)) == [24 - saved]


def test_what_stays_is_not_overlapped() -> None:
    tensors = RowTensor("a", 1, 6, given=True, kept=True), RowTensor("b", 1, 6, kept=True)
    problem = minimal_problem(*tensors, operators=[operator(Firing((0,), (1,), ((0, 0),)))])
    assert row_bound(problem) == 12


def test_an_updated_state_is_one_row() -> None:
    tensors = RowTensor("state", 1, 8, given=True, kept=True), RowTensor("a", 1, 3, given=True)
    update = operator(Firing((0, 1), (0,)), scratch=2)
    problem = RowProblem(tensors, (update, operator(Firing((0, 1), (0,)))), sequential=True)
    assert row_bound(problem) == 13
    assert live_bytes(problem, (0, 1)) == [13, 11]


def test_operators_of_a_sequential_problem_run_one_after_the_other() -> None:
    tensors = RowTensor("a", 3, 10), RowTensor("b", 3, 1, kept=True)
    feed = operator(*(Firing((), (row,)) for row in range(3)))
    narrow = operator(*(Firing((row,), (row + 3,)) for row in range(3)))
    assert row_bound(RowProblem(tensors, (feed, narrow))) == 13
    assert row_bound(RowProblem(tensors, (feed, narrow), sequential=True)) == 31


@pytest.mark.slow
def test_most_bounds_are_exact() -> None:
    is_exact = []

    @settings(max_examples=300, derandomize=True, database=None)
    @given(row_problems())
    def compare(problem: RowProblem) -> None:
        is_exact.append(row_bound(problem) == minimum_peak(problem))

    compare()
    assert sum(is_exact) >= 0.8 * len(is_exact)


def test_rows_that_lie_together_count_even_if_few_are_live() -> None:
    """Eight rows of four bytes, each of which is read as soon as it is written, take 32 bytes if they lie together."""
    bounds = []
    for group in (1, 8):
        tensors = (RowTensor("a", 8, 4, group=group), RowTensor("b", 1, 4, kept=True))
        write = RowOperator("write", tuple(Firing((), (row,)) for row in range(8)))
        add = RowOperator("add", tuple(Firing((row,), (8,)) for row in range(8)), accumulates=True)
        bounds.append(row_bound(RowProblem(tensors, (write, add))))
    assert bounds == [8, 32]
