"""Every command reports a kernel that computes wrong outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.kernels.cases import Case

from edgetool.model.writer import write_model
from tests.in_process import captured

MESSAGE = "TRANSPOSE_CONV (operator 0) with this kernel size, stride and padding computes wrong rows"


@pytest.fixture
def decoder(tmp_path: Path) -> Path:
    path = tmp_path / "decoder.tflite"
    path.write_bytes(write_model(Case("TRANSPOSE_CONV", "int8", 1).model()))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("command", ["plan", "estimate", "verify"])
def test_the_document_contains_the_finding(command: str, decoder: Path) -> None:
    run = captured(command, str(decoder), "--target", "cortex-m7", "--json")
    findings = {item["rule"]: item for item in json.loads(run.stdout)["findings"]}
    assert findings["kernel-fault"]["level"] == "error"
    assert MESSAGE in findings["kernel-fault"]["message"]
    assert "edgetool plan --optimize" in findings["kernel-fault"]["message"]


def test_emit_reports_it_in_its_last_lines(decoder: Path, tmp_path: Path) -> None:
    run = captured("emit", str(decoder), "--target", "cortex-m7", "-o", str(tmp_path / "firmware"))
    _, found, closing = " ".join(run.stdout.split()).rpartition("Wrong results: ")
    assert found
    assert MESSAGE in closing


@pytest.mark.parametrize("form", ["text", "json", "sarif", "junit", "github", "markdown"])
def test_check_fails_in_every_form(form: str, decoder: Path) -> None:
    run = captured("check", str(decoder), "--target", "cortex-m7", "--format", form)
    assert run.returncode == 1
    assert "kernel-fault" in run.stdout
    assert "computes wrong" in " ".join(run.stdout.split())
