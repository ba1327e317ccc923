"""The estimate of a .tflite on targets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.reporting import report
from edgetool.pipeline.source import open_tflite
from edgetool.report.document import Report
from edgetool.target.types import Target


def estimate_file(path: Path, targets: Sequence[Target]) -> tuple[Report, ...]:
    """One report per target, in their order."""
    source = open_tflite(path)
    return tuple(report(source, analyse(source, target), options={"command": "estimate"}) for target in targets)
