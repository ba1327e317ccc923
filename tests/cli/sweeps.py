"""Sweeps made by hand: rows, stores, and the command on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgetool.convert.request import BuilderArgument
from edgetool.gate.limits import MemoryBudget
from edgetool.report.document import Band, QuantizationInfo
from edgetool.report.json import plain
from edgetool.sweep.front import front
from edgetool.sweep.jobs import Job, Kind, Outcome
from edgetool.sweep.judge import judge
from edgetool.sweep.metrics import Cost, Metrics, Quality, Row, Variant
from edgetool.sweep.spec import SweepLimits, TargetSpec
from edgetool.sweep.store import Entry, Store, SweepRecord, open_store
from tests.in_process import captured

TARGETS = ("pico", "nucleo")
LIMITS = SweepLimits(
    budgets=(MemoryBudget("16KiB", 16384), MemoryBudget("256KiB", 262144, "flash")),
    active_budget=MemoryBudget("24KiB", 24576),
    reserve_bytes=1024,
    max_latency_ms=100.0,
)


def record(**changes: Any) -> SweepRecord:
    made = SweepRecord(
        name="keyword-spotting",
        model="keyword_spotting.h5",
        parameter_names=(),
        targets=tuple(TargetSpec(label, label) for label in TARGETS),
        limits=LIMITS,
        strategy="grid",
        objectives=("accuracy", "latency_ms"),
        options={},
    )
    return replace(made, **changes)


def cost(scale: float, **changes: Any) -> Cost:
    """A cost that is `scale` of the full model's."""
    made = Cost(
        arena_bytes=round(20000 * scale),
        arena_least_bytes=round(20000 * scale),
        arena_proof="bound met",
        model_bytes=round(30000 * scale),
        parameters=round(11000 * scale),
        macs=round(1_300_000 * scale),
        latency_ms=Band(60 * scale, 53 * scale, 77 * scale),
        energy_uj=Band(2600 * scale, 2000 * scale, 3600 * scale),
        bandwidth_utilization=0.01,
        region="sram",
        sram_bytes=65536,
        flash_bytes=2**21,
    )
    return replace(made, **changes)


def quality(accuracy: float | None = 0.95, **changes: Any) -> Quality:
    made = Quality(accuracy=accuracy, float_accuracy=0.97, agreement=0.99, sqnr_db=31.4, calibrated=True, samples=100)
    return replace(made, **changes)


def row(
    number: int,
    *,
    level: float = 0.0,
    precision: str = "int8",
    target: str = "pico",
    parameters: Sequence[tuple[str, BuilderArgument]] = (),
    limits: SweepLimits = LIMITS,
    metrics: Metrics | None = None,
    **changes: Any,
) -> Row:
    """A row that is done, judged by the limits; with a status or reason, one that is not."""
    variant = Variant(tuple(parameters), level, precision, target)
    if "status" in changes:
        return Row(number, variant, **changes)
    known = metrics or Metrics(quality(0.97 - level / 5), cost((1 - level) * (4 if precision == "float32" else 1)))
    return Row(number, variant, "done", metrics=known, judged=judge(known, limits), **changes)


def marked(rows: Sequence[Row], axes: Sequence[str] | None = None) -> tuple[Row, ...]:
    """The rows with their front."""
    numbers = front(rows, axes)
    return tuple(replace(item, on_front=item.number in numbers) for item in rows)


def sweep_rows() -> tuple[Row, ...]:
    """4 levels x float32 and int8 x 2 targets; the last variant failed, the one before is not yet run."""
    combinations = [
        (level, precision, target)
        for level in (0.0, 0.25, 0.5, 0.75)
        for precision in ("float32", "int8")
        for target in TARGETS
    ]
    rows = [
        row(number, level=level, precision=precision, target=target)
        for number, (level, precision, target) in enumerate(combinations, 1)
    ]
    rows[-1] = row(16, level=0.75, target="nucleo", status="failed", reason="converting: the process was killed")
    rows[-2] = row(15, level=0.75, target="pico", status="pending")
    return marked(rows)


def stored(path: Path, rows: Sequence[Row], made: SweepRecord | None = None, *, tflite: bytes = b"") -> Path:
    """A store in which these rows were computed; tflite: the model of each."""
    with open_store(path, create=True) as store:
        store.begin(made or record())
        store.add(
            [
                Entry(item.number, item.variant, (("convert", f"c{item.number}"), ("analyse", f"a{item.number}")))
                for item in rows
            ]
        )
        for item in rows:
            _compute(store, item, tflite)
    return path


def _compute(store: Store, item: Row, tflite: bytes) -> None:
    def done(kind: Kind, outcome: Outcome) -> None:
        store.record(Job(f"{kind[0]}{item.number}", kind, {}, {}), outcome)

    if item.reason is not None:
        done("convert", Outcome(reason=item.reason))
    if item.metrics is None:
        return
    quality = {
        "quality": plain(item.metrics.quality),
        "quantization": plain(QuantizationInfo("int8", True, 100)),
        "notes": list(item.notes),
        "versions": {},
    }
    done("convert", Outcome(value=quality, blobs={"model.tflite": tflite}))
    done("analyse", Outcome(value={"cost": plain(item.metrics.cost)}))


@dataclass(frozen=True, slots=True)
class Done:
    """What a command did: its exit code and what it printed."""

    code: int
    out: str
    err: str


def sweep(*arguments: str | Path) -> Done:
    """`edgetool sweep` in this process."""
    ended = captured("sweep", *arguments)
    return Done(ended.returncode, ended.stdout, ended.stderr)
