"""Reads what a model is trained on: an .npz of inputs and, mostly, of what the outputs should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgetool.convert.calibration import find_labels, from_arrays
from edgetool.convert.numpy_files import load_npz
from edgetool.convert.samples import Array, InputSpec, Normalisation, SampleSet, prepared
from edgetool.errors import CalibrationError

SAVE = "save it with numpy.savez(x=, y=)"


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """A model output: its name and the shape of one sample (without batch), None where it is not fixed."""

    name: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class TrainingData:
    """inputs: per input, (N, ...), as the model takes them. targets: (N, ...) as the file has them, or the input that
    is to be reproduced. output: the index of the output that they are for. reproduces: whether the file has no y."""

    inputs: tuple[Array, ...]
    targets: Array
    output: int
    reproduces: bool
    notes: tuple[str, ...]


def read_training_data(
    path: Path, specs: Sequence[InputSpec], outputs: Sequence[OutputSpec], normalisation: Normalisation | None
) -> TrainingData:
    """The content of an .npz for a model with these inputs and outputs. CalibrationError says what is wrong and where.

    All of it is held in memory, since it is read in another order in every epoch.
    """
    if path.suffix.lower() != ".npz":
        raise CalibrationError(
            "training data must be an .npz file with x and y", where=str(path), fix="use numpy.savez"
        )
    arrays = load_npz(path)
    found = find_labels(path, arrays, specs, [output.name for output in outputs])
    labels = None if found is None else arrays.pop(found[0])
    samples = from_arrays(path, arrays, specs)
    inputs = _stacked(samples, specs, normalisation)
    if found is None or labels is None:
        if len(specs) != 1 or specs[0].shape != outputs[0].shape or not specs[0].is_float:
            raise CalibrationError("has no labels: there is no array named 'y'", where=str(path), fix=SAVE)
        note = f"{path.name} has no array y: {outputs[0].name} was trained to reproduce {specs[0].name}"
        return TrainingData(inputs, inputs[0], 0, reproduces=True, notes=(*samples.notes, note))
    name, output = found
    if labels.dtype.kind not in "fiub" or labels.ndim < 1 or len(labels) != samples.count:
        raise CalibrationError(
            f"has labels {name} of shape {labels.shape} and type {labels.dtype} for {samples.count} samples",
            where=str(path),
            fix=f"{name} must contain one number, or one array of the output's shape, per sample",
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise CalibrationError("has labels that are NaN or infinite", where=str(path), fix=f"correct {name}")
    return TrainingData(inputs, labels, output, reproduces=False, notes=samples.notes)


def _stacked(samples: SampleSet, specs: Sequence[InputSpec], normalisation: Normalisation | None) -> tuple[Array, ...]:
    if samples.count == 0:
        raise CalibrationError("contains no samples", where=samples.where(0), fix="provide at least one")
    stacked = [np.empty((samples.count, *spec.shape), np.dtype(spec.dtype)) for spec in specs]
    for index in range(samples.count):
        for values, spec, target in zip(samples.get(index), specs, stacked, strict=True):
            target[index] = prepared(values, spec, normalisation, samples.where(index))
    return tuple(stacked)
