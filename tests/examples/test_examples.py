"""The committed example files are what examples/README.md says, and what the script makes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FOLDER = EXAMPLES / "keyword_spotting"
PARAMETERS = 12_694


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """make_model.py; it imports Keras only when it trains."""
    spec = importlib.util.spec_from_file_location("make_model", FOLDER / "make_model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arrays(name: str) -> dict[str, np.ndarray]:
    with np.load(FOLDER / name, allow_pickle=False) as file:
        return dict(file)


def test_calibration_data() -> None:
    data = arrays("calibration.npz")
    assert {name: (array.shape, array.dtype.name) for name, array in data.items()} == {
        "mfcc": ((100, 49, 10, 1), "float16")
    }
    assert np.isfinite(data["mfcc"]).all()
    assert np.ptp(data["mfcc"]) > 5


def test_evaluation_data(script: ModuleType) -> None:
    data = arrays("evaluation.npz")
    assert {name: (array.shape, array.dtype.name) for name, array in data.items()} == {
        "x": ((300, 49, 10, 1), "float16"),
        "y": ((300,), "uint8"),
    }
    assert np.isfinite(data["x"]).all()
    assert np.bincount(data["y"]).tolist() == [50] * len(script.LABELS)


def test_no_sample_is_in_two_sets(script: ModuleType) -> None:
    training, _ = script.dataset(script.SEEDS["training"], 60)
    sets = [training, arrays("calibration.npz")["mfcc"], arrays("evaluation.npz")["x"]]
    samples = [sample.tobytes() for samples in sets for sample in samples]
    assert len(set(samples)) == len(samples)


@pytest.mark.parametrize(("name", "key"), [("calibration", "mfcc"), ("evaluation", "x")])
def test_the_script_makes_the_committed_data(script: ModuleType, name: str, key: str) -> None:
    committed = arrays(f"{name}.npz")[key][:24]
    made, _ = script.dataset(script.SEEDS[name], len(committed))
    np.testing.assert_allclose(made.astype(float), committed.astype(float), atol=0.02)


def test_model_file() -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(FOLDER / "keyword_spotting.h5", "r") as file:
        config = json.loads(file.attrs["model_config"])
        assert "optimizer_weights" not in file
        assert str(file.attrs["keras_version"]).startswith("3.")
        counts: list[int] = []
        file["model_weights"].visititems(
            lambda _, item: counts.append(item.size) if isinstance(item, h5py.Dataset) else None
        )
    layers = config["config"]["layers"]
    assert layers[0]["config"]["name"] == "mfcc"
    assert layers[0]["config"]["batch_shape"] == [None, 49, 10, 1]
    assert layers[-1]["config"]["units"] == 6
    assert sum(counts) == PARAMETERS


def test_the_readme_names_every_file_and_figure() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    files = [path.name for path in FOLDER.iterdir() if path.is_file()]
    assert [name for name in files if f"`{name}`" not in text] == []
    assert f"{PARAMETERS:,}" in text


def test_the_files_are_small() -> None:
    assert (FOLDER / "keyword_spotting.h5").stat().st_size < 300_000
    files = [
        path for path in EXAMPLES.rglob("*") if path.is_file() and "build" not in path.parts[len(EXAMPLES.parts) :]
    ]
    assert sum(path.stat().st_size for path in files) < 2_750_000
