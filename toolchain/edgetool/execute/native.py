"""Run a model's generated C in a child process with limits: on this machine with sanitizers, and on emulated cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetool import child, errors
from edgetool.child.folder import report_disk_full
from edgetool.execute import native_worker
from edgetool.execute.cores import MACHINES
from edgetool.execute.quantize import numpy_dtype
from edgetool.model.types import Tensor

# Sanitizers reserve more address space than any limit on data memory allows.
LIMITS = child.ProcessLimits(memory_bytes=None, seconds=600.0)
# What the arena contains before init: outputs must not depend on it.
FILLS = (0, 0xA5)


@dataclass(frozen=True, slots=True)
class CoreRun:
    """What became of generated code on an emulated core: whether its outputs are those of this machine.

    equal: None if the code did not run, for the reason `why`.
    """

    core: str
    machine: str
    equal: bool | None
    why: str


@dataclass(frozen=True, slots=True)
class NativeRun:
    """The outputs of N invocations in a row on this machine, and what became of the first ones on emulated cores.

    outputs: one array (N, *shape) for each output. core_samples: the number of samples on each core.
    """

    outputs: tuple[npt.NDArray[Any], ...]
    cores: tuple[CoreRun, ...]
    core_samples: int


def run_native(
    files: Mapping[str, bytes],
    inputs: Sequence[npt.NDArray[Any]],
    outputs: Sequence[Tensor],
    *,
    cores: Sequence[str] = (),
    core_samples: int = 1,
    workdir: Path | None = None,
    limits: child.ProcessLimits = LIMITS,
    progress: child.Progress | None = None,
) -> NativeRun:
    """Return the outputs of generated code for N invocations in a row.

    On this machine, the code runs once for each of FILLS, each time on all samples.

    Args:
        files: The generated C files by name, with run.c, which has the function bare_main.
        inputs: One array (N, *shape) for each input, in the tensor's type; a model without inputs is invoked once.
        outputs: The tensors of the outputs.
        cores: The cores of MACHINES on which the code also runs, if their compiler and QEMU are installed.
        core_samples: How many of the samples they run, the first ones.
        workdir: Where the temporary directory is created; None for the system's default.
        limits: The limits of the compilers and of the programs.
        progress: Called with each step.

    Raises:
        MissingExtraError: There is no C compiler.
        ConversionError: The code does not compile, a sanitizer reports an error, a limit is exceeded, or the outputs
            depend on the previous contents of the arena.
    """
    count = len(inputs[0]) if inputs else 1
    core_samples = min(core_samples, count)
    sample_bytes = sum(tensor.size_bytes for tensor in outputs)
    request = {"samples": count, "fills": FILLS, "cores": list(cores), "core_samples": core_samples}
    with child.work_folder(workdir) as folder:
        _write_files(folder, files, inputs, count)
        answer = child.run(
            "edgetool.execute.native_worker",
            request,
            workdir=folder,
            limits=limits,
            doing="running the generated code",
            progress=progress,
        )
        results = [(folder / f"{native_worker.RESULTS}.{fill}").read_bytes() for fill in FILLS]
    if len(results[0]) != sample_bytes * count:
        raise errors.ConversionError(f"the generated code wrote {len(results[0])} bytes of {sample_bytes * count}")
    if len(set(results)) > 1:
        raise errors.ConversionError(
            "the outputs of the generated code depend on what the arena contained before",
            fix="please report this and attach the model",
        )
    runs = tuple(CoreRun(core, MACHINES[core].name, equal, why) for core, (equal, why) in answer["cores"].items())
    rows = np.frombuffer(results[0], np.uint8).reshape(count, sample_bytes)
    return NativeRun(_split(rows, outputs), runs, core_samples)


def _write_files(folder: Path, files: Mapping[str, bytes], inputs: Sequence[npt.NDArray[Any]], count: int) -> None:
    """Write the sources and the samples into the child's folder: all inputs for each invocation."""
    with report_disk_full(folder):
        (folder / native_worker.SOURCES).mkdir()
        for name, data in files.items():
            (folder / native_worker.SOURCES / name).write_bytes(data)
        with (folder / native_worker.SAMPLES).open("wb") as samples:
            samples.write(bytes(native_worker.START.size))
            for sample in range(count):
                for array in inputs:
                    samples.write(np.ascontiguousarray(array[sample]).tobytes())


def _split(rows: npt.NDArray[np.uint8], outputs: Sequence[Tensor]) -> tuple[npt.NDArray[Any], ...]:
    """Return the columns of each output as an array of its type and shape."""
    arrays, start = [], 0
    for tensor in outputs:
        columns = np.ascontiguousarray(rows[:, start : start + tensor.size_bytes])
        arrays.append(columns.view(numpy_dtype(tensor.dtype)).reshape(len(rows), *tensor.shape))
        start += tensor.size_bytes
    return tuple(arrays)
