"""The allocators that benchmarks/layout.py compares with edgetool: one function for each.

Each function takes a problem, the capacity at which it may stop (None: minimise) and a time limit in seconds, and
returns an Answer. If an allocator is not installed, it raises ImportError or FileNotFoundError with what to install;
edgetool depends on none of them.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from typing import Any

from edgetool.memory.layout.solve import LayoutStrategy, solve
from edgetool.memory.problem import Effort, LayoutProblem

HILL_CLIMB_ITERATIONS = 2000


@dataclass(frozen=True, slots=True)
class Answer:
    """Offsets, None if there are none, and whether the allocator states that no layout is lower."""

    offsets: tuple[int, ...] | None
    proven: bool = False
    proof: str = ""


Contender = Callable[[LayoutProblem, int | None, float], Answer]


def edgetool(
    problem: LayoutProblem, capacity: int | None, seconds: float, strategy: LayoutStrategy = "optimal"
) -> Answer:
    end = time.process_time() + seconds
    effort = Effort(node_limit=None, stop=lambda: time.process_time() > end)
    layout = solve(problem, effort, strategy=strategy, capacity=capacity)
    return Answer(layout.offsets, layout.optimal, layout.proof)


def edgetool_plain(problem: LayoutProblem, capacity: int | None, seconds: float) -> Answer:
    """Run edgetool as if numba were not installed."""
    sys.modules["numba"] = None  # type: ignore[assignment]
    return edgetool(problem, capacity, seconds)


def tflm(problem: LayoutProblem, capacity: int | None, seconds: float) -> Answer:
    """Run GreedyMemoryPlanner's order and first fit, as implemented in edgetool."""
    return edgetool(problem, capacity, seconds, "tflm")


def supermalloc(problem: LayoutProblem, capacity: int | None, seconds: float) -> Answer:
    from omnimalloc.allocators import SupermallocAllocator
    from omnimalloc.primitives import Allocation

    allocations = tuple(
        Allocation(id=i, size=b.aligned_bytes, start=b.lifetime.first, end=b.lifetime.last + 1)
        for i, b in enumerate(problem.buffers)
    )
    result = SupermallocAllocator(num_threads=8, timeout=seconds).solve(allocations)
    offsets = {a.id: a.offset for a in result.allocations}
    return Answer(tuple(offsets[i] for i in range(len(allocations))), result.proved_optimal)


def vela_greedy(problem: LayoutProblem, capacity: int | None, seconds: float) -> Answer:
    from ethosu.vela import greedy_allocation

    graph = _vela_graph(problem)
    greedy_allocation.allocate_live_ranges(graph, 1)
    return Answer(tuple(tensor.address for tensor in graph.ranges))


def vela_linear(problem: LayoutProblem, capacity: int | None, seconds: float) -> Answer:
    from ethosu.vela import tensor_allocation

    graph = _vela_graph(problem)
    tensor_allocation.linear_allocate_live_ranges(graph, 1)
    return Answer(tuple(tensor.address for tensor in graph.ranges))


def vela_hill_climb(problem: LayoutProblem, capacity: int | None, seconds: float) -> Answer:
    from ethosu.vela import hillclimb_allocation

    # The limit at which it may stop: the peak of live bytes, below which it would only warn.
    live = _most_alive(problem)
    addresses = hillclimb_allocation.allocate_live_ranges(_vela_graph(problem).lrs, HILL_CLIMB_ITERATIONS, live)
    return Answer(tuple(addresses))


