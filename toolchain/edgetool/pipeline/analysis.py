"""Everything that follows from a model and a target, and the report of it."""

from __future__ import annotations

import platform
from collections import Counter
from dataclasses import dataclass

from edgetool import __version__
from edgetool.estimate.roofline import estimate_model
from edgetool.estimate.types import Estimate
from edgetool.figure import Figure
from edgetool.finding import Finding
from edgetool.gate.fit import Fit, judge_fit
from edgetool.memory.planner import MemoryPlan, plan_memory
from edgetool.model.findings import model_findings
from edgetool.model.types import Model
from edgetool.operators.cost import operator_costs, parameter_count
from edgetool.pipeline.source import Source
from edgetool.report import document as doc
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


def analyse(source: Source, target: Target | None, *, with_estimate: bool = True) -> Analysis:
    """Plan, estimate and judge. Raises UnsupportedModelError for control flow that never ends."""
    model = source.model
    plan = plan_memory(model)
    findings = [*model_findings(model), *_cost_findings(model), *_runtime_findings(model, target)]
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
    text = f"no cost rule for {_counted(unknown)}: their bytes are counted, their arithmetic is not"
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


def report(
    source: Source,
    analysis: Analysis,
    *,
    options: dict[str, object],
    original: doc.ModelInfo | None = None,
    quantization: doc.QuantizationInfo | None = None,
    findings: tuple[Finding, ...] = (),
    versions: dict[str, str] | None = None,
    trust_model_code: bool = False,
) -> doc.Report:
    """The document of an analysis. `original` describes the input file where the source was made from it."""
    return doc.Report(
        provenance=doc.Provenance(
            tool=f"edgetool {__version__}",
            versions={"python": platform.python_version(), **(versions or {})},
            options=options,
            trust_model_code=trust_model_code,
        ),
        model=original or model_info(source),
        quantization=quantization,
        target=_target_info(analysis.target),
        arena=_arena_info(analysis.plan),
        plan=_plan_info(analysis.plan),
        memory=_memory_info(analysis.fit),
        estimate=_estimate_info(analysis.estimate),
        findings=finding_infos((*findings, *analysis.findings)),
    )


def model_info(source: Source) -> doc.ModelInfo:
    """Name, hash and counts of a .tflite."""
    graphs = source.model.subgraphs
    return doc.ModelInfo(
        name=source.name,
        sha256=source.sha256,
        bytes=len(source.blob),
        operators=sum(len(graph.operators) for graph in graphs),
        tensors=sum(len(graph.tensors) for graph in graphs),
        parameters=parameter_count(source.model),
    )


def finding_infos(findings: tuple[Finding, ...]) -> tuple[doc.FindingInfo, ...]:
    """Findings as the document has them, the gravest first."""
    gravity = {"error": 0, "warning": 1, "note": 2}
    ordered = sorted(findings, key=lambda finding: gravity[finding.level])
    return tuple(doc.FindingInfo(f.rule, f.level, f.message, f.where) for f in ordered)


def _target_info(target: Target | None) -> doc.TargetInfo | None:
    if target is None:
        return None
    return doc.TargetInfo(target.name, target.core.name, target.board, target.runtime.name, target.kernels)


def _arena_info(plan: MemoryPlan) -> doc.ArenaInfo:
    layout = plan.layout
    return doc.ArenaInfo(
        bytes=None,
        used_bytes=None,
        head_bytes=None,
        tail_bytes=None,
        layout_bytes=layout.height,
        lower_bound_bytes=layout.lower_bound,
        optimal=layout.optimal,
        proof=layout.proof,
        stock_bytes=None,
        is_lower_bound=True,
    )


def _plan_info(plan: MemoryPlan) -> doc.PlanInfo:
    return doc.PlanInfo(
        order=plan.order,
        tensors=tuple(
            doc.PlannedTensor(
                subgraph=buffer.subgraph,
                index=buffer.tensor,
                name=buffer.name,
                offset=offset,
                bytes=buffer.size_bytes,
                first_op=buffer.lifetime.first,
                last_op=buffer.lifetime.last,
            )
            for buffer, offset in zip(plan.problem.buffers, plan.layout.offsets, strict=True)
        ),
    )


def _memory_info(fit: Fit | None) -> doc.MemoryInfo | None:
    if fit is None:
        return None
    return doc.MemoryInfo(fit.region, fit.sram_bytes, fit.flash_bytes, fit.arena_fits, fit.model_fits)


def _band(figure: Figure) -> doc.Band:
    return doc.Band(figure.value, figure.low, figure.high)


def _estimate_info(estimate: Estimate | None) -> doc.EstimateInfo | None:
    if estimate is None:
        return None
    seconds = estimate.latency_ms.value / 1e3
    bandwidth = estimate.bytes_moved / seconds / 1e9 if seconds else 0.0
    return doc.EstimateInfo(
        latency_ms=_band(estimate.latency_ms),
        energy_uj=None,
        cycles=estimate.cycles,
        macs=estimate.macs,
        parameter_bytes=estimate.parameter_bytes,
        activation_bytes=estimate.activation_bytes,
        bytes_moved=estimate.bytes_moved,
        bandwidth_gbps=bandwidth,
        configured_bandwidth_gbps=estimate.configured_bandwidth_gbps,
        bandwidth_utilization=bandwidth / estimate.configured_bandwidth_gbps,
        gmacs_per_s=estimate.macs / seconds / 1e9 if seconds else 0.0,
        stream_utilization=None,
        bound=estimate.bound,
        validation=estimate.validation,
        operators=tuple(
            doc.OperatorInfo(
                index=item.index,
                operator=item.operator,
                macs=item.macs,
                parameter_bytes=item.parameter_bytes,
                activation_bytes=item.activation_bytes,
                memory_bytes=item.memory_bytes,
                instructions=None,
                cycles=item.cycles,
                ms=_band(item.ms),
                bound=item.bound,
                subgraph=item.subgraph,
            )
            for item in estimate.operators
        ),
    )
