"""The estimate of a .tflite on targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from edgetool.operators.types import OperatorEntry
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.custom_operators import file_name, read_custom_operators
from edgetool.pipeline.effort import Watch
from edgetool.pipeline.plan_request import DEFAULT_SECONDS, PlanRequest
from edgetool.pipeline.planned import search_findings
from edgetool.pipeline.reporting import report
from edgetool.pipeline.source import Source, open_tflite
from edgetool.report.document import Report
from edgetool.target.types import Target


def estimate_file(
    path: Path,
    targets: Sequence[Target],
    *,
    custom_operators: Path | None = None,
    time_limit: float = DEFAULT_SECONDS,
) -> tuple[Report, ...]:
    """One report per target, in their order. custom_operators: the user's description of custom operators.

    time_limit: seconds to search for the plan of each target that has none in the file.
    """
    custom = read_custom_operators(custom_operators)
    source = open_tflite(path)
    options: dict[str, object] = {"command": "estimate", "custom_operators": file_name(custom_operators)}
    return tuple(_estimate(source, target, custom, time_limit, options) for target in targets)


def _estimate(
    source: Source,
    target: Target,
    custom: Mapping[str, OperatorEntry] | None,
    time_limit: float,
    options: dict[str, object],
) -> Report:
    watch = Watch(time_limit)
    analysis = analyse(source, target, custom=custom, options=PlanRequest().options(watch))
    findings = search_findings(analysis.plan, watch, "edgetool plan has a --time-limit")
    return report(source, analysis, options=options, findings=findings)
