"""The judgement of a model on a target against what the target has and the user allows.

Does the model fit the target: arena against its region, model against flash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from edgetool.finding import Finding
from edgetool.gate.limits import WHAT, Limits, Of
from edgetool.gate.messages import JUDGED_AS
from edgetool.gate.text import as_given, duration, room
from edgetool.report.document import Band, FindingInfo, JudgementInfo, MemoryInfo, QuantizationInfo, Report
from edgetool.target.types import Target


@dataclass(frozen=True, slots=True)
class Fit:
    """The judgement; None is what cannot be said (no limit, or an arena that is only bounded below)."""

    region: str | None
    sram_bytes: int | None
    flash_bytes: int | None
    arena_fits: bool | None
    model_fits: bool | None


def judge_fit(
    target: Target, *, model_bytes: int, arena_bytes: int | None, arena_lower_bound_bytes: int
) -> tuple[Fit, tuple[Finding, ...]]:
    """The fit on the target. An arena known only from below can fail to fit, but never be said to fit."""
    region = target.arena_region
    sram_bytes = region.size_bytes if region is not None else None
    flash_bytes = target.flash_bytes
    arena_fits: bool | None = None
    if sram_bytes is not None:
        if arena_bytes is not None:
            arena_fits = arena_bytes <= sram_bytes
        elif arena_lower_bound_bytes > sram_bytes:
            arena_fits = False
    model_fits = None if flash_bytes is None else model_bytes <= flash_bytes
    findings = []
    if arena_fits is False:
        needed = arena_bytes if arena_bytes is not None else arena_lower_bound_bytes
        findings.append(
            Finding(
                "arena-too-large",
                f"the arena needs {'' if arena_bytes is not None else 'at least '}{needed:,} bytes; "
                f"{region.name if region else 'the region'} has {sram_bytes:,}",
                where=target.name,
            )
        )
    if model_fits is False:
        findings.append(
            Finding(
                "model-too-large",
                f"the model takes {model_bytes:,} bytes; the flash has {flash_bytes:,}",
                where=target.name,
            )
        )
    return Fit(region.name if region else None, sram_bytes, flash_bytes, arena_fits, model_fits), tuple(findings)


Subject = Literal["arena", "flash", "latency"]

RULES_OF_FIT = ("arena", "flash")
NO_LIMIT = "name a board, or specify {option}"


@dataclass(frozen=True, slots=True)
class Reasons:
    """What sets a figure, the largest first, and what would lower it.

    elsewhere: other memories that have the room, which help where the memory is the limit.
    """

    causes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Figures:
    """What is judged of a model on a target.

    arena_bytes is None if no build of TFLM is known, and then layout_bytes is the lower bound; latency_ms is None if no
    time is estimated.
    """

    arena_bytes: int | None
    layout_bytes: int
    arena_is_lower_bound: bool
    model_bytes: int
    memory: MemoryInfo
    runtime: str
    latency_ms: Band | None
    quantization: QuantizationInfo | None
    findings: tuple[FindingInfo, ...]


def figures_of(report: Report) -> Figures:
    """Return the judged figures of a report with target, arena and memory."""
    assert report.arena is not None
    assert report.memory is not None
    assert report.target is not None
    return Figures(
        arena_bytes=report.arena.bytes,
        layout_bytes=report.arena.layout_bytes,
        arena_is_lower_bound=report.arena.is_lower_bound,
        model_bytes=report.model.bytes,
        memory=report.memory,
        runtime=report.target.runtime,
        latency_ms=None if report.estimate is None else report.estimate.latency_ms,
        quantization=report.quantization,
        findings=report.findings,
    )


def judge(
    report: Report, limits: Limits, *, lacking: Mapping[str, tuple[str, ...]] | None = None
) -> tuple[JudgementInfo, ...]:
    """Every judgement of a report with arena and estimate, without reasons.

    lacking: the operators that nothing runs, by the rule of the finding that tells of them.
    """
    return judge_figures(figures_of(report), limits, lacking=lacking)


def judge_figures(
    figures: Figures, limits: Limits, *, lacking: Mapping[str, tuple[str, ...]] | None = None
) -> tuple[JudgementInfo, ...]:
    """The same for figures without a report."""
    own = [_arena(figures, limits), _flash(figures, limits)]
    own += [item for item in (_max_arena(figures, limits), _active(figures, limits)) if item is not None]
    own += [item for item in (_latency(figures, limits), _accuracy(figures, limits)) if item is not None]
    failed = {item.rule for item in own if item.passed is False}
    return (*own, *_operators(figures, lacking or {}), _arena_known(figures), *_error_findings(figures, failed))


def subject_of(item: JudgementInfo, limits: Limits) -> Subject | None:
    """Whose reasons belong to a judgement; None for one that has no figure of those."""
    subjects: dict[str, Subject] = {
        "arena": "arena",
        "max-arena": "arena",
        "flash": "flash",
        "max-latency": "latency",
    }
    if item.rule == "active-budget" and limits.active_budget is not None:
        return "flash" if limits.active_budget.of == "flash" else "arena"
    return subjects.get(item.rule)


def with_reasons(item: JudgementInfo, reasons: Reasons) -> JudgementInfo:
    """A failed judgement with its causes and advice, unless it has its own."""
    if item.passed is not False or item.causes or item.advice:
        return item
    elsewhere = reasons.elsewhere if item.rule in RULES_OF_FIT else ()
    return replace(item, causes=reasons.causes, advice=(*reasons.advice, *elsewhere))


def used(figures: Figures, limits: Limits) -> dict[Of, int]:
    """The bytes that budgets are compared with; those of an arena that is a lower bound are one too."""
    arena = figures.layout_bytes if figures.arena_bytes is None else figures.arena_bytes
    return {
        "arena": arena,
        "ram": arena + limits.reserve_bytes,
        "flash": figures.model_bytes + limits.reserve_flash_bytes,
    }


def _arena(figures: Figures, limits: Limits) -> JudgementInfo:
    memory = figures.memory
    if memory.sram_bytes is None:
        text = f"the memory size is unknown: {NO_LIMIT.format(option='--sram')}"
        return _unjudged("arena", text, value=None if figures.arena_is_lower_bound else figures.arena_bytes)
    return _size(
        "arena",
        f"the arena needs {_least(figures)}{used(figures, limits)['arena']:,} B",
        used(figures, limits)["arena"],
        memory.sram_bytes - limits.reserve_bytes,
        room(memory.region or "RAM", memory.sram_bytes, limits.reserve_bytes),
        known=not figures.arena_is_lower_bound,
    )


def _flash(figures: Figures, limits: Limits) -> JudgementInfo:
    memory, value = figures.memory, figures.model_bytes
    if memory.flash_bytes is None:
        return _unjudged("flash", f"the flash size is unknown: {NO_LIMIT.format(option='--flash')}", value=value)
    limit = memory.flash_bytes - limits.reserve_flash_bytes
    available = room("flash", memory.flash_bytes, limits.reserve_flash_bytes)
    return _size("flash", f"the model takes {value:,} B", value, limit, available)


def _max_arena(figures: Figures, limits: Limits) -> JudgementInfo | None:
    limit = limits.max_arena_bytes
    if limit is None:
        return None
    value, known = used(figures, limits)["arena"], not figures.arena_is_lower_bound
    what = f"the arena needs {_least(figures)}{value:,} B"
    return _size("max-arena", what, value, limit, f"--max-arena allows {limit:,} B", known=known)


def _active(figures: Figures, limits: Limits) -> JudgementInfo | None:
    budget = limits.active_budget
    if budget is None:
        return None
    value, known = used(figures, limits)[budget.of], budget.of == "flash" or not figures.arena_is_lower_bound
    reserve = {"arena": 0, "ram": limits.reserve_bytes, "flash": limits.reserve_flash_bytes}[budget.of]
    subject = WHAT[budget.of] if reserve else "the model" if budget.of == "flash" else "the arena"
    what = f"{subject} needs {'' if known else 'at least '}{value:,} B"
    room = f"the active budget is {budget.text} ({budget.bytes:,} B)"
    return _size("active-budget", what, value, budget.bytes, room, known=known)


def _latency(figures: Figures, limits: Limits) -> JudgementInfo | None:
    limit = limits.max_latency_ms
    if limit is None:
        return None
    band = figures.latency_ms
    if band is None:
        text = "--max-latency is given, but edgetool cannot estimate times for this device: choose one for which it can"
        return JudgementInfo("max-latency", False, "error", text, None, limit, None, "ms")
    allows = f"--max-latency allows {as_given(limit)}"
    value = f"an inference takes about {duration(band.value)} ({duration(band.low)} to {duration(band.high)})"
    if band.value > limit:
        over = band.value - limit
        text = f"{value}; {allows}: {duration(over)} over the limit"
        return JudgementInfo("max-latency", False, "error", text, band.value, limit, over, "ms")
    text, level = f"{value}; {allows}", "note"
    if band.high > limit:
        text, level = (
            f"{text}, but the upper end of the band exceeds the limit: measure the latency on the device",
            "warning",
        )
    return JudgementInfo("max-latency", True, level, text, band.value, limit, None, "ms")


def _accuracy(figures: Figures, limits: Limits) -> JudgementInfo | None:
    """The loss in percentage points, of the accuracies that `convert --evaluate` measured."""
    limit = limits.max_accuracy_loss
    if limit is None:
        return None
    if figures.quantization is None or figures.quantization.accuracy is None:
        what = "there is no report with" if figures.quantization is None else "the report does not include"
        text = f"--max-accuracy-loss is given, but {what} the accuracy of this exact model"
        advice = (
            "convert it with --evaluate DATA, which measures the accuracy, and keep the NAME.json that it writes "
            "next to the .tflite, or specify it with --report",
        )
        return JudgementInfo("accuracy", False, "error", text, None, limit, None, "%", advice=advice)
    accuracy = figures.quantization.accuracy
    loss = round(100 * (accuracy.float - accuracy.quantized), 9)  # shares of counts, without the last bits
    shown = f"quantization changes the accuracy from {100 * accuracy.float:.2f} % to {100 * accuracy.quantized:.2f} %"
    text = f"{shown}: a loss of {loss:.2f} points; --max-accuracy-loss allows {limit:g}"
    if loss > limit:
        advice = (
            "calibrate with more, and more representative, samples (--calibration), or convert to int16x8, or use "
            "quantization-aware training",
        )
        return JudgementInfo("accuracy", False, "error", text, loss, limit, loss - limit, "%", advice=advice)
    return JudgementInfo("accuracy", True, "note", text, loss, limit, None, "%")


def _operators(figures: Figures, lacking: Mapping[str, tuple[str, ...]]) -> list[JudgementInfo]:
    found = [item for item in figures.findings if JUDGED_AS.get(item.rule) == "operators"]
    if not found:
        return [JudgementInfo("operators", True, "note", f"{figures.runtime} supports every operator")]
    advice = {
        "operator-not-in-runtime": "build the model from operators that TFLM supports ("
        "'edgetool inspect' lists those it uses), or compute that part in the application",
        "custom-operator": "describe its allocations with --custom-operators FILE.toml, and register its kernel",
    }
    return [
        JudgementInfo(
            "operators", False, "error", item.message, causes=lacking.get(item.rule, ()), advice=(advice[item.rule],)
        )
        for item in found
    ]


def _arena_known(figures: Figures) -> JudgementInfo:
    if not figures.arena_is_lower_bound:
        return JudgementInfo("arena-known", True, "note", "every byte of the arena is accounted for")
    why = next((item.message for item in figures.findings if item.rule == "arena-lower-bound"), None)
    if why is None:
        why = f"AllocateTensors fails: the {figures.arena_bytes or 0:,} B is only what it allocates before it fails"
    return JudgementInfo("arena-known", False, "error", why)


def _error_findings(figures: Figures, failed: set[str]) -> list[JudgementInfo]:
    """Findings of level error that no judgement above tells already."""
    return [
        JudgementInfo(item.rule, False, "error", _placed(item))
        for item in figures.findings
        if item.level == "error" and JUDGED_AS.get(item.rule) not in {*failed, "operators"}
    ]


def _placed(item: FindingInfo | Finding) -> str:
    return item.message if item.where is None else f"{item.where}: {item.message}"


def _size(rule: str, what: str, value: int, limit: int, room: str, *, known: bool = True) -> JudgementInfo:
    """A size against its limit; one that is only a lower bound can fail, but never pass."""
    over = value - limit
    if over > 0:
        return JudgementInfo(
            rule, False, "error", f"{what}; {room}: {over:,} B over the limit", value, limit, over, "B"
        )
    if not known:
        return _unjudged(rule, f"{what}, but the exact size is unknown; {room}", value=value, limit=limit)
    return JudgementInfo(rule, True, "note", f"{what}; {room}", value, limit, None, "B")


def _unjudged(rule: str, text: str, *, value: int | None = None, limit: int | None = None) -> JudgementInfo:
    return JudgementInfo(rule, None, "note", f"not checked: {text}", value, limit, None, "B")


def _least(figures: Figures) -> str:
    return "at least " if figures.arena_is_lower_bound else ""
