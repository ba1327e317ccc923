"""Compare plans of rows of random networks with TFLM, bit by bit: their outputs, and each row that they store.

    python -m benchmarks.native rows-bits [--graphs 2000] [--seed 1] [--models FILE...] [--into CSV] [--again]

The networks are those of benchmarks/kernels/random_network.py: convolutions with branches, strides and dilations,
pooling, concatenations, sums, means, dense layers and more. Each has a plan of one kind, in turn. Many of them are one
program, with AddressSanitizer and UndefinedBehaviorSanitizer. Before each call of a kernel, it looks at the rows that
the call reads, and after it at those that it has completed. Number N of a seed is always the same network. The models
of files have the smallest plan, and one with faster kernels whose inputs and outputs are handed over by rows.

Results are added to build/native/rows_bits after each chunk: the command continues where it was interrupted, unless
code has changed since. --again ignores what is there. Random blocks of expansion, depthwise convolution and projection,
of which the first two are one step that computes rows again, are compared anew in each run.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import resource
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import count, islice
from pathlib import Path
from random import Random

from benchmarks.kernels.random_network import random_network
from benchmarks.native.cores import kernels_note
from benchmarks.native.stack import version
from tests.codegen.native import host
from tests.codegen.native.test_networks import aborts, is_computed
from tests.codegen.native.test_recompute import drawn, trial_of
from tests.codegen.native.test_row_plan import Kind, kinds, with_kind

from edgetool.errors import InternalError, UnsupportedModelError
from edgetool.execute.quantize import random_inputs
from edgetool.model.reader import read_model
from edgetool.model.types import Model

MEASURED = Path(__file__).parent / "measured" / "rows_bits.csv"
WORK = host.ROOT / "build" / "native" / "rows_bits"
SOURCES = [host.ROOT / "toolchain" / "edgetool" / name for name in ("codegen/native", "memory/streaming")]
CHUNK = 40
SAMPLES = 3  # random ones; five extreme ones are added
PAIRS = 200
MODEL_SAMPLES = 2  # of a file: all its rows in each sample can be many megabytes
MODEL_KINDS = (Kind(None, fed=False, taken=False), Kind(1.1, fed=True, taken=True))
EQUAL = "equal"
BUILD = host.Build(driver="rows")


@dataclass(frozen=True, slots=True)
class Graph:
    """The result of one network. calls: of kernels. rows: those that calls read and complete, in one inference.

    by_rows: whether operators run row by row together.
    """

    number: int
    kind: str
    result: str
    operators: int
    calls: int
    rows: int
    row_bytes: int
    samples: int
    by_rows: bool


@dataclass(frozen=True, slots=True)
class Row:
    """The results of a kind of plan. rows and row_bytes: those that were compared, in one inference of each network."""

    kind: str
    graphs: int
    equal: int
    by_rows: int
    operators: int
    calls: int
    rows: int
    row_bytes: int
    samples: int
    different: str


def networks(seed: int, first: int) -> Iterator[tuple[int, host.Trial]]:
    """Yield the networks of a seed that native code supports, with their numbers."""
    for number in count(first):
        model = random_network(Random(f"native/rows-bits/{seed}/{number}"))
        trial = _prepared(model, number) if is_computed(model) and not aborts(model) else None
        if trial is not None:
            yield number, trial


def _prepared(model: Model, number: int) -> host.Trial | None:
    """Return a network with its samples; None if the native runtime refuses it, or if its scales exceed float32."""
    try:
        return host.prepare(model, SAMPLES, number, row_wise=True, lean=True)
    except (UnsupportedModelError, OverflowError):
        return None


def compare(trials: Sequence[tuple[int, str, host.Trial]]) -> list[Graph]:
    """Return the results of networks with their plans, each with its number and the kind of its plan."""
    results = host.compare_all([trial for _, _, trial in trials], BUILD)
    return [_graph(*item, result or EQUAL) for item, result in zip(trials, results, strict=True)]


def _graph(number: int, kind: str, trial: host.Trial, result: str) -> Graph:
    assert trial.rows is not None
    stored, (problem, plan) = host.stored_of(trial), trial.rows
    rows = list(stored.rows)
    # Operators take turns if one fires again after another.
    turns = sum(a != b for a, b in zip(plan.schedule, plan.schedule[1:], strict=False))
    return Graph(
        number,
        kind,
        result,
        len(trial.program.graph.operators),
        len(stored.calls),
        len(rows),
        stored.row_bytes,
        trial.count,
        turns >= len(problem.operators),
    )


def summary(graphs: Iterable[Graph]) -> list[Row]:
    """Return the results of each kind of plan."""
    by_kind: dict[str, list[Graph]] = {kind.name: [] for kind in kinds()}
    for graph in graphs:
        by_kind.setdefault(graph.kind, []).append(graph)
    return [
        Row(
            kind,
            len(items),
            sum(item.result == EQUAL for item in items),
            sum(item.by_rows for item in items),
            *(sum(getattr(item, name) for item in items) for name in ("operators", "calls", "rows", "row_bytes")),
            sum(item.samples for item in items),
            " ".join(str(item.number) for item in items if item.result != EQUAL),
        )
        for kind, items in by_kind.items()
    ]


def compare_model(path: Path) -> list[Graph]:
    """Return the results of the plans of a model in a file; their kinds start with its name."""
    blob = path.read_bytes()
    inputs = random_inputs(read_model(blob), MODEL_SAMPLES, 1)
    trial = host.prepare(blob, inputs=inputs, row_wise=True, lean=True)
    found = []
    for number, kind in enumerate(MODEL_KINDS):
        found += compare([(number, f"{path.stem}, {kind.name}", with_kind(trial, kind))])
        print(f"{found[-1].kind}: {found[-1].result}, {_cpu_seconds():.0f} s of CPU", flush=True)
    return found


def compare_pairs(seed: int, count: int) -> list[Graph]:
    """Return the results of random blocks in which two operators are one step, half of them with row input."""
    trials = [
        (number, "pairs of operators" + ", row input" * (number % 2), trial_of(model, fed=number % 2 == 1))
        for number, (_, model) in enumerate(drawn(seed, count))
    ]
    return [graph for first in range(0, count, CHUNK) for graph in compare(trials[first : first + CHUNK])]


def sources_hash() -> str:
    """Return the hash of all files that plans and generated code depend on."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in SOURCES for path in folder.rglob("*.*")):
        if path.suffix in (".py", ".c", ".h"):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def read_work(path: Path) -> list[Graph]:
    """Return the results so far; a line that was not written completely is left out."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        lines = [line for line in csv.reader(file) if len(line) == len(fields(Graph))]
    return [
        Graph(int(number), kind, result, *map(int, numbers), by_rows == "True")
        for number, kind, result, *numbers, by_rows in lines
    ]


def add_work(path: Path, graphs: Iterable[Graph], mode: str = "a") -> None:
    """Add results to those so far; or replace them, with the mode "w"."""
    with path.open(mode, newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(map(astuple, graphs))


def run(wanted: int, seed: int, work: Path) -> list[Graph]:
    """Compare networks until there are results of `wanted`, and return these."""
    graphs = read_work(work)
    work.parent.mkdir(parents=True, exist_ok=True)
    add_work(work, graphs, mode="w")  # without a line that was not written completely
    waiting = networks(seed, graphs[-1].number + 1 if graphs else 0)
    every = kinds()
    while len(graphs) < wanted:
        chunk, found = [], []
        for position, (number, trial) in enumerate(islice(waiting, min(CHUNK, wanted - len(graphs))), len(graphs)):
            kind = every[position % len(every)]
            try:
                chunk.append((number, kind.name, with_kind(trial, kind)))
            except InternalError as error:
                operators = len(trial.program.graph.operators)
                found.append(Graph(number, kind.name, f"no plan: {error}", operators, 0, 0, 0, 0, False))
        found = sorted([*found, *compare(chunk)], key=lambda graph: graph.number)
        add_work(work, found)
        graphs += found
        for graph in found:
            if graph.result != EQUAL:
                print(f"network {graph.number} of seed {seed}, {graph.kind}: {graph.result}", flush=True)
        print(f"{len(graphs)} of {wanted}, {_cpu_seconds():.0f} s of CPU", flush=True)
    return graphs[:wanted]


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(item.ru_utime + item.ru_stime for item in used)


def notes(seed: int, graphs: Sequence[Graph]) -> tuple[str, ...]:
    """Return the conditions of the record."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=host.ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    flags = " ".join([*BUILD.all_flags, BUILD.level])
    return (
        "Plans of rows of random networks on this machine, compared with TFLM's reference kernels: rows_bits.py.",
        "equal: networks with the outputs of TFLM, whose rows are those of TFLM's tensors when a kernel reads them and",
        "when they are complete. by_rows: networks with operators that take turns. rows, row_bytes: those compared in",
        "each inference. The memory may be FACTOR times that of the smallest plan: kernels with scratch memory.",
        f"networks: random_network, numbers 0 to {graphs[-1].number if graphs else 0} of seed {seed}, those supported",
        f"inputs: {SAMPLES} random samples and five extreme ones ({MODEL_SAMPLES} random ones of files), in memory",
        "that was filled with two different bytes before",
        f"commit {commit}; {version(BUILD.compiler)} {flags}; {kernels_note()}",
    )


