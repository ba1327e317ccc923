"""Compare the executed instructions of native code with those of TFLM, on emulated cores.

    python -m benchmarks.native speed models FILE... [--only CORE...]    whole models: measured/models.csv
    python -m benchmarks.native speed operators [--only CORE...]         by rows per call: measured/operators.csv
    python -m benchmarks.native speed rows FILE... [--only CORE...]      plans of rows, tensors: measured/rowspeed.csv

TFLM's counts of whole models are in measured/tflm.csv, and of operators in benchmarks/instructions/measured. They were
counted once on the same machines of QEMU, with CMSIS-NN on Arm cores, and with reference kernels on RISC-V. Those of
native code are counted now, as for the estimates (instructions.py). Instructions are not cycles: ratios of time need a
board.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path

from benchmarks.instructions.cases import cases
from benchmarks.instructions.measured import read_counts
from benchmarks.native.cores import compilers_note, kernels_note
from benchmarks.native.instructions import CORES, LARGE_SHIFTS, SAMPLES, SHIFTS, count_all, trial_of
from tests.codegen.native.host import Trial

from edgetool.execute.quantize import random_inputs
from edgetool.memory.planner import PlanRequest
from edgetool.memory.problem import Effort
from edgetool.pipeline.native import choose, native_model
from edgetool.pipeline.source import open_tflite
from edgetool.pipeline.targets import NATIVE
from edgetool.target.load import load_core, load_target

FOLDER = Path(__file__).parent / "measured"
TFLM, MODELS, OPERATORS, ROWS = (FOLDER / f"{name}.csv" for name in ("tflm", "models", "operators", "rowspeed"))
ROOMS = {"convolution": "CONV_2D", "depthwise": "DEPTHWISE_CONV_2D", "dense": "FULLY_CONNECTED"}
EVERY = 5  # one case of this many
ALL = 0  # rows per call: all
BANDS = (1, 2, 4, ALL)


@dataclass(frozen=True, slots=True)
class ModelSpeed:
    """The instructions of an inference of native code, and those of TFLM with the kernels that are named."""

    model: str
    sha256: str
    core: str
    native: int
    kernels: str
    tflm: int

    @property
    def ratio(self) -> float:
        """Native code's instructions by TFLM's."""
        return self.native / self.tflm


@dataclass(frozen=True, slots=True)
class OperatorSpeed:
    """The instructions of an operator in native code with a number of rows per call, and those of CMSIS-NN for all.

    rows: of each call, ALL for all. scratch: of the kernel in bytes.
    """

    case: str
    core: str
    kernel: str
    scratch: int
    rows: int
    native: int
    cmsis_nn: int

    @property
    def ratio(self) -> float:
        """Native code's instructions by CMSIS-NN's."""
        return self.native / self.cmsis_nn


@dataclass(frozen=True, slots=True)
class RowSpeed:
    """The instructions of an inference with a plan, and those of the fastest plan of tensors.

    by_rows: whether the plan has rows. arena_bytes: with the scratch of kernels.
    """

    model: str
    sha256: str
    core: str
    by_rows: bool
    arena_bytes: int
    native: int
    tensors: int

    @property
    def ratio(self) -> float:
        """The plan's instructions by those of tensors."""
        return self.native / self.tensors


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return exp(sum(map(log, values)) / len(values))


def tflm_counts(path: Path = TFLM) -> dict[tuple[str, str], tuple[str, int]]:
    """Return TFLM's kernels and instructions by hash of the model and core."""
    return {(row["sha256"], row["core"]): (row["kernels"], int(row["instructions"])) for row in _rows(path)}


def model_speeds(files: Sequence[Path], cores: Sequence[str]) -> Iterator[ModelSpeed]:
    """Count models on cores, of those that TFLM was counted on.

    Raises:
        UnsupportedModelError: Native code does not support a model.
    """
    tflm = tflm_counts()
    for core in cores:
        for path in files:
            blob = path.read_bytes()
            digest = hashlib.sha256(blob).hexdigest()
            if (digest, core) not in tflm:
                print(f"{core} {path.stem}: TFLM was not counted", file=sys.stderr)
                continue
            target = load_target(core).with_overrides(runtime=NATIVE)
            # Plans of rows are compared with these, not with TFLM.
            choices = [item for item in native_model(open_tflite(path), target).choices if item.rows is None]
            planned = choose(tuple(choices), target, PlanRequest(), Effort())
            inputs = random_inputs(planned.program.model, SAMPLES, 0)
            trial = Trial(blob, planned.program, planned.memory, tuple(inputs))
            native = sum(count_all(core, {path.stem: trial}, LARGE_SHIFTS).values())
            yield ModelSpeed(path.stem, digest, core, native, *tflm[digest, core])


def row_speeds(files: Sequence[Path], cores: Sequence[str]) -> Iterator[RowSpeed]:
    """Count all plans of models among which edgetool chooses.

    The loop that goes through the schedule is not counted: about ten instructions for each call of a kernel.

    Raises:
        UnsupportedModelError: Native code does not support a model.
    """
    for core in cores:
        for path in files:
            source = open_tflite(path)
            choices = native_model(source, load_target(core).with_overrides(runtime=NATIVE)).choices
            inputs = tuple(random_inputs(source.model, SAMPLES, 0))
            counted = []
            for item in choices:
                rows = None if item.rows is None else (item.rows.problem, item.rows.plan)
                trial = Trial(source.blob, item.program, item.memory, inputs, rows)
                counted.append(sum(count_all(core, {path.stem: trial}, LARGE_SHIFTS).values()))
            for item, native in zip(choices, counted, strict=True):
                by_rows, size = item.rows is not None, item.memory.arena_bytes
                yield RowSpeed(path.stem, source.sha256, core, by_rows, size, native, counted[-1])


