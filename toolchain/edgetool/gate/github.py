"""The judgement as workflow annotations of GitHub Actions.

A line is a command of the runner where it starts with "::", or has "##[" anywhere (ActionCommand.cs of actions/runner):
no name from a file may bring either about. GitHub shows the first ten of each level in a step, so that the gravest come
first; the log has all.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgetool.gate.plain import exact, percent, sentence, visible
from edgetool.gate.said import by_gravity, count_line, gate_of, subject, told
from edgetool.report.document import Report

MOST_DATA = 4000  # characters of one annotation
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def text(reports: Sequence[Report]) -> str:
    """An annotation for each error and warning, one with the figures of each model, and lines for what is left."""
    items = by_gravity(reports)
    lines = [_annotation(item.level, report, item.rule, told(item)) for report, item in items if item.level != "note"]
    lines += [_annotation("notice", report, _verdict(report), (_figures(report),)) for report in reports]
    lines += [_tame(f"note: {subject(report)}: {told(item)[0]}") for report, item in items if item.level == "note"]
    return "\n".join([*lines, count_line(reports)]) + "\n"


def _annotation(command: str, report: Report, what: str, lines: Sequence[str]) -> str:
    path = gate_of(report).path
    properties = {"title": _tame(f"edgetool {visible(what)}: {subject(report)}")}
    if path and _tame(visible(path, len(path))) == path:  # else there is no such file to attach it to
        properties = {"file": path, **properties}
    given = ",".join(f"{name}={_escaped(value, _PROPERTY)}" for name, value in properties.items())
    data = "\n".join(_tame(line) for line in lines)
    if len(data) > MOST_DATA:
        data = data[: MOST_DATA - 3] + "..."
    return f"::{command} {given}::{_escaped(data, _DATA)}"


def _verdict(report: Report) -> str:
    return "passed" if gate_of(report).passed else "FAILED"


def _figures(report: Report) -> str:
    """What was judged, and the budgets that are violated."""
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


def _tame(line: str) -> str:
    """Without the older commands "##[name]", which runners look for within a line ("##vso[" those of Azure)."""
    return line.replace("##", r"#\x23")
