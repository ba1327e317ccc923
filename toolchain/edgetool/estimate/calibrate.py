"""From a few measured times to a board's speed: the cycles per instruction and the wait for constants that fit them.

The model is the estimate's own, cycles = cpi * instructions + stall * streamed bytes + rest, where the rest (an arena
in external RAM, operators without a rule) does not depend on the two. The search starts at the profile's stall: one
measurement moves the cycles per instruction alone, several move the stall as far as they can tell the two apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from numbers import Real

from edgetool.errors import CalibrationError
from edgetool.estimate.latency import estimate_model
from edgetool.estimate.memory_speed import speeds_of
from edgetool.model.types import Model
from edgetool.target.types import Target, Timing

# What a good fit leaves over, relative: two runtimes with the same kernels differ by as much (docs/accuracy.md).
NOISE = 0.05
# How far the stall may be from the profile's before the fit resists, in cycles per byte; at least this.
STALL_SPREAD = 0.5
# The band by the number of models, as a share of the time; benchmarks.latency finds what holds nine of ten models.
SHARES = (0.15, 0.12, 0.10)
# The band is never narrower than the worst residual by this factor.
RESIDUAL_MARGIN = 1.3
# What is left of an operator's band where the profile has none.
OPERATOR_BAND = (0.7, 1.4)
# Cycles per instruction and per byte of constants of the estimates that a model's counts are the differences of.
PROBES = ((1.0, 0.0), (2.0, 0.0), (1.0, 1.0))
# What mostly lies behind a time that no core reaches.
TOO_FAST = (
    "check the unit (us for ms?), the clock, the kernels (a faster runtime?), and that a whole inference was timed"
)
TOO_SLOW = (
    "check the unit (ms for us?), the clock, the build (-O0?), the kernels (reference?), and where the arena lies "
    "(external RAM?)"
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """A model and the milliseconds that one inference took on the board."""

    name: str
    model: Model
    ms: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """One measurement against the fit. residual is estimated / measured - 1, cpi what this one alone would say.

    instructions: those of float32 operators count as many times as the core's float_factor says.
    """

    name: str
    measured_ms: float
    estimated_ms: float
    residual: float
    instructions: int
    streamed_bytes: int
    cpi: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The timing that fits, the stall of the model's memory where it moved (None: as the profile has it), the rest."""

    timing: Timing
    stall_cycles_per_byte: float | None
    measurements: tuple[Fitted, ...]


@dataclass(frozen=True, slots=True)
class _Sample:
    """A measurement as the fit sees it: cycles = cpi * instructions + stall * streamed + rest."""

    name: str
    ms: float
    cycles: float
    instructions: int
    streamed: float
    rest: float

    def cpi(self, stall: float) -> float:
        return (self.cycles - self.rest - stall * self.streamed) / self.instructions


def calibrate(target: Target, measurements: Sequence[Measurement]) -> Calibration:
    """Fit the target's kernels to the measurements.

    Raises CalibrationError naming the measurement: for a time that is not a number above 0, for a model of which no
    operator is counted, and for a time that no cycles per instruction within the core's limits explain.
    """
    if not measurements:
        raise CalibrationError("there is nothing to calibrate on", where="measured", fix="give a model and its time")
    samples = [_sample(target, item) for item in measurements]
    known = speeds_of(target).constant_stall
    cpi, stall = _fit(samples, known)
    for sample in samples:
        _check_limits(sample, sample.cpi(stall), target)
    fits = tuple(_fitted(sample, cpi, stall) for sample in samples)
    moved = len(samples) > 1 and abs(stall - known) > 1e-9
    return Calibration(_timing(target, cpi, fits), round(stall, 4) if moved else None, fits)


