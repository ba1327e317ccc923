"""What Keras 3 cannot rebuild, through tf_keras: the same outputs, and what is said where a library is missing."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetool.convert import load_keras
from edgetool.convert.load_keras import library_versions
from edgetool.convert.tf_keras_layers import FUNCTIONS
from edgetool.errors import MissingExtraError, UnsupportedModelError

tf_keras = pytest.importorskip("tf_keras", reason="only tf_keras loads these")
from tests.convert.test_legacy_files import load, outputs  # noqa: E402  (needs tf_keras as well)


def raw_calls() -> Any:
    import tensorflow as tf

    row = tf_keras.Input((6, 4))
    tensor = tf.concat([tf.math.sin(row) * 2.0 + row, row[:, :, :2]], -1)
    return tf_keras.Model(row, tf_keras.layers.Dense(2)(tf.nn.relu(tf.reshape(tensor, (-1, 36)))))


def local() -> Any:
    layers = tf_keras.layers
    return tf_keras.Sequential([tf_keras.Input((6, 6, 2)), layers.LocallyConnected2D(3, 3)])


def renormalised() -> Any:
    return tf_keras.Sequential([tf_keras.Input((6,)), tf_keras.layers.BatchNormalization(renorm=True)])


@pytest.mark.parametrize(
    ("build", "said"),
    [(raw_calls, "raw TensorFlow call"), (local, "does not exist in Keras 3"), (renormalised, "statistics")],
)
def test_tf_keras_loads_what_keras_3_cannot(build: Callable[[], Any], said: str, tmp_path: Path) -> None:
    import tensorflow as tf

    made = build()
    inputs = [np.random.default_rng(1).normal(size=(3, *made.input_shape[1:])).astype(np.float32)]
    for suffix in ("h5", "keras"):
        made.save(tmp_path / f"made.{suffix}")
        loaded = load(tmp_path / f"made.{suffix}", tmp_path)
        assert loaded.keras is tf_keras
        assert said in loaded.notes[0]
        np.testing.assert_allclose(outputs(loaded.model, inputs)[0], outputs(made, inputs)[0], rtol=0, atol=1e-6)
    assert "tf_keras" in library_versions(tf, loaded.keras)


def test_a_missing_library_is_named_with_the_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local().save(tmp_path / "made.h5")
    monkeypatch.setattr(load_keras, "is_installed", lambda name="": False)
    with pytest.raises(MissingExtraError, match=r"LocallyConnected2D.*pip install --no-deps tf-keras") as caught:
        load(tmp_path / "made.h5", tmp_path)
    assert caught.value.where == str(tmp_path / "made.h5")


def test_a_lambda_beside_a_raw_call_is_refused_and_not_run(tmp_path: Path) -> None:
    path = tmp_path / "ran"
    ran = str(path)
    row = tf_keras.Input((6,))
    tensor = tf_keras.layers.Lambda(lambda x: (__import__("pathlib").Path(ran).touch(), x)[1], name="hidden")(row * 2.0)
    tf_keras.Model(row, tensor).save(tmp_path / "made.h5")
    path.unlink(missing_ok=True)
    with pytest.raises(UnsupportedModelError, match=r"'hidden' \(Lambda\).*--trust-model-code"):
        load(tmp_path / "made.h5", tmp_path)
    assert not path.exists()


def test_every_allowed_function_is_one_of_tensorflow() -> None:
    from tensorflow.python.util.tf_export import get_symbol_from_name

    assert {name for name in FUNCTIONS if get_symbol_from_name(name) is None} == set()


@pytest.mark.slow
def test_a_model_trained_for_quantization_loads_with_its_ranges(tmp_path: Path) -> None:
    tfmot = pytest.importorskip("tensorflow_model_optimization", reason="it makes such models")
    layers = tf_keras.layers
    plain = tf_keras.Sequential([tf_keras.Input((6,)), layers.Dense(4, activation="relu"), layers.Dense(2)])
    made = tfmot.quantization.keras.quantize_model(plain)
    made.save(tmp_path / "made.h5")
    inputs = [np.random.default_rng(1).normal(size=(3, 6)).astype(np.float32)]
    loaded = load(tmp_path / "made.h5", tmp_path)
    assert "its learned ranges" in loaded.notes[0]
    np.testing.assert_allclose(outputs(loaded.model, inputs)[0], outputs(made, inputs)[0], rtol=0, atol=1e-6)


@pytest.mark.slow
def test_pruning_wrappers_are_taken_off_without_their_library(tmp_path: Path) -> None:
    tfmot = pytest.importorskip("tensorflow_model_optimization", reason="it makes such models")
    layers = tf_keras.layers
    plain = tf_keras.Sequential([tf_keras.Input((6,)), layers.Dense(4, activation="relu"), layers.Dense(4)])
    made = tfmot.sparsity.keras.prune_low_magnitude(plain)
    for layer in made.layers:  # half of each kernel is cut out, by its mask only
        mask = next(weight for weight in layer.weights if "mask" in weight.name)
        mask.assign(np.arange(np.prod(mask.shape)).reshape(mask.shape) % 2)
    inputs = [np.random.default_rng(1).normal(size=(3, 6)).astype(np.float32)]
    for suffix in ("h5", "keras"):
        path = tmp_path / f"made.{suffix}"
        made.save(path)
        loaded = load(path, tmp_path)
        assert loaded.keras is not tf_keras
        kernel = loaded.model.layers[0].get_weights()[0]
        assert (kernel == 0).sum() == kernel.size / 2
        np.testing.assert_allclose(outputs(loaded.model, inputs)[0], outputs(made, inputs)[0], rtol=0, atol=1e-5)


@pytest.mark.slow
def test_clustering_wrappers_are_taken_off_without_their_library(tmp_path: Path) -> None:
    """The order of the weights is restored, and each is the value that the wrapper computes with."""
    tfmot = pytest.importorskip("tensorflow_model_optimization", reason="it makes such models")
    layers, clustering = tf_keras.layers, tfmot.clustering.keras
    plain = tf_keras.Sequential(
        [
            tf_keras.Input((7, 6, 3)),
            layers.Conv2D(4, 3, use_bias=False),
            layers.BatchNormalization(),
            layers.SeparableConv2D(4, 3),
            layers.Flatten(),
            layers.Dense(24),
        ]
    )
    start = clustering.CentroidInitialization.LINEAR
    made = clustering.cluster_weights(plain, number_of_clusters=4, cluster_centroids_init=start)
    inputs = [np.random.default_rng(1).normal(size=(3, 7, 6, 3)).astype(np.float32)]
    expected = outputs(made, inputs)[0]
    made.save(tmp_path / "made.h5")
    loaded = load(tmp_path / "made.h5", tmp_path)
    assert loaded.keras is not tf_keras
    assert len(np.unique(loaded.model.layers[-1].get_weights()[0])) == 4
    np.testing.assert_allclose(outputs(loaded.model, inputs)[0], expected, rtol=0, atol=1e-5)
    made.save(tmp_path / "made.keras")
    with pytest.raises(UnsupportedModelError, match=r"clustered.*strip_clustering"):
        load(tmp_path / "made.keras", tmp_path)


@pytest.mark.slow
def test_clustering_that_cannot_be_taken_off_is_refused(tmp_path: Path) -> None:
    tfmot = pytest.importorskip("tensorflow_model_optimization", reason="it makes such models")
    start = tfmot.clustering.keras.CentroidInitialization.LINEAR
    plain = tf_keras.Sequential([tf_keras.Input((5, 3)), tf_keras.layers.LSTM(4)])
    made = tfmot.clustering.keras.cluster_weights(plain, number_of_clusters=4, cluster_centroids_init=start)
    made.save(tmp_path / "made.h5")
    with pytest.raises(UnsupportedModelError, match=r"lstm.*clustered.*strip_clustering"):
        load(tmp_path / "made.h5", tmp_path)


def test_it_is_given_nothing_that_runs_code(tmp_path: Path) -> None:
    """A file that Keras 3 fails at, with a function from a module of its author's choice."""
    tf_keras.Sequential([tf_keras.Input((8, 8, 3)), tf_keras.layers.DepthwiseConv2D(3, name="d")]).save(
        tmp_path / "good.keras"
    )
    foreign = {"module": "antigravity", "class_name": "function", "config": "geohash", "registered_name": "geohash"}
    with zipfile.ZipFile(tmp_path / "good.keras") as good, zipfile.ZipFile(tmp_path / "bad.keras", "w") as bad:
        for name in good.namelist():
            content = good.read(name)
            if name == "config.json":
                config = json.loads(content)
                layer = next(item for item in config["config"]["layers"] if item["class_name"] == "DepthwiseConv2D")
                layer["config"].update(kernel_initializer=foreign, unknown_to_keras_3=1)
                content = json.dumps(config).encode()
            bad.writestr(name, content)
    with pytest.raises(UnsupportedModelError):
        load(tmp_path / "bad.keras", tmp_path)
    assert "antigravity" not in sys.modules
