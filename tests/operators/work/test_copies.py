from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.operators.loops import Loops, copied, copied_evenly, filled, moved

SIZES, OFFSETS = st.integers(0, 300), st.integers(0, 50)


def count(loops: Loops, name: str) -> int:
    return loops.get(name, 0)


@given(size=SIZES, target=OFFSETS, source=OFFSETS)
def test_every_byte_is_copied_once(size: int, target: int, source: int) -> None:
    loops = copied(size, [(target, source)])
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
    evenly, one_by_one = copied_evenly(size, times, target, source), copied(size, places)
    assert {name: turns for name, turns in evenly.items() if turns} == {
        name: turns for name, turns in one_by_one.items() if turns
    }


@given(size=SIZES, axes=st.lists(st.lists(st.tuples(OFFSETS, OFFSETS), max_size=5), max_size=3))
def test_places_on_a_grid_are_the_sums_of_those_on_its_axes(size: int, axes: list[list[tuple[int, int]]]) -> None:
    sums = [tuple(map(sum, zip(*place, strict=True))) if place else (0, 0) for place in product(*axes)]
    grid, one_by_one = copied(size, *axes), copied(size, sums)
    assert {name: turns for name, turns in grid.items() if turns} == {
        name: turns for name, turns in one_by_one.items() if turns
    }


@given(size=SIZES, offset=OFFSETS)
def test_every_byte_is_filled_once(size: int, offset: int) -> None:
    loops = filled(size, offset)
    single = loops["filled heads"] + loops["filled bytes"]
    assert loops["filled 16 bytes"] * 16 + loops["filled words"] * 4 + single == size
    assert loops["filled heads"] == min(-offset % 4, size)


@given(size=SIZES, target=OFFSETS, source=OFFSETS)
def test_every_byte_is_moved_once(size: int, target: int, source: int) -> None:
    loops = moved(size, target, source)
    assert (
        sum(count(loops, f"moved {what}") * step for what, step in (("16 bytes", 16), ("words", 4), ("bytes", 1)))
        == size
    )


@pytest.mark.parametrize(
    ("size", "place", "bytewise"),
    [(15, (0, 0), 15), (16, (0, 0), 0), (40, (1, 0), 40), (40, (0, 2), 40), (3, (1, 1), 3)],
)
def test_the_smallest_cores_copy_bytes_where_words_do_not_fit(size: int, place: tuple[int, int], bytewise: int) -> None:
    assert copied(size, [place])["copied bytes"] == bytewise
