"""Budgets are called as the user wrote them, and violated only when exceeded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import UsageError
from edgetool.gate.limits import (
    Allowance,
    MemoryBudget,
    budget_names,
    judge_budgets,
    largest_allowance,
    parse_allowance,
    parse_budget,
    parse_percent,
)

USED = {"arena": 65_536, "ram": 70_000, "flash": 300_000}


@pytest.mark.parametrize(
    ("given_text", "name"),
    [
        ("64KiB", "violates_64kib"),
        ("65536", "violates_65536b"),
        (65536, "violates_65536b"),
        ("1.5MiB", "violates_1.5mib"),
        (" 64 kB ", "violates_64kb"),
        ("256 B", "violates_256b"),
        ("64KIB", "violates_64kib"),
        ("0", "violates_0b"),
        ("064KiB", "violates_064kib"),
    ],
)
def test_names_are_as_the_user_wrote_the_size(given_text: object, name: str) -> None:
    assert budget_names([parse_budget(given_text)]) == (name,)


@pytest.mark.parametrize(
    ("given_budget", "budget"),
    [
        ("64KiB:ram", MemoryBudget("64KiB", 65_536, "ram")),
        ("64KiB : flash", MemoryBudget("64KiB", 65_536, "flash")),
        ("64KiB:arena", MemoryBudget("64KiB", 65_536, "arena")),
        ({"size": "64KiB", "of": "ram"}, MemoryBudget("64KiB", 65_536, "ram")),
        ({"size": 65536}, MemoryBudget("65536", 65_536, "arena")),
    ],
)
def test_the_memory_of_a_budget(given_budget: Any, budget: MemoryBudget) -> None:
    assert parse_budget(given_budget) == budget


@pytest.mark.parametrize(
    ("given_budget", "said"),
    [
        ("64K", "ambiguous"),
        ("64KiB:rom", "not to 'rom'"),
        ("64KiB:", "not to ''"),
        ("", "not a size"),
        ("-1", "not a size"),
        ({"of": "ram"}, "'size' is missing"),
        ({"size": "1KiB", "off": "ram"}, "unknown key 'off'"),
        ({"size": "1KiB", "of": 3}, "not to '3'"),
        ({"size": True}, "'true' is not a budget"),
        (["10KiB"], "a list is not a budget such as"),
        ({"size": {"of": "ram"}}, "a table is not a budget"),
        ({"size": "1KiB", "of": ["ram"]}, "not to a list"),
        (True, "'true' is not a budget"),
        (1.5, "1.5"),
        ("9" * 100, "not a size"),
    ],
)
def test_invalid_budgets_are_reported(given_budget: Any, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_budget(given_budget)
    assert said in raised.value.what


def test_a_budget_is_violated_when_strictly_exceeded() -> None:
    budgets = [MemoryBudget("65536", 65_536), MemoryBudget("65535", 65_535), MemoryBudget("64KiB", 65_536, "ram")]
    judged = judge_budgets(budgets, USED)
    assert [(item.name, item.violated) for item in judged] == [
        ("violates_65536b", False),
        ("violates_65535b", True),
        ("violates_64kib", True),
    ]
    assert [(item.budget, item.bytes, item.of) for item in judged][2] == ("64KiB", 65_536, "ram")


def test_budgets_with_the_same_name_are_distinguished_by_their_memory() -> None:
    budgets = [
        MemoryBudget("64KiB", 65_536),
        MemoryBudget("64KIB", 65_536, "ram"),
        MemoryBudget("64 KiB", 65_536, "flash"),
    ]
    assert budget_names(budgets) == ("violates_64kib", "violates_64kib_ram", "violates_64kib_flash")
    assert budget_names(budgets[1:]) == ("violates_64kib_ram", "violates_64kib_flash")


BUDGETS = st.builds(
    parse_budget,
    st.tuples(
        st.sampled_from(["1", "1.0", "2", "64"]),
        st.sampled_from(["KiB", "kib", " kB", "MiB"]),
        st.sampled_from(["", ":arena", ":ram", ":flash"]),
    ).map("".join),
)


@given(st.lists(BUDGETS, max_size=12))
def test_names_are_never_ambiguous(budgets: list[MemoryBudget]) -> None:
    judged = judge_budgets(budgets, USED)
    assert len({item.name for item in judged}) == len(judged)
    assert {(item.bytes, item.of) for item in judged} == {(budget.bytes, budget.of) for budget in budgets}
    assert all(item.violated == (USED[item.of] > item.bytes) for item in judged)


def test_a_lower_bound_may_violate_what_it_does_not_exceed() -> None:
    budgets = [parse_budget(text) for text in ("32KiB", "64KiB", "80000B:ram", "1MiB:flash")]
    found = judge_budgets(budgets, USED, exact=False)
    assert [item.violated for item in found] == [True, None, None, False]


@pytest.mark.parametrize(("text", "percent"), [("2%", 2.0), ("0.5 %", 0.5), (" 10% ", 10.0), ("0%", 0.0)])
def test_percent(text: str, percent: float) -> None:
    assert parse_percent(text) == percent


@pytest.mark.parametrize("text", ["2", "", "%", "-1%", "1e3%", "nan%", "1,5%", "9" * 50 + "%", "2%%", "٢%"])
def test_invalid_percentages_are_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="percent such as"):
        parse_percent(text)


def test_an_allowance_is_a_share_or_a_size() -> None:
    assert parse_allowance("2%") == Allowance(percent=2.0)
    assert parse_allowance("4KiB") == Allowance(bytes=4096)
    with pytest.raises(UsageError, match="a size"):
        parse_allowance("a lot")


def test_sizes_may_grow_by_the_larger_of_share_and_bytes_and_times_by_the_share() -> None:
    both = Allowance(percent=2.0, bytes=100)
    assert (both.of_bytes(1000), both.of_bytes(10_000), both.of_time(1000.0)) == (100, 200, 20.0)
    assert Allowance(percent=2.0).of_bytes(99) == 1  # whole bytes, rounded down
    assert Allowance(percent=0.29).of_bytes(100_000) == 290  # floating point has 289.99999999999994
    assert Allowance().of_bytes(10**9) == 0
    assert [str(item) for item in (both, Allowance(), Allowance(bytes=4096), Allowance(percent=0.5))] == [
        "2 % or 100 B",
        "0 %",
        "4,096 B",
        "0.5 %",
    ]


def test_of_several_allowances_the_largest_applies() -> None:
    allowances = [parse_allowance("2%"), parse_allowance("4KiB"), parse_allowance("1%")]
    assert largest_allowance(allowances) == Allowance(2.0, 4096)
    assert largest_allowance([]) == Allowance()
