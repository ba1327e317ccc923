"""Whether a model fits a target, and whether its figures keep the limits of the user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from edgetool.figure import Figure
from edgetool.finding import Finding
from edgetool.gate.limits import SUBJECTS, BudgetedMemory, ModelLimits, judge_budgets, memory_use, reported_budgets
from edgetool.gate.messages import ARENA_PARTS, JUDGED_AS
from edgetool.gate.text import as_given, duration, room
from edgetool.report.document import (
    Band,
    BudgetInfo,
    FindingInfo,
    JudgementInfo,
    MemoryInfo,
    PlacedInfo,
    QuantizationInfo,
    Report,
)
from edgetool.target.types import Target


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether arena and model fit; None means unknown: the memory has no size, or the arena is only a lower bound.

    model_bytes: what the model takes in flash. exact_code_bytes: what its code takes, if that was counted in the
    user's own library.
    """

    region: str | None
    sram_bytes: int | None
    flash_bytes: int | None
    arena_fits: bool | None
    model_fits: bool | None
    model_bytes: int
    exact_code_bytes: int = 0


def judge_fit(
    target: Target,
    *,
    model_bytes: int,
    arena_bytes: int | None,
    arena_lower_bound_bytes: int,
    code: Figure | None = None,
    code_is_exact: bool = False,
) -> tuple[Fit, tuple[Finding, ...]]:
    """Return the fit on the target and its findings. An arena that is only a lower bound is never certain to fit.

    Code that is counted in the user's own library (code_is_exact) must fit with the model; other code is a warning.
    """
    region = target.arena_region
    sram_bytes = region.size_bytes if region is not None else None
    flash_bytes = target.flash_bytes
    arena_fits: bool | None = None
    if sram_bytes is not None:
        if arena_bytes is not None:
            arena_fits = arena_bytes <= sram_bytes
        elif arena_lower_bound_bytes > sram_bytes:
            arena_fits = False
    exact_code = round(code.value) if code is not None and code_is_exact else 0
    model_fits = None if flash_bytes is None else model_bytes + exact_code <= flash_bytes
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
        with_code = f" and its code {exact_code:,}" if exact_code else ""
        findings.append(
            Finding(
                "model-too-large",
                f"the model takes {model_bytes:,} bytes{with_code}; the flash has {flash_bytes:,}",
                where=target.name,
            )
        )
    elif code is not None and flash_bytes is not None and model_bytes + code.low > flash_bytes:
        findings.append(
            Finding(
                "code-too-large",
                f"the model takes {model_bytes:,} bytes and its code at least {round(code.low):,}; the flash has "
                f"{flash_bytes:,}",
                where=target.name,
            )
        )
    name = region.name if region else None
    return Fit(name, sram_bytes, flash_bytes, arena_fits, model_fits, model_bytes, exact_code), tuple(findings)


NAME_A_BOARD = "name a board, or specify {option}"


@dataclass(frozen=True, slots=True)
class JudgedFigures:
    """The figures of a model on a target that are judged.

    arena_bytes is None if no build of TFLM is known; then layout_bytes is the lower bound. latency_ms is None if no
    time is estimated. exact_code_bytes: what the code takes, if it was counted in the user's own library. code_bytes:
    what it takes otherwise, which is stated but not judged. places: the parts in memories of their own, which are then
    judged instead of arena and flash. extra_macs_percent: the multiply-accumulates that are computed again, None if the
    file does not say how many.
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
    exact_code_bytes: int = 0
    code_bytes: Band | None = None
    places: tuple[PlacedInfo, ...] = ()
    extra_macs_percent: float | None = 0.0

    @property
    def flash_bytes(self) -> int:
        """The bytes that must fit in flash: the model, and its code if that was counted in the user's own library."""
        return self.model_bytes + self.exact_code_bytes


