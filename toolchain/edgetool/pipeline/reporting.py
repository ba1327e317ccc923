"""Build the report of an analysis.

Its estimate section states bandwidth, energy and limits, and compares with a real run.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace

from edgetool import __version__
from edgetool.estimate.constraints import AdviceContext, Limit, advice, constraints_of, verdict_text
from edgetool.estimate.energy import energy_uj, given_power, interval_findings, interval_utilization, measured_latency
from edgetool.estimate.memory_speed import (
    Bandwidth,
    bandwidth_findings,
    estimated_bandwidth,
    placement_findings,
    speeds_of,
)
from edgetool.estimate.precision import precision_tradeoffs
from edgetool.estimate.retyped import PrecisionName
from edgetool.estimate.types import Estimate, OperatorEstimate, positive
from edgetool.figure import Figure
from edgetool.finding import Finding
from edgetool.gate.breakdown import operator_ids, running_at
from edgetool.gate.judge import Fit
from edgetool.memory.account import ArenaAccount, Peak
from edgetool.memory.bound import live_bytes
from edgetool.memory.planner import DEFAULT_SECONDS, Plan
from edgetool.memory.problem import Buffer
from edgetool.model.types import Model
from edgetool.operators.registry import parameter_count
from edgetool.pipeline.analysis import Analysis
from edgetool.pipeline.source import Source
from edgetool.report import document as doc
from edgetool.report.document import BreakdownEntry
from edgetool.report.json import plain
from edgetool.target.load import USER_CLOCK_SOURCE
from edgetool.target.quantity import format_clock
from edgetool.target.tables import load_placement_effects
from edgetool.target.types import Target


def breakdown(model: Model, account: ArenaAccount) -> tuple[BreakdownEntry, ...]:
    """Return the entries of the tail and the head, and the peaks; BreakdownEntry documents which entries add up."""
    labels = {(graph.index, op.index): op.label for graph in model.subgraphs for op in graph.operators}
    return tuple(
        entry
        if entry.operator is None or entry.subgraph is None
        else replace(entry, label=labels[entry.subgraph, entry.operator])
        for entry in (*_tail(account), *_head(account), *_peaks(account))
    )


def _tail(account: ArenaAccount) -> list[BreakdownEntry]:
    """Return the tail; equal rows of an operator are one entry, in the order in which TFLM allocates the first."""
    totals: dict[tuple[str, int | None, int | None, int], tuple[int, int]] = {}
    for row in account.rows:
        key = (row.part, row.subgraph, row.operator, row.requested_bytes)
        size_bytes, count = totals.get(key, (0, 0))
        totals[key] = (size_bytes + row.bytes, count + 1)
    return [
        BreakdownEntry("tail", part, operator, size_bytes, subgraph, count=count, requested_bytes=requested * count)
        for (part, subgraph, operator, requested), (size_bytes, count) in totals.items()
    ]


def _head(account: ArenaAccount) -> list[BreakdownEntry]:
    position = _busiest_position(account)
    placed = zip(account.problem.buffers, account.layout.offsets, strict=True)
    alive = [(buffer, offset) for buffer, offset in placed if buffer.lifetime.first <= position <= buffer.lifetime.last]
    entries: list[BreakdownEntry] = []
    counted_ranges: list[tuple[int, int]] = []
    for buffer, offset in sorted(alive, key=lambda item: -item[0].aligned_bytes):
        new_bytes = _bytes_outside(counted_ranges, offset, offset + buffer.aligned_bytes)
        counted_ranges.append((offset, offset + buffer.aligned_bytes))
        overlap = "" if new_bytes == buffer.aligned_bytes else "overlapping the above: "
        entries.append(BreakdownEntry("head", overlap + _content(buffer), _owner(buffer), new_bytes, buffer.subgraph))
    gap_bytes = account.head_bytes - sum(entry.bytes for entry in entries)
    if gap_bytes:
        entries.append(BreakdownEntry("head", "gaps between and above them", None, gap_bytes))
    return entries


def _bytes_outside(ranges: list[tuple[int, int]], start: int, end: int) -> int:
    """Return how many bytes from start to end are in none of the ranges: tensors of compiled operators overlap."""
    outside = 0
    for low, high in sorted(ranges):
        if low < end and high > start:
            outside += max(0, low - start)
            start = high
    return outside + max(0, end - start)


def _busiest_position(account: ArenaAccount) -> int:
    """Return the first position at which the most bytes of the head are alive; -1 for an empty head."""
    position, _ = max(live_bytes(account.problem), key=lambda item: item[1], default=(-1, 0))
    return position


def _content(buffer: Buffer) -> str:
    return f"scratch: {buffer.name}" if buffer.is_scratch else f"tensor {buffer.tensor}: {buffer.name}"


def _owner(buffer: Buffer) -> int | None:
    return buffer.operator if buffer.is_scratch else None


def _peaks(account: ArenaAccount) -> list[BreakdownEntry]:
    """Return the highest peak of each kind; the Prepare calls of all operators are one kind."""
    highest: dict[str, Peak] = {}
    for peak in account.peaks:
        kind = "Prepare" if peak.operator is not None else peak.when
        if kind not in highest or peak.bytes > highest[kind].bytes:
            highest[kind] = peak
    return [
        BreakdownEntry("transient", peak.when, peak.operator, peak.bytes, peak.subgraph) for peak in highest.values()
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
    request: EstimateRequest | None = None,
    measured: MeasuredRun | None = None,
) -> doc.Report:
    """Return the report of an analysis.

    Args:
        source: The analysed model.
        analysis: Its analysis.
        options: The options of the command.
        original: The input file, if the source was converted from it.
        quantization: The loss of quantization, if it was measured.
        findings: Findings besides those of the analysis.
        versions: Versions of packages that were used.
        trust_model_code: Whether code in the model was allowed to run.
        request: The options of the estimate.
        measured: A real run to compare with the estimate.

    Raises:
        UsageError: A figure of the request or the run is impossible.
    """
    estimate = None
    if analysis.estimate is not None and analysis.target is not None:
        # Imported on use: half of the commands do not estimate, and start faster without these packages.

        estimate, on_estimate = estimate_info(
            analysis.estimate,
            analysis.model,
            analysis.plan,
            analysis.target,
            model_bytes=len(source.blob),
            request=request or EstimateRequest(),
            measured=measured,
        )
        findings = (*findings, *on_estimate)
    return doc.Report(
        provenance=doc.Provenance(
            tool=f"edgetool {__version__}",
            versions={"python": platform.python_version(), **(versions or {})},
            options={**options, **device_options(analysis.target)},
            trust_model_code=trust_model_code,
        ),
        model=original or model_info(source),
        quantization=quantization,
        target=target_info(analysis.target),
        arena=_arena_info(analysis.model, analysis.plan),
        plan=_plan_info(analysis.model, analysis.plan),
        memory=_memory_info(analysis.fit),
        estimate=estimate,
        findings=finding_infos((*findings, *analysis.findings)),
    )


def device_options(target: Target | None) -> dict[str, object]:
    """Return what determines the figures, apart from the model: the target as it was used, including overrides."""
    if target is None:
        return {}
    region = target.arena_region
    return {
        "target": target.name,
        "clock_hz": target.clock_hz,
        "arena_region": region.name if region is not None else None,
        "sram_bytes": target.sram_bytes,
        "flash_bytes": target.flash_bytes,
        "kernels": target.kernels,
    }


def model_info(source: Source) -> doc.ModelInfo:
    """Return name, hash and counts of a .tflite."""
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
    """Return the findings as they are in the document, the most severe first."""
    severity = {"error": 0, "warning": 1, "note": 2}
    ordered = sorted(findings, key=lambda finding: severity[finding.level])
    return tuple(doc.FindingInfo(f.rule, f.level, f.message, f.where) for f in ordered)


def target_info(target: Target | None) -> doc.TargetInfo | None:
    """Return the description of the target; None without a target."""
    if target is None:
        return None
    return doc.TargetInfo(target.name, target.core.name, target.board, target.runtime.name, target.kernels)


def _arena_info(model: Model, plan: Plan) -> doc.ArenaInfo:
    layout, account, stock = plan.layout, plan.account, plan.stock
    return doc.ArenaInfo(
        bytes=account.bytes if account is not None else None,
        used_bytes=account.used_bytes if account is not None else None,
        head_bytes=account.head_bytes if account is not None else None,
        tail_bytes=account.tail_bytes if account is not None else None,
        layout_bytes=layout.height,
        lower_bound_bytes=layout.lower_bound,
        optimal=layout.optimal,
        proof=layout.proof,
        stock_bytes=stock.bytes if stock is not None else None,
        is_lower_bound=account is None or account.is_lower_bound,
        breakdown=breakdown(model, account) if account is not None else (),
    )


def _plan_info(model: Model, plan: Plan) -> doc.PlanInfo:
    placed = [
        doc.PlannedTensor(
            subgraph=buffer.subgraph,
            index=buffer.operator if buffer.is_scratch else buffer.tensor,
            name=buffer.name,
            offset=offset,
            bytes=buffer.size_bytes,
            first_op=buffer.lifetime.operators[0],
            last_op=buffer.lifetime.operators[1],
        )
        for buffer, offset in zip(plan.problem.buffers, plan.layout.offsets, strict=True)
    ]
    scratch = [buffer.is_scratch for buffer in plan.problem.buffers]
    return doc.PlanInfo(
        order=plan.order,
        tensors=tuple(item for item, is_scratch in zip(placed, scratch, strict=True) if not is_scratch),
        scratch=tuple(item for item, is_scratch in zip(placed, scratch, strict=True) if is_scratch),
        moved=plan.moved,
        live_bytes=plan.live_bytes,
        live_lower_bound_bytes=plan.live_lower_bound,
        order_proof=plan.order_proof,
        sharing=_sharing_info(plan),
        constants_in_ram=plan.constants_in_ram,
        peak=_peak_info(model, plan),
    )


def _peak_info(model: Model, plan: Plan) -> doc.PeakInfo | None:
    steps = live_bytes(plan.problem)
    if not steps:
        return None
    position, size_bytes = max(steps, key=lambda step: step[1])
    running = running_at(position, plan.timeline, operator_ids(model))
    if running is None:
        return doc.PeakInfo(position, None, None, None, size_bytes)
    return doc.PeakInfo(position, running.subgraph, running.index, running.label, size_bytes)


def _sharing_info(plan: Plan) -> doc.SharingInfo | None:
    shared = plan.shared
    if shared is None:
        return None
    buffers = plan.problem.buffers
    return doc.SharingInfo(
        baseline_bytes=shared.baseline_bytes,
        optimized_bytes=shared.optimized_bytes,
        lower_bound_bytes=shared.lower_bound,
        proof=shared.proof,
        cut_short=shared.cut_short,
        buffers=tuple(
            doc.SharedBuffer(size, tuple((buffers[index].subgraph, buffers[index].tensor) for index in group))
            for size, group in zip(shared.sizes, shared.groups, strict=True)
        ),
    )


def _memory_info(fit: Fit | None) -> doc.MemoryInfo | None:
    if fit is None:
        return None
    return doc.MemoryInfo(fit.region, fit.sram_bytes, fit.flash_bytes, fit.arena_fits, fit.model_fits)


@dataclass(frozen=True, slots=True)
class EstimateRequest:
    """The options of an estimate.

    Attributes:
        measured_ms: The latency of a real run to compare with.
        benchmark_runs: The number of runs of LiteRT on this machine to compare with.
        interval_ms: The time between two inputs.
        power_mw: The power of the board.
        clock_scale: A factor applied to the clock of the board.
        time_limit: The time limit of the search for a plan, in seconds.
    """

    measured_ms: float | None = None
    benchmark_runs: int | None = None
    interval_ms: float | None = None
    power_mw: float | None = None
    clock_scale: float | None = None
    time_limit: float = DEFAULT_SECONDS


OTHER_MACHINE = "unknown: the run was on another machine, whose memory differs from the target's"


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """The latency of a real run, its source, and whether the run was on the target itself."""

    latency_ms: float
    source: str
    on_target: bool


def measured_on_target(latency_ms: float) -> MeasuredRun:
    """Return the user's measurement. Raises UsageError unless it is a number above 0."""
    return MeasuredRun(positive(latency_ms, "--measured-ms"), "specified with --measured-ms", on_target=True)


