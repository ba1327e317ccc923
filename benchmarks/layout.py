"""Compare the layout search with other allocators in one run: CPU seconds, heights, proofs and memory.

    python -m benchmarks.layout DATA [--quick] [--runs 3] [--only SECTION ...]

DATA is a folder with layout/{minimalloc,models,synthetic}/*.csv (id, lower, upper, size; half-open lifetimes; the
capacity in the names of minimalloc). Other allocators are measured if they are installed, and otherwise skipped with
the reason: pip install omnimalloc ethos-u-vela ortools, and minimalloc (github.com/google/minimalloc) on PATH.

Each allocator runs in a separate process for each instance. CPU seconds are those of all its threads and children,
without imports and reading: the median of the runs, or a single run if the first takes longer than LONG seconds.
"first" is the first run of a process; if numba is installed, its machine code is loaded from the cache. edgetool's
checker validates every layout. Heights are in percent above max-live, the peak of live bytes; * means proven optimal.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import multiprocessing
import os
import platform
import resource
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.layout_peers import CONTENDERS, HILL_CLIMB_ITERATIONS

from edgetool.memory.bound import lower_bound
from edgetool.memory.checker import check_layout
from edgetool.memory.instances import read_instance
from edgetool.memory.problem import Layout

OURS = ("edgetool", "edgetool, no numba")
CAPACITY = 1_048_576
# Time limits in seconds: our own goals, and the limits of the other allocators.
SECONDS, PEER_SECONDS = 15.0, 20.0
LONG = 2.0
# The seconds for a synthetic instance, by its size and then by its kind.
SYNTHETIC_SECONDS = {"1k": 5.0, "10k": 5.0, "backbone_10k": 10.0, "100k": 60.0}
QUICK = {"minimalloc": ("A", "C", "E", "K"), "models": ("densenet121", "tiny_kws", "tiny_vww"), "synthetic": ("1k",)}
CLOSED = "ABCEFGHIK"
VERSIONS = ("numba", "ortools", "omnimalloc", "ethos-u-vela")


@dataclass(frozen=True, slots=True)
class Measured:
    """One allocator on one instance: height in bytes (None: no layout), CPU seconds, and its peak memory."""

    height: int | None = None
    bound: int = 0
    buffers: int = 0
    proof: str = ""
    seconds: float = 0.0
    first_seconds: float = 0.0
    peak_bytes: int = 0
    failure: str = ""

    @property
    def above(self) -> float:
        """The height above the bound, in percent."""
        return 0.0 if self.height is None or not self.bound else 100 * (self.height / self.bound - 1)


def measure(name: str, path: Path, capacity: int | None, seconds: float, runs: int) -> Measured:
    """Run an allocator in this process, and check its layout."""
    problem = read_instance(path.read_text(encoding="utf-8")).problem
    bound = lower_bound(problem)
    taken: list[float] = []
    while len(taken) < runs and not (taken and taken[0] > LONG):
        begun = _cpu_seconds()
        try:
            answer = CONTENDERS[name](problem, capacity, seconds)
        except (ImportError, FileNotFoundError) as error:
            return Measured(failure=f"skipped: {error}")
        except Exception as error:
            return Measured(failure=f"failed: {type(error).__name__}: {error}")
        taken.append(_cpu_seconds() - begun)
    height = None
    if answer.offsets is not None:
        rows = zip(answer.offsets, problem.buffers, strict=True)
        height = max(offset + b.aligned_bytes for offset, b in rows)
        if wrong := check_layout(problem, Layout(answer.offsets, height, 0, "none")):
            return Measured(failure=f"wrong: {wrong[0].message}")
        if capacity is not None and height > capacity:
            height = None
    return Measured(
        height=height,
        bound=bound,
        buffers=len(problem.buffers),
        proof=answer.proof or ("proven" if answer.proven else ""),
        seconds=statistics.median(taken),
        first_seconds=taken[0],
        peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def measure_separately(name: str, path: Path, capacity: int | None, seconds: float, runs: int) -> Measured:
    """Run measure() in a separate process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, name, path, capacity, seconds, runs).result()


def minimalloc(paths: Sequence[Path], names: Sequence[str], capacity: int | None, runs: int) -> None:
    """Print a table of CPU seconds and, without a capacity, one of heights."""
    columns: dict[str, list[Measured]] = {}
    for name in names:
        seconds = SECONDS if name in OURS else PEER_SECONDS
        column = columns[name] = []
        for path in paths:
            column.append(measure_separately(name, path, capacity, seconds, runs))
            if column[-1].failure.startswith("skipped"):
                print(f"{name} {column[-1].failure}\n")
                del columns[name]
                break
    if capacity is None:
        print("Percent above max-live, and in brackets the bytes where the height is not proven:\n")
        rows = [
            [_letter(path), *(_height_cell(column[i]) for column in columns.values())] for i, path in enumerate(paths)
        ]
        _table(["", *columns], rows)
        print("CPU seconds:\n")
    rows = [[_letter(path), *(_seconds_cell(column[i]) for column in columns.values())] for i, path in enumerate(paths)]
    rows.append(["all", *(_total([m.seconds for m in column]) for column in columns.values())])
    rows.append(["all, first", *(_total([m.first_seconds for m in column]) for column in columns.values())])
    if capacity is None:
        closed = [i for i, path in enumerate(paths) if _letter(path) in CLOSED]
        rows.append(["the closed", *(_total([column[i].seconds for i in closed]) for column in columns.values())])
        rows.append(
            ["the closed, first", *(_total([column[i].first_seconds for i in closed]) for column in columns.values())]
        )
    _table(["", *columns], rows)


