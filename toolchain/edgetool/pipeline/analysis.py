"""Everything that follows from a model and a target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from edgetool.estimate.latency import CountedOperator, count_operators, estimate_model, instruction_table
from edgetool.estimate.types import Estimate
from edgetool.finding import Finding
from edgetool.gate.judge import Fit, judge_fit
from edgetool.memory.plan_options import PlanOptions, Wanted
from edgetool.memory.planner import MemoryPlan, plan_memory
from edgetool.model.findings import model_findings
from edgetool.model.loops import subgraph_runs
from edgetool.model.types import Model, Operator
from edgetool.operators.cost import operator_costs
from edgetool.operators.registry import CUSTOM_OPERATORS
from edgetool.operators.types import OperatorEntry
from edgetool.pipeline.arena_findings import arena_findings, counted
from edgetool.pipeline.legality_findings import legality_findings
from edgetool.pipeline.source import Source
from edgetool.target.platform import platform_of
from edgetool.target.types import Target


@dataclass(frozen=True, slots=True)
class Analysis:
    """A model on a target: its memory plan, its estimate and its fit (None without a target)."""

    model: Model
    target: Target | None
    plan: MemoryPlan
    estimate: Estimate | None
    fit: Fit | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Build:
    """A model in one build of TFLM: everything that does not depend on the board.

    findings are those that name no board; refused: the operators, by (subgraph, index), whose types the runtime lacks.
    operators: counted work, None without a target or without an estimate.
    """

    plan: MemoryPlan
    findings: tuple[Finding, ...]
    refused: frozenset[tuple[int, int]]
    operators: tuple[CountedOperator, ...] | None


def analyse(
    source: Source,
    target: Target | None,
    *,
    with_estimate: bool = True,
    custom: Mapping[str, OperatorEntry] | None = None,
    wanted: Wanted = "best",
    options: PlanOptions | None = None,
    plan: MemoryPlan | None = None,
) -> Analysis:
    """Plan (unless a plan is given), estimate and judge.

    custom: entries of operators that the user describes, by custom code. Raises UnsupportedModelError for control flow
    that never ends, InvalidModelError for an unsafe plan in the file.
    """
    model = source.model
    if plan is None:
        platform = None if target is None else platform_of(target)
        plan = plan_memory(model, platform, custom=custom, wanted=wanted, options=options)
    build = _build(model, target, custom, plan, with_estimate=with_estimate)
    return _on_board(source, target, custom, build)


class SharedAnalysis:
    """Analyses of one file, as it is, for many targets; targets with the same build share its plan and its counts."""

    def __init__(self, source: Source, custom: Mapping[str, OperatorEntry] | None = None) -> None:
        self._source, self._custom = source, custom
        self._builds: dict[Hashable, Build] = {}

    def on(self, target: Target) -> Analysis:
        """Return what `analyse` returns for the target and wanted="as in file"; it raises the same errors."""
        core = target.core
        key = (target.runtime, core.abi, target.kernels, core.dsp, core.mve, instruction_table(target))
        build = self._builds.get(key)
        if build is None:
            model = self._source.model
            plan = plan_memory(model, platform_of(target), custom=self._custom, wanted="as in file")
            build = self._builds[key] = _build(model, target, self._custom, plan, with_estimate=True)
        return _on_board(self._source, target, self._custom, build)


def _build(
    model: Model,
    target: Target | None,
    custom: Mapping[str, OperatorEntry] | None,
    plan: MemoryPlan,
    *,
    with_estimate: bool,
) -> Build:
    findings = [*model_findings(model), *_cost_findings(model, custom), *_control_flow_findings(model)]
    findings += [*_runtime_findings(model, target, custom), *_described_findings(model, custom)]
    if target is None:
        return Build(plan, tuple(findings), frozenset(), None)
    illegal, refused = legality_findings(model, target, custom, plan.account)
    operators = count_operators(model, target, custom) if with_estimate else None
    return Build(plan, (*findings, *illegal), refused, operators)


def _on_board(
    source: Source, target: Target | None, custom: Mapping[str, OperatorEntry] | None, build: Build
) -> Analysis:
    model, plan = source.model, build.plan
    findings = [*build.findings, *arena_findings(plan, target, told=build.refused)]
    estimate = fit = None
    if target is not None and build.operators is not None:
        estimate = estimate_model(model, target, custom, counted=build.operators)
        findings += _silent_findings(estimate, target)
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


def _cost_findings(model: Model, custom: Mapping[str, OperatorEntry] | None) -> list[Finding]:
    unknown = Counter(cost.operator for cost in operator_costs(model, custom) if not cost.known)
    if not unknown:
        return []
    text = f"no cost rule for {counted(unknown)}: only memory traffic is counted, not arithmetic"
    return [Finding("operator-not-modelled", "warning", text)]


def _silent_findings(estimate: Estimate, target: Target) -> list[Finding]:
    """Kernels whose error nobody sees: verified for 1xN convolutions on the Cortex-M55 (arm_convolve_1_x_n_s8.c)."""
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
    return [Finding("kernel-gives-up", "error", text, target.name)]


def _described_findings(model: Model, custom: Mapping[str, OperatorEntry] | None) -> list[Finding]:
    """Descriptions of custom operators that the model does not use, or that stand for a kernel of TFLM's own."""
    used = {operator.custom_code for graph in model.subgraphs for operator in graph.operators}
    described = sorted(custom or {})
    findings = []
    unused = [name for name in described if name not in used]
    if unused:
        text = f"described but not used by the model: {counted(Counter(unused))}"
        findings.append(Finding("custom-operator-unused", "note", text))
    own = [name for name in described if name in used and name in CUSTOM_OPERATORS]
    if own:
        text = f"the description replaces TFLM's own kernel for {counted(Counter(own))}"
        findings.append(Finding("custom-operator-replaces", "note", text))
    return findings


