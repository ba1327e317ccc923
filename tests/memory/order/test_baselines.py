"""Orders that need no search, by hand."""

from __future__ import annotations

from edgetool.memory.order.evaluate import OrderProblem, check_order
from edgetool.memory.order.network import network_of
from edgetool.memory.order.solve import breadth_first, greedy, longest_path, solve_order
from edgetool.memory.problem import Effort
from tests.memory.order.networks import NETWORKS


def from_edges(count: int, edges: list[tuple[int, int]], sizes: tuple[int, ...] | None = None) -> OrderProblem:
    """Operator i writes tensor i."""
    return OrderProblem(
        sizes=sizes or (1,) * count,
        reads=tuple(tuple(start for start, end in edges if end == operator) for operator in range(count)),
        writes=tuple((operator,) for operator in range(count)),
        after=((),) * count,
        scratch=(0,) * count,
        inputs=(),
        outputs=(),
    )


def test_breadth_first_runs_what_became_ready_first() -> None:
    # Two chains of three from one operator, joined: one step of each in turn.
    edges = [(0, 1), (1, 2), (2, 3), (0, 4), (4, 5), (5, 6), (3, 7), (6, 7)]
    assert breadth_first(network_of(from_edges(8, edges))) == (0, 1, 4, 2, 5, 3, 6, 7)


def test_longest_path_starts_at_the_source_that_is_furthest_from_the_target() -> None:
    # Sources 0 (two steps to the sum 4) and 1 (three steps).
    edges = [(0, 4), (1, 2), (2, 3), (3, 4), (4, 5)]
    assert longest_path(network_of(from_edges(6, edges))) == (1, 2, 3, 0, 4, 5)


def test_longest_path_goes_by_the_height_of_the_subtree() -> None:
    # Source 1 is near the target, but shares its way with source 2, whose path is the longest; 0 lies between.
    edges = [(0, 3), (3, 4), (4, 9), (1, 8), (2, 5), (5, 6), (6, 7), (7, 8), (8, 9)]
    order = longest_path(network_of(from_edges(10, edges)))
    assert [operator for operator in order if operator < 3] == [2, 1, 0]


def test_longest_path_does_not_go_by_the_original_order() -> None:
    assert longest_path(network_of(from_edges(6, [(0, 1), (1, 2), (2, 5), (3, 4), (4, 5)]))) == (0, 1, 2, 3, 4, 5)
    assert longest_path(network_of(from_edges(6, [(0, 1), (1, 5), (2, 3), (3, 4), (4, 5)]))) == (2, 3, 4, 0, 1, 5)


def test_longest_path_with_several_targets_has_a_virtual_one() -> None:
    assert longest_path(network_of(from_edges(4, [(1, 2), (2, 3)]))) == (1, 2, 3, 0)


def test_greedy_takes_what_leaves_the_fewest_bytes() -> None:
    # After 0, operator 1 makes 9 bytes and operator 2 makes 4; then 3 turns the 4 into 1.
    assert greedy(network_of(from_edges(5, [(0, 1), (0, 2), (2, 3), (1, 4), (3, 4)], (5, 9, 4, 1, 1)))) == (
        0,
        2,
        3,
        1,
        4,
    )


def test_every_baseline_is_an_order_of_every_network() -> None:
    for name, build in NETWORKS.items():
        problem = build()
        network = network_of(problem)
        for make in (breadth_first, longest_path, greedy):
            check_order(problem, [network.operators[operator] for operator in make(network)])
        assert solve_order(problem, Effort(), strategy="original").order == tuple(range(len(problem.reads))), name
