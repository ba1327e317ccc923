"""Why an arena, a model or a latency is as large as it is, the largest causes first, and what would lower it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgetool.gate.breakdown import (
    INVOKE,
    ArenaBreakdown,
    LiveBuffer,
    OperatorId,
    alive_at,
    buffer_name,
    busiest_position,
    operator_ids,
    running_at,
)
from edgetool.gate.text import duration, percent
from edgetool.memory.account import ArenaAccount
from edgetool.memory.bound import live_bytes
from edgetool.memory.lifetimes import Timeline
from edgetool.memory.problem import aligned
from edgetool.model.types import Model
from edgetool.report.document import EstimateInfo, Report
from edgetool.target.types import ARENA_KINDS, Target

if TYPE_CHECKING:
    from edgetool.memory.planner import Plan

BUFFERS_TRIED = 8
CAUSES_NAMED = 5
MIN_SHARE = 0.01  # of the time: faster operators are not named
# Advice on an estimate that other judgements repeat, or that needs another command.
OTHER_ADVICE = ("make it fit", "time a run", "measure a run")
MIN_SAVING = 0.02  # of the arena: a smaller saving does not justify other kernels
# The memory that AllocateTensors uses itself depends on the number of tensors and operators, not on their sizes.
FEWER_TENSORS = "use fewer tensors and operators: AllocateTensors keeps a record for each"


@dataclass(frozen=True, slots=True)
class Saving:
    """The maximum number of bytes that `what` saves.

    Beyond that, `next_limit` determines the arena ("": the same moment).
    """

    what: str
    bytes: int
    next_limit: str


def best_saving(model: Model, account: ArenaAccount, times: Timeline) -> Saving | None:
    """Return the largest saving by removing one of the largest buffers at the peak; None if nothing can be saved.

    If AllocateTensors determines the arena, the saving ends at the second highest moment.
    """
    ids = operator_ids(model)
    moments = [(peak.bytes, peak.when) for peak in account.peaks if peak != account.peak and peak.when != INVOKE]
    if account.peak.when != INVOKE:
        moments.append((aligned(account.used_bytes), INVOKE))
    next_bytes, next_moment = max(moments, default=(0, "nothing else"))
    if account.peak.when != INVOKE:
        saved = account.bytes - next_bytes
        operator = account.peak.operator
        remedy = (
            FEWER_TENSORS
            if operator is None
            else f"change operator {operator}, whose Prepare temporarily needs that much"
        )
        return Saving(remedy, saved, next_moment) if saved > 0 else None
    position = busiest_position(account.problem)
    steps = live_bytes(account.problem)
    savings: list[Saving] = []
    for buffer in alive_at(account.problem, position)[:BUFFERS_TRIED]:
        without = [
            (size - buffer.aligned_bytes * (buffer.lifetime.first <= start <= buffer.lifetime.last), start)
            for start, size in steps
        ]
        live, at = max(without, key=lambda item: (item[0], item[1] == position))
        rest, next_limit = aligned(live + account.tail_bytes), _at(running_at(at, times, ids))
        if at == position:
            next_limit = ""
        if next_bytes > rest:
            rest, next_limit = next_bytes, next_moment
        what = LiveBuffer(buffer_name(buffer), buffer.aligned_bytes, ids.get((buffer.subgraph, buffer.operator)))
        savings.append(Saving(f"shrink {what} ({buffer.aligned_bytes:,} B)", account.bytes - rest, next_limit))
    best = max(savings, key=lambda item: item.bytes, default=None)
    return best if best is not None and best.bytes > 0 else None


def _at(operator: OperatorId | None) -> str:
    return "data that is live before the first operator" if operator is None else str(operator)


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Other arenas of the same model; None if there is none, or none was computed.

    planned_bytes: with a plan by edgetool; proven: no order and no layout needs less. kernels and kernels_bytes: with
    the other kernels. saving: the largest saving by shrinking one buffer. replan: the file contains a plan already.
    """

    planned_bytes: int | None = None
    proven: bool = False
    replan: bool = False
    kernels: str | None = None
    kernels_bytes: int | None = None
    saving: Saving | None = None


