"""The estimate of a .tflite on targets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.custom_operators import file_name, read_custom_operators
from edgetool.pipeline.reporting import report
from edgetool.pipeline.source import open_tflite
from edgetool.report.document import Report
from edgetool.target.types import Target


def estimate_file(path: Path, targets: Sequence[Target], *, custom_operators: Path | None = None) -> tuple[Report, ...]:
    """One report per target, in their order. custom_operators: the user's description of custom operators."""
    custom = read_custom_operators(custom_operators)
    source = open_tflite(path)
    options: dict[str, object] = {"command": "estimate", "custom_operators": file_name(custom_operators)}
    return tuple(report(source, analyse(source, target, custom=custom), options=options) for target in targets)
