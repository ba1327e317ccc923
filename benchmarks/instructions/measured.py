"""The counts: one CSV per room, a row per operator of a case, a column per build.

A profiler of TFLM sees the operators of subgraphs between the begin and the end of the one that runs them, WHILE, IF or
CALL_ONCE: number what it sees in the order of the begins, and what is nested follows its parent. A WHILE is followed by
its condition's operators, then for each turn by its body's and its condition's again; an IF by those of the branch that
it takes; a CALL_ONCE by those of its subgraph the first time it runs, and by none later. A row is an operator of the
main subgraph, by its index there; its count is without those of the operators nested in it, which have no row. The
count of the case "again" is that of the CALL_ONCE in the body of the case "once", the second time it runs.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from edgetool.target.types import Kernels

FOLDER = Path(__file__).parent / "measured"
CORES = ("cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55")
KERNELS: tuple[Kernels, ...] = ("cmsis-nn", "reference")
BUILDS: tuple[tuple[str, Kernels], ...] = tuple((core, kernels) for core in CORES for kernels in KERNELS)
KEYS = ("case", "operator_index", "operator")


@dataclass(frozen=True, slots=True)
class Count:
    """The executed instructions of one operator of a case, by (core, kernels); builds that refuse it are absent."""

    case: str
    operator_index: int
    operator: str
    instructions: Mapping[tuple[str, Kernels], int]


def read_counts(room: str) -> Iterator[Count]:
    """The counts of a room."""
    with (FOLDER / f"{room}.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            counts = {build: int(cell) for build in BUILDS if (cell := row.get(" ".join(build)))}
            yield Count(row["case"], int(row["operator_index"]), row["operator"], counts)


def write_counts(room: str, counts: list[Count]) -> None:
    """Replace the counts of a room."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f"{room}.csv").open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow([*KEYS, *(" ".join(build) for build in BUILDS)])
        for count in counts:
            cells = [count.instructions.get(build, "") for build in BUILDS]
            writer.writerow([count.case, count.operator_index, count.operator, *cells])