def figures_of(report: Report) -> JudgedFigures:
    """Return the judged figures of a report that has a target, an arena and memory."""
    assert report.arena is not None
    assert report.memory is not None
    assert report.target is not None
    return JudgedFigures(
        arena_bytes=report.arena.bytes,
        layout_bytes=report.arena.layout_bytes,
        arena_is_lower_bound=report.arena.is_lower_bound,
        model_bytes=report.model_bytes_in_flash,
        exact_code_bytes=report.exact_code_bytes,
        code_bytes=None if report.flash is None else report.flash.code_bytes,
        memory=report.memory,
        runtime=report.target.runtime,
        latency_ms=None if report.estimate is None else report.estimate.latency_ms,
        quantization=report.quantization,
        findings=report.findings,
        places=report.places,
        extra_macs_percent=_extra_macs_percent(report),
    )


def _extra_macs_percent(report: Report) -> float | None:
    if report.rows is not None:
        return report.rows.extra_macs_percent
    if report.plan is not None and report.plan.stripes is not None:
        return report.plan.stripes.extra_macs_percent
    operators = () if report.estimate is None else report.estimate.operators
    return None if any(item.copy_of is not None for item in operators) else 0.0


def judge(
    figures: JudgedFigures, limits: ModelLimits, *, unsupported: Mapping[str, tuple[str, ...]] | None = None
) -> tuple[JudgementInfo, ...]:
    """Return every judgement of the figures, without the causes of sizes and times.

    unsupported: names of the unsupported operators, by the rule of their finding.
    """
    given = (_max_arena, _active, _latency, _accuracy, _extra_macs)
    judgements = [_arena(figures, limits), _flash(figures, limits)]
    if figures.places:
        judgements = list(_memories(figures, limits))
    judgements += [item for item in (judged(figures, limits) for judged in given) if item is not None]
    failed = {item.rule for item in judgements if item.passed is False}
    operators = _operators(figures, unsupported or {})
    return (*judgements, *operators, _arena_known(figures), *_error_findings(figures, failed))


def passes(judgements: Iterable[JudgementInfo]) -> bool:
    """Return whether a model passes: no judgement failed. One that could not be made does not reject the model."""
    return all(item.passed is not False for item in judgements)


def budgets_of(figures: JudgedFigures, limits: ModelLimits) -> tuple[BudgetInfo, ...]:
    """Return the tracked budgets and the active one, each with whether the figures violate it."""
    budgets = reported_budgets(limits.budgets, limits.active_budget)
    return judge_budgets(budgets, used(figures, limits), exact=not figures.arena_is_lower_bound)


def used(figures: JudgedFigures, limits: ModelLimits) -> dict[BudgetedMemory, int]:
    """Return the bytes that budgets are compared with, which are a lower bound if the arena is one."""
    return memory_use(
        figures.layout_bytes if figures.arena_bytes is None else figures.arena_bytes,
        figures.flash_bytes,
        reserve_bytes=limits.reserve_bytes,
        reserve_flash_bytes=limits.reserve_flash_bytes,
    )


def _arena(figures: JudgedFigures, limits: ModelLimits) -> JudgementInfo:
    memory = figures.memory
    if memory.sram_bytes is None:
        text = f"the memory size is unknown: {NAME_A_BOARD.format(option='--sram')}"
        return _unjudged("arena", text, value=None if figures.arena_is_lower_bound else figures.arena_bytes)
    return _size(
        "arena",
        f"the arena needs {_at_least(figures)}{used(figures, limits)['arena']:,} B",
        used(figures, limits)["arena"],
        memory.sram_bytes - limits.reserve_bytes,
        room(memory.region or "RAM", memory.sram_bytes, limits.reserve_bytes),
        exact=not figures.arena_is_lower_bound,
    )


