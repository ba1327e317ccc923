"""What a module of these tests, run as a process of its own, leaves in a folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def leave(module: str, folder: Path) -> Path:
    """Run `python -m MODULE FOLDER`; the folder. It needs TensorFlow."""
    pytest.importorskip("tensorflow", reason="converting needs TensorFlow")
    done = subprocess.run(
        [sys.executable, "-m", module, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def reported(folder: Path, name: str) -> dict[str, Any]:
    """What it wrote into NAME.json."""
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return found
