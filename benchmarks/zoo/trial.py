"""Converts a model of the zoo as a user does, and runs the file on real TFLM and on LiteRT's reference kernels."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from benchmarks.plan_soundness import judge
from benchmarks.zoo.entry import Entry
from benchmarks.zoo.files import calibration
from benchmarks.zoo.rounding import MARGIN_DB

from edgetool.convert.quality import compare_outputs
from edgetool.convert.request import ConvertRequest
from edgetool.errors import EdgetoolError, UnsupportedModelError
from edgetool.execute.quantize import dequantize, quantize
from edgetool.execute.run import RunEngine, run_model
from edgetool.memory.planner import PlanRequest
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.pipeline.convert import convert_for
from edgetool.pipeline.plan import plan_model
from edgetool.pipeline.targets import resolve_named

Array = npt.NDArray[Any]
TARGET = "cortex-m7"
CONVERTED, PLANNED = "model.tflite", "planned.tflite"
PLAN_SECONDS = 2.0
# LiteRT's reference kernels add up int8 wrongly (SUM); its default ones round otherwise: TFLM is to be like either.
ENGINES: tuple[RunEngine, ...] = ("tflm", "litert-reference", "litert")
# How much further from Keras than LiteRT the rounding of other kernels may take TFLM.
KERNEL_DB = 2.0


@dataclass(frozen=True, slots=True)
class Output:
    """One output, against Keras. sqnr_db: on TFLM, None where both are equal or Keras's is all zero. allowed_db: what
    the step to int8 allows. litert_db: on the better of LiteRT's two sets of kernels. same: equal to one to the bit."""

    name: str
    sqnr_db: float | None
    allowed_db: float | None
    litert_db: float | None
    same: bool

    @property
    def good(self) -> bool:
        """Whether it keeps to what is allowed."""
        return self.sqnr_db is None or self.allowed_db is None or self.sqnr_db >= self.allowed_db

    @property
    def like_litert(self) -> bool:
        """Whether TFLM is as near to Keras as LiteRT is, or nearer than int8 allows to expect.

        Their kernels round halves differently, and where such a step goes through a steep function it grows: to demand
        equal bits would refuse sound kernels. A kernel that ignores a scale is far off in one of them alone.
        """
        if self.same or self.sqnr_db is None or self.litert_db is None:
            return True
        expected = self.litert_db if self.allowed_db is None else min(self.litert_db, self.allowed_db + MARGIN_DB)
        return self.sqnr_db >= expected - KERNEL_DB


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of a model: its outputs on TFLM, or the refusal, one line. unsound: plans of it, with outputs that
    overlap inputs or in stripes, that change an output, or whose account is not exact.
    """

    entry: Entry
    outputs: tuple[Output, ...] = ()
    refusal: str | None = None
    operators: int = 0
    model_bytes: int = 0
    arena_bytes: int | None = None
    notes: tuple[str, ...] = ()
    unsound: tuple[str, ...] = ()

    @property
    def worst(self) -> Output:
        """The output with the least above what is allowed."""
        return min(self.outputs, key=lambda o: (o.sqnr_db or 999.0) - (o.allowed_db or 0.0))


def try_out(entry: Entry, folder: Path, rounded: Mapping[str, float | None], target: str = TARGET) -> Trial:
    """Convert what files.write left in `folder`, run it, compare. rounded: of rounding.rounded_sqnr.

    A refusal is a result; any other exception is the caller's.
    """
    device = resolve_named(target)
    assert device is not None
    request = ConvertRequest(folder / entry.file_name, calibration=calibration(folder), **entry.options)
    with tempfile.TemporaryDirectory(dir=folder) as workdir:
        try:
            made = convert_for(request, device.runtime, name=entry.name, workdir=Path(workdir), kernels=device.kernels)
        except EdgetoolError as error:
            # Without the path, which holds the entry's name: what the refusal names is to be found in the rest.
            said = " | ".join((str(error), *error.details)).replace(f"{request.path}: ", "")
            return Trial(entry, refusal=said)
        # In memory: the arrays are maps of files in the work directory.
        inputs = [np.array(array) for array in made.conversion.inputs]
    file = folder / CONVERTED
    file.write_bytes(made.conversion.tflite)
    planned = plan_model(
        file, device, request=PlanRequest(time_limit=PLAN_SECONDS), output=folder / PLANNED, force=True
    )
    unsound = judge([(entry.name, read_model(made.conversion.tflite))], Counter()) if hasattr(os, "fork") else []
    with np.load(folder / "expected.npz") as stored:
        expected = dict(stored)
    return Trial(
        entry,
        outputs=_compared((folder / PLANNED).read_bytes(), inputs, expected, rounded),
        operators=sum(len(graph.operators) for graph in made.model.subgraphs),
        model_bytes=file.stat().st_size,
        arena_bytes=planned.arena.bytes if planned.arena else None,
        notes=made.conversion.notes,
        unsound=tuple(unsound),
    )


def _compared(
    blob: bytes, inputs: Sequence[Array], expected: Mapping[str, Array], rounded: Mapping[str, float | None]
) -> tuple[Output, ...]:
    """Each output of the file for the inputs, one array per graph input, against what Keras gives."""
    model = read_model(blob)
    graph = model.main
    raw = [
        quantize(np.reshape(array, (len(array), *tensor.shape)), tensor.quantization, tensor.dtype)
        for array, tensor in zip(inputs, (graph.tensors[index] for index in graph.inputs), strict=True)
    ]
    runs = {engine: run for engine in ENGINES if (run := _run(blob, raw, engine)) is not None}
    names = {_plain(name): name for name in expected}
    outputs = []
    for position, index in enumerate(graph.outputs):
        name = _name(names, model, index)
        wanted, scale = expected[name], graph.tensors[index].quantization
        ratios = {
            engine: compare_outputs([wanted], [np.reshape(dequantize(run[position], scale), wanted.shape)])[0].sqnr_db
            for engine, run in runs.items()
        }
        same = any(
            np.array_equal(runs["tflm"][position], run[position]) for name, run in runs.items() if name != "tflm"
        )
        litert = max((ratio or np.inf for engine, ratio in ratios.items() if engine != "tflm"), default=None)
        bound = rounded[name]
        allowed = None if bound is None else bound - MARGIN_DB
        outputs.append(Output(name, ratios["tflm"], allowed, litert, same))
    return tuple(sorted(outputs, key=lambda output: output.name))


def _run(blob: bytes, raw: Sequence[Array], engine: RunEngine) -> tuple[Array, ...] | None:
    """The outputs; None where LiteRT lacks an operator (its reference kernels have no ELU), which TFLM must not."""
    try:
        return run_model(blob, raw, engine=engine)
    except UnsupportedModelError:
        if engine == "tflm":
            raise
        return None


def _name(names: Mapping[str, str], model: Model, index: int) -> str:
    """The name of a graph output among those given, named by the signature; the only one needs no name."""
    if len(names) == 1:
        return next(iter(names.values()))
    return names[_plain(model.argument_name(0, index) or "")]


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", name)