def in_bands(trial: Trial, rows: int) -> Trial:
    """Return the trial with this number of output rows per call."""
    steps = tuple(replace(step, band=min(rows or step.rows, step.rows)) for step in trial.program.steps)
    return replace(trial, program=replace(trial.program, steps=steps))


def operator_speeds(core: str) -> Iterator[OperatorSpeed]:
    """Count int8 operators with multiply-accumulates by the number of rows per call."""
    profile = load_core(core)
    for room, operator in ROOMS.items():
        made = cases(room)
        counts = [item for item in read_counts(room) if item.operator == operator and "int8" in item.case]
        chosen: dict[str, tuple[Trial, int]] = {}
        for item in counts[::EVERY]:
            number = item.instructions.get((core, "cmsis-nn"))
            trial = trial_of(made[item.case](), vector=profile.mve, dsp=profile.dsp)
            if number is not None and trial is not None and len(trial.program.steps) == 1:
                chosen[item.case] = trial, number
        for rows in BANDS:
            found = count_all(core, {case: in_bands(trial, rows) for case, (trial, _) in chosen.items()}, SHIFTS)
            for (case, _, kernel), native in found.items():
                trial, number = chosen[case]
                scratch = trial.program.steps[0].scratch_bytes
                yield OperatorSpeed(case, core, kernel, scratch, rows, native, number)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="ascii") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def read_models(path: Path = MODELS) -> list[ModelSpeed]:
    """Return the rows of the table of models."""
    return [
        ModelSpeed(row["model"], row["sha256"], row["core"], int(row["native"]), row["kernels"], int(row["tflm"]))
        for row in _rows(path)
    ]


def read_operators(path: Path = OPERATORS) -> list[OperatorSpeed]:
    """Return the rows of the table of operators."""
    return [
        OperatorSpeed(
            row["case"],
            row["core"],
            row["kernel"],
            *(int(row[name]) for name in ("scratch", "rows", "native", "cmsis_nn")),
        )
        for row in _rows(path)
    ]


def read_row_speeds(path: Path = ROWS) -> list[RowSpeed]:
    """Return the rows of the table of plans."""
    return [
        RowSpeed(
            row["model"],
            row["sha256"],
            row["core"],
            row["by_rows"] == "True",
            *(int(row[name]) for name in ("arena_bytes", "native", "tensors")),
        )
        for row in _rows(path)
    ]


def _write(path: Path, found: Sequence[ModelSpeed] | Sequence[OperatorSpeed] | Sequence[RowSpeed]) -> None:
    names = list(type(found[0]).__dataclass_fields__)
    with path.open("w", newline="", encoding="ascii") as file:
        file.write(f"# {compilers_note()} at -O2; {kernels_note()}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*names, "ratio"])
        writer.writerows([*(getattr(item, name) for name in names), f"{item.ratio:.3f}"] for item in found)


def summary(found: Sequence[ModelSpeed]) -> Mapping[str, tuple[float, float]]:
    """Return the geometric mean and the largest ratio by core."""
    ratios: dict[str, list[float]] = defaultdict(list)
    for item in found:
        ratios[item.core].append(item.ratio)
    return {core: (geometric_mean(values), max(values)) for core, values in ratios.items()}


def main() -> int:
    """Count, print and write a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.native speed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=["models", "operators", "rows"])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--only", nargs="*", choices=CORES, default=list(CORES), metavar="CORE")
    options = parser.parse_args()
    if options.what == "models":
        models = []
        for item in model_speeds(options.files, options.only):
            print(f"{item.core:14} {item.model:24} {item.native:12,} / {item.tflm:12,} = {item.ratio:.3f}", flush=True)
            models.append(item)
        for core, (mean, largest) in summary(models).items():
            print(f"{core:14} geometric mean {mean:.3f}, largest {largest:.3f}")
        kept = [item for item in read_models() if item.core not in options.only] if MODELS.exists() else []
        _write(MODELS, [*kept, *models])
        return 0
    if options.what == "rows":
        plans = [item for item in read_row_speeds() if item.core not in options.only] if ROWS.exists() else []
        for plan in row_speeds(options.files, options.only):
            kind = "rows" if plan.by_rows else "tensors"
            print(f"{plan.core:14} {plan.model:24} {kind:8} {plan.arena_bytes:11,} B {plan.ratio:.3f}", flush=True)
            plans.append(plan)
        _write(ROWS, plans)
        return 0
    operators = [] if not OPERATORS.exists() else [item for item in read_operators() if item.core not in options.only]
    for core in options.only:
        counted = list(operator_speeds(core)) if core != "riscv32" else []
        for room in ("conv2d", "depthwise", "dense"):
            for rows in BANDS:
                ratios = sorted((i.ratio, i.case) for i in counted if i.rows == rows and room in i.kernel)
                if ratios:
                    mean = geometric_mean([ratio for ratio, _ in ratios])
                    print(
                        f"{core:14} {room:10} rows {rows or 'all':>3}: mean {mean:.3f}, largest {ratios[-1]}",
                        flush=True,
                    )
        operators += counted
    _write(OPERATORS, operators)
    return 0
