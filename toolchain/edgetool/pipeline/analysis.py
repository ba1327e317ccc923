"""Analyse a model on a target: its memory plan, its estimate, whether it fits, and all findings on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgetool.finding import Finding
from edgetool.gate.judge import Fit, judge_fit
from edgetool.memory.account import ArenaAccount
from edgetool.memory.planner import Plan, PlanRequest, plan_memory
from edgetool.memory.problem import Effort
from edgetool.model.lint import model_findings
from edgetool.model.loops import subgraph_runs
from edgetool.model.types import Model, Operator
from edgetool.operators.entry import KernelFault, OperatorEntry
from edgetool.operators.registry import CUSTOM_OPERATORS, OperatorCost, operator_costs
from edgetool.pipeline.source import Source
from edgetool.target.platform import platform_of
from edgetool.target.types import RuntimeTree, Target

# Estimate and validation are imported on use: commands that only plan start faster without them.
if TYPE_CHECKING:
    from edgetool.estimate.flash import CodeSize
    from edgetool.estimate.latency import CountedOperator
    from edgetool.estimate.types import Estimate
    from edgetool.operators.legality import UnsupportedKind, UnsupportedOperator

NAMES_SHOWN = 6
DIFFERENCES_SHOWN = 3
MAX_ARENA_BYTES = 2**31 - 1  # TFLM's planner holds offsets and sizes in an int (greedy_memory_planner.cc)


def arena_findings(plan: Plan, target: Target | None, *, reported: Collection[tuple[int, int]] = ()) -> list[Finding]:
    """Report why the arena is not exact, if it is not, and whether its size is derived rather than measured.

    Args:
        plan: The memory plan whose arena is reported.
        target: The target of the plan, if any.
        reported: Operators, as (subgraph, index), that another finding already reports as rejected by the device.
    """
    account = plan.account
    if plan.constants_in_ram:
        return []
    if account is None:
        text = (
            "the exact arena size depends on the core and its kernels: without a target, only a lower bound of "
            f"{plan.layout.height:,} bytes is known; specify one with --target"
        )
        return [Finding("arena-lower-bound", text, level="note")]
    if target is None or target.runtime.is_native:
        return []
    findings = _refusals(account, target, reported)
    unknown = Counter(item.label for item in account.unaccounted if item.refusal is None)
    if unknown:
        labels = format_counts(unknown)
        text = f"the allocations of {labels} are unknown: the arena of {account.bytes:,} bytes is a lower bound"
        findings.append(Finding("arena-lower-bound", text, level="warning"))
    if account.bytes > MAX_ARENA_BYTES:
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
    """Return one finding for each reason why a kernel refuses the model, with the operators or tensors concerned."""
    places_by_refusal: dict[str, list[str]] = {}
    for item in account.unaccounted:
        if item.refusal is not None and (item.subgraph, item.operator) not in reported:
            where = item.label if item.operator is None else f"operator {item.operator} ({item.label})"
            if item.subgraph:
                where += f" of subgraph {item.subgraph}"
            places_by_refusal.setdefault(item.refusal, []).append(where)
    return [
        Finding(
            "kernel-refuses",
            f"AllocateTensors will fail with {target.kernels} kernels: {refusal}"
            + (f" ({len(places)} times)" if len(places) > 1 else ""),
            where=places[0] if len(places) == 1 else f"{places[0]} and others",
        )
        for refusal, places in places_by_refusal.items()
    ]


def format_counts(names: Counter[str]) -> str:
    """Return text such as "GELU (2x), TILE (1x) and 3 more", with unprintable names of custom operators escaped."""
    shown = ", ".join(f"{_visible(name)} ({count}x)" for name, count in names.most_common(NAMES_SHOWN))
    rest = len(names) - NAMES_SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown


def _visible(name: str) -> str:
    return name if name.isprintable() else f"{name!a}"


MAX_OPERATORS_NAMED = 6  # in one message

# The rule and the consequence on the device, by kind; _runtime_findings reports missing operators.
UNSUPPORTED_RULES: dict[UnsupportedKind, tuple[str, str]] = {
    "type": ("operator-type-not-in-runtime", "the device will reject the model"),
    "limit": ("operator-limit-in-runtime", "the device will reject the model, or compute nothing"),
    "scales": ("operator-scales-in-runtime", "the outputs will be wrong on the device"),
}


def unsupported_findings(
    model: Model, target: Target, custom: Mapping[str, OperatorEntry] | None, account: ArenaAccount | None
) -> tuple[list[Finding], frozenset[tuple[int, int]]]:
    """Report the operators that the runtime includes but cannot run as the model uses them.

    Limits at which AllocateTensors fails are not reported here: arena_findings reports them.

    Returns:
        One finding for each reason, and the operators, as (subgraph, index), whose types are unsupported.
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
        if item.kind in UNSUPPORTED_RULES and not in_account:
            groups.setdefault((item.kind, item.why), []).append(item)
    findings = [
        Finding(
            UNSUPPORTED_RULES[kind][0],
            f"in {target.runtime.name}, {why}: {UNSUPPORTED_RULES[kind][1]} "
            f"({_places([(item.subgraph, item.operator.index) for item in items])})",
        )
        for (kind, why), items in groups.items()
    ]
    with_unsupported_types = frozenset(
        (item.subgraph, item.operator.index) for (kind, _), items in groups.items() if kind == "type" for item in items
    )
    return findings, with_unsupported_types