def estimate_info(
    estimate: Estimate,
    model: Model,
    plan: Plan,
    target: Target,
    *,
    model_bytes: int,
    request: EstimateRequest,
    measured: MeasuredRun | None = None,
) -> tuple[doc.EstimateInfo, tuple[Finding, ...]]:
    """Return the estimate section of the document, and findings on the estimate.

    Raises UsageError if a figure of the request is not a number above 0.
    """
    arena_is_exact = plan.account is not None and not plan.account.is_lower_bound
    arena_bytes = plan.account.bytes if plan.account is not None and arena_is_exact else None
    bandwidth = estimated_bandwidth(estimate)
    power = target.power if request.power_mw is None else given_power(request.power_mw)
    latency = estimate.latency_ms
    run_on_target = measured is not None and measured.on_target
    energy = energy_uj(measured_latency(measured.latency_ms) if measured and run_on_target else latency, power)
    tradeoffs = precision_tradeoffs(model, plan, estimate, target, model_bytes=model_bytes)
    situation = AdviceContext(estimate, target, bandwidth, arena_bytes, tradeoffs.own, tradeoffs)
    shown_ms = measured.latency_ms if measured is not None and run_on_target else latency.value if latency else None
    findings = [*placement_findings(target, load_placement_effects(), arena_bytes)]
    if bandwidth is not None:
        findings += bandwidth_findings(bandwidth, target.name)
    findings += _clock_findings(target, profile_power=request.power_mw is None)
    stream_utilization = None
    if request.interval_ms is not None and shown_ms:
        stream_utilization = interval_utilization(shown_ms, request.interval_ms)
        high = None if latency is None or run_on_target else latency.high
        findings += interval_findings(shown_ms, request.interval_ms, high_ms=high, where=target.name)
    measured_info, run_findings = (None, ()) if measured is None else _measured(measured, estimate, situation)
    findings += run_findings
    verdict = _verdict(bandwidth, situation)
    if bandwidth is None and measured_info is not None and run_on_target:
        verdict = measured_info.verdict  # only the time of the run is known
    info = doc.EstimateInfo(
        latency_ms=None if latency is None else _band(latency),
        energy_uj=None if energy is None else _band(energy),
        energy_basis=None if energy is None else energy.basis,
        cycles=estimate.cycles,
        instructions=estimate.instructions,
        macs=estimate.macs,
        parameter_bytes=estimate.parameter_bytes,
        activation_bytes=estimate.activation_bytes,
        bytes_moved=estimate.bytes_moved,
        bandwidth_gbps=None if bandwidth is None else bandwidth.achieved_gbps,
        configured_bandwidth_gbps=estimate.configured_bandwidth_gbps,
        bandwidth_utilization=None if bandwidth is None else bandwidth.utilization,
        gmacs_per_s=None if bandwidth is None else bandwidth.gmacs_per_s,
        stream_utilization=stream_utilization,
        interval_ms=request.interval_ms,
        bound=estimate.bound,
        validation=estimate.validation,
        basis=estimate.basis,
        verdict=verdict,
        measured=measured_info,
        traffic=_traffic(estimate, target),
        factors=_factors(target, situation.precision),
        not_modelled=estimate.not_modelled,
        precision_tradeoffs=plain(tradeoffs),
        constraints=_constraints(model, plan, estimate, target, model_bytes),
        operators=tuple(_operator(item) for item in estimate.operators),
    )
    return info, tuple(findings)


