"""Which loss fits which output and labels."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edgetool.errors import CalibrationError, UsageError
from edgetool.train.fine_tune import check_loss_name, loss_by_name, loss_by_rule

RNG = np.random.default_rng(0)
CLASSES = np.array([0, 3, 1, 2])
ROWS = np.eye(4)[CLASSES]
REALS = RNG.normal(size=(4, 4))
BITS = np.array([0, 1, 1, 0])


@pytest.mark.parametrize(
    ("targets", "shape", "activation", "name", "logits"),
    [
        (CLASSES, (4,), "softmax", "sparse_categorical_crossentropy", False),
        (CLASSES, (4,), "linear", "sparse_categorical_crossentropy", True),
        (CLASSES[:, None], (4,), "linear", "sparse_categorical_crossentropy", True),
        (CLASSES.astype(float), (4,), "softmax", "sparse_categorical_crossentropy", False),
        (RNG.integers(0, 5, (4, 6, 6)), (6, 6, 5), "softmax", "sparse_categorical_crossentropy", False),
        (ROWS, (4,), "softmax", "categorical_crossentropy", False),
        (ROWS.astype(int), (4,), "linear", "categorical_crossentropy", True),
        (ROWS, (4,), "sigmoid", "binary_crossentropy", False),
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
    chosen = loss_by_rule(targets, shape, activation, "y.npz")
    assert (chosen.name, chosen.from_logits) == (name, logits)
    assert chosen.targets.shape == (4, *(shape[:-1] if name.startswith("sparse") else shape))


@pytest.mark.parametrize(
    ("targets", "shape", "activation", "said"),
    [
        (CLASSES + 1, (4,), "softmax", "outside the range 0 to 3"),
        (CLASSES - 1, (4,), "softmax", "outside the range 0 to 3"),
        (CLASSES + 0.5, (4,), "softmax", "outside the range 0 to 3"),
        (BITS + 1, (1,), "sigmoid", "outside the range 0 to 1"),
        (REALS[:, :3], (4,), "softmax", r"shape \(4, 3\) for an output of 4 numbers"),
        (CLASSES, (6, 6, 5), "softmax", r"numbers of shape \(6, 6, 5\)"),
    ],
)
def test_labels_that_do_not_fit_are_refused(targets: Any, shape: tuple[int, ...], activation: str, said: str) -> None:
    with pytest.raises(CalibrationError, match=said):
        loss_by_rule(targets, shape, activation, "y.npz")


def test_a_named_loss_takes_targets_in_its_own_form() -> None:
    assert loss_by_name("sparse_categorical_crossentropy", CLASSES, (4,), "linear", "").targets.dtype == np.int32
    assert loss_by_name("huber", ROWS, (4,), "linear", "").targets.shape == (4, 4)
    with pytest.raises(CalibrationError, match="loss mse requires 4 numbers"):
        loss_by_name("mse", CLASSES, (4,), "linear", "y.npz")


def test_an_unknown_loss_is_wrong_usage_and_the_known_ones_are_named() -> None:
    known = {"huber": abs, "mean_squared_error": abs}
    get = lambda name: known[name] if name in known else (_ for _ in ()).throw(ValueError(name))  # noqa: E731
    keras = SimpleNamespace(losses=SimpleNamespace(get=get, serialize=None, Huber=None, **known))
    check_loss_name(keras, "huber")
    with pytest.raises(UsageError, match=r"loss: Keras has no loss named 'los'; use one of huber, mean_squared_error$"):
        check_loss_name(keras, "los")
