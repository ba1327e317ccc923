"""What the user asks of an estimate beside model and target."""

from __future__ import annotations

from dataclasses import dataclass

from edgetool.pipeline.plan_request import DEFAULT_SECONDS


@dataclass(frozen=True, slots=True)
class EstimateRequest:
    """A real run to compare with (its milliseconds, or how often LiteRT shall run on this machine), the interval at
    which inputs come, the board's power, a factor on its clock, and the seconds to search for a plan."""

    measured_ms: float | None = None
    benchmark_runs: int | None = None
    interval_ms: float | None = None
    power_mw: float | None = None
    clock_scale: float | None = None
    time_limit: float = DEFAULT_SECONDS
