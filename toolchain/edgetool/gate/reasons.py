"""What sets a figure that is too large, the largest first, and what would lower it, in figures where we have any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgetool.gate.anatomy import INVOKE, Anatomy, Saving
from edgetool.gate.judge import Reasons
from edgetool.gate.plain import duration, percent
from edgetool.report.document import EstimateInfo, Report
from edgetool.target.types import ARENA_KINDS, Target

NAMED = 5
LEAST_SHARE = 0.01  # of the time: what is not worth naming is below
# Advice on an estimate that other judgements tell, or that needs another command.
ELSEWHERE = ("make it fit", "time a run", "measure a run")
WORTH = 0.02  # of the arena: what other kernels save is worth their time from here on


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Other arenas of the same model. None: was not looked for, or would be no smaller.

    planned_bytes: with a plan of ours; proven where no order and no layout needs less. kernels and kernels_bytes: with
    the other kernels. saving: of the buffer by which most can be saved. replan: the file holds a plan already.
    """

    planned_bytes: int | None = None
    proven: bool = False
    replan: bool = False
    kernels: str | None = None
    kernels_bytes: int | None = None
    saving: Saving | None = None


def arena_reasons(
    report: Report, target: Target, anatomy: Anatomy, others: Alternatives, *, made_by: Mapping[str, str], reserve: int
) -> Reasons:
    """Of an arena. made_by: what makes a tensor, by its name; reserve: bytes to keep free in its region."""
    return Reasons(
        tuple(_arena_causes(anatomy, made_by)),
        tuple(_arena_advice(report, target, anatomy, others)),
        _roomier_regions(target, anatomy.bytes + reserve),
    )


def flash_reasons(report: Report, target: Target, *, reserve: int) -> Reasons:
    """Of a model's bytes: the weights of operators."""
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
    weights = [(item.parameter_bytes // max(item.runs, 1), f"{item.index} {item.operator}") for item in heavy[:NAMED]]
    causes = [f"{size:,} B: weights of operator {name}" for size, name in weights if size]
    if causes:
        advice.append(f"use fewer channels or layers, starting with operator {weights[0][1]}")
    return Reasons(tuple(causes), tuple(advice), elsewhere)


def latency_reasons(report: Report) -> Reasons:
    """Of a time: the slowest operators."""
    estimate = report.estimate
    if estimate is None or estimate.latency_ms is None:
        return Reasons()
    total = sum(item.ms.value for item in estimate.operators)
    slowest = sorted(estimate.operators, key=lambda item: -item.ms.value)[:NAMED]
    slowest = [item for item in slowest if item.ms.value >= LEAST_SHARE * total]
    causes = [
        f"{duration(item.ms.value)}: operator {item.index} {item.operator} ({percent(item.ms.value, total)})"
        for item in slowest
    ]
    advice = [text for text in estimate.verdict.advice if not text.startswith(ELSEWHERE)]
    return Reasons(tuple(causes), tuple(advice))


def _arena_causes(anatomy: Anatomy, made_by: Mapping[str, str]) -> list[str]:
    tail = _tail_text(anatomy)
    if anatomy.moment != INVOKE:
        causes = [
            (anatomy.peak_head, f"head memory used during {anatomy.moment_text} in AllocateTensors, not in Invoke"),
            (anatomy.peak_tail, tail),
        ]
        return [f"{size:,} B: {text}" for size, text in sorted(causes, reverse=True) if size]
    where = "the model's inputs" if anatomy.busiest is None else str(anatomy.busiest)
    lap = f", {-anatomy.gap_bytes:,} B of which overlap" if anatomy.gap_bytes < 0 else ""
    causes = [(item.bytes, f"{item}{made_by.get(item.name, '')}") for item in anatomy.alive[:NAMED]]
    left = anatomy.alive[NAMED:]
    if left:
        causes.append((sum(item.bytes for item in left), f"{len(left)} smaller tensors and scratch buffers"))
    causes.append((anatomy.tail_bytes, tail))
    if anatomy.gap_bytes > 0:
        causes.append((anatomy.gap_bytes, "gaps between tensors in the layout"))
    return [
        f"{where}, where {anatomy.alive_bytes:,} B are live at the same time{lap}",
        *(f"{size:,} B: {text}" for size, text in sorted(causes, key=lambda item: -item[0]) if size),
    ]


def _tail_text(anatomy: Anatomy) -> str:
    most = max(anatomy.operators, key=lambda part: part.tail, default=None)
    text = "persistent data of TFLM and its kernels"
    return text if most is None or not most.tail else f"{text}, mostly for {most.operator} ({most.tail:,} B)"


def _arena_advice(report: Report, target: Target, anatomy: Anatomy, others: Alternatives) -> list[str]:
    advice = []
    if others.planned_bytes is not None and others.planned_bytes < anatomy.bytes:
        less = anatomy.bytes - others.planned_bytes
        best = "; no operator order or layout needs less" if others.proven else ""
        options = f"--target {target.name}{' --replan' if others.replan else ''}"
        advice.append(
            f"'edgetool plan {options} -o NEW.tflite' writes a plan into the file: an arena of "
            f"{others.planned_bytes:,} B, {less:,} B less{best}"
        )
    elif others.proven:
        advice.append("no operator order or layout needs less: make the model smaller")
    if others.kernels_bytes is not None and others.kernels_bytes < (1 - WORTH) * anatomy.bytes:
        slower = ", but slower inference" if others.kernels == "reference" else ""
        advice.append(
            f"use the {others.kernels} kernels (--kernels {others.kernels}): an arena of {others.kernels_bytes:,} B, "
            f"{anatomy.bytes - others.kernels_bytes:,} B less{slower}"
        )
    advice += [
        f"convert to {row['precision']}: an arena of about {row['arena_bytes']:,} B"
        for row in _lower_precisions(report.estimate, "arena_bytes", anatomy.bytes)
    ]
    if others.saving is not None:
        saving = others.saving
        effect = (
            f"this saves at most {saving.bytes:,} B; beyond that, {saving.then} determines the arena size"
            if saving.then
            else "the arena shrinks by no more than the tensor does"
        )
        advice.append(f"{saving.what}: {effect}")
    elif anatomy.moment == INVOKE and anatomy.busiest is not None:
        advice.append(f"use fewer channels or a smaller input, starting with {anatomy.busiest}")
    return advice


def _roomier_regions(target: Target, room_bytes: int) -> tuple[str, ...]:
    return tuple(
        f"place the arena in the {region.size_bytes:,} B of {region.name} (--arena-region {region.name})"
        for region in target.regions
        if region.kind in ARENA_KINDS and region != target.arena_region and region.size_bytes >= room_bytes
    )


def _lower_precisions(estimate: EstimateInfo | None, figure: str, own: int) -> Sequence[dict[str, object]]:
    """The rows of the precision table below the model's own that TFLM runs and that need less."""
    table = {} if estimate is None else estimate.precision_tradeoffs
    rows, precision = table.get("rows"), table.get("own")
    if not isinstance(rows, list) or precision is None:
        return []
    place = [row["precision"] for row in rows].index(precision)
    return [row for row in rows[place + 1 :] if row["stock_tflm"] and row[figure] is not None and row[figure] < own]
