"""The metrics of a variant, which is one of a sweep's models on one of its targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from edgetool.convert.request import BuilderArgument, QuantizeScheme
from edgetool.report.document import Band, BudgetInfo


@dataclass(frozen=True, slots=True)
class Precision:
    """The name of a precision in a sweep, and the options of the conversion for it."""

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
    """A variant of a sweep's model.

    parameters: the arguments of the user's builder by name, in the sweep's order; empty for a model file. level: the
    fraction of channels removed, from 0 to less than 1. precision: a key of PRECISIONS. target: the label of one of the
    sweep's targets. optimize: whether the converted model is cleaned up, as `convert` does. max_extra_macs: the
    multiply-accumulates that the plan may compute again, in percent; None for what the target says.
    """

    parameters: tuple[tuple[str, BuilderArgument], ...]
    level: float
    precision: str
    target: str
    optimize: bool = True
    max_extra_macs: float | None = None

    @property
    def planning(self) -> tuple[str, ...]:
        """How the variant is planned, in words, where it is not the default."""
        percent = self.max_extra_macs
        return (
            *(() if self.optimize else ("not optimized",)),
            *((f"{percent:g} % extra MACs",) if percent is not None else ()),
        )


@dataclass(frozen=True, slots=True)
class Quality:
    """The quality of a converted model, which is the same on every target; None without data or without such an output.

    accuracy: the fraction of correct classes on the evaluation data; float_accuracy: that of the float original.
    agreement: the fraction of samples to which both assign the same class. sqnr_db: that of the worst output compared
    with the original's; None if all outputs are equal (then `equal` is true), or if an original that is all zero has no
    signal.
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
    """What a variant requires on its target.

    arena_bytes: the exact size, None if it is unknown; arena_least_bytes: a lower bound on it. errors: findings because
    of which TFLM would not run the model. sram_bytes, flash_bytes: the target's memory, None if unknown.
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
    """The quality and the cost of a variant."""

    quality: Quality
    cost: Cost


# Why a variant is rejected: the kind of limit that it exceeds.
Cause = Literal["runtime", "arena unknown", "memory", "flash", "budget", "latency", "energy", "accuracy"]


@dataclass(frozen=True, slots=True)
class Judged:
    """The judgement of a variant: each tracked budget, and whether the variant is accepted.

    rejected: the reasons why it is not, one sentence each. causes: the kinds of limits that it exceeds, each once.
    """

    budgets: tuple[BudgetInfo, ...]
    accepted: bool
    rejected: tuple[str, ...]
    causes: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A variant as a row of a table.

    number: its position in the sweep, from 1. status: "done", "failed" (for `reason`) or "pending" (not yet run).
    on_front: whether no accepted variant on the same target is at least as good on every axis and better on one.
    """

    number: int
    variant: Variant
    status: str
    reason: str | None = None
    metrics: Metrics | None = None
    judged: Judged | None = None
    on_front: bool = False
    notes: tuple[str, ...] = ()
