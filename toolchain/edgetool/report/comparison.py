"""The document of `edgetool compare`: two models side by side. Field names are the JSON's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edgetool.report.document import SCHEMA, DriftInfo, FindingInfo, Provenance, TargetInfo
from edgetool.report.json import plain


@dataclass(frozen=True, slots=True)
class SideInfo:
    """One of the two sides. kind: "model" (a file, planned now) or "report" (that `command` wrote about a model).

    name and sha256 are those of the model's file. planner: the origin of the memory plan that determines the arena,
    "file", "runtime" (TFLM's own planner, because the file has no plan) or "edgetool" (for native code); null if that
    is not known. clock_hz is null if the report does not state it.
    """

    kind: str
    name: str
    sha256: str
    command: str | None
    planner: str | None
    target: TargetInfo | None
    clock_hz: int | None


@dataclass(frozen=True, slots=True)
class FigureChange:
    """A figure of both sides, in `unit`; null if it is not known.

    change is b - a. change_percent is relative to a, and null if a is 0 and b is not. a_band and b_band are null if the
    figure is exact; their upper end is null if only a lower bound is known. certain: whether the bands do not overlap,
    so that the change is certain; null if there is no change.
    """

    figure: str
    unit: str
    a: float | int | None
    b: float | int | None
    change: float | int | None
    change_percent: float | None
    a_band: tuple[float, float | None] | None = None
    b_band: tuple[float, float | None] | None = None
    certain: bool | None = None


@dataclass(frozen=True, slots=True)
class KindChange:
    """The number of operators of a kind on both sides."""

    operator: str
    a: int
    b: int


@dataclass(frozen=True, slots=True)
class OperatorChange:
    """An operator of both sides, or of one; then the place and the figures on the other side are null.

    a and b are places, "subgraph:index". Times include all runs; they are null if the target has no timing.
    """

    operator: str
    a: str | None
    b: str | None
    a_ms: float | None
    b_ms: float | None
    a_macs: int | None
    b_macs: int | None
    a_memory_bytes: int | None
    b_memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class CompareInfo:
    """Both sides. operator_kinds and operators are null unless both sides list their operators.

    drift: what B's runtime changes, if both sides are the same file, analysed with different runtimes.
    """

    a: SideInfo
    b: SideInfo
    figures: tuple[FigureChange, ...]
    operator_kinds: tuple[KindChange, ...] | None
    operators: tuple[OperatorChange, ...] | None
    drift: DriftInfo | None = None


@dataclass(frozen=True, slots=True)
class CompareReport:
    """The whole document. findings: differences other than the model that affect the figures."""

    provenance: Provenance
    compare: CompareInfo
    findings: tuple[FindingInfo, ...] = ()


def comparison_document(report: CompareReport) -> dict[str, Any]:
    """Return the document as a JSON value."""
    return {"schema": SCHEMA, **plain(report)}
