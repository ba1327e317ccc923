"""The hardware functions of the library: profiles, totals, batches and intervals, without printing.

They work on plain figures, on an Estimate, or on a .tflite. An impossible argument raises UsageError, which names it.
"""

from __future__ import annotations

from pathlib import Path

from edgetool.errors import UsageError
from edgetool.estimate.energy import (
    average_power_mw,
    energy_uj,
    given_power,
    interval_findings,
    interval_utilization,
    measured_latency,
)
from edgetool.estimate.hardware import (
    BatchMemory,
    HardwareSummary,
    HardwareTotals,
    OperatorRow,
    batch_memory_bytes,
    estimated_summary,
    hardware_summary,
    hardware_summary_csv,
    hardware_totals,
    hardware_totals_csv,
    largest_batch,
    largest_model_batch,
    model_batch_memory,
    operator_profile,
    operator_profile_csv,
)
from edgetool.estimate.latency import estimate_model
from edgetool.estimate.memory_speed import (
    Bandwidth,
    Verdict,
    bandwidth_findings,
    bandwidth_of,
    estimated_bandwidth,
    verdict_of,
)
from edgetool.pipeline.source import open_tflite
from edgetool.target.platform import platform_of
from edgetool.target.types import Target

__all__ = [
    "Bandwidth",
    "BatchMemory",
    "HardwareSummary",
    "HardwareTotals",
    "OperatorRow",
    "Verdict",
    "average_power_mw",
    "bandwidth_findings",
    "bandwidth_of",
    "batch_memory_bytes",
    "batch_memory_of_file",
    "energy_uj",
    "estimated_bandwidth",
    "estimated_summary",
    "given_power",
    "hardware_summary",
    "hardware_summary_csv",
    "hardware_totals",
    "hardware_totals_csv",
    "interval_findings",
    "interval_utilization",
    "largest_batch",
    "largest_batch_of_file",
    "largest_model_batch",
    "measured_latency",
    "model_batch_memory",
    "operator_profile",
    "operator_profile_csv",
    "profile_file",
    "verdict_of",
]


def profile_file(path: Path, target: Target) -> tuple[OperatorRow, ...]:
    """Return the profile table of a .tflite on a target.

    Raises UsageError if the file cannot be read, ModelError if its content is not a valid model.
    """
    return operator_profile(estimate_model(open_tflite(path).model, target))


def batch_memory_of_file(path: Path, target: Target, batch_size: int) -> BatchMemory:
    """Return the memory that a batch needs with a .tflite on a target: the exact arena, planned for it, and the file.

    Raises UsageError for an invalid path or batch_size, UnsupportedModelError for a model that may mix samples.
    """
    source = open_tflite(path)
    return model_batch_memory(source.model, batch_size, platform_of(target), model_bytes=len(source.blob))


def largest_batch_of_file(path: Path, target: Target, limit_bytes: int | None = None) -> int:
    """Return the largest batch whose arena fits in limit_bytes, by default the target's arena region; 0 if none fits.

    Raises UsageError for an invalid path or limit and if the target has no region to use as the limit,
    UnsupportedModelError for a model that may mix samples.
    """
    limit = target.sram_bytes if limit_bytes is None else limit_bytes
    if limit is None:
        raise UsageError(
            f"{target.name} has no memory region to use as the limit", where="limit_bytes", fix="specify a limit"
        )
    return largest_model_batch(open_tflite(path).model, limit, platform_of(target))
