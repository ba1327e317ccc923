from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from edgetool.memory.effort import never
from edgetool.memory.layout import engine, search
from edgetool.memory.layout.instance import height, split
from edgetool.memory.layout.portfolio import plans
from edgetool.memory.layout.search import Search
from tests.memory.layout.problems import plain

ROWS = [(i // 9, i // 9 + 3, 3 + i * 7 % 11) for i in range(120)]


@pytest.fixture
def anew() -> Iterator[None]:
    """No compiled engine is there yet, and none of the test's making stays."""
    engine.compiled.cache_clear()
    yield
    engine.compiled.cache_clear()


@pytest.mark.usefixtures("anew")
def test_without_numba_plain_python_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "numba" else find_spec(name))
    monkeypatch.setattr(search, "WORK_BEFORE_START", 0)
    (part,) = split(plain(*ROWS))
    one = Search(part.instance)
    assert one.engine() is engine.PLAIN
    found = one.run(400, next(plans(part.instance, 0))[0], 10_000, never)
    assert found.offsets is not None
    assert height(part.instance, found.offsets) <= 400


@pytest.mark.usefixtures("anew")
def test_numba_starts_only_after_some_work(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="needs the extra 'fast'")
    (part,) = split(plain(*ROWS))
    one = Search(part.instance)
    assert one.engine() is engine.PLAIN
    assert not engine.is_loaded()
    one.nodes = search.WORK_BEFORE_START
    assert one.engine() is engine.compiled() is not engine.PLAIN
    other = Search(part.instance)
    assert other.engine() is engine.PLAIN
    other.nodes = search.WORK_BEFORE_ARRAYS
    assert other.engine() is engine.compiled()


@pytest.mark.usefixtures("anew")
def test_numba_works_where_it_can_keep_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    numba = pytest.importorskip("numba", reason="needs the extra 'fast'")
    asked = []

    def njit(*functions: Callable[..., int], **options: Any) -> Any:
        asked.append(options)
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return functions[0]

    monkeypatch.setattr(numba, "njit", lambda *f, **o: njit(*f, **o) if f else lambda one: njit(one, **o))
    made = engine.compiled()
    assert made is not None
    assert asked == [{"cache": True}, {}]
    (part,) = split(plain(*ROWS))
    plan = next(plans(part.instance, 0))[0]
    found = Search(part.instance).run(400, plan, 10_000, never, made)
    assert found == Search(part.instance).run(400, plan, 10_000, never, engine.PLAIN)
