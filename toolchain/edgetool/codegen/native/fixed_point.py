"""Fixed-point scales: TFLM's double rounding, and one multiplication that gives the same codes.

TFLM scales an accumulator with SaturatingRoundingDoublingHighMul and RoundingDivideByPOT, two roundings. Both are
non-decreasing in the accumulator, so that the scaled value is described by its thresholds: the smallest accumulator of
each output code. A line (acc * M + C) >> S is another such function, and equals the first for all accumulators that
a channel can have if its thresholds are the same: for each threshold t of code v, t * M + C >= v * 2^S and
(t - 1) * M + C < v * 2^S. For a given M, these are bounds on C, and the line exists if the highest lower bound is not
above the lowest upper bound. This is a proof for every accumulator, not a sample.

Layers with outputs on both sides of their zero point seldom have lines, because the second rounding is away from zero.
It is (high + 2^(right - 1) - (high < 0)) >> right, and high is negative if acc is, except that high is 0 for an acc of
-1 and a multiplier of 2^30, where both forms give 0. So "sign", ((acc * m + 2^30) >> 31) + 2^(right - 1) + (acc >> 31),
shifted right, equals the double rounding if right is at least 1 and the sum does not overflow.

With t computed from the inverses of both roundings (floor((acc * m + 2^30) / 2^31) and, of that, rounding half away
from zero), the thresholds are exact integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import frexp, isfinite
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from edgetool.codegen.native.program import Constant, RangeError

Integers = npt.NDArray[np.int64]
DOUBLE_ROUNDING, WIDE, SIGN = 255, 254, 253  # EDGETOOL_DOUBLE_ROUNDING, EDGETOOL_WIDE, EDGETOOL_SIGN
# Multipliers around the real scale that are tried for a line.
TRIED_MULTIPLIERS = 9
# Layers and channels that are computed once for all programs of a model.
KNOWN, KNOWN_MULTIPLIERS = 1024, 2**16
TOGETHER = 64  # channels, of which each has a number for each of 256 codes


class Multiplier(NamedTuple):
    """real = value * 2^(shift - 31), with value from 2^30 to 2^31 - 1, or 0.

    Source: QuantizeMultiplier (quantization_util.cc).
    """

    value: int
    shift: int

    @property
    def left(self) -> int:
        """The bits by which a number is shifted left before the multiplication."""
        return max(self.shift, 0)

    @property
    def right(self) -> int:
        """The bits by which the product is shifted right, with rounding."""
        return max(-self.shift, 0)


@lru_cache(maxsize=KNOWN_MULTIPLIERS)
def quantize_multiplier(real: float) -> Multiplier:
    """Return the fixed-point form of a real multiplier, as QuantizeMultiplier does (double rounding).

    Raises:
        RangeError: The multiplier is infinite or NaN, for which TFLM's conversion to an integer is undefined.
    """
    if not isfinite(real):
        raise RangeError("the quotient of its scales is not finite")
    if real == 0.0:
        return Multiplier(0, 0)
    fraction, shift = frexp(real)
    value = _round_half_away(fraction * 2.0**31)
    if value == 2**31:
        value, shift = value // 2, shift + 1
    if shift < -31:
        return Multiplier(0, 0)
    if shift > 30:
        return Multiplier(2**31 - 1, 30)
    return Multiplier(value, shift)


def _round_half_away(value: float) -> int:
    # Sums are exact: numbers below 2^31 leave 22 bits for what is behind the point.
    return int(value + 0.5) if value >= 0 else -int(0.5 - value)


def multiply(values: Any, multiplier: Multiplier) -> Integers:
    """Return MultiplyByQuantizedMultiplier of int32 values (common.cc), as int64; a left shift wraps to int32."""
    wide = np.asarray(values, np.int64) << multiplier.left
    wrapped = (wide + 2**31) % 2**32 - 2**31
    high = (wrapped * multiplier.value + 2**30) >> 31
    if not multiplier.right:
        return np.asarray(high, np.int64)
    half = 1 << (multiplier.right - 1)
    return np.asarray((high + half - (high < 0)) >> multiplier.right, np.int64)


@dataclass(frozen=True, slots=True)
class Reach:
    """The smallest and largest sum of products of each channel, over all input codes. Arrays of shape (channels,)."""

    low: Integers
    high: Integers

    def fits(self, offsets: Integers, bits: int = 32) -> bool:
        """Return whether the sums fit signed integers of this size, with and without the offsets.

        So do the sums of the first products, if 0 is a code.
        """
        if ((offsets < -(2**bits)) | (offsets > 2**bits)).any():
            return False  # of 64 bits, which can wrap below
        lowest = min((self.low + offsets).min(initial=0), self.low.min(initial=0))
        highest = max((self.high + offsets).max(initial=0), self.high.max(initial=0))
        return bool(-(2 ** (bits - 1)) <= lowest and highest < 2 ** (bits - 1))


def reach_of_weights(weights: npt.NDArray[Any], low: int = -128, high: int = 127) -> Reach:
    """Return what sums of weight times input code can be, for codes from low to high.

    Args:
        weights: The weights as (channels, products).
    """
    positive = (weights * (weights > 0)).sum(axis=1, dtype=np.int64)
    negative = weights.sum(axis=1, dtype=np.int64) - positive
    return Reach(positive * low + negative * high, positive * high + negative * low)


@dataclass(frozen=True, slots=True)
class Scales:
    """The scales of a layer: one edgetool_scale for each channel, and the shift of all of them."""

    constant: Constant
    shift: int

    @property
    def is_line(self) -> bool:
        """Whether every channel has a line."""
        return self.shift not in (DOUBLE_ROUNDING, WIDE, SIGN)


def layer_scales(
    multipliers: list[Multiplier],
    offsets: Integers,
    reach: Reach,
    zero_point: int,
    low: int,
    high: int,
) -> Scales:
    """Return the scales of a layer: lines if every channel has one, else "sign" if it is exact, else double rounding.

    Args:
        multipliers: One for each channel.
        offsets: What is added to the sum of weight times input code: bias, and the folded zero point of the input.
        reach: The possible sums without the offset.
        zero_point: The output's zero point.
        low: The lowest output code.
        high: The highest output code.
    """
    arrays = (np.asarray(item, np.int64).tobytes() for item in (offsets, reach.low, reach.high))
    return _layer_scales(tuple(multipliers), *arrays, zero_point, low, high)


@lru_cache(maxsize=KNOWN)
def _layer_scales(
    known: tuple[Multiplier, ...],
    offset_bytes: bytes,
    low_bytes: bytes,
    high_bytes: bytes,
    zero_point: int,
    low: int,
    high: int,
) -> Scales:
    offsets, lowest, highest = (np.frombuffer(data, np.int64) for data in (offset_bytes, low_bytes, high_bytes))
    multipliers, reach = list(known), Reach(lowest, highest)
    lines = find_lines(multipliers, reach.low + offsets, reach.high + offsets, zero_point, low, high)
    if lines is None:
        return sign_scales(multipliers, offsets, reach) or double_rounding_scales(multipliers, offsets)
    slopes, intercepts, shift = lines
    return Scales(_packed(slopes, intercepts + slopes * offsets), shift)


def sign_scales(multipliers: list[Multiplier], offsets: Integers, reach: Reach) -> Scales | None:
    """Return the scales of a layer in the form "sign", None if it may differ or overflow."""
    # Below 2^30, the product is, and neither it nor the half of the largest divisor exceed 32 bits together.
    if not reach.fits(offsets, 31) or any(item.value < 0 or (item.value and not item.right) for item in multipliers):
        return None
    values = np.array([item.value for item in multipliers], np.int64)
    shifts = np.array([max(item.right, 1) for item in multipliers], np.int64)
    return Scales(_constant(values, offsets, shifts), SIGN)


def double_rounding_scales(multipliers: list[Multiplier], offsets: Integers) -> Scales:
    """Return the scales of a layer as double roundings."""
    return Scales(_double_rounding(multipliers, offsets), DOUBLE_ROUNDING)


def wide_scales(multipliers: list[Multiplier], offsets: Integers, reach: Reach) -> Scales | None:
    """Return the scales of sums of 64 bits, None if a product may exceed 64 bits or TFLM's shift is undefined.

    Source: MultiplyByQuantizedMultiplier of an int64 (common.cc), which rounds the multiplier to 15 bits.
    """
    slopes = np.array([min((item.value + (1 << 15)) >> 16, 0x7FFF) for item in multipliers], np.int64)
    shifts = np.array([15 - item.shift for item in multipliers], np.int64)
    if (shifts < 1).any() or not reach.fits(offsets, 48):
        return None
    return Scales(_packed(slopes | shifts << 16, slopes * offsets + (1 << (shifts - 1))), WIDE)


def _double_rounding(multipliers: list[Multiplier], offsets: Integers) -> Constant:
    values = np.array([item.value for item in multipliers], np.int64)
    shifts = np.array([item.left << 16 | item.right for item in multipliers], np.int64)
    return _constant(values, offsets, shifts)


def _packed(slopes: Integers, intercepts: Integers) -> Constant:
    return _constant(slopes, intercepts & 0xFFFFFFFF, intercepts >> 32)


def _constant(first: Integers, second: Integers, third: Integers) -> Constant:
    table = np.stack([first, second, third], axis=1)
    wrapped = (table & 0xFFFFFFFF).astype("<u4")
    return Constant("edgetool_scale", wrapped.tobytes(), "scales")


# Shifts beyond the upper word: with 21, all sums stay within 64 bits for codes of 8 bits.
MAX_LINE_SHIFT = 21


def find_lines(
    multipliers: list[Multiplier], lowest: Integers, highest: Integers, zero_point: int, low: int, high: int
) -> tuple[Integers, Integers, int] | None:
    """Return slopes and intercepts of lines that equal the double rounding, and the shift beyond 32 bits.

    Args:
        multipliers: One for each channel.
        lowest: The smallest accumulator of each channel.
        highest: The largest.
        zero_point: The output's zero point.
        low: The lowest output code, to which smaller values are clamped.
        high: The highest.

    Returns:
        None if a channel has no line with a shift that all channels share, or if a left shift may overflow.
    """
    values = np.array([item.value for item in multipliers], np.int64)
    shifts = np.array([item.shift for item in multipliers], np.int64)
    live = values > 0
    # The slope value * 2^(shift + 1 + line_shift) must be below 2^31 for every channel.
    line_shift = min(MAX_LINE_SHIFT, int(-1 - shifts[live].max(initial=-1 - MAX_LINE_SHIFT)))
    if line_shift < 0 or (values < 0).any() or max(-lowest.min(), highest.max()) >= 2**31:
        return None
    bits = 32 + line_shift
    real = values * np.exp2(shifts + 1.0 + line_shift)
    codes = np.arange(low, high + 2, dtype=np.int64)
    found = []
    for at in slices_of_channels(len(values)):
        least, most = lowest[at], highest[at]
        steps = _thresholds(values[at], shifts[at], codes - zero_point)
        first = np.clip(zero_point + _multiplied(least, values[at], shifts[at]), low, high)
        last = zero_point + _multiplied(most, values[at], shifts[at])
        # At its threshold the line must have reached the code, and just below it must not. Beyond the reachable
        # accumulators, only the first and the last one matter.
        reached = (codes > low) & (codes <= high) & (codes <= last[:, None]) & (steps >= least[:, None] + 1)
        behind = np.clip(last, low, high) + 1
        start = _Points(least, first << bits, first > low)
        end = _Points(most, behind << bits, behind <= high)
        lines = _fit_lines(real[at], _Points(steps, codes << bits, reached), start, end)
        if lines is None:
            return None
        found.append(lines)
    slopes, intercepts = (np.concatenate(items) for items in zip(*found, strict=True))
    return slopes, intercepts, line_shift


def slices_of_channels(count: int) -> list[slice]:
    """Return a layer's channels in parts whose numbers for all codes fit in a cache."""
    return [slice(start, start + TOGETHER) for start in range(0, count, TOGETHER)]


