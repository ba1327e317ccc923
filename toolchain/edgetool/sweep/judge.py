"""Decide whether a variant is accepted, from the memory of its target and the limits of the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from edgetool.figure import in_text
from edgetool.gate.limits import BudgetedMemory, MemoryBudget, judge_budgets, memory_use, reported_budgets
from edgetool.gate.text import as_given, duration, room
from edgetool.report.document import Band, BudgetInfo
from edgetool.sweep.metrics import Cause, Cost, Judged, Metrics, Quality
from edgetool.sweep.spec import SweepLimits

Reason = tuple[Cause, str]


def violations(
    budgets: Sequence[MemoryBudget], used: Mapping[BudgetedMemory, int], *, exact: bool = True
) -> dict[str, bool | None]:
    """Return for each budget, by name ("violates_64kib"), whether more bytes than the budget are used.

    Args:
        used: bytes of the arena, of RAM (the arena with the reserve) and of flash (the model with its reserve).
        exact: whether the bytes of the arena are exact. If they are a lower bound, a budget that is not violated by
            them is None.
    """
    return {item.name: item.violated for item in judge_budgets(budgets, used, exact=exact)}


def used_bytes(cost: Cost, limits: SweepLimits) -> dict[BudgetedMemory, int]:
    """Return the bytes that budgets are compared with; for an arena of unknown size, its lower bound."""
    return memory_use(
        _arena_bytes(cost),
        cost.model_bytes,
        reserve_bytes=limits.reserve_bytes,
        reserve_flash_bytes=limits.reserve_flash_bytes,
    )


def judge(metrics: Metrics, limits: SweepLimits) -> Judged:
    """Judge a variant. An unknown value for which there is a limit rejects it."""
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
    """Return every budget once, with whether it is violated."""
    budgets = reported_budgets(limits.budgets, limits.active_budget)
    return judge_budgets(budgets, used_bytes(cost, limits), exact=cost.arena_bytes is not None)


def _arena_bytes(cost: Cost) -> int:
    return cost.arena_least_bytes if cost.arena_bytes is None else cost.arena_bytes


def _arena_requires(cost: Cost) -> str:
    return f"the arena requires {'at least ' if cost.arena_bytes is None else ''}{_arena_bytes(cost):,} B"


def _memory(cost: Cost, limits: SweepLimits) -> Iterator[Reason]:
    """Compare arena and model with the target's memory."""
    if cost.arena_bytes is None:
        yield "arena unknown", f"the arena size is unknown: at least {cost.arena_least_bytes:,} B"
    if cost.sram_bytes is not None and _arena_bytes(cost) > cost.sram_bytes - limits.reserve_bytes:
        yield "memory", f"{_arena_requires(cost)}; {room(cost.region or 'RAM', cost.sram_bytes, limits.reserve_bytes)}"
    if cost.flash_bytes is not None and cost.model_bytes > cost.flash_bytes - limits.reserve_flash_bytes:
        available = room("flash", cost.flash_bytes, limits.reserve_flash_bytes)
        yield "flash", f"the model size is {cost.model_bytes:,} B; {available}"


def _active(cost: Cost, limits: SweepLimits) -> Iterator[Reason]:
    """Compare with the active budget minus the reserve of its memory; a budget of the arena has the reserve of RAM."""
    budget = limits.active_budget
    if budget is None:
        return
    flash = budget.of == "flash"
    needed = cost.model_bytes if flash else _arena_bytes(cost)
    reserve = limits.reserve_flash_bytes if flash else limits.reserve_bytes
    if needed > budget.bytes - reserve:
        needs = f"the model size is {needed:,} B" if flash else _arena_requires(cost)
        remainder = (
            f", of which {max(0, budget.bytes - reserve):,} B remain after reserving {reserve:,} B" if reserve else ""
        )
        available = f"the active budget is {budget.text} of {_NAMES[budget.of]}{remainder}"
        yield "budget", f"{needs}; {available}"


_NAMES: Mapping[BudgetedMemory, str] = {"arena": "the arena", "ram": "RAM", "flash": "flash"}


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
    """Compare accuracies; without labels, agreement with the float model replaces accuracy."""
    minimum, max_loss = limits.min_accuracy, limits.max_accuracy_loss
    labelled = quality.accuracy is not None
    measured = quality.accuracy if labelled else quality.agreement
    if measured is None:
        if minimum is not None:
            yield f"the accuracy is unknown; the minimum is {_percent(minimum)}"
        if max_loss is not None:
            yield f"the accuracy loss is unknown; the limit is {max_loss:.9g} points"
        return
    if minimum is not None and measured < minimum:
        what = "the accuracy" if labelled else "the agreement with the original float model"
        yield f"{what} is {_percent(measured)}; the minimum is {_percent(minimum)}"
    if max_loss is None:
        return
    original = quality.float_accuracy if labelled else 1.0
    if original is None:
        yield f"the accuracy of the original float model is unknown; the limit for the loss is {max_loss:.9g} points"
        return
    loss = round(100 * (original - measured), 9)  # without the rounding errors of fractions of counts
    if loss > max_loss:
        drop = f"the accuracy drops from {_percent(original)} to {_percent(measured)}"
        what = drop if labelled else f"the agreement with the original float model is {_percent(measured)}"
        yield f"{what}: a loss of {in_text(loss)} points; the limit is {max_loss:.9g}"


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"