def fault_findings(
    model: Model,
    target: Target,
    custom: Mapping[str, OperatorEntry] | None,
    rejected: Collection[tuple[int, int]] = (),
) -> list[Finding]:
    """Report the operators whose kernels compute wrong outputs, one finding for each fault and operator.

    Args:
        rejected: the operators, as (subgraph, index), that the runtime rejects anyway.
    """
    from edgetool.operators.legality import kernel_faults

    groups: dict[tuple[str, str], tuple[KernelFault, list[tuple[int, int]]]] = {}
    for subgraph, operator, fault in kernel_faults(model, platform_of(target), custom):
        if (subgraph, operator.index) not in rejected:
            _, places = groups.setdefault((fault.name, operator.label), (fault, []))
            places.append((subgraph, operator.index))
    return [
        Finding(
            "kernel-fault",
            f"with the {target.kernels} kernels of {target.runtime.name}, {label} ({_places(places)}) "
            f"{fault.condition} {fault.effect}: {fault.remedy}{_rewrite_hint(fault)}",
            where=target.name,
        )
        for (_, label), (fault, places) in groups.items()
    ]


def _rewrite_hint(fault: KernelFault) -> str:
    from edgetool.passes.faults import RULES

    return "; 'edgetool plan --optimize' rewrites it if there is an exact equivalent" if fault.name in RULES else ""


def _places(items: Sequence[tuple[int, int]]) -> str:
    """Return text such as "operators 3, 7 and 2 more"; operator 4 of subgraph 1 is written as "1:4"."""
    names = [f"{subgraph}:{index}" if subgraph else str(index) for subgraph, index in items]
    more = f" and {len(names) - MAX_OPERATORS_NAMED} more" if len(names) > MAX_OPERATORS_NAMED else ""
    return f"operator{'s' * (len(names) > 1)} {', '.join(names[:MAX_OPERATORS_NAMED])}{more}"


@dataclass(frozen=True, slots=True)
class Analysis:
    """The memory plan of a model on a target, its estimate and its fit, which are None without a target.

    code: The size of its code in flash; None if it is unknown.
    """

    model: Model
    target: Target | None
    plan: Plan
    estimate: Estimate | None
    fit: Fit | None
    findings: tuple[Finding, ...]
    code: CodeSize | None = None


