"""Where parent and child leave things for each other in the work directory."""

from __future__ import annotations

from pathlib import Path

TFLITE = "converted.tflite"
LABELS = "labels.npy"
INPUT = "input"
OUTPUT = "output"
EVALUATION_INPUT = "evaluation-input"
EVALUATION_OUTPUT = "evaluation-output"


def array_files(workdir: Path, role: str, count: int) -> list[Path]:
    """The .npy files of all inputs or outputs, numbered as the float model has them."""
    return [workdir / f"{role}-{index}.npy" for index in range(count)]
