"""The view of `edgetool estimate` for one target."""

from __future__ import annotations

from edgetool.cli.text import duration, fact, grouped, mac_rate, printable, short_size, size_of
from edgetool.cli.view import finding_lines, heading
from edgetool.cli.view_latency import (
    by_time,
    energy_facts,
    latency_facts,
    limit_facts,
    operator_table,
    percent,
    slowest_facts,
    unmodelled_fact,
    work_facts,
)
from edgetool.cli.view_tradeoffs import constraint_lines, precision_lines
from edgetool.cli.view_verdict import fits_fact, runs_fact
from edgetool.estimate.bandwidth import rates
from edgetool.figure import significant
from edgetool.report.document import EstimateInfo, FactorInfo, MeasuredInfo, Report

SHOWN = 8
FACTORS_SHOWN = 2


def estimate_view(report: Report, *, by: str, everything: bool) -> list[str]:
    """What one must know at a glance, then what it rests on, then where the time goes and what else could be done.

    by: "time" lists the slowest operators first, "order" lists them as they run.
    """
    estimate = report.estimate
    assert estimate is not None
    lines = [heading(report), ""]
    lines += latency_facts(estimate)
    lines += fit_facts(report)
    lines += slowest_facts(estimate)
    lines += limit_facts(estimate, everything=everything)
    lines += unmodelled_fact(estimate)
    lines += ["", *measured_facts(estimate.measured)]
    lines += interval_fact(estimate)
    lines += energy_facts(estimate)
    lines += work_facts(estimate, report.provenance.options.get("clock_hz"))
    lines += factor_facts(estimate, len(estimate.factors) if everything else FACTORS_SHOWN)
    operators = by_time(estimate.operators) if by == "time" else list(estimate.operators)
    if operators:
        lines += ["", *operator_table(operators, len(operators) if everything else SHOWN)]
    for part in (
        precision_lines(estimate.precision_tradeoffs, everything=everything),
        constraint_lines(estimate.constraints),
    ):
        lines += ["", *part] if part else []
    return lines + finding_lines(report.findings, everything=everything)


def fit_facts(report: Report) -> list[str]:
    """Whether it runs and fits, and how full the memories are."""
    memory, arena = report.memory, report.arena
    if memory is None or arena is None:
        return []
    needed = arena.bytes if arena.bytes is not None else arena.layout_bytes
    least = "at least " if arena.bytes is None or arena.is_lower_bound else ""
    parts = (
        f"arena {least}{filled(needed, memory.sram_bytes, printable(memory.region or 'SRAM', 20))}",
        f"model {filled(report.model.bytes, memory.flash_bytes, 'flash')}",
    )
    return [*runs_fact(report), *fits_fact(report), *fact("", ", ".join(parts))]


def filled(size_bytes: int, limit_bytes: int | None, name: str) -> str:
    """As in "97.3 of 640 KiB in sram (15 %)"."""
    if not limit_bytes:
        return short_size(size_bytes)
    return f"{size_of(size_bytes, limit_bytes)} in {name} ({percent(size_bytes / limit_bytes)})"


def interval_fact(estimate: EstimateInfo) -> list[str]:
    """How busy the device is when an input comes at every interval."""
    if estimate.interval_ms is None or estimate.stream_utilization is None:
        return []
    busy = f"busy {percent(estimate.stream_utilization)} of every {duration(estimate.interval_ms)}"
    return fact("Interval", busy, style=None if estimate.stream_utilization < 1 else {"fg": "red", "bold": True})


def measured_facts(measured: MeasuredInfo | None) -> list[str]:
    """A real run beside the estimate."""
    if measured is None:
        return []
    lines = fact("Measured", f"{significant(measured.latency_ms)} ms, {printable(measured.source, 200)}")
    used, limit = measured.bandwidth_utilization, ""
    share = "" if used is None else f" ({percent(used)} of the memory bandwidth)"
    if used is not None:
        limit = f": {printable(measured.verdict.verdict)}"
    rate = f"{rates(measured.bandwidth_gbps)[0]}{share}, {mac_rate(measured.gmacs_per_s)}{limit}"
    lines += fact("", rate)
    return lines + fact("", printable(measured.text, 400), style=None if measured.within_band else {"fg": "yellow"})


def factor_facts(estimate: EstimateInfo, shown: int) -> list[str]:
    """What other runtimes take, as a factor on this time, from published rows: the fastest so many."""
    lines: list[str] = []
    ranked = sorted(estimate.factors, key=lambda factor: factor.factor)
    for factor in ranked[:shown]:
        lines += fact("" if lines else "Runtimes", _factor(factor, estimate))
    left = len(ranked) - shown
    return lines + fact("", f"and {left} slower (-v shows all)") if left > 0 else lines


def _factor(factor: FactorInfo, estimate: EstimateInfo) -> str:
    time = "" if estimate.latency_ms is None else f", {duration(estimate.latency_ms.value * factor.factor)}"
    rows = f"{grouped(factor.rows)} measurement{'' if factor.rows == 1 else 's'}"
    return (
        f"{printable(factor.runtime, 30)}: about {factor.factor:.2g}x the time ({factor.low:.2g}x to "
        f"{factor.high:.2g}x, {rows}){time}"
    )
