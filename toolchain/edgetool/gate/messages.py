"""The messages of judged models, the most severe first, and the shares of memory that the models use.

Every form of the judgement (text, GitHub, JUnit, markdown, SARIF) prints these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

from edgetool.gate.text import NAME_LENGTH, duration, short_size, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgetool.report.document import FindingInfo, GateInfo, JudgementInfo, Report

# Findings that repeat a judgement, and the rule of that judgement.
JUDGED_AS = {
    "arena-too-large": "arena",
    "model-too-large": "flash",
    "memory-too-small": "memory",
    "operator-not-in-runtime": "operators",
    "custom-operator": "operators",
    "arena-lower-bound": "arena-known",
}
# Notes on details that TFLM ignores: CI services do not show them.
NOT_ANNOTATED = frozenset(["quantized-dimension", "unnamed-tensors", "shared-names", "empty-tensors"])
# What each rule requires: all rules of judgements, and the findings for which a requirement can be stated.
REQUIREMENTS = {
    "accuracy": "Quantization costs no more accuracy than allowed.",
    "active-budget": "The memory that the active budget applies to does not exceed it.",
    "arena": "The arena fits in its memory region after subtracting the reserve.",
    "arena-known": "The arena size is known exactly, not just as a lower bound.",
    "drift": "No figure exceeds that of the first runtime by more than the allowance.",
    "flash": "The model fits in flash after subtracting the reserve for code.",
    "growth": "No figure exceeds the locked value by more than the allowance.",
    "kernel-fault": "No known kernel fault applies to an operator of the model.",
    "kernel-gives-up": "Every kernel writes its output.",
    "kernel-refuses": "No kernel rejects the model in AllocateTensors.",
    "lock": "The lock file exists and is valid for this model and target.",
    "max-arena": "The arena is no larger than --max-arena.",
    "max-extra-macs": "The plan computes no more of the model again than --max-extra-macs.",
    "max-latency": "An inference takes no longer than --max-latency.",
    "memory": "Each memory has room for what is placed in it, after subtracting the reserve.",
    "operator-limit-in-runtime": "No operator exceeds its kernel's limits.",
    "operator-scales-in-runtime": "No kernel treats different quantization parameters as equal.",
    "operator-type-not-in-runtime": "The runtime supports every operator with the types that the model uses.",
    "operators": "The runtime supports every operator of the model.",
}


def requirement(rule: str) -> str:
    """Return what a rule requires, in a sentence."""
    return REQUIREMENTS.get(rule, f"edgetool finding '{rule}'; each result explains it.")


# Short reasons for failed judgements without a figure, by rule.
SHORT_REASONS = {
    "arena-known": "arena not fully known",
    "arena-too-large": "arena exceeds 32 bits",
    "kernel-refuses": "a kernel rejects the model",
    "kernel-fault": "a kernel computes wrong outputs",
    "kernel-gives-up": "a kernel does not write its output",
    "operator-type-not-in-runtime": "tensor types not supported",
    "operator-limit-in-runtime": "a limit of a kernel is exceeded",
    "operator-scales-in-runtime": "scales not supported",
}
OPERATORS_NAMED = 2  # unsupported operators in a short reason

ARENA_PARTS = frozenset(["head", "tail", "arena"])  # in PlacedInfo

LEVELS = ("error", "warning", "note")


def gate_of(report: Report) -> GateInfo:
    """Return the judgement. Raises ValueError for a report without one."""
    if report.check is None:
        raise ValueError(f"the report of {report.model.name!r} contains no check")
    return report.check


def device(report: Report) -> str:
    """Return the target, and the runtime if the report is compared with another's: "rpi-pico, tflm-2025-06"."""
    if report.target is None:
        return ""
    drift = gate_of(report).drift
    return report.target.name if drift is None else f"{report.target.name}, {drift.after}"


def subject(report: Report) -> str:
    """Return model and target as visible characters: "models/kws.tflite on nucleo-l4r5zi"."""
    path = visible(gate_of(report).path, NAME_LENGTH)
    return path if report.target is None else f"{path} on {visible(device(report), NAME_LENGTH)}"


def messages(report: Report) -> tuple[JudgementInfo, ...]:
    """Return the judgements that did not simply pass, and the findings: errors, then warnings, then notes."""
    items = (*_open_judgements(report), *finding_messages(report))
    return tuple(sorted(items, key=lambda item: LEVELS.index(item.level)))


def _open_judgements(report: Report) -> tuple[JudgementInfo, ...]:
    """Return the judgements that failed, warn or could not be made; one that could not be made is at most a warning."""
    return tuple(
        item if item.passed is False or item.level != "error" else replace(item, level="warning")
        for item in gate_of(report).judgements
        if not item.passed or item.level == "warning"
    )


def finding_messages(report: Report) -> tuple[JudgementInfo, ...]:
    """Return the findings that no judgement repeats, in the form of judgements."""
    from edgetool.report.document import JudgementInfo

    named_elsewhere = {None, "", report.target.name if report.target else None}  # printed anyway
    return tuple(
        JudgementInfo(
            item.rule,
            False,
            item.level,
            item.message if item.where in named_elsewhere else f"{item.where}: {item.message}",
        )
        for item in unjudged_findings(report)
    )


def unjudged_findings(report: Report) -> tuple[FindingInfo, ...]:
    """Return the findings that no judgement repeats."""
    judged = {item.rule for item in gate_of(report).judgements}
    return tuple(item for item in report.findings if not {item.rule, JUDGED_AS.get(item.rule)} & judged)


