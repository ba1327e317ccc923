"""The fewest bytes that buffers occupy together, compared with all offsets."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.memory.layout import union
from edgetool.memory.layout.union import least_unions, shareable_bytes

Distances = dict[tuple[int, int], int]


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[int], Distances]:
    """Sizes of two to four buffers, and distances of some pairs: at the size of the other, they are apart anyway."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    pairs = [(i, j) for i in range(len(sizes)) for j in range(len(sizes)) if i != j]
    drawn = draw(st.dictionaries(st.sampled_from(pairs), st.integers(-4, 4), min_size=1))
    return sizes, {(i, j): min(distance, sizes[j]) for (i, j), distance in drawn.items()}


def smallest_union(sizes: list[int], distances: Distances) -> int:
    """The fewest bytes over all offsets."""
    total = best = sum(sizes)
    for offsets in product(*(range(total - size + 1) for size in sizes)):
        if all(
            offsets[i] - offsets[j] >= distances.get((i, j), sizes[j])
            or offsets[j] - offsets[i] >= distances.get((j, i), sizes[i])
            for i in range(len(sizes))
            for j in range(i)
        ):
            spans = (range(offset, offset + size) for offset, size in zip(offsets, sizes, strict=True))
            best = min(best, len(set().union(*spans)))
    return best


@settings(max_examples=60, deadline=None)
@given(groups())
def test_the_union_of_a_small_group_is_exact(group: tuple[list[int], Distances]) -> None:
    sizes, distances = group
    moments = [0] * len(sizes)
    assert least_unions(moments, moments, sizes, distances, 1) == [smallest_union(sizes, distances)]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(groups())
def test_the_union_of_a_large_group_is_a_bound(group: tuple[list[int], Distances]) -> None:
    sizes, distances = group
    moments = [0] * len(sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(union, "MAX_EXACT", 1)
        (bound,) = least_unions(moments, moments, sizes, distances, 1)
    assert max(sizes) <= bound <= smallest_union(sizes, distances)


def test_a_concatenation_in_place_needs_no_more_than_its_output() -> None:
    sizes = [10, 20, 30, 40, 50, 150]
    distances = {(i, 5): sum(sizes[:i]) for i in range(5)}
    moments = [0] * 6
    assert least_unions(moments, moments, sizes, distances, 1) == [150]


def test_each_moment_counts_what_is_live() -> None:
    assert least_unions([0, 1, 2, 0], [1, 2, 3, 3], [8, 8, 8, 1], {(0, 1): 2, (2, 1): 0}, 4) == [9, 11, 9, 9]


def test_what_two_buffers_can_share() -> None:
    assert shareable_bytes(10, 10, 0) == 10
    assert shareable_bytes(10, 10, 4) == 6
    assert shareable_bytes(10, 10, -4) == 10
    assert shareable_bytes(4, 10, 3) == 4
    assert shareable_bytes(4, 10, 8) == 2
    assert shareable_bytes(4, 10, 12) == 0
