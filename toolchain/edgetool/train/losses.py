"""Which loss an output and its labels ask for."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgetool.convert.samples import Array
from edgetool.errors import CalibrationError, UsageError

CLASSES = "sparse_categorical_crossentropy"
ROWS = "categorical_crossentropy"
BINARY = "binary_crossentropy"
NUMBERS = "mean_squared_error"
# Activations after which values are probabilities and not logits.
PROBABILITIES = frozenset(["softmax", "sigmoid"])
ROW_SUM_TOLERANCE = 1e-3
# Members of keras.losses that are no losses.
NO_LOSSES = frozenset(["get", "serialize", "deserialize"])
# Layers that hand on the values of their input.
HANDS_ON = ("Reshape", "Flatten", "Identity", "Dropout", "ActivityRegularization")


@dataclass(frozen=True, slots=True)
class Chosen:
    """name: of a loss of Keras. from_logits: whether the output is before its softmax or sigmoid, for losses that ask.
    targets: what it compares with the output: class indices, or numbers of the output's shape."""

    name: str
    from_logits: bool
    targets: Array


def loss_by_rule(targets: Array, shape: tuple[int | None, ...], activation: str, where: str) -> Chosen:
    """The loss for targets (N, ...) of an output of this shape (without batch) behind this activation.

    Class indices: sparse categorical cross-entropy. Rows of class probabilities: categorical. 0 and 1, or a sigmoid:
    binary. Other numbers: mean squared error. Raises CalibrationError at `where` when they do not fit the output.
    """
    logits = activation not in PROBABILITIES
    whole = targets.dtype.kind in "iub"
    numbers = _as_numbers(targets, shape)
    if numbers is None:
        return Chosen(CLASSES, logits, class_targets(targets, shape, where))
    in_range = bool((numbers >= 0).all() and (numbers <= 1).all())
    if activation == "sigmoid":
        if whole and not in_range:
            raise CalibrationError(
                "y has labels outside the range 0 to 1", where=where, fix="use 0 or 1 for a sigmoid output"
            )
        return Chosen(BINARY if in_range else NUMBERS, False, numbers)
    if numbers[0].size == 1:
        return Chosen(BINARY if whole and in_range and activation == "linear" else NUMBERS, logits, numbers)
    rows = in_range and bool((np.abs(numbers.sum(axis=-1) - 1) < ROW_SUM_TOLERANCE).all())
    return Chosen(ROWS if rows and activation in ("softmax", "linear") else NUMBERS, logits, numbers)


def loss_by_name(name: str, targets: Array, shape: tuple[int | None, ...], activation: str, where: str) -> Chosen:
    """The loss that the user names, with targets in the form that it takes. CalibrationError when they do not fit."""
    if name.lower().startswith("sparse"):
        made = class_targets(targets, shape, where)
    else:
        numbers = _as_numbers(targets, shape)
        if numbers is None:
            raise CalibrationError(
                f"has labels of shape {targets.shape}, but loss {name} requires {_text(shape)} per sample",
                where=where,
                fix=f"provide labels in the output's shape, or use {CLASSES}",
            )
        made = numbers
    return Chosen(name, activation not in PROBABILITIES, made)


def check_loss_name(keras: Any, name: str) -> None:
    """UsageError naming Keras's losses when this is none of them."""
    try:
        known = keras.losses.get(name) is not None
    except (ValueError, TypeError):
        known = False
    if not known:
        names = sorted(
            item for item in dir(keras.losses) if item.islower() and item[0] != "_" and item not in NO_LOSSES
        )
        raise UsageError(f"Keras has no loss named {name!r}", where="loss", fix=f"use one of {', '.join(names)}")


def keras_loss(keras: Any, chosen: Chosen) -> Any:
    """What model.compile takes for it."""
    loss = keras.losses.get(chosen.name)
    function = getattr(loss, "fn", loss)  # a class of Keras wraps its function
    try:
        asks = "from_logits" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        asks = False
    if not asks:
        return loss
    return lambda expected, actual: function(expected, actual, from_logits=chosen.from_logits)


def output_activation(keras: Any, tensor: Any) -> str:
    """What a model's output went through last, by Keras's name: "softmax", "sigmoid", "linear", ..."""
    while True:
        history = tensor._keras_history
        operation = history.operation
        if isinstance(operation, keras.Model):
            tensor = operation.outputs[history.tensor_index]
            continue
        kind = type(operation).__name__
        if kind in HANDS_ON and operation._inbound_nodes[history.node_index].input_tensors:
            tensor = operation._inbound_nodes[history.node_index].input_tensors[0]
            continue
        activation = getattr(operation, "activation", None)
        if activation is None:  # a layer or an operation that is itself one
            return kind.lower() if kind.lower() in PROBABILITIES else "linear"
        return str(getattr(activation, "__name__", type(activation).__name__)).lower()


def class_targets(targets: Array, shape: tuple[int | None, ...], where: str) -> Array:
    """Class indices, (N, ...) without the output's last axis. CalibrationError when they are none."""
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
    """The targets as float32 of the output's shape, (N, ...); None when they have another."""
    if targets.ndim == 1 and shape == (1,):
        targets = targets[:, np.newaxis]
    return targets.astype(np.float32) if _fits(targets.shape[1:], shape) else None


def _fits(found: tuple[int, ...], asked: tuple[int | None, ...]) -> bool:
    return len(found) == len(asked) and all(size in (None, own) for own, size in zip(found, asked, strict=True))


def _text(shape: tuple[int | None, ...]) -> str:
    """ "10 numbers", or "numbers of shape (4, 10)"."""
    return f"{shape[0]} numbers" if len(shape) == 1 else f"numbers of shape {shape}"
