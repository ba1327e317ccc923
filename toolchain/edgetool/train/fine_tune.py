"""Trains a Keras model on labelled samples, the same way every time: in the child process only."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgetool import child
from edgetool.convert.float_model import FloatModel, explain
from edgetool.convert.keras_model import packed
from edgetool.convert.samples import Normalisation
from edgetool.errors import ConversionError
from edgetool.train.losses import (
    NUMBERS,
    Chosen,
    check_loss_name,
    keras_loss,
    loss_by_name,
    loss_by_rule,
    output_activation,
)
from edgetool.train.training import FineTuneRequest
from edgetool.train.training_data import OutputSpec, TrainingData, read_training_data


@dataclass(frozen=True, slots=True)
class Lesson:
    """What is to be learnt, checked against the model: data and loss. notes: one sentence each."""

    data: TrainingData
    chosen: Chosen
    notes: tuple[str, ...]


def prepare_lesson(keras: Any, model: Any, described: FloatModel, request: FineTuneRequest) -> Lesson:
    """Read the data and choose the loss, before any long work.

    Raises CalibrationError when data and model do not fit each other, UsageError for an unknown loss.
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
        chosen = loss_by_name(request.loss, data.targets, shape, activation, where)
    elif data.reproduces:
        chosen = Chosen(NUMBERS, False, data.targets)
    else:
        chosen = loss_by_rule(data.targets, shape, activation, where)
    notes = [*data.notes, f"fine-tuned with loss {chosen.name}"]
    if not model.trainable_variables:
        notes.append("every layer is frozen, so fine-tuning changed nothing")
    return Lesson(data, chosen, tuple(notes))


def fine_tune(
    keras: Any, model: Any, lesson: Lesson, request: FineTuneRequest, *, seed: int, progress: child.Progress
) -> tuple[float, ...]:
    """Train the model in place; the mean loss of each epoch.

    The same model, lesson, request and seed give the same weights, where TensorFlow is told to be deterministic.
    Raises ConversionError when the loss or a weight becomes NaN or infinite, or the model cannot be trained.
    """
    head = _head(keras, model, lesson)
    head.compile(
        optimizer=keras.optimizers.Adam(request.learning_rate),
        loss=keras_loss(keras, lesson.chosen),
        jit_compile=False,  # XLA compiles for seconds what trains for seconds
    )
    history = []
    for epoch in range(1, request.epochs + 1):
        step = f"epoch {epoch}/{request.epochs}"
        progress(f"fine-tuning: {step}")
        rng = np.random.Generator(np.random.PCG64((seed, epoch)))
        with _trainable(lesson, step):
            loss = _epoch(head, lesson, request.batch_size, rng)
        if not (math.isfinite(loss) and all(np.isfinite(weights).all() for weights in model.get_weights())):
            what = "a weight is not finite" if math.isfinite(loss) else f"the loss is {loss:g}"
            raise ConversionError(
                f"fine-tuning diverged in {step}: {what} with learning_rate {request.learning_rate:g}",
                fix="lower learning_rate",
            )
        history.append(loss)
    return tuple(history)


def _head(keras: Any, model: Any, lesson: Lesson) -> Any:
    """The model with the one output that is trained, for batches of any size; it shares all layers."""
    if all(tensor.shape[0] is None for tensor in model.inputs):
        return keras.Model(model.inputs, model.outputs[lesson.data.output])
    inputs = [keras.Input(tensor.shape[1:], dtype=tensor.dtype) for tensor in model.inputs]
    with _trainable(lesson, "its batch size is fixed"):
        outputs = keras.tree.flatten(model(packed(keras, model, inputs)))
    return keras.Model(inputs, outputs[lesson.data.output])


def _epoch(head: Any, lesson: Lesson, batch_size: int, rng: np.random.Generator) -> float:
    """Every sample once, in random order; the mean loss, or what it was when it stopped being a number."""
    order = rng.permutation(len(lesson.data.targets))
    head.reset_metrics()
    loss = math.nan
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        inputs = [array[rows] for array in lesson.data.inputs]
        loss = float(head.train_on_batch(inputs, lesson.chosen.targets[rows]))
        if not math.isfinite(loss):
            break
    return loss


@contextmanager
def _trainable(lesson: Lesson, step: str) -> Iterator[None]:
    """Name loss and step where Keras refuses: a loss for other outputs, an operation without a gradient."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        what, where = explain(error)
        raise ConversionError(
            f"the model cannot be trained with loss {lesson.chosen.name} ({step}): {where}: {what}",
            fix="use another loss, or omit fine-tuning",
        ) from error