def alternatives(
    saving: Saving | None,
    *,
    planned: Plan | None,
    replan: bool,
    kernels: str | None,
    with_kernels: ArenaAccount | None,
) -> Alternatives:
    """Return the alternatives for an arena.

    planned: a plan by edgetool, None if the file's own plan must be kept. with_kernels: the account with the other
    kernels, None if there are none.
    """
    account = None if planned is None else planned.account
    # If the head does not set the arena, the smallest head does not prove the smallest arena.
    in_invoke = account is not None and account.peak.when == INVOKE
    proven = planned is not None and in_invoke and planned.layout.optimal and planned.order_proof != "none"
    comparable = None if with_kernels is None or with_kernels.is_lower_bound else with_kernels
    return Alternatives(
        planned_bytes=None if account is None else account.bytes,
        proven=proven,
        replan=replan,
        kernels=None if comparable is None else kernels,
        kernels_bytes=None if comparable is None else comparable.bytes,
        saving=saving,
    )


def producers(model: Model, account: ArenaAccount) -> dict[str, str]:
    """Return what produces each tensor, by its name, as a phrase; names that several tensors have are omitted."""
    outputs = {
        (graph.index, index): f", output of operator {operator.index} {operator.label}"
        for graph in model.subgraphs
        for operator in graph.operators
        for index in operator.outputs
    }
    phrases = {(graph.index, index): ", an input" for graph in model.subgraphs for index in graph.inputs} | outputs
    tensors = [buffer for buffer in account.problem.buffers if not buffer.is_scratch]
    count = Counter(buffer_name(buffer) for buffer in tensors)
    return {
        name: phrase
        for buffer in tensors
        if count[name := buffer_name(buffer)] == 1 and (phrase := phrases.get((buffer.subgraph, buffer.tensor)))
    }


@dataclass(frozen=True, slots=True)
class Reasons:
    """The causes of a figure, the largest first, and advice on how to lower it.

    elsewhere: other memories that are large enough, which help if the limit is the size of a memory.
    """

    causes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()


def arena_reasons(
    report: Report,
    target: Target,
    breakdown: ArenaBreakdown,
    others: Alternatives,
    *,
    producer_by_tensor: Mapping[str, str],
    reserve: int,
) -> Reasons:
    """Return the reasons for the size of an arena.

    producer_by_tensor: a phrase for what produces each tensor, by its name. reserve: bytes to keep free in the arena's
    region.
    """
    return Reasons(
        tuple(_arena_causes(breakdown, producer_by_tensor)),
        tuple(_arena_advice(report, target, breakdown, others)),
        _larger_regions(target, breakdown.bytes + reserve),
    )


