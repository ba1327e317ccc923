"""Metrics, rows and results made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgetool.report.document import Accuracy, Band, OutputQuality, QuantizationInfo
from edgetool.report.json import plain
from edgetool.sweep.jobs import Job, Outcome
from edgetool.sweep.metrics import Cost, Judged, Metrics, Quality, Row, Variant
from edgetool.sweep.spec import SweepLimits, TargetSpec
from edgetool.sweep.store import Entry, SweepRecord, open_store

ACCEPTED = Judged((), True, ())
REJECTED = Judged((), False, ("too large",))
QUALITY = Quality(accuracy=0.9, float_accuracy=0.92, agreement=0.95, sqnr_db=30.0, calibrated=True, samples=100)
COST = Cost(
    arena_bytes=18_704,
    arena_least_bytes=18_704,
    arena_proof="exhausted",
    model_bytes=29_624,
    parameters=22_000,
    macs=2_600_000,
    latency_ms=Band(20.0, 15.0, 25.0),
    energy_uj=Band(500.0, 400.0, 700.0),
    bandwidth_utilization=0.25,
    region="sram",
    sram_bytes=32_768,
    flash_bytes=262_144,
)
QUANTIZATION = QuantizationInfo(
    "int8", True, 100, (OutputQuality("word", 30.0, 0.999, 0.95),), Accuracy(float=0.92, quantized=0.9)
)


def metrics(*, quality: Mapping[str, Any] | None = None, **cost: Any) -> Metrics:
    """The usual metrics with these changes of the cost and of the quality."""
    if "arena_bytes" in cost and cost["arena_bytes"] is not None:
        cost.setdefault("arena_least_bytes", cost["arena_bytes"])
    return Metrics(replace(QUALITY, **(quality or {})), replace(COST, **cost))


def variant(level: float = 0.0, precision: str = "int8", target: str = "board", **parameters: Any) -> Variant:
    """A variant of a model file, or of a builder's parameters."""
    return Variant(tuple(parameters.items()), level, precision, target)


def row(
    number: int, of: Variant | None = None, *, judged: Judged = ACCEPTED, quality: Mapping[str, Any] | None = None,
    **cost: Any,
) -> Row:  # fmt: skip
    """A row that is done."""
    return Row(number, of or variant(), "done", metrics=metrics(quality=quality, **cost), judged=judged)


def chain(number: int, of: Variant, *, convert: str = "", analyse: str = "") -> Entry:
    """A variant and its jobs, of which the reference is everyone's."""
    keys = [("prune", f"prune {of.level}")] if of.level else []
    keys += [
        ("reference", "reference"),
        ("convert", convert or f"convert {of.level} {of.precision}"),
        ("analyse", analyse or f"analyse {of.level} {of.precision} {of.target}"),
    ]
    return Entry(number, of, tuple(keys))


def outcomes(entry: Entry, made: Metrics, **prune: Any) -> dict[str, Outcome]:
    """What the jobs of the entry gave."""
    values: dict[str, dict[str, Any]] = {
        "prune": {"parameters": 1, "original_parameters": 2, "removed": {}, "left_alone": [], "notes": [], **prune},
        "reference": {"float_accuracy": made.quality.float_accuracy, "samples": 100, "versions": {}},
        "convert": {"quality": plain(made.quality), "quantization": plain(QUANTIZATION), "notes": [], "versions": {}},
        "analyse": {"cost": plain(made.cost)},
    }
    return {key: Outcome(value=values[kind]) for kind, key in entry.keys}


def record(*, limits: SweepLimits | None = None, targets: tuple[str, ...] = ("board",), **changes: Any) -> SweepRecord:
    """A sweep of words.h5; targets: names of packaged ones, or labels that nobody resolves."""
    made = SweepRecord(
        name="words sweep",
        model="words.h5",
        parameter_names=(),
        targets=tuple(TargetSpec(name, name) for name in targets),
        limits=limits or SweepLimits(),
        strategy="grid",
        objectives=("accuracy", "latency_ms"),
        options={"seed": 0, "builder": None, "trust_model_code": False},
    )
    return replace(made, **changes)


def write_store(path: Path, sweep: SweepRecord, entries: list[Entry], results: Mapping[str, Outcome]) -> None:
    """A store with these variants and outcomes by key."""
    with open_store(path, create=True) as store:
        store.begin(sweep)
        store.add(entries)
        kinds = {key: kind for entry in entries for kind, key in entry.keys}
        for key, outcome in results.items():
            store.record(Job(key, kinds[key], {}, {}), outcome)  # type: ignore[arg-type]  # a kind
