"""A .tflite through the main job, which needs no TensorFlow."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetool.convert.request import ConvertRequest
from edgetool.errors import UsageError
from edgetool.model.reader import read_model
from edgetool.model.writer import write_model
from edgetool.pipeline.convert import convert_file
from edgetool.pipeline.planning import PlanRequest
from edgetool.target.load import load_target
from tests.graphs import chain
from tests.model.builders import branches_model
from tests.pipeline.order_models import tangle


def test_a_plan_that_was_not_wanted_is_not_said_to_be_no_better(tmp_path: Path) -> None:
    path = tmp_path / "small.tflite"
    path.write_bytes(write_model(chain([32, 32])))
    made = convert_file(ConvertRequest(path), load_target("cortex-m7"), output=tmp_path / "out", offline_plan=False)
    assert [finding.rule for finding in made.report.findings] == ["no-plan"]


def test_a_plan_made_anew_and_none_of_ours_exclude_each_other(tmp_path: Path) -> None:
    path = tmp_path / "small.tflite"
    path.write_bytes(write_model(chain([32, 32])))
    with pytest.raises(UsageError, match="--no-offline-plan"):
        convert_file(ConvertRequest(path), load_target("cortex-m7"), offline_plan=False, replan=True)


def test_the_model_is_written_in_the_order_that_needs_least(tmp_path: Path) -> None:
    path = tmp_path / "branches.tflite"
    path.write_bytes(write_model(branches_model()))
    made = convert_file(ConvertRequest(path), load_target("cortex-m7"), output=tmp_path / "best")
    kept = convert_file(
        ConvertRequest(path), load_target("cortex-m7"), output=tmp_path / "kept", plan=PlanRequest(order="original")
    )
    assert made.report.plan is not None
    assert made.report.arena is not None
    assert kept.report.arena is not None
    assert made.report.arena.bytes is not None
    assert kept.report.arena.bytes is not None
    assert made.report.arena.bytes < kept.report.arena.bytes
    written = read_model((tmp_path / "best" / "branches.tflite").read_bytes())
    first = branches_model().main.operators
    assert [op.outputs for op in written.main.operators] == [first[index].outputs for index in made.report.plan.order]
    assert f"ARENA_BYTES {made.report.arena.bytes}" in (tmp_path / "best" / "branches.h").read_text()


def test_an_order_for_a_file_that_is_left_as_it_is_makes_no_sense(tmp_path: Path) -> None:
    path = tmp_path / "small.tflite"
    path.write_bytes(write_model(chain([32, 32])))
    with pytest.raises(UsageError, match="--order"):
        convert_file(
            ConvertRequest(path), load_target("cortex-m7"), offline_plan=False, plan=PlanRequest(order="original")
        )


def test_a_search_cut_short_names_the_option_of_this_command(tmp_path: Path) -> None:
    path = tmp_path / "tangle.tflite"
    path.write_bytes(write_model(tangle(60)))
    request, wishes = ConvertRequest(path), PlanRequest(time_limit=1e-9)
    made = convert_file(request, load_target("cortex-m7"), output=tmp_path / "out", plan=wishes)
    told = {finding.rule: finding.message for finding in made.report.findings}
    assert "see --plan-time-limit" in told["search-cut-short"]
    left = convert_file(request, load_target("cortex-m7"), output=tmp_path / "left", plan=wishes, offline_plan=False)
    assert "search-cut-short" not in {finding.rule for finding in left.report.findings}