def flash_reasons(report: Report, target: Target, *, reserve: int) -> Reasons:
    """Return the reasons for the size of a model: the weights of its operators."""
    advice = [
        f"convert to {row['precision']}: a model of about {row['model_bytes']:,} B"
        for row in _lower_precisions(report.estimate, "model_bytes", report.model.bytes)
    ]
    room = report.model.bytes + reserve
    outside = [item for item in target.regions if item.kind == "external-flash" and item != target.flash_region]
    outside = [item for item in outside if item.size_bytes >= room]
    elsewhere = tuple(f"link the model into {item.name} ({item.size_bytes:,} B)" for item in outside)
    if report.estimate is None:
        return Reasons((), tuple(advice), elsewhere)
    heavy = sorted(report.estimate.operators, key=lambda item: -item.parameter_bytes // max(item.runs, 1))
    weights = [
        (item.parameter_bytes // max(item.runs, 1), f"{item.index} {item.operator}") for item in heavy[:CAUSES_NAMED]
    ]
    causes = [f"{size:,} B: weights of operator {name}" for size, name in weights if size]
    if causes:
        advice.append(f"use fewer channels or layers, starting with operator {weights[0][1]}")
    return Reasons(tuple(causes), tuple(advice), elsewhere)


def latency_reasons(report: Report) -> Reasons:
    """Return the reasons for a latency: the slowest operators."""
    estimate = report.estimate
    if estimate is None or estimate.latency_ms is None:
        return Reasons()
    total = sum(item.ms.value for item in estimate.operators)
    slowest = sorted(estimate.operators, key=lambda item: -item.ms.value)[:CAUSES_NAMED]
    slowest = [item for item in slowest if item.ms.value >= MIN_SHARE * total]
    causes = [
        f"{duration(item.ms.value)}: operator {item.index} {item.operator} ({percent(item.ms.value, total)})"
        for item in slowest
    ]
    advice = [text for text in estimate.verdict.advice if not text.startswith(OTHER_ADVICE)]
    return Reasons(tuple(causes), tuple(advice))


def _arena_causes(breakdown: ArenaBreakdown, producer_by_tensor: Mapping[str, str]) -> list[str]:
    tail = _tail_text(breakdown)
    if breakdown.moment != INVOKE:
        causes = [
            (breakdown.peak_head, f"head memory used during {breakdown.moment_text} in AllocateTensors, not in Invoke"),
            (breakdown.peak_tail, tail),
        ]
        return [f"{size:,} B: {text}" for size, text in sorted(causes, reverse=True) if size]
    where = "the model's inputs" if breakdown.busiest is None else str(breakdown.busiest)
    overlap = f", {-breakdown.gap_bytes:,} B of which overlap" if breakdown.gap_bytes < 0 else ""
    causes = [(item.bytes, f"{item}{producer_by_tensor.get(item.name, '')}") for item in breakdown.alive[:CAUSES_NAMED]]
    rest = breakdown.alive[CAUSES_NAMED:]
    if rest:
        causes.append((sum(item.bytes for item in rest), f"{len(rest)} smaller tensors and scratch buffers"))
    causes.append((breakdown.tail_bytes, tail))
    if breakdown.gap_bytes > 0:
        causes.append((breakdown.gap_bytes, "gaps between tensors in the layout"))
    return [
        f"{where}, where {breakdown.alive_bytes:,} B are live at the same time{overlap}",
        *(f"{size:,} B: {text}" for size, text in sorted(causes, key=lambda item: -item[0]) if size),
    ]


def _tail_text(breakdown: ArenaBreakdown) -> str:
    largest = max(breakdown.operators, key=lambda part: part.tail, default=None)
    text = "persistent data of TFLM and its kernels"
    if largest is None or not largest.tail:
        return text
    return f"{text}, mostly for {largest.operator} ({largest.tail:,} B)"


def _arena_advice(report: Report, target: Target, breakdown: ArenaBreakdown, others: Alternatives) -> list[str]:
    advice = []
    if others.planned_bytes is not None and others.planned_bytes < breakdown.bytes:
        less = breakdown.bytes - others.planned_bytes
        best = "; no operator order or layout needs less" if others.proven else ""
        options = f"--target {target.name}{' --replan' if others.replan else ''}"
        advice.append(
            f"'edgetool plan {options} -o NEW.tflite' writes a plan into the file: an arena of "
            f"{others.planned_bytes:,} B, {less:,} B less{best}"
        )
    elif others.proven:
        advice.append("no operator order or layout needs less: make the model smaller")
    if others.kernels_bytes is not None and others.kernels_bytes < (1 - MIN_SAVING) * breakdown.bytes:
        slower = ", but slower inference" if others.kernels == "reference" else ""
        advice.append(
            f"use the {others.kernels} kernels (--kernels {others.kernels}): an arena of {others.kernels_bytes:,} B, "
            f"{breakdown.bytes - others.kernels_bytes:,} B less{slower}"
        )
    advice += [
        f"convert to {row['precision']}: an arena of about {row['arena_bytes']:,} B"
        for row in _lower_precisions(report.estimate, "arena_bytes", breakdown.bytes)
    ]
    if others.saving is not None:
        saving = others.saving
        effect = (
            f"this saves at most {saving.bytes:,} B; beyond that, {saving.next_limit} determines the arena size"
            if saving.next_limit
            else "the arena shrinks by no more than the tensor does"
        )
        advice.append(f"{saving.what}: {effect}")
    elif breakdown.moment == INVOKE and breakdown.busiest is not None:
        advice.append(f"use fewer channels or a smaller input, starting with {breakdown.busiest}")
    return advice


def _larger_regions(target: Target, room_bytes: int) -> tuple[str, ...]:
    return tuple(
        f"place the arena in the {region.size_bytes:,} B of {region.name} (--arena-region {region.name})"
        for region in target.regions
        if region.kind in ARENA_KINDS and region != target.arena_region and region.size_bytes >= room_bytes
    )


def _lower_precisions(estimate: EstimateInfo | None, figure: str, now: int) -> Sequence[dict[str, object]]:
    """Return the rows of the precision table with a lower precision that TFLM supports and that need less."""
    table = {} if estimate is None else estimate.precision_tradeoffs
    rows, precision = table.get("rows"), table.get("own")
    if not isinstance(rows, list) or precision is None:
        return []
    place = [row["precision"] for row in rows].index(precision)
    return [row for row in rows[place + 1 :] if row["stock_tflm"] and row[figure] is not None and row[figure] < now]
