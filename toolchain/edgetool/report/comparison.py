"""The document of `edgetool compare`: two models side by side. Field names are the JSON's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edgetool.report.document import SCHEMA, FindingInfo, Provenance, TargetInfo
from edgetool.report.json import plain


@dataclass(frozen=True, slots=True)
class SideInfo:
    """One of the two. kind: "model" (a file, looked at now) or "report" (what `command` wrote about a model).

    name and sha256 are those of the model's file. planner says whose memory plan the arena is for, where that is known:
    "file" or "runtime" (TFLM's own, since there is no plan in the file). clock_hz is null where the report tells none.
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
    """A figure of both, in `unit`. Null is what is not known there.

    change is b - a; change_percent is of a, and null where that is 0 and b is not: it is new. a_band and b_band:
    between what it lies, the upper end null where only the lower is known; null where the figure is exact. certain:
    whether the bands do not overlap, so that the change is sure; null where there is no change to tell of.
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
    """How many operators of a kind both have."""

    operator: str
    a: int
    b: int


@dataclass(frozen=True, slots=True)
class OperatorChange:
    """An operator that both have, or that only one has: then the other's place and figures are null.

    a and b are places, "subgraph:index". Times are those of all its runs, null where a target has no timing.
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
    """Both sides. operator_kinds and operators are null unless both sides list their operators."""

    a: SideInfo
    b: SideInfo
    figures: tuple[FigureChange, ...]
    operator_kinds: tuple[KindChange, ...] | None
    operators: tuple[OperatorChange, ...] | None


@dataclass(frozen=True, slots=True)
class CompareReport:
    """The whole document. findings: what else than the model differs and decides figures."""

    provenance: Provenance
    compare: CompareInfo
    findings: tuple[FindingInfo, ...] = ()


def comparison_document(report: CompareReport) -> dict[str, Any]:
    """The document as JSON values."""
    return {"schema": SCHEMA, **plain(report)}
