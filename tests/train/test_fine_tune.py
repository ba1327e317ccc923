"""What a model is trained on: reading the data, and what does not fit.

Which loss fits which output and labels.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edgetool.convert.samples import InputSpec, Normalisation
from edgetool.errors import CalibrationError, UsageError
from edgetool.train.training_worker import OutputSpec, check_loss_name, loss_by_name, loss_by_rule, read_training_data

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


def test_missing_labels_are_an_error_if_nothing_can_be_reproduced(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=X)
    with pytest.raises(CalibrationError, match="no array named 'y'"):
        read_training_data(tmp_path / "data.npz", INPUT, OUTPUTS[1:], None)


RNG = np.random.default_rng(0)
SPARSE = np.array([0, 3, 1, 2])
CATEGORICAL = np.eye(4)[SPARSE]
REALS = RNG.normal(size=(4, 4))
BITS = np.array([0, 1, 1, 0])


@pytest.mark.parametrize(
    ("targets", "shape", "activation", "name", "logits"),
    [
        (SPARSE, (4,), "softmax", "sparse_categorical_crossentropy", False),
        (SPARSE, (4,), "linear", "sparse_categorical_crossentropy", True),
        (SPARSE[:, None], (4,), "linear", "sparse_categorical_crossentropy", True),
        (SPARSE.astype(float), (4,), "softmax", "sparse_categorical_crossentropy", False),
        (RNG.integers(0, 5, (4, 6, 6)), (6, 6, 5), "softmax", "sparse_categorical_crossentropy", False),
        (CATEGORICAL, (4,), "softmax", "categorical_crossentropy", False),
        (CATEGORICAL.astype(int), (4,), "linear", "categorical_crossentropy", True),
        (CATEGORICAL, (4,), "sigmoid", "binary_crossentropy", False),
        (BITS, (1,), "sigmoid", "binary_crossentropy", False),
        (BITS, (1,), "linear", "binary_crossentropy", True),
        (BITS[:, None] == 1, (1,), "linear", "binary_crossentropy", True),
        (REALS[:, 0], (1,), "linear", "mean_squared_error", True),
        (REALS, (4,), "linear", "mean_squared_error", True),
        (REALS, (4,), "tanh", "mean_squared_error", True),
        (RNG.normal(size=(4, 2, 3)), (2, 3), "linear", "mean_squared_error", True),
    ],
)
def test_the_loss_follows_output_and_labels(
    targets: Any, shape: tuple[int, ...], activation: str, name: str, logits: bool
) -> None:
    loss_choice = loss_by_rule(targets, shape, activation, "y.npz")
    assert (loss_choice.name, loss_choice.from_logits) == (name, logits)
    assert loss_choice.targets.shape == (4, *(shape[:-1] if name.startswith("sparse") else shape))


@pytest.mark.parametrize(
    ("targets", "shape", "activation", "said"),
    [
        (SPARSE + 1, (4,), "softmax", "outside the range 0 to 3"),
        (SPARSE - 1, (4,), "softmax", "outside the range 0 to 3"),
        (SPARSE + 0.5, (4,), "softmax", "outside the range 0 to 3"),
        (BITS + 1, (1,), "sigmoid", "outside the range 0 to 1"),
        (REALS[:, :3], (4,), "softmax", r"shape \(4, 3\) for an output of 4 numbers"),
        (SPARSE, (6, 6, 5), "softmax", r"numbers of shape \(6, 6, 5\)"),
    ],
)
def test_labels_that_do_not_fit_are_refused(targets: Any, shape: tuple[int, ...], activation: str, said: str) -> None:
    with pytest.raises(CalibrationError, match=said):
        loss_by_rule(targets, shape, activation, "y.npz")


def test_a_named_loss_takes_targets_in_its_own_form() -> None:
    assert loss_by_name("sparse_categorical_crossentropy", SPARSE, (4,), "linear", "").targets.dtype == np.int32
    assert loss_by_name("huber", CATEGORICAL, (4,), "linear", "").targets.shape == (4, 4)
    with pytest.raises(CalibrationError, match="loss mse requires 4 numbers"):
        loss_by_name("mse", SPARSE, (4,), "linear", "y.npz")


def test_an_unknown_loss_is_wrong_usage_and_the_known_ones_are_named() -> None:
    known = {"huber": abs, "mean_squared_error": abs}
    get = lambda name: known[name] if name in known else (_ for _ in ()).throw(ValueError(name))  # noqa: E731
    keras = SimpleNamespace(losses=SimpleNamespace(get=get, serialize=None, Huber=None, **known))
    check_loss_name(keras, "huber")
    with pytest.raises(UsageError, match=r"loss: Keras has no loss named 'los'; use one of huber, mean_squared_error$"):
        check_loss_name(keras, "los")
