from __future__ import annotations

import pytest

from edgetool.errors import UsageError
from edgetool.gate.limits import Allowance, parse_allowance, parse_percent


@pytest.mark.parametrize(("text", "percent"), [("2%", 2.0), ("0.5 %", 0.5), (" 10% ", 10.0), ("0%", 0.0)])
def test_percent(text: str, percent: float) -> None:
    assert parse_percent(text) == percent


@pytest.mark.parametrize("text", ["2", "", "%", "-1%", "1e3%", "nan%", "1,5%", "9" * 50 + "%", "2%%", "٢%"])
def test_what_is_no_percentage(text: str) -> None:
    with pytest.raises(UsageError, match="percent such as"):
        parse_percent(text)


def test_an_allowance_is_a_share_or_a_size() -> None:
    assert parse_allowance("2%") == Allowance(percent=2.0)
    assert parse_allowance("4KiB") == Allowance(bytes=4096)
    with pytest.raises(UsageError, match="a size"):
        parse_allowance("a lot")


def test_the_larger_of_share_and_size_holds_for_sizes_the_share_alone_for_times() -> None:
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
