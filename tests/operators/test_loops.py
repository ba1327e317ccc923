"""Loops over the elements of operands, and what is known of the values that they meet."""

from __future__ import annotations

from itertools import product
from math import prod
from struct import pack

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edgetool.model.types import DType
from edgetool.operators.loops import (
    Distribution,
    Loops,
    Shape,
    binary_loops,
    broadcast_levels,
    call_counts,
    count_near_largest,
    equal_but_for_leading_ones,
    memcpy_loops,
    memmove_loops,
    memset_loops,
    negated,
    negative_sum_share,
    share_within,
    strided_memcpy_loops,
    value_distribution,
    zero_share,
)
from tests.memory.account_net import Net


@st.composite
def broadcasts(draw: st.DrawFn, operands: int = 2) -> tuple[list[Shape], Shape]:
    """Shapes that broadcast to the last one, with ones in front left out at will."""
    result = tuple(draw(st.lists(st.integers(1, 4), max_size=5)))
    shapes = []
    for _ in range(operands):
        shape = tuple(draw(st.sampled_from((1, size))) for size in result)
        cut = draw(st.integers(0, len(shape)))
        shapes.append(shape[cut:] if set(shape[:cut]) <= {1} else shape)
    return shapes, result


def element(shape: Shape, place: tuple[int, ...]) -> int:
    """The index of the operand's element that belongs to a place in the result."""
    index = 0
    for size, at in zip(shape, place[len(place) - len(shape) :], strict=True):
        index = index * size + (at if size > 1 else 0)
    return index


@given(broadcasts(3))
def test_the_loops_go_through_the_elements_of_every_operand_in_the_order_of_the_result(
    case: tuple[list[Shape], Shape],
) -> None:
    shapes, result = case
    levels = broadcast_levels(shapes, result)
    places = product(*(range(size) for size in result))
    expected = [tuple(element(shape, place) for shape in shapes) for place in places]
    walked = [
        tuple(
            sum(turn * level.steps[operand] for turn, level in zip(turns, reversed(levels), strict=True))
            for operand in range(len(shapes))
        )
        for turns in product(*(range(level.iterations) for level in reversed(levels)))
    ]
    assert walked == expected


@given(broadcasts())
def test_the_function_is_called_once_and_by_each_turn_of_the_loops_around(case: tuple[list[Shape], Shape]) -> None:
    shapes, result = case
    levels = broadcast_levels(shapes, result)
    count = 0

    def enter(depth: int) -> None:
        nonlocal count
        count += 1
        if depth:
            for _ in range(levels[depth].iterations):
                enter(depth - 1)

    enter(max(len(levels) - 1, 0))
    assert sum(call_counts(levels)) == count


@given(broadcasts())
def test_every_element_is_made_once(case: tuple[list[Shape], Shape]) -> None:
    (first, second), result = case
    loops = binary_loops(first, second, result)
    assert sum(turns for name, turns in loops.items() if name.startswith("element")) == prod(result)


@pytest.mark.parametrize(
    ("first", "second", "result", "turns"),
    [
        ((1, 64), (64,), (1, 64), [64]),
        ((4, 6, 33), (1, 1, 33), (4, 6, 33), [33, 24]),
        ((2, 3, 5, 7), (), (2, 3, 5, 7), [210]),
        ((2, 9, 13), (2, 1, 13), (2, 9, 13), [13, 9, 2]),
        ((3, 1, 5, 4), (1, 6, 1, 4), (3, 6, 5, 4), [4, 5, 6, 3]),
        ((40, 1), (40, 1), (40, 1), [40]),
    ],
)
def test_loops_are_joined_where_both_operands_go_on(
    first: Shape, second: Shape, result: Shape, turns: list[int]
) -> None:
    assert [level.iterations for level in broadcast_levels((first, second), result)] == turns


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [((2, 5), (2, 5), "both"), ((2, 1), (2, 5), "the second"), ((2, 5), (2, 1), "the first"), ((), (), "both")],
)
def test_the_innermost_loop_is_named_by_what_goes_on_in_it(first: Shape, second: Shape, kind: str) -> None:
    result = (2, 5) if first or second else ()
    assert f"element of {kind}" in binary_loops(first, second, result)


def test_shapes_of_few_dimensions_are_copied_number_by_number() -> None:
    found = binary_loops((1, 2, 3, 4), (4,), (1, 2, 3, 4))
    assert (found["own dimension"], found["short dimension"]) == (9, 1)


