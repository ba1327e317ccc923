"""The best order: against brute force, and on networks. Orders that need no search, by hand."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.memory.order.evaluate import OrderProblem, check_order, moved_operators, peak
from edgetool.memory.order.moves import backward, forward
from edgetool.memory.order.network import network_of, profile
from edgetool.memory.order.segment_search import BestFirst, beam_search
from edgetool.memory.order.solve import BASELINES, breadth_first, candidates, greedy, longest_path, solve_order
from edgetool.memory.problem import Effort, NodeBudget
from tests.memory.order.brute_force import minimum_peak, random_chains, random_problem
from tests.memory.order.networks import NETWORKS, chain, darts, randwire, shuffled

# A network of hundreds of operators is to be done in so many followed downsets, hence within seconds.
PROVEN = [name for name in NETWORKS if "64 nodes" not in name]


def hold_against_brute_force(problem: OrderProblem) -> None:
    minimum = minimum_peak(problem)
    found = solve_order(problem, Effort())
    check_order(problem, found.order)
    assert peak(problem, found.order) == found.peak_bytes == found.lower_bound == minimum
    assert found.optimal
    original = solve_order(problem, Effort(), strategy="original")
    if original.peak_bytes == minimum:
        assert found.order == original.order
    for name in BASELINES:
        other = solve_order(problem, Effort(), strategy=name)  # type: ignore[arg-type]
        check_order(problem, other.order)
        assert other.lower_bound <= minimum <= other.peak_bytes == peak(problem, other.order)
        assert not other.optimal or other.peak_bytes == minimum


@given(st.randoms(use_true_random=False))
def test_any_small_graph(draw: random.Random) -> None:
    hold_against_brute_force(random_problem(draw, 8))


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_a_sample_of_graphs(start: int) -> None:
    for seed in range(start, start + 50):
        hold_against_brute_force(random_problem(random.Random(seed), 10))


def test_a_sample_of_chains() -> None:
    for seed in range(200):
        hold_against_brute_force(random_chains(random.Random(seed), 3, 4))


@pytest.mark.slow
@pytest.mark.parametrize("chains", [False, True])
def test_the_exact_search_alone_finds_the_lowest_peak_in_both_directions(chains: bool) -> None:
    for seed in range(300):
        draw = random.Random(seed)
        problem = random_chains(draw, 4, 4) if chains else random_problem(draw, 8)
        network, minimum = network_of(problem), minimum_peak(problem)
        for direction in (forward, backward):
            search = BestFirst(direction(network), 0)
            order = search.resume(10**9, 10**9, NodeBudget(Effort(node_limit=None)))
            assert order is not None
            check_order(problem, [network.operators[each] for each in order])
            assert search.limit == max(profile(network, order))
            assert max(search.limit, network.bytes_before_start) == minimum


def test_the_exact_search_can_be_interrupted_and_ends_at_its_ceiling() -> None:
    for seed in range(100):
        network = network_of(random_problem(random.Random(seed), 8))
        for direction in (forward, backward):
            at_once = BestFirst(direction(network), 0)
            at_once.resume(10**9, 10**9, NodeBudget(Effort()))
            search = BestFirst(direction(network), 0)
            for _ in range(1000):
                order = search.resume(at_once.limit, 1, NodeBudget(Effort()))
                assert order is None
            assert search.limit == at_once.limit


def test_a_beam_stays_within_its_limit() -> None:
    found = 0
    for seed in range(200):
        problem = random_problem(random.Random(seed), 10)
        network, minimum = network_of(problem), minimum_peak(problem)
        for direction in (forward, backward):
            for limit, width in ((minimum - 1, 1000), (minimum, 1), (minimum + 10, 2), (minimum, 1000)):
                order = beam_search(direction(network), limit, width, NodeBudget(Effort()))
                if order is not None:
                    found += width == 1
                    check_order(problem, [network.operators[each] for each in order])
                    assert max(profile(network, order)) <= limit
                else:
                    assert width < 1000 or limit < minimum
    # Of 400, though it follows a single set: the one with the fewest live bytes.
    assert found == 370


@pytest.mark.slow
@pytest.mark.parametrize("name", PROVEN)
def test_networks_are_proven(name: str) -> None:
    problem = NETWORKS[name]()
    found = solve_order(problem, Effort())
    check_order(problem, found.order)
    assert peak(problem, found.order) == found.peak_bytes == found.lower_bound
    assert found.optimal
    assert found.peak_bytes <= min(
        solve_order(problem, Effort(), strategy=baseline).peak_bytes  # type: ignore[arg-type]
        for baseline in BASELINES
    )


def test_the_proof_says_how_it_was_made() -> None:
    assert solve_order(randwire(2), Effort()).proof == "bound met"
    assert solve_order(darts(), Effort()).proof == "search exhausted"


def test_the_lowest_peak_does_not_depend_on_the_original_order() -> None:
    peaks = {solve_order(shuffled(darts(), seed), Effort()).peak_bytes for seed in range(4)}
    assert peaks == {solve_order(darts(), Effort()).peak_bytes}


@pytest.mark.slow
def test_the_result_is_the_same_each_time() -> None:
    assert solve_order(randwire(2), Effort()) == solve_order(randwire(2), Effort())
    assert list(candidates(randwire(2), Effort())) == list(candidates(randwire(2), Effort()))


def test_most_operators_stay_where_they_were() -> None:
    problem = NETWORKS["NASNet-A-like 224"]()
    found = solve_order(problem, Effort())
    assert found.order != tuple(range(len(found.order)))
    assert moved_operators(found.order) <= 12


def test_a_chain_is_done_at_once() -> None:
    problem = chain(30)
    solve_order(problem, Effort())
    start = time.process_time()
    for _ in range(10):
        found = solve_order(problem, Effort(node_limit=0))
    assert time.process_time() - start < 10 * 0.01
    assert found.optimal


@pytest.mark.slow
def test_stopped_at_once_it_still_gives_an_order_and_a_true_bound() -> None:
    problem = randwire(3)
    best = solve_order(problem, Effort())
    for effort in (Effort(stop=lambda: True), Effort(node_limit=0), Effort(node_limit=2000)):
        found = solve_order(problem, effort)
        check_order(problem, found.order)
        assert found.lower_bound <= best.peak_bytes <= found.peak_bytes
        assert found.proof == "none"
        assert found.peak_bytes <= solve_order(problem, Effort(), strategy="original").peak_bytes


def test_stop_is_called_repeatedly() -> None:
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 30

    assert not solve_order(randwire(3), Effort(stop=stop)).optimal


@pytest.mark.slow
def test_candidates_are_different_orders_the_best_first() -> None:
    problem = randwire(1)
    found = tuple(candidates(problem, Effort()))
    assert found[0] == solve_order(problem, Effort())
    assert len({result.order for result in found}) == len(found)
    assert sum(result.optimal for result in found) >= 3
    assert any(result.order == tuple(range(len(problem.reads))) for result in found)
    for result, following in pairwise(found):
        assert result.peak_bytes <= following.peak_bytes
    for result in found:
        check_order(problem, result.order)
        assert peak(problem, result.order) == result.peak_bytes
        assert result.lower_bound == found[0].peak_bytes


def test_no_operators() -> None:
    empty = OrderProblem((5, 3), (), (), (), (), (0,), (1,))
    found = solve_order(empty, Effort())
    assert (found.order, found.peak_bytes, found.optimal) == ((), 8, True)
    assert tuple(candidates(empty, Effort())) == (found,)


@pytest.mark.slow
def test_unproven_networks_have_a_bound_above_the_minimum_cuts() -> None:
    found = solve_order(NETWORKS["RandWire-like 224, 64 nodes"](), Effort())
    # The minimum cuts alone give 1,100,736.
    assert 1_223_040 <= found.lower_bound <= found.peak_bytes <= 1_467_648


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


def test_greedy_chooses_the_operator_that_leaves_the_fewest_bytes() -> None:
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
