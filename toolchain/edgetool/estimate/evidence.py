"""How far a time may be trusted: what the measurements behind a timing do not hold widens the band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from edgetool.estimate.memory_speed import Speeds
from edgetool.estimate.types import OperatorEstimate, Validation
from edgetool.target.placement import Placement, load_placement_effects
from edgetool.target.types import Precision, Target, Timing

# An operator of which only the bytes are known takes at least the time of moving them; published kernels without
# multiply-accumulates take up to some hundred times that (a table of exponentials, a division per element).
BYTES_DOUBT = (1.0, 100.0)
# Operators of a type that no measurement of the core holds. On the Cortex-M4, of which some hold them, float32 takes
# 0.8 to 1.5 times what the int8 models say, with what its unit takes longer in it, and int16 0.95 to 1.4 times.
TYPE_DOUBT = (0.6, 2.0)
# Shares of the time from which such operators, or constants read again over a serial bus, decide the status.
SOME, MOST = 0.1, 0.5


@dataclass(frozen=True, slots=True)
class Doubt:
    """Factors on an operator's time beside the timing's band: what is not known about it in particular."""

    low: float
    high: float


def doubt_of(precision: Precision, modelled: bool, target: Target, again: float, placement: float | None) -> Doubt:
    """The doubt about one operator.

    modelled: its instructions are known. again: the share of its cycles that goes into reading constants more than
    once, which was never measured by itself. placement: what a memory whose wait is not counted was measured to cost.
    """
    if not modelled:
        return Doubt(*BYTES_DOUBT)
    low, high = target.core.float_band if precision == "float32" else (1.0, 1.0)
    if not _measured(precision, target.timing):
        low, high = TYPE_DOUBT
    return Doubt(low * (1 - again), high * (placement or 1.0))


def _measured(precision: Precision, timing: Timing | None) -> bool:
    return timing is None or not timing.types or precision in timing.types


def uncounted_placement(target: Target, speeds: Speeds) -> float | None:
    """The largest published factor of a memory that the target uses and whose wait no figure of its profile tells.

    A timing that was measured on the board has that wait in it.
    """
    if target.is_calibrated:
        return None
    arena, model = target.arena_region, target.flash_region
    placements: list[Placement] = []
    if arena is not None and arena.kind == "external-ram" and not speeds.arena_stall:
        placements.append("arena-in-external-ram")
    if model is not None and model.kind == "external-flash" and not speeds.constant_stall:
        placements.append("constants-in-external-flash")
    return max((_published(placement) for placement in placements), default=None)


@cache
def _published(placement: Placement) -> float:
    return max((effect.factor for effect in load_placement_effects() if effect.placement == placement), default=1.0)


def validation_of(
    target: Target,
    operators: Sequence[OperatorEstimate],
    again: Sequence[float],
    placement: float | None,
) -> tuple[Validation, str]:
    """The status of the whole estimate and what it rests on: the timing's, unless the model is another matter."""
    timing = target.timing
    if timing is None:
        if target.bandwidth_gbps is None:
            return "none", f"the speed of {target.name} is unknown"
        return "bandwidth only", f"{target.name} is described only by its memory bandwidth"
    status: Validation = timing.status
    reasons = [timing.basis]
    total = sum(item.cycles for item in operators) or 1
    others = [item for item in operators if not _measured(item.precision, timing)]
    share = sum(item.cycles for item in others) / total
    if share > SOME:
        names = " and ".join(sorted({item.precision for item in others}))
        reasons.append(f"no {names} model was measured")
        status = "unvalidated" if share > MOST else _at_most_extrapolated(status)
    if sum(again) / total > SOME:
        reasons.append("repeated reads of constants over the serial bus were not measured separately")
        status = _at_most_extrapolated(status)
    if placement is not None:
        reasons.append("the time does not include waiting for off-chip memory")
        status = "unvalidated"
    return status, "; ".join(reasons)


def _at_most_extrapolated(status: Validation) -> Validation:
    return "extrapolated" if status == "calibrated" else status
