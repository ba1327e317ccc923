"""Time a .tflite on LiteRT on this machine, in a child process with limits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool import child, errors
from edgetool.execute import worker

Array = npt.NDArray[Any]

# The first runs have cold caches and kernels that are not prepared yet.
WARM_UP_RUNS = 3
MAX_RUNS = 100_000
DEFAULT_LIMITS = child.ProcessLimits(memory_bytes=4 * 2**30, seconds=600.0)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Milliseconds of one inference over `runs` runs: the median, the minimum and the 90th percentile."""

    runs: int
    median_ms: float
    minimum_ms: float
    p90_ms: float


def benchmark_litert(
    model: bytes,
    inputs: Sequence[Array],
    runs: int,
    *,
    workdir: Path | None = None,
    limits: child.ProcessLimits = DEFAULT_LIMITS,
    progress: child.Progress | None = None,
) -> Benchmark:
    """Time `runs` inferences after a warm-up, on one thread with LiteRT's default kernels.

    inputs: one array per graph input in its own shape and dtype; the same for every run. Only the call of
    Invoke is timed, by the wall clock.

    Raises UsageError for a number of runs outside 1 to MAX_RUNS, and otherwise as run_model does.
    """
    if not 1 <= runs <= MAX_RUNS:
        raise errors.UsageError(f"cannot time {runs:,} runs", fix=f"use 1 to {MAX_RUNS:,} runs")
    with child.work_folder(workdir) as folder:
        (folder / worker.MODEL_NAME).write_bytes(model)
        for index, array in enumerate(inputs):
            np.save(folder / worker.input_name(index), array, allow_pickle=False)
        result = child.run(
            "edgetool.execute.benchmark",
            {"inputs": len(inputs), "runs": runs},
            workdir=folder,
            limits=limits,
            doing="timing the model on LiteRT",
            advice="use fewer runs",
            progress=progress,
        )
    return summarize([nanoseconds / 1e6 for nanoseconds in result["nanoseconds"]])


def summarize(times_ms: Sequence[float]) -> Benchmark:
    """Return the median, minimum and 90th percentile (nearest rank: a measured time) of at least one time."""
    ordered = sorted(times_ms)
    count = len(ordered)
    median = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    return Benchmark(count, median, ordered[0], ordered[-(-9 * count // 10) - 1])


class TimedLiteRt(worker.LiteRt):
    """LiteRT with its default kernels and a clock around Invoke."""

    def __init__(self, model: bytes) -> None:
        super().__init__(model, reference=False)

    def set_inputs(self, arrays: tuple[Array, ...]) -> None:
        """Set the inputs of the runs that follow."""
        for index, array in zip(self._indices, arrays, strict=True):
            self._interpreter.set_tensor(index, array)

    def nanoseconds(self) -> int:
        """Invoke once and return the nanoseconds, at least the clock's resolution."""
        start = time.perf_counter_ns()
        self._interpreter.invoke()
        return max(time.perf_counter_ns() - start, 1)


def work(request: dict[str, Any], workdir: Path, progress: child.Progress) -> dict[str, Any]:
    """Return the nanoseconds of each run of the model in `workdir` on the inputs there; called in the child."""
    model = (workdir / worker.MODEL_NAME).read_bytes()
    arrays = tuple(
        np.load(workdir / worker.input_name(index), allow_pickle=False) for index in range(request["inputs"])
    )
    progress("preparing the model in LiteRT")
    try:
        runner = TimedLiteRt(model)
        runner.set_inputs(arrays)
        for _ in range(WARM_UP_RUNS):
            runner.nanoseconds()
    except (errors.EdgetoolError, MemoryError):
        raise
    except Exception as error:  # the bindings may raise any exception
        raise worker.runtime_error("LiteRT", "run", error, workdir) from error
    progress(f"running the model {request['runs']:,} times in LiteRT")
    return {"nanoseconds": [runner.nanoseconds() for _ in range(request["runs"])]}


if __name__ == "__main__":
    child.serve(work)
