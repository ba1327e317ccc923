"""The judgement as markdown for a pull request.

A table has a row for each model and target; failures and changes follow below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from edgetool.figure import in_text
from edgetool.gate.messages import count_line, device, gate_of, messages, usage_matrix
from edgetool.gate.text import NAME_LENGTH, exact, percent, short_size, visible
from edgetool.report.document import ChangeInfo, JudgementInfo, LockInfo, Report

HEADER = ("Model", "Target", "Verdict", "Arena", "Change", "Model in flash", "Latency", "Budgets")
NOTHING = "-"
LOCK_STATES = {
    "equal": "none",
    "changed": "figures differ",
    "updated": "updated",
    "missing": "no lock",
    "not-in-lock": "not in the lock file",
    "other-target": "not in the lock file for this target",
}
MAX_CHANGES = 50  # a comment of GitHub has 65,536 characters

_MARKUP = re.compile(r"[\\`*{}\[\]<>|~$^&#]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])|[^ -~]")
# Where GitHub and GitLab recognise a link or a mention in text.
_LINKED = re.compile(r"(?<=[@#!%])(?=[\w'\"])|(?<=:)(?=//)|(?<=www)(?=\.)|(?<=gh)(?=-)", re.IGNORECASE)
_BREAK = "\u200b"
VIOLATED = {True: "**violated**", False: "met", None: "unknown"}


def text(reports: Sequence[Report]) -> str:
    """Return the whole text: table, failures, changes relative to the lock file. Everything from a file is escaped."""
    lines = [f"### {count_line(reports)}", ""]
    lines += [_row(HEADER), _row("---" for _ in HEADER), *(_row(_cells(report)) for report in reports), ""]
    lines += _matrix(reports)
    for report in reports:
        lines += _details(report)
    return "\n".join(lines).rstrip("\n") + "\n"


def _matrix(reports: Sequence[Report]) -> list[str]:
    """Return the table of memory shares, if there are several models and several targets."""
    matrix = usage_matrix(reports)
    if len(matrix.models) < 2 or len(matrix.targets) < 2:
        return []
    lines = [
        _row(
            ("Arena (share of SRAM) / model (share of flash)", *(escaped(name, NAME_LENGTH) for name in matrix.targets))
        )
    ]
    lines.append(_row(("---", *("---:" for _ in matrix.targets))))
    for model, cells in zip(matrix.models, matrix.cells, strict=True):
        texts = ("" if cell is None else f"{escaped(str(cell))}{'' if cell.passed else ' **FAIL**'}" for cell in cells)
        lines.append(_row((_code(model), *texts)))
    return [*lines, ""]


def escaped(value: str, limit: int = 2000) -> str:
    """Escape text so that it renders literally: no markup, HTML, link, mention or end of a cell."""
    broken = _LINKED.sub(_BREAK, visible(value, limit))
    return _MARKUP.sub(lambda match: "".join(f"&#{ord(character)};" for character in match[0]), broken)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(report: Report) -> tuple[str, ...]:
    gate = gate_of(report)
    rules = dict.fromkeys(item.rule for item in gate.judgements if item.passed is False and item.level == "error")
    verdict = "passed" if gate.passed else f"**FAILED**: {escaped(', '.join(rules), NAME_LENGTH)}"
    return (
        _code(gate.path),
        NOTHING if report.target is None else escaped(device(report), NAME_LENGTH),
        verdict,
        _arena(report),
        _change(gate.lock) if gate.drift is None else _arena_change(gate.drift.changes),
        _of_limit(report.model.bytes, _judged(report, "flash")),
        _latency(report),
        _budgets(report),
    )


def _code(name: str) -> str:
    return f"<code>{escaped(name, NAME_LENGTH)}</code>"


def _judged(report: Report, rule: str) -> JudgementInfo | None:
    return next((item for item in gate_of(report).judgements if item.rule == rule), None)


def _of_limit(size: float | int, judged: JudgementInfo | None) -> str:
    if judged is None or not judged.limit:
        return short_size(size)
    return f"{short_size(size)} of {short_size(judged.limit)} ({percent(size, judged.limit)})"


def _arena(report: Report) -> str:
    if report.arena is None:
        return NOTHING
    if report.arena.bytes is not None and not report.arena.is_lower_bound:
        return _of_limit(report.arena.bytes, _judged(report, "arena"))
    lower_bound = report.arena.layout_bytes if report.arena.bytes is None else report.arena.bytes
    return f"at least {_of_limit(lower_bound, _judged(report, 'arena'))}"


def _change(lock: LockInfo | None) -> str:
    """Return the change of the arena, or the state of the lock if it has no such figure."""
    if lock is None:
        return NOTHING
    if lock.state not in ("changed", "updated"):
        return LOCK_STATES.get(lock.state, escaped(lock.state))
    return _arena_change(lock.changes)


def _arena_change(changes: Sequence[ChangeInfo]) -> str:
    arena = next((item for item in changes if item.figure == "arena_bytes"), None)
    return "none" if arena is None else _difference(arena)


def _difference(change: ChangeInfo) -> str:
    """Return a change as in "+4,096 B (+28 %)"."""
    if change.before is None or change.after is None:
        return f"{_amount(change.before, change.unit)} to {_amount(change.after, change.unit)}"
    grown = change.after - change.before
    sign = "+" if grown > 0 else "-"
    share = f" ({sign}{percent(abs(grown), abs(change.before))})" if change.before else ""
    return f"{sign}{exact(abs(grown), change.unit)}{share}"


def _amount(value: float | int | None, unit: str) -> str:
    return "unknown" if value is None else exact(value, unit)


def _latency(report: Report) -> str:
    latency = None if report.estimate is None else report.estimate.latency_ms
    if latency is None:
        return NOTHING
    return f"{in_text(latency.value)} ms ({in_text(latency.low)} to {in_text(latency.high)})"


def _budgets(report: Report) -> str:
    budgets = () if report.memory is None else report.memory.budgets
    texts = [f"{escaped(item.budget)} {item.of}: {VIOLATED[item.violated]}" for item in budgets]
    return "<br>".join(texts) or NOTHING


def _details(report: Report) -> list[str]:
    """Return the messages of one model, and the folded differences from the lock file."""
    items = messages(report)
    lock = gate_of(report).lock
    parts = [
        [line for item in items if item.level != "note" for line in _item(item)],
        _folded("Notes", [line for item in items if item.level == "note" for line in _item(item)]),
    ]
    if lock is not None:
        parts.append(_folded(f"Lock: {LOCK_STATES.get(lock.state, lock.state)}", _lock_lines(lock)))
    lines = [line for part in parts if part for line in (*part, "")]
    target = "" if report.target is None else f" on {escaped(device(report), NAME_LENGTH)}"
    return [f"#### {_code(gate_of(report).path)}{target}", "", *lines] if lines else []


def _item(item: JudgementInfo) -> list[str]:
    return [
        f"- {item.level} **{escaped(item.rule)}**: {escaped(item.message)}",
        *(f"  - cause: {escaped(cause)}" for cause in item.causes),
        *(f"  - suggestion: {escaped(advice)}" for advice in item.advice),
    ]


def _lock_lines(lock: LockInfo) -> list[str]:
    lines = [f"- changed since the lock file was written: {escaped(line)}" for line in lock.inputs]
    for change in lock.changes[:MAX_CHANGES]:
        is_comparable = change.before is not None and change.after is not None
        grown = (
            f"{_amount(change.before, change.unit)} to {_amount(change.after, change.unit)}, " if is_comparable else ""
        )
        beyond = "" if change.allowed else ", **beyond the allowance**"
        lines.append(f"- {_code(change.figure)}: {grown}{_difference(change)}{beyond}")
        if change.allowed:  # otherwise, the failed judgement above lists them
            lines += [f"  - cause: {escaped(cause)}" for cause in change.causes[:MAX_CHANGES]]
    rest = len(lock.changes) - MAX_CHANGES
    return [*lines, f"- and {rest} more"] if rest > 0 else lines


def _folded(summary: str, lines: list[str]) -> list[str]:
    """Return the lines in a <details> element, in which markdown needs an empty line on both sides."""
    return ["<details>", f"<summary>{summary}</summary>", "", *lines, "", "</details>"] if lines else []
