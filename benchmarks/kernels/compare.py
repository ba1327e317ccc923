"""The outcome of a case: how the outputs of optimised kernels relate to those of the reference kernels."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from benchmarks.kernels.batch import Run
from benchmarks.kernels.cases import Case, generators

from edgetool.model.types import DType, Model

# equal: the same bytes under every fill. refused: AllocateTensors fails. differs: other outputs than the reference,
# whatever the fill. depends: the outputs depend on the fill. outside: memory outside the outputs changed. crashed: a
# fault, or no end. failed: Invoke returns an error. unstable: the reference kernels crash or depend on the fill, the
# optimised ones do not.
Outcome = Literal["equal", "refused", "differs", "depends", "outside", "crashed", "failed", "unstable"]
KEY = ("operator", "type", "number")
NUMPY: Mapping[DType, str] = {
    DType.INT8: "i1",
    DType.UINT8: "u1",
    DType.INT16: "<i2",
    DType.INT32: "<i4",
    DType.UINT32: "<u4",
    DType.INT64: "<i8",
    DType.FLOAT32: "<f4",
    DType.BOOL: "u1",
}
RIGHT: tuple[Outcome, ...] = ("equal", "refused", "unstable")


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome, the share of elements that differ in the worst fill, and the largest difference of integers."""

    outcome: Outcome
    share: float = 0.0
    largest: int = 0

    def __str__(self) -> str:
        """Return "differs 0.25 3"; the outcome alone if no elements were compared."""
        if self.outcome in ("differs", "depends", "outside"):
            return f"{self.outcome} {self.share:.3g} {self.largest}"
        return self.outcome

    @classmethod
    def parse(cls, text: str) -> Comparison:
        """Return the comparison that is written like this."""
        outcome, *figures = text.split()
        assert outcome in Outcome.__args__  # type: ignore[attr-defined]
        return cls(outcome, float(figures[0]), int(figures[1])) if figures else cls(outcome)  # type: ignore[arg-type]


def compare(model: Model, reference: Run, optimised: Run) -> Comparison:
    """Return how a run with optimised kernels relates to one with reference kernels."""
    if "refused" in (reference.status, optimised.status):
        return Comparison("refused")
    if optimised.status == "failed":
        return Comparison("failed")
    if not optimised.outputs:
        return Comparison("crashed")
    if not is_sound(model, reference):
        own = "outside" if damages(model, optimised) else "unstable" if optimised.stable else "depends"
        return Comparison(own)
    differences = [_difference(model, reference.outputs[0], output) for output in optimised.outputs]
    share, largest = max(share for share, _ in differences), max(largest for _, largest in differences)
    if damages(model, optimised):
        return Comparison("outside", share, largest)
    if not optimised.stable:
        return Comparison("depends", share, largest)
    return Comparison("differs", share, largest) if share else Comparison("equal")


def damages(model: Model, run: Run) -> bool:
    """Return whether a run changed other memory than its outputs; several operators may reuse that of the inputs."""
    single = len(model.subgraphs) == 1 and len(model.main.operators) == 1
    return run.wrote_outside or (single and run.wrote_inputs)


def is_sound(model: Model, run: Run) -> bool:
    """Return whether a run ended with the same outputs under every fill, and changed nothing else."""
    return bool(run.outputs) and run.stable and not damages(model, run)


def alone(model: Model, run: Run) -> Comparison:
    """Return the outcome of a run that is compared only with itself under other fills."""
    if run.status == "refused":
        return Comparison("refused")
    if run.status == "failed":
        return Comparison("failed")
    if not run.outputs:
        return Comparison("crashed")
    return Comparison("outside" if damages(model, run) else "equal" if run.stable else "depends")


def _difference(model: Model, expected: bytes, actual: bytes) -> tuple[float, int]:
    """Return the share of elements whose bytes differ, and the largest difference of integers."""
    at, differing, elements, largest = 0, 0, 0, 0
    for index in model.main.outputs:
        tensor = model.main.tensors[index]
        kind = np.dtype(NUMPY.get(tensor.dtype, "u1"))
        count = tensor.size_bytes // kind.itemsize
        pair = [np.frombuffer(data, kind, count, at) for data in (expected, actual)]
        at += tensor.size_bytes
        unequal = pair[0].view(f"V{kind.itemsize}") != pair[1].view(f"V{kind.itemsize}")
        differing, elements = differing + int(np.count_nonzero(unequal)), elements + count
        if kind.kind in "iu" and unequal.any():
            wide = [part[unequal].astype(object) for part in pair]
            largest = max(largest, int(np.abs(wide[0] - wide[1]).max()))
    return differing / max(elements, 1), largest


COUNT = re.compile(r"# cases: (\d+) of each operator and type")


def read_measured(path: Path) -> dict[Case, dict[str, Comparison]]:
    """Return the outcomes of each case by column, from a CSV with the columns operator, type, number and the outcomes.

    If the CSV states the number of cases, those without a row are equal in every column.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    reader = csv.DictReader(line for line in lines if not line.startswith("#"))
    columns = [name for name in reader.fieldnames or () if name not in KEY]
    measured: dict[Case, dict[str, Comparison]] = {}
    for match in filter(None, map(COUNT.match, lines)):
        equal = dict.fromkeys(columns, Comparison("equal"))
        measured = {
            Case(operator, kind, number): equal for operator, kind in generators() for number in range(int(match[1]))
        }
    for row in reader:
        case = Case(row["operator"], row["type"], int(row["number"]))
        measured[case] = {name: Comparison.parse(row[name]) for name in columns if row[name]}
    return measured


def write_measured(
    path: Path, header: Iterable[str], outcomes: Mapping[Case, Mapping[str, Comparison]], columns: Collection[str]
) -> None:
    """Write the outcomes; header: comment lines that state the commits and flags."""
    with path.open("w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {line}\n" for line in header)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*KEY, *columns])
        for case in sorted(outcomes, key=lambda case: (case.operator, case.type, case.number)):
            row = outcomes[case]
            writer.writerow([case.operator, case.type, case.number, *(str(row.get(name, "")) for name in columns)])
