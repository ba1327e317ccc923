"""From counts to tables: per operator and path, what one turn of each loop executes."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from benchmarks.instructions.cases import cases, rooms
from benchmarks.instructions.measured import BUILDS, read_counts
from numpy.typing import NDArray

from edgetool.estimate.latency import CALL
from edgetool.model.types import Model
from edgetool.operators.call import Call
from edgetool.operators.loops import LoopCounts
from edgetool.operators.registry import loop_counts_of
from edgetool.target.load import load_core, load_runtime
from edgetool.target.platform import Platform, make_platform
from edgetool.target.types import Kernels

TABLES = Path(__file__).parents[2] / "targets" / "cores" / "instructions"
RUNTIME = "tflm-2026-08"
DIGITS = 5  # of a coefficient

Key = tuple[str, str]  # operator, path
Coefficients = dict[Key, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Point:
    """One counted operator: how often each of its loops turned, and the instructions of all."""

    case: str
    loops: Mapping[str, int]
    instructions: int


def platform_for(core_name: str, kernels: Kernels) -> Platform:
    """The build for which instructions were counted."""
    core = load_core(core_name)
    return make_platform(load_runtime(RUNTIME), core.abi, kernels, dsp=core.dsp, mve=core.mve)


def work_at(model: Model, subgraph: int, index: int, platform: Platform) -> LoopCounts | None:
    """The work of one operator of a model."""
    graph = model.subgraphs[subgraph]
    return loop_counts_of(Call(model, graph, graph.operators[index], platform, {}))


def points(room: str, core: str, kernels: Kernels) -> dict[Key, list[Point]]:
    """The counted operators of a room on a build, by operator and path. Operators without a rule are left out."""
    found: dict[Key, list[Point]] = defaultdict(list)
    profile = load_core(core)
    works = _works(room, kernels, profile.dsp, profile.mve)
    for count in read_counts(room):
        instructions = count.instructions.get((core, kernels))
        work = works.get((count.case, count.operator_index))
        if instructions is not None and work is not None:
            loops = {CALL: 1, **{name: turns for name, turns in work.loops.items() if turns}}
            found[count.operator, work.path].append(Point(count.case, loops, instructions))
    return found


@cache
def _models(room: str) -> dict[str, Model]:
    return {name: make() for name, make in cases(room).items()}


@cache
def _works(room: str, kernels: Kernels, dsp: bool, mve: bool) -> dict[tuple[str, int], LoopCounts]:
    """The work of every operator of a room's cases: cores with the same extensions run the same paths."""
    platform = make_platform(load_runtime(RUNTIME), "arm-eabi", kernels, dsp=dsp, mve=mve)
    found = {}
    for name, model in _models(room).items():
        for operator in model.main.operators:
            work = work_at(model, 0, operator.index, platform)
            if work is not None:
                found[name, operator.index] = work
    return found


def fit(counted: Sequence[Point]) -> dict[str, float]:
    """Instructions per turn: none negative, the least sum of squared relative errors."""
    from scipy.optimize import nnls

    names = list(dict.fromkeys(name for point in counted for name in point.loops))
    rows: NDArray[np.float64] = np.array(
        [[point.loops.get(name, 0) / point.instructions for name in names] for point in counted]
    )
    scale = np.maximum(np.abs(rows).max(axis=0), 1e-30)  # columns of like size keep the solver accurate
    solution, _ = nnls(rows / scale, np.ones(len(counted)), maxiter=100 * len(names) + 100)
    return {
        name: float(f"{value:.{DIGITS}g}") for name, value in zip(names, solution / scale, strict=True) if value > 0
    }


def fit_build(core: str, kernels: Kernels, only: Iterable[str] | None = None) -> Coefficients:
    """All coefficients of a build."""
    table: Coefficients = {}
    for room in only or rooms():
        for key, counted in points(room, core, kernels).items():
            table[key] = fit(counted)
    return table


def predicted(loops: Mapping[str, int], coefficients: Mapping[str, float]) -> float:
    """The instructions of an operator whose loops turn that often, its call among them."""
    return sum(coefficients.get(name, 0.0) * turns for name, turns in loops.items())


def write_table(core: str, kernels: Kernels | Literal["native"], table: Coefficients) -> None:
    """Replace the table of a build."""
    TABLES.mkdir(exist_ok=True)
    with (TABLES / f"{core}.{kernels}.csv").open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(["operator", "path", "loop", "instructions"])
        for operator, path in sorted(table):
            for loop, instructions in table[operator, path].items():
                writer.writerow([operator, path, loop, f"{instructions:g}"])


def write_all() -> None:
    """Fit and write every build."""
    for core, kernels in BUILDS:
        write_table(core, kernels, fit_build(core, kernels))