def _measured(
    run: MeasuredRun, estimate: Estimate, situation: AdviceContext
) -> tuple[doc.MeasuredInfo | None, tuple[Finding, ...]]:
    """Compare the run with the estimate; None for a model that moves no bytes."""
    achieved = estimated_bandwidth(estimate, run.latency_ms)
    if achieved is None:
        return None, ()
    latency = estimate.latency_ms
    ratio = within = None
    text = "the run was not on the target and did not use its kernels: it cannot be compared with the estimate"
    verdict = _verdict(achieved, situation) if run.on_target else doc.VerdictInfo("unknown", OTHER_MACHINE, ())
    if run.on_target and latency is not None and latency.value:
        ratio = run.latency_ms / latency.value
        within = latency.low <= run.latency_ms <= latency.high
        text = _comparison(ratio, within)
    elif run.on_target:
        text = "edgetool cannot estimate times for this device"
    info = doc.MeasuredInfo(
        latency_ms=run.latency_ms,
        source=run.source,
        bandwidth_gbps=achieved.achieved_gbps,
        bandwidth_utilization=achieved.utilization if run.on_target else None,
        gmacs_per_s=achieved.gmacs_per_s,
        verdict=verdict,
        ratio=ratio,
        within_band=within,
        text=text,
    )
    findings = bandwidth_findings(achieved, run.source) if run.on_target else ()
    if within is False:
        findings += (Finding("measured-outside-band", text, where=situation.target.name),)
    return info, findings


