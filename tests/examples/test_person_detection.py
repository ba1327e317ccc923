"""The person detector's files are what examples/README.md says, and what the script makes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from edgetool.memory.planner import PlanRequest
from edgetool.pipeline.estimate import estimate_file
from edgetool.pipeline.plan import plan_model
from edgetool.pipeline.targets import resolve_target
from tests.in_process import command_line

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FOLDER = EXAMPLES / "person_detection"
README = (EXAMPLES / "README.md").read_text(encoding="utf-8")
PARAMETERS = 37_506
BOARD = "nucleo-l476rg"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """make_model.py; it imports Keras only when it builds the network."""
    spec = importlib.util.spec_from_file_location("make_person_model", FOLDER / "make_model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arrays(name: str) -> dict[str, np.ndarray]:
    with np.load(FOLDER / name, allow_pickle=False) as file:
        return dict(file)


def test_the_data_are_pixels_of_both_classes(script: ModuleType) -> None:
    calibration, evaluation = arrays("calibration.npz"), arrays("evaluation.npz")
    assert {name: (array.shape, array.dtype.name) for name, array in calibration.items()} == {
        "image": ((50, 96, 96, 1), "uint8")
    }
    assert {name: (array.shape, array.dtype.name) for name, array in evaluation.items()} == {
        "x": ((160, 96, 96, 1), "uint8"),
        "y": ((160,), "uint8"),
    }
    for data in (calibration["image"], evaluation["x"]):
        assert (data.min(), data.max()) == (0, 255)
        assert len(np.unique(data)) == script.SHADES
    assert np.bincount(evaluation["y"]).tolist() == [80, 80]


def test_no_sample_is_in_two_sets(script: ModuleType) -> None:
    training, _ = script.dataset(script.SEEDS["training"], 200)
    sets = [training, arrays("calibration.npz")["image"], arrays("evaluation.npz")["x"]]
    samples = [sample.tobytes() for samples in sets for sample in samples]
    assert len(set(samples)) == len(samples)


@pytest.mark.parametrize(("name", "key"), [("calibration", "image"), ("evaluation", "x")])
def test_the_script_makes_the_committed_data(script: ModuleType, name: str, key: str) -> None:
    committed = arrays(f"{name}.npz")[key][:24]
    made, _ = script.dataset(script.SEEDS[name], len(committed))
    other = np.abs(made.astype(int) - committed.astype(int)) > 0  # a rounding of another machine, here and there
    assert other.mean() < 1e-3


def test_a_person_is_what_makes_the_difference(script: ModuleType) -> None:
    """Both classes are drawn alike but for the figure: the means of their pixels tell nothing."""
    data = arrays("evaluation.npz")
    means = [data["x"][data["y"] == label].mean() for label in (0, 1)]
    assert abs(means[0] - means[1]) < 20
    alike = [script.photograph(np.random.default_rng(7), label) for label in (0, 0)]
    assert (alike[0] == alike[1]).all()


def test_the_model_file_is_the_scripts_network(script: ModuleType) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(FOLDER / "person_detection.h5", "r") as file:
        config = json.loads(file.attrs["model_config"])
        assert "optimizer_weights" not in file
        counts: list[int] = []
        file["model_weights"].visititems(
            lambda _, item: counts.append(item.size) if isinstance(item, h5py.Dataset) else None
        )
    layers = [(layer["class_name"], layer["config"]) for layer in config["config"]["layers"]]
    assert (layers[0][1]["name"], layers[0][1]["batch_shape"]) == ("image", [None, *script.INPUT_SHAPE])
    assert layers[-1][1]["units"] == len(script.LABELS)
    depthwise = [settings["strides"] for name, settings in layers if name == "DepthwiseConv2D"]
    pointwise = [settings["filters"] for name, settings in layers if name == "Conv2D"]
    assert depthwise == [[stride, stride] for _, stride in script.BLOCKS]
    assert pointwise == [8, *(channels for channels, _ in script.BLOCKS)]
    assert sum(counts) == PARAMETERS


def test_the_readme_names_every_file_and_figure() -> None:
    section = README.partition("## person_detection")[2].partition("\n## ")[0]
    assert [path.name for path in FOLDER.iterdir() if path.is_file() and f"`{path.name}`" not in section] == []
    (found,) = estimate_file(FOLDER / "person_detection.tflite", [resolve_target(BOARD)])
    assert found.arena is not None
    assert found.memory is not None
    assert found.memory.arena_fits
    assert found.memory.model_fits
    for figure in (PARAMETERS, found.arena.bytes, found.memory.sram_bytes):
        assert f"{figure:,}" in section


def test_the_files_are_small() -> None:
    limits = {".h5": 400_000, ".npz": 300_000, ".tflite": 100_000, ".py": 20_000}
    sizes = {path.name: path.stat().st_size for path in FOLDER.iterdir() if path.is_file()}
    assert [name for name, size in sizes.items() if size > limits[Path(name).suffix]] == []


@pytest.mark.slow
def test_the_tflite_is_the_output_of_convert_with_the_stated_accuracy(tmp_path: Path) -> None:
    """Another TensorFlow may write other bytes, but no other network."""
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("needs the extra 'convert'")
    data = ("--calibration", FOLDER / "calibration.npz", "--evaluate", FOLDER / "evaluation.npz")
    command = ("convert", FOLDER / "person_detection.h5", "-t", BOARD, *data, "-o", tmp_path / "out", "-q")
    result = command_line(*command, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    converted = json.loads((tmp_path / "out" / "person_detection.json").read_text(encoding="utf-8"))
    # The file contains the plan with which it was committed.
    replanned = PlanRequest(file_plan="replace")
    committed = plan_model(FOLDER / "person_detection.tflite", resolve_target(BOARD), request=replanned)
    assert committed.arena is not None
    assert converted["arena"]["bytes"] == committed.arena.bytes
    assert converted["model"]["parameters"] == committed.model.parameters
    assert converted["model"]["operators"] == committed.model.operators
    assert abs(converted["model"]["output"]["bytes"] - committed.model.bytes) < 2000
    for accuracy in converted["quantization"]["accuracy"].values():
        assert accuracy > 0.9
        assert f"{100 * accuracy + 1e-9:.1f} %" in README
