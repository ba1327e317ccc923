"""The energy of an inference, and the share of a sensing interval that it takes."""

from __future__ import annotations

from edgetool.estimate.types import positive
from edgetool.figure import Figure, in_text
from edgetool.finding import Finding
from edgetool.target.types import Power


def given_power(power_mw: float) -> Power:
    """Return the power that the user measured, in milliwatts. Raises UsageError unless it is a number above 0."""
    value = positive(power_mw, "power_mw")
    return Power(value, value, value, "power specified by the user")


def measured_latency(measured_ms: float) -> Figure:
    """Return a measured latency as a figure without a band. Raises UsageError unless it is a number above 0."""
    value = positive(measured_ms, "measured_ms")
    return Figure(value, value, value, "ms", "measured")


def energy_uj(latency: Figure | None, power: Power | None) -> Figure | None:
    """Return the microjoules of one inference (mW x ms); None if power or time is not known.

    The band is from minimum power times minimum time to maximum power times maximum time, and therefore holds however
    the two are correlated.
    """
    if latency is None or power is None:
        return None
    return Figure(
        value=power.active_mw * latency.value,
        low=power.low_mw * latency.low,
        high=power.high_mw * latency.high,
        unit="uJ",
        basis=f"{power.basis}; time: {latency.basis}",
    )


def average_power_mw(power: Power | None, latency: Figure | None, interval_ms: float) -> Figure | None:
    """Return the average milliwatts of one inference per interval; None if power or time is not known.

    The board's consumption between inferences is not included. An inference longer than the interval follows the
    previous one without a pause. Raises UsageError naming interval_ms unless it is a number above 0.
    """
    interval = positive(interval_ms, "interval_ms")
    if latency is None or power is None:
        return None
    return Figure(
        value=power.active_mw * min(1.0, latency.value / interval),
        low=power.low_mw * min(1.0, latency.low / interval),
        high=power.high_mw * min(1.0, latency.high / interval),
        unit="mW",
        basis=f"{power.basis}; time: {latency.basis}; excluding consumption between inferences",
    )


def interval_utilization(latency_ms: float, interval_ms: float) -> float:
    """Return the share of the interval in which the device runs inference, 0 to 1; 1 if the inference is longer.

    Raises UsageError naming the argument that is not a number above 0.
    """
    return min(1.0, positive(latency_ms, "latency_ms") / positive(interval_ms, "interval_ms"))


def interval_findings(
    latency_ms: float, interval_ms: float, *, high_ms: float | None = None, where: str | None = None
) -> tuple[Finding, ...]:
    """Return an error if the inference is longer than the interval, a warning if only the end of its band is.

    high_ms: the end of the latency's band. Raises UsageError like interval_utilization.
    """
    latency, interval = positive(latency_ms, "latency_ms"), positive(interval_ms, "interval_ms")
    high = latency if high_ms is None else positive(high_ms, "high_ms")
    if latency > interval:
        text = (
            f"an inference takes {in_text(latency)} ms, but the interval is {in_text(interval)} ms: samples will queue "
            "up or be lost"
        )
        return (Finding("interval-too-short", text, where=where),)
    if high > interval:
        text = (
            f"an inference takes {in_text(latency)} ms, but may take up to {in_text(high)} ms, which exceeds the "
            f"interval of {in_text(interval)} ms: measure it on the device"
        )
        return (Finding("interval-may-be-too-short", text, where=where),)
    return ()
