"""An estimate's tables as CSV files: one set of three for a target, in a folder each for several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgetool.errors import InternalError, OutputError
from edgetool.estimate.hardware import (
    BYTES_PER_KB,
    HardwareSummary,
    OperatorRow,
    hardware_summary_csv,
    hardware_totals,
    hardware_totals_csv,
    operator_profile_csv,
)
from edgetool.pipeline.files import check_writable, write_files
from edgetool.report.document import EstimateInfo, Report

PROFILE_NAME, TOTALS_NAME, SUMMARY_NAME = "operator_profile.csv", "hardware_totals.csv", "hardware_summary.csv"
NAMES = (PROFILE_NAME, TOTALS_NAME, SUMMARY_NAME)


def write_tables(
    reports: Sequence[Report], directory: Path, *, force: bool = False, inputs: tuple[Path, ...] = ()
) -> tuple[Path, ...]:
    """Write the tables of estimates; their paths. Several targets get a folder of their name each.

    A measured time takes the place of the estimated one in the summary; where the run was not on the target, no
    utilization stands beside what it achieved. Raises OutputError as write_files does, and
    before anything is written where a file is in the way.
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
    """The three files of one estimate, by name. Raises InternalError for a report without an estimate."""
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
    """The targets' names, numbered where one is named twice."""
    names: list[str] = []
    for report in reports:
        base = name = report.target.name if report.target is not None else "target"
        number = 1
        while name in names:
            number += 1
            name = f"{base}-{number}"
        names.append(name)
    return names
