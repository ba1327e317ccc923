"""Fixtures of this room's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetool.sweep.store import Store, open_store
from tests.sweep.models import tiny_builder, tiny_data, tiny_model
from tests.sweep.spec_texts import BOARD


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tiny.h5, model.py (a builder) with helpers.py, and calibration, evaluation and training.npz."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_data(folder)
    tiny_builder(folder)
    tiny_model(folder)
    return folder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sweep.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with open_store(path, create=True) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("m.h5", "e.npz", "t.npz", "x.csv", "build.py", "blocks.py", "m.tflite"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "sub").mkdir()
    (tmp_path / "saved").mkdir()
    (tmp_path / "sub" / "my-board.toml").write_text(BOARD)
    return tmp_path
