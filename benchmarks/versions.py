"""Compare what edgetool says of a model on earlier versions of TFLM with what these did on an emulated Cortex-M7.

    python -m benchmarks.versions DATA [--all]

DATA/models/SET/MODEL.tflite are the models of kernels/measured/versions.csv; those of versions_cases.csv, of one
operator each, are generated. used: arena_used_bytes(); smallest: the smallest arena, in steps of 16, in which
AllocateTensors and Invoke worked. A model that a version refused, or that crashed there, must be refused by name or
have a known fault. --all prints every row that differs.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.kernels.cases import Case

from edgetool.memory.account import account_model
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.operators.legality import kernel_faults, unsupported_operators
from edgetool.target.load import load_core, load_runtime
from edgetool.target.platform import make_platform
from edgetool.target.types import Kernels

MEASURED = Path(__file__).parent / "kernels" / "measured" / "versions.csv"
CASES = MEASURED.with_name("versions_cases.csv")
CASE_COLUMNS = ("operator", "type", "number", "kernels")
UNSTABLE = "unstable"  # the outputs depend on what the memory held
CORE = "cortex-m7"
KERNELS: tuple[Kernels, ...] = ("reference", "cmsis-nn")
LINE = "{:<14} {:<10} {:>5} {:>6} {:>9} {:>6} {:>12}"


@dataclass(frozen=True, slots=True)
class Row:
    """A model on a version: what was measured, and what edgetool says; sizes are None where the model did not run."""

    runtime: str
    kernels: Kernels
    model: str
    status: str
    measured: tuple[int, int] | None
    account: tuple[int, int] | None
    refused: bool
    faults: frozenset[str]

    @property
    def agrees(self) -> bool:
        """Whether used bytes and smallest arena are equal, or edgetool says why the model does not run."""
        if self.measured is None:
            return self.refused or (self.status in ("crashed", "failed") and bool(self.faults))
        return not self.refused and self.account == self.measured

    @property
    def below(self) -> bool:
        """Whether edgetool's smallest arena is smaller than the measured one."""
        return self.measured is not None and self.account is not None and self.account[1] < self.measured[1]


def compared(data: Path, measured: Path = MEASURED) -> Iterator[Row]:
    """Yield every row of the measurements, in their order."""
    with measured.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(text for text in file if not text.startswith("#")):
            model = _model(data / "models" / line["set"] / f"{line['model']}.tflite")
            ran = line["status"] == "ok"
            sizes = (int(line["arena_used"]), int(line["min_arena16"])) if ran else None
            name = f"{line['set']}/{line['model']}"
            kernels = next(word for word in KERNELS if word == line["kernels"])
            yield _row(f"tflm-{line['version']}", kernels, name, model, line["status"], sizes)


def compared_cases(every: int = 1, measured: Path = CASES) -> Iterator[Row]:
    """Yield the generated models, or one of `every`, on each version: where TFLM crashed, a known fault explains it."""
    with measured.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(text for text in file if not text.startswith("#")))
    for line in lines[::every]:
        case = Case(line["operator"], line["type"], int(line["number"]))
        kernels, model = next(word for word in KERNELS if word == line["kernels"]), case.model()
        for version, cell in line.items():
            words = cell.split()
            if version not in CASE_COLUMNS and words and words[0] != UNSTABLE:
                sizes = (int(words[0]), int(words[1])) if words[0].isdigit() else None
                status = "ok" if sizes else words[0]
                yield _row(f"tflm-{version}", kernels, case.seed, model, status, sizes)


@cache
def _model(path: Path) -> Model:
    return read_model(path.read_bytes())


def _row(name: str, kernels: Kernels, label: str, model: Model, status: str, measured: tuple[int, int] | None) -> Row:
    core, runtime = load_core(CORE), load_runtime(name)
    platform = make_platform(runtime, core.abi, kernels, dsp=core.dsp, mve=core.mve)
    account = account_model(model, platform)
    # An operator that ignores the scales runs.
    unsupported = [item for item in unsupported_operators(model, runtime, kernels=kernels) if item.kind != "scales"]
    refused = bool(unsupported) or any(item.refusal is not None for item in account.unaccounted)
    faults = frozenset(fault.name for _, _, fault in kernel_faults(model, platform, None))
    return Row(name, kernels, label, status, measured, (account.used_bytes, account.bytes), refused, faults)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    rows = [*compared(arguments.data), *compared_cases()]
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.runtime, row.kernels].append(row)
    print(LINE.format("runtime", "kernels", "rows", "equal", "refused", "below", "equal share"))
    for (runtime, kernels), group in sorted(groups.items()):
        equal = sum(row.agrees for row in group)
        refused = sum(row.measured is None for row in group)
        below = sum(row.below for row in group)
        print(LINE.format(runtime, kernels, len(group), equal, refused, below, f"{equal / len(group):.1%}"))
    for row in rows:
        if arguments.all and not row.agrees:
            print(f"{row.runtime} {row.kernels} {row.model}: {row.status}, {row.measured}, edgetool: {row.account}")
    return int(any(row.below for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
