from __future__ import annotations

from struct import pack

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edgetool.model.types import DType
from edgetool.operators.loops import (
    Distribution,
    count_near_largest,
    negated,
    negative_sum_share,
    share_within,
    value_distribution,
    zero_share,
)
from tests.memory.account_net import Net

FLOAT32, INT8, INT16 = DType.FLOAT32, DType.INT8, DType.INT16


def test_a_constant_is_counted() -> None:
    net = Net(1)
    x = net.tensor((4,), INT8, data=bytes([0xFE, 0, 1, 5]), scales=[0.5], zero_point=1)
    own = value_distribution(net.graph([], [x]), net.tensors[x])
    assert own.negative == 0.5  # -2 and 0 lie below 1
    assert own.mean == 0.5 * (-3 - 1 + 0 + 4) / 4


def test_int8_at_its_lowest_zero_point_is_not_negative() -> None:
    net = Net(1)
    x, y = net.arena(4, zero_point=-128), net.arena(4, zero_point=3)
    graph = net.graph([x, y], [])
    assert value_distribution(graph, net.tensors[x]).negative == 0
    assert value_distribution(graph, net.tensors[x]).mean > 0
    assert value_distribution(graph, net.tensors[y]).negative == 0.5


@pytest.mark.parametrize(("code", "activation", "share"), [("ADD", "NONE", 0.5), ("ADD", "RELU", 0), ("ABS", None, 0)])
def test_int16_is_judged_by_what_makes_it(code: str, activation: str | None, share: float) -> None:
    net = Net(1)
    x = net.arena(4, dtype=INT16)
    values = {} if activation is None else {"fused_activation_function": activation}
    y = net.op(code, [x, x] if activation else [x], **values)
    assert value_distribution(net.graph([x], [y]), net.tensors[y]).negative == share


@pytest.mark.parametrize(("activation", "share"), [("RELU", 0.5), ("RELU6", 0.5), ("NONE", 0)])
def test_half_of_what_a_relu_makes_is_0_wherever_it_is_moved(activation: str, share: float) -> None:
    net = Net(1)
    x = net.arena(2, 4, dtype=FLOAT32)
    y = net.op("ADD", [x, x], fused_activation_function=activation)
    moved = net.op("RESHAPE", [net.op("PAD", [y, net.constant((0, 0, 1, 1), 2, 2)], 2, 6)], 12)
    later = net.op("TANH", [moved])
    graph = net.graph([x], [later])
    assert [zero_share(graph, net.tensors[index]) for index in (x, y, moved, later)] == [0, share, share, 0]


def test_zeros_of_a_float_constant_are_counted_and_integers_have_none_that_matter() -> None:
    net = Net(1)
    x, y = net.tensor((4,), FLOAT32, data=pack("<4f", 0, 1, -0.0, 2)), net.noise(4)
    graph = net.graph([], [x, y])
    assert (zero_share(graph, net.tensors[x]), zero_share(graph, net.tensors[y])) == (0.5, 0)


def test_a_sum_is_as_negative_as_its_operands_say() -> None:
    two_sided, small, positive = Distribution(0.5, 0, 3), Distribution(0, 0.2, 0.1), Distribution(0, 9, 1)
    assert negative_sum_share(small, positive) == 0
    assert negative_sum_share(two_sided, two_sided) == 0.5
    assert 0.4 < negative_sum_share(two_sided, small) < 0.5
    assert negative_sum_share(two_sided, positive) < 0.01
    assert negative_sum_share(positive, negated(positive)) == 0.5
    assert negative_sum_share(Distribution(1, -2, 0), Distribution(0, 1, 0)) == 1


@given(st.floats(0, 1000), st.floats(0, 1000))
def test_more_lies_within_a_larger_radius(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= share_within(low) <= share_within(high) <= 1


@given(st.integers(1, 2000), st.integers(0, 600))
@example(497, 481)
def test_the_largest_itself_is_always_near(count: int, radius: int) -> None:
    assert 1 <= count_near_largest(count, radius) <= count
    assert count_near_largest(count, 10_000) == pytest.approx(count)


def test_a_sparse_constant_tells_nothing() -> None:
    net = Net(1)
    floats, shorts = (net.tensor((64,), dtype, data=bytes(7)) for dtype in (FLOAT32, INT16))
    graph = net.graph([], [floats, shorts])
    assert zero_share(graph, net.tensors[floats]) == 0.0
    assert value_distribution(graph, net.tensors[shorts]).negative == 0.5
