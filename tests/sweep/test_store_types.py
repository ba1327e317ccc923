"""A store from somebody else: any value in any place of its JSON is read or told, whatever is made of it."""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgetool.sweep.spec import SweepLimits
from edgetool.sweep.store import require_types
from tests.cli import sweeps

ODD = (None, True, -1, 0, 0.5, 1e308, 2**70, "x", "", "int8", "\ud800", [], {}, [1], {"a": 1}, [["convert", "a"]])
COLUMNS = ("results.value", "results.reason", "sweep.record", "variants.variant", "variants.keys")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value within a value."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield from places(item, (*path, key))


def put(value: Any, path: tuple[Any, ...], new: object) -> Any:
    if not path:
        return new
    if isinstance(value, dict):
        return {key: put(item, path[1:], new) if key == path[0] else item for key, item in value.items()}
    return [put(item, path[1:], new) if index == path[0] else item for index, item in enumerate(value)]


@pytest.mark.parametrize("column", COLUMNS)
def test_any_value_anywhere_is_shown_or_refused(tmp_path: Path, column: str) -> None:
    whole = sweeps.stored(tmp_path / "whole.sqlite", sweeps.sweep_rows()).read_bytes()
    path = tmp_path / "s.sqlite"
    table, _, name = column.partition(".")
    chance = random.Random(column)
    codes = set()
    for _ in range(40):
        path.write_bytes(whole)
        with contextlib.closing(sqlite3.connect(path)) as store:
            row, text = chance.choice(store.execute(f"SELECT rowid, {name} FROM {table}").fetchall())
            value = json.loads(text or "null")
            odd = put(value, chance.choice(list(places(value))), chance.choice(ODD))
            store.execute(f"UPDATE {table} SET {name} = ? WHERE rowid = ?", (json.dumps(odd), row))
            store.commit()
        done = sweeps.sweep("show", path)
        assert done.code in (0, 2), (odd, done.err)
        codes.add(done.code)
    assert 2 in codes


def test_types_are_those_of_the_fields() -> None:
    require_types(sweeps.record())
    for changes in (
        {"name": None},
        {"targets": ("x",)},
        {"strategy": "none"},
        {"parameter_names": ("a", 1)},
        {"options": []},
    ):
        with pytest.raises(TypeError, match=next(iter(changes))):
            require_types(sweeps.record(**changes))
    for limits in ({"reserve_bytes": True}, {"max_latency_ms": "1"}, {"active_budget": 1}):
        with pytest.raises(TypeError):
            require_types(sweeps.record(limits=replace(SweepLimits(), **limits)))
