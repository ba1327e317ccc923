"""Sizes, clocks and times: what is read, what is refused, and that what is shown reads back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import UsageError
from edgetool.target.quantity import (
    format_clock,
    format_size,
    parse_clock,
    parse_energy,
    parse_long_time,
    parse_size,
    parse_time,
)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("65536", 65536),
        ("64KiB", 65536),
        ("64 KiB", 65536),
        (" 64kib ", 65536),
        ("64kB", 64000),
        ("64KB", 64000),
        ("64kb", 64000),
        ("1MiB", 1048576),
        ("1MB", 1000000),
        ("1.5MiB", 1572864),
        ("2 GiB", 2**31),
        ("12 B", 12),
        ("0", 0),
    ],
)
def test_sizes(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "clock_hz"),
    [
        ("480 MHz", 480_000_000),
        ("480MHz", 480_000_000),
        ("480mhz", 480_000_000),
        ("480000000", 480_000_000),
        ("1.008 GHz", 1_008_000_000),
        ("32.768 kHz", 32768),
        ("1 Hz", 1),
    ],
)
def test_clocks(text: str, clock_hz: int) -> None:
    assert parse_clock(text) == clock_hz


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("12.3ms", 12.3),
        ("12.3 ms", 12.3),
        ("1s", 1000.0),
        ("350us", 0.35),
        ("350\u00b5s", 0.35),
        ("350\u03bcs", 0.35),
        ("5ns", 5e-6),
    ],
)
def test_times(text: str, milliseconds: float) -> None:
    assert parse_time(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "seconds"), [("1h", 3600), ("1.5 h", 5400), ("30min", 1800), ("90s", 90), ("500ms", 0.5)]
)
def test_long_times(text: str, seconds: float) -> None:
    assert parse_long_time(text) == seconds


@pytest.mark.parametrize(
    ("text", "microjoules"),
    [
        ("500uJ", 500),
        ("500 \u00b5J", 500),
        ("500\u03bcJ", 500),
        ("1.2mJ", 1200),
        ("0.001 J", 1000),
        ("250nJ", 0.25),
        ("0uJ", 0),
    ],
)
def test_energies(text: str, microjoules: float) -> None:
    assert parse_energy(text) == microjoules


@pytest.mark.parametrize("text", [*"KiB|-1|-64KiB|+1|1e6|64XiB|0x100|nan|inf|1,024|64  KiB|1_000".split("|"), ""])
@pytest.mark.parametrize("rest", ["", " KiB"])
def test_text_that_is_not_a_number_is_rejected(text: str, rest: str) -> None:
    with pytest.raises(UsageError, match="such as"):
        parse_size(text + rest)


@pytest.mark.parametrize("text", ["1.5", "0.3B", "٣", "9" * 5000, "64K", "1m", "2G", "12MHz", "1.KiB", ".5MiB", "1\n2"])
def test_sizes_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_size(text)
    assert any(word in str(caught.value) for word in ("such as", "ambiguous", "integer number"))
    assert len(str(caught.value)) < 150


def test_an_ambiguous_size_names_both_readings() -> None:
    with pytest.raises(UsageError, match=r"KiB for 1,024 bytes or kB for 1,000"):
        parse_size("64k")


@pytest.mark.parametrize("text", ["0", "0MHz", "480 MB", "480 millihertz", "0.5", "-1MHz", ""])
def test_clocks_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"480MHz|integer number"):
        parse_clock(text)


@pytest.mark.parametrize("text", ["12.3", "12.3 MS", "1 Ms", "1 min", "-1ms", "ms", ""])
def test_times_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"12\.3ms"):
        parse_time(text)


@pytest.mark.parametrize("text", ["1", "1H", "1 hour", "1m", "-1h", "1h30min", "h", ""])
def test_long_times_refused(text: str) -> None:
    with pytest.raises(UsageError, match="30min"):
        parse_long_time(text)


@pytest.mark.parametrize("text", ["500", "1MJ", "1 UJ", "1mj", "-1uJ", "1e3uJ", "1mW", "uJ", ""])
def test_energies_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"500uJ or 1\.2mJ"):
        parse_energy(text)


@given(st.integers(min_value=0, max_value=2**50))
def test_a_shown_size_reads_back(size_bytes: int) -> None:
    assert parse_size(format_size(size_bytes)) == size_bytes


@given(st.integers(min_value=1, max_value=10**12))
def test_a_shown_clock_reads_back(clock_hz: int) -> None:
    assert parse_clock(format_clock(clock_hz)) == clock_hz


@given(st.integers(0, 10**9), st.sampled_from([("kB", 1000), ("KiB", 1024), ("MB", 10**6), ("MiB", 2**20)]))
def test_a_unit_multiplies_in_any_case(count: int, unit: tuple[str, int]) -> None:
    name, factor = unit
    for spelling in (name, name.lower(), name.upper()):
        assert parse_size(f"{count}{spelling}") == parse_size(f"{count} {spelling}") == count * factor


@given(st.text(max_size=60), st.sampled_from([parse_size, parse_clock, parse_time, parse_long_time, parse_energy]))
def test_any_text_is_read_or_refused(text: str, parse: Callable[[str], float]) -> None:
    try:
        value = parse(text)
    except UsageError:
        return
    assert value >= 0


@pytest.mark.parametrize(
    ("size_bytes", "shown"), [(0, "0 B"), (65000, "65000 B"), (524288, "512 KiB"), (2**21, "2 MiB")]
)
def test_format_size(size_bytes: int, shown: str) -> None:
    assert format_size(size_bytes) == shown


@pytest.mark.parametrize(
    ("clock_hz", "shown"),
    [(480_000_000, "480 MHz"), (1_008_000_000, "1.008 GHz"), (32768, "32.768 kHz"), (999, "999 Hz")],
)
def test_format_clock(clock_hz: int, shown: str) -> None:
    assert format_clock(clock_hz) == shown
