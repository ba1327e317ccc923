"""Layouts of buffers that may overlap: valid, and the smallest if they say so, compared with all layouts."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from edgetool.memory.bound import lower_bound, shareable_bytes
from edgetool.memory.checker import check_layout
from edgetool.memory.layout.solve import solve
from edgetool.memory.problem import Buffer, Effort, Layout, LayoutProblem, Lifetime, Overlap

LARGEST = 4


def buffer(size: int, first: int, last: int, alignment: int = 1) -> Buffer:
    """A buffer in bytes that are not rounded."""
    return Buffer(0, 0, "", size, Lifetime(first, last), alignment=alignment, granule=1)


@st.composite
def problems(draw: st.DrawFn, most: int = 5, largest: int = LARGEST) -> LayoutProblem:
    """A few small buffers, some of which may overlap in one direction or both."""
    count = draw(st.integers(1, most))
    buffers = tuple(
        buffer(draw(st.integers(0, largest)), first := draw(st.integers(0, 3)), draw(st.integers(first, 3)))
        for _ in range(count)
    )
    overlaps: tuple[Overlap, ...] = ()
    if count > 1:
        pair = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda item: item[0] != item[1])
        listed = draw(st.lists(st.tuples(pair, st.integers(-largest, largest + 1)), max_size=4))
        overlaps = tuple(Overlap(first, second, distance) for (first, second), distance in listed)
    return LayoutProblem(buffers, overlaps)


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


def smallest_peak(problem: LayoutProblem, most: int) -> int:
    """The smallest peak of all layouts up to a peak that is known to suffice."""
    ranges = [range(most - b.size_bytes + 1) if b.size_bytes else range(1) for b in problem.buffers]
    ends = [b.size_bytes for b in problem.buffers]
    best = most
    for offsets in product(*ranges):
        peak = max(o + size if size else 0 for o, size in zip(offsets, ends, strict=True))
        if peak < best and is_valid(problem, offsets):
            best = peak
    return best


@given(problems())
def test_no_layout_is_smaller_than_one_that_is_proven(problem: LayoutProblem) -> None:
    layout = solve(problem)
    assert check_layout(problem, layout) == ()
    if sum(b.size_bytes for b in problem.buffers) <= 11:
        smallest = smallest_peak(problem, layout.height)
        assert layout.lower_bound <= smallest
        if layout.optimal:
            assert layout.height == smallest


@given(problems(most=12, largest=50))
def test_every_strategy_gives_a_valid_layout(problem: LayoutProblem) -> None:
    for strategy in ("greedy", "optimal"):
        layout = solve(problem, Effort(node_limit=2_000), strategy=strategy)  # type: ignore[arg-type]
        assert check_layout(problem, layout) == ()
        assert lower_bound(problem) <= layout.height


def test_a_chain_of_overlapping_tensors_meets_its_bound() -> None:
    sizes = [100, 400, 60, 240, 240, 30]
    chain = tuple(buffer(size, i - 1, i, alignment=4) for i, size in enumerate(sizes))
    overlaps = tuple(Overlap(i, i + 1, 20) for i in range(len(sizes) - 1))
    layout = solve(LayoutProblem(chain, overlaps))
    assert (layout.height, layout.lower_bound, layout.proof) == (420, 420, "bound met")


def test_what_two_buffers_can_share() -> None:
    assert shareable_bytes(10, 10, 0) == 10
    assert shareable_bytes(10, 10, 4) == 6
    assert shareable_bytes(10, 10, -4) == 10
    assert shareable_bytes(4, 10, 3) == 4
    assert shareable_bytes(4, 10, 8) == 2
    assert shareable_bytes(4, 10, 12) == 0


def test_the_checker_accepts_an_overlap_only_at_its_distance() -> None:
    problem = LayoutProblem((buffer(8, 0, 1), buffer(8, 1, 2)), (Overlap(0, 1, 4),))
    for first, second, rules in ((4, 0, []), (3, 0, ["overlap"]), (0, 4, ["overlap"]), (0, 8, [])):
        layout = Layout((first, second), max(first, second) + 8, 0, "none")
        assert [violation.rule for violation in check_layout(problem, layout)] == rules


def test_the_checker_rejects_overlaps_that_name_no_two_buffers() -> None:
    pair = (buffer(8, 0, 1), buffer(8, 1, 2))
    for overlap in (Overlap(0, 0, 0), Overlap(0, 2, 0), Overlap(-1, 0, 0)):
        rules = {item.rule for item in check_layout(LayoutProblem(pair, (overlap,)), Layout((0, 8), 16, 0, "none"))}
        assert rules == {"permission"}
