"""Calibration: the cycles per instruction and the wait for constants that fit a few measured times on a board.

The model is that of the estimate, cycles = cpi * instructions + stall * streamed bytes + rest, where the rest (an arena
in external RAM, operators without a rule) does not depend on the two. Several measurements determine the stall if they
separate it from the instructions; otherwise it remains that of the profile, and only the cycles per instruction are
fitted. Calibrating a calibrated profile again with the same measurements therefore does not change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, inf, isfinite, sqrt
from numbers import Real

from edgetool.errors import CalibrationError
from edgetool.estimate.latency import NOTABLE_SHARE, CountedOperator, estimate_model
from edgetool.estimate.memory_speed import speeds_of
from edgetool.estimate.types import OperatorEstimate
from edgetool.figure import in_text
from edgetool.finding import Finding
from edgetool.model.types import Model
from edgetool.target.profile import PRECISIONS, STALL_RANGE
from edgetool.target.types import Precision, Target, Timing

# The relative error of a good fit: two runtimes with the same kernels differ by as much (docs/accuracy.md).
NOISE = 0.05
# The stall is fitted only if errors of NOISE leave it uncertain by at most this many cycles per byte, or by at most
# this share of its value.
STALL_ERROR, STALL_SHARE = 0.5, 0.25
# A change of the stall by more than this number of cycles per byte and this factor means other memory for the
# constants.
STALL_MOVE, STALL_MOVE_FACTOR = 0.5, 2.0
# The maximum cycles that a byte from on-chip flash waits, if its wait states are not known.
ON_CHIP_STALL = 16.0
# The deviation of a measurement from the fit, as a share: above the first there is a warning, above the second an
# error.
DISAGREEING, CONTRADICTING = 0.2, 0.5
# The band by the number of models, as a share of the time; benchmarks.latency determines what covers nine of ten
# models.
SHARES = (0.15, 0.12, 0.10)
# The factor between the band and the deviation of the worst measurement.
BAND_MARGIN = 1.3
# The digits of a fitted figure, so that an estimate reproduces the measured time up to rounding.
DIGITS = 10
# An operator's band if the profile has none.
OPERATOR_BAND = (0.7, 1.4)
# The cycles per instruction and per byte of constants of three estimates, whose differences are a model's counts.
PROBES = ((1.0, 0.0), (2.0, 0.0), (1.0, 1.0))
# The usual causes of a time that no core can reach.
TOO_FAST = (
    "check the unit (us for ms?), the clock, the kernels (a faster runtime?), and that a whole inference was timed"
)
TOO_SLOW = (
    "check the unit (ms for us?), the clock, the build (-O0?), the kernels (reference?), and where the arena "
    "is located "
    "(external RAM?)"
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """A model and the milliseconds that one inference took on the board.

    counted: the executed instructions of its operators as native code; None for TFLM.
    """

    name: str
    model: Model
    ms: float
    counted: Sequence[CountedOperator] | None = None


@dataclass(frozen=True, slots=True)
class FittedMeasurement:
    """A measurement compared with the fit. residual is estimated / measured - 1, cpi the value that fits this one
    alone.

    instructions: those of float32 operators are weighted with the core's float_factor.
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
    """The fitted timing, the stall of the model's memory if it changed (None: that of the profile), and the
    measurements.

    The timing of native code contains its stall, because that of the memory was measured with TFLM's kernels.
    findings: measurements that hardly agree, and a stall that does not match the memory that the profile names.
    """

    timing: Timing
    stall_cycles_per_byte: float | None
    measurements: tuple[FittedMeasurement, ...]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class _Sample:
    """A measurement in the terms of the fit: cycles = cpi * instructions + stall * streamed + rest.

    moved, moved_streamed: the cycles of operators for which only the bytes are counted, as part of rest and streamed; a
    timing's band does not apply to them. types: the types of the operators that take a notable share
    of the time.
    """

    name: str
    ms: float
    cycles: float
    instructions: int
    streamed: float
    rest: float
    moved: float
    moved_streamed: float
    types: frozenset[Precision]

    def cpi(self, stall: float) -> float:
        return (self.cycles - self.rest - stall * self.streamed) / self.instructions

    def estimated(self, cpi: float, stall: float) -> float:
        return cpi * self.instructions + stall * self.streamed + self.rest

    def factor(self, cpi: float, stall: float) -> float:
        """Return the actual time of the counted operators relative to their estimate."""
        moved = self.moved + stall * self.moved_streamed
        return (self.cycles - moved) / (self.estimated(cpi, stall) - moved)

    def relative_error(self, cpi: float, stall: float) -> float:
        """Return the deviation from the estimate in either direction as a share: both twice and half give 1."""
        factor = self.factor(cpi, stall)
        return max(factor, 1 / factor) - 1 if factor > 0 else inf


