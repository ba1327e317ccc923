"""What a module of these tests leaves in a folder."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest


def leave(module: str, folder: Path) -> Path:
    """Do what `python -m MODULE FOLDER` does, in this process, which has TensorFlow; the folder."""
    pytest.importorskip("tensorflow", reason="converting needs TensorFlow")
    importlib.import_module(module).main(folder)
    return folder


def reported(folder: Path, name: str) -> dict[str, Any]:
    """What it wrote into NAME.json."""
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return found
