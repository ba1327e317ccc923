"""The lines of a plot: what a sweep's limits, its budgets and its target's memory mean on an axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgetool.gate.limits import Of
from edgetool.sweep.metrics import Quality, Row
from edgetool.sweep.plot_style import LIMIT, MEMORY, TRACKED
from edgetool.sweep.spec import SweepLimits
from edgetool.target.quantity import format_size


@dataclass(frozen=True, slots=True)
class Line:
    """value is in the axis's own unit; kind is one of plot_style.LINES."""

    value: float
    label: str
    kind: str


def lines(axis_name: str, limits: SweepLimits, rows: Sequence[Row]) -> tuple[Line, ...]:
    """The lines on this axis for the rows of one target, in ascending order; of those that coincide, the first of
    limit, memory and tracked budget."""
    strict = [LIMIT, MEMORY, TRACKED]
    distinct: dict[float, Line] = {}
    for line in sorted(_all(axis_name, limits, rows), key=lambda line: strict.index(line.kind)):
        if line.value > 0:  # what a reserve uses up leaves no line to draw
            distinct.setdefault(line.value, line)
    return tuple(sorted(distinct.values(), key=lambda line: line.value))


def _all(axis_name: str, limits: SweepLimits, rows: Sequence[Row]) -> Iterator[Line]:
    if axis_name == "arena_bytes":
        yield from _memory(("arena", "ram"), limits, limits.reserve_bytes, _sizes(rows, "RAM"))
    elif axis_name == "model_bytes":
        yield from _memory(("flash",), limits, limits.reserve_flash_bytes, _sizes(rows, "flash"))
    elif axis_name == "latency_ms" and limits.max_latency_ms is not None:
        yield Line(limits.max_latency_ms, f"at most {limits.max_latency_ms:g} ms", LIMIT)
    elif axis_name == "energy_uj" and limits.max_energy_uj is not None:
        yield Line(limits.max_energy_uj, f"at most {limits.max_energy_uj:g} µJ", LIMIT)
    elif axis_name == "accuracy":
        yield from _accuracy(limits, rows)


def _memory(of: Sequence[Of], limits: SweepLimits, reserve_bytes: int, sizes: dict[str, int]) -> Iterator[Line]:
    """What an arena or a model may have; a tracked budget of the arena alone knows no reserve."""
    less = f" less {format_size(reserve_bytes)}" if reserve_bytes else ""
    for name, size_bytes in sizes.items():
        yield Line(size_bytes - reserve_bytes, f"{name} {format_size(size_bytes)}{less}", MEMORY)
    active = limits.active_budget
    if active is not None and active.of in of:
        yield Line(active.bytes - reserve_bytes, f"active budget {active.text}{less}", LIMIT)
    for budget in limits.budgets:
        if budget.of == "arena":
            yield from [Line(budget.bytes, f"budget {budget.text}", TRACKED)] if "arena" in of else []
        elif budget.of in of:
            yield Line(budget.bytes - reserve_bytes, f"budget {budget.text}{less}", TRACKED)


def _sizes(rows: Sequence[Row], memory: str) -> dict[str, int]:
    """The memory of the rows' target by its name: all rows have the same."""
    costs = [row.metrics.cost for row in rows if row.metrics is not None]
    if memory == "flash":
        return dict([(memory, cost.flash_bytes) for cost in costs if cost.flash_bytes is not None][:1])
    return dict([(cost.region or memory, cost.sram_bytes) for cost in costs if cost.sram_bytes is not None][:1])


def _accuracy(limits: SweepLimits, rows: Sequence[Row]) -> Iterator[Line]:
    if limits.min_accuracy is not None:
        yield Line(limits.min_accuracy, f"at least {100 * limits.min_accuracy:g} %", LIMIT)
    # Where the originals differ (a builder's), each variant has a limit of its own, and there is no line.
    originals = {_original_accuracy(row.metrics.quality) for row in rows if row.metrics is not None}
    if limits.max_accuracy_loss is not None and len(originals) == 1 and (original := originals.pop()) is not None:
        label = f"at most {limits.max_accuracy_loss:g} points below {100 * original:.4g} %"
        yield Line(original - limits.max_accuracy_loss / 100, label, LIMIT)


def _original_accuracy(quality: Quality) -> float | None:
    return quality.float_accuracy if quality.accuracy is not None else 1.0
