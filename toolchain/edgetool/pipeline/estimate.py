"""Estimate a .tflite on targets, write the estimate's tables as CSV files, and time LiteRT on this machine."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgetool.child import Progress
from edgetool.errors import InternalError, OutputError, UsageError
from edgetool.estimate.hardware import (
    BYTES_PER_KB,
    HardwareSummary,
    OperatorRow,
    hardware_summary_csv,
    hardware_totals,
    hardware_totals_csv,
    operator_profile_csv,
)
from edgetool.estimate.native import require_estimated
from edgetool.estimate.types import positive
from edgetool.figure import in_text
from edgetool.pipeline.analysis import analyse
from edgetool.pipeline.estimate_report import EstimateRequest, MeasuredRun, measured_on_target
from edgetool.pipeline.output import check_writable, write_files
from edgetool.pipeline.planning import Deadline, search_findings
from edgetool.pipeline.reporting import report
from edgetool.pipeline.source import Source, file_name, open_tflite, read_custom_operators
from edgetool.report.document import EstimateInfo, Report
from edgetool.target.types import Target

if TYPE_CHECKING:
    from edgetool.execute.benchmark import Benchmark

PROFILE_NAME, TOTALS_NAME, SUMMARY_NAME = "operator_profile.csv", "hardware_totals.csv", "hardware_summary.csv"
NAMES = (PROFILE_NAME, TOTALS_NAME, SUMMARY_NAME)


def write_tables(
    reports: Sequence[Report], directory: Path, *, force: bool = False, inputs: tuple[Path, ...] = ()
) -> tuple[Path, ...]:
    """Write the three tables of each estimate as CSV files, and return their paths.

    For several targets, the tables of each are in a folder with the target's name. In the summary, a measured time
    replaces the estimated one; if the run was not on the target, the utilization is left empty. Raises OutputError as
    write_files does, but if a file is in the way, before anything is written.
    """
    folders = [directory / name for name in _folder_names(reports)] if len(reports) > 1 else [directory]
    written: tuple[Path, ...] = ()
    try:
        for folder in folders:
            check_writable(folder, NAMES, force=force, inputs=inputs)
        for folder, report in zip(folders, reports, strict=True):
            written += write_files(folder, estimate_tables(report), force=force, inputs=inputs)
    except OutputError as error:
        fix = None if error.fix is None else error.fix.replace("--output", "--csv")
        raise OutputError(error.what, where=error.where, fix=fix) from error
    return written


def estimate_tables(report: Report) -> dict[str, bytes]:
    """Return the three files of one estimate, by name. Raises InternalError for a report without an estimate."""
    estimate = report.estimate
    if estimate is None:
        raise InternalError("a report without an estimate has no tables", where=report.model.name)
    rows = [
        OperatorRow(
            operator=item.operator,
            latency_ms=item.ms.value,
            memory_kb=item.footprint_bytes / BYTES_PER_KB,
            macs=item.macs,
            parameter_bytes=item.parameter_bytes,
            activation_bytes=item.activation_bytes,
        )
        for item in estimate.operators
    ]
    texts = (
        operator_profile_csv(rows),
        hardware_totals_csv(hardware_totals(rows)),
        hardware_summary_csv(_summary(estimate)),
    )
    return {name: text.encode("utf-8") for name, text in zip(NAMES, texts, strict=True)}


def _summary(estimate: EstimateInfo) -> HardwareSummary:
    run = estimate.measured
    return HardwareSummary(
        estimated_total_bytes=estimate.bytes_moved,
        estimated_total_macs=estimate.macs,
        achieved_bandwidth_gbps=estimate.bandwidth_gbps if run is None else run.bandwidth_gbps,
        configured_memory_bandwidth_gbps=estimate.configured_bandwidth_gbps,
        bandwidth_utilization=estimate.bandwidth_utilization if run is None else run.bandwidth_utilization,
        achieved_gmacs=estimate.gmacs_per_s if run is None else run.gmacs_per_s,
    )


def _folder_names(reports: Sequence[Report]) -> list[str]:
    """Return the names of the targets; repeated names are numbered."""
    names: list[str] = []
    for item in reports:
        base = name = item.target.name if item.target is not None else "target"
        number = 1
        while name in names:
            number += 1
            name = f"{base}-{number}"
        names.append(name)
    return names


# Values of platform.machine() by the ISA in a core's profile.
MACHINES = {"x86-64": ("x86_64", "amd64"), "armv8-a": ("aarch64",)}
SEED = 0


def benchmark(source: Source, runs: int, *, progress: Progress | None = None) -> Benchmark:
    """Time LiteRT on one random input, which is always the same. Raises the same errors as benchmark_litert."""
    from edgetool.execute.benchmark import benchmark_litert  # imports numpy, which an estimate does not need
    from edgetool.execute.quantize import random_inputs

    inputs = tuple(array[0] for array in random_inputs(source.model, 1, SEED))
    return benchmark_litert(source.blob, inputs, runs, progress=progress)


def is_this_machine(target: Target) -> bool:
    """Return whether a time of LiteRT on this machine counts as measured on the target.

    The target must have a processor of this machine's kind and be estimated by its bandwidth, not by TFLM's kernels:
    LiteRT has different kernels, so its time cannot be compared with such an estimate, even on the same processor.
    """
    same_kind = platform.machine().lower() in MACHINES.get(target.core.isa, ())
    return same_kind and target.bandwidth_gbps is not None


def benchmark_source(timed: Benchmark, target: Target) -> str:
    """Describe the source of the time in one line, including the assumption that this machine is the target."""
    spread = f"minimum {in_text(timed.minimum_ms)} ms, 90th percentile {in_text(timed.p90_ms)} ms"
    assumption = f"; assuming that this machine is the {target.board}" if is_this_machine(target) else ""
    return (
        f"LiteRT on this machine, {timed.runs:,} run{'' if timed.runs == 1 else 's'}, one thread: {spread}{assumption}"
    )


def estimate_file(
    path: Path,
    targets: Sequence[Target],
    *,
    custom_operators: Path | None = None,
    request: EstimateRequest | None = None,
    progress: Progress | None = None,
) -> tuple[Report, ...]:
    """Return one report for each target, in order.

    Args:
        path: The .tflite.
        targets: The targets.
        custom_operators: The user's description of custom operators.
        request: The options of the estimate.
        progress: Called with each step of a benchmark.

    Raises:
        UsageError: A figure of the request is impossible, or it has both a measured time and a benchmark.
    """
    request = request or EstimateRequest()
    custom = read_custom_operators(custom_operators)
    source = open_tflite(path)
    scale = 1.0 if request.clock_scale is None else positive(request.clock_scale, "--clock-scale")
    measured_run = _measured(source, request, progress)
    options: dict[str, object] = {
        "command": "estimate",
        "custom_operators": file_name(custom_operators),
        "measured_ms": request.measured_ms,
        "benchmark_runs": request.benchmark_runs,
        "interval_ms": request.interval_ms,
        "power_mw": request.power_mw,
        "clock_scale": request.clock_scale,
        "plan_time_limit": request.time_limit,
    }
    reports = []
    for target in targets:
        if target.runtime.is_native:
            require_estimated(target)
    finish: Callable[[Report], Report]
    for target in targets:
        throttled = target if scale == 1 else target.with_overrides(clock_hz=round(target.clock_hz * scale))
        deadline = Deadline(request.time_limit)
        if target.runtime.is_native:
            from edgetool.pipeline.native import native_model, native_report  # imports numpy, which TFLM's do not need

            native = native_model(source, throttled, deadline=deadline)
            analysis, finish = native.analysis, partial(native_report, native)
        else:
            analysis, finish = analyse(source, throttled, effort=deadline.effort(), custom=custom), _unchanged
        findings = search_findings(analysis.plan, deadline, "allow more time with --time-limit")
        measured = None if measured_run is None else measured_run(throttled)
        item = report(source, analysis, options=options, findings=findings, request=request, measured=measured)
        reports.append(finish(item))
    return tuple(reports)


def _unchanged(item: Report) -> Report:
    return item


def _measured(
    source: Source, request: EstimateRequest, progress: Progress | None
) -> Callable[[Target], MeasuredRun] | None:
    """Return the real run to compare with, by target: the user's, or LiteRT's on this machine."""
    if request.measured_ms is not None and request.benchmark_runs is not None:
        raise UsageError("--measured-ms and --benchmark are mutually exclusive", fix="specify only one of them")
    if request.measured_ms is not None:
        by_user = measured_on_target(request.measured_ms)
        return lambda _: by_user
    if request.benchmark_runs is None:
        return None
    timed = benchmark(source, request.benchmark_runs, progress=progress)
    return lambda target: MeasuredRun(timed.median_ms, benchmark_source(timed, target), is_this_machine(target))