def pairwise_cp_sat(problem: LayoutProblem, capacity: int | None, seconds: float) -> Answer:
    """Solve the textbook model: an order for each pair of simultaneously live buffers, with one worker."""
    from ortools.sat.python import cp_model

    buffers = problem.buffers
    unit = gcd(*(b.aligned_bytes for b in buffers))
    sizes = [b.aligned_bytes // unit for b in buffers]
    model = cp_model.CpModel()
    top = model.new_int_var(_most_alive(problem) // unit, sum(sizes), "")
    offsets = [model.new_int_var(0, sum(sizes) - size, "") for size in sizes]
    for i, size in enumerate(sizes):
        model.add(offsets[i] + size <= top)
        for j in range(i):
            if buffers[i].lifetime.overlaps(buffers[j].lifetime):
                below = model.new_bool_var("")
                model.add(offsets[i] + size <= offsets[j]).only_enforce_if(below)
                model.add(offsets[j] + sizes[j] <= offsets[i]).only_enforce_if(~below)
    if capacity is None:
        model.minimize(top)
    else:
        model.add(top <= capacity // unit)
    solver = cp_model.CpSolver()
    solver.parameters.catch_sigint_signal = False  # it would permanently replace Python's handler for Ctrl-C
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = seconds
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Answer(None)
    proven = status == cp_model.OPTIMAL and capacity is None
    return Answer(tuple(int(solver.value(offset)) * unit for offset in offsets), proven)


def minimalloc(problem: LayoutProblem, capacity: int | None, seconds: float) -> Answer:
    """Run the program of that name on PATH; without a capacity, it minimises and states no proof.

    It uses wall-clock time: it gets three times the limit, because the machine is shared.
    """
    program = shutil.which("minimalloc")
    if program is None:
        raise FileNotFoundError("no minimalloc on PATH (https://github.com/google/minimalloc)")
    with tempfile.TemporaryDirectory() as directory:
        rows, answer = Path(directory) / "in.csv", Path(directory) / "out.csv"
        with rows.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("id", "lower", "upper", "size"))
            for i, b in enumerate(problem.buffers):
                writer.writerow((i, b.lifetime.first, b.lifetime.last + 1, b.aligned_bytes))
        limits = [
            f"--capacity={capacity or sum(b.aligned_bytes for b in problem.buffers)}",
            f"--timeout={3 * seconds:g}s",
        ]
        minimise = [] if capacity else ["--minimize_capacity"]
        done = subprocess.run(
            [program, f"--input={rows}", f"--output={answer}", *limits, *minimise],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            if "DEADLINE" in done.stderr:
                return Answer(None)
            raise RuntimeError(done.stderr.strip())
        with answer.open(newline="", encoding="utf-8") as file:
            offsets = {int(row["id"]): int(row["offset"]) for row in csv.DictReader(file)}
    return Answer(tuple(offsets[i] for i in range(len(problem.buffers))) if offsets else None)


# By the name shown in the tables.
CONTENDERS: dict[str, Contender] = {
    "edgetool": edgetool,
    "edgetool, no numba": edgetool_plain,
    "TFLM greedy": tflm,
    "SuperMalloc": supermalloc,
    "Vela greedy": vela_greedy,
    "Vela HillClimb": vela_hill_climb,
    "Vela linear": vela_linear,
    "CP-SAT pairwise": pairwise_cp_sat,
    "MiniMalloc": minimalloc,
}


class _VelaTensor:
    """The attributes of Vela's tensors that its allocators use."""

    weight_compression_config = None
    purpose = None
    ops: tuple[()] = ()
    consumer_list: tuple[()] = ()
    address = 0


def _vela_graph(problem: LayoutProblem) -> Any:
    """Return the buffers as Vela's live ranges; its times are indices into lists, so only relevant ones are kept."""
    from ethosu.vela.live_range import LiveRange, LiveRangeGraph

    times = sorted({b.lifetime.first for b in problem.buffers} | {b.lifetime.last + 1 for b in problem.buffers})
    rank = {moment: i for i, moment in enumerate(times)}
    graph = LiveRangeGraph()
    for i, b in enumerate(problem.buffers):
        live_range = LiveRange(None, 1)
        tensor = _VelaTensor()
        live_range.tensors.append(tensor)
        live_range.name = str(i)
        live_range.size = b.aligned_bytes
        live_range.start_time, live_range.end_time = rank[b.lifetime.first], rank[b.lifetime.last + 1] - 1
        graph.ranges[tensor] = live_range
        graph.lrs.append(live_range)
    return graph


def _most_alive(problem: LayoutProblem) -> int:
    change: dict[int, int] = {}
    for b in problem.buffers:
        change[b.lifetime.first] = change.get(b.lifetime.first, 0) + b.aligned_bytes
        change[b.lifetime.last + 1] = change.get(b.lifetime.last + 1, 0) - b.aligned_bytes
    live = most = 0
    for moment in sorted(change):
        live += change[moment]
        most = max(most, live)
    return most
