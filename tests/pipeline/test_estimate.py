"""Estimates of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetool.model.writer import write_model
from edgetool.pipeline.estimate import estimate_file
from edgetool.pipeline.estimate_request import EstimateRequest
from edgetool.target.load import load_target
from tests.memory.account_net import Net
from tests.pipeline.order_models import tangle


def test_the_search_for_a_plan_ends_in_time_and_tells(tmp_path: Path) -> None:
    path = tmp_path / "tangle.tflite"
    path.write_bytes(write_model(tangle(60)))
    (report,) = estimate_file(path, [load_target("cortex-m7")], request=EstimateRequest(time_limit=1e-9))
    told = {finding.rule: finding.message for finding in report.findings}
    assert "edgetool plan" in told["search-cut-short"]


@pytest.mark.parametrize(("target", "gives_up"), [("cortex-m55", True), ("cortex-m4", False)])
def test_a_kernel_that_leaves_its_output_unwritten_is_told(tmp_path: Path, target: str, gives_up: bool) -> None:
    """Real TFLM for the Cortex-M55 gives what lay in the arena for this row of three windows that overlap the end."""
    net = Net(1)
    x = net.arena(1, 1, 15, 12)
    weights = net.filter(8, 1, 7, 12, like=x)
    y = net.op("CONV_2D", [x, weights, net.biases(8, like=x)], 1, 1, 3, 8, padding="VALID", stride_h=1, stride_w=3)
    path = tmp_path / "row.tflite"
    path.write_bytes(write_model(net.model([x], [y])))
    (report,) = estimate_file(path, [load_target(target)])
    found = {finding.rule: finding.level for finding in report.findings}
    assert (found.get("kernel-gives-up") == "error") == gives_up
