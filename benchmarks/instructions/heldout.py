"""The tables against counts of whole models that no table was made from."""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.instructions.fit import Coefficients, fit_build, platform_for

from edgetool.estimate.latency import executed_instructions
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.operators.call import Call
from edgetool.target.types import Kernels

CORES = {"m4": "cortex-m4", "m7": "cortex-m7", "m55": "cortex-m55"}
KERNELS: dict[str, Kernels] = {"cm": "cmsis-nn", "ref": "reference"}


@dataclass(frozen=True, slots=True)
class Compared:
    """One operator: its share of the model's counted instructions, and the error of the table; 1 without a rule."""

    model: str
    index: int
    operator: str
    share: float
    counted: int
    predicted: float

    @property
    def error(self) -> float:
        return abs(self.predicted / self.counted - 1)


def compared(data: Path) -> dict[tuple[str, Kernels], list[Compared]]:
    """Every counted operator of models with one subgraph, by build."""
    files = {path.stem: path for path in (data / "models").rglob("*.tflite")}
    models = {name: read_model(path.read_bytes()) for name, path in files.items()}
    rows: dict[tuple[str, str, Kernels], list[tuple[int, str, int]]] = defaultdict(list)
    with (data / "latency" / "tflm_instructions_per_op.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            key = (row["model"], CORES[row["target"]], KERNELS[row["kernels"]])
            rows[key].append((int(row["index"]), row["op"], int(row["insns"])))
    found: dict[tuple[str, Kernels], list[Compared]] = defaultdict(list)
    for (name, core, kernels), counted in rows.items():
        model = models[name]
        if len(model.subgraphs) > 1:
            continue
        table = _table(core, kernels)
        total = sum(count for _, _, count in counted)
        for index, operator, count in counted:
            guess = _predicted(model, index, core, kernels, table)
            found[core, kernels].append(Compared(name, index, operator, count / total, count, guess))
    return found


@cache
def _table(core: str, kernels: Kernels) -> Coefficients:
    return fit_build(core, kernels)


def _predicted(model: Model, index: int, core: str, kernels: Kernels, table: Coefficients) -> float:
    """The table's figure; 0 where there is no rule or no counted path."""
    call = Call(model, model.main, model.main.operators[index], platform_for(core, kernels), {})
    return executed_instructions(call, table).instructions or 0.0
