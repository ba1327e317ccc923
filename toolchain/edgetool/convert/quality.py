"""Compare the outputs of a quantized model with those of the float model. This module is pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgetool.errors import CalibrationError, InternalError

Reals: TypeAlias = NDArray[Any]
MIN_SAMPLES = 8  # for a meaningful variation
FLOAT32_DB = 120.0  # between a value and the rounding errors of a network in float32


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """A comparison of one output over all samples.

    sqnr_db: 10 log10(sum of float^2 / sum of (float - quantized)^2) in dB; None if the outputs are equal (no noise) or
        the float output is all zero (no signal).
    cosine: the cosine similarity of the outputs as vectors over all samples, -1 to 1; None if either is all zero.
    top1_agreement: the fraction of samples, 0 to 1, with the same class in both: at the maximum of (N, classes), or by
        the threshold for one score, (N, 1) or (N,), as in `accuracy`; None for other shapes. The caller must know
        whether the output is a class at all.
    max_abs_error: the largest difference, in the output's unit.

    All but top1_agreement are None if either output contains NaN or infinity. No field is ever NaN or infinite, so that
    JSON can represent it.
    """

    sqnr_db: float | None
    cosine: float | None
    top1_agreement: float | None
    max_abs_error: float | None


def compare_outputs(float_outputs: Sequence[Reals], quantized_outputs: Sequence[Reals]) -> tuple[OutputComparison, ...]:
    """Compare outputs (N, ...); those of the quantized model are dequantized. Raises InternalError if shapes differ."""
    if [array.shape for array in float_outputs] != [array.shape for array in quantized_outputs]:
        raise InternalError("the float and the quantized model have outputs of different shapes")
    return tuple(_compare(*pair) for pair in zip(float_outputs, quantized_outputs, strict=True))


def _compare(reference: Reals, quantized: Reals) -> OutputComparison:
    expected = reference.astype(np.float64)
    actual = quantized.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        difference = np.abs(expected - actual)
    if not (np.isfinite(expected).all() and np.isfinite(difference).all()):
        return OutputComparison(None, None, _agreement(expected, actual), None)
    signal_db, noise_db = _power_db(expected), _power_db(difference)
    return OutputComparison(
        sqnr_db=None if signal_db is None or noise_db is None else signal_db - noise_db,
        cosine=_cosine(expected.ravel(), actual.ravel()),
        top1_agreement=_agreement(expected, actual),
        max_abs_error=float(difference.max(initial=0.0)),
    )


def variation_db(reference: Reals, quantized: Reals) -> float | None:
    """Return the SQNR in dB of the variation over the samples, (N, ...): the mean of each element is subtracted.

    Return None if there are too few samples, if nothing varies by more than the rounding errors of float32, if there is
    no noise, or if values are not finite.
    """
    if len(reference) < MIN_SAMPLES:
        return None
    expected, actual = (array.astype(np.float64) for array in (reference, quantized))
    if not (np.isfinite(expected).all() and np.isfinite(actual).all()):
        return None
    whole_db = _power_db(expected)
    expected, actual = (array - array.mean(axis=0) for array in (expected, actual))
    signal_db, noise_db = _power_db(expected), _power_db(expected - actual)
    if whole_db is None or signal_db is None or noise_db is None or whole_db - signal_db > FLOAT32_DB:
        return None
    return signal_db - noise_db


def _power_db(values: Reals) -> float | None:
    """Return 10 log10 of the sum of squares; None for all zeros.

    Scaling prevents squares from overflowing or underflowing.
    """
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0:
        return None
    return 20.0 * float(np.log10(largest)) + 10.0 * float(np.log10(np.square(values / largest).sum()))


def _cosine(first: Reals, second: Reals) -> float | None:
    lengths = [float(np.abs(vector).max(initial=0.0)) for vector in (first, second)]
    if 0.0 in lengths:
        return None
    first, second = first / lengths[0], second / lengths[1]
    value = float(first @ second / (np.linalg.norm(first) * np.linalg.norm(second)))
    return min(1.0, max(-1.0, value))


def _agreement(expected: Reals, actual: Reals) -> float | None:
    if expected.ndim not in (1, 2) or not expected.size:
        return None
    return float(np.mean(_classes(expected, expected) == _classes(actual, expected)))


def accuracy(outputs: Reals, labels: Reals, *, original: Reals | None = None) -> float:
    """Return the fraction of samples, 0 to 1, with the correct class.

    Args:
        outputs: (N, classes) with the class at the maximum; or (N, 1) or (N,) with class 1 above 0.5, or above 0 for
            logits (values outside 0 to 1).
        labels: integers (N,) or (N, 1), or one row per sample, (N, classes).
        original: the float model's outputs, which decide whether those of a quantized model are logits; by default
            `outputs`.

    Raises CalibrationError if the labels do not match the outputs.
    """
    if not len(outputs) or len(outputs) != len(labels):
        raise CalibrationError(f"{len(labels)} labels for {len(outputs)} samples", fix="provide one label per sample")
    expected = class_indices(labels, outputs.shape[1:])
    return float(np.mean(_classes(outputs, outputs if original is None else original) == expected))


def class_indices(labels: Reals, output_shape: tuple[int, ...], *, where: str | None = None) -> Reals:
    """Return the class index per sample, (N,), from labels for an output of this shape (without batch).

    Raises CalibrationError at `where` if the output is not one row of scores, or a label is not one of its classes.
    """
    if len(output_shape) > 1 or 0 in output_shape:
        raise CalibrationError(
            f"cannot compute accuracy for an output of shape {(len(labels), *output_shape)} with labels of "
            f"shape {labels.shape}",
            where=where,
            fix="evaluate a classifier with one row of scores per sample (the labels of an output NAME must be in an "
            "array called y_NAME)",
        )
    classes = max((2, *output_shape))
    if labels.ndim == 2 and labels.shape[1] == classes:
        return np.asarray(labels.argmax(axis=1))
    flat = labels.reshape(len(labels), -1)
    if flat.shape[1] != 1:
        raise CalibrationError(
            f"y has {flat.shape[1]} columns for a model with {classes} classes",
            where=where,
            fix="use one integer per sample",
        )
    values = flat[:, 0]
    if not np.array_equal(values, np.floor(values)) or values.min() < 0 or values.max() >= classes:
        raise CalibrationError(
            f"y has labels outside the range 0 to {classes - 1}", where=where, fix="use one integer class per sample"
        )
    return np.asarray(values.astype(np.int64))


def _classes(outputs: Reals, original: Reals) -> Reals:
    """Return the class per sample, (N,); for one score, the threshold follows from the original's scores."""
    scores = outputs.reshape(len(outputs), -1)
    if scores.shape[1] > 1:
        return np.asarray(scores.argmax(axis=1))
    are_logits = bool(((original < 0) | (original > 1)).any())
    return np.asarray((scores[:, 0] > (0.0 if are_logits else 0.5)).astype(np.int64))
