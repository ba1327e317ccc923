"""Energy of an inference, and how much of a sensing interval it takes.

How much of a sensing interval an inference takes.
"""

from __future__ import annotations

from edgetool.estimate.types import positive
from edgetool.figure import Figure, in_text
from edgetool.finding import Finding
from edgetool.target.types import Power


def given_power(power_mw: float) -> Power:
    """The power that the user measured, in milliwatts. Raises UsageError unless it is a number above 0."""
    value = positive(power_mw, "power_mw")
    return Power(value, value, value, "power specified by the user")


def measured_latency(measured_ms: float) -> Figure:
    """A latency that was measured, as a figure without a band. Raises UsageError unless it is a number above 0."""
    value = positive(measured_ms, "measured_ms")
    return Figure(value, value, value, "ms", "measured")


def energy_uj(latency: Figure | None, power: Power | None) -> Figure | None:
    """Microjoules of one inference (mW x ms); None where power or time is not known.

    The band reaches from the least power for the least time to the most for the most, so that it holds whatever the
    two have in common.
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
    """The milliwatts that one inference per interval takes on average; None where power or time is not known.

    What the board draws between inferences is not in it. An inference longer than the interval follows the one before
    without a pause. Raises UsageError naming interval_ms unless it is a number above 0.
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
    """The share of the interval in which the device infers, 0 to 1; 1 where the inference is longer than it.

    Raises UsageError naming the argument that is not a number above 0.
    """
    return min(1.0, positive(latency_ms, "latency_ms") / positive(interval_ms, "interval_ms"))


def interval_findings(
    latency_ms: float, interval_ms: float, *, high_ms: float | None = None, where: str | None = None
) -> tuple[Finding, ...]:
    """An error where the inference is longer than the interval, a warning where only the band's end is.

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
