"""Everything that follows from a model and a target."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from edgetool.estimate.roofline import estimate_model
from edgetool.estimate.types import Estimate
from edgetool.finding import Finding
from edgetool.gate.fit import Fit, judge_fit
from edgetool.memory.planner import MemoryPlan, plan_memory
from edgetool.model.findings import model_findings
from edgetool.model.types import Model
from edgetool.operators.cost import operator_costs
from edgetool.pipeline.source import Source
from edgetool.target.types import Target

NAMES_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Analysis:
    """A model on a target: its memory plan, its estimate and its fit (None without a target)."""

    model: Model
    target: Target | None
    plan: MemoryPlan
    estimate: Estimate | None
    fit: Fit | None
    findings: tuple[Finding, ...]


def analyse(
    source: Source, target: Target | None, *, with_estimate: bool = True, plan: MemoryPlan | None = None
) -> Analysis:
    """Plan (unless a plan is given), estimate and judge.

    Raises UnsupportedModelError for control flow that never ends.
    """
    model = source.model
    plan = plan or plan_memory(model)
    findings = [*model_findings(model), *_cost_findings(model), *_control_flow_findings(model)]
    findings += _runtime_findings(model, target)
    findings.append(
        Finding(
            "arena-lower-bound",
            "note",
            "the exact arena is not known yet: persistent and scratch buffers are not counted, "
            f"so it is more than {plan.layout.height:,} bytes",
        )
    )
    estimate = estimate_model(model, target) if target is not None and with_estimate else None
    fit = None
    if target is not None:
        fit, judged = judge_fit(
            target,
            model_bytes=len(source.blob),
            arena_bytes=None,
            arena_lower_bound_bytes=plan.layout.height,
        )
        findings.extend(judged)
        findings.extend(_target_findings(target))
    return Analysis(model, target, plan, estimate, fit, tuple(findings))


def _cost_findings(model: Model) -> list[Finding]:
    unknown = Counter(cost.operator for cost in operator_costs(model) if not cost.known)
    if not unknown:
        return []
    text = f"no cost rule for {_counted(unknown)}: bytes are counted, arithmetic is not"
    return [Finding("operator-not-modelled", "warning", text)]


def _runtime_findings(model: Model, target: Target | None) -> list[Finding]:
    if target is None:
        return []
    runtime = target.runtime
    lacking = [
        operator
        for graph in model.subgraphs
        for operator in graph.operators
        if runtime.resolver_method(operator.code, operator.custom_code) is None
    ]
    missing = Counter(operator.label for operator in lacking if operator.code != "CUSTOM")
    custom = Counter(operator.label for operator in lacking if operator.code == "CUSTOM")
    findings = []
    if missing:
        text = f"{runtime.name} has no {_counted(missing)}: AllocateTensors will fail on the device"
        findings.append(Finding("operator-not-in-runtime", "error", text))
    if custom:
        text = f"{runtime.name} has no custom operator {_counted(custom)}: register a kernel of your own"
        findings.append(Finding("custom-operator", "warning", text))
    return findings


def _control_flow_findings(model: Model) -> list[Finding]:
    operators = Counter(operator.code for graph in model.subgraphs for operator in graph.operators)
    findings = []
    if operators["IF"]:
        text = "both branches of each IF are counted: work and time are upper figures for either"
        findings.append(Finding("branches-counted", "note", text))
    loops = operators["WHILE"]
    if loops:
        text = f"the body of {loops} loop{'s' if loops > 1 else ''} is counted once: work and time are lower bounds"
        findings.append(Finding("loop-counted-once", "warning", text))
    return findings


def _counted(names: Counter[str]) -> str:
    """As in "GELU (2x), TILE (1x) and 3 more"."""
    shown = ", ".join(f"{name} ({count}x)" for name, count in names.most_common(NAMES_SHOWN))
    left = len(names) - NAMES_SHOWN
    return f"{shown} and {left} more" if left > 0 else shown


def _target_findings(target: Target) -> list[Finding]:
    if not target.unverified:
        return []
    return [
        Finding(
            "unverified-profile",
            "note",
            f"not checked against public documentation: {', '.join(target.unverified)}",
            target.name,
        )
    ]
