"""Building, pruning and training in the child process: what is made, that it is the same each time, what is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetool.child import ProcessLimits
from edgetool.errors import (
    CalibrationError,
    ConversionError,
    EdgetoolError,
    InvalidModelError,
    OutputError,
    UnsupportedModelError,
    UsageError,
)
from edgetool.train.training import BuildRequest, FineTuneRequest, PruneRequest, Trained, build_model, prune_model

BUILDER = """
import keras
from keras import layers

def build(width=1.0):
    print("to nobody")
    inputs = keras.Input((8, 8, 3))
    x = layers.BatchNormalization()(layers.Conv2D(int(16 * width), 3)(inputs))
    x = layers.Dropout(0.1)(layers.ReLU()(x))
    return keras.Model(inputs, layers.Dense(3)(layers.GlobalAveragePooling2D()(x)))

def own():
    class Own(layers.Layer):
        def call(self, x):
            return x * 2
    return keras.Sequential([keras.Input((4,)), Own(name="mine")])
"""


def build(folder: Path, function: str = "build", **parameters: Any) -> Trained:
    pytest.importorskip("keras")
    source = folder / "my_model.py"
    source.write_text(BUILDER, encoding="utf-8")
    work = folder / f"work-{len(list(folder.iterdir()))}"
    work.mkdir()
    return build_model(
        BuildRequest(source, function, (), parameters, seed=3), workdir=work, limits=ProcessLimits(seconds=300)
    )


def prune(path: Path, folder: Path, level: float = 0.5, **options: Any) -> Trained:
    pytest.importorskip("keras")
    work = folder / f"work-{len(list(folder.iterdir()))}"
    work.mkdir()
    return prune_model(PruneRequest(path, level, **options), workdir=work, limits=ProcessLimits(seconds=300))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return build(tmp_path_factory.mktemp("built"), width=0.5)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures whose brightest channel is the class: easy to learn."""
    path = tmp_path_factory.mktemp("data") / "training.npz"
    x = np.random.default_rng(0).normal(size=(96, 8, 8, 3)).astype(np.float32)
    y = np.arange(96) % 3
    x[np.arange(96), :, :, y] += 2
    np.savez(path, x=x, y=y)
    return path


def digest(made: Trained) -> str:
    return hashlib.sha256(made.path.read_bytes()).hexdigest()


@pytest.mark.slow
def test_a_builder_makes_the_same_file_each_time(built: Trained, tmp_path: Path) -> None:
    assert built.parameters == built.original_parameters == (27 * 8 + 8) + 4 * 8 + (8 * 3 + 3)
    assert set(built.versions) == {"python", "tensorflow", "keras"}
    assert digest(build(tmp_path, width=0.5)) == digest(built)


@pytest.mark.slow
def test_a_model_that_needs_its_code_is_rejected_when_it_is_built(tmp_path: Path) -> None:
    with pytest.raises(
        UnsupportedModelError, match=r"the model returned by own cannot be loaded without its code.*'mine'.*'Own'"
    ):
        build(tmp_path, "own")


@pytest.mark.slow
def test_pruning_and_training_give_the_same_file_each_time(built: Trained, data: Path, tmp_path: Path) -> None:
    wanted = FineTuneRequest(data, epochs=4, learning_rate=0.02, batch_size=20)
    first, again = (prune(built.path, tmp_path, fine_tune=wanted, seed=5) for _ in range(2))
    assert digest(first) == digest(again)
    assert list(first.removed.values()) == [4]
    assert first.parameters == (27 * 4 + 4) + 4 * 4 + (4 * 3 + 3)
    assert first.original_parameters == built.parameters
    assert [layer for layer, _ in first.left_alone] == ["dense"]
    assert first.notes == ("fine-tuned with loss sparse_categorical_crossentropy",)
    assert len(first.history) == 4
    assert first.history[-1] < 0.8 * first.history[0]


@pytest.mark.slow
def test_training_that_diverges_is_reported_with_epoch_and_rate(built: Trained, data: Path, tmp_path: Path) -> None:
    wanted = FineTuneRequest(data, epochs=2, learning_rate=1e30)
    with pytest.raises(ConversionError, match=r"diverged in epoch 1/2.*1e\+30; lower learning_rate"):
        prune(built.path, tmp_path, fine_tune=wanted)


@pytest.mark.slow
def test_a_full_disk_is_reported(built: Trained, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
    try:
        with pytest.raises(OutputError, match="no space for temporary files"):
            prune(built.path, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("lambda.keras", UnsupportedModelError, r"layer 'doubler' \(Lambda\).*--trust-model-code"),
        ("lambda.h5", UnsupportedModelError, r"layer 'doubler' \(Lambda\).*--trust-model-code"),
        ("own_class.keras", UnsupportedModelError, r"layer 'mine' \(Own\).*not part of Keras"),
        ("plain", UnsupportedModelError, "a SavedModel cannot be pruned.*use .h5 or .keras"),
        ("small.weights.h5", InvalidModelError, "only weights"),
    ],
)
def test_what_cannot_be_pruned_is_refused(
    models: Path, tmp_path: Path, name: str, kind: type[EdgetoolError], said: str
) -> None:
    with pytest.raises(kind, match=said):
        prune(models / name, tmp_path)


def test_a_tflite_file_cannot_be_pruned(tmp_path: Path) -> None:
    (tmp_path / "a.tflite").write_bytes(b"\0\0\0\0TFL3")
    with pytest.raises(UnsupportedModelError, match=r"a .tflite file cannot be pruned.*use .h5 or .keras"):
        prune(tmp_path / "a.tflite", tmp_path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"level": 1.0}, "level"),
        ({"level": -0.1}, "level"),
        ({"level": float("nan")}, "level"),
        ({"method": "l3"}, "use l1 or batch-norm"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**32}, "seed"),
    ],
)
def test_impossible_pruning_is_wrong_usage(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        PruneRequest(Path("a.keras"), **{"level": 0.5, **options})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epochs": 0}, "epochs"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"learning_rate": float("inf")}, "learning_rate"),
        ({"batch_size": 0}, "batch_size"),
        ({"mean": (1.0,), "scale": (1.0,)}, "are mutually exclusive"),
        ({"std": (0.0,)}, "--std"),
    ],
)
def test_impossible_training_is_wrong_usage(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        FineTuneRequest(Path("a.npz"), **options)


def test_missing_files_are_reported_before_a_process_starts(tmp_path: Path) -> None:
    (tmp_path / "a.keras").touch()
    with pytest.raises(UsageError, match=r"b\.keras"):
        prune(tmp_path / "b.keras", tmp_path)
    with pytest.raises(CalibrationError, match=r"b\.npz"):
        prune(tmp_path / "a.keras", tmp_path, fine_tune=FineTuneRequest(tmp_path / "b.npz"))
    with pytest.raises(UsageError, match=r"blocks\.py"):
        build_model(
            BuildRequest(tmp_path / "a.keras", "f", (tmp_path / "blocks.py",)), workdir=tmp_path, limits=ProcessLimits()
        )