def calibrate(target: Target, measurements: Sequence[Measurement]) -> Calibration:
    """Fit the target's kernels to the measurements.

    Raises CalibrationError naming the measurement: for a time that is not a number above 0, for a model without any
    counted operator, for a time that no cycles per instruction within the core's limits explain, and for a measurement
    that contradicts the others.
    """
    if not measurements:
        raise CalibrationError(
            "there are no measurements to calibrate with", where="measured", fix="specify a model and its measured time"
        )
    samples = [_sample(target, item) for item in measurements]
    profile_stall = speeds_of(target).constant_stall
    for sample in samples:
        _check_reachable(sample, target)
    cpi, stall = (_rounded(figure) for figure in _fit(samples, target))
    _check_fit(samples, cpi, stall, target)
    fits = tuple(_fitted(sample, cpi, stall) for sample in samples)
    return Calibration(
        timing=_timing(target, cpi, stall, samples, [sample.factor(cpi, stall) for sample in samples]),
        stall_cycles_per_byte=None if stall == _rounded(profile_stall) else stall,
        measurements=fits,
        findings=(
            *_disagreement_findings(samples, cpi, stall),
            *_memory_findings(samples, profile_stall, stall, target),
        ),
    )


def _sample(target: Target, item: Measurement) -> _Sample:
    """Return the model's counts: the differences between estimates with one more cycle per instruction or per byte."""
    ms = _milliseconds(item)
    estimates = [estimate_model(item.model, probe(target, *figures), counted=item.counted) for figures in PROBES]
    plain, slower, waiting = (estimate.cycles for estimate in estimates)
    if plain is None or slower is None or waiting is None or slower == plain:
        raise CalibrationError(
            f"there are no instruction counts for any of its operators on {target.core.name} with "
            f"{target.timed_kernels} kernels",
            where=item.name,
            fix="calibrate with a model that uses other operators, or on a core with instruction tables",
        )
    instructions = slower - plain
    moved, _, moved_waiting = (
        sum(o.cycles for o in estimate.operators if o.basis == "bytes") for estimate in estimates
    )
    return _Sample(
        name=item.name,
        ms=ms,
        cycles=ms * target.clock_hz / 1e3,
        instructions=instructions,
        streamed=waiting - plain,
        rest=plain - instructions,
        moved=moved,
        moved_streamed=moved_waiting - moved,
        types=_types(estimates[0].operators),
    )


def _types(operators: Sequence[OperatorEstimate]) -> frozenset[Precision]:
    total = sum(item.cycles for item in operators)
    shares = {word: sum(item.cycles for item in operators if item.precision == word) / total for word in PRECISIONS}
    return frozenset(word for word, share in shares.items() if share > NOTABLE_SHARE)


def _milliseconds(item: Measurement) -> float:
    value = item.ms
    if isinstance(value, bool) or not isinstance(value, Real) or not isfinite(value) or value <= 0:
        raise CalibrationError(
            f"measured_ms must be a finite number above 0, not {str(value)[:40]}",
            where=item.name,
            fix="specify the time of one inference in milliseconds",
        )
    return float(value)


def probe(target: Target, cpi: float, stall: float) -> Target:
    """Return the target with these cycles per instruction and per byte of constants."""
    region = target.flash_region
    timing = Timing(target.timed_kernels, cpi, 1.0, 1.0, 1.0, 1.0, "unvalidated", "a probe")
    regions = tuple(replace(r, stall_cycles_per_byte=stall) if r is region else r for r in target.regions)
    return replace(target, timings=(timing,), regions=regions)


