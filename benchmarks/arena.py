"""Compare the account of the arena with measurements of TFLM running the same models on emulated Cortex-M cores.

    python benchmarks/arena.py DATA [--all]

DATA is a folder with arena/measured.csv (columns model, set, target, kernels, status, arena_used, head, tail,
min_arena16) and models/SET/MODEL.tflite. used: arena_used_bytes(); min: the smallest arena, in steps of 16, in which
AllocateTensors and Invoke worked with the right outputs. --all prints every row that differs.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from edgetool.memory.account import account_model
from edgetool.model.reader import read_model
from edgetool.target.load import load_target
from edgetool.target.platform import platform_of

CORES = {"m4": "cortex-m4", "m7": "cortex-m7", "m55": "cortex-m55"}
KERNELS = {"ref": "reference", "cm": "cmsis-nn"}
LINE = "{:<12} {:<10} {:>6} {:>12} {:>12} {:>8} {:>12}"


@dataclass(frozen=True, slots=True)
class Row:
    """One model on one core: the measurements, and the figures of the account."""

    model: str
    core: str
    kernels: str
    measured_used: int
    measured_min: int
    used: int
    bytes: int
    is_lower_bound: bool


def compare(data: Path) -> list[Row]:
    """Return every row of the measurements in which TFLM ran the model."""
    rows = []
    with (data / "arena" / "measured.csv").open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            if line["status"] != "ok":
                continue
            model = read_model((data / "models" / line["set"] / f"{line['model']}.tflite").read_bytes())
            core, kernels = CORES[line["target"]], KERNELS[line["kernels"]]
            account = account_model(model, platform_of(load_target(core).with_overrides(kernels=kernels)))
            rows.append(
                Row(
                    model=f"{line['set']}/{line['model']}",
                    core=core,
                    kernels=kernels,
                    measured_used=int(line["arena_used"]),
                    measured_min=int(line["min_arena16"]),
                    used=account.used_bytes,
                    bytes=account.bytes,
                    is_lower_bound=account.is_lower_bound,
                )
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    rows = compare(arguments.data)
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if not row.is_lower_bound:
            groups[row.core, row.kernels].append(row)
            groups["all", ""].append(row)
    print(LINE.format("core", "kernels", "rows", "used equal", "min equal", "below", "most above"))
    for (core, kernels), group in sorted(groups.items(), key=lambda item: item[0][0] == "all"):
        print(
            LINE.format(
                core,
                kernels,
                len(group),
                sum(row.used == row.measured_used for row in group),
                sum(row.bytes == row.measured_min for row in group),
                sum(row.bytes < row.measured_min for row in group),
                f"{max(row.bytes - row.measured_min for row in group)} B",
            )
        )
    bounds = [row for row in rows if row.is_lower_bound]
    print(f"{len(bounds)} rows with operators that are not accounted for: lower bounds")
    for row in rows:
        different = (row.used, row.bytes) != (row.measured_used, row.measured_min)
        if arguments.all and (different or row.is_lower_bound):
            print(
                f"{row.model} {row.core} {row.kernels}: used {row.used:,} of {row.measured_used:,}, "
                f"min {row.bytes:,} of {row.measured_min:,}{' (lower bound)' if row.is_lower_bound else ''}"
            )


if __name__ == "__main__":
    main()
