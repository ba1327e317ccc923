"""Stores for tests: a record, jobs, and a store written whole."""

from __future__ import annotations

from pathlib import Path

from edgetool.sweep.jobs import Job, Outcome
from edgetool.sweep.metrics import Variant
from edgetool.sweep.spec import SweepLimits, TargetSpec
from edgetool.sweep.store import Entry, SweepRecord, open_store

RECORD = SweepRecord(
    name="keywords",
    model="keywords.h5",
    parameter_names=("width",),
    targets=(TargetSpec("m4", "cortex-m4", None, (("clock_hz", 80_000_000),)),),
    limits=SweepLimits(),
    strategy="grid",
    objectives=("accuracy", "latency_ms"),
    options={"samples": 100},
)


def job(key: str) -> Job:
    return Job(key, "convert", {}, {})


def write(path: Path, keys: int = 3) -> bytes:
    with open_store(path, create=True) as store:
        store.begin(RECORD)
        for i in range(keys):
            store.record(job(f"k{i}"), Outcome({"i": i}, {"model.tflite": bytes([i]) * 9000}))
        store.add([Entry(1, Variant((), 0.0, "int8", "m4"), (("convert", "k0"),))])
    return path.read_bytes()


def read_all(path: Path, *, create: bool = False) -> None:
    with open_store(path, create=create) as store:
        for key in store.outcomes():
            store.blob(key, "model.tflite")
        store.entries()
        store.sweep()
