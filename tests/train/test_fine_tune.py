"""What a model is trained on: reading the data, and what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetool.convert.samples import InputSpec, Normalisation
from edgetool.errors import CalibrationError
from edgetool.train.fine_tune import OutputSpec, read_training_data

X = np.arange(24, dtype=np.float64).reshape(4, 6)
INPUT = (InputSpec("taken", (6,), "float32"),)
OUTPUTS = (OutputSpec("first", (6,)), OutputSpec("second", (2,)))


def read(path: Path, normalisation: Normalisation | None = None, **arrays: Any) -> Any:
    np.savez(path / "data.npz", **arrays)
    return read_training_data(path / "data.npz", INPUT, OUTPUTS, normalisation)


def test_labels_may_be_of_one_output_and_of_any_shape(tmp_path: Path) -> None:
    found = read(tmp_path, x=X, y_second=np.ones((4, 2)))
    assert (found.output, found.reproduces, found.targets.shape) == (1, False, (4, 2))
    assert found.inputs[0].dtype == np.float32
    assert np.array_equal(found.inputs[0], X)


def test_inputs_are_normalised_and_labels_are_not(tmp_path: Path) -> None:
    found = read(tmp_path, Normalisation((0.5,), (1.0,)), x=X, y=X)
    assert np.array_equal(found.inputs[0], X * 0.5 + 1)
    assert np.array_equal(found.targets, X)


def test_without_labels_an_output_like_the_input_reproduces_it(tmp_path: Path) -> None:
    found = read(tmp_path, Normalisation((0.5,), (1.0,)), x=X)
    assert found.reproduces
    assert np.array_equal(found.targets, X * 0.5 + 1)
    assert "trained to reproduce taken" in found.notes[0]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": X[:0], "y": X[:0]}, "no samples"),
        ({"x": X, "y": X[:3]}, r"labels y of shape \(3, 6\)"),
        ({"x": X, "y": X * np.nan}, "NaN or infinite"),
        ({"x": np.where(X == 7, np.inf, X), "y": X}, r"sample 1: contains infinity at index \(1,\)"),
        ({"x": X, "y": np.array(["a"] * 4)}, "type <U1"),
        ({"x": X, "y": np.float32(1)}, r"shape \(\)"),
        ({"x": X[:, :5], "y": X}, r"shape \(4, 5\)"),
        ({"x": X, "y_first": X, "y_second": X}, "labels for 2 outputs"),
        ({"taken": X, "other": X}, "contains taken, other"),
    ],
)
def test_data_that_does_not_fit_is_refused(tmp_path: Path, arrays: dict[str, Any], said: str) -> None:
    with pytest.raises(CalibrationError, match=said):
        read(tmp_path, **arrays)


def test_labels_are_missed_where_nothing_can_be_reproduced(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=X)
    with pytest.raises(CalibrationError, match="no array named 'y'"):
        read_training_data(tmp_path / "data.npz", INPUT, OUTPUTS[1:], None)
