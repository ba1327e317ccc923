"""What an order costs, by hand, and what is no order."""

from __future__ import annotations

import random

import pytest

from edgetool.errors import UsageError
from edgetool.memory.order.evaluate import (
    OrderProblem,
    check_order,
    check_problem,
    dependencies,
    live_profile,
    moved_operators,
    peak,
)
from tests.memory.order.brute_force import least_peak_of_all_orders, minimum_peak, random_problem


def problem(**changes: object) -> OrderProblem:
    """Input 0 (10 bytes) -> operator 0 -> 1 (20); 0 -> operator 1 -> 2 (5); 1, 2 -> operator 2 -> 3 (1)."""
    rows: dict[str, object] = {
        "sizes": (10, 20, 5, 1),
        "reads": ((0,), (0,), (1, 2)),
        "writes": ((1,), (2,), (3,)),
        "after": ((), (), ()),
        "scratch": (0, 0, 0),
        "inputs": (0,),
        "outputs": (3,),
        **changes,
    }
    return OrderProblem(**rows)  # type: ignore[arg-type]


def test_what_is_live_at_each_operator() -> None:
    assert live_profile(problem(), (0, 1, 2)) == (10, 30, 35, 26)
    assert live_profile(problem(), (1, 0, 2)) == (10, 15, 35, 26)


def test_scratch_counts_while_its_operator_runs() -> None:
    assert live_profile(problem(scratch=(0, 7, 0)), (0, 1, 2)) == (10, 30, 42, 26)


def test_an_input_that_nobody_reads_is_live_before_the_first_operator_only() -> None:
    assert live_profile(problem(sizes=(10, 20, 5, 1, 100), inputs=(0, 4)), (0, 1, 2)) == (110, 30, 35, 26)
    both = problem(sizes=(10, 20, 5, 1, 100), inputs=(0, 4), outputs=(3, 4))
    assert live_profile(both, (0, 1, 2)) == (110, 130, 135, 126)


def test_an_output_is_live_to_the_end_and_an_unread_tensor_at_its_writer() -> None:
    assert live_profile(problem(outputs=(1, 3)), (0, 1, 2)) == (10, 30, 35, 26)
    assert live_profile(problem(outputs=(2,), reads=((0,), (), ())), (1, 0, 2)) == (10, 15, 35, 6)


def test_a_tensor_that_nothing_writes_is_live_from_the_start() -> None:
    assert live_profile(problem(inputs=()), (0, 1, 2)) == (10, 30, 35, 26)
    assert live_profile(problem(sizes=(10, 20, 5, 1, 100), outputs=(3, 4)), (0, 1, 2)) == (110, 130, 135, 126)


def test_a_tensor_is_live_from_its_first_writer() -> None:
    rewritten = problem(writes=((1,), (2, 1), (3,)))
    assert live_profile(rewritten, (0, 1, 2)) == (10, 30, 35, 26)
    assert dependencies(rewritten) == (frozenset(), frozenset({0}), frozenset({0, 1}))


def test_a_reader_between_two_writers_stays_between_them() -> None:
    rows = OrderProblem(
        sizes=(1, 1),
        reads=((), (0,), (), (0,)),
        writes=((0,), (1,), (0,), ()),
        after=((),) * 4,
        scratch=(0,) * 4,
        inputs=(),
        outputs=(1,),
    )
    assert dependencies(rows) == (frozenset(), {0}, {0, 1}, {0, 2})


def test_a_reader_of_an_input_stays_before_what_overwrites_it() -> None:
    assert dependencies(problem(writes=((1,), (2, 0), (3,))))[1] == {0}


def test_no_operators() -> None:
    empty = problem(reads=(), writes=(), after=(), scratch=())
    assert live_profile(empty, ()) == (11,)
    assert peak(empty, ()) == 11


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ((0, 1), "not a permutation"),
        ((0, 1, 1), "not a permutation"),
        ((0, 1, 3), "not a permutation"),
        ((0, 2, 1), "runs operator 2 before operator 1"),
    ],
)
def test_invalid_orders_are_rejected(order: tuple[int, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_order(problem(), order)


def test_state_is_an_edge_too() -> None:
    check_order(problem(), (1, 0, 2))
    with pytest.raises(UsageError, match="runs operator 1 before operator 0"):
        check_order(problem(after=((), (0,), ())), (1, 0, 2))


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"sizes": (10, -20, 5, 1)}, r"sizes\[1\]"),
        ({"scratch": (0, 0)}, "scratch"),
        ({"reads": ((0,), (0,), (1, 4))}, r"reads\[2\]"),
        ({"writes": ((1,), (-1,), (3,))}, r"writes\[1\]"),
        ({"after": ((), (), (3,))}, r"after\[2\]"),
        ({"inputs": (9,)}, "inputs"),
        ({"outputs": (9,)}, "outputs"),
    ],
)
def test_rows_that_do_not_fit(changes: dict[str, object], where: str) -> None:
    with pytest.raises(UsageError, match=where):
        check_problem(problem(**changes))


def test_moved_operators() -> None:
    assert moved_operators(()) == 0
    assert moved_operators((0, 1, 2, 3)) == 0
    assert moved_operators((1, 2, 3, 0)) == 1
    assert moved_operators((3, 2, 1, 0)) == 3


def test_the_brute_force_agrees_with_the_profiles_of_all_orders() -> None:
    for seed in range(60):
        small = random_problem(random.Random(seed), 6)
        assert minimum_peak(small) == least_peak_of_all_orders(small)
