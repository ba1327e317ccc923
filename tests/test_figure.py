"""Numbers in messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.figure import in_text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.35, 3, "0.35"),
        (12.34, 3, "12.3"),
        (1234.5, 3, "1,234"),
        (99.96, 3, "100"),
        (1234.5, 6, "1,234.5"),
    ],
)
def test_it_has_the_requested_number_of_digits(value: float, digits: int, text: str) -> None:
    assert in_text(value, digits) == text


@given(st.floats(1e-4, 1e12), st.integers(2, 6))
def test_it_has_no_exponent_and_is_close(value: float, digits: int) -> None:
    text = in_text(value, digits)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.6 * 10 ** (1 - digits))
