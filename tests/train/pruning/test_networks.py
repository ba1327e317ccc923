"""Every kind of network, at every level: the pruned model computes what the original does without those channels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetool.convert.keras_model import float_model
from edgetool.convert.load_keras import import_libraries, load_keras_model
from edgetool.convert.source import read_source
from edgetool.convert.tflite import Options, convert, order_of
from edgetool.execute.run import run_model
from edgetool.train.pruning import prune
from tests.train.pruning.checks import assert_same, outputs, randomised, samples, zeroed_outputs
from tests.train.pruning.networks import LEVELS, NETWORKS, keras

WITH_BATCH_NORM = ("dense_concat", "batch_norms", "nested")


@pytest.fixture(scope="module")
def built() -> dict[str, Any]:
    return {name: randomised(build()) for name, build in NETWORKS.items()}


@pytest.mark.parametrize("name", NETWORKS)
def test_level_0_is_the_identity(built: dict[str, Any], name: str) -> None:
    model = built[name]
    pruned = prune(keras, model, 0)
    assert pruned.removed == {}
    assert pruned.left_alone == ()
    assert pruned.parameters == pruned.original_parameters == model.count_params()
    assert pruned.model is not model
    for one, other in zip(pruned.model.weights, model.weights, strict=True):
        assert one.name == other.name
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    inputs = samples(model)
    for one, other in zip(outputs(pruned.model, inputs), outputs(model, inputs), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("name", "method"), [*((name, "l1") for name in NETWORKS), *((name, "batch-norm") for name in WITH_BATCH_NORM)]
)
def test_pruning_is_setting_to_zero(built: dict[str, Any], name: str, method: str) -> None:
    model = built[name]
    inputs = samples(model)
    before = [weight.numpy().copy() for weight in model.weights]
    parameters = model.count_params()
    removed: dict[str, tuple[int, ...]] = {}
    for level in LEVELS:
        pruned = prune(keras, model, level, method=method)
        assert pruned.model.count_params() == pruned.parameters < parameters
        assert pruned.original_parameters == model.count_params()
        assert_same(outputs(pruned.model, inputs), zeroed_outputs(model, pruned.removed, inputs))
        for label, channels in removed.items():
            assert set(channels) <= set(pruned.removed[label])
        parameters, removed = pruned.parameters, pruned.removed
    for weight, values in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), values)


# One level each, since converting takes a second: together they cover all levels.
@pytest.mark.parametrize(("name", "level"), [(name, LEVELS[number % 3]) for number, name in enumerate(NETWORKS)])
def test_a_pruned_model_converts_and_runs_on_tflm(
    built: dict[str, Any], name: str, level: float, tmp_path: Path
) -> None:
    pytest.importorskip("tflite_micro")
    check_on_tflm(prune(keras, built[name], level).model, tmp_path)


def check_on_tflm(model: Any, folder: Path) -> None:
    """Save, load and convert a model, and compare what TFLM says with what Keras does."""
    tf, _ = import_libraries()
    model.save(folder / "pruned.keras")
    source = read_source(folder / "pruned.keras")
    assert source.config is not None
    again = load_keras_model(keras, source, source.config, folder, trust_model_code=False)
    loaded = float_model(keras, again, source.path)
    arrays = samples(model)
    content = convert(tf, loaded, arrays, Options("int8", "float32", False), folder, lambda _: None).content
    order = order_of(content, loaded)
    found = run_model(content, [arrays[index][:, None] for index in order.inputs], engine="tflm")
    expected = outputs(model, arrays)
    assert len(found) == len(expected)
    for one, index in zip(found, order.outputs, strict=True):
        other = expected[index]
        assert one.reshape(other.shape).shape == other.shape
        error = np.sqrt(np.mean((one.reshape(other.shape) - other) ** 2))
        assert error < 0.15 * np.sqrt(np.mean(other**2))
