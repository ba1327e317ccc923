"""Fixtures of this room's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sweep.models import tiny_builder, tiny_data, tiny_model


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tiny.h5, model.py (a builder) with helpers.py, and calibration, evaluation and training.npz."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_data(folder)
    tiny_builder(folder)
    tiny_model(folder)
    return folder
