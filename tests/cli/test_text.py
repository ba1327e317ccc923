from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.cli.output import duration, energy, fact, printable, short_size, size_with_unit, table
from edgetool.figure import significant


@given(st.text(), st.integers(8, 80))
def test_printable_is_one_safe_short_line(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert len(shown) <= limit
    assert all(" " <= c <= "~" for c in shown)


def test_printable_keeps_plain_names_and_shows_both_ends_of_long_ones() -> None:
    assert printable("conv2d/Relu") == "conv2d/Relu"
    assert printable("a" * 50 + "b" * 50, 20) == "aaaaaaaa...bbbbbbbbb"
    assert printable("\x1b[31mred") == "\\x1b[31mred"


def test_printable_text_contains_no_commands_for_ci_runners() -> None:
    assert printable("a ::add-mask::b ##[error]c x:0") == "a :\\x3aadd-mask:\\x3ab #\\x23[error]c x:0"
    assert printable(":::::") == ":\\x3a:\\x3a:"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0.00"),
        (1234.5, "1,234"),
        (12.34, "12.3"),
        (0.01234, "0.0123"),
        (1e-7, "0.000000100"),
        (1e-10, "1.00e-10"),
        (2e12, "2,000,000,000,000"),
    ],
)
def test_significant(value: float, shown: str) -> None:
    assert significant(value) == shown


@pytest.mark.parametrize(("size", "shown"), [(None, "unknown"), (512, "512 B"), (2048, "2,048 B (2.0 KiB)")])
def test_kib(size: int | None, shown: str) -> None:
    assert size_with_unit(size) == shown


def test_table_aligns_columns() -> None:
    lines = table(("a", "number"), [("long name", "1"), ("b", "1,000")], "<>")
    assert lines[1:] == ["long name       1", "b           1,000"]


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0, "under 1 us"),
        (0.0004, "under 1 us"),
        (0.35, "350 us"),
        (23.7, "24 ms"),
        (999, "999 ms"),
        (999.7, "1.0 s"),
        (2100, "2.1 s"),
    ],
)
def test_duration(ms: float, shown: str) -> None:
    assert duration(ms) == shown


@pytest.mark.parametrize(
    ("microjoules", "shown"),
    [(0.3, "under 1 uJ"), (350, "350 uJ"), (999.7, "1.0 mJ"), (23_700, "24 mJ"), (2.1e6, "2.1 J")],
)
def test_energy(microjoules: float, shown: str) -> None:
    assert energy(microjoules) == shown


@pytest.mark.parametrize(
    ("size", "shown"), [(None, "unknown"), (512, "512 B"), (2048, "2.00 KiB"), (3 << 20, "3.00 MiB")]
)
def test_short_size(size: int | None, shown: str) -> None:
    assert short_size(size) == shown


def test_a_table_with_a_short_row_is_a_bug() -> None:
    with pytest.raises(ValueError, match="another length"):
        table(("a", "b"), [("1", "2", "3")], "<<")


def test_a_styled_fact_is_wrapped_by_its_visible_width() -> None:
    plain = fact("Label", "word " * 30)
    styled = fact("Label", "word " * 30, style={"fg": "red"})
    assert [click.unstyle(line) for line in styled] == plain
    assert all(len(line) <= 100 for line in plain)