def _comparison(ratio: float, within: bool) -> str:
    deviation = f"{round(100 * (ratio - 1), 1) + 0.0:+.1f} % relative to the estimate"  # + 0.0 turns -0.0 into 0.0
    if within:
        return f"{deviation}, within its band; use 'edgetool calibrate' to add it to the profile"
    if ratio > 1:
        cause = "a clock below the profile's, code or arena in slow memory, a debug build, or reference kernels"
    else:
        cause = "a higher clock, faster kernels than TFLM's, or timing only part of the inference"
    return f"{deviation}, outside its band: look for {cause}; then use 'edgetool calibrate'"


def _clock_findings(target: Target, *, profile_power: bool) -> tuple[Finding, ...]:
    """Report a clock that the user specified: the wait states and the power in the profile are for its own clock."""
    if target.board is None or target.clock_source != USER_CLOCK_SOURCE:
        return ()
    text = (
        f"at {format_clock(target.clock_hz)} instead of the profile's clock, the flash may need different wait states"
    )
    if not profile_power or target.power is None:
        return (Finding("clock-given", text, where=target.name, level="note"),)
    text = f"{text}, and the board's power may differ, which the energy figure ignores: specify it with --power-mw"
    return (Finding("clock-given", text, where=target.name, level="warning"),)


