"""Branch and bound: what it finds, what it proves, and that both engines take the same decisions."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.memory.layout import minimise
from edgetool.memory.layout.instance import Instance, easy_bound, is_searchable, layout_peak, split
from edgetool.memory.layout.kernel import FAILING, FEWEST, LOWEST, TIGHTEST
from edgetool.memory.layout.minimise import PAIRS, PYTHON_ENGINE, PlacementSearch, SearchPlan, compiled, plans
from edgetool.memory.problem import LayoutProblem, never
from tests.conftest import examples
from tests.memory.layout.problems import KNOT, minimum_peak, mixed_problems, plain

ROWS = [(i // 9, i // 9 + 3, 3 + i * 7 % 11) for i in range(120)]


@pytest.fixture
def anew() -> Iterator[None]:
    """No compiled engine is there yet, and none of the test's making stays."""
    minimise._compilation.cache_clear()
    yield
    minimise._compilation.cache_clear()


@pytest.mark.usefixtures("anew")
def test_without_numba_plain_python_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "numba" else find_spec(name))
    monkeypatch.setattr(minimise, "OPERATIONS_BEFORE_START", 0)
    (part,) = split(plain(*ROWS))
    one = PlacementSearch(part.instance)
    assert one.engine(never) is minimise.PYTHON_ENGINE
    found = one.run(400, next(plans(part.instance, 0))[0], 10_000, never)
    assert found.offsets is not None
    assert layout_peak(part.instance, found.offsets) <= 400


@pytest.mark.slow
@pytest.mark.usefixtures("anew")
def test_numba_starts_only_after_many_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="needs the extra 'fast'")
    (part,) = split(plain(*ROWS))
    one = PlacementSearch(part.instance)
    assert one.engine(never) is minimise.PYTHON_ENGINE
    assert not minimise.is_loaded()
    one.nodes = minimise.OPERATIONS_BEFORE_START
    one.engine(never)
    made = minimise.compiled(never, wait_until_ready=True)
    assert one.engine(never) is made is not None
    other = PlacementSearch(part.instance)
    assert other.engine(never) is minimise.PYTHON_ENGINE
    other.nodes = minimise.OPERATIONS_BEFORE_ARRAYS
    assert other.engine(never) is made


@pytest.mark.slow
@pytest.mark.usefixtures("anew")
def test_a_search_that_must_end_does_not_wait_for_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="needs the extra 'fast'")
    going_on = Event()
    real = minimise._compile

    def compile_late() -> minimise.SearchEngine:
        going_on.wait()
        return real()

    monkeypatch.setattr(minimise, "_compile", compile_late)
    answers = [False, True]
    assert minimise.compiled(lambda: answers.pop(0)) is None
    assert not minimise.is_loaded()
    monkeypatch.setattr(minimise, "POLL_SECONDS", 0)
    # Then the search goes on without it, and waits no more.
    assert minimise.compiled(never) is None
    assert list(minimise._compilation().polls) == []  # type: ignore[union-attr]
    assert minimise.compiled(never) is None
    going_on.set()
    assert minimise.compiled(never, wait_until_ready=True) is not None
    assert minimise.is_loaded()


@pytest.mark.usefixtures("anew")
def test_numba_works_where_it_can_keep_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    numba = pytest.importorskip("numba", reason="needs the extra 'fast'")
    asked = []

    def njit(signature: str, **options: Any) -> Callable[..., Any]:
        asked.append(options)
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(numba, "njit", njit)
    made = minimise.compiled(never, wait_until_ready=True)
    assert made is not None
    assert asked == [{"cache": True}, {}]
    (part,) = split(plain(*ROWS))
    plan = next(plans(part.instance, 0))[0]
    found = PlacementSearch(part.instance).run(400, plan, 10_000, never, made)
    assert found == PlacementSearch(part.instance).run(400, plan, 10_000, never, minimise.PYTHON_ENGINE)


