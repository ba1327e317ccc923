"""Layouts of buffers that may overlap: valid, and the smallest if they say so, compared with all layouts."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.errors import InternalError
from edgetool.memory.bound import live_bytes, lower_bound
from edgetool.memory.checker import check_layout
from edgetool.memory.layout import solve as stages
from edgetool.memory.layout.cp_sat import available
from edgetool.memory.layout.instance import layout_peak, split
from edgetool.memory.layout.orientation import OrientationSearch
from edgetool.memory.layout.overlapping import first_fit, place, requirements
from edgetool.memory.layout.solve import LayoutStrategy, solve
from edgetool.memory.problem import Buffer, Effort, Layout, LayoutProblem, Lifetime, NodeBudget, Overlap
from tests.conftest import examples

LARGEST = 4


def buffer(
    size: int, first: int, last: int, alignment: int = 1, pinned: int | None = None, alias: str | None = None
) -> Buffer:
    """A buffer in bytes that are not rounded."""
    return Buffer(0, -1, "", size, Lifetime(first, last), -1, alignment, 1, pinned, alias)


@st.composite
def problems(
    draw: st.DrawFn, most: int = 5, largest: int = LARGEST, alignments: tuple[int, ...] = (1,)
) -> LayoutProblem:
    """A few small buffers, some of which may overlap in one direction or both."""
    count = draw(st.integers(1, most))
    buffers = tuple(
        buffer(
            draw(st.integers(0, largest)),
            first := draw(st.integers(0, 3)),
            draw(st.integers(first, 3)),
            draw(st.sampled_from(alignments)),
        )
        for _ in range(count)
    )
    overlaps: tuple[Overlap, ...] = ()
    if count > 1:
        pair = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda item: item[0] != item[1])
        listed = draw(st.lists(st.tuples(pair, st.integers(-largest, largest + 1)), max_size=4))
        overlaps = tuple(Overlap(first, second, distance) for (first, second), distance in listed)
    return LayoutProblem(buffers, overlaps)


@st.composite
def mixed_problems(draw: st.DrawFn) -> LayoutProblem:
    """The same with alignments, and a pinned buffer and buffers of one alias that no overlap names."""
    problem = draw(problems(most=4, largest=6, alignments=(1, 2, 4)))
    buffers, extra = list(problem.buffers), draw(st.sampled_from(["", "pin", "alias"]))
    if extra == "pin":
        buffers[0] = replace(buffers[0], pinned=draw(st.integers(0, 2)) * 4)
    if extra == "alias":
        buffers += [buffer(draw(st.integers(0, 3)), moment, moment, alias="x") for moment in (1, 2)]
    return LayoutProblem(tuple(buffers), problem.overlaps)


def is_valid(problem: LayoutProblem, offsets: tuple[int, ...]) -> bool:
    """Whether all live pairs are disjoint or permitted."""
    buffers = problem.buffers
    for i in range(len(buffers)):
        for j in range(i):
            one, other = buffers[i], buffers[j]
            if not (one.size_bytes and other.size_bytes and one.lifetime.overlaps(other.lifetime)):
                continue
            apart = offsets[i] >= offsets[j] + other.size_bytes or offsets[j] >= offsets[i] + one.size_bytes
            if not apart and not any(
                {o.first, o.second} == {i, j} and offsets[o.first] - offsets[o.second] >= o.min_distance
                for o in problem.overlaps
            ):
                return False
    return True


def merged(problem: LayoutProblem) -> LayoutProblem:
    """The problem with one buffer, at the end, for those of the alias."""
    members = [b for b in problem.buffers if b.alias]
    if not any(b.size_bytes for b in members):
        return replace(problem, buffers=tuple(b for b in problem.buffers if not b.alias))
    times = min(b.lifetime.first for b in members), max(b.lifetime.last for b in members)
    one = buffer(max(b.size_bytes for b in members), *times)
    return replace(problem, buffers=(*(b for b in problem.buffers if not b.alias), one))


def smallest_peak(problem: LayoutProblem, most: int) -> int:
    """The smallest peak of all layouts up to a peak that is known to suffice."""
    problem = merged(problem)
    ranges = []
    for b in problem.buffers:
        free = range(0, most - b.size_bytes + 1, b.alignment) if b.size_bytes else range(1)
        ranges.append(free if b.pinned is None else range(b.pinned, b.pinned + 1))
    best = most
    for offsets in product(*ranges):
        peak = max((o + b.size_bytes for o, b in zip(offsets, problem.buffers, strict=True) if b.size_bytes), default=0)
        if peak < best and is_valid(problem, offsets):
            best = peak
    return best


@settings(max_examples=100)
@given(problems())
def test_no_layout_is_smaller_than_one_that_is_proven(problem: LayoutProblem) -> None:
    layout = solve(problem)
    assert check_layout(problem, layout) == ()
    assert layout.optimal
    if sum(b.size_bytes for b in problem.buffers) <= 11:
        assert layout.height == smallest_peak(problem, layout.height)


@examples(60)
@given(mixed_problems())
def test_the_proof_holds_with_alignments_and_pins_and_aliases(problem: LayoutProblem) -> None:
    layout = solve(problem)
    assert check_layout(problem, layout) == ()
    assert layout.optimal
    assert lower_bound(problem) <= layout.height
    if layout.height <= 14:
        assert layout.height == smallest_peak(problem, layout.height)


@given(problems(most=12, largest=50, alignments=(1, 4)))
def test_every_strategy_gives_a_valid_layout(problem: LayoutProblem) -> None:
    strategies: tuple[LayoutStrategy, ...] = ("tflm", "greedy", "optimal")
    heights = []
    for strategy in strategies:
        reported: list[Layout] = []
        layout = solve(problem, Effort(node_limit=2_000), strategy=strategy, improved=reported.append)
        assert check_layout(problem, layout) == ()
        assert lower_bound(problem) <= layout.height
        for intermediate in reported:
            assert check_layout(problem, intermediate) == ()
        heights.append(layout.height)
    # TFLM's order is the first of the others. Few nodes can leave the search above the greedy layout.
    assert max(heights) == heights[0]
    assert layout.height == min(heights) or not layout.optimal
    plain = replace(problem, overlaps=())
    assert heights[0] == solve(plain, strategy="tflm").height


@pytest.mark.skipif(not available(), reason="needs OR-Tools")
@settings(max_examples=40, deadline=None)
@given(problems(most=8, largest=9, alignments=(1, 1, 4)))
def test_cp_sat_agrees(problem: LayoutProblem) -> None:
    layout, exact = solve(problem, strategy="cp-sat"), solve(problem)
    assert check_layout(problem, layout) == ()
    assert layout.optimal
    assert layout.height == exact.height


@examples(80)
@given(problems(most=4))
def test_the_exact_search_needs_no_bound(problem: LayoutProblem) -> None:
    heights = [0]
    for part in split(problem):
        instance = part.instance
        required = requirements(instance, 1000)
        assert required is not None
        highest = tuple(sum(instance.sizes[:i]) * max(instance.alignments) for i in range(len(instance.sizes)))
        search = OrientationSearch(instance, required, highest, 0)
        budget = NodeBudget(Effort(node_limit=None))
        while (peak := max(map(int.__add__, search.offsets, instance.sizes))) > search.bound:
            search.step(0, budget)
        heights.append(peak * instance.unit)
    assert max(heights) == smallest_peak(problem, max(heights))


def test_first_fit_uses_the_distance_of_either_direction() -> None:
    (part,) = split(LayoutProblem((buffer(8, 0, 1), buffer(6, 1, 1)), (Overlap(0, 1, 2), Overlap(1, 0, 3))))
    required = requirements(part.instance, 10)
    assert required == [[(1, 2, 3)], [(0, 3, 2)]]
    assert first_fit(part.instance, required, [0, 1]) == [0, 3]
    assert first_fit(part.instance, required, [1, 0]) == [2, 0]
    assert requirements(part.instance, 0) is None


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4), st.integers(0, 4), st.integers(-9, 9)), min_size=2))
@examples(60)
def test_orders_are_placed_from_any_buffer_on_and_up_to_any_peak(drawn: list[tuple[int, int, int, int]]) -> None:
    buffers = tuple(buffer(size, first, first + length) for size, first, length, _ in drawn)
    overlaps = (Overlap(i, i + 1, distance) for i, (_, _, _, distance) in enumerate(drawn[:-1]))
    for part in split(LayoutProblem(buffers, tuple(overlaps))):
        instance = part.instance
        required = requirements(instance, 1000)
        assert required is not None
        order = list(reversed(range(len(instance.sizes))))
        offsets = first_fit(instance, required, order)
        peak = layout_peak(instance, offsets)
        for start in range(len(order)):
            placed = [offsets[i] if i in order[:start] else -1 for i in range(len(order))]
            assert place(instance, required, order[start:], placed, peak)
            assert placed == offsets
        assert not place(instance, required, order, [-1] * len(order), peak - 1)


def test_pairs_that_constrain_nothing_are_omitted() -> None:
    (part,) = split(LayoutProblem((buffer(8, 0, 1), buffer(6, 1, 1)), (Overlap(0, 1, -2), Overlap(1, 0, 3))))
    assert requirements(part.instance, 10) == [[], []]
    assert solve(LayoutProblem((buffer(8, 0, 1), buffer(6, 1, 1)), (Overlap(0, 1, -2), Overlap(1, 0, 3)))).height == 8


def test_a_negative_distance_lets_the_first_be_below() -> None:
    """The first may start up to 3 bytes before the second, which is pinned."""
    problem = LayoutProblem((buffer(8, 0, 1), buffer(2, 1, 1, pinned=3)), (Overlap(0, 1, -3),))
    assert solve(problem) == Layout((0, 3), 8, 8, "bound met")
    closer = LayoutProblem(problem.buffers, (Overlap(0, 1, -2),))
    assert solve(closer).offsets == (1, 3)
    assert solve(closer).height == 9


def test_distances_are_rounded_to_the_alignment() -> None:
    problem = LayoutProblem((buffer(20, 0, 1, 4), buffer(20, 1, 2, 4)), (Overlap(0, 1, 5),))
    assert solve(problem) == Layout((8, 0), 28, 28, "bound met")


def test_a_chain_of_overlapping_tensors_meets_its_bound() -> None:
    sizes = [100, 400, 60, 240, 240, 30]
    chain = tuple(buffer(size, i - 1, i, alignment=4) for i, size in enumerate(sizes))
    overlaps = tuple(Overlap(i, i + 1, 20) for i in range(len(sizes) - 1))
    problem = LayoutProblem(chain, overlaps)
    layout = solve(problem)
    assert (layout.height, layout.lower_bound, layout.proof) == (420, 420, "bound met")
    assert live_bytes(problem) == [(-1, 100), (0, 400), (1, 420), (2, 240), (3, 260), (4, 260), (5, 30), (6, 0)]


def test_a_sum_of_two_dying_tensors_needs_its_distance_once() -> None:
    """Both inputs may follow the output by 4 bytes, but only one of them overlaps it."""
    buffers = (buffer(16, 0, 1), buffer(16, 0, 1), buffer(16, 1, 1))
    problem = LayoutProblem(buffers, (Overlap(0, 2, 4), Overlap(1, 2, 4)))
    assert lower_bound(problem) == 36
    assert solve(problem).height == 36


def test_a_gap_above_the_bound_is_closed_without_cp_sat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three tensors in a row, the second cannot be above the first and below the third at once."""
    monkeypatch.setattr(stages, "available", lambda: False)
    buffers = (buffer(7, 0, 1), buffer(7, 1, 2), buffer(7, 2, 3), buffer(3, 0, 3))
    problem = LayoutProblem(buffers, (Overlap(0, 1, 2), Overlap(2, 1, 2), Overlap(1, 3, 1), Overlap(2, 3, 2)))
    layout = solve(problem)
    assert check_layout(problem, layout) == ()
    assert layout.optimal
    assert layout.height == smallest_peak(problem, layout.height)


