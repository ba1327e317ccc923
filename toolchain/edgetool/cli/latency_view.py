"""What is printed about an estimate: time, energy, work, and the slowest operators."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from edgetool.cli.output import (
    duration,
    durations,
    energy,
    fact,
    grouped,
    mac_rate,
    percent,
    printable,
    short_size,
    table,
    width,
)
from edgetool.figure import significant
from edgetool.target.quantity import format_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgetool.report.document import Band, EstimateInfo, OperatorInfo

SLOWEST_SHOWN = 3
ADVICE_SHOWN = 2
MIN_NAME_COLUMNS = 12
# Colours that mark figures not based on measurements of this core and these kernels.
UNMODELLED = "unmodelled"
STATUS_STYLES: dict[str, dict[str, Any]] = {"unvalidated": {"fg": "yellow"}, UNMODELLED: {"fg": "yellow"}}


def latency_facts(estimate: EstimateInfo) -> list[str]:
    """Show the time with its band and its basis."""
    latency, basis = estimate.latency_ms, printable(estimate.basis, 400)
    if latency is None:
        moving = duration(sum(item.ms.value for item in estimate.operators))
        return fact("Inference", f"not estimated; memory traffic alone takes {moving}") + fact("Basis", basis)
    basis_status = status(estimate)
    lines = fact("Inference", f"{banded(latency, duration)}, {basis_status}", style={"bold": True})
    return lines + fact("Basis", basis, style=STATUS_STYLES.get(basis_status))


def status(estimate: EstimateInfo) -> str:
    """Return the status of the timing, or that most of the time may be in operators that are not modelled."""
    latency = estimate.latency_ms
    if latency is None:
        return "-"
    unknown = sum(item.ms.high for item in estimate.operators if item.basis != "instructions")
    return UNMODELLED if 2 * unknown > latency.high else estimate.validation


def banded(band: Band, shown: Callable[[float], str]) -> str:
    """Return "about 24 ms (22 ms to 28 ms)"; the value alone if the band would look the same."""
    value, low, high = shown(band.value), shown(band.low), shown(band.high)
    text = value if value.startswith("under ") else f"about {value}"
    return text if low == value == high else f"{text} ({low} to {high})"


def slowest_facts(estimate: EstimateInfo) -> list[str]:
    """Show the operators that take longest; those that move the most bytes if no time is known."""
    label = "Slowest" if estimate.latency_ms is not None else "Most bytes"
    total = total_ms(estimate.operators)
    lines: list[str] = []
    for item in by_time(estimate.operators)[:SLOWEST_SHOWN]:
        share = percent(item.ms.value / total)
        text = f"{duration(item.ms.value)}, {share}: op {place(item)} {printable(item.operator, 30)}"
        lines += fact("" if lines else label, text)
    return lines


def limit_facts(estimate: EstimateInfo, *, everything: bool = False) -> list[str]:
    """Show what limits the time, and what would help; nothing if that is not known."""
    if estimate.verdict is None:
        return []
    lines = fact("Limit", printable(estimate.verdict.text, 400))
    advice = estimate.verdict.advice if everything else estimate.verdict.advice[:ADVICE_SHOWN]
    for number, text in enumerate(advice):
        lines += fact("" if number else "Suggestion", printable(text, 400))
    return lines


def energy_facts(estimate: EstimateInfo) -> list[str]:
    """Show the energy with its band, and the basis of the power; nothing if the energy is not known."""
    energy_uj = estimate.energy_uj
    if energy_uj is None:
        return []
    power = (estimate.energy_basis or "").partition("; time: ")[0]  # the basis of the time is already shown above
    return fact("Energy", f"{banded(energy_uj, energy)}{f'; {printable(power, 400)}' if power else ''}")


def work_facts(estimate: EstimateInfo, clock_hz: object = None) -> list[str]:
    """Show MACs, instructions, cycles at a clock, and bytes."""
    from edgetool.estimate.memory_speed import rates

    parts = [f"{grouped(estimate.macs)} MACs"]
    if estimate.instructions:
        parts.append(f"{counted(estimate.instructions)} instructions")
    if estimate.cycles is not None:
        clock = f" at {format_clock(clock_hz)}" if isinstance(clock_hz, int) else ""
        parts.append(f"{counted(estimate.cycles)} cycles{clock}")
    rate = f"; {mac_rate(estimate.gmacs_per_s)}" if estimate.gmacs_per_s is not None else ""
    lines = fact("Work", ", ".join(parts) + rate)
    traffic = (
        f"{short_size(estimate.parameter_bytes)} of constants + {short_size(estimate.activation_bytes)} of activations "
        f"= {short_size(estimate.bytes_moved)}"
    )
    if estimate.bandwidth_gbps is None:  # otherwise the limit names both bandwidths
        traffic += f"; memory bandwidth {rates(estimate.configured_bandwidth_gbps)[0]}"
    return lines + fact("Traffic", traffic)


def unmodelled_fact(estimate: EstimateInfo) -> list[str]:
    """Show the operators whose time is not modelled; nothing if there are none."""
    if not estimate.not_modelled or estimate.latency_ms is None:
        return []
    names = (
        f"{printable(name, 30)}{f' x{count}' if count > 1 else ''}"
        for name, count in Counter(estimate.not_modelled).items()
    )
    text = f"{', '.join(names)}: instruction counts are unknown; only memory traffic is counted, so the band is wide"
    return fact("Unmodelled", text, style={"fg": "yellow"})


def by_time(operators: Sequence[OperatorInfo]) -> list[OperatorInfo]:
    """Return the operators, slowest first; equally slow ones keep their order."""
    return sorted(operators, key=lambda item: -item.ms.value)


def operator_table(operators: Sequence[OperatorInfo], shown: int) -> list[str]:
    """Show the first operators with their share of the total time."""
    total = total_ms(operators)
    rows = [
        (
            time,
            percent(item.ms.value / total),
            f"{item.macs:,}",
            f"{item.memory_bytes:,}",
            item.bound if item.basis == "instructions" else UNMODELLED,
        )
        for item, time in zip(operators, durations([item.ms.value for item in operators[:shown]]), strict=False)
    ]
    header = ("time", "share", "MACs", "bytes", "bound by")
    places = [place(item) for item in operators[:shown]]
    cells = [header, *rows]
    used = sum(2 + max(len(row[column]) for row in cells) for column in range(len(header)))
    used += 2 + max(len(name) for name in ["op", *places])
    columns = max(MIN_NAME_COLUMNS, width() - 2 - used)
    named = [
        (where, printable(f"{item.operator}{f' x{item.runs}' if item.runs > 1 else ''}", columns), *row)
        for where, item, row in zip(places, operators, rows, strict=False)
    ]
    lines = [f"  {line}" for line in table(("op", "operator", *header), named, "><>>>><")]
    left = operators[shown:]
    if left:
        share = percent(total_ms(left) / total)
        lines.append(f"  ... and {grouped(len(left))} more, {share} of the time (-v shows all)")
    return lines


def counted(number: int) -> str:
    """Return a large count to three digits: 35.1 M."""
    for scale, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= scale:
            return f"{significant(number / scale)}{unit}"
    return str(number)


def place(item: OperatorInfo) -> str:
    """Return the operator's index in the file, with its subgraph unless that is the main one."""
    return f"{item.subgraph}:{item.index}" if item.subgraph else str(item.index)


def total_ms(operators: Sequence[OperatorInfo]) -> float:
    """Return the time of these operators, for computing shares."""
    return sum(item.ms.value for item in operators) or 1.0
