"""Measure how long it takes to read 10,000 stored variants as a table with its front, compared with SQLite and JSON
alone.

    python benchmarks/sweep_store.py

The variants are synthetic: 25 widths x 10 levels x 4 precisions x 10 targets, with one conversion for every ten
variants and an analysis for each. CPU time is measured, so that other work on the machine has no effect; the minimum of
RUNS is printed. "bare" is the minimum work of any reader: fetching every value from SQLite and parsing it with
json.loads.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

from edgetool.gate.limits import parse_budget
from edgetool.report.document import Band
from edgetool.report.json import plain
from edgetool.sweep.jobs import Job, Outcome
from edgetool.sweep.metrics import Cost, Quality, Variant
from edgetool.sweep.spec import SweepLimits, TargetSpec
from edgetool.sweep.store import Entry, Store, SweepRecord, open_store
from edgetool.sweep.table import rows, rows_csv, rows_json

RUNS = 5
WIDTHS = tuple(round(0.1 * step, 1) for step in range(1, 26))
LEVELS = tuple(round(0.09 * step, 2) for step in range(10))
PRECISIONS = ("float32", "float16", "int16x8", "int8")
TARGETS = tuple(f"board-{number}" for number in range(10))
BLOB_BYTES = 20_000
# The limit as a multiple of the time of SQLite and JSON alone, which is 0.1 s on an idle machine: pareto must take 1 s.
ROWS_LIMIT = 8.0
PARETO_LIMIT = 10.0

RECORD = SweepRecord(
    name="made up",
    model="model:build",
    parameter_names=("width",),
    targets=tuple(TargetSpec(name, "cortex-m4") for name in TARGETS),
    limits=SweepLimits(
        budgets=(parse_budget("64KiB"), parse_budget("256KiB:flash")),
        active_budget=parse_budget("128KiB:ram"),
        reserve_bytes=4096,
        max_latency_ms=400.0,
    ),
    strategy="grid",
    objectives=("accuracy", "latency_ms"),
    options={},
)


def fill(store: Store) -> None:
    """Write the variants and the results of their jobs, which are the same every time."""
    seeded = random.Random(1)
    entries = []
    for width, level, precision in product(WIDTHS, LEVELS, PRECISIONS):
        conversion = f"convert {width} {level} {precision}".ljust(64, "0")
        size = int(200_000 * width * (1 - level) * (0.25 if precision == "int8" else 1))
        share = 0.5 + 0.4 * seeded.random()
        quality = Quality(share, 0.95, share, 30 * seeded.random(), calibrated=True, samples=500)
        value = {"quality": plain(quality), "notes": [], "versions": {"tensorflow": "2"}, "quantization": None}
        store.record(Job(conversion, "convert", {}, {}), Outcome(value, {"model.tflite": bytes(BLOB_BYTES)}, None, 3.5))
        for target in TARGETS:
            analysis = f"analyse {width} {level} {precision} {target}".ljust(64, "0")
            cost = made_cost(size, seeded)
            store.record(Job(analysis, "analyse", {}, {}), Outcome({"cost": plain(cost)}, {}, None, 0.5))
            variant = Variant((("width", width),), level, precision, target)
            keys = (("convert", conversion), ("analyse", analysis))
            entries.append(Entry(len(entries) + 1, variant, keys))
    store.begin(RECORD)
    store.add(entries)


def made_cost(size: int, seeded: random.Random) -> Cost:
    latency = size / 1000 * (0.5 + seeded.random())
    energy = 50 * latency
    arena = int(size / 3 * (0.8 + 0.4 * seeded.random()))
    return Cost(
        arena_bytes=arena,
        arena_least_bytes=arena,
        arena_proof="exhausted",
        model_bytes=size,
        parameters=size,
        macs=size * 20,
        latency_ms=Band(latency, 0.8 * latency, 1.2 * latency),
        energy_uj=Band(energy, 0.6 * energy, 1.5 * energy),
        bandwidth_utilization=seeded.random(),
        region="sram",
        sram_bytes=256 * 1024,
        flash_bytes=10**6,
    )


def bare(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for table, column in (("results", "value"), ("variants", "variant"), ("variants", "keys")):
            for (text,) in connection.execute(f"SELECT {column} FROM {table}"):
                json.loads(text)


def read_outcomes(path: Path) -> None:
    with open_store(path) as store:
        store.outcomes()


def read_rows(path: Path) -> None:
    with open_store(path) as store:
        rows(store)


def best_seconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(RUNS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def process_seconds(*arguments: str) -> float:
    """Return the user and system seconds of the whole command on one core."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    times = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "edgetool", *arguments], check=True, stdout=subprocess.DEVNULL, env=environment
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sweep.sqlite"
        with open_store(path, create=True) as store:
            store._connection.execute("PRAGMA synchronous = OFF")  # synthetic data, so nothing is lost
            fill(store)
        with open_store(path) as store:
            record, table = store.sweep(), rows(store)
        alone = best_seconds(lambda: bare(path))
        measured = {
            "SQLite and JSON alone": alone,
            "store.outcomes()": best_seconds(lambda: read_outcomes(path)),
            "rows(store): judged, front marked": best_seconds(lambda: read_rows(path)),
            "rows_json": best_seconds(lambda: rows_json(record, table)),
            "rows_csv": best_seconds(lambda: rows_csv(record, table)),
        }
        pareto = process_seconds("sweep", "pareto", str(path), "--x", "latency_ms", "--y", "accuracy")
        front = sum(row.on_front for row in table)
        print(f"{len(table):,} variants, {front} on the fronts, {path.stat().st_size / 1e6:.0f} MB")
    for name, seconds in measured.items():
        print(f"{name:<36} {1000 * seconds:7.0f} ms  {seconds / alone:5.2f} x")
    print(f"{'edgetool sweep pareto (process)':<36} {1000 * pareto:7.0f} ms  {pareto / alone:5.2f} x")
    ratio = measured["rows(store): judged, front marked"] / alone
    if ratio > ROWS_LIMIT or pareto / alone > PARETO_LIMIT:
        sys.exit(f"too slow: rows may take {ROWS_LIMIT} times SQLite and JSON alone, pareto {PARETO_LIMIT} times")


if __name__ == "__main__":
    main()
