"""Compare the outputs of models' generated C with those of TFLM, bit by bit, on this machine.

    python -m benchmarks.native bits FILE_OR_FOLDER... [--into CSV] [--samples 1000] [--samples-of-large 50]
        [--most-bytes 4000000]

Models with less than 10 million multiply-accumulates run on many random samples, the others on fewer, compiled with
-O2; a few samples, with the extremes of each input, run with sanitizers as well.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from tests.codegen.native.host import Build, compare_all, prepare

from edgetool.codegen.native.files import constant_bytes
from edgetool.errors import EdgetoolError
from edgetool.model.reader import read_model
from edgetool.operators.registry import operator_costs

MEASURED = Path(__file__).parent / "measured" / "bits.csv"
LARGE_MACS = 10_000_000
SANITIZED_SAMPLES = 3
FAST = Build(sanitize=False, level="-O2")


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one model. result: "equal", the difference, or why the model is refused."""

    model: str
    result: str
    operators: int = 0
    macs: int = 0
    samples: int = 0
    arena_bytes: int = 0
    lower_bound_bytes: int = 0
    constants_bytes: int = 0
    tflite_bytes: int = 0


def models_in(places: Sequence[Path]) -> Iterator[Path]:
    """Yield the files, and those in the folders, sorted."""
    for place in places:
        yield from sorted(place.rglob("*.tflite")) if place.is_dir() else [place]


def compare_file(path: Path, samples: int, samples_of_large: int) -> Row:
    """Return the result of one model."""
    name = f"{path.parent.name}/{path.stem}"
    blob = path.read_bytes()
    try:
        model = read_model(blob)
        macs = sum(cost.macs for cost in operator_costs(model))
        count = samples if macs < LARGE_MACS else samples_of_large
        trial = prepare(model=blob, samples=count, seed=1)
        few = prepare(model=blob, samples=SANITIZED_SAMPLES, seed=2)
    except EdgetoolError as error:
        return Row(name, f"refused: {error.where or ''} {error.what}", tflite_bytes=len(blob))
    differences = [f"{text} (sanitized)" for text in compare_all([few]) if text]
    differences += [text for text in compare_all([trial], FAST) if text]
    return Row(
        name,
        differences[0] if differences else "equal",
        len(model.main.operators),
        macs,
        trial.count + few.count,
        trial.memory.arena_bytes,
        trial.memory.layout.lower_bound,
        constant_bytes(trial.program),
        len(blob),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("places", nargs="+", type=Path, metavar="FILE_OR_FOLDER")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--samples-of-large", type=int, default=50)
    parser.add_argument("--most-bytes", type=int, default=4_000_000, help="larger models are left out")
    parser.add_argument("--into", type=Path, metavar="CSV")
    options = parser.parse_args()
    rows = []
    for path in models_in(options.places):
        if path.stat().st_size > options.most_bytes:
            print(f"{path.parent.name}/{path.stem} is left out: {path.stat().st_size:,} bytes")
            continue
        row = compare_file(path, options.samples, options.samples_of_large)
        rows.append(row)
        print(
            f"{row.model:<40} {row.macs:>12,} MACs {row.samples:>5} samples  arena {row.arena_bytes:>9,}"
            f" (at least {row.lower_bound_bytes:>9,})  constants {row.constants_bytes:>9,} of {row.tflite_bytes:>9,}"
            f"  {row.result[:150]}",
            flush=True,
        )
    counts = [sum(test(row.result) for row in rows) for test in (_is_equal, _is_refused)]
    print(f"{counts[0]} equal, {counts[1]} refused, {len(rows) - sum(counts)} different")
    if options.into is not None:
        write(options.into, rows)
    return int(len(rows) > sum(counts))


def _is_equal(result: str) -> bool:
    return result == "equal"


def _is_refused(result: str) -> bool:
    return result.startswith("refused")


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write the results as CSV."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        names = [field.name for field in fields(Row)]
        writer.writerow(names)
        writer.writerows([[getattr(row, name) for name in names] for row in rows])