def _thresholds(values: Integers, shifts: Integers, results: Integers) -> Integers:
    """Return, by channel and result, the smallest accumulator whose scaled value is at least the result.

    Results that no int32 reaches have thresholds beyond int32.
    """
    right, multiplier = np.maximum(-shifts, 0)[:, None], np.maximum(values, 1)[:, None]
    half = np.where(right > 0, 1 << np.maximum(right - 1, 0), 0)
    # The smallest value that RoundingDivideByPOT maps to the result: half is rounded away from zero.
    high = (results << right) - half + ((results <= 0) & (right > 0))
    high = np.clip(high, -(2**31), 2**31)
    # The smallest product with floor((product + 2^30) / 2^31) >= high, and the smallest factor for it.
    return np.asarray(-(-((high << 31) - (1 << 30)) // multiplier), np.int64)


def _multiplied(accumulators: Integers, values: Integers, shifts: Integers) -> Integers:
    """Return the scaled value of one accumulator for each channel; shifts are not positive."""
    right = np.maximum(-shifts, 0)
    high = (accumulators * values + 2**30) >> 31
    half = np.where(right > 0, 1 << np.maximum(right - 1, 0), 0)
    return np.asarray((high + half - ((high < 0) & (right > 0))) >> right, np.int64)


@dataclass(frozen=True, slots=True)
class _Points:
    """Accumulators of each channel, the levels of their codes, and which of them matter."""

    accumulators: Integers
    levels: Integers
    matter: npt.NDArray[np.bool_]


def _fit_lines(
    real: npt.NDArray[np.float64], steps: _Points, start: _Points, end: _Points
) -> tuple[Integers, Integers] | None:
    """Return for each channel the slope nearest to the real one that has an intercept, and this.

    Args:
        real: The slope of each channel.
        steps: The thresholds of the codes, of shape (channels, codes); levels are the same for all channels.
        start: The smallest accumulator of each channel, at which the line must have reached the level.
        end: The largest one, at which it must not.
    """
    count = len(real)
    slopes, intercepts = np.zeros(count, np.int64), np.zeros(count, np.int64)
    rest = np.arange(count)
    # In the place of points that do not matter, one that does.
    has_steps, places = np.asarray(steps.matter.any(axis=1)), steps.matter.argmax(axis=1)
    thresholds = np.where(steps.matter, steps.accumulators, steps.accumulators[rest, places][:, None])
    levels = np.where(steps.matter, steps.levels, steps.levels[places][:, None])
    tried = sorted(range(-(TRIED_MULTIPLIERS // 2), TRIED_MULTIPLIERS // 2 + 1), key=abs)
    for delta in tried:
        slope = np.where(real[rest] > 0, np.round(real[rest]).astype(np.int64) + delta, 0)
        usable = (slope >= 0) & (slope < 2**31)
        points = levels[rest] - thresholds[rest] * slope[:, None]
        least = np.where(has_steps[rest], points.max(axis=1), _LOWEST)
        most = np.where(has_steps[rest], points.min(axis=1) + slope - 1, _HIGHEST)
        reached = start.levels[rest] - start.accumulators[rest] * slope
        missed = end.levels[rest] - 1 - end.accumulators[rest] * slope
        least = np.maximum(least, np.where(start.matter[rest], reached, _LOWEST))
        most = np.minimum(most, np.where(end.matter[rest], missed, _HIGHEST))
        fits = usable & (least <= most)
        middle = np.where(least == _LOWEST, most, np.where(most == _HIGHEST, least, least + (most - least) // 2))
        slopes[rest[fits]], intercepts[rest[fits]] = slope[fits], middle[fits]
        rest = rest[~fits]
        if not len(rest):
            return slopes, intercepts
    return None


_LOWEST, _HIGHEST = -(2**62), 2**62
