"""What a run makes of the memory: achieved bandwidth, its share of the configured one, and what that says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edgetool.estimate.given import LARGEST, not_negative, positive, whole
from edgetool.estimate.types import Estimate
from edgetool.finding import Finding

Verdict = Literal["memory-bound", "balanced", "compute-bound or inefficient access"]

# Shares of the configured bandwidth: above the first memory sets the pace, below the second something else does.
MEMORY_BOUND_ABOVE = 0.8
COMPUTE_BOUND_BELOW = 0.2


RATE_UNITS = ((1.0, "GB/s"), (1e3, "MB/s"), (1e6, "kB/s"), (1e9, "B/s"))


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """What one inference of latency_ms achieves. utilization is not clamped: above 1 some figure is wrong."""

    bytes_moved: int
    macs: int
    latency_ms: float
    configured_gbps: float

    @property
    def achieved_gbps(self) -> float:
        """Bytes moved per second, in 10^9."""
        return self.bytes_moved / self.latency_ms / 1e6

    @property
    def utilization(self) -> float:
        """Achieved by configured bandwidth."""
        return self.achieved_gbps / self.configured_gbps

    @property
    def gmacs_per_s(self) -> float:
        """Multiply-accumulates per second, in 10^9."""
        return self.macs / self.latency_ms / 1e6

    @property
    def verdict(self) -> Verdict:
        """What limits the run."""
        return verdict_of(self.utilization)


def bandwidth_of(bytes_moved: int, macs: int, latency_ms: float, configured_gbps: float) -> Bandwidth:
    """The bandwidth of one inference, estimated or measured.

    Raises UsageError naming the argument: counts are 0 or more, time and configured bandwidth above 0.
    """
    return Bandwidth(
        whole(bytes_moved, "bytes_moved"),
        whole(macs, "macs"),
        positive(latency_ms, "latency_ms"),
        positive(configured_gbps, "configured_gbps"),
    )


def estimated_bandwidth(estimate: Estimate, measured_ms: float | None = None) -> Bandwidth | None:
    """The bandwidth of the estimated inference, or of the same work in a measured time.

    None where no time is known: on a device of which only a bandwidth is, or where operators take most of it of which
    only the bytes are, so that they would be found to move at full speed; nor where no device could do so much. Raises
    UsageError for a measured time that is no number above 0.
    """
    latency_ms = estimate.latency_ms.value if estimate.latency_ms is not None else 0.0
    assumed_ms = sum(item.ms.value for item in estimate.operators if item.basis == "bytes")
    if 2 * assumed_ms > latency_ms:
        latency_ms = 0.0
    if measured_ms is not None:
        latency_ms = positive(measured_ms, "measured_ms")
    if not latency_ms or max(latency_ms, estimate.bytes_moved, estimate.macs) > LARGEST:
        return None
    return bandwidth_of(estimate.bytes_moved, estimate.macs, latency_ms, estimate.configured_bandwidth_gbps)


def rates(*gbps: float) -> list[str]:
    """Bandwidths to three digits in the unit in which the largest reads best: 2.21 MB/s, 297 MB/s."""
    most = max(gbps, default=0.0)
    factor, unit = next(((f, u) for f, u in RATE_UNITS if most * f >= 0.9995), RATE_UNITS[-1])
    return [f"{_three_digits(value * factor)} {unit}" for value in gbps]


def _three_digits(value: float) -> str:
    """Without an exponent, however small."""
    if value == 0:
        return "0"
    exponent = int(f"{value:.2e}".rpartition("e")[2])
    return f"{value:,.{max(0, 2 - exponent)}f}"


def verdict_of(utilization: float) -> Verdict:
    """The verdict on a share of the configured bandwidth. Raises UsageError for a negative or infinite one, or NaN."""
    share = not_negative(utilization, "utilization")
    if share > MEMORY_BOUND_ABOVE:
        return "memory-bound"
    return "compute-bound or inefficient access" if share < COMPUTE_BOUND_BELOW else "balanced"


def bandwidth_findings(bandwidth: Bandwidth, where: str | None = None) -> tuple[Finding, ...]:
    """A warning for a run that moves more than its memory can deliver."""
    if bandwidth.utilization <= 1:
        return ()
    achieved, configured = rates(bandwidth.achieved_gbps, bandwidth.configured_gbps)
    text = (
        f"{achieved} is {bandwidth.utilization:.0%} of the configured "
        f"{configured}: a cache serves part of the bytes, the target's memory is faster than "
        "its profile states, or the measured time is too short"
    )
    return (Finding("bandwidth-above-configured", "warning", text, where),)
