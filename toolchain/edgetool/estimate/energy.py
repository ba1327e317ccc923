"""Energy of an inference: the power of the board while it infers, times how long that takes."""

from __future__ import annotations

from edgetool.estimate.given import positive
from edgetool.figure import Figure
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
