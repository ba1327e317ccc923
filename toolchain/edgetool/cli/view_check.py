"""The view of `edgetool check`: the verdict, what failed and why, what passed, and what differs from the lock."""

from __future__ import annotations

from collections.abc import Sequence

import click

from edgetool.cli.text import printable, width, wrapped
from edgetool.cli.view import finding_lines
from edgetool.gate.lock_judgement import GUARDED
from edgetool.gate.plain import exact
from edgetool.gate.said import unjudged
from edgetool.report.check import ChangeInfo, GateInfo, JudgementInfo, LockInfo
from edgetool.report.document import MemoryInfo, Report

LONGEST = 600
LEAST_PATH = 20
RULE_COLUMNS = 15  # the longest rules
INDENT = RULE_COLUMNS + 11
MARKS = {True: ("pass", "green"), False: ("FAIL", "red"), None: ("?", "yellow")}
LOCK_STATES = {
    "equal": "as the lock file has it",
    "changed": "differs from the lock file",
    "updated": "the lock file has these figures now",
    "missing": "there is no lock file",
    "not-in-lock": "the model is not in it",
    "other-target": "the model is in it for other targets",
}
VIOLATED = {True: "yes", False: "no", None: "not known"}


def check_view(reports: Sequence[Report], *, everything: bool = False) -> list[str]:
    """All reports, one after another, and a last line for several; everything: notes too."""
    lines: list[str] = []
    for report in reports:
        lines += [*([""] if lines else []), *_report(report, everything)]
    if len(reports) > 1:
        failed = [item for item in reports if item.check is not None and not item.check.passed]
        count = f"{len(failed)} of {len(reports)} fail" if failed else f"all {len(reports)} pass"
        lines += ["", click.style(count, fg="red" if failed else "green", bold=True)]
    return lines


def _report(report: Report, everything: bool) -> list[str]:
    gate = report.check
    assert gate is not None
    lines = [_verdict(report, gate), *_device(report), ""]
    shown: set[tuple[str, ...]] = set()
    for item in sorted(gate.judgements, key=lambda item: item.passed is not False):
        lines += _judgement(item, shown)
    if report.memory is not None:
        lines += _budgets(report.memory)
    if gate.lock is not None:
        lines += _lock(gate.lock, gate.judgements)
    left = [item for item in unjudged(report) if everything or item.level != "note"]
    return lines + finding_lines(left, everything=everything)


def _verdict(report: Report, gate: GateInfo) -> str:
    """Path and target; what failed where the line has room for it."""
    target = "" if report.target is None else f" on {printable(report.target.name)}"
    word, color = ("passes", "green") if gate.passed else ("FAILS", "red")
    room = width() - len(f"{target} {word}")
    line = f"{click.style(printable(gate.path, max(room, LEAST_PATH)), bold=True)}{target} "
    line += click.style(word, fg=color, bold=True)
    failed = [item.rule for item in gate.judgements if item.passed is False]
    rules = f": {', '.join(dict.fromkeys(failed))}"
    return line + rules if failed and len(click.unstyle(line + rules)) <= width() else line


def _device(report: Report) -> list[str]:
    """What the figures are for."""
    target = report.target
    if target is None:
        return []
    board = f"{printable(target.board)}, " if target.board else ""
    return wrapped(f"{board}{target.core}, {target.kernels} kernels, {target.runtime}", "  ")


def _judgement(item: JudgementInfo, shown: set[tuple[str, ...]]) -> list[str]:
    """One judgement; causes and advice that another has told are not told again."""
    mark, color = MARKS[item.passed]
    if item.passed and item.level == "warning":
        mark, color = "warn", "yellow"
    start = f"  {mark:<4}  {item.rule:<{RULE_COLUMNS}} "
    lines = wrapped(printable(item.message, LONGEST), " " * len(start), start)
    lines[0] = lines[0].replace(mark, click.style(mark, fg=color, bold=item.passed is False), 1)
    if item.causes and item.causes not in shown:
        lines += _listed(item.causes, "because of")
    if item.advice and item.advice not in shown:
        lines += _listed(item.advice, "would help")
    shown |= {item.causes, item.advice}
    return lines


def _listed(texts: Sequence[str], title: str) -> list[str]:
    lines: list[str] = []
    for text in texts:
        label = title if not lines else ""
        start = f"        {label:<{RULE_COLUMNS}} "
        if title == "would help":
            start += "- "
        lines += wrapped(printable(text, LONGEST), " " * INDENT, start)
    return lines


def _budgets(memory: MemoryInfo) -> list[str]:
    lines: list[str] = []
    for budget in memory.budgets:
        start = f"        {'budgets' if not lines else '':<{RULE_COLUMNS}} "
        verdict = VIOLATED[budget.violated]
        lines += wrapped(f"{budget.name}: {verdict} ({budget.of}, {budget.bytes:,} B)", " " * len(start), start)
    return lines


def _lock(lock: LockInfo, judgements: Sequence[JudgementInfo]) -> list[str]:
    """The state, what else differs, and the changes with their causes."""
    told = {item.rule for item in judgements}
    if lock.state in ("missing", "not-in-lock", "other-target") and "lock" in told:
        return []
    start = f"        {'lock':<{RULE_COLUMNS}} "
    lines = wrapped(LOCK_STATES[lock.state], " " * len(start), start)
    indent = " " * len(start)
    for text in lock.inputs:
        lines += wrapped(printable(text, LONGEST), f"{indent}  ", f"{indent}- ")
    grown = {item.causes for item in judgements if item.rule == "growth" and item.passed is False}
    others = []
    for change in lock.changes:
        if change.figure not in GUARDED:
            others.append(change)
            continue
        lines += wrapped(_change(change), f"{indent}  ", indent)
        if change.causes not in grown:
            for cause in change.causes:
                lines += wrapped(printable(cause, LONGEST), f"{indent}    ", f"{indent}  ")
    if others:
        named = ", ".join(_change(change) for change in others if not change.figure.endswith(("_low", "_high")))
        lines += wrapped(f"also {named}" if named else "", f"{indent}  ", indent) if named else []
    return lines


def _change(change: ChangeInfo) -> str:
    before = "unknown" if change.before is None else exact(change.before, change.unit)
    after = "unknown" if change.after is None else exact(change.after, change.unit)
    return f"{printable(change.figure)} {before} to {after}"
