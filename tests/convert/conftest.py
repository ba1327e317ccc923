"""The models that this room's tests convert, built once per session."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

BUILDER = Path(__file__).with_name("build_models.py")


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with every model of build_models.py."""
    for name in ("tensorflow", "keras", "h5py"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name} (the extra 'convert')")
    directory = tmp_path_factory.mktemp("models")
    done = subprocess.run(
        [sys.executable, str(BUILDER), str(directory)],
        env={**os.environ, "KERAS_BACKEND": "tensorflow", "KERAS_HOME": str(directory), "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return directory