def _fit(samples: Sequence[_Sample], target: Target) -> tuple[float, float]:
    """Fit cycles per instruction and per byte of constants, by the normal equations of the relative errors.

    The stall is that of the profile unless the samples determine it. If waiting alone would then take too long, the
    constants are in faster memory than the profile states: the stall is reduced to what remains of the time after the
    profile's cycles per instruction.
    """
    minimum, maximum = target.core.cpi_limits[0], _max_stall(target)
    rows = [(s.instructions / s.cycles, s.streamed / s.cycles, 1 - s.rest / s.cycles) for s in samples]
    nn, nb, bb = sum(n * n for n, _, _ in rows), sum(n * b for n, b, _ in rows), sum(b * b for _, b, _ in rows)
    ny, by = sum(n * y for n, _, y in rows), sum(b * y for _, b, y in rows)
    stall, minimum_cpi = speeds_of(target).constant_stall, minimum if target.timing is None else target.timing.cpi
    determinant = nn * bb - nb * nb  # 0 where all have the same share of constants
    if len(samples) > 1 and determinant > 1e-9 * nn * bb:
        fitted_stall = min(maximum, max(0.0, (nn * by - nb * ny) / determinant))
        if NOISE * sqrt(nn / determinant) <= max(STALL_ERROR, STALL_SHARE * fitted_stall):
            stall, minimum_cpi = fitted_stall, minimum
    cpi = (ny - nb * stall) / nn
    if cpi < minimum and bb:
        stall = min(maximum, max(0.0, (by - nb * minimum_cpi) / bb))
        cpi = max(minimum, (ny - nb * stall) / nn)
    return cpi, stall


def _max_stall(target: Target) -> float:
    """Return the maximum stall: a byte waits at most as long as a separate access, which is short in on-chip flash."""
    region = target.flash_region
    if region is None or region.kind == "external-flash":
        return STALL_RANGE[1]
    return ON_CHIP_STALL if region.wait_states is None else max(region.wait_states, STALL_MOVE)


def _rounded(figure: float) -> float:
    return float(f"{figure:.{DIGITS}g}")


def _check_reachable(sample: _Sample, target: Target) -> None:
    """Reject a time that is too short even without waiting, or too long even with the maximum stall."""
    low, high = target.core.cpi_limits
    if sample.cpi(0.0) < low:
        raise _beyond_limits(sample, sample.cpi(0.0), target)
    if sample.cpi(_max_stall(target)) > high:
        raise _beyond_limits(sample, sample.cpi(_max_stall(target)), target)


def _check_fit(samples: Sequence[_Sample], cpi: float, stall: float, target: Target) -> None:
    """Reject more cycles per instruction than the core's limit, and measurements that contradict each other."""
    if cpi > target.core.cpi_limits[1]:
        slowest = max(samples, key=lambda sample: sample.cpi(stall))
        raise _beyond_limits(slowest, slowest.cpi(stall), target)
    if max(sample.relative_error(cpi, stall) for sample in samples) > CONTRADICTING:
        raise _contradiction(samples, target)


def _beyond_limits(sample: _Sample, cpi: float, target: Target) -> CalibrationError:
    low, high = target.core.cpi_limits
    return CalibrationError(
        f"{in_text(sample.ms, 6)} ms at {target.clock_hz / 1e6:g} MHz corresponds to {in_text(cpi, 4)} cycles for "
        f"each of its {sample.instructions:,} instructions; {target.core.name} needs {low:g} to {high:g}",
        where=sample.name,
        fix=TOO_FAST if cpi < low else TOO_SLOW,
    )


def _contradiction(samples: Sequence[_Sample], target: Target) -> CalibrationError:
    """Return an error for the measurement without which the others agree best; of two, the one farther from the
    profile.
    """
    without = [[*samples[:i], *samples[i + 1 :]] for i in range(len(samples))]
    fits = [_fit(others, target) for others in without]
    timing, profile_stall = target.timing, speeds_of(target).constant_stall
    if len(samples) == 2 and timing is not None:
        worst = max(range(2), key=lambda i: samples[i].relative_error(timing.cpi, profile_stall))
    else:
        worst = min(range(len(samples)), key=lambda i: max(other.relative_error(*fits[i]) for other in without[i]))
    sample = samples[worst]
    expected = sample.ms * sample.estimated(*fits[worst]) / sample.cycles
    one = len(samples) == 2
    return CalibrationError(
        f"{in_text(sample.ms, 6)} ms contradicts the other measurement{'' if one else 's'}, which "
        f"predict{'s' if one else ''} {in_text(expected, 4)} ms",
        where=sample.name,
        fix="check its unit, and that all runs used the same build, clock and memory placement; otherwise, omit it",
    )


