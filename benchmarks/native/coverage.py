"""Branch coverage of the native kernels: gcov over random networks and models of each operator.

    python -m benchmarks.native coverage [--networks 20] [--cases 12] [--into CSV]

Each model runs on all its samples with whole tensors and in bands of random heights, without optimization; operators
also run with the rows of images apart, in plans of rows, with the kernels for Helium, and without scratch that only
makes kernels faster.
All of them run with the kernels' plain C and with their C for DSP processors; a branch is taken if either run takes it.
What random models do not reach is in tests/codegen/native/rare.py. Lines of branches that were never taken are printed
with the kernel's share, and stored in the CSV.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from benchmarks.native.layers import layer
from tests.codegen.native import host, rare, test_recompute, test_sums
from tests.codegen.native.row_plans import scattered_plan
from tests.codegen.native.test_convolution import (
    convolutions,
    convolutions_of_many_products,
    depthwises,
    layers_in_lanes,
)
from tests.codegen.native.test_networks import cases, networks, supported, supported_types
from tests.codegen.native.test_vector import TYPES as VECTOR_TYPES

from edgetool.codegen.native.emit import kernel_files

MEASURED = Path(__file__).parent / "measured" / "coverage.csv"
GOAL = 0.95
FIRST_NETWORK = 60_000
GROUP = 40
SECONDS = 900
# The variants of the kernels' C: plain, and for DSP processors, which only kernels of int8 have.
VARIANTS: tuple[tuple[str, ...], ...] = ((), ("-DEDGETOOL_DSP=1",))
# How often each branch was taken, by file, line and number; files without branches have None as their line.
Counts = Counter[tuple[str, int | None, int]]


@dataclass
class Covered:
    """The branches of a kernel: those taken, all, and the lines of the others."""

    taken: int = 0
    total: int = 0
    missed: set[int] = field(default_factory=set)

    @property
    def share(self) -> float:
        """The share of branches that were taken; 1 without branches."""
        return self.taken / self.total if self.total else 1.0


def measure(trials: Sequence[host.Trial]) -> dict[str, Covered]:
    """Run all models with all variants of the kernels, and return the branches of each file of the kernels.

    A branch that only one variant has counts, too.
    """
    counts: Counts = Counter()
    for flags in VARIANTS:
        chosen = [trial for trial in trials if not flags or any("_s8" in kernel for kernel in trial.program.kernels)]
        counts.update(_run_variant(chosen, flags))
    covered: dict[str, Covered] = {}
    for (file, line, _), count in counts.items():
        kernel = covered.setdefault(file, Covered())
        if line is not None:
            kernel.total += 1
            kernel.taken += count > 0
            if not count:
                kernel.missed.add(line)
    return covered


def _run_variant(trials: Sequence[host.Trial], flags: Sequence[str]) -> Counts:
    """Run all models with both drivers, and return how often they took each branch."""
    files: dict[str, bytes] = {}
    for trial in trials:
        files |= kernel_files(trial.program) | kernel_files(trial.program, trial.runtime)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, data in files.items():
            # Inlined copies for one case each would count the branches of all others as not taken.
            (folder / file).write_bytes(data.replace(b"__attribute__((always_inline))", b""))
        (folder / "bands.c").write_bytes(host.BANDS.read_bytes())
        sources = [file for file in files if file.endswith(".c")]
        options = ["-std=c99", "-O0", *flags, "--coverage", "-fprofile-update=atomic"]
        _run(["gcc", *options, "-c", *sources, "bands.c"], folder)
        kernels = [f"{Path(file).stem}.o" for file in sources if file != "edgetool_run.c"]
        for start in range(0, len(trials), GROUP):
            for driver, unit in (("run", "edgetool_run.o"), ("bands", "bands.o")):
                _run_group(trials[start : start + GROUP], folder, driver, [*kernels, unit])  # type: ignore[arg-type]
        return _branches(folder, [*kernels, "edgetool_run.o"])


def _run(command: Sequence[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, timeout=SECONDS, stdout=subprocess.DEVNULL)


def _run_group(trials: Sequence[host.Trial], folder: Path, driver: host.Driver, objects: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for number, trial in enumerate(trials):
            (place / f"{number}.in").write_bytes(trial.samples)
            for file, data in host.model_files(f"m{number}", trial).items():
                (place / file).write_bytes(data)
        (place / "group.c").write_text(host.group_source(trials, driver))
        units = [str(folder / item) for item in objects]
        _run(["gcc", "-std=c99", "-O0", f"-I{folder}", "group.c", *units, "--coverage", "-o", "program"], place)
        _run(["./program"], place)


def _branches(folder: Path, objects: Sequence[str]) -> Counts:
    """Return what gcov reports for each file with code.

    A branch in an inline function of a header counts once, and is taken if any kernel takes it.
    """
    command = ["gcov", "--json-format", "--branch-probabilities", *objects]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"})
    counts: Counts = Counter()
    for path in folder.glob("*.gcov.json.gz"):
        for item in json.loads(gzip.decompress(path.read_bytes()))["files"]:
            file = Path(item["file"]).name
            counts[file, None, 0] = 0
            for line in item["lines"]:
                for number, branch in enumerate(line["branches"]):
                    counts[file, line["line_number"], number] += branch["count"]
    return counts


def write(path: Path, covered: Mapping[str, Covered]) -> None:
    """Write the branches of each file."""
    with path.open("w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["file", "branches", "taken", "lines_missed"])
        for name, kernel in sorted(covered.items()):
            writer.writerow([name, kernel.total, kernel.taken, " ".join(map(str, sorted(kernel.missed)))])


def read(path: Path = MEASURED) -> dict[str, Covered]:
    """Return the branches of each file."""
    with path.open(newline="", encoding="ascii") as file:
        return {
            row["file"]: Covered(
                int(row["taken"]), int(row["branches"]), {int(line) for line in row["lines_missed"].split()}
            )
            for row in csv.DictReader(file)
        }


def drawn(count: int, numbers: int) -> list[host.Trial]:
    """Return random networks, random models of each operator in all forms, convolutions of all kinds, and rare models.

    Some convolutions are one step with what reads them.

    Only layers of int8 have kernels for Helium, and kernels that do without scratch.
    """
    refused: Counter[str] = Counter()
    types = supported_types()
    bytes_only = [(code, kind) for code, kind in types if kind == "int8"]
    ends = (0, numbers, numbers + numbers // 2, 2 * numbers)
    plain, apart, lean = (range(start, end) for start, end in pairwise(ends))
    groups = [
        supported(networks(FIRST_NETWORK), count, refused),
        supported(cases(types, plain), None, refused),
        supported(cases(types, apart), None, refused, row_wise=True),
        supported(cases(bytes_only, lean), None, refused, lean=True),
        supported(cases(VECTOR_TYPES, range(4 * numbers)), None, refused, vector=True),
        rare.defined(),
        rare.undefined(),
    ]
    sums = {name: host.prepare(model, 4, row_wise=True) for name, model in test_sums.models().items()}
    groups += [sums, {name: host.with_rows(trial, scattered_plan) for name, trial in (groups[2] | sums).items()}]
    groups.append({name: test_recompute.trial_of(model) for name, model in test_recompute.drawn(0, 5 * numbers)})
    trials = [trial for group in groups for trial in group.values()]
    layers = [*depthwises(), *convolutions()]
    kinds = ({}, {"vector": True}, {"lean": True}, {"plain": True})
    trials += [host.prepare(model, 1, **kind) for model in layers for kind in kinds]
    trials += [host.prepare(model, 1, row_wise=True) for model in convolutions_of_many_products()]
    trials += [host.prepare(model, 1, vector=True) for model in layers_in_lanes()]
    return trials + [host.prepare(layer("dense", number), 1) for number in range(2 * numbers)]


def main() -> int:
    """Print the share of each kernel, and return 1 if one is below the goal."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.native coverage")
    parser.add_argument("--networks", type=int, default=20)
    parser.add_argument("--cases", type=int, default=12, help="models of each operator and type")
    parser.add_argument("--into", type=Path, metavar="CSV")
    options = parser.parse_args()
    covered = measure(drawn(options.networks, options.cases))
    if options.into is not None:
        write(options.into, covered)
    for file, kernel in sorted(covered.items()):
        lines = ", ".join(map(str, sorted(kernel.missed)))
        print(f"{file:<36} {kernel.share:7.1%} of {kernel.total:3}  {'not taken in lines ' + lines if lines else ''}")
    taken, total = (sum(getattr(kernel, name) for kernel in covered.values()) for name in ("taken", "total"))
    print(f"{'all':<36} {taken / max(1, total):7.1%} of {total}")
    return 0 if all(kernel.share >= GOAL for kernel in covered.values()) else 1
