"""Converts a network through each door, and runs the file on real TFLM."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from edgetool.convert.quality import compare_outputs
from edgetool.convert.request import ConvertRequest
from edgetool.errors import EdgetoolError
from edgetool.execute.quantize import dequantize, quantize
from edgetool.execute.run import run_model
from edgetool.memory.planner import PlanRequest
from edgetool.pipeline.convert import LegalizedConversion, convert_for
from edgetool.pipeline.plan import plan_model
from edgetool.pipeline.targets import resolve_named

TARGET = "cortex-m7"
# Enough for an optimal plan of most networks on a busy machine; the others have the same time.
PLAN_SECONDS = 60.0
# How the model reaches edgetool, and the suffixes of the model and of its samples.
DOORS = {
    "keras": (".keras", ".keras.npy"),
    "pytorch": (".pt2", ".npy"),
    "onnx": (".onnx", ".npy"),
    "tflite": (".tflite", ".keras.npy"),
}
RESULTS = Path(__file__).with_name("results.csv")


@dataclass(frozen=True, slots=True)
class Result:
    """What a door made of a network.

    outcome: "runs" on TFLM, or the error of the conversion. transposes: operators that move data (TRANSPOSE).
    arena_bytes: of the planned model. sqnr_db: of the worst output on TFLM, against the original framework's.
    """

    network: str
    door: str
    outcome: str
    operators: int = 0
    transposes: int = 0
    arena_bytes: int = 0
    sqnr_db: float = 0.0

    @property
    def runs(self) -> bool:
        return self.outcome == "runs"


def convert(name: str, door: str, folder: Path) -> Result:
    """Convert a model that build.py wrote, calibrate it on its samples, and run it on them."""
    device = resolve_named(TARGET)
    assert device is not None
    model, samples = DOORS[door]
    request = ConvertRequest(folder / f"{name}{model}", calibration=folder / f"{name}{samples}")
    with tempfile.TemporaryDirectory() as work:
        workdir = Path(work)
        try:
            made = convert_for(request, device.runtime, name=name, workdir=workdir, kernels=device.kernels)
        except EdgetoolError as error:
            return Result(name, door, " | ".join((str(error), *error.details)).replace(f"{folder}/", ""))
        converted, planned = workdir / "model.tflite", workdir / "planned.tflite"
        converted.write_bytes(made.conversion.tflite)
        report = plan_model(converted, device, request=PlanRequest(time_limit=PLAN_SECONDS), output=planned)
        assert report.arena is not None
        codes = [operator.code for graph in made.model.subgraphs for operator in graph.operators]
        return Result(
            name,
            door,
            "runs",
            len(codes),
            codes.count("TRANSPOSE"),
            report.arena.bytes,
            round(_sqnr_db(planned.read_bytes(), made), 1),
        )


def _sqnr_db(content: bytes, made: LegalizedConversion) -> float:
    """Return the SQNR of the worst output on TFLM; infinite if all are equal to the original's."""
    graph = made.model.main
    tensors = [graph.tensors[index] for index in graph.inputs]
    raw = [
        quantize(np.reshape(array, (len(array), *tensor.shape)), tensor.quantization, tensor.dtype)
        for array, tensor in zip(made.conversion.inputs, tensors, strict=True)
    ]
    results = run_model(content, raw, engine="tflm")
    ratios = []
    for index, result, expected in zip(graph.outputs, results, made.conversion.float_outputs, strict=True):
        actual = np.reshape(dequantize(result, graph.tensors[index].quantization), expected.shape)
        ratio = compare_outputs([expected], [actual])[0].sqnr_db
        ratios.append(np.inf if ratio is None else ratio)
    return float(min(ratios))


def read_rows(path: Path, kind: type[Any]) -> list[Any]:
    """Return the rows of a CSV as dataclasses."""
    if not path.exists():
        return []
    types = {field.name: {"int": int, "float": float}.get(str(field.type), str) for field in fields(kind)}
    with path.open(newline="") as file:
        return [kind(**{key: types[key](text) for key, text in row.items()}) for row in csv.DictReader(file)]


def write_rows(path: Path, kind: type[Any], rows: Iterable[Any]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(kind)])
        writer.writerows(astuple(row) for row in rows)


def replaced(rows: Sequence[Any], new: Any, order: Sequence[str]) -> list[Any]:
    """Return the rows with that of the same network and door replaced, in the order of the networks and doors."""
    kept = [row for row in rows if (row.network, row.door) != (new.network, new.door)]
    return sorted([*kept, new], key=lambda row: (order.index(row.network), list(DOORS).index(row.door)))
