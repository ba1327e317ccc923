from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.errors import InternalError
from edgetool.memory.account import first_fit, tflm_offsets, tflm_order
from edgetool.memory.bound import lower_bound
from edgetool.memory.checker import check_layout, require_valid
from edgetool.memory.layout.solve import solve
from edgetool.memory.problem import Buffer, Layout, LayoutProblem, Lifetime


@st.composite
def problems(draw: st.DrawFn, most: int = 14) -> LayoutProblem:
    count = draw(st.integers(0, most))
    buffers = []
    for index in range(count):
        first = draw(st.integers(-1, 12))
        last = draw(st.integers(first, 14)) if first >= 0 else -1
        buffers.append(Buffer(0, index, f"t{index}", draw(st.integers(1, 300)), Lifetime(first, last)))
    return LayoutProblem(tuple(buffers))


def buffer(index: int, size: int, first: int, last: int) -> Buffer:
    return Buffer(0, index, f"t{index}", size, Lifetime(first, last))


@given(problems())
def test_greedy_layout_passes_the_checker_and_keeps_the_bound(problem: LayoutProblem) -> None:
    layout = solve(problem, strategy="greedy")
    assert check_layout(problem, layout) == ()
    assert layout.height >= layout.lower_bound == lower_bound(problem)
    assert layout.optimal == (layout.height == layout.lower_bound)


@given(problems())
def test_bound_is_the_largest_sum_alive_at_one_position(problem: LayoutProblem) -> None:
    live = [
        sum(b.aligned_bytes for b in problem.buffers if b.lifetime.first <= at <= b.lifetime.last)
        for at in range(-1, 15)
    ]
    assert lower_bound(problem) == max(live)


@settings(max_examples=30)
@given(problems(most=6))
def test_some_order_of_first_fit_is_optimal_and_greedy_is_never_below_it(problem: LayoutProblem) -> None:
    heights = [
        max((o + b.aligned_bytes for o, b in zip(first_fit(problem, order), problem.buffers, strict=True)), default=0)
        for order in itertools.permutations(range(len(problem.buffers)))
    ]
    assert lower_bound(problem) <= min(heights) <= solve(problem, strategy="greedy").height


def naive_tflm(problem: LayoutProblem) -> list[int]:
    """TFLM's greedy planner in another form: try every candidate offset from below."""
    order = list(range(len(problem.buffers) - 1, -1, -1))
    order.sort(key=lambda i: -problem.buffers[i].aligned_bytes)
    placed: dict[int, int] = {}
    for i in order:
        mine = problem.buffers[i]
        rivals = [j for j in placed if problem.buffers[j].lifetime.overlaps(mine.lifetime)]
        candidates = sorted({0, *(placed[j] + problem.buffers[j].aligned_bytes for j in rivals)})
        placed[i] = next(
            c
            for c in candidates
            if all(
                c + mine.aligned_bytes <= placed[j] or placed[j] + problem.buffers[j].aligned_bytes <= c for j in rivals
            )
        )
    return [placed[i] for i in range(len(problem.buffers))]


@given(problems())
def test_tflm_order_places_as_a_second_telling_of_the_rule(problem: LayoutProblem) -> None:
    order = tflm_order(problem, range(len(problem.buffers)))
    assert list(first_fit(problem, order)) == naive_tflm(problem)
    assert list(tflm_offsets(problem, {})) == naive_tflm(problem)


@given(problems(), st.data())
def test_the_runtime_fits_the_rest_around_fixed_buffers(problem: LayoutProblem, data: st.DataObject) -> None:
    """A second form of the rule: fixed buffers keep their offsets, overlapping or not."""
    fixed = {
        i: 16 * data.draw(st.integers(0, 40))
        for i in range(len(problem.buffers))
        if data.draw(st.booleans(), label=f"fix {i}")
    }
    placed = dict(fixed)
    for i in sorted(
        (i for i in range(len(problem.buffers)) if i not in fixed),
        key=lambda i: (-problem.buffers[i].aligned_bytes, -i),
    ):
        mine = problem.buffers[i]
        rivals = [
            (placed[j], placed[j] + problem.buffers[j].aligned_bytes)
            for j in placed
            if problem.buffers[j].lifetime.overlaps(mine.lifetime)
        ]
        placed[i] = next(
            at
            for at in sorted({0, *(end for _, end in rivals)})
            if all(at + mine.aligned_bytes <= start or end <= at for start, end in rivals)
        )
    assert tflm_offsets(problem, fixed) == tuple(placed[i] for i in range(len(problem.buffers)))


@given(problems(), st.data())
def test_checker_finds_a_planted_overlap(problem: LayoutProblem, data: st.DataObject) -> None:
    pairs = [
        (i, j)
        for i, j in itertools.combinations(range(len(problem.buffers)), 2)
        if problem.buffers[i].lifetime.overlaps(problem.buffers[j].lifetime)
    ]
    if not pairs:
        return
    i, j = data.draw(st.sampled_from(pairs))
    layout = solve(problem, strategy="greedy")
    offsets = list(layout.offsets)
    offsets[j] = offsets[i]
    wrong = Layout(tuple(offsets), layout.height * 2, layout.lower_bound, "none")
    assert (i, j) in {v.buffers for v in check_layout(problem, wrong) if v.rule == "overlap"}


@pytest.mark.parametrize(
    ("layout", "rule"),
    [
        (Layout((0,), 32, 32, "none"), "count"),
        (Layout((0, -16), 32, 32, "none"), "negative"),
        (Layout((0, 20), 64, 32, "none"), "alignment"),
        (Layout((0, 16), 32, 32, "none"), "height"),
        (Layout((0, 16), 48, 64, "none"), "bound"),
        (Layout((0, 16), 1648, 48, "none"), "height"),
        (Layout((16, 32), 64, 64, "bound met"), "bound"),
        (Layout((0, 32), 64, 48, "bound met"), "proof"),
        (Layout((0, 0), 48, 32, "none"), "overlap"),
    ],
)
def test_checker_names_the_broken_rule(layout: Layout, rule: str) -> None:
    problem = LayoutProblem((buffer(0, 16, 0, 1), buffer(1, 17, 1, 2)))
    assert rule in {violation.rule for violation in check_layout(problem, layout)}
    with pytest.raises(InternalError, match="the layout is invalid"):
        require_valid(problem, layout)


def test_empty_problem() -> None:
    layout = solve(LayoutProblem(()))
    assert (layout.offsets, layout.height, layout.lower_bound, layout.optimal) == ((), 0, 0, True)
