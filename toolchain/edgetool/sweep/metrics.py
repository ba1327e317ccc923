"""What is known of a variant.

A variant: one model out of many, on one target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from edgetool.convert.request import BuilderArgument, QuantizeScheme
from edgetool.report.document import Band, BudgetInfo


@dataclass(frozen=True, slots=True)
class Precision:
    """What a sweep calls a way to quantize, and the conversion's options for it."""

    name: str
    quantize: QuantizeScheme
    dense_per_tensor: bool = False


PRECISIONS: Mapping[str, Precision] = {
    item.name: item
    for item in (
        Precision("float32", "float32"),
        Precision("float16", "float16"),
        Precision("int16x8", "int16x8"),
        Precision("int8", "int8"),
        Precision("int8-dense-per-tensor", "int8", dense_per_tensor=True),
    )
}


@dataclass(frozen=True, slots=True)
class Variant:
    """parameters: what the user's builder was called with, by name, in the sweep's order; empty for a model file.

    level: the share of channels removed, 0 to below 1. precision: a name of PRECISIONS. target: the label of one of the
    sweep's targets.
    """

    parameters: tuple[tuple[str, BuilderArgument], ...]
    level: float
    precision: str
    target: str


@dataclass(frozen=True, slots=True)
class Quality:
    """What a converted model loses, whatever the target; null where there is no data to tell, or no such output.

    accuracy: the share of right answers on the evaluation data, float_accuracy that of the float original. agreement:
    the share of samples in which the original's class is found again. sqnr_db: of the worst output against the
    original's; null where they are equal, as `equal` says, and where an original that is all zero has no signal.
    """

    accuracy: float | None
    float_accuracy: float | None
    agreement: float | None
    sqnr_db: float | None
    calibrated: bool
    samples: int
    equal: bool = False


@dataclass(frozen=True, slots=True)
class Cost:
    """What it needs on the target. arena_bytes is exact, or null; arena_least_bytes is what it is not below.

    errors: findings for which TFLM would not run it. sram_bytes, flash_bytes: what the target has, null where unknown.
    """

    arena_bytes: int | None
    arena_least_bytes: int
    arena_proof: str
    model_bytes: int
    parameters: int
    macs: int
    latency_ms: Band | None
    energy_uj: Band | None
    bandwidth_utilization: float | None
    region: str | None
    sram_bytes: int | None
    flash_bytes: int | None
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Metrics:
    """Quality and cost together."""

    quality: Quality
    cost: Cost


# What rejects a variant, by the limit that it does not keep.
Cause = Literal["runtime", "arena unknown", "memory", "flash", "budget", "latency", "energy", "accuracy"]


@dataclass(frozen=True, slots=True)
class Judged:
    """The judgement of a variant: each tracked budget, and whether it is accepted.

    rejected says why not, a sentence each, and causes by which limits, each once.
    """

    budgets: tuple[BudgetInfo, ...]
    accepted: bool
    rejected: tuple[str, ...]
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A variant as tables show it.

    status: "done", "failed" (reason says why) or "pending" (not yet run). number: its place in the sweep, from 1.
    on_front: none that is accepted on the same target is at least as good in every axis and better in one.
    """

    number: int
    variant: Variant
    status: str
    reason: str | None = None
    metrics: Metrics | None = None
    judged: Judged | None = None
    on_front: bool = False
    notes: tuple[str, ...] = ()
