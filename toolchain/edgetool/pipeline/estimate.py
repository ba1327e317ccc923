"""The estimate of a .tflite on targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from edgetool.child import Progress
from edgetool.errors import UsageError
from edgetool.estimate.given import positive
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.benchmark import benchmark, benchmark_source, stands_for
from edgetool.pipeline.custom_operators import file_name, read_custom_operators
from edgetool.pipeline.effort import Watch
from edgetool.pipeline.estimate_request import EstimateRequest
from edgetool.pipeline.performance import MeasuredRun, measured_on_target
from edgetool.pipeline.plan_request import PlanRequest
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
    request: EstimateRequest | None = None,
    progress: Progress | None = None,
) -> tuple[Report, ...]:
    """One report per target, in their order. custom_operators: the user's description of custom operators.

    Raises UsageError for an impossible figure of the request, and for both a measured time and a benchmark.
    """
    asked = request or EstimateRequest()
    custom = read_custom_operators(custom_operators)
    source = open_tflite(path)
    scale = 1.0 if asked.clock_scale is None else positive(asked.clock_scale, "--clock-scale")
    run = _measured(source, asked, progress)
    options: dict[str, object] = {
        "command": "estimate",
        "custom_operators": file_name(custom_operators),
        "measured_ms": asked.measured_ms,
        "benchmark_runs": asked.benchmark_runs,
        "interval_ms": asked.interval_ms,
        "power_mw": asked.power_mw,
        "clock_scale": asked.clock_scale,
        "plan_time_limit": asked.time_limit,
    }
    reports = []
    for target in targets:
        throttled = target if scale == 1 else target.with_overrides(clock_hz=round(target.clock_hz * scale))
        watch = Watch(asked.time_limit)
        analysis = analyse(source, throttled, custom=custom, options=PlanRequest().options(watch))
        findings = search_findings(analysis.plan, watch, "allow more time with --time-limit")
        measured = None if run is None else run(throttled)
        reports.append(report(source, analysis, options=options, findings=findings, request=asked, measured=measured))
    return tuple(reports)


def _measured(
    source: Source, request: EstimateRequest, progress: Progress | None
) -> Callable[[Target], MeasuredRun] | None:
    """The real run to compare with, for each target: the user's, or LiteRT's on this machine."""
    if request.measured_ms is not None and request.benchmark_runs is not None:
        raise UsageError("--measured-ms and --benchmark are mutually exclusive", fix="specify only one of them")
    if request.measured_ms is not None:
        given = measured_on_target(request.measured_ms)
        return lambda _: given
    if request.benchmark_runs is None:
        return None
    timed = benchmark(source, request.benchmark_runs, progress=progress)
    return lambda target: MeasuredRun(timed.median_ms, benchmark_source(timed, target), stands_for(target))
