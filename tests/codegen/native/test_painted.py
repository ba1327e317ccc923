"""The stack that native code takes on emulated cores is below its bound, and not far below."""

from __future__ import annotations

import pytest
from benchmarks.native import painted
from benchmarks.native.stack import COMPILERS

# Library functions are counted with more than the pushes of any of them.
SLACK, LARGEST = 96, 512


def test_measured_stacks_are_within_their_bounds() -> None:
    rows = painted.read()
    assert {row.core for row in rows} <= set(COMPILERS)
    assert {row.model for row in rows} >= {"ad01_int8", "kws_ref_model", "person_detect"}
    assert [row for row in rows if row.result != "equal"] == []
    measured = [row for row in rows if row.driver == "run"]
    assert [row for row in measured if not 0 <= row.bound_bytes - row.stack_bytes <= SLACK] == []
    assert max(row.bound_bytes for row in measured) <= LARGEST


@pytest.mark.slow
@pytest.mark.parametrize("core", ["cortex-m4", "riscv32"])
def test_a_core_computes_what_tflm_computes_within_the_bound(core: str) -> None:
    if missing := painted.missing_tools(core):
        pytest.skip(f"{missing[0]} is not installed")
    batch = painted.subjects(painted.random_trials(3, first=70_000))
    for row in painted.check(core, "run", "-O2", batch):
        assert row.result == "equal", row
        assert 0 < row.stack_bytes <= row.bound_bytes, row