def lacking_operators(
    model: Model, target: Target, custom: Mapping[str, OperatorEntry] | None
) -> list[tuple[int, Operator]]:
    """The operators that neither the runtime has nor the user describes, each with its subgraph."""
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
    lacking = [operator for _, operator in lacking_operators(model, target, custom)]
    missing = Counter(operator.label for operator in lacking if operator.code != "CUSTOM")
    foreign = Counter(operator.label for operator in lacking if operator.code == "CUSTOM")
    findings = []
    if missing:
        text = f"{runtime.name} does not support {counted(missing)}: AllocateTensors will fail on the device"
        findings.append(Finding("operator-not-in-runtime", "error", text))
    if foreign:
        text = (
            f"{runtime.name} does not include custom operator {counted(foreign)}: register your own kernel, and "
            "describe its allocations with --custom-operators"
        )
        findings.append(Finding("custom-operator", "warning", text))
    return findings


def _control_flow_findings(model: Model) -> list[Finding]:
    operators = Counter(operator.code for graph in model.subgraphs for operator in graph.operators)
    findings = []
    if operators["IF"]:
        text = "both branches of each IF are counted: work and time are upper bounds"
        findings.append(Finding("branches-counted", "note", text))
    unknown = sum(runs is None for runs in subgraph_runs(model))
    if unknown:
        which = "a subgraph runs" if unknown == 1 else f"{unknown} subgraphs run"
        text = f"the number of times {which} depends on the data: counted once, so work and time are lower bounds"
        findings.append(Finding("loop-counted-once", "warning", text))
    return findings


def _target_findings(target: Target) -> list[Finding]:
    if not target.unverified:
        return []
    return [
        Finding(
            "unverified-profile",
            "note",
            f"{len(target.unverified)} value{'s' * (len(target.unverified) > 1)} not checked against public "
            f"documentation: {', '.join(target.unverified)}",
            target.name,
        )
    ]
