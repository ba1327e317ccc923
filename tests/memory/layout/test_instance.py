from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import UsageError
from edgetool.memory.bound import lower_bound
from edgetool.memory.layout.instance import easy_bound, is_searchable, offsets_in_bytes, split
from edgetool.memory.problem import Buffer, LayoutProblem, Lifetime
from tests.memory.layout.problems import mixed_problems, plain


@given(mixed_problems(most=12))
def test_every_buffer_with_bytes_is_in_one_part(problem: LayoutProblem) -> None:
    parts = split(problem)
    placed = [i for part in parts for buffer in part.members for i in buffer]
    aliases = {b.alias for b in problem.buffers if b.size_bytes and b.alias}
    expected = [i for i, b in enumerate(problem.buffers) if b.size_bytes or b.alias in aliases]
    assert sorted(placed) == expected
    for part in parts:
        for members, size in zip(part.members, part.instance.sizes, strict=True):
            assert size * part.instance.unit == max(problem.buffers[i].aligned_bytes for i in members)


@given(st.lists(st.tuples(st.integers(-2, 12), st.integers(0, 6), st.integers(1, 9)), min_size=1, max_size=14))
def test_cliques_are_the_maximal_sets_of_live_buffers(rows: list[tuple[int, int, int]]) -> None:
    problem = plain(*((first, first + length, size) for first, length, size in rows))
    alive = [
        {i for i, b in enumerate(problem.buffers) if b.lifetime.first <= at <= b.lifetime.last} for at in range(-2, 20)
    ]
    maximal = {frozenset(s) for s in alive if s and not any(s < other for other in alive)}
    found = []
    for part in split(problem):
        part_instance = part.instance
        for clique in range(part_instance.clique_count):
            inside = [
                part.members[i][0]
                for i in range(len(part_instance.sizes))
                if part_instance.first[i] <= clique <= part_instance.last[i]
            ]
            found.append(frozenset(inside))
    assert len(found) == len(set(found))
    assert set(found) == maximal


def test_parts_are_split_where_no_buffer_is_live() -> None:
    parts = split(plain((0, 1, 4), (1, 2, 4), (3, 4, 6), (-2, -2, 2)))
    assert [part.members for part in parts] == [((3,),), ((0,), (1,)), ((2,),)]
    assert [part.instance.unit for part in parts] == [2, 4, 6]


@pytest.mark.parametrize(
    ("alignments", "sizes", "unit", "scaled"),
    [
        ((1, 1), (48, 32), 16, (1, 1)),
        ((16, 1), (48, 32), 16, (1, 1)),
        ((32, 1), (48, 32), 16, (2, 1)),
        ((16, 1), (20, 12), 4, (4, 1)),
        ((16, 4), (6, 2), 2, (8, 2)),
        ((6, 4), (8, 8), 2, (3, 2)),
    ],
)
def test_unit_divides_every_offset_that_may_be_needed(
    alignments: tuple[int, int], sizes: tuple[int, int], unit: int, scaled: tuple[int, int]
) -> None:
    buffers = tuple(
        Buffer(0, -1, "", size, Lifetime(0, 0), alignment=alignment, granule=1)
        for size, alignment in zip(sizes, alignments, strict=True)
    )
    (part,) = split(LayoutProblem(buffers))
    assert part.instance.unit == unit
    assert part.instance.alignments == scaled


def test_bound_counts_the_holes_that_alignment_leaves_under_all_but_the_highest() -> None:
    buffers = tuple(Buffer(0, -1, "", size, Lifetime(0, 0), alignment=16, granule=1) for size in (20, 12, 1))
    assert lower_bound(LayoutProblem(buffers)) == 32 + 16 + 16 - 15


def test_bound_knows_the_highest_pin_and_counts_an_alias_once() -> None:
    pinned = Buffer(0, -1, "", 8, Lifetime(5, 5), alignment=1, granule=1, pinned=100)
    twice = [Buffer(0, -1, "", size, Lifetime(size, size), alignment=1, granule=1, alias="a") for size in (3, 4)]
    assert lower_bound(LayoutProblem((pinned, *twice))) == 108
    assert lower_bound(LayoutProblem(tuple(twice))) == 4


def test_buffers_of_one_alias_are_merged() -> None:
    buffers = (
        Buffer(0, -1, "a", 8, Lifetime(0, 1), alias="x"),
        Buffer(0, -1, "b", 40, Lifetime(2, 6)),
        Buffer(0, -1, "c", 24, Lifetime(5, 7), alias="x", alignment=64),
        Buffer(0, -1, "d", 0, Lifetime(0, 9), alias="x"),
        Buffer(0, -1, "e", 0, Lifetime(0, 9), pinned=64),
        Buffer(0, -1, "f", 0, Lifetime(0, 9)),
    )
    (part,) = split(LayoutProblem(buffers))
    assert part.members == ((0, 2, 3), (1,))
    assert part.instance.sizes == (2, 3)
    assert part.instance.alignments == (4, 1)
    assert offsets_in_bytes(LayoutProblem(buffers), [part], [(4, 1)]) == (64, 16, 64, 64, 64, 0)


def test_pins_that_differ_within_an_alias_are_refused() -> None:
    buffers = tuple(Buffer(0, -1, "", 8, Lifetime(0, 0), pinned=pin, alias="x") for pin in (0, 16))
    with pytest.raises(UsageError, match="alias 'x' are pinned to 0 and 16"):
        split(LayoutProblem(buffers))


def test_pins_over_each_other_make_a_part_unsearchable() -> None:
    def pinned(pin: int, first: int) -> Buffer:
        return Buffer(0, -1, "", 8, Lifetime(first, first + 1), alignment=1, granule=1, pinned=pin)

    assert not is_searchable(split(LayoutProblem((pinned(0, 0), pinned(4, 1))))[0].instance)
    assert is_searchable(split(LayoutProblem((pinned(0, 0), pinned(8, 1))))[0].instance)


def test_many_buffers_are_split_without_looking_at_pairs() -> None:
    count = 50_000
    problem = plain(*((i // 50, i // 50 + i % 700, 1 + i % 7) for i in range(count)))
    (part,) = split(problem)
    assert len(part.members) == count
    assert easy_bound(part.instance) == lower_bound(problem)
