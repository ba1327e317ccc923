"""Estimates of files."""

from __future__ import annotations

from pathlib import Path

from edgetool.model.writer import write_model
from edgetool.pipeline.estimate import estimate_file
from edgetool.pipeline.estimate_request import EstimateRequest
from edgetool.target.load import load_target
from tests.pipeline.order_models import tangle


def test_the_search_for_a_plan_ends_in_time_and_tells(tmp_path: Path) -> None:
    path = tmp_path / "tangle.tflite"
    path.write_bytes(write_model(tangle(60)))
    (report,) = estimate_file(path, [load_target("cortex-m7")], request=EstimateRequest(time_limit=1e-9))
    told = {finding.rule: finding.message for finding in report.findings}
    assert "edgetool plan" in told["search-cut-short"]
