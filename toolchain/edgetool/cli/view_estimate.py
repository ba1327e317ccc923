"""The view of `edgetool estimate`."""

from __future__ import annotations

from edgetool.cli.text import fact, grouped, kib
from edgetool.cli.view import estimate_facts, finding_lines, heading, slowest
from edgetool.report.document import Report

SHOWN = 12


def estimate_view(report: Report, *, everything: bool) -> list[str]:
    """Latency, work, and where the time goes."""
    assert report.estimate is not None
    estimate = report.estimate
    shown = len(estimate.operators) if everything else SHOWN
    lines = [heading(report), ""]
    lines += estimate_facts(estimate)
    lines += fact(
        "Traffic",
        f"{kib(estimate.parameter_bytes)} of constants, {kib(estimate.activation_bytes)} of activations",
    )
    lines += ["", *slowest(estimate, shown)]
    left = len(estimate.operators) - shown
    if left > 0:
        lines.append(f"  ... and {grouped(left)} more (-v shows all)")
    return lines + finding_lines(report.findings)
