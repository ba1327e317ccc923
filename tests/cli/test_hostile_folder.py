"""Files in the working directory with the names of libraries are not imported, by the command or by its child."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "keyword_spotting"
LIBRARIES = (
    *("click", "flatbuffers", "msgspec", "numpy", "ai_edge_litert", "tensorflow", "keras", "h5py", "PIL", "scipy"),
    *("torch", "litert_torch", "onnx", "onnxruntime", "jax", "absl", "google"),
)
TARGET = ("--target", "cortex-m7")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory whose packages leave a file when they are imported."""
    for name in LIBRARIES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write('{name} ')\n")
    return tmp_path


def run(folder: Path, *arguments: str | Path) -> None:
    """Run `python -m edgetool` in the folder, which an empty entry of PYTHONPATH adds to the path as well."""
    python_path = os.pathsep.join(["", *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "edgetool", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": python_path},
        capture_output=True,
        text=True,
    )
    assert not (folder / "imported").exists(), (folder / "imported").read_text()
    assert done.returncode == 0, done.stderr


def test_a_command_imports_nothing_from_the_working_directory(folder: Path) -> None:
    run(folder, "plan", EXAMPLE / "keyword_spotting.tflite", *TARGET)


@pytest.mark.slow
def test_a_conversion_imports_nothing_from_the_working_directory(folder: Path) -> None:
    pytest.importorskip("tensorflow", reason="needs the convert extra")
    run(folder, "convert", EXAMPLE / "keyword_spotting.h5", *TARGET, "--output", "out")
