"""A tiny model and data for it: `python models.py DIRECTORY` writes the model, in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SHAPE, CLASSES = (8, 8, 1), 3
MODEL = "tiny.h5"
BUILDER = """
import keras
from helpers import last

def build(width=4, side=8):
    return keras.Sequential(
        [
            keras.Input((side, side, 1), name="picture"),
            keras.layers.Conv2D(width, 3, padding="same", activation="relu", name="first"),
            keras.layers.GlobalAveragePooling2D(),
            last(3),
        ]
    )

def broken(width=4):
    raise ValueError(f"no model of width {width}")
"""
HELPERS = """
import keras

def last(classes):
    return keras.layers.Dense(classes, activation="softmax", name="scores")
"""


def tiny_model(folder: Path) -> Path:
    """A file of a small network for pictures of SHAPE; skips the test without the extra `convert`."""
    for name in ("tensorflow", "keras", "h5py", "ai_edge_litert"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name} (the extra 'convert')")
    environment = {"KERAS_BACKEND": "tensorflow", "KERAS_HOME": str(folder), "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        [sys.executable, __file__, str(folder)], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / MODEL


def tiny_data(folder: Path) -> dict[str, Path]:
    """Files calibration.npz (x), evaluation.npz and training.npz (x, y) for it, by their names' stems."""
    rng = np.random.default_rng(7)
    files = {name: folder / f"{name}.npz" for name in ("calibration", "evaluation", "training")}
    for name, path in files.items():
        x = rng.normal(size=(20, *SHAPE)).astype(np.float32)
        labels = {} if name == "calibration" else {"y": rng.integers(0, CLASSES, 20)}
        np.savez(path, x=x, **labels)
    return files


def tiny_builder(folder: Path) -> Path:
    """model.py, whose build(width, side) makes a model, and helpers.py beside it, which it imports."""
    (folder / "helpers.py").write_text(HELPERS)
    (folder / "model.py").write_text(BUILDER)
    return folder / "model.py"


def _write(folder: Path) -> None:
    import keras

    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input(SHAPE, name="picture"),
            keras.layers.Conv2D(8, 3, padding="same", strides=2, activation="relu", name="first"),
            keras.layers.Conv2D(8, 3, padding="same", activation="relu", name="second"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(CLASSES, activation="softmax", name="scores"),
        ]
    )
    model.save(folder / MODEL)


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
