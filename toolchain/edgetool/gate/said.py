"""What is to be said of a judged model, the gravest first: what every form of the judgement begins with.

What each rule asks, in a sentence, and which findings it stands for.

The share of memory that each model uses on each target, as a matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgetool.gate.plain import NAME_LENGTH, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgetool.report.document import FindingInfo, GateInfo, JudgementInfo, Report

# Findings that say again what a judgement says, and that judgement.
JUDGED_AS = {
    "arena-too-large": "arena",
    "model-too-large": "flash",
    "operator-not-in-runtime": "operators",
    "custom-operator": "operators",
    "arena-lower-bound": "arena-known",
}
# Notes on which nothing depends in TFLM: CI services do not show them.
NOT_ANNOTATED = frozenset(["quantized-dimension", "unnamed-tensors", "shared-names", "empty-tensors"])
RULES = {
    "accuracy": "Quantization costs no more accuracy than allowed.",
    "active-budget": "The memory that the active budget applies to does not exceed it.",
    "arena": "The arena fits in its memory region after subtracting the reserve.",
    "arena-known": "The arena size is known exactly, not just as a lower bound.",
    "flash": "The model fits in flash after subtracting the reserve for code.",
    "growth": "No figure exceeds the locked value by more than the allowance.",
    "kernel-gives-up": "Every kernel writes its output.",
    "kernel-refuses": "No kernel rejects the model in AllocateTensors.",
    "lock": "The lock file exists and is valid for this model and target.",
    "max-arena": "The arena is no larger than --max-arena.",
    "max-latency": "An inference takes no longer than --max-latency.",
    "operator-limit-in-runtime": "No operator exceeds its kernel's limits.",
    "operator-scales-in-runtime": "No kernel treats different quantization parameters as equal.",
    "operator-type-not-in-runtime": "The runtime supports every operator with the types that the model uses.",
    "operators": "The runtime supports every operator of the model.",
}


def asked(rule: str) -> str:
    """What the rule asks; a finding's rule says itself what it found."""
    return RULES.get(rule, f"edgetool finding '{rule}'; each result explains it.")


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
    from edgetool.report.document import JudgementInfo

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


NO_LIMIT = "-"


@dataclass(frozen=True, slots=True)
class Usage:
    """Arena and model as shares of their limits ("84 %", ">=84 %" for a lower bound, "-" without a limit)."""

    arena: str
    flash: str
    passed: bool

    def __str__(self) -> str:
        """As in "84 % / 10 %"; "-" if neither has a limit."""
        return NO_LIMIT if self.arena == self.flash == NO_LIMIT else f"{self.arena} / {self.flash}"


@dataclass(frozen=True, slots=True)
class Matrix:
    """A row of cells for each model, with a cell for each target; None if a model was not checked on the target."""

    models: tuple[str, ...]
    targets: tuple[str, ...]
    cells: tuple[tuple[Usage | None, ...], ...]


def usage(report: Report) -> Usage:
    """Return the shares against the limits that were checked, which are the memories less what is reserved."""
    return Usage(_share(report, "arena"), _share(report, "flash"), gate_of(report).passed)


def usage_matrix(reports: Sequence[Report]) -> Matrix:
    """Return the matrix; several targets of one name are told apart by their order."""
    rows: dict[str, dict[tuple[str, int], Usage]] = {}
    columns: dict[tuple[str, int], None] = {}
    for report in reports:
        row = rows.setdefault(gate_of(report).path, {})
        name = "-" if report.target is None else report.target.name
        column = (name, sum(known == name for known, _ in row))
        row[column] = usage(report)
        columns[column] = None
    cells = tuple(tuple(row.get(column) for column in columns) for row in rows.values())
    return Matrix(tuple(rows), tuple(name for name, _ in columns), cells)


def _share(report: Report, rule: str) -> str:
    """In whole percent, so that 100 % is neither rounded up nor down to."""
    item = next((item for item in gate_of(report).judgements if item.rule == rule), None)
    if item is None or item.value is None or item.limit is None:
        return NO_LIMIT
    if (item.value > item.limit and 200 * item.value < 201 * item.limit) or item.limit <= 0:
        return ">100 %"
    is_lower_bound = rule == "arena" and report.arena is not None and report.arena.is_lower_bound
    least = ">=" if is_lower_bound else ""
    share = 100 * item.value / item.limit
    if 0 < share < 0.5 and not least:
        return "<1 %"
    return "<100 %" if 99.5 <= share < 100 and not least else f"{least}{share:.0f} %"
