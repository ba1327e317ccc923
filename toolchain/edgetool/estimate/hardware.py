"""The tables that a run's figures make: a profile of operators, their totals, and what the hardware achieves."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace

from edgetool.errors import UsageError
from edgetool.estimate.memory_speed import bandwidth_of, estimated_bandwidth
from edgetool.estimate.types import Estimate, not_negative, positive, whole

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\n")
BYTES_PER_KB = 1000  # kB is a power of ten, as wherever sizes are read
COUNTS = ("macs", "parameter_bytes", "activation_bytes")  # what an operator's figures must hold


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One operator of a profile; field names are the columns of operator_profile.csv.

    memory_kb is what it needs at once (constants, inputs and outputs), in 1000 bytes; the byte counts are what it moves
    in all its runs.
    """

    operator: str
    latency_ms: float
    memory_kb: float
    macs: int
    parameter_bytes: int
    activation_bytes: int


@dataclass(frozen=True, slots=True)
class HardwareTotals:
    """Sums over operators, but for memory_kb, the largest of them; field names are the columns of hardware_totals.csv.

    latency_ms is the sum of the operators' own, not a measurement.
    """

    operators: int
    latency_ms: float
    memory_kb: float
    parameter_bytes: int
    activation_bytes: int
    estimated_total_bytes: int
    estimated_total_macs: int


@dataclass(frozen=True, slots=True)
class HardwareSummary:
    """What a run achieves; field names are the columns of hardware_summary.csv. None where no time is known.

    bandwidth_utilization is not clamped.
    """

    estimated_total_bytes: int
    estimated_total_macs: int
    achieved_bandwidth_gbps: float | None
    configured_memory_bandwidth_gbps: float
    bandwidth_utilization: float | None
    achieved_gmacs: float | None


# An operator's figures: a row of a profile, or the same as a mapping (of which macs and the bytes must be there).
Figures = OperatorRow | Mapping[str, object]


def operator_profile(estimate: Estimate) -> tuple[OperatorRow, ...]:
    """One row per operator, in the order of the model."""
    return tuple(
        OperatorRow(
            operator=item.operator,
            latency_ms=item.ms.value,
            memory_kb=item.footprint_bytes / BYTES_PER_KB,
            macs=item.macs,
            parameter_bytes=item.parameter_bytes,
            activation_bytes=item.activation_bytes,
        )
        for item in estimate.operators
    )


def hardware_totals(operators: Estimate | Iterable[Figures]) -> HardwareTotals:
    """The totals of an estimate, or of any operators' figures.

    Raises UsageError naming the operator and the figure that is missing or no number of 0 or more.
    """
    rows = operator_profile(operators) if isinstance(operators, Estimate) else tuple(_rows(operators))
    parameter_bytes = sum(row.parameter_bytes for row in rows)
    activation_bytes = sum(row.activation_bytes for row in rows)
    return HardwareTotals(
        operators=len(rows),
        latency_ms=sum(row.latency_ms for row in rows),
        memory_kb=max((row.memory_kb for row in rows), default=0.0),
        parameter_bytes=parameter_bytes,
        activation_bytes=activation_bytes,
        estimated_total_bytes=parameter_bytes + activation_bytes,
        estimated_total_macs=sum(row.macs for row in rows),
    )


def hardware_summary(
    operators: Estimate | Iterable[Figures], measured_latency_ms: float, configured_bandwidth_gbps: float
) -> HardwareSummary:
    """What a run of measured_latency_ms achieves, from the figures of its operators.

    configured_bandwidth_gbps is what the device's memory can deliver, in 10^9 bytes a second. Raises UsageError naming
    the argument: both are numbers above 0.
    """
    latency_ms = positive(measured_latency_ms, "measured_latency_ms")
    configured_gbps = positive(configured_bandwidth_gbps, "configured_bandwidth_gbps")
    totals = hardware_totals(operators)
    run = bandwidth_of(totals.estimated_total_bytes, totals.estimated_total_macs, latency_ms, configured_gbps)
    return HardwareSummary(
        run.bytes_moved, run.macs, run.achieved_gbps, run.configured_gbps, run.utilization, run.gmacs_per_s
    )


def estimated_summary(estimate: Estimate, measured_ms: float | None = None) -> HardwareSummary:
    """What the estimated inference achieves, or a measured one. Raises UsageError for a time that is not above 0."""
    run = estimated_bandwidth(estimate, measured_ms)
    return HardwareSummary(
        estimate.bytes_moved,
        estimate.macs,
        None if run is None else run.achieved_gbps,
        estimate.configured_bandwidth_gbps,
        None if run is None else run.utilization,
        None if run is None else run.gmacs_per_s,
    )


def operator_profile_csv(rows: Sequence[OperatorRow]) -> str:
    """The text of operator_profile.csv. A name that a spreadsheet takes for a formula begins with an apostrophe."""
    return _csv(OperatorRow, [replace(row, operator=_as_text(row.operator)) for row in rows])


def hardware_totals_csv(totals: HardwareTotals) -> str:
    """The text of hardware_totals.csv."""
    return _csv(HardwareTotals, [totals])


def hardware_summary_csv(summary: HardwareSummary) -> str:
    """The text of hardware_summary.csv; a cell is empty where no time is known."""
    return _csv(HardwareSummary, [summary])


def _as_text(name: str) -> str:
    """The name, which a model's author is free to choose, as a cell that no spreadsheet calculates or ends early."""
    name = name.replace("\r", "\\r")  # the writer leaves it without quotes, and readers end the row there
    return f"'{name}" if name.startswith(FORMULA_STARTS) else name


def _rows(operators: Iterable[Figures]) -> Iterator[OperatorRow]:
    for number, figures in enumerate(operators):
        given = asdict(figures) if isinstance(figures, OperatorRow) else figures
        where = f"operators[{number}]"
        if not isinstance(given, Mapping):
            raise UsageError(f"must be a row of values, not {type(given).__name__}", where=where)
        missing = [name for name in COUNTS if name not in given]
        if missing:
            raise UsageError(f"is missing {' and '.join(missing)}", where=where)
        macs, parameter_bytes, activation_bytes = (whole(given[name], f"{where}.{name}") for name in COUNTS)
        yield OperatorRow(
            operator=str(given.get("operator", "")),
            latency_ms=not_negative(given.get("latency_ms", 0.0), f"{where}.latency_ms"),
            memory_kb=not_negative(
                given.get("memory_kb", (parameter_bytes + activation_bytes) / BYTES_PER_KB), f"{where}.memory_kb"
            ),
            macs=macs,
            parameter_bytes=parameter_bytes,
            activation_bytes=activation_bytes,
        )


class _Lines:
    """What csv writes to."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, text: str) -> None:
        """Keep the text."""
        self.written.append(text)


def _csv(
    columns: type[OperatorRow | HardwareTotals | HardwareSummary],
    rows: Sequence[OperatorRow | HardwareTotals | HardwareSummary],
) -> str:
    lines = _Lines()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(field.name for field in fields(columns))
    writer.writerows(astuple(row) for row in rows)
    return "".join(lines.written)
