from __future__ import annotations

from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.operators.loops import Shape, alike, binary_loops, calls, nest


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
    levels = nest(shapes, result)
    places = product(*(range(size) for size in result))
    expected = [tuple(element(shape, place) for shape in shapes) for place in places]
    walked = [
        tuple(
            sum(turn * level.steps[operand] for turn, level in zip(turns, reversed(levels), strict=True))
            for operand in range(len(shapes))
        )
        for turns in product(*(range(level.turns) for level in reversed(levels)))
    ]
    assert walked == expected


@given(broadcasts())
def test_the_function_is_called_once_and_by_each_turn_of_the_loops_around(case: tuple[list[Shape], Shape]) -> None:
    shapes, result = case
    levels = nest(shapes, result)
    count = 0

    def enter(depth: int) -> None:
        nonlocal count
        count += 1
        if depth:
            for _ in range(levels[depth].turns):
                enter(depth - 1)

    enter(max(len(levels) - 1, 0))
    assert sum(calls(levels)) == count


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
    assert [level.turns for level in nest((first, second), result)] == turns


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
    assert alike((1, 1, 4), (4,))
    assert not alike((4, 1), (4,))
