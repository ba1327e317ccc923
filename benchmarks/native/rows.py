"""Plan the rows of models, and compare the memory with its lower bound.

    python -m benchmarks.native rows FILE_OR_FOLDER... [--into CSV]

Each model is planned with kernels without scratch that only saves time, once with its whole input in memory, and once
with inputs that are handed over row by row. Models without convolutions or pooling are left out unless rows take less
memory than tensors, and those that native code does not support as well. Seconds are of CPU, for rows alone.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from benchmarks.native.bits import models_in

from edgetool.codegen.native.lower import lower
from edgetool.codegen.native.row_plan import smallest_rows
from edgetool.codegen.native.rows import row_problem
from edgetool.errors import EdgetoolError
from edgetool.memory.streaming.bound import live_bytes
from edgetool.model.reader import read_model
from edgetool.operators.registry import operator_costs

MEASURED = Path(__file__).parent / "measured" / "rows.csv"
CONVOLUTIONAL = {"AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "TRANSPOSE_CONV"}


@dataclass(frozen=True, slots=True)
class RowsRecord:
    """A model's plan of rows. rows: the input in the arena, "whole" or by "rows". tensor_bytes: whole operators."""

    model: str
    sha256: str
    input: str
    operators: int
    tensor_bytes: int
    bytes: int
    peak_bytes: int
    bound_bytes: int
    seconds: float

    @property
    def gap(self) -> float:
        """How much more the plan takes than its bound, as a share of the bound."""
        return self.bytes / self.bound_bytes - 1 if self.bound_bytes else 0.0


def plan_file(path: Path) -> list[RowsRecord]:
    """Return the plans of a model, none if it is left out. Raises EdgetoolError if native code does not support it."""
    blob = path.read_bytes()
    model = read_model(blob)
    program = lower(model, row_wise=True, lean=True)
    codes = {operator.code for operator in model.main.operators}
    inputs = tuple(index for index in program.graph.inputs if program.places[index].constant is None)
    records = []
    for name, fed in (("whole", ()), ("rows", inputs)):
        problem = row_problem(program, fed)
        started = time.process_time()
        plan = smallest_rows(program, fed).plan
        seconds = time.process_time() - started
        whole = [number for number, operator in enumerate(problem.operators) for _ in operator.firings]
        tensor_bytes = max(live_bytes(problem, whole), default=0)
        if plan.memory_bytes < tensor_bytes or codes & CONVOLUTIONAL:
            records.append(
                RowsRecord(
                    f"{path.parent.name}/{path.stem}",
                    hashlib.sha256(blob).hexdigest()[:16],
                    name,
                    len(operator_costs(model)),
                    tensor_bytes,
                    plan.memory_bytes,
                    max(live_bytes(problem, plan.schedule), default=0),
                    plan.lower_bound,
                    round(seconds, 2),
                )
            )
    return records


def to_csv(records: Sequence[RowsRecord]) -> str:
    """Return the record with its conditions."""
    text = io.StringIO()
    text.write("# Plans of rows and their lower bounds, in bytes, written by rows.py; no time limit.\n")
    text.write(
        "# tensor_bytes: the live bytes of operators that run one after the other; peak_bytes: those of the plan.\n"
    )
    text.write(f"# seconds of CPU for schedule, bound and offsets: Python {platform.python_version()}, ")
    text.write(f"{platform.machine()}, shared with other work\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(RowsRecord)])
    writer.writerows(astuple(record) for record in records)
    return text.getvalue()


def read_record(path: Path = MEASURED) -> list[RowsRecord]:
    """Return the recorded plans."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return [
        RowsRecord(
            *(row[name] for name in ("model", "sha256", "input")),
            *(int(row[name]) for name in ("operators", "tensor_bytes", "bytes", "peak_bytes", "bound_bytes")),
            float(row["seconds"]),
        )
        for row in csv.DictReader(lines)
    ]


def median_gap(records: Sequence[RowsRecord], kind: str) -> float:
    """Return the median gap of all models with their input "whole" or by "rows"."""
    return statistics.median(record.gap for record in records if record.input == kind)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("places", nargs="+", type=Path, metavar="FILE_OR_FOLDER")
    parser.add_argument("--into", type=Path, metavar="CSV")
    options = parser.parse_args()
    records: list[RowsRecord] = []
    for path in models_in(options.places):
        if path.name == "planned.tflite":
            continue  # the same model with a plan for TFLM
        try:
            found = plan_file(path)
        except EdgetoolError as error:
            print(f"{path.parent.name}/{path.stem}: {error.what}")
            continue
        records += found
        for item in found:
            print(
                f"{item.model:<40} {item.input:<5} {item.tensor_bytes:>9,} {item.bytes:>9,} "
                f"at least {item.bound_bytes:>9,} ({item.gap:6.1%}) {item.seconds:6.2f} s",
                flush=True,
            )
        if options.into is not None:
            options.into.write_text(to_csv(records), encoding="utf-8")
    for kind in ("whole", "rows"):
        print(f"{kind}: median gap {median_gap(records, kind):.1%}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
