from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edgetool.convert.quality import accuracy, class_indices, compare_outputs, variation_db
from edgetool.errors import CalibrationError, InternalError

ANY_FLOATS = hnp.arrays(np.float64, (4, 3), elements=st.floats(allow_nan=True, allow_infinity=True))
FINITE = hnp.arrays(np.float64, (4, 3), elements=st.floats(-1e3, 1e3, allow_subnormal=False))


def compare(first: Any, second: Any) -> Any:
    (quality,) = compare_outputs([np.asarray(first)], [np.asarray(second)])
    return quality


def test_a_tenth_of_noise_is_20_db() -> None:
    quality = compare([[3.0, 4.0]], [[3.3, 4.4]])
    assert quality.sqnr_db == pytest.approx(20)
    assert quality.cosine == pytest.approx(1)
    assert quality.max_abs_error == pytest.approx(0.4)


def test_the_variation_is_measured_without_what_is_constant() -> None:
    samples = np.sin(np.arange(20.0))[:, None] * [1.0, 0.5]
    noise = 0.1 * samples[::-1]
    for offset in (0.0, 100.0, np.array([-3.0, 8.0])):
        assert variation_db(samples + offset, samples + noise + offset + 1.0) == pytest.approx(
            variation_db(samples, samples + noise)
        )
    assert variation_db(samples, samples * 1.1) == pytest.approx(20)
    assert variation_db(samples + 100, np.full_like(samples, 100)) == pytest.approx(0)


@pytest.mark.parametrize(
    "values", [np.ones((20, 2)), np.ones((20, 2)) + 1e-8 * np.eye(20, 2), np.full((20, 2), np.nan)]
)
def test_what_does_not_vary_has_no_variation(values: Any) -> None:
    assert variation_db(values, np.ones((20, 2)) + np.eye(20, 2)) is None


def test_few_samples_have_no_variation() -> None:
    assert variation_db(np.eye(7), np.zeros((7, 7))) is None
    assert variation_db(np.eye(8), np.zeros((8, 8))) is not None


def test_equal_outputs_have_no_noise_to_measure() -> None:
    quality = compare([[1.0, 2.0]], [[1.0, 2.0]])
    assert quality.sqnr_db is None
    assert quality.cosine == pytest.approx(1)
    assert quality.top1_agreement == 1
    assert quality.max_abs_error == 0


def test_no_signal_has_no_ratio() -> None:
    quality = compare([[0.0, 0.0]], [[1.0, 0.0]])
    assert (quality.sqnr_db, quality.cosine) == (None, None)


def test_opposite_and_orthogonal_outputs() -> None:
    assert compare([[1.0, 2.0]], [[-1.0, -2.0]]).cosine == pytest.approx(-1)
    assert compare([[1.0, 0.0]], [[0.0, 1.0]]).cosine == pytest.approx(0)


@pytest.mark.parametrize("shape", [(), (4, 2, 2), (0, 3), (3, 0), (0,), (0, 1)])
def test_only_rows_of_scores_give_classes(shape: tuple[int, ...]) -> None:
    assert compare(np.ones(shape), np.ones(shape)).top1_agreement is None


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
@pytest.mark.parametrize(
    ("expected", "actual", "share"),
    [
        ([0.9, 0.2, 0.6, 0.4], [0.7, 0.1, 0.5, 0.45], 0.75),
        ([3.0, -2.0, 0.3, -0.1], [2.0, -3.0, 0.2, 0.1], 0.75),
        # One that is a logit makes logits of them all; and of the quantized ones, whatever these are.
        ([3.0, 0.3, 0.4, 0.2], [0.9, 0.3, 0.2, 0.1], 1.0),
        # A probability that rounding puts below 0 stays one.
        ([0.9, 0.2, 0.6, 0.0], [0.9, 0.2, 0.6, -0.01], 1.0),
        ([1.0, 0.1, 0.2, 0.3], [1.1, 0.1, 0.2, 0.3], 1.0),
    ],
)
def test_the_original_decides_what_one_score_means(
    expected: list[float], actual: list[float], share: float, shape: tuple[int, ...]
) -> None:
    one, other = (np.array(values, np.float32).reshape(shape) for values in (expected, actual))
    assert compare(one, other).top1_agreement == share
    own_classes = np.array(one > (0.0 if max(expected) > 1 or min(expected) < 0 else 0.5), int)
    assert accuracy(one, own_classes) == 1
    assert accuracy(other, own_classes, original=one) == share


