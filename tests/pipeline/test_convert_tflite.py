"""A .tflite through the main job, which needs no TensorFlow."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetool.convert.request import ConvertRequest
from edgetool.errors import UsageError
from edgetool.model.writer import write_model
from edgetool.pipeline.convert import convert_file
from edgetool.target.load import load_target
from tests.graphs import chain


def test_a_plan_that_was_not_wanted_is_not_said_to_be_no_better(tmp_path: Path) -> None:
    path = tmp_path / "small.tflite"
    path.write_bytes(write_model(chain([16, 32])))
    made = convert_file(ConvertRequest(path), load_target("cortex-m7"), output=tmp_path / "out", offline_plan=False)
    assert [finding.rule for finding in made.report.findings] == ["no-plan"]


def test_a_plan_made_anew_and_none_of_ours_exclude_each_other(tmp_path: Path) -> None:
    path = tmp_path / "small.tflite"
    path.write_bytes(write_model(chain([16, 32])))
    with pytest.raises(UsageError, match="--no-offline-plan"):
        convert_file(ConvertRequest(path), load_target("cortex-m7"), offline_plan=False, replan=True)
