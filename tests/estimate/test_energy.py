"""Energy, average power, and the share of a sensing interval."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import UsageError
from edgetool.estimate.energy import (
    average_power_mw,
    energy_uj,
    given_power,
    interval_findings,
    interval_utilization,
    measured_latency,
)
from edgetool.figure import Figure
from edgetool.target.types import Power

POWER = Power(50.0, 40.0, 52.0, "MLPerf Tiny, on this board")
LATENCY = Figure(10.0, 9.0, 12.0, "ms", "four models")
POSITIVE = st.floats(1e-6, 1e6)


def test_milliwatts_by_milliseconds() -> None:
    found = energy_uj(LATENCY, POWER)
    assert found is not None
    assert (found.value, found.low, found.high, found.unit) == (500.0, 360.0, 624.0, "uJ")
    assert POWER.basis in found.basis
    assert LATENCY.basis in found.basis


def test_without_power_or_time_there_is_none() -> None:
    assert energy_uj(LATENCY, None) is energy_uj(None, POWER) is average_power_mw(None, LATENCY, 100.0) is None


def test_what_the_user_measured_has_no_band() -> None:
    found = energy_uj(measured_latency(12.3), given_power(20))
    assert found is not None
    assert found.value == found.low == found.high == pytest.approx(246)
    assert "specified by the user" in found.basis
    for refused in (given_power, measured_latency):
        with pytest.raises(UsageError, match=r"power_mw|measured_ms"):
            refused(float("nan"))


def test_average_power_of_an_interval() -> None:
    found = average_power_mw(POWER, LATENCY, 100.0)
    assert found is not None
    assert (found.value, found.unit) == (pytest.approx(5.0), "mW")
    busy = average_power_mw(POWER, LATENCY, 1.0)
    assert busy is not None
    assert (busy.value, busy.low, busy.high) == (50.0, 40.0, 52.0)
    with pytest.raises(UsageError, match="interval_ms"):
        average_power_mw(POWER, LATENCY, 0)


@given(st.lists(POSITIVE, min_size=3, max_size=3), st.lists(POSITIVE, min_size=3, max_size=3), POSITIVE)
def test_bands_hold_and_average_is_energy_by_interval(power: list[float], times: list[float], interval: float) -> None:
    low, value, high = sorted(power)
    board = Power(value, low, high, "b")
    low, value, high = sorted(times)
    latency = Figure(value, low, high, "ms", "b")
    energy, average = energy_uj(latency, board), average_power_mw(board, latency, interval)
    assert energy is not None
    assert average is not None
    assert average.value <= board.active_mw
    if latency.value <= interval:
        assert average.value * interval == pytest.approx(energy.value)


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
def test_an_interval_of_zero_is_rejected(value: float) -> None:
    with pytest.raises(UsageError, match="interval_ms"):
        interval_utilization(1.0, value)
    with pytest.raises(UsageError, match="latency_ms"):
        interval_utilization(value, 1.0)
    with pytest.raises(UsageError, match="interval_ms"):
        interval_findings(1.0, value)


@given(TIMES, TIMES)
def test_the_share_is_one_exactly_if_the_inference_is_late(latency_ms: float, interval_ms: float) -> None:
    share = interval_utilization(latency_ms, interval_ms)
    assert 0 <= share <= 1
    assert (share == 1) >= bool(interval_findings(latency_ms, interval_ms))
