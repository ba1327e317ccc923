"""Train a Keras model on labelled samples, reproducibly. In the child process only.

The loss follows from an output and its labels, unless the user names one. The data is an .npz of inputs and, usually,
of the expected outputs.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgetool import child
from edgetool.convert.calibration import find_labels, from_arrays
from edgetool.convert.float_model import FloatModel, explain_keras_error
from edgetool.convert.keras_model import pack_inputs
from edgetool.convert.numpy_files import load_npz
from edgetool.convert.samples import Array, InputSpec, Normalisation, SampleSet, prepare_sample
from edgetool.errors import CalibrationError, ConversionError, UsageError
from edgetool.train.training import FineTuneRequest

SPARSE = "sparse_categorical_crossentropy"
CATEGORICAL = "categorical_crossentropy"
BINARY = "binary_crossentropy"
SQUARED_ERROR = "mean_squared_error"
# Activations after which values are probabilities and not logits.
PROBABILITIES = frozenset(["softmax", "sigmoid"])
ROW_SUM_TOLERANCE = 1e-3
# Members of keras.losses that are not losses.
NOT_LOSSES = frozenset(["get", "serialize", "deserialize"])
# Layers whose output has the values of their input.
PASS_THROUGH = ("Reshape", "Flatten", "Identity", "Dropout", "ActivityRegularization")


@dataclass(frozen=True, slots=True)
class LossChoice:
    """A loss and its targets.

    name: the name of a Keras loss. from_logits: whether the output is before its softmax or sigmoid, if the loss has
    it. targets: class indices, or numbers of the output's shape.
    """

    name: str
    from_logits: bool
    targets: Array


def loss_by_rule(targets: Array, shape: tuple[int | None, ...], activation: str, where: str) -> LossChoice:
    """Choose the loss for targets (N, ...) of an output of this shape (without batch) after this activation.

    Class indices: sparse categorical cross-entropy. Rows of class probabilities: categorical. 0 and 1, or a sigmoid:
    binary. Other numbers: mean squared error. Raises CalibrationError at `where` if they do not fit the output.
    """
    logits = activation not in PROBABILITIES
    whole = targets.dtype.kind in "iub"
    numbers = _as_numbers(targets, shape)
    if numbers is None:
        return LossChoice(SPARSE, logits, class_targets(targets, shape, where))
    in_range = bool((numbers >= 0).all() and (numbers <= 1).all())
    if activation == "sigmoid":
        if whole and not in_range:
            raise CalibrationError(
                "y has labels outside the range 0 to 1", where=where, fix="use 0 or 1 for a sigmoid output"
            )
        return LossChoice(BINARY if in_range else SQUARED_ERROR, False, numbers)
    if numbers[0].size == 1:
        return LossChoice(BINARY if whole and in_range and activation == "linear" else SQUARED_ERROR, logits, numbers)
    rows = in_range and bool((np.abs(numbers.sum(axis=-1) - 1) < ROW_SUM_TOLERANCE).all())
    return LossChoice(CATEGORICAL if rows and activation in ("softmax", "linear") else SQUARED_ERROR, logits, numbers)


def loss_by_name(name: str, targets: Array, shape: tuple[int | None, ...], activation: str, where: str) -> LossChoice:
    """Return the named loss, with targets in its form. Raises CalibrationError if they do not fit."""
    if name.lower().startswith("sparse"):
        class_or_numbers = class_targets(targets, shape, where)
    else:
        numbers = _as_numbers(targets, shape)
        if numbers is None:
            raise CalibrationError(
                f"has labels of shape {targets.shape}, but loss {name} requires {_text(shape)} per sample",
                where=where,
                fix=f"provide labels in the output's shape, or use {SPARSE}",
            )
        class_or_numbers = numbers
    return LossChoice(name, activation not in PROBABILITIES, class_or_numbers)


def check_loss_name(keras: Any, name: str) -> None:
    """Raise UsageError, which lists Keras's losses, for any other name."""
    try:
        known = keras.losses.get(name) is not None
    except (ValueError, TypeError):
        known = False
    if not known:
        names = sorted(
            item for item in dir(keras.losses) if item.islower() and item[0] != "_" and item not in NOT_LOSSES
        )
        raise UsageError(f"Keras has no loss named {name!r}", where="loss", fix=f"use one of {', '.join(names)}")


