"""The judge of the determinism benchmark: what it must not let pass, and what it remembers."""

from __future__ import annotations

import itertools
import json
import zipfile
from pathlib import Path

import pytest
from benchmarks import determinism
from benchmarks.determinism import Case, Outcome, cases, differences, row, run, stored

CASE = Case("gru", "unrolled")
GOOD = Outcome(0, {"model.tflite": "a", "model.h": "b"})


@pytest.mark.parametrize(
    ("other", "differing"),
    [
        (Outcome(0, {"model.tflite": "a", "model.h": "b"}), ()),
        (Outcome(0, {"model.tflite": "c", "model.h": "b"}), ("model.tflite",)),
        (Outcome(0, {"model.tflite": "a"}), ("model.h",)),
        (Outcome(4, {}, "refused"), ("model.h", "model.tflite", "exit code", "message")),
    ],
)
def test_each_difference_is_named(other: Outcome, differing: tuple[str, ...]) -> None:
    assert differences([GOOD, GOOD, other]) == (1 + bool(differing), differing)


def test_a_row_says_how_many_files_there_were() -> None:
    assert row(CASE, [GOOD] * 3).split() == ["gru", "unrolled", "3", "1", "equal"]
    assert row(Case("conv2d"), [Outcome(3, {}, "no")] * 2).split() == ["conv2d", "-", "2", "1", "equal", "refusal"]
    assert "DIFFERENT: model.h" in row(CASE, [GOOD, Outcome(0, {"model.tflite": "a"})])


@pytest.fixture
def models(tmp_path: Path) -> Path:
    for name, kind in {"gru": "GRU", "conv2d": "Conv2D"}.items():
        (tmp_path / name).mkdir()
        with zipfile.ZipFile(tmp_path / name / f"{name}.keras", "w") as archive:
            archive.writestr("config.json", json.dumps({"class_name": kind}))
    return tmp_path


def test_recurrent_models_are_converted_in_each_form(models: Path) -> None:
    wanted = cases(["gru", "conv2d"], models, ("auto", "fused"), 3, 20)
    assert wanted == {Case("gru", "auto"): 20, Case("gru", "fused"): 20, Case("conv2d"): 3}
    assert cases(["gru", "conv2d"], models, ("auto",), 3, 0) == {Case("conv2d"): 3}


def test_a_stopped_run_continues(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()

    def convert(case: Case, models: Path, kept: Path) -> Outcome:
        return Outcome(0, {"model.tflite": str(next(numbers))})

    monkeypatch.setattr(determinism, "convert", convert)
    folder = models / "state"
    ((_, first),) = run({CASE: 2}, models, folder, 1)
    results = folder / "results.jsonl"
    results.write_text(results.read_text() + '{"case": {"mod')  # killed while it wrote
    ((_, second),) = run({CASE: 3}, models, folder, 1)
    assert second[:2] == first
    assert [outcome.files["model.tflite"] for outcome in second] == ["0", "1", "2"]
    assert stored(results) == {CASE: second}
    ((_, fewer),) = run({CASE: 1}, models, folder, 1)
    assert fewer == first[:1]
