"""Why an arena is as large as it is, and the smaller ones that the same model could have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from edgetool.gate.anatomy import INVOKE, Anatomy, anatomy_of, best_saving, buffer_name
from edgetool.gate.judge import Reasons
from edgetool.gate.reasons import Alternatives, arena_reasons
from edgetool.memory.account import ArenaAccount
from edgetool.memory.planner import plan_memory
from edgetool.model.metadata import keeps_own_plan
from edgetool.operators.types import OperatorEntry
from edgetool.pipeline.analysis import Analysis
from edgetool.pipeline.effort import Watch
from edgetool.pipeline.plan_request import PlanRequest
from edgetool.report.document import Report
from edgetool.target.platform import platform_of
from edgetool.target.types import Target

PLAN_SECONDS = 2.0


def anatomy(analysis: Analysis) -> Anatomy | None:
    """What the arena is made of; None where it is not exact."""
    account = analysis.plan.account
    if account is None or account.is_lower_bound:
        return None
    return anatomy_of(analysis.model, account, analysis.plan.timeline)


def reasons_of_arena(
    report: Report, analysis: Analysis, target: Target, custom: Mapping[str, OperatorEntry], *, reserve: int
) -> Reasons:
    """Causes and advice for an arena that is too large, after a short search for others."""
    account = analysis.plan.account
    if account is None:
        return Reasons()
    parts = anatomy_of(analysis.model, account, analysis.plan.timeline)
    others = _alternatives(analysis, account, target, custom)
    return arena_reasons(report, target, parts, others, made_by=_makers(analysis, account), reserve=reserve)


def _alternatives(
    analysis: Analysis, account: ArenaAccount, target: Target, custom: Mapping[str, OperatorEntry]
) -> Alternatives:
    model = analysis.model
    saving = best_saving(model, account, analysis.plan.timeline)
    if account.is_lower_bound:
        return Alternatives(saving=saving)
    planned_bytes, proven = None, False
    if not keeps_own_plan(model):
        options = PlanRequest().options(Watch(PLAN_SECONDS))
        plan = plan_memory(model, platform_of(target), custom=custom, wanted="anew", options=options)
        planned_bytes = None if plan.account is None else plan.account.bytes
        # Where the head does not set the arena, nothing is known of the least.
        sets = plan.account is not None and plan.account.peak.when == INVOKE
        proven = sets and plan.layout.optimal and plan.order_proof != "none"
    kernels, kernels_bytes = _with_other_kernels(analysis, target, custom)
    replan = analysis.plan.planner == "file"
    return Alternatives(planned_bytes, proven, replan, kernels, kernels_bytes, saving)


def _with_other_kernels(
    analysis: Analysis, target: Target, custom: Mapping[str, OperatorEntry]
) -> tuple[str | None, int | None]:
    """The other kernel set that runs on the core, and the arena with it; None where there is none."""
    if target.core.default_kernels != "cmsis-nn":
        return None, None
    other = "reference" if target.kernels == "cmsis-nn" else "cmsis-nn"
    platform = platform_of(target.with_overrides(kernels=other))
    account = plan_memory(analysis.model, platform, custom=custom, wanted="as in file").account
    return (None, None) if account is None or account.is_lower_bound else (other, account.bytes)


def _makers(analysis: Analysis, account: ArenaAccount) -> dict[str, str]:
    """What makes each tensor, by its name; nothing of a name that several have."""
    graphs = analysis.model.subgraphs
    made = {
        (graph.index, index): f", output of operator {operator.index} {operator.label}"
        for graph in graphs
        for operator in graph.operators
        for index in operator.outputs
    }
    inputs = {(graph.index, index): ", an input" for graph in graphs for index in graph.inputs}
    makers = {**inputs, **made}
    tensors = [buffer for buffer in account.problem.buffers if not buffer.is_scratch]
    named = Counter(buffer_name(buffer) for buffer in tensors)
    return {
        buffer_name(buffer): text
        for buffer in tensors
        if named[buffer_name(buffer)] == 1 and (text := makers.get((buffer.subgraph, buffer.tensor)))
    }
