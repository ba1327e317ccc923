"""The planned file, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetool.model.writer import write_model
from edgetool.pipeline.plan import plan_model
from edgetool.target.load import load_target
from tests.model.builders import conv_model


@pytest.mark.parametrize(
    ("target", "written", "warned"), [(None, True, True), (None, False, False), ("cortex-m7", True, False)]
)
def test_a_plan_written_for_no_build_is_warned_of(
    tmp_path: Path, target: str | None, *, written: bool, warned: bool
) -> None:
    path = tmp_path / "small.tflite"
    path.write_bytes(write_model(conv_model()))
    output = tmp_path / "planned.tflite" if written else None
    report = plan_model(path, None if target is None else load_target(target), output=output)
    assert ("plan-for-no-build" in [finding.rule for finding in report.findings]) == warned