def _flash(figures: JudgedFigures, limits: ModelLimits) -> JudgementInfo:
    memory, value = figures.memory, figures.flash_bytes
    if memory.flash_bytes is None:
        return _unjudged("flash", f"the flash size is unknown: {NAME_A_BOARD.format(option='--flash')}", value=value)
    limit = memory.flash_bytes - limits.reserve_flash_bytes
    available = room("flash", memory.flash_bytes, limits.reserve_flash_bytes)
    takes = f"the model takes {value:,} B"
    if figures.exact_code_bytes:
        takes = f"the model and its code take {value:,} B"
    elif figures.code_bytes is not None:
        takes += f", and its code about {round(figures.code_bytes.value):,} B"
    return _size("flash", takes, value, limit, available)


def _memories(figures: JudgedFigures, limits: ModelLimits) -> Iterator[JudgementInfo]:
    """Judge each memory with the parts in it; the reserves are kept free beside the head and beside the model.

    Native code has the first part of its arena, and constants, instead.
    """
    head = next((item.memory for item in figures.places if item.part in ("head", "arena")), None)
    stored = next((item.memory for item in figures.places if item.part in ("model", "constants")), None)
    for memory in dict.fromkeys(item.memory for item in figures.places):
        parts = [item for item in figures.places if item.memory == memory]
        size_bytes, value = parts[0].memory_bytes, sum(item.bytes for item in parts)
        reserve = (memory == head) * limits.reserve_bytes + (memory == stored) * limits.reserve_flash_bytes
        has_arena = any(item.part in ARENA_PARTS for item in parts)
        what = f"{' and '.join(item.part for item in parts)} need{'s' * (len(parts) == 1)}"
        yield _size(
            "memory",
            f"{what} {_at_least(figures) if has_arena else ''}{value:,} B",
            value,
            size_bytes - reserve,
            room(memory, size_bytes, reserve),
            exact=not (has_arena and figures.arena_is_lower_bound),
        )


def _max_arena(figures: JudgedFigures, limits: ModelLimits) -> JudgementInfo | None:
    limit = limits.max_arena_bytes
    if limit is None:
        return None
    value, exact = used(figures, limits)["arena"], not figures.arena_is_lower_bound
    what = f"the arena needs {_at_least(figures)}{value:,} B"
    return _size("max-arena", what, value, limit, f"--max-arena allows {limit:,} B", exact=exact)


def _active(figures: JudgedFigures, limits: ModelLimits) -> JudgementInfo | None:
    budget = limits.active_budget
    if budget is None:
        return None
    value, exact = used(figures, limits)[budget.of], budget.of == "flash" or not figures.arena_is_lower_bound
    reserve = {"arena": 0, "ram": limits.reserve_bytes, "flash": limits.reserve_flash_bytes}[budget.of]
    subject = SUBJECTS[budget.of] if reserve else "the model" if budget.of == "flash" else "the arena"
    what = f"{subject} needs {'' if exact else 'at least '}{value:,} B"
    room = f"the active budget is {budget.text} ({budget.bytes:,} B)"
    return _size("active-budget", what, value, budget.bytes, room, exact=exact)


def _latency(figures: JudgedFigures, limits: ModelLimits) -> JudgementInfo | None:
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


def _accuracy(figures: JudgedFigures, limits: ModelLimits) -> JudgementInfo | None:
    """Judge the loss in percentage points between the accuracies that `convert --evaluate` measured."""
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
    loss = round(100 * (accuracy.float - accuracy.quantized), 9)  # without the rounding errors of the shares
    shown = f"quantization changes the accuracy from {100 * accuracy.float:.2f} % to {100 * accuracy.quantized:.2f} %"
    text = f"{shown}: a loss of {loss:.2f} points; --max-accuracy-loss allows {limit:g}"
    if loss > limit:
        advice = (
            "calibrate with more, and more representative, samples (--calibration), or convert to int16x8, or use "
            "quantization-aware training",
        )
        return JudgementInfo("accuracy", False, "error", text, loss, limit, loss - limit, "%", advice=advice)
    return JudgementInfo("accuracy", True, "note", text, loss, limit, None, "%")


