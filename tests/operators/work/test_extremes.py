from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.operators.arithmetic import loops
from edgetool.operators.loops import Shape
from tests.operators.work.runs import MVE, PLAIN

SIDES = st.tuples(st.integers(1, 5), st.sampled_from(["same", "first", "second"]))


@given(st.lists(SIDES, min_size=1, max_size=4))
def test_every_element_is_compared_once(sides: list[tuple[int, str]]) -> None:
    first = tuple(1 if kind == "second" else size for size, kind in sides)
    second = tuple(1 if kind == "first" else size for size, kind in sides)
    result = tuple(size for size, _ in sides)
    found = loops(first, second, result, PLAIN)
    assert found.get("pair element", 0) + found.get("scalar element", 0) == prod(result)
    wide = loops(first, second, result, MVE)
    for kind in ("pair", "scalar"):
        rows = found.get(f"{kind} row", 0)
        length = found.get(f"{kind} element", 0) // rows if rows else 0
        assert wide.get(f"{kind} element", 0) == rows * -(-length // 16)


@pytest.mark.parametrize(
    ("first", "second", "kind", "rows", "length"),
    [
        ((2, 3, 4, 5), (2, 3, 4, 5), "pair", 1, 120),
        ((2, 3, 4, 5), (1,), "scalar", 1, 120),
        ((2, 3, 4, 5), (1, 3, 4, 5), "pair", 2, 60),
        ((2, 3, 4, 5), (2, 1, 1, 1), "scalar", 2, 60),
        ((2, 3, 4, 5), (2, 1, 4, 5), "pair", 6, 20),
        ((2, 3, 4, 5), (2, 3, 1, 1), "scalar", 6, 20),
        ((2, 3, 4, 5), (5,), "pair", 24, 5),
        ((2, 3, 4, 5), (2, 3, 4, 1), "scalar", 24, 5),
    ],
)
def test_a_row_is_as_long_as_the_shapes_allow(first: Shape, second: Shape, kind: str, rows: int, length: int) -> None:
    found = loops(first, second, first, PLAIN)
    assert (found[f"{kind} row"], found[f"{kind} element"]) == (rows, rows * length)
    assert loops(second, first, first, PLAIN) == found