def _verdict(bandwidth: Bandwidth | None, situation: AdviceContext) -> doc.VerdictInfo:
    """Return the verdict on an estimated or a real run, and the advice that follows from it."""
    hints = advice(replace(situation, bandwidth=bandwidth))
    if bandwidth is None:
        return doc.VerdictInfo("unknown", "unknown: too little of the inference time can be estimated", hints)
    return doc.VerdictInfo(bandwidth.verdict, verdict_text(bandwidth, situation.waiting), hints)


def _constraints(model: Model, plan: Plan, estimate: Estimate, target: Target, model_bytes: int) -> dict[str, object]:
    constraints = constraints_of(model, plan, estimate, target, model_bytes=model_bytes)
    cache = constraints.cache
    cache_info = None if cache is None else {**plain(cache), "streaming_share": cache.streaming_share}
    return {
        "arena": _limit(constraints.arena),
        "flash": _limit(constraints.flash),
        "cache": cache_info,
        "bottleneck": plain(constraints.bottleneck),
        "activations": plain(constraints.activations),
    }


def _limit(limit: Limit) -> Mapping[str, object]:
    derived = {"share": limit.share, "margin_bytes": limit.margin_bytes, "fits": limit.fits}
    return {**plain(limit), **derived}


def _factors(target: Target, precision: PrecisionName | None) -> tuple[doc.FactorInfo, ...]:
    """Return the speeds of other runtimes, measured on int8 models relative to the core's default kernels."""
    if precision != "int8" or target.kernels != target.core.default_kernels:
        return ()
    return tuple(
        doc.FactorInfo(item.runtime, item.factor, item.low, item.high, item.rows, item.basis) for item in target.factors
    )


def _traffic(estimate: Estimate, target: Target) -> tuple[doc.TrafficInfo, ...]:
    speeds = speeds_of(target)
    moved = (
        ("constants", target.flash_region, estimate.parameter_bytes, speeds.gbps(1, 0)),
        ("activations", target.arena_region, estimate.activation_bytes, speeds.gbps(0, 1)),
    )
    return tuple(
        doc.TrafficInfo(holds, None if region is None else region.name, size_bytes, gbps)
        for holds, region, size_bytes, gbps in moved
    )


def _band(figure: Figure) -> doc.Band:
    return doc.Band(figure.value, figure.low, figure.high)


def _operator(item: OperatorEstimate) -> doc.OperatorInfo:
    return doc.OperatorInfo(
        index=item.index,
        operator=item.operator,
        macs=item.macs,
        parameter_bytes=item.parameter_bytes,
        activation_bytes=item.activation_bytes,
        memory_bytes=item.memory_bytes,
        footprint_bytes=item.footprint_bytes,
        instructions=item.instructions,
        cycles=item.cycles,
        stall_cycles=item.stall_cycles,
        ms=_band(item.ms),
        bound=item.bound,
        basis=item.basis,
        runs=item.runs,
        subgraph=item.subgraph,
    )
