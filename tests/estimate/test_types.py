from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import UsageError
from edgetool.estimate.types import LARGEST, SMALLEST, integer, not_negative, positive

NO_NUMBERS: list[Any] = [None, "3", True, [1], 1j, float("nan"), float("inf"), -float("inf"), 10**400, -(10**400)]


@pytest.mark.parametrize("value", [*NO_NUMBERS, 0, -1, 0.0, -0.5, 5e-324, 1e300])
def test_what_is_not_above_zero_is_refused_by_name(value: Any) -> None:
    with pytest.raises(UsageError, match=r"power_mw: must be a realistic number, above 0") as error:
        positive(value, "power_mw")
    assert len(str(error.value)) < 150


@pytest.mark.parametrize("value", [*NO_NUMBERS, -1, -0.5, -5e-324, 1e300])
def test_what_is_negative_is_refused_by_name(value: Any) -> None:
    with pytest.raises(UsageError, match="share: must be a realistic number, 0 or greater"):
        not_negative(value, "share")


@pytest.mark.parametrize("value", [*NO_NUMBERS, 0, -1, 1.0, 2.5, Fraction(1, 2)])
def test_a_number_that_is_not_an_integer_is_rejected_by_name(value: Any) -> None:
    with pytest.raises(UsageError, match="features: must be an integer of 1 or more"):
        integer(value, "features", 1)


def test_numbers_of_other_libraries_are_accepted() -> None:
    assert positive(np.float32(0.5), "x") == positive(Fraction(1, 2), "x") == 0.5
    assert integer(np.int64(7), "x") == 7
    assert not_negative(0, "x") == 0.0


@given(st.floats(SMALLEST, LARGEST))
def test_an_accepted_value_is_returned(value: float) -> None:
    assert positive(value, "x") == not_negative(value, "x") == value
