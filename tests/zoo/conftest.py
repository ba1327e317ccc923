"""Models of the zoo through the whole conversion, in this process: TensorFlow is imported once for many of them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from benchmarks.zoo.catalog import BY_NAME
from benchmarks.zoo.trial import Trial, try_out

from tests.in_process import no_children

NEEDED = ("tensorflow", "keras", "tf_keras", "ai_edge_litert", "tflite_micro")
Tried = Callable[[str], Trial]


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tried]:
    """Build a model by name, convert it, run it."""
    for name in NEEDED:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name} (the extras 'convert' and 'verify', and tf-keras)")
    os.environ.update(KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    from benchmarks.zoo.files import write
    from benchmarks.zoo.rounding import rounded_sqnr

    def run(name: str) -> Trial:
        folder: Path = tmp_path_factory.mktemp(name)
        rounded = rounded_sqnr(write(BY_NAME[name], folder))
        return try_out(BY_NAME[name], folder, rounded)

    with no_children():
        yield run