def _disagreement_findings(samples: Sequence[_Sample], cpi: float, stall: float) -> tuple[Finding, ...]:
    """Return a finding for the measurement that the fit explains worst, if the deviation is large."""
    worst = max(samples, key=lambda sample: sample.relative_error(cpi, stall))
    if worst.relative_error(cpi, stall) <= DISAGREEING:
        return ()
    fitted = worst.ms * worst.estimated(cpi, stall) / worst.cycles
    text = (
        f"the measurements are inconsistent: {in_text(worst.ms, 6)} ms was measured, but the fit to all of them gives "
        f"{in_text(fitted, 4)} ms;"
        " check the unit, build, clock and memory placement of each: the band covers their spread"
    )
    return (Finding("measurements-disagree", text, where=worst.name),)


def _memory_findings(
    samples: Sequence[_Sample], profile_stall: float, stall: float, target: Target
) -> tuple[Finding, ...]:
    """Return a finding if the constants seem to be in faster or slower memory than the profile's region."""
    region = target.flash_region
    minimum, maximum = sorted((profile_stall, stall))
    if region is None or (region.stall_cycles_per_byte is None and region.wait_states is None):
        return ()  # the profile does not state its speed
    if maximum - minimum <= STALL_MOVE or maximum <= STALL_MOVE_FACTOR * minimum:
        return ()
    advice = (
        "add a measurement of another model, to tell waiting time from instruction time"
        if len(samples) == 1
        else "check where the firmware stores them"
    )
    text = (
        f"the constants seem to be in {'faster' if stall < profile_stall else 'slower'} memory than {region.name}: the "
        "profile states"
        f" {in_text(profile_stall)} cycles per byte, but the measurements fit {in_text(stall)}; {advice}"
    )
    return (Finding("constants-elsewhere", text, where=region.name),)


def _fitted(sample: _Sample, cpi: float, stall: float) -> FittedMeasurement:
    cycles = sample.estimated(cpi, stall)
    return FittedMeasurement(
        name=sample.name,
        measured_ms=sample.ms,
        estimated_ms=sample.ms * cycles / sample.cycles,
        residual=cycles / sample.cycles - 1,
        instructions=sample.instructions,
        streamed_bytes=round(sample.streamed),
        cpi=sample.cpi(stall),
    )


def _timing(target: Target, cpi: float, stall: float, samples: Sequence[_Sample], factors: Sequence[float]) -> Timing:
    """Return the timing; its band is the wider of the published one for this number of models and that of the samples.

    factors: for each sample, the actual time of the counted operators relative to their estimate. Types that were
    measured on other boards with the core remain: their ratio is a property of the core and of the kernels.
    """
    share = SHARES[min(len(samples), len(SHARES)) - 1]
    low = floor(1e3 * min(1 - share, 1 - BAND_MARGIN * (1 - min(factors)))) / 1e3
    high = ceil(1e3 * max(1 + share, 1 + BAND_MARGIN * (max(factors) - 1))) / 1e3
    kernels, before = target.timed_kernels, target.timing
    operator = OPERATOR_BAND if before is None else (before.operator_low, before.operator_high)
    if before is not None and before.kernels != kernels:
        before = None
    with_stall = kernels == "native" or (before is not None and before.stall_cycles_per_byte is not None)
    types = frozenset[Precision]().union(*(sample.types for sample in samples), () if before is None else before.types)
    return Timing(
        kernels=kernels,
        cpi=cpi,
        low=low,
        high=high,
        operator_low=round(min(low, operator[0]), 3),
        operator_high=round(max(high, operator[1]), 3),
        status="calibrated",
        basis="measured on this board: " + ", ".join(f"{item.name} {item.ms:g} ms" for item in samples),
        types=() if before is not None and not before.types else tuple(word for word in PRECISIONS if word in types),
        stall_cycles_per_byte=stall if with_stall else None,
    )
