"""Buffers in several memories: the cheapest choice that has layouts, and what the checker accepts."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import InternalError
from edgetool.memory.checker import require_valid_choice, require_valid_lowest
from edgetool.memory.layout.solve import solve
from edgetool.memory.problem import (
    Buffer,
    Effort,
    LayoutProblem,
    Lifetime,
    LowestLayout,
    Memory,
    Overlap,
    SeveralLayout,
    SeveralProblem,
)
from edgetool.memory.several import NoChoice, relax, solve_lowest, solve_several

# At most 4 units are live at once, and no layout is lower than 5.
KNOT = ((0, 0, 3), (0, 2, 1), (1, 1, 2), (1, 3, 1), (2, 4, 1), (3, 3, 2), (4, 4, 3))


def buffer(first: int, last: int, size: int, alignment: int = 1) -> Buffer:
    return Buffer(0, -1, f"{first}-{last}", size, Lifetime(first, last), alignment=alignment, granule=1)


def problem(sizes: dict[str, int], *rows: tuple[tuple[int, int, int], tuple[int | None, ...]]) -> SeveralProblem:
    """A problem with memories of these sizes, and rows of a buffer and its costs."""
    memories = tuple(Memory(name, size) for name, size in sizes.items())
    buffers = LayoutProblem(tuple(buffer(*what) for what, _ in rows))
    return SeveralProblem(buffers, memories, tuple(costs for _, costs in rows))


def solved(given: SeveralProblem) -> SeveralLayout:
    result = solve_several(given)
    assert isinstance(result, SeveralLayout)
    return require_valid_choice(given, result)


def test_what_saves_most_is_in_the_fast_memory() -> None:
    rows = (((0, 1, 8), (0, 80)), ((1, 2, 8), (0, 20)), ((2, 3, 8), (0, 50)))
    result = solved(problem({"fast": 8, "slow": 100}, *rows))
    assert (result.memories, result.cost, result.proof) == ((0, 1, 0), 20, "bound met")


def test_a_buffer_stays_where_it_can_be() -> None:
    result = solved(problem({"fast": 8, "slow": 8}, ((0, 0, 4), (None, 7)), ((0, 0, 4), (1, None))))
    assert (result.memories, result.cost) == ((1, 0), 8)
    nowhere = solve_several(problem({"fast": 8}, ((0, 0, 4), (None,))))
    assert nowhere == NoChoice(proven=True)


def test_sums_that_fit_without_a_layout_that_does_are_excluded_with_a_proof() -> None:
    rows = tuple((what, (0, what[2])) for what in KNOT)
    result = solved(problem({"fast": 4, "slow": 100}, *rows))
    assert (result.cost, result.lower_bound, result.proof) == (1, 1, "search exhausted")
    assert relax(problem({"fast": 4, "slow": 100}, *rows), [4, 100]).bound == 0
    assert solve_several(problem({"fast": 4}, *((what, (0,)) for what in KNOT))) == NoChoice(proven=True)
    assert solved(problem({"fast": 5, "slow": 100}, *rows)).cost == 0


def test_a_stopped_search_returns_what_fits_with_its_gap() -> None:
    rows = tuple((what, (0, what[2])) for what in KNOT)
    several = problem({"fast": 4, "slow": 100}, *rows)
    result = solve_several(several, Effort(stop=lambda: True))
    assert isinstance(result, SeveralLayout)
    require_valid_choice(several, result)
    assert result.cost >= 1 > result.lower_bound == 0
    assert result.proof == "none"


def test_buffers_may_share_bytes_in_the_same_memory() -> None:
    rows = (((0, 1, 8), (0, 80)), ((1, 2, 8), (0, 80)))
    apart = problem({"fast": 9, "slow": 100}, *rows)
    assert (solved(apart).cost, solved(apart).proof) == (80, "bound met")
    for distance, cost in ((0, 0), (1, 0), (2, 80), (8, 80)):
        shared = replace(apart, buffers=replace(apart.buffers, overlaps=(Overlap(0, 1, distance),)))
        result = solved(shared)
        assert (result.cost, result.proof) == (cost, "bound met")
        if not cost:
            with pytest.raises(InternalError, match="overlap"):
                require_valid_choice(apart, result)


def test_shared_bytes_count_again_when_one_of_both_ends() -> None:
    # The second and the third one do not fit together, although the first shares bytes with the second.
    rows = (((0, 1, 8), (0, 9)), ((1, 3, 8), (0, 9)), ((2, 3, 4), (0, 9)))
    several = problem({"fast": 8, "slow": 100}, *rows)
    result = solved(replace(several, buffers=replace(several.buffers, overlaps=(Overlap(0, 1, 0),))))
    assert (result.cost, result.proof) == (9, "bound met")
    assert result.memories[0] == result.memories[1] == 0


def brute_force(given: SeveralProblem) -> int | None:
    """The cost of the cheapest choice, of all."""
    costs = []
    for choice in product(range(len(given.memories)), repeat=len(given.costs)):
        own = [costs[memory] for costs, memory in zip(given.costs, choice, strict=True)]
        if None in own:
            continue
        parts = []
        for number in range(len(given.memories)):
            members = [index for index, memory in enumerate(choice) if memory == number]
            overlaps = tuple(
                Overlap(members.index(item.first), members.index(item.second), item.min_distance)
                for item in given.buffers.overlaps
                if {item.first, item.second} <= {*members}
            )
            parts.append(LayoutProblem(tuple(given.buffers.buffers[index] for index in members), overlaps))
        heights = [solve(part).height for part in parts]
        if all(height <= memory.size_bytes for height, memory in zip(heights, given.memories, strict=True)):
            costs.append(sum(cost or 0 for cost in own))
    return min(costs, default=None)


@st.composite
def problems(draw: st.DrawFn) -> SeveralProblem:
    count, memories = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    rows = []
    for _ in range(count):
        first = draw(st.integers(0, 4))
        last = min(4, first + draw(st.integers(0, 3)))
        size, alignment = draw(st.integers(0, 8)), draw(st.sampled_from((1, 1, 2, 4)))
        costs = tuple(draw(st.one_of(st.none(), st.integers(0, 30))) for _ in range(memories))
        rows.append((buffer(first, last, size, alignment), costs))
    sizes = tuple(Memory(f"m{number}", draw(st.integers(0, 16))) for number in range(memories))
    buffers = tuple(item for item, _ in rows)
    pairs = [
        (i, j) for i, j in product(range(count), repeat=2) if buffers[i].lifetime.last == buffers[j].lifetime.first
    ]
    overlaps = tuple(
        Overlap(*(pair if draw(st.booleans()) else pair[::-1]), draw(st.integers(0, 6)))
        for pair in pairs
        if pair[0] != pair[1] and draw(st.booleans())
    )
    return SeveralProblem(LayoutProblem(buffers, overlaps), sizes, tuple(costs for _, costs in rows))


@given(problems())
def test_no_choice_is_cheaper(given: SeveralProblem) -> None:
    result, expected = solve_several(given), brute_force(given)
    if isinstance(result, NoChoice):
        assert (result.proven, expected) == (True, None)
    else:
        require_valid_choice(given, result)
        assert (result.cost, result.optimal) == (expected, True)


def lowest(given: SeveralProblem, memory: int) -> LowestLayout:
    result = solve_lowest(given, memory)
    assert isinstance(result, LowestLayout)
    return require_valid_lowest(given, result)


def test_the_fewest_bytes_of_a_memory() -> None:
    rows = (((0, 1, 8), (0, 80)), ((1, 2, 6), (0, 20)), ((2, 3, 9), (0, 50)))
    several = problem({"fast": 32, "slow": 9}, *rows)
    result = lowest(several, 0)
    # The second one must be apart from both others, of which only one can be in the fast memory with it.
    assert (result.height, result.lower_bound_bytes, result.proof) == (6, 6, "search exhausted")
    assert (result.layout.memories, result.layout.cost) == ((1, 0, 1), 130)
    unused = lowest(problem({"fast": 32, "slow": 99}, *rows), 0)
    assert (unused.height, unused.proof, unused.layout.cost) == (0, "bound met", 150)
    assert solve_lowest(problem({"fast": 6, "slow": 8}, *rows), 0) == NoChoice(proven=True)


def test_a_height_above_the_sum_of_live_buffers_is_proven() -> None:
    rows = tuple((what, (0, None)) for what in KNOT)
    result = lowest(problem({"fast": 100, "slow": 100}, *rows), 0)
    assert (result.height, result.lower_bound_bytes, result.proof) == (5, 5, "search exhausted")
    stopped = solve_lowest(problem({"fast": 100, "slow": 100}, *rows), 0, Effort(stop=lambda: True))
    assert isinstance(stopped, LowestLayout)
    assert (stopped.height >= 5, stopped.lower_bound_bytes <= 5) == (True, True)


@given(problems(), st.data())
def test_no_smaller_memory_has_room(given: SeveralProblem, data: st.DataObject) -> None:
    memory = data.draw(st.integers(0, len(given.memories) - 1))
    result = solve_lowest(given, memory)
    if isinstance(result, NoChoice):
        assert (result.proven, brute_force(given)) == (True, None)
        return
    require_valid_lowest(given, result)
    sizes = list(given.memories)
    sizes[memory] = Memory("m", result.height)
    assert result.layout.cost == brute_force(replace(given, memories=tuple(sizes)))
    if result.height:
        sizes[memory] = Memory("m", result.height - 1)
        assert brute_force(replace(given, memories=tuple(sizes))) is None


@pytest.mark.skipif(importlib.util.find_spec("ortools") is None, reason="needs the extra 'cp-sat'")
@pytest.mark.parametrize("start", [0, *(pytest.param(start, marks=pytest.mark.slow) for start in (20, 40))])
def test_cp_sat_agrees(start: int) -> None:
    from benchmarks.several_soundness import compare, compare_height

    seeds = range(start, start + 20)
    assert [what for judge in (compare, compare_height) for _, what in map(judge, seeds) if what is not None] == []


def test_the_checker_refuses_wrong_placements() -> None:
    several = problem({"fast": 8, "slow": 8}, ((0, 0, 4), (0, 7)), ((0, 0, 4), (1, None)))
    right = solved(several)
    assert right.memories == (0, 0)
    for wrong, reported in (
        (replace(right, memories=(0, 1)), "cannot be in its memory"),
        (replace(right, cost=2), "the cost is 1, not 2"),
        (replace(right, lower_bound=2), "with the bound 2"),
        (replace(right, offsets=(0, 0)), "overlap"),
        (replace(right, heights=(4, 0)), "height"),
    ):
        with pytest.raises(InternalError, match=reported):
            require_valid_choice(several, wrong)
    small = replace(several, memories=(Memory("fast", 4), Memory("slow", 8)))
    with pytest.raises(InternalError, match="fast is too small"):
        require_valid_choice(small, right)


def test_the_checker_refuses_wrong_heights() -> None:
    rows = tuple((what, (0, None)) for what in KNOT)
    several = problem({"fast": 100, "slow": 100}, *rows)
    right = lowest(several, 0)
    for wrong in (replace(right, lower_bound_bytes=4), replace(right, lower_bound_bytes=6, proof="none")):
        with pytest.raises(InternalError, match="the height is 5, with the bound"):
            require_valid_lowest(several, wrong)
