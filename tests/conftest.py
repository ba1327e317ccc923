"""Fixtures shared by every room's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real models and measurements; a user's checkout has none."""
    if not (SHARED / "data").is_dir():
        pytest.skip("needs the folder ../shared with real models")
    return SHARED


def model_files() -> list[Path]:
    """Every real .tflite file at hand, for parametrized tests; empty where the folder is absent."""
    data = SHARED / "data"
    return sorted([*data.glob("models/*/*.tflite"), *data.glob("latency/zoo/*.tflite")])