def keras_loss(keras: Any, loss_choice: LossChoice) -> Any:
    """Return the loss for model.compile."""
    loss = keras.losses.get(loss_choice.name)
    function = getattr(loss, "fn", loss)  # a class of Keras wraps its function
    try:
        takes_logits = "from_logits" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        takes_logits = False
    if not takes_logits:
        return loss
    return lambda expected, actual: function(expected, actual, from_logits=loss_choice.from_logits)


def output_activation(keras: Any, tensor: Any) -> str:
    """Return the activation of a model's output by Keras's name: "softmax", "sigmoid", "linear", ..."""
    while True:
        history = tensor._keras_history
        operation = history.operation
        if isinstance(operation, keras.Model):
            tensor = operation.outputs[history.tensor_index]
            continue
        kind = type(operation).__name__
        if kind in PASS_THROUGH and operation._inbound_nodes[history.node_index].input_tensors:
            tensor = operation._inbound_nodes[history.node_index].input_tensors[0]
            continue
        activation = getattr(operation, "activation", None)
        if activation is None:  # a layer or an operation that is itself an activation
            return kind.lower() if kind.lower() in PROBABILITIES else "linear"
        return str(getattr(activation, "__name__", type(activation).__name__)).lower()


def class_targets(targets: Array, shape: tuple[int | None, ...], where: str) -> Array:
    """Return class indices, (N, ...) without the output's last axis. Raises CalibrationError for other values."""
    *outer, classes = shape or (None,)
    inner = targets[..., 0] if targets.ndim == len(outer) + 2 and targets.shape[-1] == 1 else targets
    if classes is None or classes < 2 or not _fits(inner.shape[1:], tuple(outer)):
        raise CalibrationError(
            f"has labels of shape {targets.shape} for an output of {_text(shape)} per sample",
            where=where,
            fix="use one integer class per sample, or labels in the output's shape (the labels of an output NAME "
            "must be in an array called y_NAME)",
        )
    values = inner.astype(np.float64)
    if not np.array_equal(values, np.floor(values)) or values.min() < 0 or values.max() >= classes:
        raise CalibrationError(
            f"y has labels outside the range 0 to {classes - 1}", where=where, fix="use one integer class per sample"
        )
    return np.asarray(inner.astype(np.int32))


def _as_numbers(targets: Array, shape: tuple[int | None, ...]) -> Any:
    """Return the targets as float32 in the output's shape, (N, ...); None if their shape differs."""
    if targets.ndim == 1 and shape == (1,):
        targets = targets[:, np.newaxis]
    return targets.astype(np.float32) if _fits(targets.shape[1:], shape) else None


