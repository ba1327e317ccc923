from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import UsageError
from edgetool.estimate.energy import interval_findings, interval_utilization

TIMES = st.floats(1e-6, 1e9)


def test_share_of_an_interval() -> None:
    assert interval_utilization(12.5, 50) == 0.25
    assert interval_utilization(50, 50) == 1
    assert interval_utilization(51, 50) == 1


def test_a_longer_inference_is_an_error_and_a_longer_band_a_warning() -> None:
    assert interval_findings(10, 50, high_ms=20) == ()
    (late,) = interval_findings(51, 50, where="a-board")
    assert (late.rule, late.level, late.where) == ("interval-too-short", "error", "a-board")
    (maybe,) = interval_findings(40, 50, high_ms=60)
    assert (maybe.rule, maybe.level) == ("interval-may-be-too-short", "warning")
    assert interval_findings(50, 50) == ()


@pytest.mark.parametrize("value", [0, -3, float("nan"), float("inf"), "50"])
def test_no_interval_of_nothing(value: float) -> None:
    with pytest.raises(UsageError, match="interval_ms"):
        interval_utilization(1.0, value)
    with pytest.raises(UsageError, match="latency_ms"):
        interval_utilization(value, 1.0)
    with pytest.raises(UsageError, match="interval_ms"):
        interval_findings(1.0, value)


@given(TIMES, TIMES)
def test_it_is_a_share_and_one_exactly_where_late(latency_ms: float, interval_ms: float) -> None:
    share = interval_utilization(latency_ms, interval_ms)
    assert 0 <= share <= 1
    assert (share == 1) >= bool(interval_findings(latency_ms, interval_ms))
