"""The account against measurements of real TFLM on emulated Cortex-M7, M4 and M55, with both kernel sets."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.arena import Row, compare


@pytest.fixture(scope="module")
def rows(shared: Path) -> list[Row]:
    return compare(shared / "data")


def test_used_bytes_and_the_smallest_arena_are_those_of_real_tflm(rows: list[Row]) -> None:
    exact = [row for row in rows if not row.is_lower_bound]
    assert len(exact) >= 399
    assert [row for row in exact if row.used != row.measured_used] == []
    assert [row for row in exact if not 0 <= row.bytes - row.measured_min <= 64] == []
    assert sum(row.bytes == row.measured_min for row in exact) >= 0.99 * len(exact)


def test_what_is_not_accounted_for_is_a_lower_bound(rows: list[Row]) -> None:
    bounds = [row for row in rows if row.is_lower_bound]
    assert all(row.bytes <= row.measured_min for row in bounds)