@pytest.mark.parametrize(
    ("first", "result", "joined"),
    [((2, 3, 4), (2, 3, 4), 2), ((1, 1, 4), (1, 1, 4), 0), ((2, 1, 4), (2, 3, 4), 0), ((5, 1, 1), (5, 3, 4), 1)],
)
def test_dimensions_of_one_are_joined_unseen(first: Shape, result: Shape, joined: int) -> None:
    assert binary_loops(first, result, result)["joined"] == joined


def test_ones_in_front_make_no_difference() -> None:
    assert equal_but_for_leading_ones((1, 1, 4), (4,))
    assert not equal_but_for_leading_ones((4, 1), (4,))


SIZES, OFFSETS = st.integers(0, 300), st.integers(0, 50)


def count(loops: Loops, name: str) -> int:
    return loops.get(name, 0)


@given(size=SIZES, target=OFFSETS, source=OFFSETS)
def test_every_byte_is_copied_once(size: int, target: int, source: int) -> None:
    loops = memcpy_loops(size, [(target, source)])
    assert count(loops, "copies") + count(loops, "short uneven copies") == 1
    uneven = bool(target % 4 or source % 4)
    if uneven and size < 8:
        assert count(loops, "copied one by one") == max(size - 3, 0)
        return
    head = -target % 4 if count(loops, "copied heads") else 0
    blocks = [(64, "copied 64 bytes"), (16, "copied 16 bytes"), (4, "copied words")]
    rest = size - head - sum(step * count(loops, name) for step, name in blocks)
    assert 0 <= rest < 4
    assert (count(loops, "copied tails"), count(loops, "copied halfwords")) == (int(rest > 0), rest // 2)
    assert (head > 0) == bool(target % 4 and source % 4)


@given(size=SIZES, times=st.integers(0, 30), target=st.tuples(OFFSETS, OFFSETS), source=st.tuples(OFFSETS, OFFSETS))
def test_even_steps_are_so_many_places(size: int, times: int, target: tuple[int, int], source: tuple[int, int]) -> None:
    places = [(target[0] + turn * target[1], source[0] + turn * source[1]) for turn in range(times)]
    evenly, one_by_one = strided_memcpy_loops(size, times, target, source), memcpy_loops(size, places)
    assert {name: turns for name, turns in evenly.items() if turns} == {
        name: turns for name, turns in one_by_one.items() if turns
    }


@given(size=SIZES, axes=st.lists(st.lists(st.tuples(OFFSETS, OFFSETS), max_size=5), max_size=3))
def test_places_on_a_grid_are_the_sums_of_those_on_its_axes(size: int, axes: list[list[tuple[int, int]]]) -> None:
    sums = [tuple(map(sum, zip(*place, strict=True))) if place else (0, 0) for place in product(*axes)]
    grid, one_by_one = memcpy_loops(size, *axes), memcpy_loops(size, sums)
    assert {name: turns for name, turns in grid.items() if turns} == {
        name: turns for name, turns in one_by_one.items() if turns
    }


@given(size=SIZES, offset=OFFSETS)
def test_every_byte_is_filled_once(size: int, offset: int) -> None:
    loops = memset_loops(size, offset)
    single = loops["filled heads"] + loops["filled bytes"]
    assert loops["filled 16 bytes"] * 16 + loops["filled words"] * 4 + single == size
    assert loops["filled heads"] == min(-offset % 4, size)


@given(size=SIZES, target=OFFSETS, source=OFFSETS)
def test_every_byte_is_moved_once(size: int, target: int, source: int) -> None:
    loops = memmove_loops(size, target, source)
    assert (
        sum(count(loops, f"moved {what}") * step for what, step in (("16 bytes", 16), ("words", 4), ("bytes", 1)))
        == size
    )


@pytest.mark.parametrize(
    ("size", "place", "bytewise"),
    [(15, (0, 0), 15), (16, (0, 0), 0), (40, (1, 0), 40), (40, (0, 2), 40), (3, (1, 1), 3)],
)
def test_the_smallest_cores_copy_bytes_where_words_do_not_fit(size: int, place: tuple[int, int], bytewise: int) -> None:
    assert memcpy_loops(size, [place])["copied bytes"] == bytewise


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


def test_a_sparse_constant_reveals_nothing() -> None:
    net = Net(1)
    floats, shorts = (net.tensor((64,), dtype, data=bytes(7)) for dtype in (FLOAT32, INT16))
    graph = net.graph([], [floats, shorts])
    assert zero_share(graph, net.tensors[floats]) == 0.0
    assert value_distribution(graph, net.tensors[shorts]).negative == 0.5