def test_parts_are_proven_separately() -> None:
    """The second part, without overlaps, has no layout as low as its live bytes, and is not as high as the first."""
    knot = ((0, 0, 3), (0, 1, 3), (1, 2, 2), (1, 3, 2), (2, 3, 1), (3, 4, 4), (4, 4, 3))
    second = tuple(buffer(size, 10 + first, 10 + last) for first, last, size in knot)
    problem = LayoutProblem((buffer(9, 0, 1), buffer(9, 1, 2), *second), (Overlap(1, 0, 3),))
    assert solve(problem).height == 12
    assert solve(problem).proof == "bound met"
    problem = LayoutProblem((buffer(5, 0, 1), buffer(5, 1, 2), *second), (Overlap(1, 0, 2),))
    assert (solve(problem).height, solve(problem).proof) == (8, "search exhausted")


def test_pins_that_overlap_without_permission_are_no_proof() -> None:
    buffers = (buffer(8, 0, 1, pinned=0), buffer(8, 1, 2, pinned=4), buffer(2, 0, 2))
    assert solve(LayoutProblem(buffers, (Overlap(1, 0, 5),))).proof == "none"
    layout = solve(LayoutProblem(buffers, (Overlap(1, 0, 4),)))
    assert (layout.height, layout.proof) == (14, "bound met")