def is_annotated(item: JudgementInfo) -> bool:
    """Return whether CI services show a message: all but notes on details that TFLM ignores."""
    return item.level != "note" or item.rule not in NOT_ANNOTATED


def message_lines(item: JudgementInfo) -> tuple[str, ...]:
    """Return the message, its causes and its suggestions, a line each."""
    return (
        visible(item.message),
        *(f"cause: {visible(cause)}" for cause in item.causes),
        *(f"suggestion: {visible(advice)}" for advice in item.advice),
    )


def short_reasons(
    failed: Sequence[JudgementInfo], *, is_lower_bound: bool, unsupported: Sequence[str]
) -> tuple[str, ...]:
    """Return a phrase for each failed judgement, except those that follow from an unsupported operator.

    is_lower_bound: the arena is one. unsupported: the names of the unsupported operators.
    """
    at_least = "at least " if is_lower_bound else ""
    reasons = []
    for item in failed:
        if item.rule == "arena":
            reasons.append(f"arena: {at_least}{short_size(item.over or 0)} too large")
        elif item.rule == "flash":
            reasons.append(f"model: {short_size(item.over or 0)} too large for the flash")
        elif item.rule == "max-arena":
            reasons.append(f"arena: {at_least}{short_size(item.over or 0)} over the limit")
        elif item.rule == "max-latency":
            over = item.over
            reasons.append("latency: unknown" if over is None else f"latency: {duration(over)} over the limit")
        elif item.rule == "operators":
            rest = len(unsupported) - OPERATORS_NAMED
            more = f" and {rest} more" if rest > 0 else ""
            reasons.append(f"operator {', '.join(unsupported[:OPERATORS_NAMED])}{more} not in TFLM")
        elif item.rule != "arena-known" or not unsupported:
            reasons.append(SHORT_REASONS.get(item.rule, item.rule.replace("-", " ")))
    return tuple(dict.fromkeys(reasons))


def by_severity(reports: Sequence[Report]) -> tuple[tuple[Report, JudgementInfo], ...]:
    """Return the messages of all models: errors first, and of one level, the first of each model before any second."""
    items = []
    for place, report in enumerate(reports):
        seen = dict.fromkeys(LEVELS, 0)
        for item in filter(is_annotated, messages(report)):
            items.append(((LEVELS.index(item.level), seen[item.level], place), report, item))
            seen[item.level] += 1
    return tuple((report, item) for _, report, item in sorted(items, key=lambda entry: entry[0]))


def count_line(reports: Sequence[Report]) -> str:
    """Return how many models pass, in a sentence."""
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
        """Return both shares, as in "84 % / 10 %"; "-" if neither has a limit."""
        return NO_LIMIT if self.arena == self.flash == NO_LIMIT else f"{self.arena} / {self.flash}"


@dataclass(frozen=True, slots=True)
class Matrix:
    """A row of cells for each model, with a cell for each target; None if a model was not checked on the target."""

    models: tuple[str, ...]
    targets: tuple[str, ...]
    cells: tuple[tuple[Usage | None, ...], ...]


def usage(report: Report) -> Usage:
    """Return the shares of the limits that were checked, which are the memories minus the reserves.

    If the arena is in several memories, its share is that of the fullest one.
    """
    judgements = gate_of(report).judgements
    arena: JudgementInfo | None
    if report.places:
        memories = dict.fromkeys(item.memory for item in report.places)
        judged = dict(zip(memories, (item for item in judgements if item.rule == "memory"), strict=True))
        arenas = [judged[item.memory] for item in report.places if item.part in ARENA_PARTS]
        stored = [judged[item.memory] for item in report.places if item.part in ("model", "constants")]
        arena, flash = max(arenas, key=_ratio, default=None), next(iter(stored), None)
    else:
        arena, flash = (next((item for item in judgements if item.rule == rule), None) for rule in ("arena", "flash"))
    is_lower_bound = report.arena is not None and report.arena.is_lower_bound
    return Usage(_share(arena, is_lower_bound=is_lower_bound), _share(flash), gate_of(report).passed)


def usage_matrix(reports: Sequence[Report]) -> Matrix:
    """Return the matrix; targets with the same name are distinguished by their order."""
    rows: dict[str, dict[tuple[str, int], Usage]] = {}
    columns: dict[tuple[str, int], None] = {}
    for report in reports:
        row = rows.setdefault(gate_of(report).path, {})
        name = device(report) or "-"
        column = (name, sum(other == name for other, _ in row))
        row[column] = usage(report)
        columns[column] = None
    cells = tuple(tuple(row.get(column) for column in columns) for row in rows.values())
    return Matrix(tuple(rows), tuple(name for name, _ in columns), cells)


def _ratio(item: JudgementInfo) -> float:
    return (item.value or 0) / item.limit if item.limit else inf


def _share(item: JudgementInfo | None, *, is_lower_bound: bool = False) -> str:
    """Return whole percent; nothing is rounded to 100 %."""
    if item is None or item.value is None or item.limit is None:
        return NO_LIMIT
    if (item.value > item.limit and 200 * item.value < 201 * item.limit) or item.limit <= 0:
        return ">100 %"
    bound = ">=" if is_lower_bound else ""
    share = 100 * item.value / item.limit
    if 0 < share < 0.5 and not bound:
        return "<1 %"
    return "<100 %" if 99.5 <= share < 100 and not bound else f"{bound}{share:.0f} %"
