"""Comparing runs: to the bit, and by how much."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.pipeline.verify import Distance, FirstDifference, distance, first_difference


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32).reshape(len(values), 1)


def test_equal_runs_have_no_difference() -> None:
    outputs = (np.arange(6, dtype=np.int8).reshape(2, 3), floats(1, np.nan))
    assert first_difference(outputs, tuple(array.copy() for array in outputs)) is None
    assert first_difference((), ()) is None


def test_the_earliest_sample_counts_then_the_first_output() -> None:
    first, second = np.zeros((3, 2, 2), np.int8), np.zeros((3, 2), np.int16)
    changed_first, changed_second = first.copy(), second.copy()
    changed_first[2, 1, 0] = 5
    changed_second[1, 1] = -3
    found = first_difference((first, second), (changed_first, changed_second))
    assert found == FirstDifference(1, 1, (1,), (0, -3))
    changed_first[1, 0, 1] = 7
    found = first_difference((first, second), (changed_first, changed_second))
    assert found == FirstDifference(1, 0, (0, 1), (0, 7))


def test_bits_decide_not_values() -> None:
    zero = first_difference((floats(0.0),), (floats(-0.0),))
    assert zero is not None
    assert zero.sample == 0
    other_nan = np.array([[0x7FC00001]], np.uint32).view(np.float32)
    assert first_difference((floats(np.nan),), (other_nan,)) is not None


def test_scalars_and_empty_outputs_are_compared() -> None:
    assert first_difference((np.array([1, 2]),), (np.array([1, 3]),)) == FirstDifference(1, 0, (), (2, 3))
    assert first_difference((np.zeros((2, 0)),), (np.zeros((2, 0)),)) is None


@pytest.mark.parametrize("other", [np.zeros((2, 3), np.int8), np.zeros((2, 2), np.uint8)])
def test_outputs_of_another_kind_are_a_mistake(other: np.ndarray) -> None:
    with pytest.raises(ValueError, match="output 0"):
        first_difference((np.zeros((2, 2), np.int8),), (other,))


def test_integers_are_apart_by_steps_without_overflow() -> None:
    one, other = np.array([[-128, 5, 7]], np.int8), np.array([[127, 5, 6]], np.int8)
    assert distance(one, other) == Distance("lsb", 255, 2, 3)
    wide = np.array([2**63 - 1]), np.array([-(2**63)])
    assert distance(*wide).largest == float(2**64 - 1)
    assert distance(np.array([True, False]), np.array([True, True])) == Distance("lsb", 1, 1, 2)


def test_floats_are_apart_by_their_values() -> None:
    one, other = floats(1, np.nan, np.inf, 0.0), floats(1.5, np.nan, np.inf, -0.0)
    assert distance(one, other) == Distance("absolute", 0.5, 1, 4)
    assert distance(floats(1, np.nan), floats(1, 2)) == Distance("absolute", None, 1, 2)
    assert distance(floats(np.inf), floats(-np.inf)) == Distance("absolute", None, 1, 1)
    assert distance(floats(), floats()) == Distance("absolute", 0, 0, 0)


@given(st.lists(st.integers(-(2**15), 2**15 - 1), min_size=1, max_size=20), st.data())
def test_a_changed_element_is_found_and_measured(values: list[int], data: Any) -> None:
    place = data.draw(st.integers(0, len(values) - 1))
    new = data.draw(st.integers(-(2**15), 2**15 - 1).filter(lambda value: value != values[place]))
    one = np.array(values, np.int16).reshape(-1, 1)
    other = one.copy()
    other[place, 0] = new
    assert first_difference((one,), (other,)) == FirstDifference(place, 0, (0,), (values[place], new))
    assert distance(one, other) == Distance("lsb", abs(new - values[place]), 1, len(values))