RULES = (FEWEST, LOWEST, TIGHTEST, FAILING)


def find(instance: Instance, capacity: int, rule: int) -> tuple[int, ...] | None:
    """The offsets of a search that is never cut short."""
    plan = SearchPlan(range(len(instance.sizes)), rule)
    found = PlacementSearch(instance).run(capacity, plan, 10**9, never)
    assert found.exhausted == (found.offsets is None)
    return found.offsets


@examples(300)
@given(mixed_problems(most=5), st.sampled_from(RULES))
def test_the_search_finds_existing_layouts_and_exhausts_impossible_ones(problem: LayoutProblem, rule: int) -> None:
    best = minimum_peak(problem)
    if best is None:
        assert not all(is_searchable(part.instance) for part in split(problem))
        return
    found_best = 0
    for part in split(problem):
        instance = part.instance
        capacity = best // instance.unit
        offsets = find(instance, capacity, rule)
        assert offsets is not None
        while offsets is not None:
            capacity = layout_peak(instance, offsets)
            offsets = find(instance, capacity - 1, rule)
        found_best = max(found_best, capacity * instance.unit)
    assert found_best == best


@pytest.mark.parametrize("rule", RULES)
def test_exhaustion_proves_what_max_live_cannot(rule: int) -> None:
    (part,) = split(plain(*KNOT))
    assert easy_bound(part.instance) == 7
    assert find(part.instance, 7, rule) is None
    assert find(part.instance, 8, rule) is not None


@examples(60)
@given(mixed_problems(most=14, moments=10), st.integers(0, 3))
def test_machine_code_takes_the_same_decisions_as_plain_python(problem: LayoutProblem, seed: int) -> None:
    engine = compiled(never, wait_until_ready=True)
    if engine is None:
        pytest.skip("needs numba (the extra 'fast')")
    for part in split(problem):
        instance = part.instance
        if not is_searchable(instance):
            continue
        top = max(sum(instance.sizes) // 2, *instance.sizes)
        one, other = PlacementSearch(instance), PlacementSearch(instance)
        for (plan, limit), _ in zip(plans(instance, seed), range(2 * len(PAIRS)), strict=False):
            assert one.run(top, plan, limit, never, PYTHON_ENGINE) == other.run(top, plan, limit, never, engine)
            assert one.failures == other.failures


def test_the_search_continues_after_each_slice() -> None:
    (part,) = split(plain(*((i, i + 5, 3 + i * 7 % 11) for i in range(60)), *((i, i + 1, 4) for i in range(60))))
    instance = part.instance
    plan = next(plans(instance, 0))[0]
    whole = PlacementSearch(instance).run(60, plan, 3000, never)
    asked = []
    again = PlacementSearch(instance).run(60, plan, 3000, lambda: bool(asked.append(1)))
    assert whole == again
    assert len(asked) >= whole.nodes // 64 - 1


def test_search_stops_on_request() -> None:
    (part,) = split(plain(*((i // 9, i // 9 + 3, 3 + i * 7 % 11) for i in range(200))))
    found = PlacementSearch(part.instance).run(
        1000, next(plans(part.instance, 0))[0], 10**9, lambda: True, PYTHON_ENGINE
    )
    assert (found.offsets, found.exhausted) == (None, False)
    assert 0 < found.nodes <= 128  # two slices of plain Python


def test_plans_are_the_same_for_a_seed_and_differ_between_seeds() -> None:
    (part,) = split(plain(*((i // 9, i // 9 + 3, 3 + i * 7 % 11) for i in range(50))))

    def some(seed: int) -> list[tuple[SearchPlan, int]]:
        return [item for item, _ in zip(plans(part.instance, seed), range(3 * len(PAIRS)), strict=False)]

    assert some(1) == some(1)
    assert some(1)[: len(PAIRS)] == some(2)[: len(PAIRS)]
    assert some(1) != some(2)
    assert all(sorted(plan.order) == list(range(50)) for plan, _ in some(1))
