"""Files of Keras 2, loaded by Keras 3: the outputs against those of tf_keras, which made them."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetool.convert.load_keras import LoadedKeras, checked_config, import_libraries, load_keras_file
from edgetool.convert.source import read_model_file
from tests.convert.legacy_models import MODELS, inputs_of, names_of, shake

tf_keras = pytest.importorskip("tf_keras", reason="only tf_keras writes files of Keras 2")
KERAS = import_libraries()[1]
OLD_FILES = sorted((Path(__file__).parent / "legacy_files").glob("*.keras"))
# Of the largest output. Mixed precision becomes float32, which is more exact than what tf_keras computes.
TOLERANCE = {"half": 2e-3}
NOT_COMPARED = {
    *("AbstractRNNCell", "InputLayer", "InputSpec", "Wrapper"),  # nothing of their own to compute
    *("GRUCell", "LSTMCell", "SimpleRNNCell", "StackedRNNCells"),  # in rnn_of_cells
    *("Lambda", "DenseFeatures", "HashedCrossing", "Hashing", "IntegerLookup", "StringLookup", "TextVectorization"),
    *("LocallyConnected1D", "LocallyConnected2D"),  # loaded by tf_keras
    *("RandomHeight", "RandomWidth", "ThresholdedReLU"),  # replaced, in test_legacy
    "SpectralNormalization",  # tf_keras 2.21 cannot build it
}


def load(path: Path, workdir: Path, **options: Any) -> LoadedKeras:
    source = read_model_file(path)
    config, _ = checked_config(source, options.pop("trust_model_code", False))
    assert config is not None
    return load_keras_file(KERAS, source, config, workdir, trust_model_code=False, **options)


def outputs(model: Any, arrays: list[Any]) -> list[Any]:
    given = arrays[0] if len(arrays) == 1 else arrays
    if isinstance(getattr(model, "input", None), dict):
        given = dict(zip([tensor.name for tensor in model.inputs], arrays, strict=True))
    results = model(given, training=False)
    if isinstance(results, dict):
        return [np.asarray(results[name]) for name in sorted(results)]
    return [np.asarray(result) for result in (results if isinstance(results, list | tuple) else [results])]


@pytest.fixture(autouse=True)
def fresh() -> None:
    tf_keras.backend.clear_session()
    KERAS.backend.clear_session()


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_keras_2_computes_the_same_from_both_formats(name: str, tmp_path: Path) -> None:
    made = MODELS[name](tf_keras)
    shake(made)
    arrays = inputs_of(made)
    fixed = made.inputs[0].shape[0] is not None
    wanted = outputs(made, [np.concatenate([array, array]) for array in arrays] if fixed else arrays)
    for suffix in ("h5", "keras"):
        path = tmp_path / f"made.{suffix}"
        made.save(path)
        loaded = load(path, tmp_path)
        assert loaded.keras is KERAS
        rows = [slice(row, row + 1) for row in range(len(arrays[0]))] if fixed else [slice(None)]
        for row in rows:
            for of, got, want in zip(
                names_of(name) * 9, outputs(loaded.model, [array[row] for array in arrays]), wanted, strict=False
            ):
                limit = TOLERANCE.get(name, 1e-5) * max(1.0, np.abs(want).max())
                assert got.shape == want[row].shape, of
                np.testing.assert_allclose(got, want[row], rtol=0, atol=limit, err_msg=f"{of} from {path.name}")


def test_names_cover_what_keras_2_had() -> None:
    """A layer that is left out of the table would never be compared."""
    compared = [name.replace("_", "") for model in MODELS for name in names_of(model)]
    public = {name for name in dir(tf_keras.layers) if isinstance(getattr(tf_keras.layers, name), type)}
    plain = {name for name in public if not re.search("Convolution|AvgPool|GlobalMaxPool[123]|MaxPool[123]", name)}
    missing = {name for name in plain if not any(name.lower() in one for one in compared)}
    assert missing == NOT_COMPARED


@pytest.mark.slow
@pytest.mark.parametrize("path", OLD_FILES, ids=lambda path: path.stem)
def test_real_files_of_old_releases_compute_what_they_did(path: Path, tmp_path: Path) -> None:
    """Files that these releases wrote; from 2.12 to 2.14 they counted layers with weights twice."""
    recorded = np.load(path.with_suffix(".npz"))
    arrays = [recorded[name] for name in sorted(recorded) if name.startswith("x")]
    wanted = [recorded[name] for name in sorted(recorded) if name.startswith("y")]
    with zipfile.ZipFile(path) as archive:
        assert path.stem.removeprefix("keras_") in archive.read("metadata.json").decode()
    got = outputs(load(path, tmp_path).model, arrays)
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


def test_there_are_old_files() -> None:
    assert [path.stem for path in OLD_FILES] == [f"keras_{version}" for version in ("2.12.0", "2.13.1", "2.15.0")]
