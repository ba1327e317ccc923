from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.builders import conv_model_bytes


@pytest.fixture(scope="module")
def tflite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("a folder") / "my model.tflite"
    path.write_bytes(conv_model_bytes())
    return path
