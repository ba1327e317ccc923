"""What parent and child agree on: where they leave things in the work directory, and a step's name."""

from __future__ import annotations

from pathlib import Path

# The step in which only the file itself can make the child die.
READING = "reading the model"
TFLITE = "converted.tflite"
LABELS = "labels.npy"
INPUT = "input"
OUTPUT = "output"
EVALUATION_INPUT = "evaluation-input"
EVALUATION_OUTPUT = "evaluation-output"


def array_files(workdir: Path, role: str, count: int) -> list[Path]:
    """The .npy files of all inputs or outputs, numbered as the float model has them."""
    return [workdir / f"{role}-{index}.npy" for index in range(count)]
