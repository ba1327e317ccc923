"""The search for a layout, its strategies, and the rules and bounds that every layout is held to."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetool.errors import InternalError, MissingExtraError, UsageError
from edgetool.memory.account import first_fit, tflm_offsets, tflm_order
from edgetool.memory.bound import lower_bound
from edgetool.memory.checker import check_layout, require_valid
from edgetool.memory.layout import cp_sat, ejection, minimise, solve
from edgetool.memory.layout.greedy import greedy_offsets
from edgetool.memory.layout.instance import split
from edgetool.memory.layout.solve import LayoutStrategy
from edgetool.memory.problem import Buffer, Effort, Layout, LayoutProblem, Lifetime
from tests.conftest import examples
from tests.memory.layout.problems import KNOT, minimum_peak, mixed_problems, plain, read

# MiniMalloc's instances, and what no layout of them can beat: the most that is alive at once.
CHALLENGES = {"A": 1048576, "B": 1048576, "C": 1039360, "E": 1048576, "F": 1048576, "G": 1048576, "H": 1048576}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search without CP-SAT, as if it were not installed."""
    monkeypatch.setattr(solve, "available", lambda: False)


def knots(count: int) -> LayoutProblem:
    """Knots one after the other, each higher than its max-live."""
    return plain(*((first + 10 * i, last + 10 * i, size * (i + 1)) for i in range(count) for first, last, size in KNOT))


@examples(200)
@given(mixed_problems(most=5))
def test_what_is_proven_is_the_best_of_all_orders(problem: LayoutProblem) -> None:
    best = minimum_peak(problem)
    layout = solve.solve(problem, Effort(node_limit=None))
    if best is None:
        assert layout.proof == "none"
        assert "overlap" in {violation.rule for violation in check_layout(problem, layout)}
        return
    assert check_layout(problem, layout) == ()
    assert layout.optimal
    assert layout.height == layout.lower_bound == best


@given(mixed_problems(most=10))
@examples(60)
def test_every_strategy_keeps_the_rules(problem: LayoutProblem) -> None:
    if minimum_peak(LayoutProblem(tuple(b for b in problem.buffers if b.pinned is not None))) is None:
        return
    strategies: tuple[LayoutStrategy, ...] = ("optimal", "greedy", "tflm", *(("cp-sat",) if cp_sat.available() else ()))
    peaks = {}
    for strategy in strategies:
        layout = solve.solve(problem, Effort(node_limit=2000), strategy=strategy)
        assert check_layout(problem, layout) == ()
        peaks[strategy] = layout.height
    assert peaks["optimal"] <= peaks["greedy"] <= peaks["tflm"]


@pytest.mark.usefixtures("alone")
def test_exhaustion_raises_the_bound_above_max_live() -> None:
    layout = solve.solve(plain(*KNOT), Effort(node_limit=None))
    assert (layout.height, layout.lower_bound, layout.proof) == (8, 8, "search exhausted")
    assert check_layout(plain(*KNOT), layout) == ()