@dataclass(frozen=True, slots=True)
class Build:
    """The analysis of a model in one build of TFLM: everything that does not depend on the board.

    Attributes:
        plan: The memory plan.
        findings: The findings that do not depend on the board.
        refused: The operators, as (subgraph, index), whose types the runtime does not support.
        operators: The counted operators; None without a target or without an estimate.
        code: The size of its code in flash; None if it is unknown.
    """

    plan: Plan
    findings: tuple[Finding, ...]
    refused: frozenset[tuple[int, int]]
    operators: tuple[CountedOperator, ...] | None
    code: CodeSize | None = None


def analyse(
    source: Source,
    target: Target | None,
    request: PlanRequest | None = None,
    effort: Effort | None = None,
    *,
    plan: Plan | None = None,
    with_estimate: bool = True,
    counted: tuple[CountedOperator, ...] | None = None,
    flash_bytes: int | None = None,
    code: CodeSize | None = None,
    custom: Mapping[str, OperatorEntry] | None = None,
) -> Analysis:
    """Plan a model as requested, unless a plan is given; estimate it; and judge whether it fits the target.

    Args:
        source: The model.
        target: The target, if any.
        request: How to plan.
        effort: How long to search for a plan.
        plan: The plan to use instead of a new one.
        with_estimate: Whether to estimate the model; without a target, it is never estimated.
        counted: The counted operators of native code; by default, those of TFLM's kernels are counted.
        flash_bytes: What the model takes in flash; by default, the size of its file.
        code: The size of native code in flash; that of TFLM's is known without it.
        custom: Operators that the user describes, by custom code.

    Raises:
        UnsupportedModelError: The control flow of the model never ends.
        InvalidModelError: The plan in the file is unsafe.
    """
    model = source.model
    if plan is None:
        platform = None if target is None else platform_of(target)
        plan = plan_memory(model, platform, request, effort, custom=custom)
    build = _build(model, target, custom, plan, with_estimate=with_estimate and counted is None)
    if counted is not None:
        build = replace(build, operators=counted)
    if code is not None:
        build = replace(build, code=code)
    return _on_board(source, target, custom, build, flash_bytes)


class SharedAnalysis:
    """Analyse one unchanged file on many targets; targets with the same build share the plan and the counts."""

    def __init__(self, source: Source, custom: Mapping[str, OperatorEntry] | None = None) -> None:
        self._source, self._custom = source, custom
        self._plans: dict[Hashable, Plan] = {}
        self._builds: dict[Hashable, Build] = {}

    def on(self, target: Target) -> Analysis:
        """Analyse the model on the target with the plan in the file, as `analyse` does; raise the same errors."""
        from edgetool.estimate.latency import instruction_table

        model, core = self._source.model, target.core
        platform_key = (target.runtime, core.abi, target.kernels, core.dsp, core.mve, target.esp_nn_variant)
        plan = self._plans.get(platform_key)
        if plan is None:
            request = PlanRequest(file_plan="only")
            plan = self._plans[platform_key] = plan_memory(model, platform_of(target), request, custom=self._custom)
        key = (*platform_key, instruction_table(target), core.name, target.code_options)
        build = self._builds.get(key)
        if build is None:
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
    unsupported, refused = unsupported_findings(model, target, custom, plan.account)
    unsupported += fault_findings(model, target, custom, refused)
    from edgetool.pipeline.code import code_of

    code = code_of(model, target, custom)
    if not with_estimate:
        return Build(plan, (*findings, *unsupported), refused, None, code)
    from edgetool.estimate.latency import count_operators

    return Build(plan, (*findings, *unsupported), refused, count_operators(model, target, costs, custom), code)


