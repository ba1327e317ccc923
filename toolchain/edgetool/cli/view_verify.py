"""The view of `edgetool verify`."""

from __future__ import annotations

from typing import Any

import click

from edgetool.cli.text import fact, grouped, printable
from edgetool.cli.view import finding_lines
from edgetool.cli.view_verdict import Verdict, closing
from edgetool.figure import significant
from edgetool.report.document import OutputDistance, Report, RuntimeInfo, VerifyInfo

# What the document's checks are called here.
LABELS = {
    "plan-safe": "Plan",
    "planned-runs": "Runs",
    "outputs-equal": "Outputs",
    "arena-used": "Arena",
    "arena-sufficient": "",
    "arena-smallest": "",
}
PLANNERS = {
    "file": "the file with its plan and without it",
    "edgetool": "the original file and the file with edgetool's plan",
    "runtime": "no plan beats TFLM's own planner, so the unmodified file is compared with itself",
}
STYLES: dict[bool | None, dict[str, Any] | None] = {
    True: None,
    False: {"fg": "red", "bold": True},
    None: {"fg": "yellow"},
}


def verify_view(report: Report) -> list[str]:
    """The verdict, every check, and how far other runtimes are from TFLM."""
    verified = report.verify
    assert verified is not None
    lines = [click.style(printable(report.model.name), bold=True), ""]
    lines += _verdict(verified)
    lines += fact("Compared", _compared(report, verified))
    shown = {check.message for check in verified.checks if check.check == "planned-runs" and check.passed}
    for check in verified.checks:
        if check.message not in shown:
            lines += fact(LABELS[check.check], printable(check.message, 400), style=STYLES[check.passed])
        shown.add(check.message)  # the reason why checks were left out is said once
    for runtime in verified.runtimes:
        lines += _runtime(runtime)
    lines += finding_lines(report.findings)
    return [*lines, *closing(_closing_verdict(verified), lines)]


def _state(verified: VerifyInfo) -> bool | None:
    """As of a check: None if nothing failed but not everything could be checked."""
    if not verified.passed:
        return False
    return None if any(check.passed is None for check in verified.checks) else True


def _verdict(verified: VerifyInfo) -> list[str]:
    state = _state(verified)
    word = {True: "yes", False: "no", None: "in part"}[state]
    return fact("Verified", word, style=STYLES[state] or {"fg": "green", "bold": True})


def _closing_verdict(verified: VerifyInfo) -> Verdict:
    state = _state(verified)
    if state is False:
        failed = next(check.message for check in verified.checks if check.passed is False)
        return Verdict(f"Not verified: {failed}", negative=True)
    return Verdict("Verified" if state else "Verified in part", negative=False)


def _compared(report: Report, verified: VerifyInfo) -> str:
    """The two files, and what ran them."""
    what = PLANNERS[verified.planner]
    if report.provenance.options.get("original") is not None:
        what = f"the model and {printable(verified.original.name)}"
    elif verified.planner == "edgetool" and report.target is not None:
        what += f" for {printable(report.target.name)}"
    return f"{what}, on TFLM for {verified.arena.abi} with reference kernels"


def _runtime(runtime: RuntimeInfo) -> list[str]:
    if runtime.not_run is not None:
        return fact(runtime.runtime, f"not compared: {printable(runtime.not_run, 400)}", style=STYLES[None])
    lines = []
    for number, output in enumerate(runtime.outputs):
        lines += fact("" if number else runtime.runtime, f"{printable(output.output, 30)}: {_distance(output)}")
    return lines


def _distance(output: OutputDistance) -> str:
    """As in "2 of 80 elements differ from TFLM's, by at most 1 LSB"."""
    if not output.differing:
        return "equal to TFLM's"
    by = {
        "lsb": lambda value: f"at most {value:.0f} LSB",
        "absolute": lambda value: f"at most {significant(value)}",
    }
    most = "infinity or NaN" if output.max_difference is None else by[output.unit](output.max_difference)
    return f"{grouped(output.differing)} of {grouped(output.elements)} elements differ from TFLM's, by {most}"
