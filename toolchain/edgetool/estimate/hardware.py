"""Tables of a run: the profile of its operators, their totals, and the achieved performance."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace

from edgetool.errors import UsageError
from edgetool.estimate.memory_speed import bandwidth_of, estimated_bandwidth
from edgetool.estimate.types import Estimate, integer, not_negative, positive

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\n")
BYTES_PER_KB = 1000  # kB is a power of ten, as wherever sizes are read
COUNTS = ("macs", "parameter_bytes", "activation_bytes")  # the figures that every operator must have


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """One operator of a profile; field names are the columns of operator_profile.csv.

    memory_kb is the memory needed at once (constants, inputs and outputs), in 1000 bytes; the byte counts are what it
    moves in all its runs.
    """

    operator: str
    latency_ms: float
    memory_kb: float
    macs: int
    parameter_bytes: int
    activation_bytes: int


@dataclass(frozen=True, slots=True)
class HardwareTotals:
    """Sums over operators, except for memory_kb, which is their maximum; field names are the columns of
    hardware_totals.csv.

    latency_ms is the sum of the operators' times, not a measurement.
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
    """The performance of a run; field names are the columns of hardware_summary.csv. None if no time is known.

    bandwidth_utilization is not clamped.
    """

    estimated_total_bytes: int
    estimated_total_macs: int
    achieved_bandwidth_gbps: float | None
    configured_memory_bandwidth_gbps: float
    bandwidth_utilization: float | None
    achieved_gmacs: float | None


# The figures of an operator: a row of a profile, or a mapping with the same keys (macs and the bytes are required).
OperatorFigures = OperatorRow | Mapping[str, object]


def operator_profile(estimate: Estimate) -> tuple[OperatorRow, ...]:
    """Return one row per operator, in the order of the model."""
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


def hardware_totals(operators: Estimate | Iterable[OperatorFigures]) -> HardwareTotals:
    """Return the totals of an estimate, or of any operators' figures.

    Raises UsageError naming the operator and the figure that is missing or not a number of 0 or more.
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
    operators: Estimate | Iterable[OperatorFigures], measured_latency_ms: float, configured_bandwidth_gbps: float
) -> HardwareSummary:
    """Return the performance of a run of measured_latency_ms, from the figures of its operators.

    configured_bandwidth_gbps is the bandwidth of the device's memory, in 10^9 bytes per second. Raises UsageError
    naming the argument: both are numbers above 0.
    """
    latency_ms = positive(measured_latency_ms, "measured_latency_ms")
    configured_gbps = positive(configured_bandwidth_gbps, "configured_bandwidth_gbps")
    totals = hardware_totals(operators)
    run = bandwidth_of(totals.estimated_total_bytes, totals.estimated_total_macs, latency_ms, configured_gbps)
    return HardwareSummary(
        run.bytes_moved, run.macs, run.achieved_gbps, run.configured_gbps, run.utilization, run.gmacs_per_s
    )


def estimated_summary(estimate: Estimate, measured_ms: float | None = None) -> HardwareSummary:
    """Return the performance of the estimated inference, or of a measured one. Raises UsageError for a time not above
    0.
    """
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
    """Return the text of operator_profile.csv. A name that looks like a formula begins with an apostrophe."""
    return _csv(OperatorRow, [replace(row, operator=_as_text(row.operator)) for row in rows])


def hardware_totals_csv(totals: HardwareTotals) -> str:
    """Return the text of hardware_totals.csv."""
    return _csv(HardwareTotals, [totals])


def hardware_summary_csv(summary: HardwareSummary) -> str:
    """Return the text of hardware_summary.csv; a cell is empty if no time is known."""
    return _csv(HardwareSummary, [summary])


def _as_text(name: str) -> str:
    """Return a name, which the model's author chooses freely, as a cell that a spreadsheet neither evaluates nor
    splits.
    """
    name = name.replace("\r", "\\r")  # the writer leaves it without quotes, and readers end the row there
    return f"'{name}" if name.startswith(FORMULA_STARTS) else name


def _rows(operators: Iterable[OperatorFigures]) -> Iterator[OperatorRow]:
    for number, figures in enumerate(operators):
        given = asdict(figures) if isinstance(figures, OperatorRow) else figures
        where = f"operators[{number}]"
        if not isinstance(given, Mapping):
            raise UsageError(f"must be a row of values, not {type(given).__name__}", where=where)
        missing = [name for name in COUNTS if name not in given]
        if missing:
            raise UsageError(f"is missing {' and '.join(missing)}", where=where)
        macs, parameter_bytes, activation_bytes = (integer(given[name], f"{where}.{name}") for name in COUNTS)
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


class _LineBuffer:
    """The file object that the csv writer writes to."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def write(self, text: str) -> None:
        """Store the text."""
        self.written.append(text)


def _csv(
    columns: type[OperatorRow | HardwareTotals | HardwareSummary],
    rows: Sequence[OperatorRow | HardwareTotals | HardwareSummary],
) -> str:
    lines = _LineBuffer()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(field.name for field in fields(columns))
    writer.writerows(astuple(row) for row in rows)
    return "".join(lines.written)
