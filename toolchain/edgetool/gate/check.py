"""The judgement of `edgetool check`: a model on a target against its limits, the lock file and its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from edgetool.gate.breakdown import OperatorId
from edgetool.gate.drift import OnRuntime, drift_between, judge_drift
from edgetool.gate.judge import budgets_of, figures_of, judge, passes
from edgetool.gate.limits import Allowance, ModelLimits
from edgetool.gate.lock_file import LockEntry
from edgetool.gate.lock_judgement import LockedModel, compare, judge_lock, updated
from edgetool.gate.reasons import Reasons, flash_reasons, latency_reasons
from edgetool.model.types import Operator
from edgetool.report.document import DriftInfo, GateInfo, JudgementInfo, LockInfo, Report
from edgetool.target.types import Target

OPERATORS_NAMED = 8  # unsupported operators named per kind
Subject = Literal["arena", "flash", "latency"]
SUBJECT_BY_RULE: dict[str, Subject] = {
    "arena": "arena",
    "max-arena": "arena",
    "flash": "flash",
    "max-latency": "latency",
}
MEMORY_RULES = ("arena", "flash")  # rules about memories; another memory may be large enough


@dataclass(frozen=True, slots=True)
class CheckRules:
    """The limits, and how a model is compared with the lock file.

    update: the lock file will be written, so nothing is compared with it. locked: nothing may differ from it.
    """

    limits: ModelLimits = field(default_factory=ModelLimits)
    allowance: Allowance = field(default_factory=Allowance)
    update: bool = False
    locked: bool = False


def judge_model(
    report: Report,
    target: Target,
    rules: CheckRules,
    *,
    path: str,
    locked: LockedModel,
    entry: LockEntry,
    base: OnRuntime | None = None,
    unsupported: Iterable[tuple[int, Operator]],
    arena_reasons: Callable[[], Reasons],
) -> Report:
    """Return the report of a model on a target with its judgement and its budgets.

    Args:
        path: the model as the judgement names it.
        locked: the model's entry in the lock file.
        entry: the entry that the model has now.
        base: the model with another runtime, with which it is compared instead of with the lock file.
        unsupported: the operators that neither the runtime nor a description supports, each with its subgraph.
        arena_reasons: computes the reasons for the size of the arena; called only if a judgement of it failed, because
            it may search for other plans.
    """
    assert report.memory is not None
    figures = figures_of(report)
    judgements = judge(figures, rules.limits, unsupported=_unsupported_names(unsupported))
    judgements = _with_all_reasons(judgements, report, target, rules.limits, arena_reasons)
    lock: LockInfo | None = None
    drift: DriftInfo | None = None
    if base is not None:
        drift = drift_between(base, OnRuntime(report, entry), rules.allowance)
        judgements += judge_drift(drift, rules.allowance)
    elif rules.update:
        lock = updated(compare(locked, entry, rules.allowance))
    else:
        lock = compare(locked, entry, rules.allowance)
        judgements += judge_lock(locked, lock, rules.allowance, strict=rules.locked)
    budgets = budgets_of(figures, rules.limits)
    gate = GateInfo(
        passed=passes(judgements),
        path=path,
        judgements=judgements,
        violations={budget.name: budget.violated for budget in budgets},
        lock=lock,
        drift=drift,
    )
    return replace(report, check=gate, memory=replace(report.memory, budgets=budgets))


def _unsupported_names(operators: Iterable[tuple[int, Operator]]) -> dict[str, tuple[str, ...]]:
    """Return the first unsupported operators of each kind, by the rule of their finding."""
    names: dict[str, list[str]] = {}
    for graph, operator in operators:
        rule = "custom-operator" if operator.code == "CUSTOM" else "operator-not-in-runtime"
        names.setdefault(rule, []).append(str(OperatorId(graph, operator.index, operator.label)))
    return {rule: _first(items) for rule, items in names.items()}


def _first(names: list[str]) -> tuple[str, ...]:
    rest = len(names) - OPERATORS_NAMED
    return tuple(names) if rest <= 0 else (*names[:OPERATORS_NAMED], f"{rest} more")


def _with_all_reasons(
    judgements: tuple[JudgementInfo, ...],
    report: Report,
    target: Target,
    limits: ModelLimits,
    arena_reasons: Callable[[], Reasons],
) -> tuple[JudgementInfo, ...]:
    """Return the judgements, failed ones with causes and advice; the reasons for each subject are computed once."""
    compute: dict[Subject, Callable[[], Reasons]] = {
        "arena": arena_reasons,
        "flash": lambda: flash_reasons(report, target, reserve=limits.reserve_flash_bytes),
        "latency": lambda: latency_reasons(report),
    }
    reasons: dict[Subject, Reasons] = {}
    explained = []
    for item in judgements:
        subject = subject_of(item, limits)
        if item.passed is False and subject is not None:
            if subject not in reasons:
                reasons[subject] = compute[subject]()
            item = with_reasons(item, reasons[subject])
        explained.append(item)
    return tuple(explained)


def subject_of(item: JudgementInfo, limits: ModelLimits) -> Subject | None:
    """Return the subject whose reasons explain a judgement; None if it is about no size or time."""
    if item.rule == "active-budget" and limits.active_budget is not None:
        return "flash" if limits.active_budget.of == "flash" else "arena"
    return SUBJECT_BY_RULE.get(item.rule)


def with_reasons(item: JudgementInfo, reasons: Reasons) -> JudgementInfo:
    """Return a failed judgement with the causes and advice, unless it has its own."""
    if item.passed is not False or item.causes or item.advice:
        return item
    elsewhere = reasons.elsewhere if item.rule in MEMORY_RULES else ()
    return replace(item, causes=reasons.causes, advice=(*reasons.advice, *elsewhere))
