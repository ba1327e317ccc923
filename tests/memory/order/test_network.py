"""The searches' form of a problem says the same as the problem; its bounds are those of all downsets."""

from __future__ import annotations

import random

import pytest

from edgetool.errors import InvalidModelError
from edgetool.memory.order.bound import minimum_live, peak_bound
from edgetool.memory.order.evaluate import OrderProblem, check_order, live_profile
from edgetool.memory.order.moves import backward, forward
from edgetool.memory.order.network import (
    Network,
    ancestors_of,
    bits,
    descendants_of,
    live_after,
    network_of,
    profile,
    subnetwork,
)
from edgetool.memory.order.solve import segments
from tests.memory.order.brute_force import random_problem
from tests.memory.order.networks import inception, shuffled

PROBLEMS = [random_problem(random.Random(seed), 8) for seed in range(150)]


def downsets(network: Network) -> list[int]:
    return [
        done
        for done in range(1 << network.count)
        if all(network.needs[operator] & ~done == 0 for operator in bits(done))
    ]


def never() -> bool:
    return False


def test_profiles_are_those_of_the_definition() -> None:
    for problem in PROBLEMS:
        network = network_of(problem)
        order = range(network.count)
        expected = live_profile(problem, network.operators)
        assert (network.bytes_before_start, *profile(network, order)) == expected


def test_both_directions_count_the_same_bytes() -> None:
    for problem in PROBLEMS:
        network = network_of(problem)
        expected = profile(network, range(network.count))
        done, live = 0, network.bytes_at_start
        for operator in range(network.count):
            at_once, live = forward(network).step(live, done, operator)
            done |= 1 << operator
            assert (at_once, live) == (expected[operator], live_after(network, done))
        last = 0
        for operator in reversed(range(network.count)):
            at_once, live = backward(network).step(live, last, operator)
            last |= 1 << operator
            assert (at_once, live) == (expected[operator], backward(network).live(last))


def test_live_bytes_are_submodular() -> None:
    for problem in PROBLEMS:
        network = network_of(problem)
        live = {done: live_after(network, done) for done in downsets(network)}
        for one in list(live)[:40]:
            for other in live:
                assert live[one | other] + live[one & other] <= live[one] + live[other]


def test_the_minimum_live_bytes_are_those_over_all_downsets() -> None:
    for problem in PROBLEMS:
        network = network_of(problem)
        ancestors, descendants = ancestors_of(network), descendants_of(network)
        everything = (1 << network.count) - 1
        bound = 0
        for operator in range(network.count):
            high = everything & ~(descendants[operator] | 1 << operator)
            between = [done for done in downsets(network) if ancestors[operator] & ~done == 0 == done & ~high]
            minimum = min(live_after(network, done) for done in between)
            reach = [done for done in between if live_after(network, done) == minimum]
            smallest, largest = min(reach, key=int.bit_count), max(reach, key=int.bit_count)
            assert minimum_live(network, ancestors[operator], high) == (minimum, smallest, largest)
            bound = max(bound, minimum + network.during[operator])
        some = profile(network, range(network.count))
        assert peak_bound(network, 0, max(some), some, never) == bound


def test_an_original_order_that_cannot_run_is_corrected() -> None:
    problem = OrderProblem(
        sizes=(1, 1, 1),
        reads=((1,), (0,), ()),
        writes=((2,), (1,), (0,)),
        after=((), (), ()),
        scratch=(0, 0, 0),
        inputs=(),
        outputs=(2,),
    )
    assert network_of(problem).operators == (2, 1, 0)


def test_a_cycle_is_refused_with_its_operators() -> None:
    problem = OrderProblem(
        sizes=(1, 1, 1, 1, 1),
        reads=((), (0, 3), (1,), (2,), (3,)),
        writes=((0,), (1,), (2,), (3,), (4,)),
        after=((),) * 5,
        scratch=(0,) * 5,
        inputs=(),
        outputs=(4,),
    )
    with pytest.raises(InvalidModelError, match="cycle") as refused:
        network_of(problem)
    assert refused.value.where == "2 -> 3 -> 1 -> 2"


def test_state_can_close_a_cycle() -> None:
    problem = OrderProblem(((1), (1)), ((), (0,)), ((0,), (1,)), ((1,), ()), (0, 0), (), (1,))
    with pytest.raises(InvalidModelError, match="cycle"):
        network_of(problem)


def test_segments_are_what_every_order_runs_in_a_row() -> None:
    problem = inception()
    network = network_of(problem)
    runs = segments(network)
    assert [low for low, _ in runs] == [0, *(high for _, high in runs)][:-1]
    assert any(high - low > 5 for low, high in runs)
    for seed in range(5):
        other = shuffled(problem, seed)
        check_order(other, range(len(other.reads)))
        assert segments(network_of(other)) == runs


def test_a_part_counts_what_the_whole_counts() -> None:
    for problem in [*PROBLEMS, inception()]:
        network = network_of(problem)
        flat = profile(network, range(network.count))
        for low, high in segments(network):
            part = subnetwork(network, low, high, flat[low] - network.during[low])
            assert part.operators == network.operators[low:high]
            assert profile(part, range(part.count)) == flat[low:high]
