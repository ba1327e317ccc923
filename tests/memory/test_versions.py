"""The account on earlier versions of TFLM, against what these allocated on an emulated Cortex-M7."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from benchmarks.versions import Row, compared, compared_cases

from edgetool.target.load import list_runtimes, load_runtime


@pytest.fixture(scope="module")
def rows(shared: Path) -> list[Row]:
    return list(compared(shared / "data"))


@pytest.mark.slow
def test_each_version_was_measured_with_both_kernel_sets(rows: list[Row]) -> None:
    versions = {name for name in list_runtimes() if not load_runtime(name).is_native}
    measured = {(row.runtime, row.kernels) for row in rows}
    assert {name for name, _ in measured} <= versions
    assert len(measured) >= 2 * 15
    assert all((name, kernels) in measured for name, _ in measured for kernels in ("reference", "cmsis-nn"))


@pytest.mark.slow
def test_used_bytes_smallest_arena_and_refusals_are_equal(rows: list[Row]) -> None:
    total, equal = Counter(row.runtime for row in rows), Counter(row.runtime for row in rows if row.agrees)
    different = [(row.runtime, row.kernels, row.model) for row in rows if not row.agrees]
    for name, count in total.items():
        assert equal[name] >= 0.99 * count, different


@pytest.mark.slow
def test_no_account_is_below_the_measurement(rows: list[Row]) -> None:
    assert [(row.runtime, row.kernels, row.model) for row in rows if row.below] == []


def check_cases(rows: list[Row]) -> None:
    """Sizes are equal wherever TFLM ran, and nearly every other model is refused or has a known fault."""
    different = [row for row in rows if row.measured is not None and row.account != row.measured]
    assert different == []
    assert sum(row.agrees for row in rows) >= 0.98 * len(rows)


def test_generated_models_are_equal() -> None:
    check_cases(list(compared_cases(every=9)))


@pytest.mark.slow
def test_all_generated_models_are_equal() -> None:
    check_cases(list(compared_cases()))
