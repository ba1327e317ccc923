"""How long LiteRT takes for a model on this machine."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from edgetool.child import Progress
from edgetool.figure import in_text
from edgetool.pipeline.source import Source
from edgetool.target.types import Target

if TYPE_CHECKING:
    from edgetool.execute.benchmark import Benchmark

# What Python calls processors, by the ISA of a core's profile.
MACHINES = {"x86-64": ("x86_64", "amd64"), "armv8-a": ("aarch64",)}
SEED = 0


def benchmark(source: Source, runs: int, *, progress: Progress | None = None) -> Benchmark:
    """Time LiteRT on one random input, the same every time. Raises as benchmark_litert does."""
    from edgetool.execute.benchmark import benchmark_litert  # they bring numpy, which an estimate does not need
    from edgetool.execute.quantize import random_inputs

    inputs = tuple(array[0] for array in random_inputs(source.model, 1, SEED))
    return benchmark_litert(source.blob, inputs, runs, progress=progress)


def stands_for(target: Target) -> bool:
    """Whether a time here is one of the target: a processor of this machine's kind, of which no kernels are estimated.

    LiteRT's kernels are not TFLM's: against an estimate of those its time would say nothing, even on one processor.
    """
    same = platform.machine().lower() in MACHINES.get(target.core.isa, ())
    return same and target.bandwidth_gbps is not None


def benchmark_source(timed: Benchmark, target: Target) -> str:
    """Where the milliseconds come from, in a line; and that this machine is taken for the target, where it is."""
    spread = f"minimum {in_text(timed.least_ms)} ms, 90th percentile {in_text(timed.p90_ms)} ms"
    taken = f"; assuming that this machine is the {target.board}" if stands_for(target) else ""
    return f"LiteRT on this machine, {timed.runs:,} run{'' if timed.runs == 1 else 's'}, one thread: {spread}{taken}"
