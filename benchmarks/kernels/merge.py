"""Merge the measurements of several cores into one CSV, without the models that are equal everywhere.

    python -m benchmarks.kernels.merge MEASURED.csv... --into benchmarks/kernels/measured/cmsis_nn.csv [--note LINE...]

All of them must contain the same cases: the same number for every operator and type.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from benchmarks.kernels.__main__ import MEASURED
from benchmarks.kernels.cases import Case, generators
from benchmarks.kernels.compare import Comparison, read_measured, write_measured


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="MEASURED.csv")
    parser.add_argument("--into", type=Path, default=MEASURED, metavar="CSV")
    parser.add_argument("--note", action="append", default=[], help="a line at the start of the CSV: commits, flags")
    options = parser.parse_args()
    merged: dict[Case, dict[str, Comparison]] = {}
    for path in options.files:
        for case, outcomes in read_measured(path).items():
            merged.setdefault(case, {}).update(outcomes)
    columns = list(dict.fromkeys(name for outcomes in merged.values() for name in outcomes))
    counts = Counter((case.operator, case.type) for case in merged)
    count = max(counts.values())
    if counts != dict.fromkeys(generators(), count) or any(
        len(outcomes) != len(columns) for outcomes in merged.values()
    ):
        parser.error("the files do not contain the same cases of every operator and type")
    different = {
        case: outcomes for case, outcomes in merged.items() if {item.outcome for item in outcomes.values()} != {"equal"}
    }
    note = f"cases: {count} of each operator and type; one without a row is equal in every column"
    options.into.parent.mkdir(exist_ok=True)
    write_measured(options.into, [*options.note, note], different, columns)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