def write(path: Path, rows: Sequence[Row], conditions: Sequence[str]) -> None:
    """Write the record."""
    with path.open("w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {line}\n" for line in conditions)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(Row)])
        writer.writerows(map(astuple, rows))


def read(path: Path = MEASURED) -> list[Row]:
    """Return the record."""
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.DictReader(line for line in file if not line.startswith("#"))
        texts = {"kind", "different"}
        return [Row(**{key: value if key in texts else int(value) for key, value in line.items()}) for line in lines]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--graphs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--models", nargs="*", type=Path, default=[], metavar="FILE", help="more models to compare")
    parser.add_argument("--into", type=Path, metavar="CSV", help=f"the record, such as {MEASURED.name}")
    parser.add_argument("--again", action="store_true", help="ignore the results so far")
    options = parser.parse_args()
    work = WORK / f"{options.seed}-{sources_hash()}.csv"
    if options.again:
        work.unlink(missing_ok=True)
    graphs = run(options.graphs, options.seed, work)
    rows = summary(
        [
            *graphs,
            *compare_pairs(options.seed, PAIRS),
            *(graph for path in options.models for graph in compare_model(path)),
        ]
    )
    for row in rows:
        print(f"{row.kind:<60} {row.equal:>5} of {row.graphs:>5} equal, {row.rows:>9,} rows")
    if options.into is not None:
        write(options.into, rows, notes(options.seed, graphs))
    return int(any(row.equal < row.graphs for row in rows))
