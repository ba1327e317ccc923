"""Build the estimate section of a report: bandwidth, energy, limits, and a real run to compare with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

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
from edgetool.memory.planner import DEFAULT_SECONDS, Plan
from edgetool.model.types import Model
from edgetool.model.views import copies_of
from edgetool.report import document as doc
from edgetool.report.json import plain
from edgetool.target.load import USER_CLOCK_SOURCE
from edgetool.target.quantity import format_clock
from edgetool.target.tables import load_placement_effects
from edgetool.target.types import Target


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
    copies = copies_of(model)
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
        # Native code has one precision; other types of the model would have other kernels.
        precision_tradeoffs={} if target.runtime.is_native else plain(tradeoffs),
        constraints=_constraints(model, plan, estimate, target, model_bytes),
        operators=tuple(_operator(item, copies) for item in estimate.operators),
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
    if precision != "int8" or target.runtime.is_native or target.kernels != target.core.default_kernels:
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


def _operator(item: OperatorEstimate, copies: Mapping[int, int]) -> doc.OperatorInfo:
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
        copy_of=copies.get(item.index) if item.subgraph == 0 else None,
    )
