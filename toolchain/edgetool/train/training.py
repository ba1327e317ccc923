"""Run a user's builder, or prune and fine-tune a model, in a child process. This is the code of the parent process."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgetool import child
from edgetool.convert.convert import check_exists, run_on_model
from edgetool.convert.request import NORMALISATION, PRUNING_METHODS, BuilderArgument, check_normalisation
from edgetool.errors import CalibrationError, UsageError

WORKER = "edgetool.train.training_worker"
MAX_EPOCHS = 100_000


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """A call of the user's function, which returns a Keras model. The code is run, so the user must trust it.

    source: the .py file. function: the name of the function in it. files: files and directories that the module imports
    or reads by name; they are beside it when it runs. seed: that of the initial weights.

    Raises UsageError for parameters of other types.
    """

    source: Path
    function: str
    files: tuple[Path, ...] = ()
    parameters: Mapping[str, BuilderArgument] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        _check_seed(self.seed)
        for name, value in self.parameters.items():
            if not isinstance(value, int | float | str) or (isinstance(value, float) and not math.isfinite(value)):
                raise UsageError(
                    f"{value!r} is not a valid builder parameter",
                    where=name,
                    fix="use a number, a string, true or false",
                )


@dataclass(frozen=True, slots=True)
class FineTuneRequest:
    """How to fine-tune a pruned model with Adam.

    data: an .npz file with x (or one array per input name) and y: class indices, rows of class probabilities, or
        numbers in the output's shape; y_NAME for the output NAME. Without y, a model whose output has the shape of its
        input is trained to reproduce the input.
    loss: the name of a Keras loss; None for the one that follows from output and labels.
    mean, std, scale, offset: as in ConvertRequest.

    Raises UsageError for invalid numbers.
    """

    data: Path
    epochs: int = 1
    learning_rate: float = 1e-3
    batch_size: int = 32
    loss: str | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    offset: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.epochs <= MAX_EPOCHS:
            raise UsageError(f"{self.epochs} is not between 1 and {MAX_EPOCHS:,}", where="epochs", fix="try 3")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise UsageError(f"{self.learning_rate:g} is not greater than 0", where="learning_rate", fix="try 0.001")
        if self.batch_size < 1:
            raise UsageError(f"{self.batch_size} is less than 1", where="batch_size", fix="try 32")
        check_normalisation(self.mean, self.std, self.scale, self.offset)


@dataclass(frozen=True, slots=True)
class PruneRequest:
    """Channels to remove from a model.

    path: an .h5 or .keras file. level: the fraction of channels to remove, from 0 to less than 1. method: how they are
    ranked. exclude: names or patterns of layers that keep their channels. allow_missing: only note a name or pattern
    that no layer matches. fine_tune: None for no fine-tuning.

    Raises UsageError for an invalid level or method.
    """

    path: Path
    level: float
    method: str = PRUNING_METHODS[0]
    exclude: tuple[str, ...] = ()
    allow_missing: bool = False
    fine_tune: FineTuneRequest | None = None
    seed: int = 0
    trust_model_code: bool = False

    def __post_init__(self) -> None:
        _check_seed(self.seed)
        if not 0 <= self.level < 1:  # also rejects NaN
            raise UsageError(
                f"{self.level:g} is not in the range 0 to less than 1",
                where="level",
                fix="0.5 removes half of the channels",
            )
        if self.method not in PRUNING_METHODS:
            raise UsageError(
                f"unknown method {self.method!r}", where="method", fix=f"use {' or '.join(PRUNING_METHODS)}"
            )


@dataclass(frozen=True, slots=True)
class Trained:
    """A model that was built, or pruned and fine-tuned.

    path: a .keras file in the work directory; the same request results in the same bytes. parameters: the number of
    parameters; original_parameters: before pruning. removed: the number of output channels that each layer lost.
    left_alone: layers that could not be pruned, each with the reason. notes: for the user, one sentence each. history:
    the mean loss of each epoch. versions: those of python, tensorflow and keras.
    """

    path: Path
    parameters: int
    original_parameters: int
    removed: Mapping[str, int]
    left_alone: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    history: tuple[float, ...]
    versions: Mapping[str, str]


def build_model(
    request: BuildRequest, *, workdir: Path, limits: child.ProcessLimits, progress: child.Progress | None = None
) -> Trained:
    """Run the user's function in a child process and save the model that it returns. `workdir` is an empty directory.

    The caller must have asked the user whether the code is trusted.

    Raises UsageError (a missing file or function, parameters that the function does not accept), MissingExtraError,
    OutputError, UnsupportedModelError naming file and line if the function fails or does not return a model, or
    ConversionError if the process dies or runs out of time.
    """
    for path in (request.source, *request.files):
        check_exists(path, UsageError, "check the path of the builder's files")
    message = {
        "kind": "build",
        "source": str(request.source),
        "function": request.function,
        "files": [str(path) for path in request.files],
        "parameters": dict(request.parameters),
        "seed": request.seed,
        "trust_model_code": True,
    }
    advice = f"run {request.function} on its own to see what it does"
    return _trained(message, request.source, "building the model", advice, workdir, limits, progress)


def prune_model(
    request: PruneRequest, *, workdir: Path, limits: child.ProcessLimits, progress: child.Progress | None = None
) -> Trained:
    """Remove channels in a child process, fine-tune if requested, and save. `workdir` is an empty directory.

    Raises UsageError (a missing file, an unknown loss), CalibrationError, MissingExtraError, OutputError,
    InvalidModelError, UnsupportedModelError, or ConversionError if training diverges or the process dies or runs out of
    time.
    """
    check_exists(request.path, UsageError, "check the path of the model")
    if request.fine_tune is not None:
        check_exists(request.fine_tune.data, CalibrationError, "check the path of the data")
    message = {
        "kind": "prune",
        "path": str(request.path),
        "level": request.level,
        "method": request.method,
        "exclude": list(request.exclude),
        "allow_missing": request.allow_missing,
        "fine_tune": None if request.fine_tune is None else _fine_tune_message(request.fine_tune),
        "seed": request.seed,
        "trust_model_code": request.trust_model_code,
    }
    advice = "prune or train less, or raise the limits"
    return _trained(message, request.path, "pruning the model", advice, workdir, limits, progress)


def _trained(
    message: Mapping[str, Any],
    path: Path,
    doing: str,
    advice: str,
    workdir: Path,
    limits: child.ProcessLimits,
    progress: child.Progress | None,
) -> Trained:
    result = run_on_model(
        WORKER, message, path, workdir=workdir, limits=limits, doing=doing, advice=advice, progress=progress
    )
    return Trained(
        path=workdir / Path(result["file"]).name,  # inside workdir, whatever the child returns
        parameters=result["parameters"],
        original_parameters=result["original_parameters"],
        removed=result["removed"],
        left_alone=tuple((layer, reason) for layer, reason in result["left_alone"]),
        notes=tuple(result["notes"]),
        history=tuple(result["history"]),
        versions=result["versions"],
    )


def _fine_tune_message(request: FineTuneRequest) -> dict[str, Any]:
    return {
        "data": str(request.data),
        "epochs": request.epochs,
        "learning_rate": request.learning_rate,
        "batch_size": request.batch_size,
        "loss": request.loss,
        "mean": request.mean,
        "std": request.std,
        "scale": request.scale,
        "offset": request.offset,
    }


def fine_tune_request(message: Mapping[str, Any]) -> FineTuneRequest:
    """Return the request from its JSON, in the child."""
    normalisation = {name: None if (value := message[name]) is None else tuple(value) for name in NORMALISATION}
    return FineTuneRequest(**{**message, "data": Path(message["data"]), **normalisation})


def _check_seed(seed: int) -> None:
    if not 0 <= seed < 2**32:  # the range of numpy's and TensorFlow's generators
        raise UsageError(f"{seed} is not in the range 0 to 2^32 - 1", where="seed", fix="use 0")
