"""Every hostile ONNX model is refused by name; no file beside the model's directory is opened."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from edgetool.convert.onnx_file import read_onnx
from edgetool.errors import EdgetoolError
from tests.attacks.onnx_models import ATTACKS, external, model

pytest.importorskip("onnx", reason="reads the files with it")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with the files that attacks name: data, a link out of it, and a pipe."""
    inner = tmp_path / "model"
    inner.mkdir()
    (tmp_path / "secret").write_bytes(bytes(32))
    (inner / "data").write_bytes(bytes(32))
    (inner / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(inner / "pipe")
    return inner


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused(name: str, directory: Path) -> None:
    path = directory / "model.onnx"
    path.write_bytes(ATTACKS[name].make())
    with pytest.raises(EdgetoolError) as caught:
        read_onnx(path)
    assert caught.value.exit_code in (2, 3)
    assert re.search(ATTACKS[name].message, str(caught.value)), str(caught.value)
    assert str(caught.value).isprintable()
    assert "model" in (caught.value.where or "")


def test_weights_in_a_file_beside_the_model_are_read(directory: Path) -> None:
    path = directory / "model.onnx"
    path.write_bytes(model(change=external(location="data", length="32")).SerializeToString())
    tensor = read_onnx(path).graph.initializer[0]
    assert (tensor.raw_data, tensor.data_location, len(tensor.external_data)) == (bytes(32), 0, 0)