def _sample(target: Target, item: Measurement) -> _Sample:
    """The model's counts: what estimates with one more cycle per instruction, and per byte of constants, differ by."""
    ms = _milliseconds(item)
    plain, slower, waiting = (estimate_model(item.model, probe(target, *figures)).cycles for figures in PROBES)
    if plain is None or slower is None or waiting is None or slower == plain:
        raise CalibrationError(
            f"none of its operators is counted for {target.core.name} with {target.kernels} kernels",
            where=item.name,
            fix="calibrate on a model of other operators, or on a core with instruction tables",
        )
    instructions = slower - plain
    cycles = ms * target.clock_hz / 1e3
    return _Sample(item.name, ms, cycles, instructions, waiting - plain, plain - instructions)


def _milliseconds(item: Measurement) -> float:
    value = item.ms
    if isinstance(value, bool) or not isinstance(value, Real) or not isfinite(value) or value <= 0:
        raise CalibrationError(
            f"measured_ms must be a finite number above 0, not {str(value)[:40]}",
            where=item.name,
            fix="give the milliseconds of one inference",
        )
    return float(value)


def probe(target: Target, cpi: float, stall: float) -> Target:
    """The target with these cycles per instruction and per byte of constants."""
    region = target.flash_region
    timing = Timing(target.kernels, cpi, 1.0, 1.0, 1.0, 1.0, "unvalidated", "a probe")
    regions = tuple(replace(r, stall_cycles_per_byte=stall) if r is region else r for r in target.regions)
    return replace(target, timings=(timing,), regions=regions)


def _fit(samples: Sequence[_Sample], known: float) -> tuple[float, float]:
    """Least squares of the relative errors, each against NOISE, and of the stall against the known one.

    Two unknowns: the normal equations by hand. A stall below 0 is 0.
    """
    rows = [(s.instructions / s.cycles, s.streamed / s.cycles, 1 - s.rest / s.cycles) for s in samples]
    weight = (NOISE / max(known, STALL_SPREAD)) ** 2
    nn = sum(n * n for n, _, _ in rows)
    nb = sum(n * b for n, b, _ in rows)
    bb = sum(b * b for _, b, _ in rows) + weight
    ny = sum(n * y for n, _, y in rows)
    by = sum(b * y for _, b, y in rows) + weight * known
    stall = max(0.0, (nn * by - nb * ny) / (nn * bb - nb * nb))
    return (ny - nb * stall) / nn, stall


def _check_limits(sample: _Sample, cpi: float, target: Target) -> None:
    low, high = target.core.cpi_limits
    if low <= cpi <= high:
        return
    raise CalibrationError(
        f"{sample.ms:g} ms at {target.clock_hz / 1e6:g} MHz would be {cpi:.3g} cycles for each of its"
        f" {sample.instructions:,} instructions; {target.core.name} takes {low:g} to {high:g}",
        where=sample.name,
        fix=TOO_FAST if cpi < low else TOO_SLOW,
    )


def _fitted(sample: _Sample, cpi: float, stall: float) -> Fitted:
    cycles = cpi * sample.instructions + stall * sample.streamed + sample.rest
    return Fitted(
        name=sample.name,
        measured_ms=sample.ms,
        estimated_ms=sample.ms * cycles / sample.cycles,
        residual=cycles / sample.cycles - 1,
        instructions=sample.instructions,
        streamed_bytes=round(sample.streamed),
        cpi=sample.cpi(stall),
    )


def _timing(target: Target, cpi: float, fits: Sequence[Fitted]) -> Timing:
    """The band is the wider of what others' measurements leave, by their number, and of what these do."""
    worst = max(abs(item.residual) for item in fits)
    share = min(0.9, max(SHARES[min(len(fits), len(SHARES)) - 1], RESIDUAL_MARGIN * worst))
    before = target.timing
    operator = OPERATOR_BAND if before is None else (before.operator_low, before.operator_high)
    low, high = 1 - share, 1 + share
    return Timing(
        kernels=target.kernels,
        cpi=float(f"{cpi:.5g}"),
        low=round(low, 3),
        high=round(high, 3),
        operator_low=round(min(low, operator[0]), 3),
        operator_high=round(max(high, operator[1]), 3),
        status="calibrated",
        basis="measured on this board: " + ", ".join(f"{item.name} {item.measured_ms:g} ms" for item in fits),
    )
