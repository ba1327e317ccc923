"""The document of `edgetool calibrate`: what a few measurements made of a target's profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edgetool.report.document import SCHEMA, FindingInfo, Provenance, TargetInfo
from edgetool.report.json import plain


@dataclass(frozen=True, slots=True)
class MeasuredOperator:
    """An operator of the main subgraph on the device and by the written profile; ratio is measured / estimated.

    estimated_ms and ratio are null for control flow, whose measured time is that of its subgraphs too.
    """

    index: int
    operator: str
    measured_ms: float
    estimated_ms: float | None
    ratio: float | None


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What a profile firmware said in `log`: `counter` timed so many runs; measured_ms is their mean.

    arena_used_bytes is the device's, account_used_bytes what edgetool says of the target: null where it knows
    a bound only.
    """

    log: str
    counter: str
    runs: int
    min_ms: float
    max_ms: float
    arena_used_bytes: int
    account_used_bytes: int | None


@dataclass(frozen=True, slots=True)
class MeasuredModel:
    """A measured model, and its time by the profile before and after. residual is after / measured - 1.

    before_ms is null where the target had no timing for these kernels. device is null, and there are no operators,
    where the user gave the time.
    """

    name: str
    sha256: str
    measured_ms: float
    before_ms: float | None
    after_ms: float
    residual: float
    device: DeviceInfo | None = None
    operators: tuple[MeasuredOperator, ...] = ()


@dataclass(frozen=True, slots=True)
class CalibratedTiming:
    """What the profile says of speed: cycles = cpi * instructions + stall * bytes of constants from `region`.

    band and operator_band are factors on a model's and an operator's time. stall_cycles_per_byte is null where the
    profile says nothing of it, and none is counted.
    """

    cpi: float
    stall_cycles_per_byte: float | None
    band: tuple[float, float]
    operator_band: tuple[float, float]
    status: str
    basis: str


@dataclass(frozen=True, slots=True)
class CalibrationInfo:
    """The written profile. before is null where the target had no timing for these kernels."""

    profile: str
    extends: str | None
    kernels: str
    clock_hz: int
    cpi_limits: tuple[float, float]
    region: str | None
    before: CalibratedTiming | None
    after: CalibratedTiming
    models: tuple[MeasuredModel, ...]


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """The whole document. target is the one that was calibrated."""

    provenance: Provenance
    target: TargetInfo
    calibration: CalibrationInfo
    findings: tuple[FindingInfo, ...] = ()


def calibration_document(report: CalibrationReport) -> dict[str, Any]:
    """The document as JSON values."""
    return {"schema": SCHEMA, **plain(report)}
