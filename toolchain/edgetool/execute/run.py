"""Run a .tflite on LiteRT or on TensorFlow Lite Micro, in a child process with limits.

It parses what TFLM's recording allocator prints about an arena, and knows the versions of the tflite-micro wheel with
which the profile of TFLM was tested.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from edgetool import child, errors
from edgetool.execute import worker
from edgetool.model.types import Model

DISTRIBUTION = "tflite-micro"
# The first and the last nightly build whose arena is what the profile tflm-2026-08 predicts for x86-64; those just
# before differ by a few bytes of their tail. setup.cfg has the same range.
TESTED = ("0.dev20261012203412", "0.dev20261023182759")


def installed_version() -> str | None:
    """Return the version of the installed wheel, None if there is none."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return None


def is_tested(installed: str) -> bool:
    """Return whether a version lies in the tested range."""
    first, last = map(_build_time, TESTED)
    build = _build_time(installed)
    return build is not None and first is not None and last is not None and first <= build <= last


def _build_time(text: str) -> int | None:
    """Return the date and time of a nightly build as a number; None for a version of any other form."""
    match = re.fullmatch(r"0\.dev(\d{14})", text)
    return int(match[1]) if match else None


# The two forms of line that RecordingMicroAllocator::PrintAllocations prints (recording_micro_allocator.cc).
_TOTAL = re.compile(r"Arena allocation (?P<part>total|head|tail) (?P<bytes>\d+) bytes")
_CATEGORY = re.compile(
    r"'(?P<name>[^']+)' used (?P<used>\d+) bytes with alignment overhead "
    r"\(requested (?P<requested>\d+) bytes for (?P<count>\d+) "
)


@dataclass(frozen=True, slots=True)
class RecordedCategory:
    """What TFLM records under one name: bytes with and without alignment padding, and its count.

    It counts allocations; for some names, it counts tensors or operators instead.
    """

    name: str
    used_bytes: int
    requested_bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class TflmAllocation:
    """The bytes that TFLM took from its arena, and those of its tail by category; empty categories are left out."""

    total: int
    head: int
    tail: int
    categories: tuple[RecordedCategory, ...] = ()


def parse_allocations(text: str) -> TflmAllocation:
    """Parse the allocation that TFLM printed, the last one if it printed several.

    Raises MissingExtraError if a figure is missing: another version of the runtime has another format.
    """
    totals = {match["part"]: int(match["bytes"]) for match in _TOTAL.finditer(text)}
    start = text.rfind("Arena allocation total")
    if totals.keys() != {"total", "head", "tail"}:
        raise errors.MissingExtraError(
            "the installed tflite-micro does not report its allocations in a format that edgetool supports",
            fix="pip install 'edgetool[verify]' installs a version that does",
        )
    categories = tuple(
        RecordedCategory(match["name"], int(match["used"]), int(match["requested"]), int(match["count"]))
        for match in _CATEGORY.finditer(text, start)
    )
    return TflmAllocation(totals["total"], totals["head"], totals["tail"], categories)


RunEngine = Literal["litert-reference", "litert", "tflm"]
# Operators that LiteRT's reference kernels do not support (ELU, ROUND), or sum wrongly in integers (SUM).
UNSUPPORTED_BY_REFERENCE = frozenset(["ELU", "ROUND", "SUM"])
DEFAULT_LIMITS = child.ProcessLimits(memory_bytes=4 * 2**30, seconds=600.0)


@dataclass(frozen=True, slots=True)
class TflmRun:
    """The raw outputs of a run on TFLM, as in run_model, and the arena that AllocateTensors used."""

    outputs: tuple[npt.NDArray[Any], ...]
    allocation: TflmAllocation


def litert_engine(model: Model) -> RunEngine:
    """Return LiteRT's reference kernels, or its default kernels if the reference ones do not support the model."""
    codes = {operator.code for graph in model.subgraphs for operator in graph.operators}
    return "litert" if codes & UNSUPPORTED_BY_REFERENCE else "litert-reference"


def run_model(
    model: bytes,
    inputs: Sequence[npt.NDArray[Any]],
    *,
    engine: RunEngine,
    workdir: Path | None = None,
    limits: child.ProcessLimits = DEFAULT_LIMITS,
    progress: child.Progress | None = None,
    arena_bytes: int | None = None,
) -> tuple[npt.NDArray[Any], ...]:
    """Run `model` and return its raw outputs, one array (N, *shape) per graph output, for N invokes in a row.

    inputs: one array (N, *shape) per graph input, in graph order and in the tensor's own dtype.
    engine: LiteRT with reference or with default kernels, or TFLM with reference kernels. LiteRT's
      reference kernels are the ones to compare with: the default ones round differently.
    workdir: where the temporary directory is created, which is always removed; None for the system's default.
    arena_bytes: TFLM's arena, on this 64-bit machine; None for as much as needed.

    Variable tensors start at zero and persist from one invoke to the next.

    Raises MissingExtraError if the runtime is not installed, UsageError if the inputs do not fit the
    model, UnsupportedModelError if the runtime cannot prepare or run it, and ConversionError if
    the child process crashes or exceeds a limit.
    """
    outputs, _ = _run(model, inputs, engine, arena_bytes, workdir, limits, progress)
    return outputs


def run_tflm(
    model: bytes,
    inputs: Sequence[npt.NDArray[Any]],
    *,
    arena_bytes: int | None = None,
    workdir: Path | None = None,
    limits: child.ProcessLimits = DEFAULT_LIMITS,
    progress: child.Progress | None = None,
) -> TflmRun:
    """Run a model on TFLM, as run_model does, and return its outputs and allocation."""
    outputs, allocations = _run(model, inputs, "tflm", arena_bytes, workdir, limits, progress)
    return TflmRun(outputs, parse_allocations(allocations))


def measure_tflm(
    model: bytes,
    *,
    arena_bytes: int | None = None,
    workdir: Path | None = None,
    limits: child.ProcessLimits = DEFAULT_LIMITS,
) -> TflmAllocation:
    """Return what AllocateTensors uses of TFLM's arena on this 64-bit machine, with reference kernels; do not invoke.

    Raises as run_model does.
    """
    _, allocations = _run(model, None, "tflm", arena_bytes, workdir, limits, None)
    return parse_allocations(allocations)


def _run(
    model: bytes,
    inputs: Sequence[npt.NDArray[Any]] | None,
    engine: RunEngine,
    arena_bytes: int | None,
    workdir: Path | None,
    limits: child.ProcessLimits,
    progress: child.Progress | None,
) -> tuple[tuple[npt.NDArray[Any], ...], str]:
    """Return the outputs and what TFLM printed about its arena; without inputs, do not invoke."""
    with child.work_folder(workdir) as folder:
        (folder / worker.MODEL_NAME).write_bytes(model)
        for index, array in enumerate(inputs or ()):
            np.save(folder / worker.input_name(index), array, allow_pickle=False)
        result = child.run(
            "edgetool.execute.worker",
            {
                "engine": engine,
                "inputs": None if inputs is None else len(inputs),
                "arena_bytes": arena_bytes,
            },
            workdir=folder,
            limits=limits,
            doing=f"running the model on {worker.ENGINES[engine][0]}",
            progress=progress,
        )
        outputs = tuple(
            np.load(folder / worker.output_name(index), allow_pickle=False) for index in range(result["outputs"])
        )
        return outputs, result["allocations"] or ""
