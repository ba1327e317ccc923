"""What `plan` and `plan --explain` say: lines fit the terminal, and no part can be mistaken for another."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetool.cli.plan import explain_view, tensor_map
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline.plan import plan_model
from edgetool.report.document import PlanInfo, PlannedTensor
from edgetool.target.load import load_target
from tests.model.builders import Builder, if_model

NAME = "ACustomOperatorWithALongName"
DESCRIBED = f'[[operator]]\nname = "{NAME}"\npersistent = [16]\nscratch = [320, 80]\n'
# Columns that lines without anything to cut or wrap need.
COLUMNS = 80


def custom_model() -> Model:
    build = Builder()
    x = build.activation(
        [1, 4, 4, 2], name="a tensor with a name that is as long as those that converters make of layers"
    )
    y = build.activation([1, 4, 4, 2])
    build.operator("CUSTOM", [x], [y], custom_code=NAME)
    return build.model([x], [y])


def explained(folder: Path, model: Model, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    (folder / "model.tflite").write_bytes(write_model(model))
    (folder / "ops.toml").write_text(DESCRIBED)
    return explain_view(
        plan_model(folder / "model.tflite", load_target("cortex-m7"), custom_operators=folder / "ops.toml")
    )


def test_several_scratch_buffers_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = " ".join(" ".join(explained(tmp_path, custom_model(), monkeypatch)).split())
    assert "head: 320 B scratch (buffer 0), 80 B scratch (buffer 1)" in shown


def test_the_head_fits_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = explained(tmp_path, custom_model(), monkeypatch)
    assert any("scratch: buffer 0" in line and NAME in line for line in lines)
    assert max(map(len, lines)) <= COLUMNS + len("\x1b[1m\x1b[0m")


def test_tensors_of_later_subgraphs_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = explained(tmp_path, if_model(), monkeypatch)
    head = lines[next(i for i, line in enumerate(lines) if "at its peak" in line) :]
    assert any("subgraph 1: tensor 0" in line for line in head)
    assert any(line.split()[1:3] == ["tensor", "0:"] for line in head)


def test_the_map_of_a_model_without_operators_names_no_range() -> None:
    header, row = tensor_map(PlanInfo((0,), (PlannedTensor(0, 0, "x", 0, 16, 0, -1),)), 40)
    assert "-1" not in header
    assert "never" in row