def models(paths: Sequence[Path], runs: int) -> None:
    """Print the time to the proof for each real model, and the height of TFLM's own planner."""
    rows = []
    for path in paths:
        ours, plain, tflm = (measure_separately(name, path, None, SECONDS, 5 * runs) for name in (*OURS, "TFLM greedy"))
        above = 100 * (tflm.height / ours.height - 1) if tflm.height and ours.height else 0.0
        cells = [f"{1e3 * m.seconds:.1f}" for m in (ours, plain)] + [f"{1e3 * plain.first_seconds:.1f}"]
        rows.append([path.stem, f"{ours.buffers}", f"{ours.height:,}", ours.proof or "none", *cells, f"+{above:.1f} %"])
    _table(["", "buffers", "bytes", "proof", "ms", "ms, no numba", "ms, no numba, first", "TFLM greedy"], rows)


def synthetic(paths: Sequence[Path]) -> None:
    """Print how close large instances come to the bound within their time limits."""
    rows = []
    for path in paths:
        seconds = SYNTHETIC_SECONDS.get(path.stem) or SYNTHETIC_SECONDS[path.stem.rpartition("_")[2]]
        for name in OURS:
            m = measure_separately(name, path, None, seconds, 1)
            cells = [m.failure, "", ""]
            if m.height is not None:
                cells = [f"{m.height:,}", f"{m.bound:,}", f"{m.above:.3f} %"]
            cells += [m.proof or "none", f"{m.seconds:.1f} of {seconds:g}", f"{m.peak_bytes / 2**20:.0f}"]
            rows.append([path.stem, name, *cells])
    _table(["", "", "bytes", "bound", "above", "proof", "CPU seconds", "peak MiB"], rows)


def _cpu_seconds() -> float:
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def _letter(path: Path) -> str:
    return path.name.partition(".")[0]


def _total(seconds: Sequence[float]) -> str:
    return f"{sum(seconds):.2f}"


def _seconds_cell(m: Measured) -> str:
    if m.failure:
        return m.failure[:60]
    return f"{m.seconds:.3f}" + ("" if m.height is not None else " (none)")


def _height_cell(m: Measured) -> str:
    if m.failure or m.height is None:
        return m.failure[:60] or "none"
    return f"{m.above:.1f}{'*' if m.proof and m.proof != 'none' else f' ({m.height:,})'}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print("|" + "|".join(header) + "|")
    print("|" + "|".join("-" for _ in header) + "|")
    for row in rows:
        print("|" + "|".join(row) + "|")
    print(flush=True)


def _machine() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    processor = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    versions = [f"Python {platform.python_version()}"]
    for package in VERSIONS:
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"no {package}")
    return (
        f"{time.strftime('%Y-%m-%d')}, {processor or platform.machine()}, {os.cpu_count()} cores; {', '.join(versions)}"
    )


def _paths(data: Path, folder: str, quick: bool) -> list[Path]:
    """Return the measured instances of a folder, small ones first."""
    found = [path for path in (data / "layout" / folder).glob("*.csv") if _letter(path) != "input"]
    if quick:
        found = [path for path in found if any(_letter(path).endswith(name) for name in QUICK[folder])]
    size = ("1k", "10k", "100k")
    tail = {path: path.stem.rpartition("_")[2] for path in found}
    return sorted(found, key=lambda path: (size.index(tail[path]) if tail[path] in size else 0, path.name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--quick", action="store_true", help="a few instances, without the peers that take 20 s")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=("capacity", "minimise", "models", "synthetic"))
    arguments = parser.parse_args()
    wanted = arguments.only or ("capacity", "minimise", "models", "synthetic")
    print(f"{_machine()}; HillClimb with {HILL_CLIMB_ITERATIONS:,} iterations\n")
    challenging = _paths(arguments.data, "minimalloc", arguments.quick)
    if "capacity" in wanted:
        print(f"## MiniMalloc's instances at a capacity of {CAPACITY:,}\n\nCPU seconds:\n")
        minimalloc(challenging, (*OURS, "MiniMalloc"), CAPACITY, arguments.runs)
    if "minimise" in wanted:
        print("## MiniMalloc's instances, minimised\n")
        names = [name for name in CONTENDERS if not (arguments.quick and name == "CP-SAT pairwise")]
        minimalloc(challenging, names, None, arguments.runs)
    if "models" in wanted:
        print("## Real models\n")
        models(_paths(arguments.data, "models", arguments.quick), arguments.runs)
    if "synthetic" in wanted:
        print("## Synthetic\n")
        synthetic(_paths(arguments.data, "synthetic", arguments.quick))


if __name__ == "__main__":
    main()
