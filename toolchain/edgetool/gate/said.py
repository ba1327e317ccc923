"""What is to be said of a judged model, the gravest first: what every form of the judgement begins with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgetool.gate.plain import NAME_LENGTH, visible
from edgetool.gate.rules import JUDGED_AS, NOT_ANNOTATED
from edgetool.report.check import GateInfo, JudgementInfo
from edgetool.report.document import FindingInfo, Report

LEVELS = ("error", "warning", "note")


def gate_of(report: Report) -> GateInfo:
    """The judgement. Raises ValueError for a report that has none."""
    if report.check is None:
        raise ValueError(f"the report of {report.model.name!r} contains no check")
    return report.check


def subject(report: Report) -> str:
    """ "models/kws.tflite on nucleo-l4r5zi", as visible characters."""
    path = visible(gate_of(report).path, NAME_LENGTH)
    return path if report.target is None else f"{path} on {visible(report.target.name, NAME_LENGTH)}"


def said(report: Report) -> tuple[JudgementInfo, ...]:
    """What was not passed, or only with a warning, and the findings: errors, then warnings, then notes."""
    return tuple(sorted((*to_tell(report), *findings(report)), key=lambda item: LEVELS.index(item.level)))


def to_tell(report: Report) -> tuple[JudgementInfo, ...]:
    """The judgements to tell of. What cannot be judged rejects nothing: it is a warning at most."""
    return tuple(
        item if item.passed is False or item.level != "error" else replace(item, level="warning")
        for item in gate_of(report).judgements
        if not item.passed or item.level == "warning"
    )


def findings(report: Report) -> tuple[JudgementInfo, ...]:
    """The findings that no judgement repeats, in the form of one."""
    known = {None, "", report.target.name if report.target else None}  # the target is named beside each message
    return tuple(
        JudgementInfo(
            item.rule, False, item.level, item.message if item.where in known else f"{item.where}: {item.message}"
        )
        for item in unjudged(report)
    )


def unjudged(report: Report) -> tuple[FindingInfo, ...]:
    """The findings that no judgement repeats."""
    judged = {item.rule for item in gate_of(report).judgements}
    return tuple(item for item in report.findings if not {item.rule, JUDGED_AS.get(item.rule)} & judged)


def annotated(item: JudgementInfo) -> bool:
    """Whether CI services show it: all but notes on which nothing depends."""
    return item.level != "note" or item.rule not in NOT_ANNOTATED


def told(item: JudgementInfo) -> tuple[str, ...]:
    """The message, what sets the value, and what would help: a line each."""
    return (
        visible(item.message),
        *(f"cause: {visible(cause)}" for cause in item.causes),
        *(f"suggestion: {visible(advice)}" for advice in item.advice),
    )


def by_gravity(reports: Sequence[Report]) -> tuple[tuple[Report, JudgementInfo], ...]:
    """Everything said of all models: errors first, and of one level the first of each model before any second."""
    items = []
    for place, report in enumerate(reports):
        seen = dict.fromkeys(LEVELS, 0)
        for item in filter(annotated, said(report)):
            items.append(((LEVELS.index(item.level), seen[item.level], place), report, item))
            seen[item.level] += 1
    return tuple((report, item) for _, report, item in sorted(items, key=lambda entry: entry[0]))


def count_line(reports: Sequence[Report]) -> str:
    """How many pass, in a sentence."""
    failed = sum(not gate_of(report).passed for report in reports)
    if failed:
        return f"edgetool check: {failed} of {len(reports)} failed"
    return f"edgetool check: {'passed' if len(reports) == 1 else f'all {len(reports)} passed'}"
