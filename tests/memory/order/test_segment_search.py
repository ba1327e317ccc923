"""What a limit forces, against all orders; and the search that rests on it alone, against brute force."""

from __future__ import annotations

import random
from itertools import permutations

from edgetool.memory.order.evaluate import check_order
from edgetool.memory.order.network import Network, ancestors_of, bits, network_of, profile
from edgetool.memory.order.segment_search import PrecedenceForcing, SegmentOrder, improved, search_with_precedences
from edgetool.memory.problem import Effort, NodeBudget
from tests.memory.order.brute_force import minimum_peak, random_chains, random_problem
from tests.memory.order.networks import randwire


def peaks_of_all_orders(network: Network) -> dict[tuple[int, ...], int]:
    return {
        order: max(profile(network, order), default=0)
        for order in permutations(range(network.count))
        if all(set(bits(network.needs[operator])) <= set(order[:at]) for at, operator in enumerate(order))
    }


def test_every_order_within_a_limit_keeps_what_the_limit_forces() -> None:
    refuted = forced_pairs = 0
    for seed in range(150):
        network = network_of(random_problem(random.Random(seed), 6))
        peaks = peaks_of_all_orders(network)
        forcing = PrecedenceForcing(network, NodeBudget(Effort()))
        minimum, required = min(peaks.values()), sum(ancestors.bit_count() for ancestors in ancestors_of(network))
        # Not in ascending order: moments found for one limit serve lower and higher ones.
        for limit in (minimum + 5, minimum - 1, minimum, max(peaks.values()), 0, minimum - 3):
            forced = forcing.within(limit)
            if forced.network is None:
                refuted += 1
                assert all(peak >= forced.next_limit > limit for peak in peaks.values())
                continue
            assert forced.minimum_limit <= limit < forced.next_limit
            part = forced.network
            pairs = [
                (part.operators[before], part.operators[after])
                for after, ancestors in enumerate(ancestors_of(part))
                for before in bits(ancestors)
            ]
            forced_pairs += len(pairs) - required
            for order, peak in peaks.items():
                if peak < forced.next_limit:
                    assert all(order.index(before) < order.index(after) for before, after in pairs)
            assert profile(part, range(part.count)) == profile(network, part.operators)
    assert refuted > 300
    assert forced_pairs > 100


def test_the_same_is_forced_by_every_limit_of_a_span() -> None:
    for seed in range(60):
        problem = random_problem(random.Random(seed), 9)
        network = network_of(problem)
        for limit in (minimum_peak(problem), minimum_peak(problem) + 7):
            forced = PrecedenceForcing(network, NodeBudget(Effort())).within(limit)
            assert forced.network is not None
            for other in {forced.minimum_limit, limit, min(forced.next_limit - 1, limit + 20)}:
                again = PrecedenceForcing(network, NodeBudget(Effort())).within(other).network
                assert again is not None
                assert again.operators == forced.network.operators
                assert ancestors_of(again) == ancestors_of(forced.network)


def test_the_search_with_precedences_alone_finds_the_lowest_peak() -> None:
    for seed in range(300):
        draw = random.Random(seed)
        problem = random_chains(draw, 4, 4) if seed % 3 else random_problem(draw, 9)
        network = network_of(problem)
        order = tuple(range(network.count))
        found = search_with_precedences(
            network, SegmentOrder(order, max(profile(network, order)), 0), NodeBudget(Effort())
        )
        check_order(problem, [network.operators[each] for each in found.order])
        assert found.peak == found.lower_bound == max(profile(network, found.order))
        assert max(found.peak, network.bytes_before_start) == minimum_peak(problem)


def test_when_it_is_stopped_its_bound_is_true() -> None:
    problem = random_chains(random.Random(1), 4, 4)
    network = network_of(problem)
    order = tuple(range(network.count))
    start = SegmentOrder(order, max(profile(network, order)), 0)
    for asked in range(60):
        left = iter(range(asked))
        found = search_with_precedences(
            network, start, NodeBudget(Effort(stop=lambda left=left: next(left, None) is None))
        )  # type: ignore[misc]
        assert found.lower_bound <= minimum_peak(problem) <= found.peak == max(profile(network, found.order))


def test_what_is_proven_stays_proven() -> None:
    # The two directions of a search prove different bounds in turn; a lower one takes nothing back.
    network = network_of(randwire(2, stages=1, nodes=8))
    order = tuple(range(network.count))
    best = SegmentOrder(order, max(profile(network, order)), 7)
    assert improved(network, best, None, 5).lower_bound == 7
    assert improved(network, best, order, 5).lower_bound == 7
    assert improved(network, best, None, 9).lower_bound == 9
