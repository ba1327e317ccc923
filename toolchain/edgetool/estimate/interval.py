"""How much of a sensing interval an inference takes."""

from __future__ import annotations

from edgetool.estimate.given import positive
from edgetool.figure import in_text
from edgetool.finding import Finding


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
        return (Finding("interval-too-short", "error", text, where),)
    if high > interval:
        text = (
            f"an inference takes {in_text(latency)} ms, but may take up to {in_text(high)} ms, which exceeds the "
            f"interval of {in_text(interval)} ms: measure it on the device"
        )
        return (Finding("interval-may-be-too-short", "warning", text, where),)
    return ()
