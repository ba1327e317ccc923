"""Reports as values, and files of them: for what reads reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from edgetool.report.document import Accuracy, ArenaInfo, OutputQuality, QuantizationInfo, Report
from edgetool.report.json import documents, to_json
from tests.cli.estimates import report

QUALITY = QuantizationInfo("int8", True, 100, (OutputQuality("out", 31.5, 0.9991, 0.98),), Accuracy(0.97, 0.96))


def whole_report(name: str = "nucleo-l4r5zi", **changes: Any) -> Report:
    """A report with an estimate, an arena and a quantization."""
    return report(name=name, **{"quantization": QUALITY, **changes})


def arena(found: Report, **changes: Any) -> Report:
    """The report with another arena."""
    before = found.arena
    assert isinstance(before, ArenaInfo)
    return replace(found, arena=replace(before, **changes))


def write_reports(path: Path, *reports: Report) -> Path:
    """The document in a file."""
    path.write_text(to_json(documents(reports)), encoding="utf-8")
    return path