def test_agreement_counts_samples() -> None:
    assert compare([[1, 2], [2, 1], [0, 3], [5, 1]], [[1, 2], [1, 2], [0, 1], [9, 1]]).top1_agreement == 0.75


@given(ANY_FLOATS, ANY_FLOATS)
def test_json_can_always_hold_the_result(first: Any, second: Any) -> None:
    json.dumps(asdict(compare(first, second)), allow_nan=False)


@given(FINITE, FINITE)
def test_sqnr_is_the_textbook_formula(first: Any, second: Any) -> None:
    quality = compare(first, second)
    signal, noise = float(np.sum(first**2)), float(np.sum((first - second) ** 2))
    if signal > 1e-200 and noise > 1e-200:
        assert quality.sqnr_db == pytest.approx(10 * math.log10(signal / noise), abs=1e-6)


@given(FINITE, FINITE, st.floats(1e-3, 1e3))
def test_scaling_both_changes_neither_ratio_nor_angle(first: Any, second: Any, factor: float) -> None:
    one, other = compare(first, second), compare(first * factor, second * factor)
    assert (one.sqnr_db is None) == (other.sqnr_db is None)
    if one.sqnr_db is not None and np.abs(first - second).max() > 1e-6:
        assert other.sqnr_db == pytest.approx(one.sqnr_db, abs=1e-3)
    if one.cosine is not None:
        assert other.cosine == pytest.approx(one.cosine, abs=1e-6)


def test_every_output_is_compared_with_its_own() -> None:
    first, second = compare_outputs([np.ones((2, 3)), np.zeros(2)], [np.ones((2, 3)), np.ones(2)])
    assert (first.max_abs_error, second.max_abs_error) == (0, 1)
    with pytest.raises(InternalError):
        compare_outputs([np.ones((2, 3))], [np.ones((2, 4))])


@pytest.mark.parametrize(
    "labels", [[0, 1, 1, 0], [[0], [1], [1], [0]], [0.0, 1.0, 1.0, 0.0], [[1, 0], [0, 1], [0, 1], [1, 0]]]
)
def test_accuracy_takes_classes_and_one_hot_rows(labels: Any) -> None:
    outputs = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]])
    assert accuracy(outputs, np.array(labels)) == 0.75


@pytest.mark.parametrize("scores", [[0.9, 0.2, 0.6, 0.4], [3.0, -2.0, 0.1, -0.1]])
@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_one_score_is_a_probability_or_a_logit(scores: list[float], shape: tuple[int, ...]) -> None:
    assert accuracy(np.array(scores).reshape(shape), np.array([1, 0, 1, 1])) == 0.75


@pytest.mark.parametrize(
    ("outputs", "labels"),
    [
        (np.zeros((2, 3)), np.array([0, 3])),
        (np.zeros((2, 3)), np.array([0, -1])),
        (np.zeros((2, 3)), np.array([0, 0.5])),
        (np.zeros((2, 3)), np.zeros((2, 4))),
        (np.zeros((2, 3)), np.zeros(3)),
        (np.zeros((2, 3, 4)), np.zeros(2)),
        (np.zeros((0, 3)), np.zeros(0)),
    ],
)
def test_labels_that_do_not_fit_are_refused(outputs: Any, labels: Any) -> None:
    with pytest.raises(CalibrationError):
        accuracy(outputs, labels)


@pytest.mark.parametrize("shape", [(3,), (1,), (), (2, 2)])
def test_labels_are_refused_by_the_shape_of_the_output_alone(shape: tuple[int, ...]) -> None:
    with pytest.raises(CalibrationError) as caught:
        class_indices(np.array([0, 3]), shape, where="test.npz")
    assert caught.value.where == "test.npz"


@given(st.integers(2, 6), st.lists(st.integers(0, 1), min_size=1, max_size=9))
def test_rows_of_one_and_indices_are_the_same_labels(classes: int, labels: list[int]) -> None:
    rows = np.eye(classes)[labels]
    assert class_indices(rows, (classes,)).tolist() == labels == class_indices(np.array(labels), (classes,)).tolist()
