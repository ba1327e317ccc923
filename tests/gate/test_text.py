"""Text in messages: visible characters, and figures with their units."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.figure import in_text
from edgetool.gate.text import exact, percent, short_size, visible
from tests.gate.judged import hostile


@given(st.one_of(hostile, st.text(alphabet=st.characters(codec=None))))
def test_only_visible_characters_remain(text: str) -> None:
    shown = visible(text)
    assert shown.encode("utf-8").decode() == shown
    assert all(c == " " or unicodedata.category(c)[0] not in "CZ" for c in shown)


def test_a_plain_name_stays_and_a_long_one_is_cut_in_the_middle() -> None:
    assert visible("models/größe 日本.tflite") == "models/größe 日本.tflite"
    assert visible("a\n\x1b[0m\u202e\ud800") == "a\\n\\x1b[0m\\u202e\\ud800"
    assert visible("ab" * 50, 11) == "abab...abab"
    assert len(visible("\n" * 5000)) == 2000


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (9.996, "10"), (59.44, "59.4"), (300.0, "300"), (12345.6, "12,346"), (0.00123, "0.00123"),
     (1.5, "1.5"), (-2.25, "-2.25"), (1e12, "1,000,000,000,000"), (1e15, "1e+15"), (1e-10, "1e-10")],
)  # fmt: skip
def test_three_digits_are_enough(value: float, shown: str) -> None:
    assert in_text(value) == shown


def test_sizes_and_shares() -> None:
    sizes = [short_size(size) for size in (0, 1023, 1024, 18_688, 2**21)]
    assert sizes == ["0 B", "1,023 B", "1 KiB", "18.2 KiB", "2 MiB"]
    assert (exact(18_688, "B"), exact(59.44, "ms"), exact(3, None)) == ("18,688 B", "59.4 ms", "3")
    assert (percent(1, 8), percent(1, 0)) == ("12.5 %", "")
