"""The judgement as workflow annotations of GitHub Actions.

The runner executes a line that starts with "::" or contains "##[" (ActionCommand.cs of actions/runner): no name from a
file may result in either. GitHub shows the first ten annotations of each level in a step, so the most severe ones come
first; the log contains all.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgetool.gate.messages import by_severity, count_line, gate_of, message_lines, subject
from edgetool.gate.text import exact, percent, sentence, visible
from edgetool.report.document import Report

MAX_DATA = 4000  # characters of one annotation
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def text(reports: Sequence[Report]) -> str:
    """Return an annotation for each error and warning, one with the figures of each model, and lines with the notes."""
    items = by_severity(reports)
    lines = [
        _annotation(item.level, report, item.rule, message_lines(item))
        for report, item in items
        if item.level != "note"
    ]
    lines += [_annotation("notice", report, _verdict(report), (_figures(report),)) for report in reports]
    lines += [
        _escape_hashes(f"note: {subject(report)}: {message_lines(item)[0]}")
        for report, item in items
        if item.level == "note"
    ]
    return "\n".join([*lines, count_line(reports)]) + "\n"


def _annotation(command: str, report: Report, what: str, lines: Sequence[str]) -> str:
    path = gate_of(report).path
    properties = {"title": _escape_hashes(f"edgetool {visible(what)}: {subject(report)}")}
    if path and _escape_hashes(visible(path, len(path))) == path:  # otherwise, there is no such file to attach it to
        properties = {"file": path, **properties}
    arguments = ",".join(f"{name}={_escaped(value, _PROPERTY)}" for name, value in properties.items())
    data = "\n".join(_escape_hashes(line) for line in lines)
    if len(data) > MAX_DATA:
        data = data[: MAX_DATA - 3] + "..."
    return f"::{command} {arguments}::{_escaped(data, _DATA)}"


def _verdict(report: Report) -> str:
    return "passed" if gate_of(report).passed else "FAILED"


def _figures(report: Report) -> str:
    """Return the judged figures, and the budgets that are violated."""
    gate = gate_of(report)
    figures = [
        f"{visible(item.rule)} {exact(item.value, item.unit)}"
        + (f" of {exact(item.limit, item.unit)} ({percent(item.value, item.limit)})" if item.limit else "")
        for item in gate.judgements
        if item.value is not None
    ]
    figures += [visible(name) for name, violated in gate.violations.items() if violated]
    return sentence(figures) or "no figures"


def _escaped(value: str, table: dict[str, str]) -> str:
    return "".join(table.get(character, character) for character in value)


def _escape_hashes(line: str) -> str:
    """Escape commands of the older form "##[name]", which runners recognize anywhere in a line ("##vso[" on Azure)."""
    return line.replace("##", r"#\x23")
