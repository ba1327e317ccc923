"""Hostile models as native code: lowering refuses them with a reason, or the code runs without a sanitizer's report.

The mutants are made from models of one operator (benchmarks/kernels/cases) and from small networks: flipped bits,
hostile words, and changes of tables that are then written again (options, shapes, quantization, constants, wiring). Of
those that the reader and TFLM's rules accept:

- lowering, planning and writing raise UnsupportedModelError or nothing, in bounded time and memory;
- what is written compiles, and runs on random and extreme inputs under ASan and UBSan, each output the same whatever
  the arena contained before.

    python -m benchmarks.native.fuzz --mutants 20000 [--seed 1] [--first 0]

Number N of a seed is always the same file. Exits with 1 if there are findings.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType

from benchmarks.kernels.cases import Case, generators
from tests.codegen.native import host
from tests.codegen.native.models import MODELS
from tests.model import builders
from tests.model.mutants import damaged, structure
from tests.model.structural_mutants import restructured

from edgetool.codegen.native.lower import lower, lowering_of
from edgetool.codegen.native.plan import place_buffers
from edgetool.errors import ModelError, UnsupportedModelError
from edgetool.model.flatbuffer import Record, read_root
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.operators.legality import unsupported_operators
from edgetool.pipeline.targets import NATIVE
from edgetool.target.load import load_runtime

DAMAGED_SHARE = 0.3  # of the mutants; the others are changed in their tables
VARIANTS = 6  # models of each operator and type
SECONDS = 20  # of CPU time for lowering, planning and writing
MAX_BYTES = 6 << 30  # of data
RUN_SECONDS = 120
# Larger models are lowered and written, but not run.
MAX_RUN_BYTES = 1 << 20
MAX_RUN_MACS = 20_000_000
GROUP = 24
BLOCK = 1000  # after which progress is printed


class SlowError(Exception):
    """The time for one model is over."""


@dataclass
class Tally:
    """How many mutants met which end, and what must not be."""

    ends: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)


@cache
def seeds() -> tuple[bytes, ...]:
    """Return the models that mutants are made from, as files."""
    models: list[Model] = [build() for build in (*builders.ALL.values(), *MODELS.values())]
    for code, kind in sorted(generators()):
        if lowering_of(code) is not None:
            models += [Case(code, kind, number).model() for number in range(VARIANTS)]
    return tuple(write_model(model) for model in models)


@cache
def _parts(position: int) -> tuple[list[int], Record]:
    blob = seeds()[position]
    return structure(blob), read_root(blob, "Model", "seed")[0]


def mutant(seed: int, number: int) -> bytes:
    """Return mutant `number` of a seed."""
    generator = random.Random(f"{seed} {number}")
    position = generator.randrange(len(seeds()))
    places, root = _parts(position)
    if generator.random() < DAMAGED_SHARE:
        return damaged(seeds()[position], places, generator)
    return restructured(root, generator)


def judge(blob: bytes, tally: Tally, what: str) -> host.Trial | None:
    """Read, lower, plan and write a file; return it if its code can run here."""
    try:
        model = read_model(blob)
    except ModelError:
        tally.ends["rejected by the reader"] += 1
        return None
    if next(iter(unsupported_operators(model, load_runtime(NATIVE), kernels="reference")), None) is not None:
        tally.ends["rejected by TFLM"] += 1
        return None
    if any(operator.code in ("IF", "WHILE") for operator in model.main.operators):
        tally.ends["control flow"] += 1
        return None
    try:
        with limits(SECONDS, MAX_BYTES):
            program = lower(model)
            memory = place_buffers(program)
            host.model_files("m", host.Trial(blob, program, memory, ()))
            if memory.arena_bytes > MAX_RUN_BYTES or work(program.steps) > MAX_RUN_MACS:
                tally.ends["too large to run"] += 1
                return None
            trial = host.prepare(blob, samples=1, seed=1)
    except UnsupportedModelError:
        tally.ends["refused"] += 1
        return None
    except Exception:
        tally.ends["failed"] += 1
        tally.findings.append(f"{what}: {traceback.format_exc(limit=-4)}")
        return None
    tally.ends["lowered"] += 1
    return trial


def work(steps: Sequence[object]) -> int:
    """Return a bound on the bytes that steps read, per byte that they write."""
    total = 0
    for step in steps:
        inputs = sum(item.row_bytes * item.taps for item in step.inputs)  # type: ignore[attr-defined]
        total += step.rows * step.batches * (step.row_bytes + inputs) * 8  # type: ignore[attr-defined]
    return total


@contextmanager
def limits(seconds: int, data_bytes: int) -> Iterator[None]:
    """Raise SlowError in the block after this CPU time, and MemoryError beyond this memory.

    Programs with sanitizers, which reserve terabytes, must not inherit the limit.
    """

    def stop(_: int, __: FrameType | None) -> None:
        raise SlowError(f"more than {seconds} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    memory = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (data_bytes, memory[1]))
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_DATA, memory)
        signal.signal(signal.SIGVTALRM, before)


def run(trials: Sequence[tuple[str, host.Trial]], tally: Tally) -> None:
    """Compile and run models in groups."""
    host.SECONDS = RUN_SECONDS
    for start in range(0, len(trials), GROUP):
        group = trials[start : start + GROUP]
        with tempfile.TemporaryDirectory() as folder:
            try:
                results = host.run_group([trial for _, trial in group], Path(folder), 0, host.Build())
            except Exception as error:
                results = [f"{type(error).__name__}: {error}"] * len(group)
        for (what, _), result in zip(group, results, strict=True):
            tally.ends["ran" if isinstance(result, bytes) else "failed"] += 1
            if isinstance(result, str):
                tally.findings.append(f"{what}: {result}")


def campaign(first: int, count: int, seed: int) -> Tally:
    """Judge the mutants from `first` on, and run what is lowered."""
    tally = Tally()
    trials = []
    for number in range(first, first + count):
        what = f"mutant {number} of seed {seed}"
        trial = judge(mutant(seed, number), tally, what)
        if trial is not None:
            trials.append((what, trial))
        if len(trials) == GROUP:
            run(trials, tally)
            trials.clear()
    run(trials, tally)
    return tally


def main(arguments: Sequence[str]) -> int:
    """Run a campaign and print its numbers; return 1 if there are findings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    ends: Counter[str] = Counter()
    findings = 0
    last = options.first + options.mutants
    for first in range(options.first, last, BLOCK):
        tally = campaign(first, min(BLOCK, last - first), options.seed)
        ends += tally.ends
        findings += len(tally.findings)
        print(*tally.findings, f"{first + BLOCK:,} of {last:,}", sep="\n", flush=True)
    for end, count in ends.most_common():
        print(f"{count:8,}  {end}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
