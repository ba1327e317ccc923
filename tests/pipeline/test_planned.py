"""A plan that is already in the file: replaced when it is asked for, however broken it is."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from edgetool.errors import InvalidModelError
from edgetool.model.edit import with_metadata
from edgetool.model.metadata import METADATA_NAME, decode_plan
from edgetool.model.reader import read_model
from edgetool.model.writer import write_model
from edgetool.pipeline.plan import plan_model
from edgetool.target.load import load_target
from tests.model.builders import conv_model

PAYLOADS = {
    "nothing": b"",
    "the header alone": struct.pack("<3i", 1, 1, 0),
    "too few": struct.pack("<4i", 1, 1, 1, 0),
    "a wrong count": struct.pack("<103i", 1, 1, 100, *range(100)),
}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_replan_replaces_a_plan_of_the_wrong_length(payload: bytes, tmp_path: Path) -> None:
    path, output, target = tmp_path / "wrong.tflite", tmp_path / "right.tflite", load_target("cortex-m7")
    path.write_bytes(write_model(with_metadata(conv_model(), METADATA_NAME, payload)))
    with pytest.raises(InvalidModelError, match="--replan"):
        plan_model(path, target)
    report = plan_model(path, target, output=output, replan=True)
    assert "plan-replaced" in {finding.rule for finding in report.findings}
    written = read_model(output.read_bytes())
    assert decode_plan(written) is not None or METADATA_NAME not in {entry.name for entry in written.metadata}