def test_a_part_with_too_many_pairs_ignores_its_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MANY_PAIRS", 0)
    problem = LayoutProblem((buffer(8, 0, 1), buffer(8, 1, 2)), (Overlap(0, 1, 2),))
    layout = solve(problem, Effort(node_limit=1000))
    assert (layout.height, layout.lower_bound, layout.proof) == (16, 10, "none")


def test_the_search_stops_at_a_capacity_and_on_request() -> None:
    sizes = [9, 7, 8, 6, 9, 5, 8]
    chain = tuple(buffer(size, i - 1, i + 1) for i, size in enumerate(sizes))
    problem = LayoutProblem(chain, tuple(Overlap(i, i + 1, 3) for i in range(len(sizes) - 1)))
    best = solve(problem)
    assert best.optimal
    assert best.height <= solve(problem, capacity=best.height + 2).height <= best.height + 2
    stopped = solve(problem, Effort(stop=lambda: True))
    assert check_layout(problem, stopped) == ()
    assert solve(problem, Effort(seed=3)) == solve(problem, Effort(seed=3))


@pytest.mark.parametrize("overlap", [Overlap(0, 0, 0), Overlap(0, 4, 0), Overlap(-1, 0, 0), Overlap(2, 3, 0)])
def test_an_overlap_of_no_two_buffers_is_an_error(overlap: Overlap) -> None:
    buffers = (buffer(8, 0, 1), buffer(8, 1, 2), *(buffer(8, 1, 2, alias="x") for _ in range(2)))
    with pytest.raises(InternalError, match="cannot overlap"):
        solve(LayoutProblem(buffers, (overlap,)))