def _extra_macs(figures: JudgedFigures, limits: ModelLimits) -> JudgementInfo | None:
    """Judge how much of the model the plan computes again to take less memory."""
    rule, limit, value = "max-extra-macs", limits.max_extra_macs, figures.extra_macs_percent
    if limit is None:
        return None
    if value is None:
        text = "--max-extra-macs is given, but the file does not say how much work its stripes add"
        advice = ("plan the model without stripes again with 'edgetool plan --max-extra-macs PERCENT -o FILE.tflite'",)
        return JudgementInfo(rule, False, "error", text, None, limit, None, "%", advice=advice)
    text = f"the plan computes {value:.2f} % of the multiply-accumulates again; --max-extra-macs allows {limit:g} %"
    if value > limit:
        advice = (
            f"plan the model without stripes again with --max-extra-macs {limit:g}; 'edgetool plan --front' shows how "
            "large the arena is then",
        )
        return JudgementInfo(rule, False, "error", text, value, limit, value - limit, "%", advice=advice)
    return JudgementInfo(rule, True, "note", text, value, limit, None, "%")


def _operators(figures: JudgedFigures, unsupported: Mapping[str, tuple[str, ...]]) -> list[JudgementInfo]:
    findings = [item for item in figures.findings if JUDGED_AS.get(item.rule) == "operators"]
    if not findings:
        return [JudgementInfo("operators", True, "note", f"{figures.runtime} supports every operator")]
    advice = {
        "operator-not-in-runtime": "build the model from operators that TFLM supports ("
        "'edgetool inspect' lists those it uses), or compute that part in the application",
        "custom-operator": "describe its allocations with --custom-operators FILE.toml, and register its kernel",
    }
    return [
        JudgementInfo(
            "operators",
            False,
            "error",
            item.message,
            causes=unsupported.get(item.rule, ()),
            advice=(advice[item.rule],),
        )
        for item in findings
    ]


def _arena_known(figures: JudgedFigures) -> JudgementInfo:
    if not figures.arena_is_lower_bound:
        return JudgementInfo("arena-known", True, "note", "every byte of the arena is accounted for")
    why = next((item.message for item in figures.findings if item.rule == "arena-lower-bound"), None)
    if why is None:
        why = f"AllocateTensors fails: the {figures.arena_bytes or 0:,} B is only what it allocates before it fails"
    return JudgementInfo("arena-known", False, "error", why)


def _error_findings(figures: JudgedFigures, failed: set[str]) -> list[JudgementInfo]:
    """Return a failed judgement for each finding of level error that no other judgement repeats."""
    return [
        JudgementInfo(item.rule, False, "error", _with_place(item))
        for item in figures.findings
        if item.level == "error" and JUDGED_AS.get(item.rule) not in {*failed, "operators"}
    ]


def _with_place(item: FindingInfo | Finding) -> str:
    return item.message if item.where is None else f"{item.where}: {item.message}"


def _size(rule: str, what: str, value: int, limit: int, room: str, *, exact: bool = True) -> JudgementInfo:
    """Compare a size with its limit; one that is only a lower bound can fail, but never pass."""
    over = value - limit
    if over > 0:
        return JudgementInfo(
            rule, False, "error", f"{what}; {room}: {over:,} B over the limit", value, limit, over, "B"
        )
    if not exact:
        return _unjudged(rule, f"{what}, but the exact size is unknown; {room}", value=value, limit=limit)
    return JudgementInfo(rule, True, "note", f"{what}; {room}", value, limit, None, "B")


def _unjudged(rule: str, text: str, *, value: int | None = None, limit: int | None = None) -> JudgementInfo:
    return JudgementInfo(rule, None, "note", f"not checked: {text}", value, limit, None, "B")


def _at_least(figures: JudgedFigures) -> str:
    return "at least " if figures.arena_is_lower_bound else ""
