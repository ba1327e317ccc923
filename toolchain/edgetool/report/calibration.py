"""The document of `edgetool calibrate`: the timing in a profile before and after measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edgetool.report.document import SCHEMA, FindingInfo, Provenance, TargetInfo
from edgetool.report.json import plain


@dataclass(frozen=True, slots=True)
class MeasuredOperator:
    """An operator of the main subgraph on the device and according to the written profile.

    ratio is measured / estimated. For control flow, whose measured time includes its subgraphs, estimated_ms and ratio
    are null.
    """

    index: int
    operator: str
    measured_ms: float
    estimated_ms: float | None
    ratio: float | None


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A profile that firmware printed to `log`: `counter` timed the runs, and the model's measured_ms is their mean.

    arena_used_bytes is the device's, account_used_bytes the one that edgetool computes for the target; null if that is
    only a lower bound.
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
    """A measured model, and its time according to the profile before and after. residual is after / measured - 1.

    before_ms is null if the target had no timing for these kernels. If the user specified the time, device is null and
    there are no operators.
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
    """The timing in a profile: cycles = cpi * instructions + stall_cycles_per_byte * bytes of constants from `region`.

    band and operator_band are factors by which the time of a model and of an operator is multiplied. If the profile
    does not state stall_cycles_per_byte, it is null and counts as 0.
    """

    cpi: float
    stall_cycles_per_byte: float | None
    band: tuple[float, float]
    operator_band: tuple[float, float]
    status: str
    basis: str


@dataclass(frozen=True, slots=True)
class CalibrationInfo:
    """The written profile. kernels: those of TFLM, or native. before: the timing that applied to these kernels before,
    null if there was none.
    """

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
    """The whole document. target: the calibrated target."""

    provenance: Provenance
    target: TargetInfo
    calibration: CalibrationInfo
    findings: tuple[FindingInfo, ...] = ()


def calibration_document(report: CalibrationReport) -> dict[str, Any]:
    """Return the document as a JSON value."""
    return {"schema": SCHEMA, **plain(report)}
