"""The catalog, and the page about it."""

from __future__ import annotations

from collections import Counter

from benchmarks.zoo.catalog import ENTRIES
from benchmarks.zoo.left_out import LEFT_OUT
from benchmarks.zoo.page import PAGE, table_of


def test_the_zoo_is_large_and_its_names_differ() -> None:
    assert len(ENTRIES) >= 66
    assert max(Counter(entry.name for entry in ENTRIES).values()) == 1
    assert all(entry.about for entry in ENTRIES)
    assert {entry.format for entry in ENTRIES} == {"keras", "h5", "keras2 .keras", "keras2 .h5", "saved_model"}


def test_the_page_has_a_row_for_each_model_and_each_layer_left_out() -> None:
    rows = [row.split("|") for row in table_of(PAGE.read_text(encoding="utf-8")).splitlines() if row.startswith("| `")]
    assert [cells[1].strip(" `") for cells in rows] == [*(entry.name for entry in ENTRIES), *LEFT_OUT]


def test_the_page_says_refused_where_the_zoo_does() -> None:
    rows = [row.split("|") for row in table_of(PAGE.read_text(encoding="utf-8")).splitlines() if row.startswith("| `")]
    refused = {cells[1].strip(" `") for cells in rows if len(cells) > 4 and cells[4].strip().startswith("refused")}
    assert refused == {entry.name for entry in ENTRIES if entry.refused is not None}
