from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import UsageError
from edgetool.estimate.memory_speed import bandwidth_findings, bandwidth_of, estimated_bandwidth, verdict_of
from tests.estimate.figures import estimate, operator

TIMES = st.floats(1e-6, 1e9)
COUNTS = st.integers(0, 10**15)


def test_bytes_and_macs_by_time() -> None:
    run = bandwidth_of(5_000_000, 20_000_000, 10.0, 0.8)
    assert run.achieved_gbps == pytest.approx(0.5)
    assert run.utilization == pytest.approx(0.625)
    assert run.gmacs_per_s == pytest.approx(2.0)
    assert run.verdict == "balanced"
    assert bandwidth_findings(run) == ()


@pytest.mark.parametrize(
    ("utilization", "verdict"),
    [
        (0, "compute-bound or inefficient access"),
        (0.1999, "compute-bound or inefficient access"),
        (0.2, "balanced"),
        (0.8, "balanced"),
        (0.8001, "memory-bound"),
        (3, "memory-bound"),
    ],
)
def test_verdicts(utilization: float, verdict: str) -> None:
    assert verdict_of(utilization) == verdict


def test_above_the_configured_bandwidth_is_shown_and_found() -> None:
    run = bandwidth_of(2_000_000, 0, 1.0, 1.0)
    assert run.utilization == pytest.approx(2.0)
    (finding,) = bandwidth_findings(run, "a-board")
    assert (finding.rule, finding.level, finding.where) == ("bandwidth-above-configured", "warning", "a-board")
    assert "200%" in finding.message


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["latency_ms", "configured_gbps"])
def test_impossible_figures_are_refused_by_name(name: str, value: float) -> None:
    given = {"latency_ms": 1.0, "configured_gbps": 1.0, name: value}
    with pytest.raises(UsageError, match=name):
        bandwidth_of(1, 1, **given)
    with pytest.raises(UsageError, match="bytes_moved"):
        bandwidth_of(-1, 1, 1.0, 1.0)


def test_a_measured_time_takes_the_place_of_the_estimated() -> None:
    whole = estimate([operator(ms=2.0), operator(1, ms=2.0)])
    own, real = estimated_bandwidth(whole), estimated_bandwidth(whole, 8.0)
    assert own is not None
    assert real is not None
    assert own.latency_ms == 4.0
    assert own.achieved_gbps == pytest.approx(2 * real.achieved_gbps)
    with pytest.raises(UsageError, match="measured_ms"):
        estimated_bandwidth(whole, 0.0)


def test_without_a_time_there_is_no_bandwidth() -> None:
    assert estimated_bandwidth(estimate([operator()], latency_ms=None)) is None
    assert estimated_bandwidth(estimate([])) is None


@pytest.mark.parametrize("changed", [{"macs": 10**30}, {"ms": 1e30, "cycles": 10**32}])
def test_what_no_device_could_do_has_no_bandwidth(changed: dict[str, float]) -> None:
    """The shapes of a hostile file make such figures: no reason to blame an argument that nobody gave."""
    assert estimated_bandwidth(estimate([operator(**changed)])) is None


def test_the_time_of_bytes_says_nothing_of_bandwidth() -> None:
    counted, assumed = operator(ms=2.0), operator(1, ms=3.0, basis="bytes")
    assert estimated_bandwidth(estimate([counted, assumed])) is None
    assert estimated_bandwidth(estimate([counted, assumed]), 10.0) is not None
    assert estimated_bandwidth(estimate([counted, counted, assumed])) is not None


@given(COUNTS, COUNTS, TIMES, TIMES)
def test_half_the_time_is_twice_the_bandwidth(bytes_moved: int, macs: int, latency_ms: float, gbps: float) -> None:
    run, fast = bandwidth_of(bytes_moved, macs, latency_ms, gbps), bandwidth_of(bytes_moved, macs, latency_ms / 2, gbps)
    assert fast.achieved_gbps == pytest.approx(2 * run.achieved_gbps)
    assert fast.gmacs_per_s == pytest.approx(2 * run.gmacs_per_s)
    assert run.utilization * gbps == pytest.approx(run.achieved_gbps)
    assert bool(bandwidth_findings(run)) == (run.utilization > 1)
