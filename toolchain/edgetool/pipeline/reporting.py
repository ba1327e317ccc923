"""Build the report of an analysis; estimate_report.py builds its estimate section."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from edgetool import __version__
from edgetool.finding import Finding
from edgetool.gate.breakdown import operator_ids, running_at
from edgetool.gate.judge import Fit
from edgetool.memory.account import ArenaAccount, Peak
from edgetool.memory.bound import live_bytes
from edgetool.memory.planner import Plan
from edgetool.memory.problem import Buffer
from edgetool.model.metadata import changes_of
from edgetool.model.types import Model
from edgetool.operators.registry import operator_costs, parameter_count
from edgetool.pipeline.analysis import Analysis
from edgetool.pipeline.source import Source
from edgetool.report import document as doc
from edgetool.report.document import BreakdownEntry
from edgetool.target.types import Target

if TYPE_CHECKING:
    from edgetool.estimate.flash import CodeSize
    from edgetool.pipeline.estimate_report import EstimateRequest, MeasuredRun
    from edgetool.pipeline.native import NativeModel


@dataclass(frozen=True, slots=True)
class Described:
    """A model, its analysis, and the report on both, for drawings; native: the model as native code, if it is that."""

    source: Source
    analysis: Analysis
    report: doc.Report
    native: NativeModel | None = None


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
        from edgetool.pipeline.estimate_report import EstimateRequest, estimate_info

        estimate, on_estimate = estimate_info(
            analysis.estimate,
            analysis.model,
            analysis.plan,
            analysis.target,
            model_bytes=len(source.blob) if analysis.fit is None else analysis.fit.model_bytes,
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
        runtime=_linked_runtime(analysis.target),
        flash=_flash_info(source, analysis.code),
    )


def _flash_info(source: Source, code: CodeSize | None) -> doc.FlashInfo | None:
    if code is None:
        return None
    return doc.FlashInfo(
        model_bytes=len(source.blob),
        code_bytes=code_band(code),
        code_basis=code.figure.basis,
        code_is_exact=code.is_exact,
        uncounted=code.uncounted,
        operators=tuple(doc.OperatorCodeInfo(item.operator, item.bytes) for item in code.alone),
        log_bytes=code.log_bytes,
        alternatives=dict(code.alternatives),
    )


def code_band(code: CodeSize) -> doc.Band:
    """Return the size of the code with its band."""
    return doc.Band(round(code.figure.value), round(code.figure.low), round(code.figure.high))


def _linked_runtime(target: Target | None) -> doc.LinkedRuntime | None:
    """Return the user's own TFLM if it differs from the target's."""
    tree = None if target is None else target.runtime_tree
    if target is None or tree is None or not tree.differs:
        return None
    return doc.LinkedRuntime(tree.name, target.runtime.name, tree.differs)


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
        overlaps=tuple(
            doc.OverlapInfo(pair.input, pair.output, pair.size_bytes, pair.input in model.main.inputs)
            for pair in plan.overlapping
        ),
        stripes=_stripes_info(model),
    )


def _stripes_info(model: Model) -> doc.StripesInfo | None:
    """Return the regions in stripes that the file names, unless it has not the work that it states."""
    changes = changes_of(model)
    if not changes.regions or changes.macs + changes.extra_macs != sum(cost.macs for cost in operator_costs(model)):
        return None
    regions = tuple(doc.RegionInfo(item.first, item.last, item.stripes) for item in changes.regions)
    return doc.StripesInfo(regions, changes.extra_macs, changes.extra_macs_percent)


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
