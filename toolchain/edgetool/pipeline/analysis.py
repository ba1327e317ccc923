"""Analyse a model on a target: its memory plan, its estimate, whether it fits, and all findings on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgetool.finding import Finding
from edgetool.gate.judge import Fit, judge_fit
from edgetool.memory.account import ArenaAccount
from edgetool.memory.planner import Plan, PlanRequest, plan_memory
from edgetool.memory.problem import Effort
from edgetool.model.lint import model_findings
from edgetool.model.loops import subgraph_runs
from edgetool.model.types import Model, Operator
from edgetool.operators.cost import OperatorCost, operator_costs
from edgetool.operators.entry import OperatorEntry
from edgetool.operators.registry import CUSTOM_OPERATORS
from edgetool.pipeline.source import Source
from edgetool.target.platform import platform_of
from edgetool.target.types import Target

# Estimate and validation are imported on use: commands that only plan start faster without them.
if TYPE_CHECKING:
    from edgetool.estimate.latency import CountedOperator
    from edgetool.estimate.types import Estimate
    from edgetool.operators.legality import UnsupportedKind, UnsupportedOperator

NAMES_SHOWN = 6
MOST_BYTES = 2**31 - 1  # offsets and sizes in TFLM's planner are int (greedy_memory_planner.cc)


def arena_findings(plan: Plan, target: Target | None, *, reported: Collection[tuple[int, int]] = ()) -> list[Finding]:
    """Report why the arena is not exact, if it is not, and which figures are derived instead of measured.

    reported: operators, by (subgraph, index), that another finding reports as rejected by the device.
    """
    account = plan.account
    if plan.constants_in_ram:
        return []
    if account is None or target is None:
        text = (
            "the exact arena size depends on the core and its kernels: without a target, only a lower bound of "
            f"{plan.layout.height:,} bytes is known; specify one with --target"
        )
        return [Finding("arena-lower-bound", text, level="note")]
    findings = _refusals(account, target, reported)
    unknown = Counter(item.label for item in account.unaccounted if item.refusal is None)
    if unknown:
        text = (
            f"the allocations of {counted(unknown)} are unknown: the arena of {account.bytes:,} bytes is a lower bound"
        )
        findings.append(Finding("arena-lower-bound", text, level="warning"))
    if account.bytes > MOST_BYTES:
        text = f"the arena of {account.bytes:,} bytes is more than TFLM can plan: its planner uses 32-bit sizes"
        findings.append(Finding("arena-too-large", text))
    abi = target.runtime.abi(target.core.abi)
    if target.kernels not in abi.measured:
        text = (
            f"the arena size is derived, not measured: {target.kernels} kernels were not measured on the {abi.name} ABI"
        )
        findings.append(Finding("arena-derived", text))
    if target.usual_kernels is not None:
        text = (
            f"the arena and the estimate are for the {target.kernels} kernels; with {target.usual_kernels}, which "
            f"{target.name} usually uses, scratch buffers and speed differ"
        )
        findings.append(Finding("kernels-not-modelled", text))
    return findings


def _refusals(account: ArenaAccount, target: Target, reported: Collection[tuple[int, int]]) -> list[Finding]:
    """Return one finding for each reason, with the operators and tensors that it concerns."""
    refused: dict[str, list[str]] = {}
    for item in account.unaccounted:
        if item.refusal is not None and (item.subgraph, item.operator) not in reported:
            where = item.label if item.operator is None else f"operator {item.operator} ({item.label})"
            if item.subgraph:
                where += f" of subgraph {item.subgraph}"
            refused.setdefault(item.refusal, []).append(where)
    return [
        Finding(
            "kernel-refuses",
            f"AllocateTensors will fail with {target.kernels} kernels: {refusal}"
            + (f" ({len(places)} times)" if len(places) > 1 else ""),
            where=places[0] if len(places) == 1 else f"{places[0]} and others",
        )
        for refusal, places in refused.items()
    ]


def counted(names: Counter[str]) -> str:
    """Return text such as "GELU (2x), TILE (1x) and 3 more", with names of custom operators escaped."""
    shown = ", ".join(f"{_visible(name)} ({count}x)" for name, count in names.most_common(NAMES_SHOWN))
    rest = len(names) - NAMES_SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown


def _visible(name: str) -> str:
    return name if name.isprintable() else f"{name!a}"


NAMED = 6  # operators that a message names

# What happens to the model on the device, by kind; missing operators are reported by _runtime_findings.
RULES: dict[UnsupportedKind, tuple[str, str]] = {
    "type": ("operator-type-not-in-runtime", "the device will reject the model"),
    "limit": ("operator-limit-in-runtime", "the device will reject the model, or compute nothing"),
    "scales": ("operator-scales-in-runtime", "the outputs will be wrong on the device"),
}


def legality_findings(
    model: Model, target: Target, custom: Mapping[str, OperatorEntry] | None, account: ArenaAccount | None
) -> tuple[list[Finding], frozenset[tuple[int, int]]]:
    """Return one finding for each reason, and the operators, by (subgraph, index), whose types were the reason.

    Limits for which AllocateTensors fails are left to arena_findings.
    """
    from edgetool.operators.legality import unsupported_operators

    refused = {
        (item.subgraph, item.operator)
        for item in (account.unaccounted if account is not None else ())
        if item.refusal is not None
    }
    groups: dict[tuple[UnsupportedKind, str], list[UnsupportedOperator]] = {}
    for item in unsupported_operators(model, target.runtime, custom, kernels=target.kernels):
        in_account = item.kind == "limit" and (item.subgraph, item.operator.index) in refused
        if item.kind in RULES and not in_account:
            groups.setdefault((item.kind, item.why), []).append(item)
    findings = [
        Finding(
            RULES[kind][0],
            f"in {target.runtime.name}, {why}: {RULES[kind][1]} ({_places(items)})",
        )
        for (kind, why), items in groups.items()
    ]
    typed = frozenset(
        (item.subgraph, item.operator.index) for (kind, _), items in groups.items() if kind == "type" for item in items
    )
    return findings, typed


def _places(items: Sequence[UnsupportedOperator]) -> str:
    """Return text such as "operators 3, 7 and 2 more", with operators of other subgraphs as "1:4"."""
    names = [f"{item.subgraph}:{item.operator.index}" if item.subgraph else str(item.operator.index) for item in items]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"operator{'s' * (len(names) > 1)} {', '.join(names[:NAMED])}{more}"


@dataclass(frozen=True, slots=True)
class Analysis:
    """A model on a target: its memory plan, its estimate and its fit, both None without a target."""

    model: Model
    target: Target | None
    plan: Plan
    estimate: Estimate | None
    fit: Fit | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Build:
    """A model in one build of TFLM: everything that does not depend on the board.

    findings: those that name no board. refused: the operators, by (subgraph, index), whose types the runtime lacks.
    operators: the counted operators, None without a target or without an estimate.
    """

    plan: Plan
    findings: tuple[Finding, ...]
    refused: frozenset[tuple[int, int]]
    operators: tuple[CountedOperator, ...] | None


def analyse(
    source: Source,
    target: Target | None,
    request: PlanRequest | None = None,
    effort: Effort | None = None,
    *,
    plan: Plan | None = None,
    with_estimate: bool = True,
    custom: Mapping[str, OperatorEntry] | None = None,
) -> Analysis:
    """Plan as requested (unless a plan is given), estimate and judge.

    custom: entries of operators that the user describes, by custom code. Raises UnsupportedModelError for control flow
    that never ends, InvalidModelError for an unsafe plan in the file.
    """
    model = source.model
    if plan is None:
        platform = None if target is None else platform_of(target)
        plan = plan_memory(model, platform, request, effort, custom=custom)
    build = _build(model, target, custom, plan, with_estimate=with_estimate)
    return _on_board(source, target, custom, build)


class SharedAnalysis:
    """Analyses of one unchanged file for many targets; targets with the same build share its plan and its counts."""

    def __init__(self, source: Source, custom: Mapping[str, OperatorEntry] | None = None) -> None:
        self._source, self._custom = source, custom
        self._builds: dict[Hashable, Build] = {}

    def on(self, target: Target) -> Analysis:
        """Return what `analyse` returns for the target and the plan in the file; raise the same errors."""
        from edgetool.estimate.latency import instruction_table

        core = target.core
        key = (target.runtime, core.abi, target.kernels, core.dsp, core.mve, instruction_table(target))
        build = self._builds.get(key)
        if build is None:
            model = self._source.model
            plan = plan_memory(model, platform_of(target), PlanRequest(file_plan="only"), custom=self._custom)
            build = self._builds[key] = _build(model, target, self._custom, plan, with_estimate=True)
        return _on_board(self._source, target, self._custom, build)


def _build(
    model: Model,
    target: Target | None,
    custom: Mapping[str, OperatorEntry] | None,
    plan: Plan,
    *,
    with_estimate: bool,
) -> Build:
    costs = operator_costs(model, custom)
    findings = [*model_findings(model), *_cost_findings(costs), *_control_flow_findings(model)]
    findings += [*_runtime_findings(model, target, custom), *_described_findings(model, custom)]
    if target is None:
        return Build(plan, tuple(findings), frozenset(), None)
    illegal, refused = legality_findings(model, target, custom, plan.account)
    if not with_estimate:
        return Build(plan, (*findings, *illegal), refused, None)
    from edgetool.estimate.latency import count_operators

    return Build(plan, (*findings, *illegal), refused, count_operators(model, target, costs, custom))


def _on_board(
    source: Source, target: Target | None, custom: Mapping[str, OperatorEntry] | None, build: Build
) -> Analysis:
    model, plan = source.model, build.plan
    findings = [*build.findings, *arena_findings(plan, target, reported=build.refused)]
    estimate = fit = None
    if target is not None and build.operators is not None:
        from edgetool.estimate.latency import estimate_model

        estimate = estimate_model(model, target, custom, counted=build.operators)
        findings += _ignored_error_findings(estimate, target)
    if target is not None:
        fit, judged = judge_fit(
            target,
            model_bytes=len(source.blob),
            arena_bytes=plan.account.bytes if plan.account is not None and not plan.account.is_lower_bound else None,
            arena_lower_bound_bytes=plan.account.bytes if plan.account is not None else plan.layout.height,
        )
        findings.extend(judged)
        findings.extend(_target_findings(target))
    return Analysis(model, target, plan, estimate, fit, tuple(findings))


def _cost_findings(costs: Iterable[OperatorCost]) -> list[Finding]:
    unknown = Counter(cost.operator for cost in costs if not cost.known)
    if not unknown:
        return []
    text = f"no cost rule for {counted(unknown)}: only memory traffic is counted, not arithmetic"
    return [Finding("operator-not-modelled", text)]


def _ignored_error_findings(estimate: Estimate, target: Target) -> list[Finding]:
    """Report kernels whose error is ignored, as 1xN convolutions on the Cortex-M55 do (arm_convolve_1_x_n_s8.c)."""
    silent = [item for item in estimate.operators if item.gives_up]
    if not silent:
        return []
    named = ", ".join(f"{item.operator} {item.index}" for item in silent[:3])
    more = f" and {len(silent) - 3} more" if len(silent) > 3 else ""
    never = "never writes its output" if len(silent) == 1 else "never write their outputs"
    text = (
        f"with {target.kernels} kernels on {target.core.name}, {named}{more} {never}: "
        "the kernel returns an error that a release build of TFLM ignores. Pad the input so that the windows "
        "cover it exactly, or use a different stride or the reference kernels"
    )
    return [Finding("kernel-gives-up", text, where=target.name)]


def _described_findings(model: Model, custom: Mapping[str, OperatorEntry] | None) -> list[Finding]:
    """Report descriptions of custom operators that the model does not use, or that replace a kernel of TFLM."""
    used = {operator.custom_code for graph in model.subgraphs for operator in graph.operators}
    described = sorted(custom or {})
    findings = []
    unused = [name for name in described if name not in used]
    if unused:
        text = f"described but not used by the model: {counted(Counter(unused))}"
        findings.append(Finding("custom-operator-unused", text))
    replaced = [name for name in described if name in used and name in CUSTOM_OPERATORS]
    if replaced:
        text = f"the description replaces TFLM's own kernel for {counted(Counter(replaced))}"
        findings.append(Finding("custom-operator-replaces", text))
    return findings


def unsupported_operators(
    model: Model, target: Target, custom: Mapping[str, OperatorEntry] | None
) -> list[tuple[int, Operator]]:
    """Return the operators that the runtime lacks and the user does not describe, each with its subgraph."""
    return [
        (graph.index, operator)
        for graph in model.subgraphs
        for operator in graph.operators
        if target.runtime.resolver_method(operator.code, operator.custom_code) is None
        and (operator.code != "CUSTOM" or operator.custom_code not in (custom or {}))
    ]


def _runtime_findings(model: Model, target: Target | None, custom: Mapping[str, OperatorEntry] | None) -> list[Finding]:
    if target is None:
        return []
    runtime = target.runtime
    unsupported = [operator for _, operator in unsupported_operators(model, target, custom)]
    missing = Counter(operator.label for operator in unsupported if operator.code != "CUSTOM")
    foreign = Counter(operator.label for operator in unsupported if operator.code == "CUSTOM")
    findings = []
    if missing:
        text = f"{runtime.name} does not support {counted(missing)}: AllocateTensors will fail on the device"
        findings.append(Finding("operator-not-in-runtime", text))
    if foreign:
        text = (
            f"{runtime.name} does not include custom operator {counted(foreign)}: register your own kernel, and "
            "describe its allocations with --custom-operators"
        )
        findings.append(Finding("custom-operator", text))
    return findings


def _control_flow_findings(model: Model) -> list[Finding]:
    operators = Counter(operator.code for graph in model.subgraphs for operator in graph.operators)
    findings = []
    if operators["IF"]:
        text = "both branches of each IF are counted: work and time are upper bounds"
        findings.append(Finding("branches-counted", text))
    unknown = sum(runs is None for runs in subgraph_runs(model))
    if unknown:
        which = "a subgraph runs" if unknown == 1 else f"{unknown} subgraphs run"
        text = f"the number of times {which} depends on the data: counted once, so work and time are lower bounds"
        findings.append(Finding("loop-counted-once", text))
    return findings


def _target_findings(target: Target) -> list[Finding]:
    if not target.unverified:
        return []
    return [
        Finding(
            "unverified-profile",
            f"{len(target.unverified)} value{'s' * (len(target.unverified) > 1)} not checked against public "
            f"documentation: {', '.join(target.unverified)}",
            where=target.name,
        )
    ]