def _on_board(
    source: Source,
    target: Target | None,
    custom: Mapping[str, OperatorEntry] | None,
    build: Build,
    flash_bytes: int | None = None,
) -> Analysis:
    model, plan = source.model, build.plan
    findings = [*build.findings, *arena_findings(plan, target, reported=build.refused)]
    estimate = fit = None
    if target is not None and build.operators is not None:
        estimate = _estimate(model, target, custom, build.operators)
        findings += _ignored_error_findings(estimate, target)
    if target is not None:
        code = build.code
        fit, judged = judge_fit(
            target,
            model_bytes=len(source.blob) if flash_bytes is None else flash_bytes,
            code=None if code is None else code.figure,
            code_is_exact=code is not None and code.is_exact,
            arena_bytes=plan.account.bytes if plan.account is not None and not plan.account.is_lower_bound else None,
            arena_lower_bound_bytes=plan.account.bytes if plan.account is not None else plan.layout.height,
        )
        findings.extend(judged)
        findings.extend(_target_findings(target))
    return Analysis(model, target, plan, estimate, fit, tuple(findings), build.code)


def _estimate(
    model: Model,
    target: Target,
    custom: Mapping[str, OperatorEntry] | None,
    counted: tuple[CountedOperator, ...],
) -> Estimate:
    if target.runtime.is_native:
        from edgetool.estimate.native import estimate_native

        return estimate_native(model, target, counted)
    from edgetool.estimate.latency import estimate_model

    return estimate_model(model, target, custom, counted=counted)


def _cost_findings(costs: Iterable[OperatorCost]) -> list[Finding]:
    unknown = Counter(cost.operator for cost in costs if not cost.known)
    if not unknown:
        return []
    text = f"no cost rule for {format_counts(unknown)}: only memory traffic is counted, not arithmetic"
    return [Finding("operator-not-modelled", text)]


def _ignored_error_findings(estimate: Estimate, target: Target) -> list[Finding]:
    """Report kernels whose error is ignored, such as 1xN convolutions on the Cortex-M55 (arm_convolve_1_x_n_s8.c)."""
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
        text = f"described but not used by the model: {format_counts(Counter(unused))}"
        findings.append(Finding("custom-operator-unused", text))
    replaced = [name for name in described if name in used and name in CUSTOM_OPERATORS]
    if replaced:
        text = f"the description replaces TFLM's own kernel for {format_counts(Counter(replaced))}"
        findings.append(Finding("custom-operator-replaces", text))
    return findings


def unsupported_operators(
    model: Model, target: Target, custom: Mapping[str, OperatorEntry] | None
) -> list[tuple[int, Operator]]:
    """Return the operators that the runtime lacks and the user does not describe, as (subgraph, operator)."""
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
        text = f"{runtime.name} does not support {format_counts(missing)}: AllocateTensors will fail on the device"
        findings.append(Finding("operator-not-in-runtime", text))
    if foreign:
        text = (
            f"{runtime.name} does not include custom operator {format_counts(foreign)}: register your own kernel, and "
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
    findings = [] if target.runtime_tree is None else _tree_findings(target.runtime_tree, target.runtime.name)
    if target.unverified:
        text = (
            f"{len(target.unverified)} value{'s' * (len(target.unverified) > 1)} not checked against public "
            f"documentation: {', '.join(target.unverified)}"
        )
        findings.append(Finding("unverified-profile", text, where=target.name))
    return findings


def _tree_findings(tree: RuntimeTree, nearest: str) -> list[Finding]:
    if not tree.differs:
        text = f"the files of TFLM are those of {nearest}"
        return [Finding("runtime-recognized", "; ".join([text, *tree.notes]), where=tree.name)]
    rest = len(tree.differs) - DIFFERENCES_SHOWN
    shown = ", ".join(tree.differs[:DIFFERENCES_SHOWN]) + (f", and {rest:,} more differences" if rest > 0 else "")
    text = f"the nearest runtime is {nearest}, whose arena, outputs and time may be others: {shown}"
    findings = [Finding("runtime-differs", text, where=tree.name)]
    if tree.notes:
        findings.append(Finding("runtime-recognized", "; ".join(tree.notes), where=tree.name))
    return findings