def test_the_tflm_strategy_is_what_tflm_does() -> None:
    buffers = tuple(
        Buffer(0, i, f"t{i}", 1 + i * 37 % 230, Lifetime(i // 3, i // 3 + i * 7 % 5), pinned=4096 if i == 9 else None)
        for i in range(60)
    )
    problem = LayoutProblem(buffers)
    assert solve.solve(problem, strategy="tflm").offsets == tflm_offsets(problem, {9: 4096})


@pytest.mark.usefixtures("alone")
def test_no_part_is_driven_below_the_highest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three knots in time, each twice as high, only the highest is searched."""
    searched = []
    real = minimise.Minimiser

    def watched(instance: object, *rest: object) -> object:
        searched.append(instance)
        return real(instance, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(minimise, "Minimiser", watched)
    layout = solve.solve(knots(3), Effort(node_limit=None))
    assert (layout.height, layout.proof) == (24, "search exhausted")
    assert len(searched) == 1


@pytest.mark.usefixtures("alone")
def test_search_ends_at_the_capacity() -> None:
    problem = plain(*KNOT)
    greedy = solve.solve(problem, strategy="greedy").height
    assert solve.solve(problem, Effort(node_limit=0), capacity=greedy).height == greedy
    layout = solve.solve(problem, Effort(node_limit=None), capacity=8)
    assert (layout.height, layout.proof) == (8, "none")


def test_reported_layouts_are_valid_and_ever_lower(shared: Path) -> None:
    problem = read(shared / "data/layout/minimalloc/E.1048576.csv")
    reported: list[Layout] = []
    layout = solve.solve(problem, improved=reported.append)
    assert reported[-1] == layout
    assert all(check_layout(problem, each) == () for each in reported)
    assert [each.height for each in reported] == sorted({each.height for each in reported}, reverse=True)
    assert len(reported) > 1


def test_a_stopped_search_gives_the_best_so_far() -> None:
    problem = knots(2)
    layout = solve.solve(problem, Effort(stop=lambda: True))
    assert check_layout(problem, layout) == ()
    assert not layout.optimal


@pytest.mark.slow
def test_the_same_seed_gives_the_same_layout(shared: Path) -> None:
    problem = read(shared / "data/layout/minimalloc/J.1048576.csv")
    limited = Effort(seed=3, node_limit=4000)
    assert solve.solve(problem, limited) == solve.solve(problem, limited)


@pytest.mark.usefixtures("alone")
def test_node_limit_ends_the_search_with_a_gap() -> None:
    layout = solve.solve(plain(*KNOT), Effort(node_limit=3))
    assert layout.proof == "none"
    assert layout.lower_bound == 7 < layout.height


def test_large_parts_are_lowered_by_ejection_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def improve(instance: object, offsets: object, effort: Effort, target: int, *rest: object) -> list[int]:
        asked.append(target)
        return ejection.improve(instance, offsets, effort, target, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(solve, "MANY_BUFFERS", 5)
    monkeypatch.setattr(solve, "improve", improve)
    layout = solve.solve(plain(*KNOT), Effort(node_limit=500))
    assert asked == [7]
    assert layout.height <= solve.solve(plain(*KNOT), strategy="greedy").height
    assert check_layout(plain(*KNOT), layout) == ()


def test_dense_parts_have_no_tables_of_a_search() -> None:
    rows = [(i, i + 900, 1) for i in range(2000)]
    (part,) = split(plain(*rows))
    assert len(rows) < solve.MANY_BUFFERS
    assert solve.is_large(part.instance)
    (part,) = split(plain(*((i, i + 9, 1) for i in range(2000))))
    assert not solve.is_large(part.instance)


def test_cp_sat_closes_what_the_search_leaves_open(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ortools", reason="needs the extra 'cp-sat'")
    monkeypatch.setattr(solve, "NODES_PER_PAIR", 0)
    layout = solve.solve(plain(*KNOT), Effort(node_limit=None))
    assert (layout.height, layout.lower_bound, layout.proof) == (8, 8, "cp-sat")


def test_the_strategy_cp_sat_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cp_sat.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="OR-Tools"):
        solve.solve(plain(*KNOT), strategy="cp-sat")


def test_pins_that_differ_within_an_alias_are_refused() -> None:
    buffers = tuple(Buffer(0, -1, "", 8, Lifetime(0, 0), pinned=pin, alias="x") for pin in (0, 16))
    with pytest.raises(UsageError, match="pinned to 0 and 16"):
        solve.solve(LayoutProblem(buffers))


@pytest.mark.parametrize("scale", [2**40 + 1, 2**47, 2**59 + 1])
@pytest.mark.parametrize("strategy", ["optimal", "cp-sat"])
def test_sizes_may_be_of_any_magnitude(scale: int, strategy: LayoutStrategy) -> None:
    if strategy == "cp-sat":
        pytest.importorskip("ortools", reason="needs the extra 'cp-sat'")
    problem = plain(*((first, last, size * scale + first) for first, last, size in KNOT))
    layout = solve.solve(problem, Effort(node_limit=2000), strategy=strategy)
    assert check_layout(problem, layout) == ()
    assert layout.height < 10 * scale


def test_an_empty_problem_needs_no_memory() -> None:
    assert solve.solve(LayoutProblem(())) == Layout((), 0, 0, "bound met")
    assert solve.solve(plain((0, 3, 0), (1, 2, 0))) == Layout((0, 0), 0, 0, "bound met")


@pytest.mark.parametrize("name", CHALLENGES)
def test_challenging_instances_are_proven(shared: Path, name: str) -> None:
    problem = read(shared / f"data/layout/minimalloc/{name}.1048576.csv")
    layout = solve.solve(problem)
    assert check_layout(problem, layout) == ()
    assert (layout.height, layout.proof) == (CHALLENGES[name], "bound met")


def test_real_models_are_proven_and_never_above_tflm(shared: Path) -> None:
    paths = sorted((shared / "data/layout/models").glob("*.csv"))
    assert len(paths) == 17
    for path in paths:
        problem = read(path)
        layout = solve.solve(problem, Effort(node_limit=2000))
        assert check_layout(problem, layout) == ()
        assert layout.proof == "bound met", path.stem
        assert layout.height <= solve.solve(problem, strategy="tflm").height


@pytest.mark.parametrize("name", ["random_1k", "backbone_1k", "unet_1k"])
def test_a_thousand_buffers_are_proven(shared: Path, name: str) -> None:
    problem = read(shared / f"data/layout/synthetic/{name}.csv")
    layout = solve.solve(problem)
    assert check_layout(problem, layout) == ()
    assert layout.proof == "bound met"


def test_the_greedy_stage_before_a_search_tries_few_orders(shared: Path) -> None:
    """What it leaves open, the search does: the whole portfolio would take longer than the search."""
    problem = read(shared / "data/layout/models/densenet121.csv")
    orders = []

    def watched(instance: object, effort: Effort, *rest: object) -> list[int]:
        orders.append(effort.node_limit)
        return greedy_offsets(instance, effort, *rest)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solve, "greedy_offsets", watched)
        solve.solve(problem)
        solve.solve(problem, strategy="greedy")
    assert orders == [solve.GREEDY_ORDERS * len(problem.buffers), Effort().node_limit]


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
    layout = solve.solve(problem, strategy="greedy")
    assert check_layout(problem, layout) == ()
    assert layout.height >= layout.lower_bound == lower_bound(problem)
    assert layout.optimal == (layout.height == layout.lower_bound)


@given(problems())
def test_bound_is_the_largest_sum_live_at_one_position(problem: LayoutProblem) -> None:
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
    assert lower_bound(problem) <= min(heights) <= solve.solve(problem, strategy="greedy").height


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
def test_the_tflm_order_agrees_with_an_independent_implementation(problem: LayoutProblem) -> None:
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
    layout = solve.solve(problem, strategy="greedy")
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
    layout = solve.solve(LayoutProblem(()))
    assert (layout.offsets, layout.height, layout.lower_bound, layout.optimal) == ((), 0, 0, True)
