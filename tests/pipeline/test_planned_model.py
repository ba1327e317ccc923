"""A model planned for a target, as it is delivered."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetool.convert.request import ConvertRequest
from edgetool.errors import UnsupportedModelError
from edgetool.model.edit import renumbered
from edgetool.model.reader import read_model
from edgetool.model.types import Model
from edgetool.model.writer import write_model
from edgetool.pipeline import planning
from edgetool.pipeline.convert import convert_file
from edgetool.pipeline.delivery import conversion_findings
from edgetool.pipeline.planning import planned_for
from edgetool.pipeline.source import Source
from edgetool.report.document import QuantizationInfo
from edgetool.target.load import load_target
from tests.graphs import chain
from tests.model.builders import branches_model

MODELS = [branches_model(), chain([32, 32, 32])]


def source_of(model: Model) -> Source:
    blob = write_model(model)
    return Source("model.tflite", blob, read_model(blob))


@pytest.mark.parametrize("target", ["cortex-m7", "cortex-m0plus"])
@pytest.mark.parametrize("model", MODELS)
def test_the_figures_are_those_of_the_file_that_convert_writes(tmp_path: Path, model: Model, target: str) -> None:
    source = source_of(model)
    (tmp_path / "model.tflite").write_bytes(source.blob)
    written = convert_file(ConvertRequest(tmp_path / "model.tflite"), load_target(target), output=tmp_path / "out")
    made = planned_for(source, load_target(target))
    assert made.source.blob == (tmp_path / "out" / "model.tflite").read_bytes()
    assert written.report.arena is not None
    assert made.analysis.plan.account is not None
    assert made.analysis.plan.account.bytes == written.report.arena.bytes
    assert made.unwritten == ()


def test_a_model_made_anew_is_numbered_as_it_is_written_and_another_as_it_came() -> None:
    source = source_of(branches_model())
    anew = planned_for(source, load_target("cortex-m7"))
    came = planned_for(source, load_target("cortex-m7"), made_anew=False)
    assert anew.source.blob == came.source.blob
    assert came.analysis.plan.moved > 0
    assert anew.analysis.plan.moved == 0
    assert anew.analysis.plan.order == tuple(range(len(source.model.main.operators)))
    assert read_model(anew.source.blob) == anew.source.model == renumbered(came.source.model)
    assert anew.analysis.plan.account == planned_for(anew.source, load_target("cortex-m7")).analysis.plan.account


def test_where_no_plan_can_be_written_the_file_is_as_it_was_and_why_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> Source:
        raise UnsupportedModelError("a field that nobody knows")

    monkeypatch.setattr(planning, "planned_source", refuse)
    source = source_of(branches_model())
    made = planned_for(source, load_target("cortex-m7"))
    assert made.source is source
    assert made.analysis.plan.offsets is None
    assert [(item.rule, "a field that nobody knows" in item.message) for item in made.unwritten] == [
        ("plan-not-written", True)
    ]


@pytest.mark.parametrize(
    ("scheme", "calibrated", "rules"),
    [
        ("int8", False, ["uncalibrated", "conversion"]),
        ("int16x8", True, ["conversion"]),
        ("float32", False, ["conversion"]),
        ("float16", False, ["conversion"]),
    ],
)
def test_ranges_that_rest_on_no_data_are_told_of_what_has_ranges(
    scheme: str, calibrated: bool, rules: list[str]
) -> None:
    found = conversion_findings(QuantizationInfo(scheme, calibrated, 100), ("a note",))
    assert [item.rule for item in found] == rules
    assert found[-1].message == "a note"
