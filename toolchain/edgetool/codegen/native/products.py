"""Lines without sums of 64 bits: ((sum + shifted) * M + half >> 32) + raised, where half is 0 or 2^31.

A line is (sum * M + C) >> (32 + shift): see fixed_point.py. If C is shifted * M + half + raised * 2^32, adding
`shifted` to the sum and `raised` to the product's upper word gives the same number with one multiplication of which
only the upper word is needed. A line has a range of intercepts C that give the same codes, some thousandths of M wide,
and raised can be any number: Euclid's algorithm finds the first one with a C of this form, whose `shifted` is the
smallest. A smaller shift, with a smaller M, gives the same codes if there still is an intercept for it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from edgetool.codegen.native.fixed_point import KNOWN, Integers, Reach, Scales, slices_of_channels

# Slopes around the real one that are tried.
TRIED = sorted(range(-4, 5), key=abs)
_LOWEST, _HIGHEST = -(2**62), 2**62


def product_scales(
    scales: Scales, reach: Reach, low: int, high: int, *, shift: int | None = None, half: int = 0
) -> Scales | None:
    """Return the scales of a layer in the form of products, None if a channel has none.

    Args:
        scales: The same layer's lines.
        reach: The possible sums of weight times input code.
        low: The lowest output code.
        high: The highest output code.
        shift: The shift that the products shall have; that of the lines if it is omitted.
        half: What is added to a product before its lower word is cut off.
    """
    wanted = scales.shift if shift is None else shift
    if not scales.is_line or wanted > scales.shift:
        return None
    return _products(scales, reach.low.tobytes(), reach.high.tobytes(), low, high, wanted, half)


@lru_cache(maxsize=KNOWN)
def _products(
    scales: Scales, least_sums: bytes, greatest_sums: bytes, low: int, high: int, wanted: int, half: int
) -> Scales | None:
    table = np.frombuffer(scales.constant.data, "<u4").reshape(-1, 3).astype(np.int64)
    least, most = (np.frombuffer(data, np.int64) for data in (least_sums, greatest_sums))
    found = np.zeros((len(table), 3), np.int64)
    for at in slices_of_channels(len(table)):
        products = _products_of(table[at], Reach(least[at], most[at]), low, high, scales.shift, wanted, half)
        if products is None:
            return None
        found[at] = products
    packed = (found & 0xFFFFFFFF).astype("<u4")
    return Scales(replace(scales.constant, data=packed.tobytes()), wanted)


def _products_of(
    table: Integers, reach: Reach, low: int, high: int, shift: int, wanted: int, half: int
) -> Integers | None:
    """Return the slope, `shifted` and `raised` of each channel, None if one has none.

    Args:
        table: The lines of the channels, as edgetool_scale has them.
        reach: The possible sums of the channels.
        low: The lowest output code.
        high: The highest output code.
        shift: That of the lines.
        wanted: That of the products.
        half: As for product_scales.
    """
    slopes = table[:, 0]
    intercepts = ((table[:, 2] + 2**31) % 2**32 - 2**31 << 32) + table[:, 1]
    codes = np.arange(low + 1, high + 1, dtype=np.int64)
    least, most = reach.low, reach.high
    starts = _starts(slopes, intercepts, codes << 32 + shift, least, most)
    reached, missed = starts <= most[:, None], starts > least[:, None]
    first, last = np.maximum(starts, least[:, None]), np.minimum(starts, most[:, None] + 1) - 1
    levels = (codes << 32 + wanted) - half
    real = np.rint(slopes / 2 ** (shift - wanted)).astype(np.int64)
    found = np.zeros((len(table), 3), np.int64)
    rest = np.arange(len(table))
    for tried in TRIED:
        # The intercepts with which the product reaches the level of each code where the line does, and not before.
        slope = real[rest] + tried
        lows = np.where(reached[rest], levels - first[rest] * slope[:, None], _LOWEST).max(axis=1, initial=_LOWEST)
        highs = np.where(missed[rest], levels - 1 - last[rest] * slope[:, None], _HIGHEST)
        ends = zip(slope.tolist(), lows.tolist(), highs.min(axis=1, initial=_HIGHEST).tolist(), strict=True)
        unsolved = []
        for channel, (factor, lowest, highest) in zip(rest.tolist(), ends, strict=True):
            pair = None
            if 0 <= factor < 2**31 and lowest <= highest:
                pair = _intercept(factor, lowest, highest, max(int(most[channel]), 0))
            if pair is None:
                unsolved.append(channel)
            else:
                found[channel] = factor, *pair
        if not unsolved:
            return found
        rest = np.array(unsolved, np.int64)
    return None


def _starts(slopes: Integers, intercepts: Integers, levels: Integers, least: Integers, most: Integers) -> Integers:
    """Return the least sum at which each channel's line reaches each of the levels.

    Without a slope, it is the least sum that there is, or what is behind the greatest one.
    """
    behind = intercepts[:, None] - levels
    without = np.where(behind >= 0, least[:, None], most[:, None] + 1)
    return np.where(slopes[:, None] > 0, -(behind // np.maximum(slopes, 1)[:, None]), without)


def _intercept(slope: int, least: int, most: int, greatest_sum: int) -> tuple[int, int] | None:
    """Return `shifted` and `raised` for an intercept from least to most, None if there are none."""
    first = most >> 32
    if least <= first << 32:
        return (0, first) if -(2**31) <= first < 2**31 else None
    if not slope:
        return None
    # The upper word falls until a multiple of the slope is in the range.
    low, high = -(most - (first << 32)) % slope, -(least - (first << 32)) % slope
    falls = 0 if low > high or most - least >= slope else first_multiple(2**32 % slope, slope, low, high)
    if falls is None:
        return None
    raised = first - falls
    shifted = -((raised * 2**32 - least) // slope)
    fits = raised >= -(2**31) and shifted + greatest_sum < 2**31
    return (shifted, raised) if fits else None


def first_multiple(factor: int, modulus: int, low: int, high: int) -> int | None:
    """Return the smallest count >= 0 for which low <= count * factor % modulus <= high, None if there is none."""
    if low == 0:
        return 0
    if factor == 0:
        return None
    count = -(-low // factor)
    if count * factor <= high:
        return count
    turns = first_multiple(modulus % factor, factor, -high % factor, -low % factor)
    return None if turns is None else -(-(low + modulus * turns) // factor)
