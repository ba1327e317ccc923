"""The judge of the soak: what it must not let pass."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from benchmarks.soak import Case, Outcome, breach, draw, summary
from benchmarks.zoo.catalog import BY_NAME, cheap

CASE = Case(BY_NAME["conv2d"], ("--target", "cortex-m4"), strict=False)
STRICT = Case(BY_NAME["conv2d"], ("--target", "cortex-m4", "--strict"), strict=True)
FILES = ("model.tflite", "model.json", "model.h")


@pytest.mark.parametrize(
    ("case", "code", "stderr", "files", "says"),
    [
        (CASE, 5, "a bug", (), "exit code 5"),
        (CASE, -11, "", (), "exit code -11"),
        (CASE, 4, "Traceback (most recent call last)", (), "a traceback"),
        (CASE, 4, "", (), "no message"),
        (CASE, 3, "it is damaged", ("model.h",), "files are left"),
        (CASE, 1, "it does not fit", (), "exit code 1 without --strict"),
        (CASE, 0, "", ("model.tflite", "model.json"), "missing files"),
        (CASE, 0, "", FILES, "edgetool plan refuses it"),
        (STRICT, 1, "it does not fit", (), ""),
        (CASE, 2, "no such file", (), ""),
    ],
)
def test_each_breach_is_found(
    case: Case, code: int, stderr: str, files: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    for name in files:
        (tmp_path / name).write_bytes(b"no model")
    found = breach(case, code, "", stderr, tmp_path)
    assert found.startswith(says)
    assert bool(found) == bool(says)


def test_the_same_seed_draws_the_same_cases(tmp_path: Path) -> None:
    for entry in cheap():
        (tmp_path / entry.name).mkdir()
        np.save(tmp_path / entry.name / "calibration.npy", np.ones((4, 2), np.float32))
    first, second = (
        [draw(rng, cheap(), tmp_path, tmp_path) for _ in range(50)] for rng in (random.Random(7), random.Random(7))
    )
    assert first == second
    assert len({case.options for case in first}) > 40


def test_the_summary_counts() -> None:
    outcomes = [Outcome(CASE, 0, "", ""), Outcome(STRICT, 4, "no message", ""), Outcome(CASE, 0, "", "")]
    assert summary(outcomes) == "3 conversions of 1 models: 2 with 0, 1 with 4; 1 breaches"
