from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import pytest

from edgetool.memory.effort import never
from edgetool.memory.layout import minimise
from edgetool.memory.layout.instance import height, split
from edgetool.memory.layout.minimise import Search, plans
from tests.memory.layout.problems import plain

ROWS = [(i // 9, i // 9 + 3, 3 + i * 7 % 11) for i in range(120)]


@pytest.fixture
def anew() -> Iterator[None]:
    """No compiled engine is there yet, and none of the test's making stays."""
    minimise._starting.cache_clear()
    yield
    minimise._starting.cache_clear()


@pytest.mark.usefixtures("anew")
def test_without_numba_plain_python_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "numba" else find_spec(name))
    monkeypatch.setattr(minimise, "WORK_BEFORE_START", 0)
    (part,) = split(plain(*ROWS))
    one = Search(part.instance)
    assert one.engine(never) is minimise.PLAIN
    found = one.run(400, next(plans(part.instance, 0))[0], 10_000, never)
    assert found.offsets is not None
    assert height(part.instance, found.offsets) <= 400


@pytest.mark.usefixtures("anew")
def test_numba_starts_only_after_some_work(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="needs the extra 'fast'")
    (part,) = split(plain(*ROWS))
    one = Search(part.instance)
    assert one.engine(never) is minimise.PLAIN
    assert not minimise.is_loaded()
    one.nodes = minimise.WORK_BEFORE_START
    one.engine(never)
    made = minimise.compiled(never, patient=True)
    assert one.engine(never) is made is not None
    other = Search(part.instance)
    assert other.engine(never) is minimise.PLAIN
    other.nodes = minimise.WORK_BEFORE_ARRAYS
    assert other.engine(never) is made


@pytest.mark.usefixtures("anew")
def test_a_search_that_must_end_does_not_wait_for_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="needs the extra 'fast'")
    going_on = Event()
    real = minimise._compile

    def compile_late() -> minimise.Engine:
        going_on.wait()
        return real()

    monkeypatch.setattr(minimise, "_compile", compile_late)
    answers = [False, True]
    assert minimise.compiled(lambda: answers.pop(0)) is None
    assert not minimise.is_loaded()
    monkeypatch.setattr(minimise, "POLL_SECONDS", 0)
    # Then the search goes on without it, and waits no more.
    assert minimise.compiled(never) is None
    assert list(minimise._starting().polls) == []  # type: ignore[union-attr]
    assert minimise.compiled(never) is None
    going_on.set()
    assert minimise.compiled(never, patient=True) is not None
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
    made = minimise.compiled(never, patient=True)
    assert made is not None
    assert asked == [{"cache": True}, {}]
    (part,) = split(plain(*ROWS))
    plan = next(plans(part.instance, 0))[0]
    found = Search(part.instance).run(400, plan, 10_000, never, made)
    assert found == Search(part.instance).run(400, plan, 10_000, never, minimise.PLAIN)
