"""Functions of fixed-point numbers, bit for bit as in gemmlowp's fixedpoint.h, on arrays of int64.

A number with `bits` integer bits is an int32 in units of 2^(bits - 31). Where gemmlowp's int32 wraps, so do these.
"""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
ONE = 2**31 - 1  # with 0 integer bits
QUARTER = -2  # the exponents of 1/4 and of 16, the ends of the range of an exponential's factors
LAST_FACTOR = 4
NEWTON_STEPS = 3


def wrapped(values: Any) -> Integers:
    """Return numbers as int32 holds them."""
    return np.asarray((np.asarray(values, np.int64) + 2**31) % 2**32 - 2**31, np.int64)


def high_mul(first: Any, second: Any) -> Integers:
    """Return SaturatingRoundingDoublingHighMul of int32 numbers: the product of fixed-point numbers."""
    return np.asarray(np.minimum((np.asarray(first, np.int64) * second + 2**30) >> 31, ONE), np.int64)


def divide_pot(values: Any, shift: int) -> Integers:
    """Return RoundingDivideByPOT: values / 2^shift, rounded half away from zero."""
    numbers = np.asarray(values, np.int64)
    if not shift:
        return numbers
    return np.asarray((numbers + (1 << (shift - 1)) - (numbers < 0)) >> shift, np.int64)


def multiply_pot(values: Any, shift: int) -> Integers:
    """Return SaturatingRoundingMultiplyByPOT with a positive exponent."""
    numbers = np.asarray(values, np.int64)
    threshold = (1 << (31 - shift)) - 1
    shifted = wrapped(numbers << shift)
    return np.where(numbers > threshold, ONE, np.where(numbers < -threshold, -(2**31), shifted))


def exp_on_negative_values(values: Any, bits: int) -> Integers:
    """Return exp of numbers of at most 0 with integer bits, with 0 integer bits."""
    numbers = np.asarray(values, np.int64)
    fraction = 31 - bits
    quarter = 1 << (fraction + QUARTER)
    modulo = (numbers & (quarter - 1)) - quarter
    remainder = wrapped(modulo - numbers)
    result = _exp_below_a_quarter(wrapped(multiply_pot(modulo, bits) if bits else modulo))
    for exponent in range(QUARTER, LAST_FACTOR + 1):
        if bits > exponent:
            factor = round(2**31 * exp(-(2.0**exponent)))
            result = np.where(remainder & (1 << (fraction + exponent)), high_mul(result, factor), result)
    if bits > 5:  # gemmlowp clamps numbers below -32
        result = np.where(numbers < -(1 << (36 - bits)), 0, result)
    return np.where(numbers == 0, ONE, result)


def _exp_below_a_quarter(values: Integers) -> Integers:
    """Return exp of numbers from -1/4 to 0 with 0 integer bits, by a Taylor series around -1/8."""
    constant, third = round(2**31 * exp(-1 / 8)), round(2**31 / 3)
    x = values + (1 << 28)
    square = high_mul(x, x)
    cube, fourth = high_mul(square, x), high_mul(square, square)
    inner = divide_pot(high_mul(divide_pot(fourth, 2) + cube, third) + square, 1)
    return wrapped(constant + high_mul(constant, wrapped(x + inner)))


def _inverse(values: Integers) -> Integers:
    """Return 2 / (1 + x) of x from 0 to 1, with 2 integer bits, by Newton's method."""
    total = values + ONE
    half = np.where(total >= 0, (total + 1) // 2, -((1 - total) // 2))  # RoundingHalfSum
    x = wrapped(round(2**29 * 48 / 17) + high_mul(half, -round(2**29 * 32 / 17)))
    for _ in range(NEWTON_STEPS):
        rest = wrapped((1 << 29) - high_mul(half, x))
        x = wrapped(x + multiply_pot(high_mul(x, rest), 2))
    return x


def one_over_one_plus_x(values: Any) -> Integers:
    """Return 1 / (1 + x) of x from 0 to 1, all with 0 integer bits (one_over_one_plus_x_for_x_in_0_1)."""
    return multiply_pot(_inverse(np.asarray(values, np.int64)), 1)


def one_minus_x_over_one_plus_x(values: Any) -> Integers:
    """Return (1 - x) / (1 + x) of x from 0 to 1, all with 0 integer bits."""
    return multiply_pot(wrapped(_inverse(np.asarray(values, np.int64)) - (1 << 29)), 2)


def logistic(values: Any, bits: int) -> Integers:
    """Return 1 / (1 + exp(-x)) of numbers with integer bits, with 0 integer bits."""
    numbers = np.asarray(values, np.int64)
    positive = one_over_one_plus_x(exp_on_negative_values(-np.abs(numbers), bits))
    return np.where(numbers == 0, 1 << 30, np.where(numbers > 0, positive, ONE - positive))


def tanh(values: Any, bits: int) -> Integers:
    """Return tanh of numbers with integer bits, with 0 integer bits."""
    numbers = np.asarray(values, np.int64)
    # Twice the number has one more integer bit.
    negative = one_minus_x_over_one_plus_x(exp_on_negative_values(-np.abs(numbers), bits + 1))
    return np.where(numbers == 0, 0, np.where(numbers < 0, -negative, negative))


def inverse_square_root(value: int) -> tuple[int, int]:
    """Return multiplier and shift of 1 / sqrt(value) for value >= 0, as GetInvSqrtQuantizedMultiplierExp (common.h).

    The shift is to the left; 0 is treated as 1.
    """
    if value <= 1:
        return ONE, 0
    shift = 11
    while value >= 1 << 29:
        value //= 4
        shift += 1
    pairs = (31 - value.bit_length()) // 2 - 1
    shift -= pairs
    value <<= 2 * pairs
    number = np.array(value >> 1, np.int64)
    half, three_halves = divide_pot(number, 1), 3 << 27
    x = np.array(1 << 28, np.int64)
    for _ in range(5):
        # Products of numbers with 3 integer bits have 6, and of three of them 9.
        cube = multiply_pot(high_mul(high_mul(x, x), x), 6)
        x = multiply_pot(wrapped(high_mul(three_halves, x) - high_mul(half, cube)), 3)
    result = int(high_mul(x, round(2**31 * 0.5**0.5)))
    return (result << max(0, -shift), -max(0, shift))
