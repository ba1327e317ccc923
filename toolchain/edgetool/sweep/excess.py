"""By how much a variant exceeds what it must keep: the judgement's reasons as numbers that a search can lessen."""

from __future__ import annotations

from collections.abc import Mapping

from edgetool.gate.limits import Of
from edgetool.sweep.front import accuracy_of
from edgetool.sweep.judge import used_bytes
from edgetool.sweep.metrics import Cause, Metrics, Quality
from edgetool.sweep.spec import SweepLimits

UNKNOWN = 1.0  # a figure that a limit asks for and nobody knows: as bad as twice the limit


def excess(metrics: Metrics, limits: SweepLimits) -> Mapping[Cause, float]:
    """Each limit's excess, as a share of the limit (of accuracy: as a share of all samples); 0 or less is kept.

    Limits that are not given, and memories whose size is not known, are left out.
    """
    cost = metrics.cost
    used = used_bytes(cost, limits)
    found: dict[Cause, float] = {
        "runtime": float(len(cost.errors)),
        "arena unknown": UNKNOWN if cost.arena_bytes is None else 0.0,
    }
    if cost.sram_bytes is not None:
        found["memory"] = _over(used["ram"], cost.sram_bytes)
    if cost.flash_bytes is not None:
        found["flash"] = _over(used["flash"], cost.flash_bytes)
    if limits.active_budget is not None:
        # The reserve of RAM is kept free of an arena's budget, too, as it is judged.
        of: Of = "flash" if limits.active_budget.of == "flash" else "ram"
        found["budget"] = _over(used[of], limits.active_budget.bytes)
    if limits.max_latency_ms is not None:
        found["latency"] = _over(cost.latency_ms.value if cost.latency_ms else None, limits.max_latency_ms)
    if limits.max_energy_uj is not None:
        found["energy"] = _over(cost.energy_uj.value if cost.energy_uj else None, limits.max_energy_uj)
    lost = _accuracy_lost(metrics.quality, limits)
    if lost is not None:
        found["accuracy"] = lost
    return found


def _over(value: float | None, limit: float) -> float:
    if value is None:
        return UNKNOWN
    return (value - limit) / limit if limit > 0 else float(value > limit)


def _accuracy_lost(quality: Quality, limits: SweepLimits) -> float | None:
    """The larger excess of the two limits of accuracy; None where there is none."""
    found = []
    share = accuracy_of(quality)
    if limits.min_accuracy is not None:
        found.append(UNKNOWN if share is None else limits.min_accuracy - share)
    if limits.max_accuracy_loss is not None:
        original = quality.float_accuracy if quality.accuracy is not None else 1.0
        # In points, without the last bits of shares of counts, as it is judged.
        lost = None if share is None or original is None else round(100 * (original - share), 9)
        found.append(UNKNOWN if lost is None else (lost - limits.max_accuracy_loss) / 100)
    return max(found, default=None)