def _fits(found: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    return len(found) == len(expected) and all(size in (None, own) for own, size in zip(found, expected, strict=True))


def _text(shape: tuple[int | None, ...]) -> str:
    """ "10 numbers", or "numbers of shape (4, 10)"."""
    return f"{shape[0]} numbers" if len(shape) == 1 else f"numbers of shape {shape}"


SAVE = "save it with numpy.savez(x=, y=)"


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """A model output: its name and the shape of one sample (without batch), None where it is not fixed."""

    name: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class TrainingData:
    """The samples of a training file.

    inputs: per input, (N, ...), prepared for the model. targets: (N, ...) as in the file, or the input to be
    reproduced. output: the index of the output of the targets. reproduces: whether the file has no y.
    """

    inputs: tuple[Array, ...]
    targets: Array
    output: int
    reproduces: bool
    notes: tuple[str, ...]


def read_training_data(
    path: Path, specs: Sequence[InputSpec], outputs: Sequence[OutputSpec], normalisation: Normalisation | None
) -> TrainingData:
    """Read an .npz for a model with these inputs and outputs. Raises CalibrationError for data that does not fit.

    All data is held in memory, because every epoch reads it in another order.
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
            target[index] = prepare_sample(values, spec, normalisation, samples.where(index))
    return tuple(stacked)


@dataclass(frozen=True, slots=True)
class TrainingTask:
    """Data and loss, checked against the model. notes: one sentence each."""

    data: TrainingData
    loss_choice: LossChoice
    notes: tuple[str, ...]


def prepare_training(keras: Any, model: Any, described: FloatModel, request: FineTuneRequest) -> TrainingTask:
    """Read the data and choose the loss, before any long work.

    Raises CalibrationError if data and model do not fit each other, UsageError for an unknown loss.
    """
    if request.loss is not None:
        check_loss_name(keras, request.loss)
    outputs = [
        OutputSpec(name, tuple(tensor.shape[1:]))
        for name, tensor in zip(described.output_names, model.outputs, strict=True)
    ]
    normalisation = Normalisation.of(request.mean, request.std, request.scale, request.offset)
    data = read_training_data(request.data, described.specs, outputs, normalisation)
    shape = outputs[data.output].shape
    activation = output_activation(keras, model.outputs[data.output])
    where = str(request.data)
    if request.loss is not None:
        loss_choice = loss_by_name(request.loss, data.targets, shape, activation, where)
    elif data.reproduces:
        loss_choice = LossChoice(SQUARED_ERROR, False, data.targets)
    else:
        loss_choice = loss_by_rule(data.targets, shape, activation, where)
    notes = [*data.notes, f"fine-tuned with loss {loss_choice.name}"]
    if not model.trainable_variables:
        notes.append("every layer is frozen, so fine-tuning changed nothing")
    return TrainingTask(data, loss_choice, tuple(notes))


def fine_tune(
    keras: Any, model: Any, task: TrainingTask, request: FineTuneRequest, *, seed: int, progress: child.Progress
) -> tuple[float, ...]:
    """Train the model in place and return the mean loss of each epoch.

    The same model, task, request and seed give the same weights if TensorFlow is set to be deterministic.
    Raises ConversionError if the loss or a weight becomes NaN or infinite, or the model cannot be trained.
    """
    head = _single_output_model(keras, model, task)
    head.compile(
        optimizer=keras.optimizers.Adam(request.learning_rate),
        loss=keras_loss(keras, task.loss_choice),
        jit_compile=False,  # XLA would spend seconds compiling what takes seconds to train
    )
    history = []
    for epoch in range(1, request.epochs + 1):
        step = f"epoch {epoch}/{request.epochs}"
        progress(f"fine-tuning: {step}")
        rng = np.random.Generator(np.random.PCG64((seed, epoch)))
        with _explain_errors(task, step):
            loss = _epoch(head, task, request.batch_size, rng)
        if not (math.isfinite(loss) and all(np.isfinite(weights).all() for weights in model.get_weights())):
            what = "a weight is not finite" if math.isfinite(loss) else f"the loss is {loss:g}"
            raise ConversionError(
                f"fine-tuning diverged in {step}: {what} with learning_rate {request.learning_rate:g}",
                fix="lower learning_rate",
            )
        history.append(loss)
    return tuple(history)


def _single_output_model(keras: Any, model: Any, task: TrainingTask) -> Any:
    """Return the model with the trained output only, for batches of any size; it shares all layers."""
    if all(tensor.shape[0] is None for tensor in model.inputs):
        return keras.Model(model.inputs, model.outputs[task.data.output])
    inputs = [keras.Input(tensor.shape[1:], dtype=tensor.dtype) for tensor in model.inputs]
    with _explain_errors(task, "its batch size is fixed"):
        outputs = keras.tree.flatten(model(pack_inputs(keras, model, inputs)))
    return keras.Model(inputs, outputs[task.data.output])


def _epoch(head: Any, task: TrainingTask, batch_size: int, rng: np.random.Generator) -> float:
    """Train on every sample once in random order; return the mean loss, or the first loss that is not finite."""
    order = rng.permutation(len(task.data.targets))
    head.reset_metrics()
    loss = math.nan
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        inputs = [array[rows] for array in task.data.inputs]
        loss = float(head.train_on_batch(inputs, task.loss_choice.targets[rows]))
        if not math.isfinite(loss):
            break
    return loss


@contextmanager
def _explain_errors(task: TrainingTask, step: str) -> Iterator[None]:
    """Name loss and step where Keras refuses: a loss for other outputs, an operation without a gradient."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        what, where = explain_keras_error(error)
        raise ConversionError(
            f"the model cannot be trained with loss {task.loss_choice.name} ({step}): {where}: {what}",
            fix="use another loss, or omit fine-tuning",
        ) from error
