"""Whether a variant is accepted, by what its target has and what the user allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from edgetool.figure import in_text
from edgetool.gate.limits import MemoryBudget, Of, judge_budgets, memory_use, reported_budgets
from edgetool.gate.text import as_given, duration, room
from edgetool.report.document import Band, BudgetInfo
from edgetool.sweep.metrics import Cause, Cost, Judged, Metrics, Quality
from edgetool.sweep.spec import SweepLimits

Reason = tuple[Cause, str]


def violations(
    budgets: Sequence[MemoryBudget], used: Mapping[Of, int], *, exact: bool = True
) -> dict[str, bool | None]:
    """Of each budget, under its name ("violates_64kib"), whether what it is of is strictly larger.

    used: bytes of the arena, of RAM (the arena with the reserve) and of flash (the model with its reserve). exact:
    whether those of the arena are; where they are only what it is not below, a budget that they keep is None.
    """
    return {item.name: item.violated for item in judge_budgets(budgets, used, exact=exact)}


def used_bytes(cost: Cost, limits: SweepLimits) -> dict[Of, int]:
    """The bytes that budgets are compared with; of an arena that is not known, what it is not below."""
    return memory_use(
        _arena_bytes(cost),
        cost.model_bytes,
        reserve_bytes=limits.reserve_bytes,
        reserve_flash_bytes=limits.reserve_flash_bytes,
    )


def judge(metrics: Metrics, limits: SweepLimits) -> Judged:
    """The budgets, and whether the variant is accepted. What a limit asks for and nobody knows rejects it."""
    cost = metrics.cost
    reasons: list[Reason] = [
        *(("runtime", text) for text in cost.errors),
        *_memory(cost, limits),
        *_active(cost, limits),
        *(("latency", text) for text in _latency(cost.latency_ms, limits.max_latency_ms)),
        *(("energy", text) for text in _energy(cost.energy_uj, limits.max_energy_uj)),
        *(("accuracy", text) for text in _accuracy(metrics.quality, limits)),
    ]
    causes = tuple(dict.fromkeys(cause for cause, _ in reasons))
    return Judged(budgets_of(cost, limits), not reasons, tuple(text for _, text in reasons), causes)


def budgets_of(cost: Cost, limits: SweepLimits) -> tuple[BudgetInfo, ...]:
    """Every budget once, and whether it is violated."""
    budgets = reported_budgets(limits.budgets, limits.active_budget)
    return judge_budgets(budgets, used_bytes(cost, limits), exact=cost.arena_bytes is not None)


def _arena_bytes(cost: Cost) -> int:
    return cost.arena_least_bytes if cost.arena_bytes is None else cost.arena_bytes


def _arena_needs(cost: Cost) -> str:
    return f"the arena requires {'at least ' if cost.arena_bytes is None else ''}{_arena_bytes(cost):,} B"


def _memory(cost: Cost, limits: SweepLimits) -> Iterator[Reason]:
    """Arena and model against the target's memories."""
    if cost.arena_bytes is None:
        yield "arena unknown", f"the arena size is unknown: at least {cost.arena_least_bytes:,} B"
    if cost.sram_bytes is not None and _arena_bytes(cost) > cost.sram_bytes - limits.reserve_bytes:
        yield "memory", f"{_arena_needs(cost)}; {room(cost.region or 'RAM', cost.sram_bytes, limits.reserve_bytes)}"
    if cost.flash_bytes is not None and cost.model_bytes > cost.flash_bytes - limits.reserve_flash_bytes:
        available = room("flash", cost.flash_bytes, limits.reserve_flash_bytes)
        yield "flash", f"the model size is {cost.model_bytes:,} B; {available}"


def _active(cost: Cost, limits: SweepLimits) -> Iterator[Reason]:
    """The active budget, less the reserve of its memory: that of RAM for an arena, too."""
    budget = limits.active_budget
    if budget is None:
        return
    flash = budget.of == "flash"
    needed = cost.model_bytes if flash else _arena_bytes(cost)
    reserve = limits.reserve_flash_bytes if flash else limits.reserve_bytes
    if needed > budget.bytes - reserve:
        needs = f"the model size is {needed:,} B" if flash else _arena_needs(cost)
        left = (
            f", of which {max(0, budget.bytes - reserve):,} B remain after reserving {reserve:,} B" if reserve else ""
        )
        room = f"the active budget is {budget.text} of {_SHORT[budget.of]}{left}"
        yield "budget", f"{needs}; {room}"


_SHORT: Mapping[Of, str] = {"arena": "the arena", "ram": "RAM", "flash": "flash"}


def _latency(band: Band | None, limit: float | None) -> Iterator[str]:
    if limit is None:
        return
    if band is None:
        yield f"the inference time is unknown; the limit is {as_given(limit)}"
    elif band.value > limit:
        within = f"({duration(band.low)} to {duration(band.high)})"
        yield f"an inference takes about {duration(band.value)} {within}; the limit is {as_given(limit)}"


def _energy(band: Band | None, limit: float | None) -> Iterator[str]:
    if limit is None:
        return
    if band is None:
        yield f"the inference energy is unknown; the limit is {limit:.9g} uJ"
    elif band.value > limit:
        within = f"({in_text(band.low)} to {in_text(band.high)} uJ)"
        yield f"an inference requires about {in_text(band.value)} uJ {within}; the limit is {limit:.9g} uJ"


def _accuracy(quality: Quality, limits: SweepLimits) -> Iterator[str]:
    """On labels; without any, agreement stands for accuracy: an answer that is another one may be wrong."""
    least, most = limits.min_accuracy, limits.max_accuracy_loss
    labelled = quality.accuracy is not None
    found = quality.accuracy if labelled else quality.agreement
    if found is None:
        if least is not None:
            yield f"the accuracy is unknown; the minimum is {_percent(least)}"
        if most is not None:
            yield f"the accuracy loss is unknown; the limit is {most:.9g} points"
        return
    if least is not None and found < least:
        what = "the accuracy" if labelled else "the agreement with the original float model"
        yield f"{what} is {_percent(found)}; the minimum is {_percent(least)}"
    if most is None:
        return
    original = quality.float_accuracy if labelled else 1.0
    if original is None:
        yield f"the accuracy of the original float model is unknown; the limit for the loss is {most:.9g} points"
        return
    loss = round(100 * (original - found), 9)  # shares of counts, without the last bits
    if loss > most:
        drop = f"the accuracy drops from {_percent(original)} to {_percent(found)}"
        what = drop if labelled else f"the agreement with the original float model is {_percent(found)}"
        yield f"{what}: a loss of {in_text(loss)} points; the limit is {most:.9g}"


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"
